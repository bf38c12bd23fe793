// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::files::{Choice, Seen, choose, record, record_page};
use crate::layout::Layout;
use crate::open::Opened;
use crate::paper::{CHECKSUM, Dice, OWNER, Paper, mark, superblock};
use alloc::boxed::Box;
use alloc::vec;
use helio_format::page::PAGE_BYTES;
use proptest::prelude::*;

/// Two files, what is under way on them, and what was told.
struct Node {
    mirror: Mirror,
    live: [Vec<u8>; 2],
    durable: [Vec<u8>; 2],
    under_way: Vec<FileEffect>,
    /// The file that fails from now on, or both.
    broken: [bool; 2],
    asked: VecDeque<u64>,
    told: u64,
    lost: usize,
}

fn head(bytes: &[u8]) -> u64 {
    match Ledger::open(bytes, OWNER, CHECKSUM) {
        Ok(Opened::Found(found)) => found.1.superblock.head.0,
        other => panic!("{other:?}"),
    }
}

fn see(bytes: &[u8]) -> Seen {
    match (Ledger::open(bytes, OWNER, CHECKSUM), record(bytes, CHECKSUM)) {
        (Ok(Opened::Found(found)), Some(record)) => {
            Seen::There { record, sequence: found.0.sequence() }
        }
        _ => Seen::Unreadable,
    }
}

impl Node {
    /// Both files say head 1, and count.
    fn new() -> Self {
        let layout = Layout::of(&superblock(1));
        let mut paper = Paper::new(layout.bytes());
        let mut ledger = Ledger::fresh(layout, OWNER, CHECKSUM);
        assert_eq!(ledger.keep(Change::Superblock(Box::new(superblock(1)))), None);
        paper.settle(&mut ledger);
        let both = FileRecord { standing: Standing::Both, epoch: 2 };
        for place in record_places() {
            paper.overwrite(place as usize, &record_page(both, mark(), CHECKSUM));
        }
        let bytes = paper.bytes().to_vec();
        Self {
            mirror: Mirror::two(ledger, 2),
            live: [bytes.clone(), bytes.clone()],
            durable: [bytes.clone(), bytes],
            under_way: Vec::new(),
            broken: [false; 2],
            asked: VecDeque::new(),
            told: 1,
            lost: 0,
        }
    }

    fn keep(&mut self, head: u64) {
        self.asked.push_back(head);
        let refused = self.mirror.keep(Change::Superblock(Box::new(superblock(head))));
        self.take(refused.into_iter().collect());
    }

    fn take(&mut self, kept: Vec<Kept>) {
        for kept in kept {
            let head = self.asked.pop_front().expect("told once");
            match kept {
                Kept::Superblock { ok: true } => self.told = head,
                Kept::Superblock { ok: false } => self.lost += 1,
                other => panic!("{other:?}"),
            }
        }
        self.mirror.next(&mut self.under_way);
    }

    /// One of the operations under way ends.
    fn end(&mut self, dice: &mut Dice) {
        if self.under_way.is_empty() {
            return;
        }
        let which = dice.below(self.under_way.len() as u64) as usize;
        let FileEffect { task, effect } = self.under_way.swap_remove(which);
        let file = task.file();
        let ok = !self.broken[file];
        match effect {
            MetadataEffect::Write { offset, bytes } if ok || dice.one_in(2) => {
                self.live[file][offset as usize..][..PAGE_BYTES].copy_from_slice(&bytes);
            }
            MetadataEffect::Write { .. } => {}
            MetadataEffect::Flush if ok => self.durable[file].clone_from(&self.live[file]),
            MetadataEffect::Flush => {}
        }
        let kept = self.mirror.done(task, ok, &mut self.under_way);
        self.take(kept);
    }

    /// What the power leaves of a file: of every page that was not flushed, the old or the new one.
    fn cut(&self, file: usize, dice: &mut Dice) -> Vec<u8> {
        let mut left = self.durable[file].clone();
        let pages = left.chunks_mut(PAGE_BYTES).zip(self.live[file].chunks(PAGE_BYTES));
        for (old, new) in pages {
            if dice.one_in(2) {
                old.copy_from_slice(new);
            }
        }
        left
    }

    /// Whatever can be read after a cut, a file that is used has everything that was told.
    fn check(&self, dice: &mut Dice) {
        let files = [self.cut(0, dice), self.cut(1, dice)];
        let seen = [see(&files[0]), see(&files[1])];
        let unreadable = Seen::Unreadable;
        for seen in [seen, [seen[0], unreadable], [unreadable, seen[1]]] {
            if let Choice::Use(which) = choose(seen) {
                assert!(head(&files[which]) >= self.told, "{seen:?} after {}", self.told);
            }
        }
        assert!(matches!(choose(seen), Choice::Use(_)), "{seen:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_file_that_is_used_after_a_cut_has_everything_that_was_told(seed: u64, steps in 1..200usize) {
        let dice = &mut Dice::new(seed);
        let mut node = Node::new();
        let mut next = 1;
        for _ in 0..steps {
            match dice.below(8) {
                0 | 1 if node.asked.len() < 3 => {
                    next += 1;
                    node.keep(next);
                }
                2 if dice.one_in(6) => node.broken[dice.below(2) as usize] = true,
                3 => node.check(dice),
                _ => node.end(dice),
            }
        }
        while !node.under_way.is_empty() {
            node.end(dice);
        }
        node.check(dice);
        prop_assert!(node.asked.is_empty() && node.mirror.is_idle());
        prop_assert!(node.lost == 0 || node.broken == [true; 2], "one file is enough");
    }
}

#[test]
fn nothing_is_told_before_the_other_file_says_that_it_counts_alone() {
    let dice = &mut Dice::new(1);
    let mut node = Node::new();
    node.broken[0] = true;
    node.keep(2);
    while !node.under_way.is_empty() {
        node.end(dice);
        let alone = FileRecord { standing: Standing::Alone, epoch: 3 };
        let recorded = record(&node.durable[1][..], CHECKSUM) == Some(alone);
        assert!(recorded || node.told == 1, "told before the record");
    }
    assert_eq!((node.told, node.lost), (2, 0));
    assert_eq!(choose([see(&node.durable[0]), see(&node.durable[1])]), Choice::Use(1));
}

#[test]
fn the_last_file_that_fails_poisons_the_ledger() {
    let dice = &mut Dice::new(1);
    let mut node = Node::new();
    node.broken = [true; 2];
    for head in 2..5 {
        node.keep(head);
    }
    while !node.under_way.is_empty() {
        node.end(dice);
    }
    node.keep(5);
    assert_eq!((node.told, node.lost), (1, 4));
    assert!(node.mirror.ledger().is_poisoned());
}

#[test]
fn one_file_is_written_as_by_its_ledger_alone() {
    let dice = &mut Dice::new(1);
    let mut node = Node::new();
    let layout = Layout::of(&superblock(1));
    node.live = [0, 1].map(|_| vec![0; layout.bytes() as usize]);
    let fresh = Ledger::fresh(layout, OWNER, CHECKSUM);
    node.mirror = Mirror::one(fresh, 0);
    node.keep(1);
    while !node.under_way.is_empty() {
        assert!(node.under_way.iter().all(|effect| effect.task == Task::Batch(0)));
        node.end(dice);
    }
    assert_eq!((node.told, head(&node.live[0])), (1, 1));
    assert_eq!(record(&node.live[0][..], CHECKSUM), Some(FileRecord::SINGLE));
}
