// SPDX-License-Identifier: Apache-2.0
//! What lies on disk, and the parts of what crosses the wire, each read by itself.
//!
//! Input: a byte that says which format, then its bytes: a page of a metadata file as it is (0) or with magic, version
//! and checksum mended (1), behind the place and the bits of one damaged byte; a frame's header (2) or a mended one
//! (3); the stamp of a member, with its checksum mended or not (255); the record of an exported snapshot as it is, or with magic,
//! length and checksum mended (254); a message's body behind its kind and the length of its
//! payload (others).

use crate::link;
use crate::pieces::{byte, word};
use helio_format::directory::{self, Entries, Entry, MapOwner};
use helio_format::epochs::{Epoch, Epochs, SetId, Stamp};
use helio_format::exported::{ChunkSet, ExportRecord, ExportStage, Exported, ExportedVolume};
use helio_format::files::{self, FileRecord};
use helio_format::frame::{self, HEADER_BYTES};
use helio_format::lineage::Relation;
use helio_format::members::{self, CopyHealth, DiskMark, MemberEntry};
use helio_format::message::{BODY_BYTES_MAX, Message, PAYLOAD_BYTES_MAX};
use helio_format::page::{self, Kind, PAGE_BYTES, PageError};
use helio_format::superblock::Superblock;
use helio_format::{hot, marks};
use helio_link::checksum;
use helio_units::{Bytes, Generation, Sequence, VolumeIndex, WallTime};

pub(crate) fn run(mut data: &[u8]) {
    match byte(&mut data) {
        0 => page(data, false),
        1 => page(data, true),
        2 => header(data, false),
        3 => header(data, true),
        254 => exported(data),
        255 => stamp(data),
        _ => body(data),
    }
}

fn page(mut data: &[u8], mended: bool) {
    let (at, bits) = (word(&mut data) % PAGE_BYTES, byte(&mut data));
    let mut page = [0; PAGE_BYTES];
    let length = data.len().min(PAGE_BYTES);
    page[..length].copy_from_slice(&data[..length]);
    if mended {
        page[..6].copy_from_slice(if bits & 1 == 0 { b"HLMD\x03\0" } else { b"HLMD\x02\0" });
        page[28..32].fill(0);
        let crc = checksum(&page);
        page[28..32].copy_from_slice(&crc.to_le_bytes());
    }
    let (header, body) = match page::decode(&page, checksum) {
        Ok((header, body)) => (header, *body),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert_eq!(error == PageError::Empty, page.iter().all(|byte| *byte == 0));
            return;
        }
    };
    assert_eq!(page::encode(&header, &body, checksum), page, "there are two ways to write it");
    let again = match header.place.kind {
        Kind::Superblock => Superblock::decode(&body).map(|b| {
            same_line(&b);
            b.encode()
        }),
        Kind::Hot => hot::decode(&body, 1 << 40).map(|slots| hot::encode(&slots)),
        Kind::Marks => marks::decode(&body, 1000).map(|bits| marks::encode(&bits)),
        Kind::Members => {
            members::decode(&body, 3).map(|(volumes, epochs)| members::encode(&volumes, &epochs))
        }
        Kind::Directory => directory::decode(&body).map(|entries| directory::encode(&entries)),
        Kind::Files => files::decode(&body).map(files::encode),
    };
    assert!(again.is_err() || again == Ok(body), "there are two ways to write it");
    if bits != 0 {
        page[at] ^= bits;
        assert!(page::decode(&page, checksum).is_err(), "damage at {at} went unseen");
    }
}

fn exported(mut data: &[u8]) {
    let (mended, at) = (byte(&mut data) & 1 == 1, word(&mut data));
    let mut bytes = data.to_vec();
    if mended && bytes.len() >= 20 {
        bytes[..6].copy_from_slice(b"HLXS\x01\0");
        let length = bytes.len();
        bytes[8..16].copy_from_slice(&(length as u64).to_le_bytes());
        let sum = checksum(&bytes[..length - 4]);
        bytes[length - 4..].copy_from_slice(&sum.to_le_bytes());
    }
    let Ok(record) = ExportRecord::decode(&bytes, checksum) else { return };
    let again = record.encode(checksum);
    assert_eq!(ExportRecord::decode(&again, checksum).as_ref(), Ok(&record));
    assert!(!mended || again == bytes, "there are two ways to write it");
    let chunk = at as u64 % record.volumes[0].differs.chunks();
    let addition = ExportRecord::addition(&again, 0, &(chunk..chunk + 1), checksum);
    let added = ExportRecord::decode(&[&again[..], &addition].concat(), checksum);
    let added = added.expect("an addition damages nothing");
    assert!(added.volumes[0].differs.has(chunk) && added.differing() >= record.differing());
    let mut damaged = again;
    let at = at % damaged.len();
    damaged[at] ^= 1;
    assert!(ExportRecord::decode(&damaged, checksum).is_err(), "damage at {at} went unseen");
}

fn same_line(superblock: &Superblock) {
    let lineage = superblock.lineage;
    let itself = lineage.relation_of(&lineage);
    let never = lineage.generation == Generation::NONE;
    assert_eq!(itself, if never { Relation::New } else { Relation::Same });
}

fn header(data: &[u8], mended: bool) {
    let mut bytes = [0; HEADER_BYTES];
    let length = data.len().min(HEADER_BYTES);
    bytes[..length].copy_from_slice(&data[..length]);
    if mended {
        bytes[..6].copy_from_slice(b"HLG1\x01\0");
        let crc = checksum(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
    }
    match frame::decode_header(&bytes, checksum) {
        Ok(header) => {
            assert!(header.body_length as usize <= BODY_BYTES_MAX);
            assert!(header.payload_length <= PAYLOAD_BYTES_MAX);
            for at in 0..HEADER_BYTES {
                bytes[at] ^= 0x10;
                let damaged = frame::decode_header(&bytes, checksum);
                assert!(damaged.is_err(), "damage at {at} went unseen");
                bytes[at] ^= 0x10;
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn stamp(mut data: &[u8]) {
    let is_mended = byte(&mut data) & 1 == 1;
    let mut bytes = data.to_vec();
    if is_mended && let Some((fields, sum)) = bytes.split_last_chunk_mut() {
        *sum = checksum(fields).to_le_bytes();
    }
    if let Some(found) = Stamp::decode(&bytes, checksum) {
        assert_eq!(found.encode(checksum)[..], bytes, "there are two ways to write it");
    }
}

fn body(mut data: &[u8]) {
    let (code, payload_length) = (byte(&mut data), word(&mut data) as u32);
    let Ok(message) = Message::decode(code, data, payload_length) else { return };
    assert_eq!((message.code(), message.payload_length()), (code, payload_length));
    let mut again = Vec::new();
    message.encode(&mut again);
    assert_eq!(again, data, "there are two ways to write it");
    assert!(again.len() <= BODY_BYTES_MAX, "a body longer than any may be");
}

fn exported_record() -> ExportRecord {
    let size = Bytes::mib(1);
    let mut differs = ChunkSet::new(size);
    differs.add(3..9);
    let volume = ExportedVolume {
        name: "data".to_owned(),
        size,
        written: 5,
        image: "x".to_owned(),
        differs,
    };
    let of = Exported {
        group: "db".to_owned(),
        name: "nightly".to_owned(),
        generation: "2.77aa".to_owned(),
        node: "paris".to_owned(),
        identity: "2.9c.31".to_owned(),
        position: Sequence(31),
        at: WallTime(7),
        consistent: true,
    };
    ExportRecord { of, stage: ExportStage::Complete, volumes: vec![volume] }
}

fn exported_seeds() -> [(&'static str, Vec<u8>); 2] {
    let record = exported_record().encode(checksum);
    let seed = |mended| [&[254, mended, 9, 0][..], &record].concat();
    [("exported", seed(0)), ("exported-mended", seed(1))]
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    const KINDS: [&str; 11] = [
        "hello",
        "start",
        "write",
        "zero",
        "flush",
        "ack",
        "ping",
        "pong",
        "goodbye",
        "promote-request",
        "promote-reply",
    ];
    let mut fresh = Superblock::new("db", "paris", vec![1 << 30, 4096]);
    let framed = |sort: u8, kind, body: &[u8; page::BODY_BYTES]| {
        let map = u32::from(matches!(kind, Kind::Hot | Kind::Marks));
        let place = page::Place { map, ..page::Place::fixed(kind, 0) };
        let header = page::Header { place, owner: 77, sequence: 9 };
        let mut bytes = page::encode(&header, body, checksum);
        // The rest is zeros, which a short input has by itself; the checksum is mended then.
        if sort == 1 {
            bytes.truncate(640);
        }
        [&[sort, 40, 0, 1][..], &bytes].concat()
    };
    let of_superblock = |sort, b: &Superblock| framed(sort, Kind::Superblock, &b.encode());
    let mut words = [0; page::BODY_WORDS];
    (words[0], words[1]) = (3, 17);
    use CopyHealth::{Copying, Failed, Good, Removed, Suspect, Unproven};
    let states = [Good, Suspect, Copying, Removed, Unproven, Failed];
    let disk = DiskMark::of(9);
    let members = [states.map(|health| Some(MemberEntry { health, disk })), [None; 6]];
    let map = Entry { owner: MapOwner::Engine, id: 1, first: 7, pairs: 4, unit: 4 << 20 };
    let member = MapOwner::Member { volume: VolumeIndex(2), member: 5 };
    let other = Entry { owner: member, id: 2, first: 11, ..map };
    let entries = Entries { next: 3, slots: vec![Some(map), None, Some(other)] };
    let mut seeds = vec![
        ("page-whole", of_superblock(0, &fresh)),
        ("page-new", of_superblock(1, &fresh)),
        ("page-hot", framed(1, Kind::Hot, &hot::encode(&words))),
        ("page-marks", framed(1, Kind::Marks, &marks::encode(&words))),
        ("page-members", framed(1, Kind::Members, &members::encode(&members, &Epochs::none(2)))),
        ("page-files", framed(1, Kind::Files, &files::encode(FileRecord::SINGLE))),
        ("page-directory", framed(1, Kind::Directory, &directory::encode(&entries))),
    ];
    for number in 1..20 {
        let generation = Generation { number, tag: number * 77 };
        fresh.lineage = fresh.lineage.fork(generation, Sequence(number));
    }
    (fresh.head, fresh.alone) = (Sequence(1234), true);
    seeds.push(("page-forked", of_superblock(1, &fresh)));
    for (name, message) in KINDS.into_iter().zip(link::messages()) {
        let mut bytes = vec![4, message.code()];
        bytes.extend((message.payload_length() as u16).to_le_bytes());
        message.encode(&mut bytes);
        seeds.push((name, bytes));
    }
    let mut frame = vec![2];
    frame::encode(&link::messages()[6], 0, checksum, &mut frame);
    frame.truncate(1 + HEADER_BYTES);
    seeds.push(("header", frame.clone()));
    frame[0] = 3;
    seeds.push(("header-mended", frame));
    seeds.extend(exported_seeds());
    let (set, volume) = (SetId::of(7).expect("it is not zero"), VolumeIndex(1));
    let stamp = Stamp { set, volume, epoch: Epoch::FIRST.next(), is_full: true };
    seeds.push(("stamp", [&[255, 1][..], &stamp.encode(checksum)].concat()));
    seeds
}
