// SPDX-License-Identifier: Apache-2.0

use super::*;
use core::convert::Infallible;
use helio_format::before::CHUNK_BYTES;
use helio_format::slow_crc32c;
use helio_units::Sequence;

const CHUNK: u64 = 512;
const OWNER: u32 = 7;

/// A file in memory.
#[derive(Clone, Default)]
struct Desk(Vec<u8>);

impl Desk {
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let at = offset as usize;
        if self.0.len() < at + bytes.len() {
            self.0.resize(at + bytes.len(), 0);
        }
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn open(&self) -> Result<(BeforeStore, Option<BeforeKept>), BeforeError<Infallible>> {
        let mut read = self.reader();
        BeforeStore::open(&mut read, self.0.len() as u64, Bytes(CHUNK), OWNER, slow_crc32c)
    }

    fn reader(&self) -> impl FnMut(u64, &mut [u8]) -> Result<(), Infallible> + '_ {
        |at, buffer| {
            let at = at as usize;
            buffer.copy_from_slice(&self.0[at..at + buffer.len()]);
            Ok(())
        }
    }

    fn header(&mut self, write: &BeforeWrite) {
        self.put(write.offset, &write.bytes);
    }

    fn keep(&mut self, store: &mut BeforeStore, n: u64) {
        let data = bytes(n);
        let write = store.record(chunk(n), &data);
        self.put(write.offset, &write.bytes);
        self.put(write.offset + PAGE_BYTES as u64, &data);
    }

    fn chunks(&self) -> Vec<Chunk> {
        self.open().expect("opens").1.expect("an image is kept").chunks
    }
}

fn bytes(n: u64) -> Vec<u8> {
    alloc::vec![n as u8 + 1; CHUNK as usize]
}

fn chunk(n: u64) -> Chunk {
    (VolumeIndex(0), Extent::new(n * CHUNK_BYTES, CHUNK_BYTES))
}

fn image(head: u64) -> KeptImage {
    KeptImage { head: Sequence(head), ..KeptImage::default() }
}

/// A keeping of the image at 5 with chunks 0 to 3: two batches of two.
fn kept() -> (Desk, BeforeStore) {
    let mut desk = Desk::default();
    let (mut store, found) = desk.open().expect("an empty file opens");
    assert_eq!(found, None);
    desk.header(&store.begin(image(5)));
    store.flushed();
    for n in 0..4 {
        desk.keep(&mut store, n);
        if n % 2 == 1 {
            store.flushed();
        }
    }
    (desk, store)
}

#[test]
fn what_was_kept_is_found_and_loaded() {
    let (desk, _) = kept();
    let (store, found) = desk.open().expect("opens");
    let found = found.expect("an image is kept");
    assert_eq!((found.image.head, found.damaged, store.records()), (Sequence(5), false, 4));
    for n in 0..4 {
        let loaded = store.load(n, &mut desk.reader()).expect("reads");
        assert_eq!(loaded, Some((chunk(n), bytes(n))));
    }
}

#[test]
fn an_ended_keeping_is_gone_and_its_records_mean_nothing_to_the_next() {
    let (mut desk, mut store) = kept();
    desk.header(&store.end());
    store.flushed();
    assert_eq!(desk.open().expect("opens").1, None);
    desk.header(&store.begin(image(9)));
    store.flushed();
    assert_eq!(desk.chunks(), []);
    desk.keep(&mut store, 7);
    assert_eq!(desk.chunks(), [chunk(7)]);
}

#[test]
fn until_its_end_is_durable_a_keeping_can_be_read_and_what_is_not_durable_is_not() {
    let (mut desk, mut store) = kept();
    desk.keep(&mut store, 4);
    assert_eq!(store.records(), 4, "the fifth one is not flushed");
    desk.header(&store.end());
    assert_eq!(store.records(), 4);
    assert_eq!(store.load(3, &mut desk.reader()), Ok(Some((chunk(3), bytes(3)))));
    store.flushed();
    assert_eq!(store.records(), 0);
}

#[test]
fn a_torn_record_at_the_end_is_ignored_and_written_over() {
    let (whole, _) = kept();
    let last = BEFORE_HEADER_BYTES as usize + 3 * (PAGE_BYTES + CHUNK as usize);
    for torn in (last..whole.0.len()).step_by(256) {
        let mut desk = whole.clone();
        desk.0[torn..].fill(0);
        let (mut store, found) = desk.open().expect("opens");
        let found = found.expect("an image is kept");
        assert_eq!((found.chunks.len(), found.damaged), (3, false), "torn at {torn}");
        desk.keep(&mut store, 9);
        assert_eq!(desk.chunks().last(), Some(&chunk(9)));
    }
}

#[test]
fn a_batch_may_lose_its_first_record_and_keep_its_second() {
    let (mut desk, _) = kept();
    let third = BEFORE_HEADER_BYTES as usize + 2 * (PAGE_BYTES + CHUNK as usize);
    desk.0[third] ^= 1;
    let found = desk.open().expect("opens").1.expect("an image is kept");
    assert_eq!((found.chunks.len(), found.damaged), (2, false), "neither was flushed");
}

#[test]
fn a_record_that_went_bad_after_it_was_durable_is_a_damaged_keeping() {
    for at in [0, 100, PAGE_BYTES - 1] {
        let (mut desk, _) = kept();
        desk.0[BEFORE_HEADER_BYTES as usize + at] ^= 0x40;
        let found = desk.open().expect("opens").1.expect("an image is kept");
        assert!(found.damaged, "byte {at} of the first record");
    }
    let (mut desk, _) = kept();
    desk.0[BEFORE_HEADER_BYTES as usize + PAGE_BYTES] ^= 0x40;
    let (store, _) = desk.open().expect("opens");
    let loaded = store.load(0, &mut desk.reader()).expect("reads");
    assert_eq!(loaded, None, "the bytes are checked when they are restored");
}

#[test]
fn a_torn_header_leaves_the_one_before() {
    for sectors in 0..=8 {
        let (mut desk, mut store) = kept();
        let end = store.end();
        desk.put(end.offset, &end.bytes[..sectors * 512]);
        let found = desk.open().expect("opens").1;
        assert_eq!(found.is_none(), sectors == 8, "{sectors} sectors");
    }
    let mut desk = Desk::default();
    let (mut store, _) = desk.open().expect("opens");
    let begin = store.begin(image(1));
    desk.put(begin.offset, &begin.bytes[..512]);
    desk.put(BEFORE_HEADER_BYTES - 1, &[0]);
    assert_eq!(desk.open().expect("opens").1, None, "nothing was kept under the first header");
}

#[test]
fn two_damaged_headers_and_strangers_are_named() {
    let (mut desk, mut store) = kept();
    desk.header(&store.end());
    (desk.0[9], desk.0[PAGE_BYTES + 9]) = (1, 1);
    let refused = desk.open().map(|_| ());
    assert_eq!(refused, Err(BeforeError::Unreadable([PageError::Damaged; 2])));
    let (desk, _) = kept();
    let mut read = desk.reader();
    let length = desk.0.len() as u64;
    let refused = BeforeStore::open(&mut read, length, Bytes(CHUNK), OWNER + 1, slow_crc32c);
    let refused = refused.map(|_| ());
    assert_eq!(refused, Err(BeforeError::Unreadable([PageError::Owner, PageError::Empty])));
}

/// The same, behind a header that tells how many records there are.
fn noted() -> Desk {
    let (mut desk, mut store) = kept();
    let note = store.note().expect("four records are durable, and no header tells");
    desk.put(note.offset, &note.bytes);
    assert_eq!(store.note(), None, "it is told once");
    desk
}

#[test]
fn damage_in_the_last_batch_is_told_from_what_was_never_finished() {
    let last = BEFORE_HEADER_BYTES as usize + 3 * (PAGE_BYTES + CHUNK as usize);
    let damaged = |desk: &Desk| {
        let found = desk.open().expect("opens").1.expect("an image is kept");
        (found.chunks.len(), found.damaged)
    };
    let mut desk = noted();
    assert_eq!(damaged(&desk), (4, false));
    desk.0[last + 9] ^= 1;
    assert_eq!(damaged(&desk), (3, true), "its header went bad");
    let mut desk = noted();
    desk.0.truncate(last);
    assert_eq!(damaged(&desk), (3, true), "it was cut off");
    let mut desk = noted();
    desk.0[last + PAGE_BYTES] ^= 1;
    let (store, _) = desk.open().expect("opens");
    assert_eq!(store.load(3, &mut desk.reader()), Ok(None), "its bytes went bad");
    assert_eq!(store.records(), 4, "it is not taken for one that was never finished");
}

#[test]
fn a_note_that_is_torn_leaves_the_header_before() {
    for sectors in 0..8 {
        let (mut desk, mut store) = kept();
        let note = store.note().expect("it tells");
        desk.put(note.offset, &note.bytes[..sectors * 512]);
        let found = desk.open().expect("opens").1.expect("an image is kept");
        assert_eq!((found.chunks.len(), found.damaged), (4, false), "{sectors} sectors");
        desk.header(&store.end());
        store.flushed();
        assert_eq!(desk.open().expect("opens").1, None);
    }
}
