// SPDX-License-Identifier: Apache-2.0
//! Maps that are made and removed while the file is in use, and what is written before what.

use crate::describe::{PairState, describe};
use crate::error::LedgerError;
use crate::layout::Layout;
use crate::ledger::{Change, Kept, Ledger};
use crate::open::{Found, Opened};
use crate::paper::{CHECKSUM, Dice, OWNER, PEER, Paper, superblock};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use helio_format::directory::{Entries, Entry, MapOwner, encode};
use helio_format::epochs::{Carried, Epoch, Epochs, SetId, VolumeEpochs};
use helio_format::members::{CopyHealth, DiskMark, MemberEntry};
use helio_format::page::{self, BODY_WORDS, Kind, PAGE_BYTES, PAIR_BYTES, Place};
use helio_format::superblock::Superblock;
use helio_units::VolumeIndex;

const MEMBER: MapOwner = MapOwner::Member { volume: VolumeIndex(0), member: 1 };
const COPY: MapOwner = MapOwner::Copy(3);
const UNIT: u64 = 65536;
/// The first pair behind the maps of a new file.
const BEHIND: usize = 11;

fn begun() -> (Paper, Ledger) {
    let layout = Layout::of(&superblock(1));
    let mut paper = Paper::new(layout.bytes());
    let mut ledger = Ledger::fresh(layout, OWNER, CHECKSUM);
    assert_eq!(ledger.keep(Change::Superblock(Box::new(superblock(1)))), None);
    assert_eq!(paper.settle(&mut ledger), vec![Kept::Superblock { ok: true }]);
    (paper, ledger)
}

fn open(paper: &Paper) -> (Ledger, Found) {
    match Ledger::open(paper.bytes(), OWNER, CHECKSUM) {
        Ok(Opened::Found(found)) => *found,
        other => panic!("{other:?}"),
    }
}

fn make(paper: &mut Paper, ledger: &mut Ledger, owner: MapOwner) {
    paper.grow(ledger.length_with(&[(owner, UNIT)]).expect("there is room"));
    assert_eq!(ledger.keep(Change::Make { owner, unit: UNIT }), None);
}

fn mark(ledger: &mut Ledger, owner: MapOwner, word: u64) {
    let mut bits = Box::new([0; BODY_WORDS]);
    bits[0] = word;
    assert_eq!(ledger.keep(Change::Marks { owner, page: 1, bits }), None);
}

/// Whether there is such a map, and the word of it.
fn found(paper: &Paper, owner: MapOwner) -> Option<u64> {
    let (ledger, found) = open(paper);
    let words = found.others.iter().filter(|(of, ..)| *of == owner);
    ledger.directory().entry(owner).map(|_| words.map(|(_, _, bits)| bits[0]).sum())
}

/// The pairs of the writes under way.
fn pairs(paper: &Paper) -> Vec<usize> {
    paper.writes().iter().map(|(at, _)| *at as usize / PAIR_BYTES).collect()
}

#[test]
fn a_map_is_made_changed_and_removed_while_the_file_is_in_use() {
    let (mut paper, mut ledger) = begun();
    assert_eq!(found(&paper, MEMBER), None);
    make(&mut paper, &mut ledger, MEMBER);
    mark(&mut ledger, MEMBER, 5);
    let kept = paper.settle(&mut ledger);
    let ok = true;
    assert_eq!(kept, [Kept::Map { owner: MEMBER, ok }, Kept::Marks { owner: MEMBER, page: 1, ok }]);
    assert_eq!(found(&paper, MEMBER), Some(5));
    let (ledger_again, _) = open(&paper);
    assert!(ledger_again.has_map(MEMBER) && !ledger_again.has_map(COPY));
    assert_eq!(ledger_again.beyond(), None, "members are known");
    assert_eq!(paper.bytes().len(), (BEHIND + 2) * PAIR_BYTES);
    assert_eq!(ledger.keep(Change::Remove { owner: MEMBER }), None);
    assert_eq!(paper.settle(&mut ledger), [Kept::Map { owner: MEMBER, ok }]);
    assert_eq!(found(&paper, MEMBER), None);
    let (mut ledger, _) = open(&paper);
    make(&mut paper, &mut ledger, COPY);
    paper.settle(&mut ledger);
    assert_eq!(open(&paper).0.beyond(), Some(format!("a bitmap of {COPY}")));
}

const fn member(health: CopyHealth, identity: u128) -> Option<MemberEntry> {
    Some(MemberEntry { health, disk: DiskMark::of(identity) })
}

#[test]
fn members_are_kept_and_all_that_are_good_follow_what_the_superblock_says_of_their_volume() {
    let (mut paper, mut ledger) = begun();
    let [none, removed] = [None, member(CopyHealth::Removed, 8)];
    let with = |health| [member(health, 7), removed, member(health, 9), none, none, none];
    assert_eq!(ledger.keep(Change::Members(vec![with(CopyHealth::Good)])), None);
    assert_eq!(paper.settle(&mut ledger), [Kept::Members { ok: true }]);
    assert_eq!(open(&paper).0.members(), [with(CopyHealth::Good)]);
    for suspect in [1, 0] {
        let now = if suspect == 1 { CopyHealth::Suspect } else { CopyHealth::Good };
        let superblock = Box::new(Superblock { suspect, ..superblock(2) });
        assert_eq!(ledger.keep(Change::Superblock(superblock)), None);
        assert_eq!(paper.settle(&mut ledger), [Kept::Superblock { ok: true }]);
        assert_eq!(open(&paper).0.members(), [with(now)]);
        // A layer that knows nothing of the suspicion calls them good.
        let (mut ledger, _) = open(&paper);
        assert_eq!(ledger.keep(Change::Members(vec![with(CopyHealth::Good)])), None);
        paper.clone().settle(&mut ledger);
        assert_eq!(ledger.members(), [with(now)]);
    }
}

#[test]
fn epochs_are_kept_beside_the_members_and_neither_changes_the_other() {
    let (mut paper, mut ledger) = begun();
    let epoch = Some(Epoch::FIRST.next());
    let mut volumes = vec![VolumeEpochs { epoch, ..VolumeEpochs::default() }];
    volumes[0].carried[1] = Some(Carried::between(Epoch::FIRST, Epoch::FIRST.next()));
    let epochs = Epochs { set: SetId::of(7), volumes };
    let mut members = ledger.members().to_vec();
    assert_eq!(ledger.keep(Change::Epochs(epochs.clone())), None);
    members[0][1] = member(CopyHealth::Removed, 8);
    assert_eq!(ledger.keep(Change::Members(members.clone())), None);
    let ok = true;
    assert_eq!(paper.settle(&mut ledger), [Kept::Epochs { ok }, Kept::Members { ok }]);
    let (ledger, _) = open(&paper);
    assert_eq!((ledger.epochs(), ledger.members()), (&epochs, &members[..]));
}

#[test]
fn members_that_cannot_be_kept_are_told() {
    let (mut paper, mut ledger) = begun();
    let members = ledger.members().to_vec();
    assert_eq!(ledger.keep(Change::Members(members.clone())), None);
    paper.ask(&mut ledger);
    assert!(paper.is_flushing(), "of the members' page, a copy is not durable yet");
    assert_eq!(ledger.flushed(false), [Kept::Members { ok: false }]);
    assert_eq!(ledger.keep(Change::Members(members)), Some(Kept::Members { ok: false }));
}

#[test]
fn the_pages_of_an_earlier_map_count_as_never_written() {
    let (mut paper, mut ledger) = begun();
    make(&mut paper, &mut ledger, MEMBER);
    mark(&mut ledger, MEMBER, 5);
    paper.settle(&mut ledger);
    assert_eq!(ledger.keep(Change::Remove { owner: MEMBER }), None);
    paper.settle(&mut ledger);
    for owner in [COPY, MEMBER] {
        make(&mut paper, &mut ledger, owner);
    }
    paper.settle(&mut ledger);
    assert_eq!(paper.bytes().len(), (BEHIND + 4) * PAIR_BYTES, "the place is used again");
    assert_eq!((found(&paper, COPY), found(&paper, MEMBER)), (Some(0), Some(0)));
    let stale = (BEHIND + 1) * PAIR_BYTES;
    assert_ne!(paper.bytes()[stale..][..4], [0; 4], "the old page lies there");
    let shown = describe(paper.bytes(), CHECKSUM);
    let line =
        shown.pairs.iter().find(|pair| pair.offset == stale as u64).expect("a page of a map");
    assert_eq!((line.state, line.owner), (PairState::Empty, Some(COPY)));
    // Damage to what the earlier map left is repaired, since this one never wrote there.
    for (at, copy) in [(stale + 77, "copy A"), (stale + PAGE_BYTES + 77, "copy B")] {
        let mut damaged = paper.clone();
        damaged.flip(at, 1);
        let (mut ledger, found) = open(&damaged);
        assert_eq!((found.repaired.len(), found.others.len()), (1, 0));
        assert!(found.repaired[0].starts_with(copy), "{}", found.repaired[0]);
        damaged.settle(&mut ledger);
        assert_eq!(open(&damaged).1.repaired.len(), 0);
    }
    mark(&mut ledger, COPY, 9);
    paper.settle(&mut ledger);
    assert_eq!((found(&paper, COPY), found(&paper, MEMBER)), (Some(9), Some(0)));
}

#[test]
fn a_place_is_given_away_only_behind_the_removal_of_its_map() {
    let (mut paper, mut ledger) = begun();
    make(&mut paper, &mut ledger, MEMBER);
    paper.settle(&mut ledger);
    assert_eq!(ledger.keep(Change::Remove { owner: MEMBER }), None);
    make(&mut paper, &mut ledger, COPY);
    assert_eq!(
        paper.bytes().len(),
        (BEHIND + 4) * PAIR_BYTES,
        "a crash may bring the old map back"
    );
    paper.settle(&mut ledger);
    make(&mut paper, &mut ledger, MEMBER);
    assert_eq!(paper.bytes().len(), (BEHIND + 4) * PAIR_BYTES, "now it is free");
}

/// The batches of pairs that are written, in order, until nothing is left.
fn batches(paper: &mut Paper, ledger: &mut Ledger) -> Vec<Vec<usize>> {
    let mut batches = Vec::new();
    loop {
        paper.ask(ledger);
        if paper.is_flushing() {
            paper.end_flush(true);
            ledger.flushed(true);
            continue;
        }
        if paper.writes().is_empty() {
            return batches;
        }
        batches.push(pairs(paper));
        while !paper.writes().is_empty() {
            paper.end_write(0, true, &mut Dice::new(0));
            ledger.written(true);
        }
    }
}

#[test]
fn member_states_come_before_the_directory_and_both_before_everything_else() {
    let (mut paper, mut ledger) = begun();
    mark(&mut ledger, PEER, 3);
    make(&mut paper, &mut ledger, MEMBER);
    mark(&mut ledger, MEMBER, 5);
    let mut record = superblock(2);
    record.suspect = 1;
    assert_eq!(ledger.keep(Change::Superblock(Box::new(record))), None);
    let order = batches(&mut paper, &mut ledger);
    assert_eq!(order[..3], [vec![1], vec![3], vec![0, 1, 3, 10, 12]]);
}

/// A removal and a new map at the place of the old one, with a change of a member's state. The power is cut at every step,
/// and of the writes under way every choice lands.
#[test]
fn a_cut_between_any_two_writes_leaves_what_was_told() {
    let (mut paper, mut ledger) = begun();
    make(&mut paper, &mut ledger, MEMBER);
    mark(&mut ledger, MEMBER, 5);
    paper.settle(&mut ledger);
    assert_eq!(ledger.keep(Change::Remove { owner: MEMBER }), None);
    let mut told = Vec::new();
    let mut cuts = 0;
    let mut made = false;
    loop {
        paper.ask(&mut ledger);
        let under_way = paper.writes().len();
        for choice in 0..1 << under_way {
            let mut cut = paper.clone();
            cut.cut(|write| choice >> write & 1 == 1);
            cuts += 1;
            let (old, new) = (found(&cut, MEMBER), found(&cut, COPY));
            let suspect = open(&cut).1.superblock;
            assert!(old.is_none() || old == Some(5) && told.is_empty(), "{old:?} after {told:?}");
            assert!(old.is_none() || new.is_none(), "two maps at one place");
            let is_told = |owner| told.contains(&Kept::Map { owner, ok: true });
            assert!(new.is_some() || !is_told(COPY));
            assert!(new.is_none_or(|word| word == 0 || word == 9));
            let marked = told.contains(&Kept::Marks { owner: COPY, page: 1, ok: true });
            assert!(!marked || new == Some(9));
            let recorded = told.contains(&Kept::Superblock { ok: true });
            assert!(!recorded || (suspect.suspect, suspect.head.0) == (1, 2));
            assert!(suspect.suspect == 0 || suspect.marks_void, "a state without its superblock");
        }
        if under_way > 0 {
            paper.end_write(0, true, &mut Dice::new(0));
            told.extend(ledger.written(true));
        } else if paper.is_flushing() {
            paper.end_flush(true);
            told.extend(ledger.flushed(true));
        } else {
            break;
        }
        if !made && told.contains(&Kept::Map { owner: MEMBER, ok: true }) {
            made = true;
            make(&mut paper, &mut ledger, COPY);
            mark(&mut ledger, COPY, 9);
            let mut record = superblock(2);
            (record.suspect, record.marks_void) = (1, true);
            assert_eq!(ledger.keep(Change::Superblock(Box::new(record))), None);
        }
    }
    assert!(cuts > 40 && told.len() == 4, "{cuts} cuts, {told:?}");
}

#[test]
fn there_is_room_for_six_members_of_sixty_four_volumes() {
    let mut record = superblock(1);
    record.sizes = vec![1 << 20; 64];
    (record.verified, record.differed) = (vec![0; 64], vec![0; 64]);
    (record.members, record.blocks) = (vec![0; 64], vec![0; 64]);
    record.names = vec![0; 64];
    let layout = Layout::of(&record);
    let mut paper = Paper::new(layout.bytes());
    let mut ledger = Ledger::fresh(layout, OWNER, CHECKSUM);
    assert_eq!(ledger.keep(Change::Superblock(Box::new(record))), None);
    let volumes = (0..64).map(VolumeIndex);
    let all =
        volumes.flat_map(|volume| (0..6).map(move |member| MapOwner::Member { volume, member }));
    let others = (0..118).map(MapOwner::Copy);
    for owner in all.chain(others) {
        make(&mut paper, &mut ledger, owner);
    }
    assert_eq!(ledger.length_with(&[(MapOwner::Copy(999), UNIT)]), None, "the directory is full");
    assert_eq!(paper.settle(&mut ledger).len(), 1 + 64 * 6 + 118);
    let again = open(&paper).0;
    assert_eq!(again.directory().maps().count(), 504);
    let seventh = MapOwner::Member { volume: VolumeIndex(0), member: 6 };
    assert_eq!(begun().1.length_with(&[(seventh, UNIT)]), None);
}

#[test]
fn what_is_asked_of_a_poisoned_ledger_is_refused_and_nothing_is_made() {
    let (mut paper, mut ledger) = begun();
    make(&mut paper, &mut ledger, MEMBER);
    // The second copy of the directory page becomes durable first.
    paper.ask(&mut ledger);
    paper.end_flush(true);
    assert_eq!(ledger.flushed(true), []);
    paper.ask(&mut ledger);
    assert_eq!(pairs(&paper), [3]);
    assert_eq!(ledger.written(false), [Kept::Map { owner: MEMBER, ok: false }]);
    let refused = ledger.keep(Change::Make { owner: COPY, unit: UNIT });
    assert_eq!(refused, Some(Kept::Map { owner: COPY, ok: false }));
    assert_eq!((found(&paper, MEMBER), found(&paper, COPY)), (None, None));
}

#[test]
fn a_directory_that_contradicts_itself_is_refused() {
    let (paper, _) = begun();
    let page = |slots: Vec<Option<Entry>>| {
        let place = Place::fixed(Kind::Directory, 0);
        let owner = page::owner(OWNER.0, OWNER.1, CHECKSUM);
        let header = page::Header { place, owner, sequence: 99 };
        page::encode(&header, &encode(&Entries { next: 9, slots }), CHECKSUM)
    };
    let engine = Entry { owner: MapOwner::Engine, id: 1, first: 7, pairs: 2, unit: 4 << 20 };
    let peer = Entry { owner: PEER, id: 2, first: 9, unit: UNIT, ..engine };
    let member = Entry { owner: MEMBER, id: 3, first: 11, ..peer };
    for (slots, is_refused) in [
        (vec![engine, peer], false),
        (vec![engine], true),
        (vec![peer], true),
        (vec![engine, peer, peer], true),
        (vec![engine, Entry { first: 8, ..peer }], true),
        (vec![engine, Entry { pairs: 1, ..peer }], true),
        (vec![engine, Entry { unit: 4096, pairs: 25, ..peer }], true),
        (vec![Entry { first: 5, ..engine }, peer], true),
        (vec![engine, peer, Entry { first: 10, ..member }], true),
        (vec![engine, peer, Entry { first: 8, ..member }], true),
    ] {
        let mut paper = paper.clone();
        let shown = alloc::format!("{slots:?}");
        let bytes = page(slots.into_iter().map(Some).collect());
        paper.overwrite(3 * PAIR_BYTES, &bytes);
        paper.overwrite(3 * PAIR_BYTES + PAGE_BYTES, &bytes);
        let opened = Ledger::open(paper.bytes(), OWNER, CHECKSUM).map(|_| ());
        assert_eq!(
            opened,
            if is_refused { Err(LedgerError::Directory) } else { Ok(()) },
            "{shown}"
        );
    }
}

#[test]
#[should_panic(expected = "cannot be removed")]
fn the_bitmap_of_the_peer_stays() {
    let (_, mut ledger) = begun();
    let _ = ledger.keep(Change::Remove { owner: PEER });
}

#[test]
#[should_panic(expected = "is being changed")]
fn a_map_is_removed_behind_its_changes() {
    let (mut paper, mut ledger) = begun();
    make(&mut paper, &mut ledger, MEMBER);
    mark(&mut ledger, MEMBER, 5);
    let _ = ledger.keep(Change::Remove { owner: MEMBER });
}
