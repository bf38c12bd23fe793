// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::slow_crc32c;
use alloc::vec;
use helio_units::Generation;

const OWNER: u32 = 0xA1B2_C3D4;

fn image() -> KeptImage {
    let generation = |n| Generation { number: n, tag: n * 3 };
    let lineage = Lineage::default().fork(generation(1), Sequence::ZERO);
    let lineage = lineage.fork(generation(2), Sequence(40));
    let (head, at) = (Sequence(77), WallTime(1_700_000_000_000));
    KeptImage { lineage, head, exact: true, wrote: false, alone: true, consistent: true, at }
}

fn copy(number: u64) -> KeptCopy {
    let name = CopyName::new("before-upgrade").expect("a name");
    let (class, stage, owner) = match number % 2 {
        0 => (CopyClass::Required, CopyStage::Held, CopyOwner::Resync),
        _ if number == 5 => {
            let stage = CopyStage::Rollback(CopyNumber(2));
            (CopyClass::Expendable, stage, CopyOwner::Operator(name, CopyId::of(u64::MAX / 3)))
        }
        _ => (
            CopyClass::Expendable,
            CopyStage::Coming,
            CopyOwner::Operator(name, CopyId::of(u64::MAX / 3)),
        ),
    };
    KeptCopy { number: CopyNumber(number), class, stage, owner, image: image() }
}

fn header(copies: u64) -> Header {
    let last = CopyNumber(copies + 3);
    Header { sequence: 9, last, sum: 0x1122, copies: (1..=copies).map(copy).collect() }
}

fn record() -> Record {
    let (extent, volume) = (Extent::new(3 * CHUNK_BYTES, 4096), VolumeIndex(2));
    Record { of: CopyView::Cut(CopyNumber(8)), sequence: 5, sum: 4, volume, extent, data: 0xDEAD }
}

fn whole(bytes: &[u8]) -> Page {
    bytes.try_into().expect("one page")
}

#[test]
fn headers_and_records_come_back_as_they_were_written() {
    for copies in [0, 1, 7, 8, 127] {
        let header = header(copies);
        let bytes = header.encode(OWNER, slow_crc32c);
        assert_eq!(bytes.len(), (copies as usize + 1).div_ceil(8) * PAGE_BYTES);
        assert_eq!(Header::decode(&bytes, OWNER, slow_crc32c), Ok(header));
        assert_eq!(Header::decode(&bytes, OWNER + 1, slow_crc32c), Err(PageError::Owner));
    }
    let branch = Record { of: CopyView::Branch(CopyNumber(8)), ..record() };
    for record in [record(), branch] {
        let bytes = whole(&record.encode(OWNER, slow_crc32c));
        assert_eq!(Record::decode(&bytes, OWNER, slow_crc32c), Ok(record));
    }
    assert_eq!(branch.encode(OWNER, slow_crc32c)[6..8], [1, 0]);
    let bytes = whole(&record().encode(OWNER, slow_crc32c));
    assert_eq!(Record::decode(&bytes, OWNER + 1, slow_crc32c), Err(PageError::Owner));
}

#[test]
fn the_tables_above_are_what_is_written() {
    let bytes = header(2).encode(OWNER, slow_crc32c);
    assert_eq!(bytes[..16], *b"HLBI\x02\0\x02\0\xD4\xC3\xB2\xA1\0\0\0\0");
    assert_eq!((bytes[16], bytes[24], bytes[32], bytes[33]), (9, 5, 0x22, 0x11));
    let second = &bytes[1024..1536];
    assert_eq!(second[..16], [2, 0, 0, 0, 0, 0, 0, 0, 1, 2, 1, 0, 1, 1, 1, 0]);
    assert_eq!((second[16], &second[24..32]), (77, &1_700_000_000_000_u64.to_le_bytes()[..]));
    assert_eq!((second[32], second[40], second[48]), (2, 6, 1), "generation, tag, ancestors");
    let first = &bytes[512..1024];
    assert_eq!(first[8..16], [2, 1, 1, 0, 1, 1, 2, 0]);
    assert_eq!(first[433..448], *b"\x0Ebefore-upgrade");
    assert_eq!((&first[505..512], &second[505..512]), (&[0x55; 7][..], &[0; 7][..]), "the ids");
    let bytes = record().encode(OWNER, slow_crc32c);
    assert_eq!(bytes[..16], *b"HLBR\x02\0\0\0\xD4\xC3\xB2\xA1\xAD\xDE\0\0");
    assert_eq!((bytes[16], bytes[24], bytes[32], bytes[40]), (8, 5, 4, 2));
    assert_eq!((bytes[50], bytes[57]), (3, 16), "the offset and the length");
}

#[test]
fn the_checksums_are_those_of_the_first_release_with_this_version() {
    let crc = |bytes: &[u8], at: usize| {
        u32::from_le_bytes(whole(bytes)[at..at + 4].try_into().expect("four"))
    };
    assert_eq!(crc(&header(2).encode(OWNER, slow_crc32c), CRC_AT), 874_072_590);
    assert_eq!(crc(&record().encode(OWNER, slow_crc32c), RECORD_CRC_AT), 279_690_720);
}

#[test]
fn every_flipped_byte_is_seen() {
    let (header, record) =
        (header(9).encode(OWNER, slow_crc32c), record().encode(OWNER, slow_crc32c));
    for at in 0..header.len() {
        let mut bytes = header.clone();
        bytes[at] ^= 0x10;
        assert!(Header::decode(&bytes, OWNER, slow_crc32c).is_err(), "header byte {at}");
    }
    for at in 0..PAGE_BYTES {
        let mut bytes = whole(&record);
        bytes[at] ^= 0x10;
        assert!(Record::decode(&bytes, OWNER, slow_crc32c).is_err(), "record byte {at}");
    }
}

#[test]
fn a_rollback_goes_to_an_older_copy() {
    for (to, fits) in [(0, false), (1, true), (4, true), (5, false), (u64::MAX, false)] {
        let stage = CopyStage::Rollback(CopyNumber(to));
        let copies = vec![KeptCopy { stage, ..copy(5) }];
        let bytes = Header { copies, ..header(5) }.encode(OWNER, slow_crc32c);
        assert_eq!(Header::decode(&bytes, OWNER, slow_crc32c).is_ok(), fits, "to {to}");
    }
    let copies = vec![KeptCopy { stage: CopyStage::Rollback(CopyNumber(4)), ..copy(5) }];
    let bytes = Header { copies, ..header(5) }.encode(OWNER, slow_crc32c);
    assert_eq!((bytes[512 + 9], &bytes[512 + 497..512 + 505]), (3, &4_u64.to_le_bytes()[..]));
}

#[test]
fn a_newer_version_is_named() {
    let mut bytes = header(0).encode(OWNER, slow_crc32c);
    bytes[4] = 3;
    let error = Header::decode(&bytes, OWNER, slow_crc32c);
    assert_eq!(error, Err(PageError::Version { found: 3 }));
}

#[test]
fn a_list_out_of_order_or_beyond_the_last_number_is_damage() {
    let damaged = |header: Header| {
        let bytes = header.encode(OWNER, slow_crc32c);
        assert_eq!(Header::decode(&bytes, OWNER, slow_crc32c), Err(PageError::Damaged));
    };
    damaged(Header { copies: vec![copy(2), copy(1)], ..header(0) });
    damaged(Header { copies: vec![copy(2), copy(2)], ..header(0) });
    damaged(Header { copies: vec![copy(0)], ..header(0) });
    damaged(Header { last: CopyNumber(1), ..header(2) });
}

/// A file whose checksums are right may hold it. Then the file is refused, and no process ends.
#[test]
fn a_name_that_does_not_fit_its_place_is_damage() {
    for length in [63, 64, 128, 255] {
        let mut bytes = header(1).encode(OWNER, slow_crc32c);
        bytes[COPY_BYTES + NAME_AT] = length;
        assert!(KeptCopy::decode(&bytes[COPY_BYTES..2 * COPY_BYTES]).is_err(), "{length}");
    }
}

#[test]
fn fingerprints_differ_by_slot_volume_and_place() {
    let one = fingerprint(Slot(3), VolumeIndex(1), CHUNK_BYTES);
    assert_ne!(one, fingerprint(Slot(4), VolumeIndex(1), CHUNK_BYTES));
    assert_ne!(one, fingerprint(Slot(3), VolumeIndex(2), CHUNK_BYTES));
    assert_ne!(one, fingerprint(Slot(3), VolumeIndex(1), 2 * CHUNK_BYTES));
    assert_eq!(one, 965_909_124_253_358_747, "as the files that exist have it");
}

/// A page as version 1 wrote it: these bytes from 6 on, at their places.
fn old(magic: [u8; 4], fields: &[(usize, &[u8])]) -> Page {
    let mut page: Page = [0; PAGE_BYTES];
    page[..4].copy_from_slice(&magic);
    page[4] = 1;
    page[8..12].copy_from_slice(&OWNER.to_le_bytes());
    fields.iter().for_each(|(at, bytes)| page[*at..at + bytes.len()].copy_from_slice(bytes));
    let crc = slow_crc32c(&page[..RECORD_CRC_AT]).to_le_bytes();
    page[RECORD_CRC_AT..].copy_from_slice(&crc);
    page
}

/// The bytes of the first release that has this file.
#[test]
fn a_header_of_version_1_is_read() {
    let mut lineage = Vec::new();
    image().lineage.encode(&mut Writer(&mut lineage));
    let at = 1_700_000_000_000_u64.to_le_bytes();
    let fields: &[(usize, &[u8])] = &[
        (6, &[2]),
        (16, &[9]),
        (24, &[8]),
        (32, &[77]),
        (40, &[1, 0, 1]),
        (48, &at),
        (56, &lineage),
        (464, &[3]),
    ];
    let page = old(HEADER_MAGIC, fields);
    assert_eq!(page[4092..], 0xD115_3D78_u32.to_le_bytes(), "as that release wrote it");
    let kept = KeptCopy { number: CopyNumber(8), ..copy(2) };
    let header = first::Header { sequence: 9, copy: Some(kept), durable: 3 };
    assert_eq!(first::Header::decode(&page, OWNER, slow_crc32c), Ok(header));
    let found = PageError::Version { found: 1 };
    assert_eq!(super::Header::decode(&page, OWNER, slow_crc32c), Err(found));
}
