// SPDX-License-Identifier: Apache-2.0
//! Our client against our session.

use crate::memory::{Disk, Server, pair};
use helio_nbd::{Client, ClientError, Cookie, ErrorCode, SessionError, TransmissionFlags};
use helio_units::{Bytes, Extent};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;

#[test]
fn a_volume_is_written_read_zeroed_trimmed_and_flushed() {
    let disk = Arc::new(Disk::new(Bytes::mib(1)));
    let (stream, server) = pair(&disk);
    let mut client = Client::over_unix(stream, "db/data").unwrap();
    assert_eq!(client.size(), Bytes::mib(1));
    assert!(
        client.flags().has(TransmissionFlags::SEND_TRIM.with(TransmissionFlags::CAN_MULTI_CONN))
    );
    assert_eq!(client.shape().maximum_payload, helio_nbd::MAX_PAYLOAD);

    client.write(4096, &[7; 8192], false).unwrap();
    client.write(12_288, &[8; 100], true).unwrap();
    client.write_zeroes(4096, Bytes(512), true, true).unwrap();
    client.trim(8192, Bytes(512), false).unwrap();
    client.flush().unwrap();
    let mut back = vec![0xff; 8292];
    client.read(4096, &mut back).unwrap();
    let wanted = [vec![0; 512], vec![7; 3584], vec![0; 512], vec![7; 3584], vec![8; 100]].concat();
    assert!(back == wanted);
    assert_eq!(disk.flushes.load(Ordering::SeqCst), 1);
    assert_eq!(disk.forced.load(Ordering::SeqCst), 2);

    client.disconnect().unwrap();
    assert_eq!(server.join().unwrap(), Ok(()));
}

#[test]
fn more_than_the_longest_request_goes_in_several() {
    let size = Bytes::mib(33);
    let disk = Arc::new(Disk::new(size));
    let (stream, server) = pair(&disk);
    let mut client = Client::over_unix(stream, "").unwrap();
    let data: Vec<u8> = (0..size.0).map(|n| (n % 251) as u8).collect();
    client.write(0, &data, true).unwrap();
    let mut back = vec![0; data.len()];
    client.read(0, &mut back).unwrap();
    assert!(back == data);
    assert_eq!(disk.forced.load(Ordering::SeqCst), 2);
    client.disconnect().unwrap();
    assert_eq!(server.join().unwrap(), Ok(()));
}

#[test]
fn failures_come_with_the_servers_words() {
    let mut disk = Disk::new(Bytes::mib(1));
    disk.bad = Some(Extent::new(4096, 512));
    let (stream, _server) = pair(&Arc::new(disk));
    let mut client = Client::over_unix(stream, "db/data").unwrap();
    let mut sector = [0; 512];
    let error = client.read(4096, &mut sector).unwrap_err();
    assert_eq!(error.to_string(), "read at 4096+512 failed: the platter is scratched (EIO)");
    let error = client.write(1 << 20, &sector, false).unwrap_err();
    let ClientError::Failed { source, .. } = error else { panic!("{error}") };
    assert_eq!(source.code, ErrorCode::NoSpace);
    // And the connection is as good as before.
    client.read(0, &mut sector).unwrap();
}

#[test]
fn a_read_only_export_takes_no_write() {
    let mut disk = Disk::new(Bytes::mib(1));
    disk.export.read_only = true;
    let (stream, _server) = pair(&Arc::new(disk));
    let mut client = Client::over_unix(stream, "db/data").unwrap();
    let error = client.write(0, &[1; 512], false).unwrap_err();
    let ClientError::Failed { source, .. } = error else { panic!("{error}") };
    assert_eq!(source.code, ErrorCode::Permission);
    let error = client.trim(0, Bytes(512), false).unwrap_err();
    assert!(matches!(error, ClientError::NotOffered("trim")));
}

#[test]
fn a_closed_door_says_why() {
    let disk = Arc::new(Disk::new(Bytes::mib(1)));
    let refusal = |export: &str| {
        let (stream, _server) = pair(&disk);
        Client::over_unix(stream, export).err().expect("was let in").to_string()
    };
    assert_eq!(
        refusal("shut"),
        "the server refused GO: forbidden by the server's policy: db is secondary here; promote it first"
    );
    assert_eq!(
        refusal("nowhere"),
        "the server refused GO: no such export: unknown export \"nowhere\""
    );
}

#[test]
fn the_exports_of_a_server_are_listed_and_opened_by_path() {
    let disk = Arc::new(Disk::new(Bytes::mib(1)));
    let server = Server::start(&disk);
    let listed = Client::list(server.socket()).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&*listed[0].name, &*listed[0].description), ("db/data", "a disk in memory"));
    let client = Client::connect_unix(server.socket(), &listed[0].name).unwrap();
    client.disconnect().unwrap();
    let absent = server.folder().join("absent.sock");
    let error = Client::connect_unix(&absent, "db/data").err().expect("nobody listens there");
    assert!(error.to_string().contains("absent.sock"));
}

#[test]
fn many_requests_in_flight_are_answered_in_any_order() {
    const REQUESTS: u64 = 500;
    const BLOCK: u32 = 4096;
    let mut disk = Disk::new(Bytes(REQUESTS * u64::from(BLOCK)));
    disk.backwards = true;
    let (stream, server) = pair(&Arc::new(disk));
    let client = Client::over_unix(stream, "db/data").unwrap();
    let (mut sender, mut receiver) = client.split();
    // Tickets bound what is in flight: 32, like the queue of a busy disk.
    let (give, take) = mpsc::sync_channel(32);
    let sending = thread::spawn(move || {
        for n in 0..REQUESTS {
            give.send(()).unwrap();
            let block = vec![n as u8; BLOCK as usize];
            sender.send_write(Cookie(n), n * u64::from(BLOCK), &block, false).unwrap();
        }
        for n in 0..REQUESTS {
            give.send(()).unwrap();
            sender.send_read(Cookie(REQUESTS + n), n * u64::from(BLOCK), BLOCK).unwrap();
        }
        give.send(()).unwrap();
        sender.send_flush(Cookie(u64::MAX)).unwrap();
        sender
    });
    let mut answered = Vec::new();
    for _ in 0..=2 * REQUESTS {
        let reply = receiver.receive().unwrap();
        take.recv().unwrap();
        let data = reply.result.unwrap();
        let read = (REQUESTS..2 * REQUESTS).contains(&reply.cookie.0);
        let wanted =
            if read { vec![(reply.cookie.0 - REQUESTS) as u8; BLOCK as usize] } else { Vec::new() };
        assert!(data == wanted, "the data of {}", reply.cookie);
        answered.push(reply.cookie.0);
    }
    sending.join().unwrap().send_disconnect().unwrap();
    assert_eq!(server.join().unwrap(), Ok(()));
    answered.sort_unstable();
    answered.dedup();
    assert_eq!(answered.len() as u64, 2 * REQUESTS + 1, "each answered once");
}

#[test]
fn a_cookie_in_flight_cannot_be_used_twice() {
    let (stream, _server) = pair(&Arc::new(Disk::new(Bytes::mib(1))));
    let (mut sender, mut receiver) = Client::over_unix(stream, "db/data").unwrap().split();
    sender.send_flush(Cookie(1)).unwrap();
    assert!(matches!(sender.send_flush(Cookie(1)), Err(ClientError::Unsendable(_))));
    assert_eq!(receiver.receive().unwrap().cookie, Cookie(1));
    sender.send_flush(Cookie(1)).unwrap();
}

#[test]
fn a_server_that_hangs_up_or_babbles_is_an_error() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    assert!(matches!(Client::over_unix(ours, "x").err(), Some(ClientError::Closed { .. })));
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").unwrap();
    assert!(matches!(Client::over_unix(ours, "x").err(), Some(ClientError::NotNewstyle)));
}

#[test]
fn a_server_without_structured_replies_is_served_too() {
    // Speaks just enough: refuses STRUCTURED_REPLY, grants GO, answers one read and fails another.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"NBDMAGICIHAVEOPT\0\x01").unwrap();
        let mut heard = [0; 4 + 16];
        stream.read_exact(&mut heard).unwrap();
        assert_eq!(heard[..4], [0, 0, 0, 1], "no flag that was not offered");
        let answer = |option: u8, reply: [u8; 4], data: &[u8]| {
            let magic = 0x0003_e889_0455_65a9_u64.to_be_bytes();
            [&magic[..], &[0, 0, 0, option], &reply, &[0, 0, 0, data.len() as u8], data].concat()
        };
        stream.write_all(&answer(8, [0x80, 0, 0, 1], &[])).unwrap();
        stream.read_exact(&mut [0; 16 + 4 + 2 + 2 + 1]).unwrap();
        stream
            .write_all(&answer(7, [0, 0, 0, 3], &[0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 1]))
            .unwrap();
        stream.write_all(&answer(7, [0, 0, 0, 1], &[])).unwrap();
        for reply in [&b"\0\0\0\0\0\0\0\0\0\0\0\0ok"[..], b"\0\0\0\x05\0\0\0\0\0\0\0\x01"] {
            stream.read_exact(&mut [0; 28]).unwrap();
            stream.write_all(&[b"\x67\x44\x66\x98", reply].concat()).unwrap();
        }
    });
    let mut client = Client::connect_tcp(address, "x").unwrap();
    assert_eq!(client.size(), Bytes(4096));
    let mut two = [0; 2];
    client.read(0, &mut two).unwrap();
    assert_eq!(&two, b"ok");
    let error = client.read(0, &mut two).unwrap_err();
    assert_eq!(error.to_string(), "read at 0+2 failed: EIO");
    assert!(matches!(client.flush(), Err(ClientError::NotOffered("flush"))));
    server.join().unwrap();
}

#[test]
fn a_stranger_is_named_to_the_servers_owner() {
    let (mut stream, server) = pair(&Arc::new(Disk::new(Bytes::mib(1))));
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let error = server.join().unwrap().unwrap_err();
    assert_eq!(error, SessionError::ClientFlags { flags: 0x4745_5420 });
}
