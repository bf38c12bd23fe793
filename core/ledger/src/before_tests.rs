// SPDX-License-Identifier: Apache-2.0

use super::*;
use core::convert::Infallible;
use helio_format::before::{CHUNK_BYTES, CopyClass, CopyOwner, CopyStage, KeptImage};
use helio_format::slow_crc32c;
use helio_units::Sequence;

#[path = "before_branch_tests.rs"]
mod branches;
#[path = "before_first_tests.rs"]
mod first_version;
#[path = "before_standing_tests.rs"]
mod standing;

const CHUNK: u64 = 512;
const OWNER: u32 = 7;
/// Bytes of a header area.
const AREA: usize = AREA_PAGES as usize * PAGE_BYTES;
const SECTOR: usize = 512;
const STRIDE: usize = PAGE_BYTES + CHUNK as usize;

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

    fn try_open(&self) -> Result<(BeforeStore, BeforeFound), BeforeError<Infallible>> {
        let mut read = self.reader();
        BeforeStore::open(&mut read, self.0.len() as u64, Bytes(CHUNK), OWNER, slow_crc32c)
    }

    fn open(&self) -> (BeforeStore, BeforeFound) {
        self.try_open().expect("opens")
    }

    /// How it is found, where nothing of it is damaged, and no record is torn.
    fn sound(&self) -> (BeforeStore, BeforeFound) {
        let (store, found) = self.open();
        let is_header = |page: &u64| (*page as usize) < 2 * AREA;
        assert!(!found.damaged && found.torn.iter().all(is_header), "{found:?}");
        (store, found)
    }

    fn is_damaged(&self) -> bool {
        self.open().1.damaged
    }

    /// Behind its end lie zeros.
    fn reader(&self) -> impl FnMut(u64, &mut [u8]) -> Result<(), Infallible> + '_ {
        |at, buffer| {
            let at = (at as usize).min(self.0.len());
            let there = buffer.len().min(self.0.len() - at);
            buffer.fill(0);
            buffer[..there].copy_from_slice(&self.0[at..at + there]);
            Ok(())
        }
    }

    fn header(&mut self, write: &BeforeWrite) {
        self.put(write.offset, &write.bytes);
    }

    /// These copies count from now on, durably.
    fn list(&mut self, store: &mut BeforeStore, numbers: &[u64], freed: u64) {
        self.header(&list(store, numbers, freed));
        store.flushed();
    }

    fn keep(&mut self, store: &mut BeforeStore, number: u64, slot: u32, n: u64) {
        self.keep_of(store, CopyView::Cut(CopyNumber(number)), slot, n);
    }

    fn keep_of(&mut self, store: &mut BeforeStore, of: CopyView, slot: u32, n: u64) {
        let data = bytes(n);
        let write = store.record(of, Slot(slot), chunk(n), &data);
        self.put(write.offset, &write.bytes);
        self.put(write.offset + PAGE_BYTES as u64, &data);
    }

    /// A batch of chunks for a copy, each in its slot; it is durable.
    fn batch(&mut self, store: &mut BeforeStore, number: u64, records: &[(u32, u64)]) {
        store.begin_batch();
        records.iter().for_each(|(slot, n)| self.keep(store, number, *slot, *n));
        store.flushed();
    }

    fn load(&self, store: &BeforeStore, slot: u32, n: u64) -> Option<(Chunk, Vec<u8>)> {
        store.load(Slot(slot), chunk(n), &mut self.reader()).expect("reads")
    }
}

fn bytes(n: u64) -> Vec<u8> {
    vec![n as u8 + 1; CHUNK as usize]
}

fn chunk(n: u64) -> Chunk {
    (VolumeIndex(0), Extent::new(n * CHUNK_BYTES, CHUNK_BYTES))
}

fn mark(slot: u32, n: u64) -> u64 {
    fingerprint(Slot(slot), VolumeIndex(0), n * CHUNK_BYTES)
}

/// A copy of the image whose head is its number.
fn copy(number: u64) -> KeptCopy {
    let image = KeptImage { head: Sequence(number), ..KeptImage::default() };
    let (class, stage) = (CopyClass::Required, CopyStage::Held);
    KeptCopy { number: CopyNumber(number), class, stage, owner: CopyOwner::Resync, image }
}

fn list(store: &mut BeforeStore, numbers: &[u64], freed: u64) -> BeforeWrite {
    store.list(numbers.iter().map(|number| copy(*number)).collect(), freed, WallTime(9))
}

fn numbers(found: &BeforeFound) -> Vec<u64> {
    found.copies.iter().map(|copy| copy.number.0).collect()
}

/// Slot, copy and chunk of the records that count.
fn records(found: &BeforeFound) -> Vec<(u32, u64, u64)> {
    let chunk = |record: &BeforeRecord| record.chunk.1.offset / CHUNK_BYTES;
    let place = |record: &BeforeRecord| (record.slot.0, record.of.copy().0, chunk(record));
    found.records.iter().map(place).collect()
}

/// Copy 1 with chunks 0 to 3 in the slots of their numbers: two batches of two.
fn kept() -> (Desk, BeforeStore) {
    let mut desk = Desk::default();
    let (mut store, found) = desk.open();
    assert_eq!(found, BeforeFound::default());
    desk.list(&mut store, &[1], 0);
    desk.batch(&mut store, 1, &[(0, 0), (1, 1)]);
    desk.batch(&mut store, 1, &[(2, 2), (3, 3)]);
    (desk, store)
}

/// The same, behind a header that tells the sum.
fn noted() -> Desk {
    let (mut desk, mut store) = kept();
    let note = store.note().expect("four records are durable, and no header tells");
    desk.header(&note);
    assert_eq!(store.note(), None, "it is noted once");
    desk
}

/// Where the page of that slot lies.
fn page(slot: usize) -> usize {
    2 * AREA + slot * STRIDE
}

#[test]
fn what_was_kept_is_found_and_loaded() {
    let (desk, _) = kept();
    let (store, found) = desk.sound();
    assert_eq!((numbers(&found), found.last, found.slots), (vec![1], CopyNumber(1), 4));
    assert_eq!(found.copies[0].image.head, Sequence(1));
    assert_eq!(records(&found), [(0, 1, 0), (1, 1, 1), (2, 1, 2), (3, 1, 3)]);
    for n in 0..4 {
        assert_eq!(desk.load(&store, n, u64::from(n)), Some((chunk(n.into()), bytes(n.into()))));
    }
    assert_eq!(desk.load(&store, 0, 1), None, "another chunk lies there");
}

#[test]
fn a_record_may_lie_in_any_slot() {
    let mut desk = Desk::default();
    let (mut store, _) = desk.open();
    desk.list(&mut store, &[1], 0);
    desk.batch(&mut store, 1, &[(5, 0), (2, 1)]);
    let (_, found) = desk.sound();
    assert_eq!((records(&found), found.slots), (vec![(5, 1, 0), (2, 1, 1)], 6));
}

#[test]
fn an_ended_copy_is_gone_and_its_records_mean_nothing_to_the_next() {
    let (mut desk, mut store) = kept();
    desk.list(&mut store, &[], 0);
    let (_, found) = desk.sound();
    assert_eq!((numbers(&found), records(&found), found.last), (vec![], vec![], CopyNumber(1)));
    desk.list(&mut store, &[2], 0);
    assert_eq!(records(&desk.sound().1), []);
    desk.batch(&mut store, 2, &[(1, 7)]);
    assert_eq!(records(&desk.sound().1), [(1, 2, 7)]);
}

#[test]
fn until_its_end_is_durable_a_copy_can_be_read() {
    let (mut desk, mut store) = kept();
    let end = list(&mut store, &[], 0);
    assert_eq!(numbers(&desk.open().1), [1]);
    desk.header(&end);
    assert_eq!(desk.load(&store, 3, 3), Some((chunk(3), bytes(3))));
    store.flushed();
    assert_eq!(numbers(&desk.open().1), []);
}

#[test]
fn what_is_not_durable_is_not_noted() {
    let mut desk = Desk::default();
    let (mut store, _) = desk.open();
    desk.list(&mut store, &[1], 0);
    store.begin_batch();
    desk.keep(&mut store, 1, 0, 0);
    assert_eq!(store.note(), None, "the batch is not flushed");
    store.flushed();
    assert!(store.note().is_some());
}

#[test]
fn a_copy_without_a_time_was_cut_when_it_was_listed_first() {
    let mut desk = Desk::default();
    let (mut store, _) = desk.open();
    for now in [5, 9] {
        let write = store.list((1..=now / 4).map(copy).collect(), 0, WallTime(now));
        desk.header(&write);
        store.flushed();
    }
    let times: Vec<u64> = desk.open().1.copies.iter().map(|copy| copy.image.at.0).collect();
    assert_eq!(times, [5, 9]);
}

#[test]
fn a_torn_record_at_the_end_is_ignored_and_written_over() {
    let (whole, _) = kept();
    for torn in (page(3)..whole.0.len()).step_by(256) {
        let mut desk = whole.clone();
        desk.0[torn..].fill(0);
        let (mut store, found) = desk.open();
        assert_eq!((records(&found).len(), found.damaged), (3, false), "torn at {torn}");
        desk.batch(&mut store, 1, &[(3, 9)]);
        assert_eq!(records(&desk.sound().1).last(), Some(&(3, 1, 9)), "torn at {torn}");
    }
}

#[test]
fn a_batch_may_lose_its_first_record_and_keep_its_second() {
    let (mut desk, _) = kept();
    desk.0[page(2)] ^= 1;
    assert_eq!(records(&desk.sound().1), [(0, 1, 0), (1, 1, 1), (3, 1, 3)]);
}

#[test]
fn a_torn_record_whose_page_is_zeroed_harms_no_later_batch() {
    let (mut desk, mut store) = kept();
    store.begin_batch();
    desk.keep(&mut store, 1, 4, 4);
    desk.keep(&mut store, 1, 5, 5);
    desk.0[page(5) + PAGE_BYTES + 100] ^= 1;
    let (mut store, found) = desk.open();
    assert_eq!(records(&found).last(), Some(&(4, 1, 4)), "one of the two is whole");
    assert_eq!((found.damaged, &found.torn[..]), (false, &[page(5) as u64][..]));
    let mut careless = desk.clone();
    desk.put(found.torn[0], &[0; PAGE_BYTES]);
    for (slot, n) in [(6, 6), (7, 7)] {
        desk.batch(&mut store, 1, &[(slot, n)]);
        assert_eq!(records(&desk.sound().1).last(), Some(&(slot, 1, n)));
    }
    desk.header(&store.note().expect("it tells"));
    assert_eq!(records(&desk.sound().1).len(), 7);
    let (mut store, _) = careless.open();
    careless.batch(&mut store, 1, &[(6, 6)]);
    assert!(careless.is_damaged(), "a later batch does not tell it from one that counts");
}

#[test]
fn a_record_that_went_bad_after_it_was_durable_is_damage() {
    for at in [0, 100, PAGE_BYTES - 1] {
        let (mut desk, _) = kept();
        desk.0[page(0) + at] ^= 0x40;
        assert!(desk.is_damaged(), "byte {at} of the first record");
    }
    let (mut desk, _) = kept();
    desk.0[page(0) + PAGE_BYTES] ^= 0x40;
    let (store, found) = desk.sound();
    assert_eq!(records(&found).len(), 4);
    assert_eq!(desk.load(&store, 0, 0), None, "the bytes are checked when they are restored");
}

#[test]
fn a_record_that_is_read_whole_can_be_checked_by_itself() {
    let (desk, store) = kept();
    let whole = &desk.0[page(2)..page(3)];
    assert_eq!(store.check(chunk(2), whole), Some(chunk(2)));
    assert_eq!(store.check(chunk(1), whole), None);
    let (volume, grown) = (VolumeIndex(0), Extent::new(2 * CHUNK_BYTES, 4096));
    assert_eq!(store.check((volume, grown), whole), Some(chunk(2)), "it names its own length");
    assert_eq!(store.check((VolumeIndex(1), grown), whole), None);
}

#[test]
fn damage_in_the_last_batch_is_told_from_what_was_never_finished() {
    let mut desk = noted();
    assert_eq!(records(&desk.sound().1).len(), 4);
    desk.0[page(3) + 9] ^= 1;
    assert!(desk.is_damaged(), "its header went bad");
    let mut desk = noted();
    desk.0.truncate(page(3));
    assert!(desk.is_damaged(), "it was cut off");
    let mut desk = noted();
    desk.0[page(3) + PAGE_BYTES] ^= 1;
    let (store, found) = desk.sound();
    assert_eq!(records(&found).len(), 4, "it is not taken for one that was never finished");
    assert_eq!(desk.load(&store, 3, 3), None, "its bytes went bad");
}

#[test]
fn what_is_damaged_stays_so_until_no_copy_is_listed() {
    let mut desk = noted();
    desk.0[page(0)] ^= 1;
    let (mut store, found) = desk.open();
    assert!(found.damaged);
    desk.batch(&mut store, 1, &[(4, 4)]);
    assert!(desk.is_damaged(), "a chunk was added");
    store.note().into_iter().for_each(|note| desk.header(&note));
    assert!(desk.is_damaged(), "the sum was told");
    desk.list(&mut store, &[1, 2], 0);
    assert!(desk.is_damaged(), "a copy was cut");
    desk.list(&mut store, &[], 0);
    desk.list(&mut store, &[3], 0);
    assert_eq!(numbers(&desk.sound().1), [3]);
}

#[test]
fn a_file_that_was_raised_has_a_higher_sequence_than_any_copy_from_before() {
    let (mut desk, store) = kept();
    let before = store.sequence();
    let (mut store, found) = desk.sound();
    desk.header(&store.raise(before + 5));
    store.flushed();
    let (raised, same) = desk.sound();
    assert_eq!((raised.sequence(), records(&same)), (before + 6, records(&found)));
}

#[test]
fn an_older_file_stays_damaged_after_a_restart_until_no_copy_is_listed() {
    let (mut desk, _) = kept();
    let (mut store, _) = desk.sound();
    store.distrust();
    desk.header(&store.raise(100));
    store.flushed();
    assert!(desk.is_damaged() && desk.open().0.sequence() > 100);
    let (mut store, _) = desk.open();
    desk.list(&mut store, &[], 0);
    let (mut store, _) = desk.sound();
    desk.list(&mut store, &[9], 0);
    desk.sound();
}

#[test]
fn a_note_that_is_torn_leaves_the_header_before() {
    for sectors in 0..8 {
        let (mut desk, mut store) = kept();
        let note = store.note().expect("it tells");
        desk.put(note.offset, &note.bytes[..sectors * SECTOR]);
        assert_eq!(records(&desk.sound().1).len(), 4, "{sectors} sectors");
        let end = list(&mut store, &[], 0);
        assert_eq!(end.offset, note.offset, "the header before is the durable one");
        desk.header(&end);
        store.flushed();
        assert_eq!(numbers(&desk.sound().1), []);
        assert_ne!(list(&mut store, &[2], 0).offset, end.offset);
    }
}

#[test]
fn a_note_that_is_durable_with_a_later_batch_is_not_written_over() {
    let (mut desk, mut store) = kept();
    let first = store.note().expect("it tells");
    desk.header(&first);
    desk.batch(&mut store, 1, &[(4, 4)]);
    let second = store.note().expect("it tells more");
    assert_ne!(second.offset, first.offset);
    desk.put(second.offset, &second.bytes[..SECTOR]);
    assert_eq!(records(&desk.sound().1).len(), 5);
}

#[test]
fn a_torn_header_leaves_the_one_before() {
    let many: Vec<u64> = (1..=10).collect();
    for (before, after) in [(9, 10), (10, 9)] {
        let mut desk = Desk::default();
        let (mut store, _) = desk.open();
        (0..2).for_each(|_| desk.list(&mut store, &many[..before], 0));
        desk.batch(&mut store, before as u64, &[(0, 0)]);
        let write = list(&mut store, &many[..after], 0);
        assert_eq!(write.bytes.len(), 2 * PAGE_BYTES);
        for sectors in 0..=16 {
            let mut desk = desk.clone();
            desk.put(write.offset, &write.bytes[..sectors * SECTOR]);
            let count = if sectors < 11 { before } else { after };
            let (_, found) = desk.sound();
            assert_eq!(
                (found.copies.len(), records(&found).len()),
                (count, 1),
                "{sectors} sectors"
            );
        }
    }
}

#[test]
fn under_the_first_header_ever_nothing_was_kept_if_it_is_torn() {
    let mut desk = Desk::default();
    let (mut store, _) = desk.open();
    let write = list(&mut store, &[1], 0);
    desk.put(write.offset, &write.bytes[..SECTOR]);
    desk.put(store.header_bytes() - 1, &[0]);
    let nothing = BeforeFound { torn: vec![0], ..BeforeFound::default() };
    assert_eq!(desk.open().1, nothing);
}

#[test]
fn two_damaged_headers_and_strangers_are_named() {
    let (mut desk, mut store) = kept();
    desk.list(&mut store, &[], 0);
    (desk.0[9], desk.0[AREA + 9]) = (1, 1);
    let refused = desk.try_open().map(|_| ());
    assert_eq!(refused, Err(BeforeError::Unreadable([PageError::Damaged; 2])));
    let (desk, _) = kept();
    let mut read = desk.reader();
    let length = desk.0.len() as u64;
    let refused = BeforeStore::open(&mut read, length, Bytes(CHUNK), OWNER + 1, slow_crc32c);
    let refused = refused.map(|_| ());
    assert_eq!(refused, Err(BeforeError::Unreadable([PageError::Owner, PageError::Empty])));
}

#[test]
fn a_header_of_a_newer_version_is_refused_although_the_other_one_is_fine() {
    let newer = PageError::Version { found: 3 };
    for (area, shown) in [(0, [newer, PageError::Empty]), (1, [PageError::Empty, newer])] {
        let (mut desk, mut store) = kept();
        desk.list(&mut store, &[1, 2], 0);
        assert_eq!(numbers(&desk.sound().1), [1, 2]);
        desk.0[area * AREA + 4] = 3;
        let refused = desk.try_open().map(|_| ());
        assert_eq!(refused, Err(BeforeError::Unreadable(shown)), "area {area}");
    }
}

#[test]
fn a_record_belongs_to_the_youngest_copy_that_is_not_younger() {
    let mut desk = Desk::default();
    let (mut store, _) = desk.open();
    desk.list(&mut store, &[1], 0);
    desk.batch(&mut store, 1, &[(0, 0)]);
    desk.list(&mut store, &[1, 2], 0);
    desk.batch(&mut store, 2, &[(1, 0), (2, 1)]);
    desk.list(&mut store, &[1, 2, 3], 0);
    desk.batch(&mut store, 3, &[(3, 2)]);
    let all = [(0, 1, 0), (1, 2, 0), (2, 2, 1), (3, 3, 2)];
    assert_eq!(records(&desk.sound().1), all);
    // Copy 3 leaves its record to copy 2, which lacks it.
    desk.list(&mut store, &[1, 2], 0);
    let left = [(0, 1, 0), (1, 2, 0), (2, 2, 1), (3, 2, 2)];
    assert_eq!(records(&desk.sound().1), left);
    // What copy 1 leaves is of no use to a younger one.
    desk.list(&mut store, &[2, 4], mark(0, 0));
    desk.batch(&mut store, 4, &[(4, 3)]);
    let (_, found) = desk.sound();
    assert_eq!(records(&found), [(1, 2, 0), (2, 2, 1), (3, 2, 2), (4, 4, 3)]);
    assert_eq!((numbers(&found), found.last), (vec![2, 4], CopyNumber(4)));
}

/// Copies 1 and 2 have both chunk 0, in slots 0 and 1; copy 2 is listed no more.
fn two_of_one_chunk(freed: u64) -> (Desk, BeforeStore) {
    let mut desk = Desk::default();
    let (mut store, _) = desk.open();
    desk.list(&mut store, &[1], 0);
    desk.batch(&mut store, 1, &[(0, 0)]);
    desk.list(&mut store, &[1, 2], 0);
    desk.batch(&mut store, 2, &[(1, 0)]);
    desk.list(&mut store, &[1], freed);
    (desk, store)
}

#[test]
fn of_two_records_that_belong_to_one_copy_the_lower_number_counts() {
    let (desk, _) = two_of_one_chunk(mark(1, 0));
    assert_eq!(records(&desk.sound().1), [(0, 1, 0)]);
    let (mut desk, _) = two_of_one_chunk(mark(1, 0));
    desk.0[page(0)] ^= 1;
    assert!(desk.is_damaged(), "the other one does not stand for it");
    let (desk, _) = two_of_one_chunk(0);
    assert!(desk.is_damaged(), "the sum has a record that does not count");
}

#[test]
fn a_freed_slot_is_used_again_and_what_lay_there_is_not_counted() {
    let (mut desk, mut store) = two_of_one_chunk(mark(1, 0));
    desk.list(&mut store, &[1, 3], 0);
    assert_eq!(records(&desk.sound().1), [(0, 1, 0)], "the old record is still there");
    let old = desk.clone();
    desk.batch(&mut store, 3, &[(1, 5)]);
    assert_eq!(records(&desk.sound().1), [(0, 1, 0), (1, 3, 5)]);
    let note = store.note().expect("it tells");
    desk.header(&note);
    assert_eq!(records(&desk.sound().1).len(), 2);
    let mut lost = old.clone();
    lost.header(&note);
    assert!(lost.is_damaged(), "the old record does not stand for the new one");
    // The batch is torn: its page is the old one still, or not whole.
    for torn in [0, SECTOR, PAGE_BYTES] {
        let mut torn_desk = old.clone();
        let whole = &desk.0[page(1)..page(1) + torn];
        torn_desk.put(page(1) as u64, whole);
        let (mut store, found) = torn_desk.open();
        assert_eq!((records(&found), found.damaged), (vec![(0, 1, 0)], false), "{torn} bytes");
        found.torn.iter().for_each(|page| torn_desk.put(*page, &[0; PAGE_BYTES]));
        torn_desk.batch(&mut store, 3, &[(1, 6)]);
        assert_eq!(records(&torn_desk.sound().1), [(0, 1, 0), (1, 3, 6)], "{torn} bytes");
    }
}

#[test]
fn a_chunk_that_goes_to_another_copy_in_the_same_slot_keeps_the_sum() {
    let (mut desk, mut store) = two_of_one_chunk(mark(1, 0));
    desk.list(&mut store, &[1, 3], 0);
    desk.batch(&mut store, 3, &[(1, 0)]);
    assert_eq!(records(&desk.sound().1), [(0, 1, 0), (1, 3, 0)]);
    let (mut store, _) = desk.sound();
    desk.list(&mut store, &[3], mark(0, 0));
    desk.list(&mut store, &[3, 4], 0);
    assert_eq!(records(&desk.sound().1), [(1, 3, 0)]);
}

#[test]
#[should_panic(expected = "not in the list")]
fn no_chunk_is_kept_for_a_copy_that_is_not_listed() {
    let (_, mut store) = kept();
    store.record(CopyView::Cut(CopyNumber(2)), Slot(4), chunk(4), &bytes(4));
}

#[test]
fn a_torn_header_is_not_completed_by_a_later_one() {
    let (mut desk, mut store) = kept();
    // The note says the same of the copy as the list behind it, which lies in its place and is torn.
    let torn = list(&mut store, &[1, 2], 0);
    let [first, rest] = [0, 1024].map(|at| torn.offset as usize + at);
    desk.put(torn.offset, &torn.bytes[..512]);
    desk.put(torn.offset + 1024, &torn.bytes[1024..]);
    desk.0[first + 520] ^= 3;
    let (_, found) = desk.sound();
    assert_eq!((numbers(&found), &found.torn[..]), (vec![1], &[torn.offset][..]));
    desk.put(found.torn[0], &[0; PAGE_BYTES]);
    assert_eq!(desk.sound().1.torn, [], "it is gone");
    assert!(desk.0[rest] == 0);
}
