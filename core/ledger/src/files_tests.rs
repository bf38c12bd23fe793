// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::layout::Layout;
use crate::ledger::{Change, Ledger};
use crate::open::Opened;
use crate::paper::{CHECKSUM, OWNER, Paper, mark, superblock};
use alloc::boxed::Box;
use alloc::vec;

fn there(standing: Standing, epoch: u64, sequence: u64) -> Seen {
    Seen::There { record: FileRecord { standing, epoch }, sequence }
}

/// Every state of two files, by the words of the table. None stands for unreadable, and no words for never written.
#[test]
fn every_combination_of_two_files_is_a_row_of_the_table() {
    use Distrust::{BothAlone, MayBeOld, MayExist, NoneCounts};
    use Standing::{Alone, Both, Stale};
    let states = [Seen::None, Seen::Unreadable, Seen::Blank].into_iter().chain(
        [Alone, Both, Stale].into_iter().flat_map(|standing| {
            [(4, 70), (4, 71), (5, 60)].map(|(epoch, sequence)| there(standing, epoch, sequence))
        }),
    );
    let states: Vec<Seen> = states.collect();
    let standing = |seen: Seen| match seen {
        Seen::There { record, .. } => Some(record.standing),
        _ => None,
    };
    for (a, b) in states.iter().flat_map(|a| states.iter().map(move |b| (*a, *b))) {
        let found = choose([a, b]);
        let expected = match (standing(a), standing(b)) {
            (Some(Alone), Some(Alone)) => Choice::Refuse(BothAlone),
            (Some(Alone), _) => Choice::Use(0),
            (_, Some(Alone)) => Choice::Use(1),
            (Some(Both), Some(Both)) => {
                let newer = match (a, b) {
                    (
                        Seen::There { record: one, sequence: first },
                        Seen::There { record: two, sequence: second },
                    ) => two.epoch > one.epoch || two.epoch == one.epoch && second > first,
                    _ => false,
                };
                Choice::Use(usize::from(newer))
            }
            (Some(Both), Some(Stale)) => Choice::Use(0),
            (Some(Stale), Some(Both)) => Choice::Use(1),
            (Some(Both), None) => Choice::Refuse(MayBeOld(0)),
            (None, Some(Both)) => Choice::Refuse(MayBeOld(1)),
            (None, None) => match (a, b) {
                (Seen::Blank, Seen::Blank | Seen::None) | (Seen::None, Seen::Blank) => Choice::New,
                (Seen::Unreadable, Seen::Blank) => Choice::Refuse(MayExist(0)),
                (Seen::Blank, Seen::Unreadable) => Choice::Refuse(MayExist(1)),
                _ => Choice::Refuse(NoneCounts),
            },
            _ => Choice::Refuse(NoneCounts),
        };
        assert_eq!(found, expected, "{a:?} and {b:?}");
        // The order of the files decides nothing but which of two equal ones is used.
        let other = match choose([b, a]) {
            Choice::Use(which) if a != b => Choice::Use(1 - which),
            Choice::Refuse(MayBeOld(which)) => Choice::Refuse(MayBeOld(1 - which)),
            Choice::Refuse(MayExist(which)) => Choice::Refuse(MayExist(1 - which)),
            same => same,
        };
        assert_eq!(found, other, "{a:?} and {b:?}");
    }
}

/// A file in memory whose operations can be cut off or fail after so many.
#[derive(Clone)]
struct Disk {
    live: Vec<u8>,
    durable: Vec<u8>,
}

/// The two files share the count of operations.
struct Part<'a> {
    disk: Disk,
    left: &'a core::cell::Cell<usize>,
    /// This file's operations fail from then on; otherwise the power is cut.
    fails: bool,
}

impl MetadataFile for Part<'_> {
    fn length(&self) -> u64 {
        self.disk.live.len() as u64
    }

    fn page(&self, offset: u64, into: &mut [u8; PAGE_BYTES]) -> bool {
        self.disk.live[..].page(offset, into)
    }
}

impl Part<'_> {
    fn step(&self) -> Result<(), ()> {
        match self.left.get().checked_sub(1) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None if self.fails => Err(()),
            None => Ok(()),
        }
    }
}

impl WritableFile for Part<'_> {
    type Error = ();

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), ()> {
        self.step()?;
        self.disk.live[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ()> {
        self.step()?;
        self.disk.durable.clone_from(&self.disk.live);
        Ok(())
    }
}

/// A file at rest whose superblock says `head`, and that record.
fn disk(head: u64, record: FileRecord) -> Disk {
    let layout = Layout::of(&superblock(1));
    let mut paper = Paper::new(layout.bytes());
    let mut ledger = Ledger::fresh(layout, OWNER, CHECKSUM);
    for head in 1..=head {
        assert_eq!(ledger.keep(Change::Superblock(Box::new(superblock(head)))), None);
        paper.settle(&mut ledger);
    }
    let mut live = paper.bytes().to_vec();
    if record != FileRecord::SINGLE {
        let page = record_page(record, mark(), CHECKSUM);
        for place in record_places() {
            live[place as usize..][..PAGE_BYTES].copy_from_slice(&page);
        }
    }
    Disk { durable: live.clone(), live }
}

fn see(bytes: &[u8]) -> Seen {
    match (Ledger::open(bytes, OWNER, CHECKSUM), record(bytes, CHECKSUM)) {
        (Ok(Opened::Fresh), _) => Seen::Blank,
        (Ok(Opened::Found(found)), Some(record)) => {
            Seen::There { record, sequence: found.0.sequence() }
        }
        _ => Seen::Unreadable,
    }
}

fn head(bytes: &[u8]) -> u64 {
    match Ledger::open(bytes, OWNER, CHECKSUM) {
        Ok(Opened::Found(found)) => found.1.superblock.head.0,
        other => panic!("{other:?}"),
    }
}

/// What [`join`] returns.
type End = Result<(FileRecord, Joined<()>), ()>;

/// Runs [`join`] with so many operations before one file's begin to fail (0 the one that counts, 1 the other), or none does.
fn run(disks: &[Disk; 2], left: usize, fails: Option<usize>) -> ([Disk; 2], End) {
    let count = core::cell::Cell::new(left);
    let [one, two] = disks.clone();
    let mut counts = Part { disk: one, left: &count, fails: fails == Some(0) };
    let mut other = Part { disk: two, left: &count, fails: fails == Some(1) };
    let end = join(&mut counts, &mut other, 4, mark(), CHECKSUM);
    ([counts.disk, other.disk], end)
}

/// The pairs that [`join`] is used for: the file that counts says head 3.
fn pairs() -> Vec<[Disk; 2]> {
    let both = FileRecord { standing: Standing::Both, epoch: 4 };
    let alone = FileRecord { standing: Standing::Alone, epoch: 4 };
    let stale = FileRecord { standing: Standing::Stale, epoch: 3 };
    let blank = disk(3, both).live.len();
    let blank = Disk { live: vec![0; blank], durable: vec![0; blank] };
    vec![
        [disk(3, both), disk(2, both)],
        [disk(3, both), disk(3, both)],
        [disk(3, alone), disk(1, both)],
        [disk(3, alone), disk(1, stale)],
        [disk(3, both), disk(1, stale)],
        [disk(3, FileRecord::SINGLE), blank],
    ]
}

#[test]
fn a_file_that_is_made_like_the_other_one_counts_as_it_does() {
    for disks in pairs() {
        let ([one, two], end) = run(&disks, usize::MAX, None);
        let both = FileRecord { standing: Standing::Both, epoch: 6 };
        assert_eq!(end, Ok((both, Joined::Both)));
        assert!(one.durable == two.durable && one.live == one.durable);
        assert_eq!((head(&two.durable), see(&one.durable)), (3, see(&two.durable)));
    }
}

/// The power is cut behind every operation, with what was not flushed on either file or not.
#[test]
fn a_cut_while_a_file_is_made_like_the_other_one_never_brings_the_old_one_back() {
    for disks in pairs() {
        for left in 0..200 {
            // Operations behind the cut do nothing that lasts: a failure of both ends it there.
            let ([one, two], _) = cut(&disks, left);
            for (a, b) in [
                (&one.live, &two.live),
                (&one.durable, &two.durable),
                (&one.live, &two.durable),
                (&one.durable, &two.live),
            ] {
                let seen = [see(a), see(b)];
                let Choice::Use(which) = choose(seen) else { panic!("{seen:?} after {left}") };
                assert_eq!(head([a, b][which]), 3, "{seen:?} after {left}");
                // One of the two alone is used only if it has everything.
                for (file, seen) in [(a, seen[0]), (b, seen[1])] {
                    let lone = choose([seen, Seen::Unreadable]);
                    assert!(lone != Choice::Use(0) || head(file) == 3, "{seen:?} after {left}");
                }
            }
        }
    }
}

fn cut(disks: &[Disk; 2], left: usize) -> ([Disk; 2], bool) {
    let count = core::cell::Cell::new(left);
    let [one, two] = disks.clone();
    let mut counts = Part { disk: one, left: &count, fails: true };
    let mut other = Part { disk: two, left: &count, fails: true };
    let done = join(&mut counts, &mut other, 4, mark(), CHECKSUM).is_ok();
    ([counts.disk, other.disk], done)
}

#[test]
fn a_file_that_cannot_be_made_like_the_other_one_is_given_up_and_never_counts() {
    for disks in pairs() {
        let mut given_up = 0;
        for left in 0..200 {
            let ([one, two], end) = run(&disks, left, Some(1));
            let Ok((record, joined)) = end else { panic!("the one that counts does not fail") };
            if joined == Joined::Both {
                continue;
            }
            given_up += 1;
            assert_eq!(record.standing, Standing::Alone);
            let seen = [see(&one.durable), see(&two.live)];
            assert_eq!(choose(seen), Choice::Use(0), "{seen:?}");
            assert_eq!(choose([seen[0], Seen::Unreadable]), Choice::Use(0));
            assert_ne!(choose([Seen::Unreadable, seen[1]]), Choice::Use(1), "it is out of date");
        }
        assert!(given_up > 4);
    }
}

#[test]
fn a_damaged_record_is_read_from_its_other_copy_and_two_damaged_ones_are_not_used() {
    let both = FileRecord { standing: Standing::Both, epoch: 4 };
    let whole = disk(1, both).live;
    assert_eq!(record(&whole[..], CHECKSUM), Some(both));
    for place in record_places() {
        let mut damaged = whole.clone();
        damaged[place as usize + 40] ^= 1;
        assert_eq!(record(&damaged[..], CHECKSUM), Some(both));
    }
    let mut damaged = whole;
    for place in record_places() {
        damaged[place as usize + 40] ^= 1;
    }
    assert_eq!(record(&damaged[..], CHECKSUM), None);
}
