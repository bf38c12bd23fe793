// SPDX-License-Identifier: Apache-2.0
//! At each port, strangers who get as far as one step of its protocol, twice as many as it has room for: they stay silent, or send a byte at
//! a time, or garbage again and again. A client writes on, a newcomer is let in, and memory, descriptors and the log stay bounded.
//!
//! An ordinary run draws some of the cases. `HELIO_ROUNDS=42 cargo test -p helio-e2e --test isolation strangers_at -- --nocapture` plays all,
//! prints what it measured, and holds it to the bounds of a quiet machine.

use crate::writer::{Took, Writer};
use helio_driver::Linux;
use helio_e2e::{PATIENCE, begin, group};
use helio_nbd::Client;
use helio_nbd::codec::{GREETING_LENGTH, OptionHeader, OptionReplyHeader, client_flag, option};
use helio_testkit::{
    Dice, Pair, Plan, TempDir, eventually, free_port, helio, in_time, require, rounds, run,
};
use helio_tls::{NbdClientTls, NodeKey, PeerTls, PublicKey, Purpose};
use helio_units::{Bytes, Mode};
use rcgen::{CertificateParams, KeyPair};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Twice the connections for which the ports have room: 64 at each.
const CROWD: usize = 128;
/// How long a crowd stays.
const STAYS: Duration = Duration::from_secs(3);
/// The longest that a client may wait on a quiet machine, and anywhere.
const STALL: Duration = Duration::from_millis(50);
const STALL_ANYWHERE: Duration = Duration::from_secs(1);
/// The most by which the daemon grows.
const GROWTH: Bytes = Bytes::mib(16);
/// The most lines in its log, each with how often it was repeated.
const LINES: usize = 8;
/// Where strangers come from. One host keeps no other out.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Clients,
    ClientsTls,
    Peers,
    Control,
}

#[derive(Clone, Copy, Debug)]
enum Manner {
    Silent,
    /// A byte of what comes next, again and again.
    Slow,
    /// Garbage, and a new connection once it was sent away.
    Garbage,
}

/// A port, how many bytes of the right ones are said, and what comes then.
type Case = (Door, usize, Manner);

struct Stage {
    pair: Pair,
    folder: TempDir,
    nbd: SocketAddr,
    peers: SocketAddr,
    control: SocketAddr,
    server: PublicKey,
}

impl Stage {
    fn new() -> Self {
        let folder = TempDir::new();
        let [nbd, control] = [free_port(), free_port()];
        let operator = folder.join("operator.key");
        helio(&["key", "new", "--out", &operator.display().to_string()]).expect_success();
        let known = key(&operator).public();
        let [certificate, private] = certificate(&folder);
        let plan = Plan::new("db").mode(Mode::Sync).keys().volume("data", Bytes::mib(4));
        let peers = plan.dialled();
        let plan = plan
            .node_line("paris", "clients = 64")
            .node_line("paris", &format!("nbd = \"{nbd}\""))
            .node_line("paris", &format!("control = \"{control}\""))
            .node_line("paris", &format!("operators = [\"{known}\"]"))
            .node_line("paris", &format!("tls.certificate = {certificate:?}"))
            .node_line("paris", &format!("tls.key = {private:?}"));
        let mut pair = plan.prepare();
        pair.start("lyon");
        pair.start("paris");
        begin(&pair, "paris");
        let server = key(&pair.state("paris").join("node.key")).public();
        Self { pair, folder, nbd, peers, control, server }
    }

    /// What a client of that port says: what asks for TLS, if that is asked for, and what is not answered before its end.
    fn words(&self, door: Door) -> [Vec<u8>; 2] {
        let flags = (client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES).to_be_bytes();
        let option = |option, data: &[u8]| {
            let header = OptionHeader { option, length: data.len() as u32 };
            [&flags[..], &header.encode(), data].concat()
        };
        let hello = |purpose| {
            let mut session =
                PeerTls::new(key(&self.folder.join("operator.key"))).dial(&[self.server], purpose);
            let mut out = Vec::new();
            session.take_output(&mut out);
            out
        };
        match door {
            Door::Clients => {
                let data = [&7_u32.to_be_bytes()[..], b"db/data", &[0, 0]].concat();
                [Vec::new(), option(option::GO, &data)]
            }
            Door::ClientsTls => {
                let authority = self.folder.join("certificate.pem");
                let tls =
                    NbdClientTls::load(&Linux::host(), &authority, None).expect("it is sound");
                let mut out = Vec::new();
                tls.connect("localhost").expect("a name").take_output(&mut out);
                [option(option::STARTTLS, &[]), out]
            }
            Door::Peers => [Vec::new(), hello(Purpose::Peer)],
            Door::Control => [Vec::new(), hello(Purpose::Control)],
        }
    }

    /// One more connection, from elsewhere if the port is reached over a network.
    fn connect(&self, door: Door) -> io::Result<Box<dyn Socket>> {
        let address = match door {
            Door::Clients => {
                let stream = UnixStream::connect(self.pair.state("paris").join("nbd.sock"))?;
                return Ok(Box::new(stream));
            }
            Door::ClientsTls => self.nbd,
            Door::Peers => self.peers,
            Door::Control => self.control,
        };
        let stream = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&stream, &SocketAddr::from((ELSEWHERE, 0)))?;
        connect(&stream, &address)?;
        let stream = TcpStream::from(stream);
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Box::new(stream))
    }

    /// Somebody who may comes in.
    #[track_caller]
    fn newcomer(&mut self, door: Door) {
        match door {
            Door::Clients => {
                let path = self.pair.state("paris").join("nbd.sock");
                let mut client = Client::connect_unix(path, "db/data").expect("it is let in");
                client.read(0, &mut [0; 512]).expect("it is served");
            }
            Door::ClientsTls => {
                let authority = self.folder.join("authority");
                let uri = format!(
                    "nbds://localhost:{}/db/data?tls-certificates={}",
                    self.nbd.port(),
                    authority.display()
                );
                run(Command::new("nbdinfo").args(["--size", &uri])).expect_success();
            }
            Door::Peers => {
                self.pair.daemon("lyon").kill9();
                self.pair.start("lyon");
                helio_e2e::wait_level(&self.pair, "paris");
            }
            Door::Control => {
                let (at, server) = (self.control.to_string(), self.server.to_string());
                let key = self.folder.join("operator.key").display().to_string();
                helio(&["status", "--host", &at, "--key", &key, "--server-key", &server])
                    .expect_success();
            }
        }
    }

    fn process(&mut self) -> Process {
        let id = self.pair.daemon("paris").id();
        let text = fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        Process {
            memory: Bytes::kib(kib),
            descriptors: fs::read_dir(format!("/proc/{id}/fd")).expect("it runs").count(),
            lines: self.pair.daemon("paris").log().lines().count(),
        }
    }

    fn round(&mut self, case: Case, dice: &mut Dice) -> Took {
        let (door, said, manner) = case;
        let words = self.words(door);
        let before = self.process();
        let path = self.pair.state("paris").join("nbd.sock");
        let writer = Writer::start(Client::connect_unix(path, "db/data").expect("it is served"));
        let mut crowd: Vec<Stranger> =
            (0..CROWD).map(|_| Stranger::new(self, case, &words)).collect();
        let began = Instant::now();
        let mut came = None;
        let mut most = Process::default();
        eventually(4 * STAYS, "the crowd's time to pass", || {
            for stranger in &mut crowd {
                if !stranger.goes_on(manner, dice) && matches!(manner, Manner::Garbage) {
                    *stranger = Stranger::new(self, case, &words);
                }
            }
            if came.is_none() && began.elapsed() > STAYS / 2 && door != Door::Peers {
                let asked = Instant::now();
                self.newcomer(door);
                came = Some(asked.elapsed());
            }
            let now = self.process();
            most = Process {
                memory: most.memory.max(now.memory),
                descriptors: most.descriptors.max(now.descriptors),
                lines: now.lines,
            };
            (began.elapsed() > STAYS).then_some(())
        });
        let took = writer.stop();
        if door == Door::Peers {
            self.newcomer(door);
        }
        drop(crowd);
        let grown = most.memory.saturating_sub(before.memory);
        let more = most.descriptors.saturating_sub(before.descriptors);
        let lines = most.lines - before.lines;
        let what = format!("{door:?} after {said} bytes, {manner:?}");
        println!(
            "{what}: {took}; memory + {grown}, descriptors + {more}, {lines} lines in the log; a newcomer came in {came:.1?}"
        );
        assert!(grown <= GROWTH, "{what}: memory grew by {grown}");
        assert!(more <= CROWD + 16, "{what}: {more} descriptors");
        assert!(lines <= LINES, "{what}: {lines} lines: {}", self.pair.daemon("paris").log());
        assert_eq!(group(&self.pair, "paris")["state"], "replicating", "{what}");
        let left = || (self.process().descriptors <= before.descriptors + 8).then_some(());
        eventually(PATIENCE, "the strangers' descriptors to be closed", left);
        took
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Process {
    memory: Bytes,
    descriptors: usize,
    lines: usize,
}

trait Socket: Read + Write {
    fn set_nonblocking(&self) -> io::Result<()>;
}

impl Socket for UnixStream {
    fn set_nonblocking(&self) -> io::Result<()> {
        self.set_nonblocking(true)
    }
}

impl Socket for TcpStream {
    fn set_nonblocking(&self) -> io::Result<()> {
        self.set_nonblocking(true)
    }
}

/// One of the crowd.
struct Stranger {
    /// None once it is not connected any more.
    socket: Option<Box<dyn Socket>>,
    /// What comes next, byte by byte. The last one never does: behind it the stranger may be a client.
    rest: Vec<u8>,
}

impl Stranger {
    /// Connects, and says what it says.
    fn new(stage: &Stage, (door, said, _): Case, words: &[Vec<u8>; 2]) -> Self {
        let [first, second] = words;
        let behind = said.saturating_sub(first.len());
        let connected = stage.connect(door).and_then(|mut socket| {
            if behind == 0 {
                socket.write_all(&first[..said])?;
            } else if !first.is_empty() {
                // The greeting, and the agreement to TLS.
                socket.read_exact(&mut [0; GREETING_LENGTH])?;
                socket.write_all(first)?;
                socket.read_exact(&mut [0; OptionReplyHeader::LENGTH])?;
            }
            socket.write_all(&second[..behind])?;
            socket.set_nonblocking()?;
            Ok(socket)
        });
        let mut rest = [&first[..], second].concat().split_off(said);
        let _last = rest.pop();
        Self { socket: connected.ok(), rest }
    }

    /// Says what is due. Returns whether it is still connected.
    fn goes_on(&mut self, manner: Manner, dice: &mut Dice) -> bool {
        let Some(socket) = &mut self.socket else { return false };
        let mut bytes = Vec::new();
        match manner {
            Manner::Silent => {}
            Manner::Slow => bytes.extend((!self.rest.is_empty()).then(|| self.rest.remove(0))),
            Manner::Garbage => {
                bytes = vec![0; 64];
                dice.fill(&mut bytes);
            }
        }
        let is_over = |error: io::Error| error.kind() != ErrorKind::WouldBlock;
        let over = match socket.read(&mut [0; 4096]) {
            Ok(count) => count == 0,
            Err(error) => is_over(error),
        };
        if over || socket.write_all(&bytes).is_err_and(is_over) {
            self.socket = None;
        }
        self.socket.is_some()
    }
}

fn key(file: &Path) -> NodeKey {
    NodeKey::load(&Linux::host(), file).expect("the key is there")
}

/// Files with a certificate that signs itself, and its key; a folder for who trusts it beside them.
fn certificate(folder: &TempDir) -> [PathBuf; 2] {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("it signs itself");
    fs::create_dir(folder.join("authority")).expect("there is room");
    folder.write("authority/ca-cert.pem", &certificate.pem());
    let files = [
        folder.write("certificate.pem", &certificate.pem()),
        folder.write("key.pem", &key.serialize_pem()),
    ];
    let owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&files[1], owner).expect("it is ours");
    files
}

#[test]
fn strangers_at_any_port_and_step_keep_nobody_waiting_and_nobody_out() {
    require!("nbdinfo");
    let mut dice =
        Dice::of_test("strangers_at_any_port_and_step_keep_nobody_waiting_and_nobody_out");
    let mut stage = Stage::new();
    let mut left = Vec::new();
    for door in [Door::Clients, Door::ClientsTls, Door::Peers, Door::Control] {
        let [first, second] = stage.words(door);
        let whole = first.len() + second.len();
        let steps = match door {
            Door::Clients => vec![0, 4, 12, whole - 1],
            Door::ClientsTls => vec![0, first.len(), first.len() + second.len() / 2, whole],
            Door::Peers | Door::Control => vec![0, whole / 2, whole],
        };
        for step in steps {
            left.extend([Manner::Silent, Manner::Slow, Manner::Garbage].map(|it| (door, step, it)));
        }
    }
    let all = left.len() as u64;
    let drawn = rounds(6).min(all);
    for _ in 0..drawn {
        let case: Case = left.swap_remove(dice.below(left.len() as u64) as usize);
        let took = stage.round(case, &mut dice);
        let bound = if drawn == all { STALL } else { STALL_ANYWHERE };
        in_time(took.longest(), bound, &format!("{case:?}: a write of a client"));
    }
}
