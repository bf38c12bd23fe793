// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::paper::{CHECKSUM, Dice, OWNER, PEER, Paper, superblock};
use alloc::vec;
use helio_format::hot::SLOTS_PER_PAGE;

/// A file with its first superblock, and nothing to do.
fn begun() -> (Paper, Ledger) {
    let layout = Layout::of(&superblock(1));
    let mut paper = Paper::new(layout.bytes());
    let mut ledger = Ledger::fresh(layout, OWNER, CHECKSUM);
    assert_eq!(ledger.keep(Change::Superblock(Box::new(superblock(1)))), None);
    assert_eq!(paper.settle(&mut ledger), vec![Kept::Superblock { ok: true }]);
    paper.reset_ended();
    (paper, ledger)
}

fn add(ticket: u64, extents: impl IntoIterator<Item = u64>) -> Change {
    Change::Hot { ticket, add: extents.into_iter().collect(), remove: Vec::new() }
}

fn marks(page: u32, word: u64) -> Change {
    let mut bits = Box::new([0; SLOTS_PER_PAGE]);
    bits[0] = word;
    Change::Marks { owner: PEER, page, bits }
}

fn queue(ledger: &mut Ledger, change: Change) {
    assert_eq!(ledger.keep(change), None);
}

#[test]
fn an_extent_turns_hot_with_one_page_written_and_one_flush() {
    let (mut paper, mut ledger) = begun();
    queue(&mut ledger, add(7, [5]));
    paper.ask(&mut ledger);
    assert_eq!(paper.writes().len(), 1);
    paper.end_write(0, true, &mut Dice::new(0));
    assert_eq!(ledger.written(true), vec![]);
    paper.ask(&mut ledger);
    paper.end_flush(true);
    assert_eq!(ledger.flushed(true), vec![Kept::Hot { ticket: 7, ok: true }]);
    // The twin follows without a flush of its own.
    paper.settle(&mut ledger);
    assert_eq!(paper.ended(), (2, 1));
    assert!(ledger.is_idle());
}

#[test]
fn many_extents_queued_together_take_as_few_pages_as_they_need() {
    let (mut paper, mut ledger) = begun();
    for ticket in 0..300 {
        queue(&mut ledger, add(ticket, [ticket]));
    }
    assert_eq!(paper.settle(&mut ledger).len(), 300);
    assert_eq!(paper.ended(), (2, 1), "one page and its twin");
    queue(&mut ledger, add(300, 300..700));
    assert_eq!(paper.settle(&mut ledger), vec![Kept::Hot { ticket: 300, ok: true }]);
    assert_eq!(paper.ended(), (4, 2), "another page and its twin");
}

#[test]
fn one_extent_after_the_other_needs_one_flush_each() {
    let (mut paper, mut ledger) = begun();
    for n in 0..20 {
        queue(&mut ledger, add(n, [n]));
        loop {
            paper.ask(&mut ledger);
            while !paper.writes().is_empty() {
                paper.end_write(0, true, &mut Dice::new(0));
                ledger.written(true);
            }
            paper.ask(&mut ledger);
            paper.end_flush(true);
            if ledger.flushed(true) == [Kept::Hot { ticket: n, ok: true }] {
                break;
            }
        }
    }
    assert_eq!(paper.ended().1, 20, "it goes to the page whose twin is level");
}

#[test]
fn what_comes_while_a_batch_is_under_way_shares_the_next_one() {
    let (mut paper, mut ledger) = begun();
    queue(&mut ledger, marks(0, 1));
    paper.ask(&mut ledger);
    queue(&mut ledger, marks(1, 2));
    queue(&mut ledger, add(1, [1]));
    queue(&mut ledger, Change::Superblock(Box::new(superblock(2))));
    let kept = paper.settle(&mut ledger);
    let ok = true;
    let second = [
        Kept::Superblock { ok },
        Kept::Hot { ticket: 1, ok },
        Kept::Marks { owner: PEER, page: 1, ok },
    ];
    assert_eq!(kept, [&[Kept::Marks { owner: PEER, page: 0, ok }], &second[..]].concat());
    assert_eq!(paper.ended().1, 2);
}

#[test]
fn a_page_is_written_again_only_behind_its_twin() {
    let (mut paper, mut ledger) = begun();
    queue(&mut ledger, marks(0, 1));
    paper.settle(&mut ledger);
    assert_eq!(paper.ended(), (2, 1));
    // The twin is written but not durable: one flush for it, one for the change.
    queue(&mut ledger, marks(0, 3));
    paper.ask(&mut ledger);
    assert!(paper.is_flushing() && paper.writes().is_empty());
    paper.end_flush(true);
    assert_eq!(ledger.flushed(true), vec![]);
    assert_eq!(paper.settle(&mut ledger), vec![Kept::Marks { owner: PEER, page: 0, ok: true }]);
}

#[test]
fn changes_of_one_page_that_wait_together_are_one_write_and_all_are_told() {
    let (mut paper, mut ledger) = begun();
    for word in 1..=3 {
        queue(&mut ledger, marks(1, word));
    }
    assert_eq!(paper.settle(&mut ledger), vec![Kept::Marks { owner: PEER, page: 1, ok: true }; 3]);
    assert_eq!(paper.ended().0, 2);
}

#[test]
fn an_extent_that_is_hot_already_costs_no_write() {
    let (mut paper, mut ledger) = begun();
    queue(&mut ledger, add(1, [9]));
    paper.settle(&mut ledger);
    let before = paper.ended().0;
    queue(&mut ledger, add(2, [9]));
    queue(&mut ledger, Change::Hot { ticket: 3, add: vec![], remove: vec![10] });
    let ok = true;
    assert_eq!(
        paper.settle(&mut ledger),
        vec![Kept::Hot { ticket: 2, ok }, Kept::Hot { ticket: 3, ok }]
    );
    assert_eq!(paper.ended().0, before);
}

#[test]
fn a_slot_is_free_as_soon_as_its_extent_is_not_hot() {
    let (mut paper, mut ledger) = begun();
    queue(&mut ledger, add(1, 0..768));
    paper.settle(&mut ledger);
    for ticket in 2..9 {
        let (add, remove) = ((0..400).collect(), (0..400).collect());
        queue(&mut ledger, Change::Hot { ticket, add, remove });
    }
    assert_eq!(paper.settle(&mut ledger).len(), 7);
    assert_eq!(ledger.hot_extents().len(), 768);
}

#[test]
fn after_a_failed_write_nothing_is_kept_and_everybody_is_told_once() {
    let (mut paper, mut ledger) = begun();
    queue(&mut ledger, marks(0, 1));
    queue(&mut ledger, add(1, [1]));
    paper.ask(&mut ledger);
    queue(&mut ledger, add(2, [1, 2]));
    queue(&mut ledger, Change::Superblock(Box::new(superblock(2))));
    let ok = false;
    let lost = [
        Kept::Superblock { ok },
        Kept::Marks { owner: PEER, page: 0, ok },
        Kept::Hot { ticket: 1, ok },
        Kept::Hot { ticket: 2, ok },
    ];
    assert_eq!(ledger.written(false), lost);
    assert_eq!(ledger.written(true), vec![], "the other write of the batch");
    assert_eq!(ledger.keep(marks(1, 1)), Some(Kept::Marks { owner: PEER, page: 1, ok }));
    let mut out = Vec::new();
    ledger.next(&mut out);
    assert!(out.is_empty() && ledger.is_poisoned() && ledger.is_idle());
}

#[test]
fn after_a_failed_flush_nothing_is_kept() {
    let (mut paper, mut ledger) = begun();
    let before = ledger.sequence();
    queue(&mut ledger, add(1, [1]));
    paper.ask(&mut ledger);
    paper.end_write(0, true, &mut Dice::new(0));
    assert_eq!(ledger.written(true), vec![]);
    paper.ask(&mut ledger);
    assert_eq!(ledger.flushed(false), vec![Kept::Hot { ticket: 1, ok: false }]);
    assert_eq!(ledger.sequence(), before, "what is told to the peer holds");
}

#[test]
fn a_new_file_gets_its_superblock_before_anything_else() {
    let layout = Layout::of(&superblock(1));
    let mut paper = Paper::new(layout.bytes());
    let mut ledger = Ledger::fresh(layout, OWNER, CHECKSUM);
    queue(&mut ledger, Change::Superblock(Box::new(superblock(1))));
    queue(&mut ledger, marks(0, 1));
    paper.ask(&mut ledger);
    assert_eq!(paper.writes().iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0]);
    assert_eq!(paper.settle(&mut ledger).len(), 2);
}

#[test]
#[should_panic(expected = "the first change of a new file is its superblock")]
fn marks_before_the_first_superblock_are_a_mistake() {
    let mut ledger = Ledger::fresh(Layout::of(&superblock(1)), OWNER, CHECKSUM);
    let _ = ledger.keep(marks(0, 1));
}

#[test]
fn who_asks_for_an_extent_that_is_being_written_shares_its_fate() {
    let (mut paper, mut ledger) = begun();
    queue(&mut ledger, add(1, [5]));
    paper.ask(&mut ledger);
    queue(&mut ledger, add(2, [5]));
    let lost = [1, 2].map(|ticket| Kept::Hot { ticket, ok: false });
    assert_eq!(ledger.written(false), lost);
}
