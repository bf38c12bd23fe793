// SPDX-License-Identifier: Apache-2.0
//! The slow twin: the ledger against a list of everything that was ever asked for. Changes, crashes and failures come
//! at random; what reopens is, of every page, something at least as new as what was told as kept.

use crate::describe::{PairState, describe};
use crate::error::LedgerError;
use crate::layout::Layout;
use crate::ledger::{Change, Kept, Ledger};
use crate::open::{Found, Opened};
use crate::paper::{CHECKSUM, Dice, OWNER, PEER, Paper, superblock};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use helio_format::directory::MapOwner;
use helio_format::epochs::{Epochs, SetId};
use helio_format::members::{CopyHealth, DiskMark, MemberEntry};
use helio_format::page::{BODY_WORDS, Kind, PAIR_BYTES, PageError};
use helio_units::VolumeIndex;
use proptest::prelude::*;

const EXTENTS: u64 = 768;
/// Maps that are made and removed while the file is in use, and the bytes of a bit.
const MAPS: [(MapOwner, u64); 3] = [
    (MapOwner::Member { volume: VolumeIndex(0), member: 1 }, 65536),
    (MapOwner::Copy(7), 1 << 20),
    (MapOwner::Peer(1), 65536),
];
/// There is no map; there is one without a bit set. Every other value is a word of it.
const NO_MAP: u64 = 0;
const NO_BIT: u64 = 1;

/// What one thing may be: all values since the one told as kept.
struct History<T> {
    values: VecDeque<T>,
    /// How many values were dropped in front.
    dropped: usize,
}

impl<T: PartialEq + Copy + core::fmt::Debug> History<T> {
    fn new(value: T) -> Self {
        Self { values: [value].into(), dropped: 0 }
    }

    fn change(&mut self, value: T) -> usize {
        self.values.push_back(value);
        self.dropped + self.values.len() - 1
    }

    fn kept(&mut self, version: usize) {
        while self.dropped < version {
            self.values.pop_front();
            self.dropped += 1;
        }
    }

    fn found(&mut self, value: T) {
        assert!(self.values.contains(&value), "{value:?} of {:?}", self.values);
        *self = Self::new(value);
    }
}

/// Everything that was asked for.
struct Twin {
    head: History<u64>,
    marks: [History<u64>; 2],
    maps: [History<u64>; 3],
    suspect: History<u64>,
    /// The disk of a third member.
    disk: History<DiskMark>,
    /// The set id, for all epochs.
    set: History<Option<SetId>>,
    hot: Vec<History<bool>>,
    heads: VecDeque<usize>,
    disk_changes: VecDeque<usize>,
    set_changes: VecDeque<usize>,
    mark_changes: [VecDeque<usize>; 2],
    /// Of each of `MAPS`: changes of its bits, and of its being there.
    map_changes: [VecDeque<usize>; 3],
    map_makes: [VecDeque<usize>; 3],
    tickets: BTreeMap<u64, Vec<(u64, usize)>>,
    next: u64,
    sequence: u64,
}

impl Twin {
    fn new() -> Self {
        Self {
            head: History::new(0),
            marks: [History::new(0), History::new(0)],
            maps: MAPS.map(|_| History::new(NO_MAP)),
            suspect: History::new(0),
            disk: History::new(DiskMark::UNKNOWN),
            set: History::new(None),
            hot: (0..EXTENTS).map(|_| History::new(false)).collect(),
            heads: VecDeque::new(),
            disk_changes: VecDeque::new(),
            set_changes: VecDeque::new(),
            mark_changes: [VecDeque::new(), VecDeque::new()],
            map_changes: MAPS.map(|_| VecDeque::new()),
            map_makes: MAPS.map(|_| VecDeque::new()),
            tickets: BTreeMap::new(),
            next: 1,
            sequence: 0,
        }
    }

    fn superblock(&mut self) -> Change {
        self.next += 1;
        self.heads.push_back(self.head.change(self.next));
        let mut new = superblock(self.next);
        new.marks_void = false;
        new.suspect = u64::from(self.next.is_multiple_of(5));
        self.suspect.change(new.suspect);
        Change::Superblock(Box::new(new))
    }

    /// A third member lies on another disk, or is new.
    fn members(&mut self) -> Change {
        let disk = DiskMark::of(self.next.into());
        self.disk_changes.push_back(self.disk.change(disk));
        let [good, third] = [DiskMark::UNKNOWN, disk]
            .map(|disk| Some(MemberEntry { health: CopyHealth::Good, disk }));
        Change::Members([[good, None, third, None, None, None]].into())
    }

    /// One of the maps is made, changed or removed.
    fn map(&mut self, which: usize) -> Change {
        let (owner, unit) = MAPS[which];
        let history = &mut self.maps[which];
        let there = history.values.back() != Some(&NO_MAP);
        if !there {
            self.map_makes[which].push_back(history.change(NO_BIT));
            Change::Make { owner, unit }
        } else if self.next.is_multiple_of(3) && self.map_changes[which].is_empty() {
            self.map_makes[which].push_back(history.change(NO_MAP));
            Change::Remove { owner }
        } else {
            self.map_changes[which].push_back(history.change(self.next));
            let mut bits = Box::new([0; BODY_WORDS]);
            bits[3] = self.next;
            Change::Marks { owner, page: 0, bits }
        }
    }

    fn change(&mut self, dice: &mut Dice) -> Change {
        self.next += 1;
        match dice.below(10) {
            0 => self.superblock(),
            9 => {
                let set = SetId::of(self.next);
                self.set_changes.push_back(self.set.change(set));
                Change::Epochs(Epochs { set, ..Epochs::none(1) })
            }
            8 => self.members(),
            6 | 7 => self.map(dice.below(3) as usize),
            1 | 2 => {
                let page = dice.below(2) as usize;
                // The last page has room for 16640 regions.
                let (word, value) = (dice.below(2) as usize * 259, self.next % 64);
                let mut bits = Box::new([0; BODY_WORDS]);
                bits[word] = value;
                let version = self.marks[page].change(value << 32 | word as u64);
                self.mark_changes[page].push_back(version);
                Change::Marks { owner: PEER, page: page as u32, bits }
            }
            _ => {
                let many = if dice.one_in(12) { 500 } else { 4 };
                let mut remove = Vec::new();
                let mut add = Vec::new();
                let mut seen = BTreeSet::new();
                for _ in 0..dice.below(many) + 1 {
                    let extent = dice.below(EXTENTS);
                    if seen.insert(extent) {
                        if dice.one_in(2) { add.push(extent) } else { remove.push(extent) }
                    }
                }
                let mut touched = Vec::new();
                for (extents, hot) in [(&add, true), (&remove, false)] {
                    let one = |extent: &u64| (*extent, self.hot[*extent as usize].change(hot));
                    touched.extend(extents.iter().map(one));
                }
                self.tickets.insert(self.next, touched);
                Change::Hot { ticket: self.next, add, remove }
            }
        }
    }

    fn kept(&mut self, kept: Vec<Kept>, ledger: &Ledger) {
        for kept in kept {
            match kept {
                Kept::Superblock { ok } => {
                    let version = self.heads.pop_front().expect("told once");
                    if ok {
                        self.head.kept(version);
                        // Both change together.
                        self.suspect.kept(version);
                    }
                }
                Kept::Members { ok } => {
                    let version = self.disk_changes.pop_front().expect("told once");
                    if ok {
                        self.disk.kept(version);
                    }
                }
                Kept::Epochs { ok } => {
                    let version = self.set_changes.pop_front().expect("told once");
                    if ok {
                        self.set.kept(version);
                    }
                }
                Kept::Map { owner, ok } => {
                    let which = which(owner);
                    let version = self.map_makes[which].pop_front().expect("told once");
                    if ok {
                        self.maps[which].kept(version);
                    }
                }
                Kept::Marks { owner, ok, .. } if owner != PEER => {
                    let which = which(owner);
                    let version = self.map_changes[which].pop_front().expect("told once");
                    if ok {
                        self.maps[which].kept(version);
                    }
                }
                Kept::Marks { page, ok, .. } => {
                    let version = self.mark_changes[page as usize].pop_front().expect("told once");
                    if ok {
                        self.marks[page as usize].kept(version);
                    }
                }
                Kept::Hot { ticket, ok } => {
                    for (extent, version) in self.tickets.remove(&ticket).expect("told once") {
                        if ok {
                            self.hot[extent as usize].kept(version);
                        }
                    }
                }
            }
        }
        assert!(self.sequence <= ledger.sequence());
        self.sequence = ledger.sequence();
    }

    fn nobody_waits(&self) -> bool {
        self.heads.is_empty()
            && self.disk_changes.is_empty()
            && self.set_changes.is_empty()
            && self.tickets.is_empty()
            && self.mark_changes.iter().all(VecDeque::is_empty)
            && self.map_changes.iter().chain(&self.map_makes).all(VecDeque::is_empty)
    }

    fn compare(&mut self, found: &Found, ledger: &Ledger) {
        self.head.found(found.superblock.head.0);
        // A member's state may be newer than the superblock, and never older; then everything counts as marked.
        let wrote =
            u64::from(found.superblock.head.0.is_multiple_of(5) && found.superblock.head.0 != 0);
        assert_eq!(found.superblock.marks_void, found.superblock.suspect != wrote);
        self.suspect.found(found.superblock.suspect);
        let third = ledger.members().first().and_then(|members| members[2]);
        self.disk.found(third.map_or(DiskMark::UNKNOWN, |member| member.disk));
        self.set.found(ledger.epochs().set);
        for ((owner, _), history) in MAPS.iter().zip(&mut self.maps) {
            let mut pages = found.others.iter().filter(|(of, ..)| of == owner);
            let bits = pages.next().map_or(NO_BIT, |(_, _, bits)| bits[3]);
            let there = ledger.directory().entry(*owner).is_some();
            assert!(pages.next().is_none() && (there || bits == NO_BIT), "{owner}");
            history.found(if there { bits } else { NO_MAP });
        }
        let hot: BTreeSet<u64> = found.hot.iter().copied().collect();
        for (extent, history) in (0..).zip(&mut self.hot) {
            history.found(hot.contains(&extent));
        }
        let pages: BTreeMap<u32, _> = found.marks.iter().map(|(p, bits)| (*p, bits)).collect();
        for (page, history) in (0..).zip(&mut self.marks) {
            let bits = pages.get(&page);
            let word = bits.and_then(|bits| bits.iter().position(|word| *word != 0));
            let value = match (bits, word) {
                (Some(bits), Some(word)) => bits[word] << 32 | word as u64,
                // A page without a mark looks the same whichever word was written last.
                _ => history.values.iter().copied().find(|v| v >> 32 == 0).unwrap_or(0),
            };
            history.found(value);
        }
        assert!(ledger.sequence() >= self.sequence, "the sequence went back");
        self.sequence = ledger.sequence();
        self.heads.clear();
        self.disk_changes.clear();
        self.set_changes.clear();
        self.mark_changes.iter_mut().for_each(VecDeque::clear);
        self.map_changes.iter_mut().chain(&mut self.map_makes).for_each(VecDeque::clear);
        self.tickets.clear();
    }
}

fn which(owner: MapOwner) -> usize {
    MAPS.iter().position(|(of, _)| *of == owner).expect("one of the three")
}

fn fresh() -> Ledger {
    Ledger::fresh(Layout::of(&superblock(0)), OWNER, CHECKSUM)
}

/// Opens what a crash left.
fn reopen(paper: &mut Paper, twin: &mut Twin) -> Ledger {
    match Ledger::open(paper.bytes(), OWNER, CHECKSUM) {
        Ok(Opened::Found(found)) => {
            twin.compare(&found.1, &found.0);
            found.0
        }
        Ok(Opened::Older(_)) => panic!("no build of this version writes that"),
        Ok(Opened::Fresh) => {
            assert_eq!(twin.head.values[0], 0, "a superblock was told as kept");
            *twin = Twin::new();
            fresh()
        }
        Err(error) => {
            let copies = [PageError::Damaged, PageError::Empty];
            let torn = matches!(error, LedgerError::Unreadable { page, copies: c } if page.kind == Kind::Superblock && c == copies);
            assert!(torn && twin.head.values[0] == 0, "{error}");
            *twin = Twin::new();
            *paper = Paper::new(paper.bytes().len() as u64);
            fresh()
        }
    }
}

fn story(seed: u64, steps: usize) -> (Paper, Twin) {
    let dice = &mut Dice::new(seed);
    let mut paper = Paper::new(Layout::of(&superblock(0)).bytes());
    let mut twin = Twin::new();
    let mut ledger = reopen(&mut paper, &mut twin);
    for _ in 0..steps {
        let first = twin.head.values.back() == Some(&0);
        match dice.below(12) {
            0..4 => {
                let change = if first { twin.superblock() } else { twin.change(dice) };
                if let Change::Make { owner, unit } = change {
                    paper.grow(ledger.length_with(&[(owner, unit)]).expect("there is room"));
                }
                let refused = ledger.keep(change);
                assert_eq!(refused.is_some(), ledger.is_poisoned());
                twin.kept(refused.into_iter().collect(), &ledger);
            }
            4 if dice.one_in(6) => {
                paper.crash(dice);
                ledger = reopen(&mut paper, &mut twin);
            }
            _ => {
                let ok = !dice.one_in(80);
                if !paper.writes().is_empty() {
                    let which = dice.below(paper.writes().len() as u64) as usize;
                    paper.end_write(which, ok, dice);
                    twin.kept(ledger.written(ok), &ledger);
                } else if paper.is_flushing() {
                    paper.end_flush(ok);
                    twin.kept(ledger.flushed(ok), &ledger);
                }
                assert!(!ledger.is_poisoned() || twin.nobody_waits());
            }
        }
        paper.ask(&mut ledger);
    }
    if ledger.is_poisoned() {
        paper.crash(dice);
        ledger = reopen(&mut paper, &mut twin);
    }
    if twin.head.values.back() == Some(&0) {
        assert_eq!(ledger.keep(twin.superblock()), None);
    }
    while !paper.writes().is_empty() {
        paper.end_write(0, true, dice);
        twin.kept(ledger.written(true), &ledger);
    }
    if paper.is_flushing() {
        paper.end_flush(true);
        twin.kept(ledger.flushed(true), &ledger);
    }
    twin.kept(paper.settle(&mut ledger), &ledger);
    assert!(ledger.is_idle() && twin.nobody_waits());
    (paper, twin)
}

#[test]
fn an_extent_that_moved_to_another_page_is_gone_only_when_it_is_gone_from_both() {
    let (paper, mut twin) = story(16_307_260_542_473_103_149, 315);
    let Ok(Opened::Found(found)) = Ledger::open(paper.bytes(), OWNER, CHECKSUM) else {
        panic!("a file at rest opens");
    };
    twin.compare(&found.1, &found.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn what_reopens_is_never_older_than_what_was_told(seed: u64, steps in 1..400usize) {
        let (paper, mut twin) = story(seed, steps);
        let Ok(Opened::Found(found)) = Ledger::open(paper.bytes(), OWNER, CHECKSUM) else {
            panic!("a file at rest opens");
        };
        prop_assert!(found.1.repaired.is_empty() && found.0.is_idle());
        twin.compare(&found.1, &found.0);
    }

    #[test]
    fn a_byte_flipped_at_rest_is_repaired_and_named(seed: u64, at: u64, bit in 0..8u8) {
        let (paper, mut twin) = story(seed, 60);
        let mut damaged = paper.clone();
        // Only pages that hold state: not zeros, and not pages of maps that were removed.
        let written: Vec<usize> = describe(paper.bytes(), CHECKSUM)
            .pairs
            .iter()
            .filter(|pair| pair.state == PairState::Level)
            .map(|pair| pair.offset as usize)
            .collect();
        let at = at as usize % (written.len() * PAIR_BYTES);
        let at = written[at / PAIR_BYTES] + at % PAIR_BYTES;
        damaged.flip(at, 1 << bit);
        let Ok(Opened::Found(found)) = Ledger::open(damaged.bytes(), OWNER, CHECKSUM) else {
            panic!("one copy is whole");
        };
        let (mut ledger, found) = *found;
        prop_assert_eq!(found.repaired.len(), 1);
        twin.compare(&found, &ledger);
        prop_assert_eq!(damaged.settle(&mut ledger), vec![]);
        prop_assert!(damaged.bytes() == paper.bytes(), "it is as it was");
    }
}
