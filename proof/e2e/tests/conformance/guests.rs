// SPDX-License-Identifier: Apache-2.0
//! Connections that have not chosen an export, which anybody may open: they keep no client waiting, and take no place of one.

use crate::raw::Raw;
use crate::stage::{amend, over_tcp, prepared, socket, start, tell, wait_clients};
use helio_driver::Linux;
use helio_nbd::Client;
use helio_nbd::codec::{option, reply};
use helio_testkit::{Pair, in_time, require};
use helio_tls::NbdClientTls;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Strangers that shake hands at once: their signatures take a CPU a second and more.
const STRANGERS: usize = 500;
/// The longest time that a client may wait during the handshakes. They take one CPU, and the machine runs other tests.
const STALL: Duration = Duration::from_millis(400);

/// A pair whose paris has a key of RSA with 4096 bits, its address, and its certificate.
fn with_rsa() -> (Pair, SocketAddr, PathBuf) {
    let pair = prepared();
    let address = over_tcp(&pair);
    let [key, certificate] = ["key.pem", "certificate.pem"].map(|name| pair.scratch().join(name));
    let (key_file, certificate_file) =
        (key.display().to_string(), certificate.display().to_string());
    let rest = ["-nodes", "-days", "2", "-subj", "/CN=paris", "-keyout", &key_file, "-out"];
    let begin = ["req", "-x509", "-newkey", "rsa:4096"];
    tell("openssl", &[&begin[..], &rest, &[&certificate_file]].concat()).expect_success();
    let table = format!(
        "[node.paris.tls]\ncertificate = \"{certificate_file}\"\nkey = \"{key_file}\"\n\n[group.db]\n"
    );
    amend(&pair, "[group.db]\n", &table);
    (start(pair), address, certificate)
}

/// The first message of a client's handshake.
fn client_hello(authority: &Path) -> Vec<u8> {
    let tls = NbdClientTls::load(&Linux::host(), authority, None).expect("an authority");
    let mut hello = Vec::new();
    tls.connect("localhost").expect("a name").take_output(&mut hello);
    hello
}

#[test]
fn handshakes_of_strangers_keep_no_client_waiting() {
    require!("openssl");
    let (pair, address, certificate) = with_rsa();
    let mut strangers: Vec<Raw<TcpStream>> = (0..STRANGERS)
        .map(|_| {
            let mut raw = Raw::tcp(address).greet_well();
            assert_eq!(raw.option(option::STARTTLS, &[]).kind, reply::ACK);
            raw
        })
        .collect();
    let mut client = Client::connect_unix(socket(&pair, "paris"), "db/data").expect("connects");
    let hello = client_hello(&certificate);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut longest, mut block) = (Duration::ZERO, [0; 4096]);
            while !over.load(Relaxed) {
                let began = Instant::now();
                client.read(0, &mut block).expect("it is served");
                longest = longest.max(began.elapsed());
            }
            longest
        });
        strangers.iter_mut().for_each(|stranger| stranger.say(&hello));
        // The server's part of the handshake begins so.
        for stranger in &mut strangers {
            assert_eq!(stranger.hear::<1>(), [0x16]);
        }
        over.store(true, Relaxed);
        let longest = reader.join().expect("it reads");
        println!("longest read beside {STRANGERS} handshakes: {longest:?}");
        in_time(longest, STALL, "a read beside handshakes");
    });
}

#[test]
fn strangers_that_say_nothing_take_no_place_of_a_client() {
    let pair = prepared();
    let address = over_tcp(&pair);
    amend(&pair, "[node.paris]\n", "[node.paris]\nclients = 2\n");
    let mut pair = start(pair);
    let path = socket(&pair, "paris");
    let mut first = Client::connect_unix(&path, "db/data").expect("there is room");
    // Twice as many as may be; each is greeted, so it is there.
    let silent: Vec<_> = (0..128)
        .map(|_| {
            let mut raw = Raw::tcp(address);
            let _greeting: [u8; 18] = raw.hear();
            raw
        })
        .collect();
    let mut last = Client::connect_tcp(address, "db/data").expect("a stranger makes room");
    for client in [&mut first, &mut last] {
        client.read(0, &mut [0; 512]).expect("it is served");
    }
    let refused = Client::connect_unix(&path, "db/data").err().expect("two are there");
    assert!(refused.to_string().contains("raise `clients` of the node"), "{refused}");
    let open = |raw: &Raw<TcpStream>| {
        raw.0.set_nonblocking(true).expect("a socket");
        raw.0.peek(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    let left = silent.iter().filter(|raw| open(raw)).count();
    assert!(left <= 64, "{left} strangers are still there");
    last.disconnect().expect("it leaves");
    wait_clients(&pair, 1);
    Client::connect_unix(&path, "db/data").expect("there is a place again");
    let log = pair.daemon("paris").log();
    assert!(log.contains("a newer connection took its place"), "{log}");
}
