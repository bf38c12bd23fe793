// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::ledger::{Change, Ledger};
use crate::paper::{CHECKSUM, OWNER, PEER, Paper, superblock};
use alloc::boxed::Box;
use alloc::vec;
use helio_format::page::BODY_WORDS;

fn paper() -> Paper {
    let layout = Layout::of(&superblock(1));
    let mut paper = Paper::new(layout.bytes());
    let mut ledger = Ledger::fresh(layout, OWNER, CHECKSUM);
    let mut bits = Box::new([0; BODY_WORDS]);
    bits[2] = 5;
    for change in [
        Change::Superblock(Box::new(superblock(1))),
        Change::Hot { ticket: 1, add: vec![9, 3], remove: vec![] },
        Change::Marks { owner: PEER, page: 1, bits },
    ] {
        assert_eq!(ledger.keep(change), None);
    }
    paper.settle(&mut ledger);
    paper
}

fn lines(found: &Description) -> Vec<String> {
    found.pairs.iter().map(ToString::to_string).collect()
}

#[test]
fn every_pair_is_shown_with_what_it_says() {
    let mut paper = paper();
    let found = describe(paper.bytes(), CHECKSUM);
    assert!(found.is_sound());
    assert_eq!((found.superblock.clone(), found.sequence), (Some(superblock(1)), 5));
    assert_eq!((found.version, found.needed), (Some(VERSION), Some(90112)));
    let maps = "engine in 2 pages from 57344, peer 0 in 2 pages from 73728";
    assert_eq!(
        lines(&found),
        [
            "superblock at 0: level; A sequence 1; B sequence 1; the fields above",
            "member states at 8192: level; A sequence 2; B sequence 2; good",
            "file record at 16384: never written; A never written; B never written; nothing",
            &format!("directory page 0 at 24576: level; A sequence 3; B sequence 3; {maps}"),
            "directory page 1 at 32768: never written; A never written; B never written; nothing",
            "directory page 2 at 40960: never written; A never written; B never written; nothing",
            "directory page 3 at 49152: never written; A never written; B never written; nothing",
            "hot page 0 at 57344: never written; A never written; B never written; nothing",
            "hot page 1 at 65536: level; A sequence 4; B sequence 4; 2 hot",
            "bitmap page 0 at 73728: never written; A never written; B never written; nothing",
            "bitmap page 1 at 81920: level; A sequence 5; B sequence 5; 2 dirty",
        ]
    );
    paper.flip(81952, 1);
    let found = describe(paper.bytes(), CHECKSUM);
    assert!(!found.is_sound());
    assert_eq!(
        (found.pairs[10].state, &found.pairs[10].content),
        (PairState::Repairable, &Content::Marks(2))
    );
    paper.flip(89152, 1);
    assert_eq!(describe(paper.bytes(), CHECKSUM).pairs[10].state, PairState::Lost);
}

#[test]
fn the_epoch_of_members_is_not_called_as_that_of_a_file() {
    let entry = |health| Some(MemberEntry { health, disk: DiskMark::UNKNOWN });
    let mut members = [None; helio_format::members::MEMBERS_MAX];
    (members[0], members[1]) = (entry(CopyHealth::Good), entry(CopyHealth::Removed));
    let (first, mut epochs) = (helio_format::epochs::Epoch::FIRST, Epochs::none(2));
    epochs.volumes[0].epoch = Some(first.next());
    epochs.volumes[0].carried[1] = Some(Carried::between(first, first));
    let shown = Content::Members(vec![members; 2], epochs).to_string();
    assert_eq!(shown, "members in epoch 2: good removed at 1, good removed");
}

#[test]
fn pages_behind_a_lost_superblock_say_what_they_are() {
    let mut bytes = paper().bytes().to_vec();
    bytes[40] ^= 1;
    bytes[4096 + 40] ^= 1;
    let found = describe(&bytes[..], CHECKSUM);
    assert_eq!((found.superblock.as_ref(), found.pairs[0].state), (None, PairState::Lost));
    assert_eq!((found.pairs[10].kind, found.pairs[10].index), (Some(Kind::Marks), 1));
}

#[test]
fn a_file_cut_off_is_shown_and_not_sound() {
    let paper = paper();
    let bytes = paper.bytes();
    let found = describe(&bytes[..86016], CHECKSUM);
    assert_eq!((found.length, found.needed), (86016, Some(90112)));
    assert!(!found.is_sound());
    assert_eq!(found.pairs[10].state, PairState::Repairable);
}

#[test]
fn copies_that_contradict_each_other_are_not_called_level() {
    let mut bytes = paper().bytes().to_vec();
    let (header, _) = page::decode(bytes[81920..].first_chunk().expect("a page"), CHECKSUM)
        .map(|(header, body)| (header, *body))
        .expect("whole");
    let page = page::encode(&header, &[0; page::BODY_BYTES], CHECKSUM);
    bytes[81920..81920 + PAGE_BYTES].copy_from_slice(&page);
    assert_eq!(describe(&bytes[..], CHECKSUM).pairs[10].state, PairState::Lost);
}

#[test]
fn the_superblocks_fields_are_named() {
    let fields = fields(&superblock(7));
    let of = |name| fields.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_str());
    assert_eq!(
        (of("head"), of("marks-void"), of("verified")),
        (Some("7"), Some("true"), Some("never"))
    );
    assert_eq!(of("generation-began"), Some("unknown"));
    assert_eq!(of("tenure"), Some("0000000000000000"));
}

#[test]
fn what_a_verify_found_last_is_told_per_volume() {
    let mut record = superblock(7);
    record.sizes = [4096, 4096].into();
    record.members = [0, 0].into();
    (record.verified, record.differed) = ([0, 1_000].into(), [0, 8192].into());
    (record.repaired, record.began) = (2, 1_000);
    let fields = fields(&record);
    let of = |name| fields.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_str());
    let verified = of("verified").unwrap_or_default();
    assert!(verified.starts_with("never; 1970-01-01"), "{verified}");
    assert!(verified.ends_with("8192 bytes differed and were repaired"), "{verified}");
    assert!(of("generation-began").is_some_and(|at| at.starts_with("1970-01-01")));
}

#[test]
fn what_lies_behind_the_last_pair_is_not_shown() {
    let mut bytes = paper().bytes().to_vec();
    let expected = lines(&describe(&bytes[..], CHECKSUM));
    bytes.extend([7; 3 * PAGE_BYTES]);
    let found = describe(&bytes[..], CHECKSUM);
    assert_eq!(lines(&found), expected, "the metadata file may be a device");
}

/// Copy A is written first, so a crash leaves copy B behind and never the other way round.
#[test]
fn a_first_copy_that_is_older_than_the_second_is_to_be_repaired() {
    for (older, state) in [(0, PairState::Repairable), (PAGE_BYTES, PairState::Lags)] {
        let mut bytes = paper().bytes().to_vec();
        let at = 81920 + older;
        let (header, body) = page::decode(bytes[at..].first_chunk().expect("a page"), CHECKSUM)
            .map(|(header, body)| (header, *body))
            .expect("whole");
        let header = page::Header { sequence: header.sequence - 1, ..header };
        bytes[at..at + PAGE_BYTES].copy_from_slice(&page::encode(&header, &body, CHECKSUM));
        let found = describe(&bytes[..], CHECKSUM);
        assert_eq!((found.pairs[10].state, found.is_sound()), (state, older != 0));
    }
}
