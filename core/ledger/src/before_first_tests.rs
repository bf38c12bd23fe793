// SPDX-License-Identifier: Apache-2.0
//! Files of version 1, as that version wrote them.

use super::*;

/// Where the records of such a file begin.
const NARROW: usize = 2 * PAGE_BYTES;

/// A page of version 1 with these bytes at these places.
fn old(magic: [u8; 4], fields: &[(usize, &[u8])]) -> Page {
    let mut page: Page = [0; PAGE_BYTES];
    page[..4].copy_from_slice(&magic);
    page[4] = 1;
    page[8..12].copy_from_slice(&OWNER.to_le_bytes());
    fields.iter().for_each(|(at, bytes)| page[*at..at + bytes.len()].copy_from_slice(bytes));
    let crc = slow_crc32c(&page[..PAGE_BYTES - 4]).to_le_bytes();
    page[PAGE_BYTES - 4..].copy_from_slice(&crc);
    page
}

fn old_header(sequence: u8, keeping: u8, durable: u8) -> Page {
    let state = if keeping == 0 { 1 } else { 2 };
    let fields: [(usize, &[u8]); 4] =
        [(6, &[state]), (16, &[sequence]), (24, &[keeping]), (464, &[durable])];
    old(*b"HLBI", &fields)
}

/// A record of keeping 3: the chunk of its number.
fn old_record(number: u8, durable: u8) -> Page {
    let data = slow_crc32c(&bytes(number.into())).to_le_bytes();
    let (_, extent) = chunk(number.into());
    let (offset, length) = (extent.offset.to_le_bytes(), extent.length.to_le_bytes());
    let fields: [(usize, &[u8]); 6] =
        [(12, &data), (16, &[3]), (24, &[number]), (32, &[durable]), (48, &offset), (56, &length)];
    old(*b"HLBR", &fields)
}

/// A keeping that began with header 3, with chunks 0 to 3: two batches of two. Header 2 is older.
fn first() -> Desk {
    let mut desk = Desk::default();
    desk.put(PAGE_BYTES as u64, &old_header(2, 0, 0));
    desk.put(0, &old_header(3, 3, 0));
    for number in 0..4 {
        let at = (NARROW + usize::from(number) * STRIDE) as u64;
        desk.put(at, &old_record(number, number / 2 * 2));
        desk.put(at + PAGE_BYTES as u64, &bytes(number.into()));
    }
    desk
}

/// The header in that page: its sequence, pages of an area, and copies.
fn narrow(desk: &Desk, page: usize) -> (u64, u16, usize) {
    let area = &desk.0[page * PAGE_BYTES..];
    let header = Header::decode(area, OWNER, slow_crc32c).expect("it is of this version");
    (header.sequence, header.area, header.copies.len())
}

#[test]
fn a_keeping_of_version_1_is_a_required_copy_that_is_held() {
    let desk = first();
    let (store, found) = desk.sound();
    let kept = KeptCopy { image: KeptImage::default(), ..copy(3) };
    assert_eq!((&found.copies[..], found.last, found.slots), (&[kept][..], CopyNumber(3), 4));
    assert_eq!(records(&found), [(0, 3, 0), (1, 3, 1), (2, 3, 2), (3, 3, 3)]);
    assert_eq!((store.header_bytes(), store.copies_most()), (NARROW as u64, 7));
    assert_eq!(desk.load(&store, 3, 3), Some((chunk(3), bytes(3))));
}

#[test]
fn damage_is_told_from_what_was_never_finished_as_version_1_proves_it() {
    let at = |number: usize| NARROW + number * STRIDE;
    let mut desk = first();
    desk.0[at(1) + 9] ^= 1;
    assert!(desk.is_damaged(), "later records say that it was durable");
    let mut desk = first();
    desk.0[at(3) + 9] ^= 1;
    assert_eq!(records(&desk.sound().1).len(), 3, "the last batch was never finished");
    desk.put(PAGE_BYTES as u64, &old_header(4, 3, 4));
    assert!(desk.is_damaged(), "a header says that it was durable");
    let mut desk = first();
    desk.0[at(3) + PAGE_BYTES] ^= 1;
    let (_, found) = desk.open();
    assert_eq!((found.torn, found.damaged), (vec![at(3) as u64], false));
}

#[test]
fn a_damaged_keeping_of_version_1_stays_damaged_under_this_version() {
    let mut desk = first();
    desk.0[NARROW] ^= 1;
    let (mut store, found) = desk.open();
    assert!(found.damaged);
    desk.list(&mut store, &[3], 0);
    assert!(desk.is_damaged());
}

#[test]
fn a_keeping_of_version_1_is_added_to_and_listed_under_this_version() {
    let mut desk = first();
    let (mut store, _) = desk.sound();
    desk.batch(&mut store, 3, &[(4, 4)]);
    desk.list(&mut store, &[3], 0);
    assert_eq!(narrow(&desk, 1), (5, 1, 1));
    let all = [(0, 3, 0), (1, 3, 1), (2, 3, 2), (3, 3, 3), (4, 3, 4)];
    let (mut store, found) = desk.sound();
    assert_eq!((records(&found), found.slots), (all.to_vec(), 5));
    assert_eq!(store.header_bytes(), NARROW as u64);
    desk.list(&mut store, &[3, 4, 5, 6, 7, 8, 9], 0);
    assert_eq!(narrow(&desk, 0), (6, 1, 7));
    desk.batch(&mut store, 9, &[(5, 0)]);
    let (_, found) = desk.sound();
    assert_eq!((records(&found)[..5].to_vec(), records(&found)[5]), (all.to_vec(), (5, 9, 0)));
    desk.0[NARROW + 2 * STRIDE] ^= 1;
    assert!(desk.is_damaged(), "the sum covers records of version 1");
}

#[test]
fn what_is_added_to_a_keeping_of_version_1_counts_before_a_new_header_is_durable() {
    let mut desk = first();
    let (mut store, _) = desk.sound();
    desk.batch(&mut store, 3, &[(4, 4)]);
    let torn = store.note().expect("no header tells");
    desk.put(torn.offset, &torn.bytes[..SECTOR]);
    assert_eq!(records(&desk.sound().1).last(), Some(&(4, 3, 4)), "it is durable");
}

#[test]
fn a_torn_record_of_version_1_whose_page_is_zeroed_harms_nothing() {
    let mut desk = first();
    let torn = NARROW + 3 * STRIDE;
    desk.0[torn + PAGE_BYTES] ^= 1;
    let (mut store, found) = desk.open();
    assert_eq!(found.torn, [torn as u64]);
    desk.put(torn as u64, &[0; PAGE_BYTES]);
    desk.batch(&mut store, 3, &[(3, 9)]);
    desk.list(&mut store, &[3], 0);
    assert_eq!(records(&desk.sound().1).last(), Some(&(3, 3, 9)));
}

#[test]
fn once_its_list_is_empty_a_file_of_version_1_gets_wide_header_areas() {
    let mut desk = first();
    let (mut store, _) = desk.sound();
    desk.list(&mut store, &[], 0);
    assert_eq!(narrow(&desk, 1), (4, 1, 0));
    assert_eq!(store.header_bytes(), 2 * AREA as u64);
    desk.0.truncate(NARROW);
    let (mut reopened, found) = desk.sound();
    assert_eq!((found.copies, found.last, found.slots), (vec![], CopyNumber(3), 0));
    for store in [&mut store, &mut reopened] {
        let mut desk = desk.clone();
        let write = list(store, &[4], 0);
        assert_eq!(write.offset, AREA as u64, "no header of the narrow areas is written over");
        desk.header(&write);
        store.flushed();
        desk.batch(store, 4, &[(0, 6)]);
        let (mut store, found) = desk.sound();
        assert_eq!((numbers(&found), records(&found)), (vec![4], vec![(0, 4, 6)]));
        assert_eq!((store.header_bytes(), store.copies_most()), (2 * AREA as u64, 127));
        for number in 5..8 {
            desk.list(&mut store, &[4, number], 0);
            let (_, found) = desk.sound();
            assert_eq!((numbers(&found), records(&found)), (vec![4, number], vec![(0, 4, 6)]));
        }
    }
}

#[test]
fn a_torn_first_wide_header_leaves_the_file_of_version_1_readable() {
    let mut unkept = Desk::default();
    unkept.put(0, &old_header(3, 2, 0));
    unkept.put(PAGE_BYTES as u64, &old_header(4, 0, 0));
    let mut ended = first();
    let (mut store, _) = ended.sound();
    ended.list(&mut store, &[], 0);
    for desk in [unkept, ended] {
        for sectors in 0..=8 {
            let mut desk = desk.clone();
            let (mut store, found) = desk.sound();
            assert_eq!((found.copies, found.records), (vec![], vec![]));
            let write = list(&mut store, &[6], 0);
            desk.put(write.offset, &write.bytes[..sectors * SECTOR]);
            let (mut store, found) = desk.sound();
            assert_eq!(numbers(&found).len(), usize::from(sectors > 1), "{sectors} sectors");
            desk.list(&mut store, &[7], 0);
            assert_eq!(numbers(&desk.sound().1), [7]);
        }
    }
}

#[test]
fn two_damaged_wide_headers_do_not_bring_an_older_list_back() {
    let mut desk = first();
    desk.put(PAGE_BYTES as u64, &old_header(4, 3, 0));
    desk.0.truncate(NARROW);
    let (mut store, _) = desk.sound();
    desk.list(&mut store, &[], 0);
    desk.list(&mut store, &[4], 0);
    desk.list(&mut store, &[4, 5], 0);
    (desk.0[9], desk.0[AREA + 9]) = (1, 1);
    let refused = desk.try_open().map(|(_, found)| numbers(&found));
    assert!(refused.is_err(), "copy 3 was dropped, and is found again: {refused:?}");
}

#[test]
fn a_newer_header_in_the_second_page_of_a_file_of_version_1_is_refused() {
    for page in [0, 1] {
        let mut desk = first();
        let (mut store, _) = desk.sound();
        desk.list(&mut store, &[3], 0);
        desk.0[page * PAGE_BYTES + 4] = 3;
        let refused = desk.try_open().map(|_| ());
        assert!(refused.is_err(), "the header in page {page} is newer");
    }
}

/// The bytes of the first chunk lie where a wide header would.
#[test]
fn what_clients_wrote_is_not_taken_for_a_header_of_a_file_of_version_1() {
    let kept = Header {
        sequence: 99,
        area: AREA_PAGES,
        last: CopyNumber(99),
        sum: 0,
        copies: vec![copy(99)],
    };
    let mut newer = kept.encode(OWNER, slow_crc32c);
    newer[4] = 3;
    for forged in [kept.encode(OWNER, slow_crc32c), newer] {
        let mut desk = Desk::default();
        desk.put(0, &old_header(2, 0, 0));
        desk.put(PAGE_BYTES as u64, &old_header(3, 3, 0));
        let mut data = vec![0; CHUNK_BYTES as usize];
        let at = AREA - NARROW - PAGE_BYTES;
        data[at..at + forged.len()].copy_from_slice(&forged);
        let mut page = old_record(0, 0);
        page[12..16].copy_from_slice(&slow_crc32c(&data).to_le_bytes());
        let crc = slow_crc32c(&page[..PAGE_BYTES - 4]).to_le_bytes();
        page[PAGE_BYTES - 4..].copy_from_slice(&crc);
        desk.put(NARROW as u64, &page);
        desk.put((NARROW + PAGE_BYTES) as u64, &data);
        let (mut read, length) = (desk.reader(), desk.0.len() as u64);
        let opened = BeforeStore::open(&mut read, length, Bytes(CHUNK_BYTES), OWNER, slow_crc32c);
        let found = opened.map(|(_, found)| (numbers(&found), records(&found)));
        assert_eq!(found, Ok((vec![3], vec![(0, 3, 0)])));
    }
}
