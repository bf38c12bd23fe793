// SPDX-License-Identifier: Apache-2.0
//! The before-image file: its pages, and a whole file as a starting daemon reads it.
//!
//! Input: a byte that says what, then bytes: a header's page (0) or a record's (1), each as it is; the same with magic,
//! version and checksum mended (2, 3); a whole file with short chunks, whose pages are mended where they begin as pages of
//! this file do (others).

use crate::pieces::byte;
use helio_format::before::{Header, KeptImage, PAGE_BYTES, Page, Record};
use helio_ledger::{BEFORE_HEADER_BYTES, BeforeStore};
use helio_link::checksum;
use helio_units::{Bytes, Extent, Sequence, VolumeIndex};
use std::convert::Infallible;

const OWNER: u32 = 77;
/// Bytes of a chunk in such a file.
const CHUNK: Bytes = Bytes(64);
const STRIDE: usize = PAGE_BYTES + CHUNK.0 as usize;

pub(crate) fn run(mut data: &[u8]) {
    let sort = byte(&mut data);
    let mut page: Page = [0; PAGE_BYTES];
    let length = data.len().min(PAGE_BYTES);
    page[..length].copy_from_slice(&data[..length]);
    match sort {
        0 => header(&page),
        1 => record(&page),
        2 => header(&mended(page, *b"HLBI")),
        3 => record(&mended(page, *b"HLBR")),
        _ => file(data),
    }
}

fn mended(mut page: Page, magic: [u8; 4]) -> Page {
    page[..4].copy_from_slice(&magic);
    page[4..6].copy_from_slice(&[1, 0]);
    let crc = checksum(&page[..PAGE_BYTES - 4]);
    page[PAGE_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    page
}

/// The owner that a page names.
fn owner(page: &Page) -> u32 {
    u32::from_le_bytes([page[8], page[9], page[10], page[11]])
}

fn header(page: &Page) {
    match Header::decode(page, owner(page), checksum) {
        Ok(header) => {
            let again = header.encode(owner(page), checksum);
            assert!(again == page, "there are two ways to write it");
            assert!(Header::decode(page, !owner(page), checksum).is_err(), "another's was taken");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn record(page: &Page) {
    match Record::decode(page, owner(page), checksum) {
        Ok(record) => {
            assert!(record.durable <= record.number);
            let again = record.encode(owner(page), checksum);
            assert!(again == page, "there are two ways to write it");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn open(bytes: &[u8]) -> Option<(BeforeStore, Option<helio_ledger::BeforeKept>)> {
    let mut read = |at: u64, buffer: &mut [u8]| {
        let at = (at as usize).min(bytes.len());
        let end = (at + buffer.len()).min(bytes.len());
        buffer.fill(0);
        buffer[..end - at].copy_from_slice(&bytes[at..end]);
        Ok::<_, Infallible>(())
    };
    BeforeStore::open(&mut read, bytes.len() as u64, CHUNK, OWNER, checksum).ok()
}

fn file(data: &[u8]) {
    let mut bytes = data.to_vec();
    let records = (BEFORE_HEADER_BYTES as usize..bytes.len()).step_by(STRIDE);
    for (at, magic) in
        [(0, *b"HLBI"), (PAGE_BYTES, *b"HLBI")].into_iter().chain(records.map(|at| (at, *b"HLBR")))
    {
        let Some(page) = bytes.get_mut(at..at + PAGE_BYTES) else { break };
        if page[..4] == magic {
            page[8..12].copy_from_slice(&OWNER.to_le_bytes());
            let whole: Page = page.try_into().unwrap_or([0; PAGE_BYTES]);
            page.copy_from_slice(&mended(whole, magic));
        }
    }
    let Some((mut store, kept)) = open(&bytes) else { return };
    let Some(kept) = kept else {
        assert_eq!(store.records(), 0, "records of nothing");
        return;
    };
    assert_eq!(store.records(), kept.chunks.len() as u64);
    assert!(store.records() <= (bytes.len() / PAGE_BYTES) as u64, "more than there is room for");
    // What is kept next is found again behind what was there, if that is whole.
    let chunk = (VolumeIndex(3), Extent::new(0, 512));
    let write = store.record(chunk, &[5; CHUNK.0 as usize]);
    bytes.resize(bytes.len().max(write.offset as usize + STRIDE), 0);
    let at = write.offset as usize;
    bytes[at..at + PAGE_BYTES].copy_from_slice(&write.bytes);
    bytes[at + PAGE_BYTES..at + STRIDE].fill(5);
    if !kept.damaged {
        let again = open(&bytes).and_then(|(_, kept)| kept);
        assert_eq!(again.and_then(|kept| kept.chunks.last().copied()), Some(chunk));
    }
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut read = |_: u64, _: &mut [u8]| Ok::<_, Infallible>(());
    let opened = BeforeStore::open(&mut read, 0, CHUNK, OWNER, checksum);
    let Ok((mut store, _)) = opened else { return Vec::new() };
    let mut bytes = vec![0; BEFORE_HEADER_BYTES as usize];
    let image = KeptImage { head: Sequence(7), ..KeptImage::default() };
    let begin = store.begin(image);
    bytes[..PAGE_BYTES].copy_from_slice(&begin.bytes);
    store.flushed();
    let mut heads = Vec::new();
    for n in 0..3 {
        let write = store.record((VolumeIndex(0), Extent::new(n << 16, 4096)), &[9; 64]);
        bytes.extend_from_slice(&write.bytes);
        bytes.extend([9; 64]);
        heads = write.bytes;
    }
    store.flushed();
    let kept = bytes.clone();
    if let Some(note) = store.note() {
        bytes[PAGE_BYTES..2 * PAGE_BYTES].copy_from_slice(&note.bytes);
    }
    // The rest of a page is zeros, which a short input has by itself; the checksum is mended then.
    let short = |sort: u8, page: &[u8]| [&[sort][..], &page[..640]].concat();
    vec![
        ("header", short(2, &begin.bytes)),
        ("header-whole", [&[0][..], &begin.bytes].concat()),
        ("record", short(3, &heads)),
        ("record-whole", [&[1][..], &heads].concat()),
        ("file", [&[4][..], &kept].concat()),
        ("file-noted", [&[4][..], &bytes].concat()),
    ]
}
