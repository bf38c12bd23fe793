// SPDX-License-Identifier: Apache-2.0
//! Whoever else connects to the peers' port: sent away with a named error, and nothing lost by it.

use crate::common::{PATIENCE, promote, replicating};
use helio_format::frame::{HEADER_BYTES, VERSION, decode_header, encode};
use helio_format::lineage::Lineage;
use helio_format::message::{Ack, Blocks, Hello, Item, ItemKind, Message, Parting, Ping, Ranges};
use helio_format::report::Report;
use helio_link::checksum;
use helio_testkit::{Dice, Pair, Plan, eventually, timely};
use helio_units::{Bytes, Extent, Mode, Payload, PayloadId, Role, Sequence, VolumeIndex};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

const SIZE: Bytes = Bytes::mib(4);

/// A pair that replicates, and where paris is reached.
fn pair() -> (Pair, SocketAddr) {
    let plan = Plan::new("db").mode(Mode::Sync).volume("data", SIZE);
    let paris = plan.dialled();
    let pair = plan.prepare();
    // Something to lose: what a primary holds when it first meets its peer is copied there.
    let mut bytes = vec![0; 1 << 20];
    Dice::new(7).fill(&mut bytes);
    let member = fs::File::options().write(true).open(pair.member("paris", "data"));
    member.and_then(|file| file.write_all_at(&bytes, 12_800)).expect("the member is there");
    (pair, paris)
}

fn serving() -> (Pair, SocketAddr) {
    let (mut pair, paris) = pair();
    pair.start("lyon");
    pair.start("paris");
    promote(&pair, "paris");
    (pair, paris)
}

fn members(pair: &Pair) -> [Vec<u8>; 2] {
    ["lyon", "paris"].map(|node| fs::read(pair.member(node, "data")).expect("it is there"))
}

fn hello(group: &str, node: &str) -> Message {
    Message::Hello(Hello {
        group: group.to_owned(),
        node: node.to_owned(),
        incarnation: 0x5eed,
        role: Role::Secondary,
        serving: false,
        clean: true,
        consistent: true,
        wrote: false,
        lineage: Lineage::default(),
        head: Sequence(0),
        received: Sequence(0),
        durable: Sequence(0),
        alone: false,
        trusted: false,
        sure: true,
        doubts: false,
        discarded: true,
        suspect: false,
        keeps: false,
        granularity: 65536,
        metadata: 1,
        remembers: 0,
        sizes: vec![SIZE.0],
        blocks: vec![Blocks { member: 512, volume: 512 }],
        report: Report::default(),
    })
}

fn ping() -> Message {
    Message::Ping(Ping { token: 1, ..Ping::default() })
}

fn item() -> Message {
    Message::Item(Item {
        sequence: Sequence(1),
        after: Sequence(0),
        kind: ItemKind::Write,
        fua: false,
        punch: false,
        resync: false,
        volume: VolumeIndex(0),
        extent: Extent::new(0, 4096),
        payload: Some(Payload { id: PayloadId(0), length: 4096 }),
    })
}

/// A whole frame, with its payload of sevens where it has one.
fn framed(message: &Message) -> Vec<u8> {
    let payload = vec![7; message.payload_length() as usize];
    let crc = if payload.is_empty() { 0 } else { checksum(&payload) };
    let mut bytes = Vec::new();
    encode(message, crc, checksum, &mut bytes);
    bytes.extend(payload);
    bytes
}

/// A frame with one bit flipped.
fn flipped(message: &Message, at: usize) -> Vec<u8> {
    let mut bytes = framed(message);
    bytes[at] ^= 4;
    bytes
}

/// A frame whose header says something else, and has the checksum that goes with it.
fn restated(message: &Message, at: usize, field: &[u8]) -> Vec<u8> {
    let mut bytes = framed(message);
    bytes[at..at + field.len()].copy_from_slice(field);
    let crc = checksum(&bytes[..28]);
    bytes[28..32].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("the daemon listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a limit");
    stream.set_write_timeout(Some(PATIENCE)).expect("a socket takes a limit");
    stream
}

/// Reads until the daemon has hung up, and fails where it does not.
#[track_caller]
fn assert_hung_up(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    if let Err(why) = timely(stream.read_to_end(&mut rest), "the daemon to hang up") {
        let kind = why.kind();
        assert_eq!(kind, std::io::ErrorKind::ConnectionReset, "it should have hung up: {why}");
    }
}

/// Waits for the daemon to log this behind what it has logged before.
#[track_caller]
fn await_log(pair: &mut Pair, before: usize, phrase: &str) {
    eventually(PATIENCE, phrase, || {
        pair.daemon("paris").log().get(before..)?.contains(phrase).then_some(())
    });
}

fn next_version() -> Vec<u8> {
    restated(&hello("db", "lyon"), 4, &(VERSION + 1).to_le_bytes())
}

#[test]
fn strangers_are_sent_away_and_the_pair_does_not_notice() {
    let (mut pair, paris) = serving();
    let since =
        |pair: &Pair| pair.status("paris")["groups"][0]["peer"]["connection_since_ms"].clone();
    let (connected, before) = (since(&pair), members(&pair));
    let first = hello("db", "lyon");
    let speaks = format!("protocol version {}, this daemon speaks {VERSION}", VERSION + 1);
    let goodbye = framed(&Message::Goodbye {
        parting: Parting::VolumeFailed,
        text: String::from("volume 0 fails"),
    });
    let cases: [(Vec<u8>, &str); 15] = [
        (next_version(), &speaks),
        (framed(&hello("web", "lyon")), "no group web on this node"),
        (framed(&hello("db", "berlin")), "group db is mirrored with lyon, not with berlin"),
        (flipped(&first, 9), "a frame header arrived damaged"),
        (flipped(&first, 1), "the peer does not speak the Heliograph protocol"),
        (flipped(&first, 40), "a frame body arrived damaged"),
        (restated(&first, 8, &[0xff; 4]), "a frame announces more bytes than the protocol allows"),
        // A line that was logged before is left out.
        (restated(&first, 12, &[0xff; 4]), ""),
        (restated(&first, 6, &[77]), "a message of kind 77 cannot be decoded"),
        (framed(&ping()), "the first message must be a hello, not one of kind 5"),
        (goodbye.clone(), "it closed the connection before its hello: volume 0 fails"),
        (
            [framed(&first), goodbye].concat(),
            "lyon closed the connection directly after its hello: volume 0 fails",
        ),
        ([framed(&first), framed(&ping())].concat(), "it sent a message after its hello"),
        (framed(&item()), "a payload of 4096 bytes exceeds the receive memory of 0 bytes"),
        (b"GET / HTTP/1.1\r\nHost: paris\r\nAccept: */*\r\n\r\n".to_vec(), ""),
    ];
    for (bytes, phrase) in cases {
        let before = pair.daemon("paris").log().len();
        let mut stream = connect(paris);
        stream.write_all(&bytes).expect("the daemon reads");
        assert_hung_up(&mut stream);
        await_log(&mut pair, before, phrase);
    }
    assert_eq!(since(&pair), connected, "the real connection should have stood all the while");
    replicating(&pair, "paris");
    assert_eq!(members(&pair), before);
    assert_eq!(before[0], before[1]);
}

#[test]
fn a_silent_stranger_is_sent_away_after_a_while() {
    let (mut pair, paris) = serving();
    let before = pair.daemon("paris").log().len();
    let (mut silent, mut half) = (connect(paris), connect(paris));
    half.write_all(&framed(&hello("db", "lyon"))[..20]).expect("the daemon reads");
    assert_hung_up(&mut silent);
    assert_hung_up(&mut half);
    await_log(&mut pair, before, "no hello arrived");
    replicating(&pair, "paris");
}

#[test]
fn a_stranger_that_comes_again_is_logged_once() {
    let (mut pair, paris) = serving();
    let refused = |group: &str| {
        let mut stream = connect(paris);
        stream.write_all(&framed(&hello(group, "lyon"))).expect("the daemon reads");
        assert_hung_up(&mut stream);
    };
    (0..8).for_each(|_| refused("web"));
    refused("mail");
    await_log(&mut pair, 0, "no group mail on this node");
    let log = pair.daemon("paris").log();
    assert_eq!(log.matches("no group web on this node").count(), 1, "{log}");
}

#[test]
fn a_scanner_at_the_socket_of_clients_is_logged_once() {
    let (mut pair, _) = serving();
    let socket = pair.state("paris").join("nbd.sock");
    for _ in 0..100 {
        let mut stream = UnixStream::connect(&socket).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is a time");
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("the daemon reads");
        // Its greeting, and the end.
        let _reset = stream.read_to_end(&mut Vec::new());
    }
    await_log(&mut pair, 0, "an NBD client was disconnected");
    let log = pair.daemon("paris").log();
    assert_eq!(log.matches("an NBD client was disconnected").count(), 1, "{log}");
}

#[test]
fn a_crowd_of_strangers_does_not_keep_the_peer_out() {
    let (mut pair, paris) = serving();
    assert!(pair.daemon("lyon").terminate().success());
    let crowd: Vec<TcpStream> = (0..200).map(|_| connect(paris)).collect();
    pair.start("lyon");
    replicating(&pair, "paris");
    drop(crowd);
}

/// Says hello as lyon, and waits for the answer.
fn pose_as_lyon(paris: SocketAddr) -> TcpStream {
    let mut stream = connect(paris);
    stream.write_all(&framed(&hello("db", "lyon"))).expect("the daemon reads");
    let mut header = [0; HEADER_BYTES];
    timely(stream.read_exact(&mut header), "the daemon's hello").expect("the daemon's hello");
    assert_eq!(decode_header(&header, checksum).expect("a sound header").code, 1);
    stream
}

#[test]
fn a_peer_that_breaks_the_protocol_is_sent_away_and_the_real_one_is_welcome() {
    let (mut pair, paris) = serving();
    let before = members(&pair);
    assert!(pair.daemon("lyon").terminate().success());
    let ahead = Sequence(u64::MAX / 2);
    let stream = u32::MAX;
    let ack = Ack {
        stream,
        received: ahead,
        completed: ahead,
        durable: ahead,
        ranges: Ranges::default(),
    };
    let payload = HEADER_BYTES + 40;
    let cases: [(Vec<u8>, &str); 8] = [
        (flipped(&ping(), 9), "a frame header arrived damaged"),
        (flipped(&ping(), HEADER_BYTES), "a frame body arrived damaged"),
        (flipped(&item(), payload), "a payload arrived damaged"),
        (restated(&ping(), 12, &[0xff; 4]), "a frame announces more bytes"),
        (vec![0x42; 4096], "the peer does not speak the Heliograph protocol"),
        (framed(&item()), "connection ended group=db peer=lyon why=\""),
        // The same line again: it is left out.
        (framed(&Message::Ack(ack)), ""),
        (framed(&hello("db", "lyon")), ""),
    ];
    for (bytes, phrase) in cases {
        let mark = pair.daemon("paris").log().len();
        let mut stream = pose_as_lyon(paris);
        stream.write_all(&bytes).expect("the daemon reads");
        assert_hung_up(&mut stream);
        await_log(&mut pair, mark, phrase);
        let status = pair.status("paris");
        assert_ne!(status["groups"][0]["state"], "replicating", "{status}");
    }
    assert_eq!(members(&pair), before, "no byte of either member may have changed");
    pair.start("lyon");
    replicating(&pair, "paris");
    assert_eq!(members(&pair), before);
    // Connections ended again and again: the group is at risk until one lasts.
    eventually(PATIENCE, "a connection that lasts", || {
        let told = pair.helio("paris", &["status"]).expect_success();
        told.contains("OK  ").then_some(())
    });
}
