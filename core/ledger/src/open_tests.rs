// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::ledger::{Change, Kept};
use crate::paper::{CHECKSUM, OWNER, PEER, Paper, superblock};
use alloc::string::ToString;
use alloc::vec;
use helio_format::page::BODY_WORDS;

/// A file at rest: superblock, hot extents 3 and 9, a mark in page 1.
fn paper() -> Paper {
    let layout = Layout::of(&superblock(1));
    let mut paper = Paper::new(layout.bytes());
    let mut ledger = Ledger::fresh(layout, OWNER, CHECKSUM);
    let mut bits = Box::new([0; BODY_WORDS]);
    bits[2] = 4;
    for change in [
        Change::Superblock(Box::new(superblock(1))),
        Change::Hot { ticket: 1, add: vec![9, 3], remove: vec![] },
        Change::Marks { owner: PEER, page: 1, bits },
    ] {
        assert_eq!(ledger.keep(change), None);
    }
    assert_eq!(paper.settle(&mut ledger).len(), 3);
    paper
}

fn open(bytes: &[u8]) -> Result<(Ledger, Found), LedgerError> {
    match Ledger::open(bytes, OWNER, CHECKSUM)? {
        Opened::Found(found) => Ok(*found),
        Opened::Fresh | Opened::Older(_) => panic!("it was written by this build"),
    }
}

fn refusal(bytes: &[u8]) -> LedgerError {
    open(bytes).map(|_| ()).expect_err("not to be served from")
}

/// The pairs of `paper`: superblock 0, member states 1, directory 3, hot 7 and 8, marks 9 and 10. Which hot page was taken is
/// the ledger's affair.
fn pair(number: usize) -> usize {
    number * PAIR_BYTES
}

#[test]
fn what_was_kept_is_found() {
    let (ledger, found) = open(paper().bytes()).expect("opens");
    assert_eq!(found.superblock, superblock(1));
    assert_eq!(found.hot, [3, 9]);
    assert_eq!(found.marks.len(), 1);
    assert_eq!((found.marks[0].0, found.marks[0].1[2]), (1, 4));
    assert!(found.repaired.is_empty() && ledger.is_idle());
    assert_eq!(ledger.sequence(), 5);
}

/// The file of another name has the pages of the first one, and a crash leaves one of the two names.
#[test]
fn a_file_with_another_name_is_found_under_that_name_alone() {
    let mut paper = paper();
    let new = ("pg", "rome");
    let renamed = superblock(2).renamed(new.0, new.1, CHECKSUM);
    let before = paper.bytes().to_vec();
    let (mut ledger, _) = open(&before).expect("opens");
    ledger.rename(new);
    assert_eq!(ledger.keep(Change::Superblock(Box::new(renamed.clone()))), None);
    assert_eq!(paper.settle(&mut ledger), [Kept::Superblock { ok: true }]);
    let page = PageName { kind: Kind::Superblock, index: 0, owner: None };
    let owner = Some((String::from("pg"), String::from("rome")));
    // Both copies of the superblock, and only the first one of them.
    let both = paper.bytes().to_vec();
    let mut first = both.clone();
    first[PAGE_BYTES..PAIR_BYTES].copy_from_slice(&before[PAGE_BYTES..PAIR_BYTES]);
    for bytes in [both.clone(), first] {
        assert_eq!(refusal(&bytes), LedgerError::Owner { page, found: owner.clone() });
        let Ok(Opened::Found(found)) = Ledger::open(&bytes[..], new, CHECKSUM) else {
            panic!("it has this name")
        };
        assert_eq!((&found.1.superblock, &found.1.hot), (&renamed, &vec![3, 9]));
        assert_eq!(found.1.marks.len(), 1);
    }
    // The write of the first one tore.
    let mut torn = before;
    torn[100] ^= 1;
    assert_eq!(open(&torn).expect("it has the old name").1.superblock, superblock(1));
    let mut damaged = both;
    damaged[100] ^= 1;
    assert!(matches!(Ledger::open(&damaged[..], new, CHECKSUM), Ok(Opened::Found(_))));
}

#[test]
fn an_empty_file_is_fresh_and_so_is_one_of_zeros() {
    for length in [0, 8192, 90112] {
        let opened = Ledger::open(&vec![0; length][..], OWNER, CHECKSUM);
        assert!(matches!(opened, Ok(Opened::Fresh)));
    }
}

#[test]
fn every_byte_of_a_file_flipped_once_is_named_and_repaired() {
    let whole = paper().bytes().to_vec();
    let want = open(&whole).expect("opens").1;
    let mut bytes = whole.clone();
    // One byte in thirteen of all pages that were written; the format's own test flips every one of a page.
    for at in (0..whole.len()).step_by(13) {
        if whole[at / PAIR_BYTES * PAIR_BYTES] == 0 {
            continue;
        }
        bytes[at] ^= 0x40;
        let (_, found) = open(&bytes).expect("the other copy is whole");
        let copy = if at % PAIR_BYTES < PAGE_BYTES { "copy A of " } else { "copy B of " };
        assert!(found.repaired.len() == 1 && found.repaired[0].starts_with(copy), "byte {at}");
        assert_eq!(Found { repaired: vec![], ..found }, want, "byte {at}");
        bytes[at] ^= 0x40;
    }
}

#[test]
fn a_byte_in_a_page_never_written_is_named_too() {
    let mut bytes = paper().bytes().to_vec();
    bytes[pair(9) + 100] = 1;
    let (mut ledger, found) = open(&bytes).expect("nothing was ever told of it");
    assert_eq!(
        found.repaired,
        ["copy A of bitmap page 0 was damaged in its first write; it is written again"]
    );
    let mut paper = Paper::of(bytes);
    assert_eq!(paper.settle(&mut ledger), vec![]);
    assert!(open(paper.bytes()).expect("opens").1.repaired.is_empty());
    paper.overwrite(pair(9), &[0; PAIR_BYTES]);
    paper.overwrite(pair(9) + PAGE_BYTES, &[1]);
    assert!(matches!(refusal(paper.bytes()), LedgerError::Unreadable { .. }), "B comes second");
}

#[test]
fn both_copies_bad_are_refused_by_name() {
    for (number, name) in [
        (0, "the superblock"),
        (1, "the member states"),
        (3, "directory page 0"),
        (10, "bitmap page 1"),
    ] {
        let mut bytes = paper().bytes().to_vec();
        bytes[pair(number) + 50] ^= 1;
        bytes[pair(number) + PAGE_BYTES + 50] ^= 1;
        let text = refusal(&bytes).to_string();
        assert!(text.starts_with(&format!("neither copy of {name} can be used: ")), "{text}");
    }
}

#[test]
fn a_file_without_its_superblock_is_not_fresh() {
    let mut bytes = paper().bytes().to_vec();
    bytes[..PAIR_BYTES].fill(0);
    let LedgerError::Unreadable { copies, .. } = refusal(&bytes) else { panic!("unreadable") };
    assert_eq!(copies, [PageError::Empty; 2]);
}

#[test]
fn the_first_torn_superblock_is_damage_and_not_a_fresh_file() {
    let mut bytes = vec![0; paper().bytes().len()];
    bytes[..512].copy_from_slice(&paper().bytes()[..512]);
    let LedgerError::Unreadable { copies, .. } = refusal(&bytes) else { panic!("unreadable") };
    assert_eq!(copies, [PageError::Damaged, PageError::Empty]);
}

#[test]
fn a_file_cut_off_anywhere_is_refused() {
    let bytes = paper().bytes().to_vec();
    for length in [1, 4096, 8191, 8192, 20000, 57343, 57344, bytes.len() - 1] {
        assert!(
            matches!(refusal(&bytes[..length]), LedgerError::Truncated { found, .. } if found == length as u64)
        );
    }
}

#[test]
fn another_nodes_file_and_another_nodes_page_are_named() {
    let mut bytes = paper().bytes().to_vec();
    let opened = Ledger::open(&bytes[..], ("db", "lyon"), CHECKSUM);
    let error = opened.map(|_| ()).expect_err("another's");
    assert_eq!(error.to_string(), "the superblock belongs to group db on node paris");
    let owner = page::owner("db", "lyon", CHECKSUM);
    let place = Place { kind: Kind::Marks, index: 1, map: 2, version: VERSION };
    let header = page::Header { place, owner, sequence: 99 };
    let page = page::encode(&header, &[0; BODY_BYTES], CHECKSUM);
    bytes[pair(10)..][..PAGE_BYTES].copy_from_slice(&page);
    assert_eq!(refusal(&bytes).to_string(), "bitmap page 1 belongs to another group or node");
}

#[test]
fn a_later_version_is_refused_even_beside_a_copy_we_can_read() {
    let mut bytes = paper().bytes().to_vec();
    let copy = &mut bytes[PAGE_BYTES..PAIR_BYTES];
    copy[4] = 4;
    copy[28..32].fill(0);
    let crc = CHECKSUM(copy).to_le_bytes();
    copy[28..32].copy_from_slice(&crc);
    assert!(matches!(refusal(&bytes), LedgerError::Version { found: 4, .. }));
}

#[test]
fn the_metadata_of_version_one_is_named() {
    let mut bytes = vec![0; PAIR_BYTES];
    bytes[..12].copy_from_slice(b"HELIOSB1\x01\0\0\0");
    let crc = CHECKSUM(&bytes[..PAGE_BYTES - 4]).to_le_bytes();
    bytes[PAGE_BYTES - 4..PAGE_BYTES].copy_from_slice(&crc);
    assert!(matches!(refusal(&bytes), LedgerError::Version { found: 1, .. }));
}

#[test]
fn two_whole_copies_of_one_sequence_that_differ_are_refused() {
    let mut bytes = paper().bytes().to_vec();
    let owner = page::owner(OWNER.0, OWNER.1, CHECKSUM);
    let (header, _) = page::decode(bytes[pair(10)..].first_chunk().expect("a page"), CHECKSUM)
        .map(|(header, body)| (header, *body))
        .expect("whole");
    assert_eq!(header.owner, owner);
    let page = page::encode(&header, &[0; BODY_BYTES], CHECKSUM);
    bytes[pair(10)..][..PAGE_BYTES].copy_from_slice(&page);
    assert!(matches!(refusal(&bytes), LedgerError::Contradiction { .. }));
}

#[test]
fn a_copy_that_went_back_is_named_and_the_newer_one_holds() {
    let old = paper();
    let mut new = old.clone();
    let (mut ledger, _) = open(new.bytes()).expect("opens");
    assert_eq!(ledger.keep(Change::Superblock(Box::new(superblock(2)))), None);
    assert_eq!(new.settle(&mut ledger), vec![Kept::Superblock { ok: true }]);
    new.overwrite(0, &old.bytes()[..PAGE_BYTES]);
    let (_, found) = open(new.bytes()).expect("copy B is whole");
    assert_eq!(found.superblock, superblock(2));
    assert_eq!(
        found.repaired,
        ["copy A of the superblock was older than copy B; it is written again from copy B"]
    );
}

#[test]
fn a_place_that_cannot_be_read_counts_as_damaged() {
    struct Bad(Vec<u8>);
    impl MetadataFile for Bad {
        fn length(&self) -> u64 {
            self.0.len() as u64
        }
        fn page(&self, offset: u64, into: &mut [u8; PAGE_BYTES]) -> bool {
            offset != PAIR_BYTES as u64 * 10 && self.0[..].page(offset, into)
        }
    }
    let opened = Ledger::open(&Bad(paper().bytes().to_vec()), OWNER, CHECKSUM).expect("B is whole");
    let Opened::Found(found) = opened else { panic!("it was written") };
    assert!(found.1.repaired[0].starts_with("copy A of bitmap page 1 was damaged"));
    assert_eq!(found.1.marks.len(), 1);
}

/// Ten tebibytes, every bitmap page written and whole: read page by page, as a daemon does.
#[test]
fn a_big_file_is_judged_page_by_page_and_found_whole() {
    struct Made(Layout, Superblock, u32);
    impl MetadataFile for Made {
        fn length(&self) -> u64 {
            self.0.bytes()
        }
        fn page(&self, offset: u64, into: &mut [u8; PAGE_BYTES]) -> bool {
            let directory = Directory::standing(&self.0);
            let Some(place) = directory.place((offset / PAIR_BYTES as u64) as u32) else {
                into.fill(0);
                return true;
            };
            let one = core::array::from_fn(|word| u64::from(word == 0));
            let body = match place.kind {
                Kind::Superblock => self.1.encode(),
                Kind::Hot => [0; BODY_BYTES],
                Kind::Marks => marks::encode(&one),
                Kind::Members => Members::found(None, (self.1.sizes.len(), 0)).encode(),
                Kind::Directory => directory::encode(&directory.page(place.index)),
                Kind::Files => [0; BODY_BYTES],
            };
            let header = page::Header { place, owner: self.2, sequence: 5 };
            into.copy_from_slice(&page::encode(&header, &body, cheap));
            true
        }
    }
    fn cheap(bytes: &[u8]) -> u32 {
        bytes.iter().fold(1, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)))
    }
    let superblock = Superblock::new("db", "paris", [10 << 40].into());
    let file = Made(Layout::of(&superblock), superblock, page::owner("db", "paris", cheap));
    let Ok(Opened::Found(found)) = Ledger::open(&file, OWNER, cheap) else { panic!("whole") };
    assert!(found.0.is_idle() && found.1.repaired.is_empty());
    assert_eq!(found.1.marks.len(), 5161);
}

#[test]
fn an_extent_found_in_two_pages_is_gone_only_when_it_is_gone_from_both() {
    let mut paper = paper();
    let owner = page::owner(OWNER.0, OWNER.1, CHECKSUM);
    let place = Place { kind: Kind::Hot, index: 0, map: 1, version: VERSION };
    let header = page::Header { place, owner, sequence: 6 };
    let mut slots = [0; BODY_WORDS];
    slots[7] = 1 + 9;
    let page = page::encode(&header, &hot::encode(&slots), CHECKSUM);
    paper.overwrite(pair(7), &page);
    paper.overwrite(pair(7) + PAGE_BYTES, &page);
    // The other page cannot be written before its damaged copy is whole.
    paper.flip(pair(8) + PAGE_BYTES + 99, 1);
    let (mut ledger, found) = open(paper.bytes()).expect("opens");
    assert_eq!(found.hot, [3, 9]);
    assert_eq!(ledger.keep(Change::Hot { ticket: 1, add: vec![], remove: vec![9] }), None);
    let kept = |paper: &mut Paper, ledger: &mut Ledger| {
        paper.ask(ledger);
        while !paper.writes().is_empty() {
            paper.end_write(0, true, &mut crate::paper::Dice::new(0));
            assert_eq!(ledger.written(true), vec![]);
        }
        paper.ask(ledger);
        paper.end_flush(true);
        ledger.flushed(true)
    };
    assert_eq!(kept(&mut paper, &mut ledger), vec![]);
    assert_eq!(open(paper.bytes()).expect("opens").1.hot, [3, 9]);
    assert_eq!(kept(&mut paper, &mut ledger), vec![Kept::Hot { ticket: 1, ok: true }]);
    assert_eq!(open(paper.bytes()).expect("opens").1.hot, [3]);
}
