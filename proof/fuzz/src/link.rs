// SPDX-License-Identifier: Apache-2.0
//! A peer's bytes.
//!
//! Input: a byte of flags, two that cut the stream, then the stream. Flag 1 mends checksums, magics and versions, so
//! that what lies behind them is reached too; flag 2 makes the pool a small one.

use crate::pieces::{Cuts, byte};
use helio_driver::Pool;
use helio_format::before::CopyId;
use helio_format::disks::Disk;
use helio_format::frame::{self, HEADER_BYTES};
use helio_format::lineage::Lineage;
use helio_format::members::DiskMark;
use helio_format::message::{
    Ack, Blocks, Hello, Item, ItemKind, Message, Parting, Ping, Ranges, Start,
};
use helio_format::report::Report;
use helio_format::snapshot::{Snapshot, SnapshotAct};
use helio_link::{Arrived, Incoming, LinkError, checksum};
use helio_units::{
    Bytes, CopyName, Extent, Generation, Mode, Payload, PayloadId, Role, Sequence, State,
    VolumeIndex,
};

const VALID: u8 = 1;
const SMALL_POOL: u8 = 2;

/// What was said, and what came with it.
type Said = (Message, Option<Vec<u8>>);

pub(crate) fn run(mut data: &[u8]) {
    let flags = byte(&mut data);
    let cuts = Cuts::take(&mut data);
    let mut stream = data.to_vec();
    if flags & VALID != 0 {
        make_valid(&mut stream);
    }
    let bound = if flags & SMALL_POOL != 0 { Bytes::kib(64) } else { Bytes::mib(1) };
    let whole = read(&stream, Cuts::WHOLE, bound);
    let cut = read(&stream, cuts, bound);
    assert!(whole == cut, "the cut makes a difference");
    written_again(&whole.0, &stream);
}

/// Reads the stream to its end or to what ends it.
fn read(stream: &[u8], cuts: Cuts, bound: Bytes) -> (Vec<Said>, Option<LinkError>) {
    let pool = Pool::new(bound);
    let (mut incoming, mut said) = (Incoming::default(), Vec::new());
    for mut piece in cuts.of(stream) {
        while !piece.is_empty() {
            let found = incoming.consume(piece, &pool);
            assert!(pool.usage().high_water <= bound, "more lent than there may be");
            let (taken, arrived) = match found {
                Ok(found) => found,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    return (said, Some(error));
                }
            };
            assert!(arrived.is_some() || taken == piece.len(), "a remainder was left behind");
            piece = &piece[taken..];
            if let Some(Arrived { message, payload }) = arrived {
                let length = payload.as_ref().map_or(0, |payload| payload.len());
                assert_eq!(length, message.payload_length() as usize);
                said.push((message, payload.map(|payload| payload.to_vec())));
            }
        }
    }
    drop(incoming);
    assert_eq!(pool.usage().in_use, Bytes::ZERO, "a buffer did not come home");
    (said, None)
}

/// Every message is written in one way only: what was read gives the very bytes it was read from.
fn written_again(said: &[Said], mut stream: &[u8]) {
    for (message, payload) in said {
        let mut bytes = Vec::new();
        frame::encode(message, payload.as_deref().map_or(0, checksum), checksum, &mut bytes);
        bytes.extend(payload.iter().flatten());
        let rest = stream.strip_prefix(&bytes[..]);
        stream = rest.unwrap_or_else(|| panic!("there are two ways to write {message:?}"));
    }
}

/// Reads a stream as frames, and writes a valid start and valid checksums into each, so that the decoder reads its fields.
pub(crate) fn make_valid(mut stream: &mut [u8]) {
    let mut honest = Vec::new();
    frame::encode(
        &Message::Pong { token: 0, flushing: false, waits: false, short: false, metadata: 0 },
        0,
        checksum,
        &mut honest,
    );
    while let Some((header, rest)) = stream.split_first_chunk_mut::<HEADER_BYTES>() {
        let word = |at| u32::from_le_bytes(std::array::from_fn(|n| header[at + n])) as usize;
        let body = word(8).min(rest.len());
        let payload = word(12).min(rest.len() - body);
        let (body, behind) = rest.split_at_mut(body);
        let (payload, behind) = behind.split_at_mut(payload);
        header[..6].copy_from_slice(&honest[..6]);
        header[8..12].copy_from_slice(&(body.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        header[16..20].copy_from_slice(&checksum(body).to_le_bytes());
        if !payload.is_empty() {
            header[20..24].copy_from_slice(&checksum(payload).to_le_bytes());
        }
        let crc = checksum(&header[..28]);
        header[28..].copy_from_slice(&crc.to_le_bytes());
        stream = behind;
    }
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let all: Vec<u8> = messages().iter().flat_map(framed).collect();
    let whole = |flags: u8, stream: &[u8]| [&[flags, 16, 200][..], stream].concat();
    let mut seeds = vec![("everything", whole(0, &all)), ("everything-valid", whole(VALID, &all))];
    let long = framed(&item(ItemKind::Write, 3000));
    seeds.push(("a-write", whole(SMALL_POOL | VALID, &long)));
    seeds.push(("half-a-write", whole(0, &long[..2000])));
    seeds
}

/// A frame as its sender makes it.
pub(crate) fn framed(message: &Message) -> Vec<u8> {
    let payload: Vec<u8> = (0..message.payload_length()).map(|n| n as u8).collect();
    let crc = if payload.is_empty() { 0 } else { checksum(&payload) };
    let mut bytes = Vec::new();
    frame::encode(message, crc, checksum, &mut bytes);
    bytes.extend(payload);
    bytes
}

fn item(kind: ItemKind, length: u32) -> Message {
    let write = kind == ItemKind::Write;
    Message::Item(Item {
        sequence: Sequence(7),
        after: Sequence(5),
        kind,
        fua: write,
        punch: false,
        resync: !write,
        volume: VolumeIndex(1),
        extent: Extent::new(if length > 0 { 4096 } else { 0 }, u64::from(length)),
        payload: write.then_some(Payload { id: PayloadId(0), length }),
    })
}

fn hello(lineage: Lineage) -> Message {
    Message::Hello(Hello {
        group: "db".into(),
        node: "paris".into(),
        incarnation: 99,
        role: Role::Primary,
        serving: true,
        clean: false,
        consistent: true,
        wrote: true,
        alone: true,
        trusted: true,
        sure: true,
        doubts: false,
        discarded: false,
        suspect: false,
        keeps: false,
        lineage,
        head: Sequence(41),
        received: Sequence(41),
        durable: Sequence(40),
        granularity: 65536,
        metadata: 7,
        remembers: 3,
        sizes: vec![1 << 30, 4096],
        blocks: vec![Blocks { member: 512, volume: 4096 }; 2],
        report: Report::default(),
    })
}

/// One message of every kind.
pub(crate) fn messages() -> Vec<Message> {
    let (name, id) = (CopyName::new("daily").expect("a name"), CopyId::of(7));
    let generation = Generation { number: 3, tag: 0xfeed };
    let lineage = Lineage::default()
        .fork(Generation { number: 2, tag: 0xbeef }, Sequence(0))
        .fork(generation, Sequence(41));
    let mut ranges = Ranges::default();
    [8, 9, 12].map(Sequence).into_iter().for_each(|at| assert!(ranges.push(at)));
    vec![
        hello(lineage),
        Message::Start(Start {
            lineage,
            from: Sequence(42),
            consistent: true,
            keep: false,
            whole: false,
            to_copy: 0,
            stream: 1,
            ships: false,
        }),
        item(ItemKind::Write, 512),
        item(ItemKind::Zero, 4096),
        item(ItemKind::Flush, 0),
        Message::Ack(Ack {
            stream: 1,
            received: Sequence(20),
            completed: Sequence(6),
            durable: Sequence(5),
            ranges,
        }),
        Message::Ping(Ping {
            token: 1,
            completed: Sequence(19),
            metadata: 7,
            accepted: Sequence(20),
            backlog_bytes: 8192,
            backlog_items: 2,
            backlog_age: 250,
            hurry: false,
            state: State::ALL.first().copied(),
            mode: Mode::ALL.last().copied(),
        }),
        Message::Pong { token: 1, flushing: true, waits: true, short: true, metadata: 9 },
        Message::Goodbye { parting: Parting::Stopping, text: "the daemon stops".into() },
        Message::PromoteRequest { generation, durable: Sequence(40) },
        Message::PromoteReply { granted: false, text: "this node is primary".into() },
        Message::Snapshot(Snapshot { at: Sequence(41), act: SnapshotAct::Create(name), id }),
        Message::Snapshot(Snapshot { at: Sequence(42), act: SnapshotAct::Delete(name), id }),
        Message::Snapshot(Snapshot { at: Sequence(43), act: SnapshotAct::Refresh(name), id }),
        Message::Disks(vec![Disk {
            volume: VolumeIndex(1),
            mark: DiskMark::of(0xd15c),
            whole: true,
        }]),
        Message::Report(Report {
            effective: Some(Mode::Sync),
            paused: true,
            ahead: false,
            differing: 2,
            only_here: Some(Bytes(4096)),
            last_write: Some(std::time::Duration::from_millis(40)),
            fault: "volume data failed".into(),
            hint: "replace it".into(),
        }),
    ]
}
