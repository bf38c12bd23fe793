// SPDX-License-Identifier: Apache-2.0
//! The copies of a group, and what is preserved for each.
//!
//! A chunk that is overwritten is preserved for the youngest copy. What an older copy holds there lies with the first copy, from itself
//! on towards the youngest, for which the chunk is preserved; where none has it, the volume still holds it. So one before-image
//! serves every copy that needs it. When a copy is dropped, the next older one gets the chunks that it does not have.
//!
//! What clients write to a copy is its *branch*: whole chunks that begin as what the copy holds. No other copy sees them.

use crate::chunks::Chunks;
use crate::preserved::{Preserved, Union};
use alloc::vec::Vec;
use core::ops::Range;
use helio_format::before::{
    CopyClass, CopyNumber, CopyStage, CopyView, KeptCopy, Slot, fingerprint,
};
use helio_ledger::{BeforeFound, BeforeRecord, Chunk};

/// One copy.
#[derive(Clone, Debug)]
struct Held {
    copy: KeptCopy,
    /// What was preserved while it was the youngest, or left to it.
    preserved: Preserved,
    /// The chunks of its branch.
    branch: Preserved,
    /// What lies outside the volumes.
    outside: Vec<BeforeRecord>,
}

impl Held {
    fn new(copy: KeptCopy) -> Self {
        let (preserved, branch) = (Preserved::default(), Preserved::default());
        Self { copy, preserved, branch, outside: Vec::new() }
    }

    /// How many chunks of the pool it takes.
    const fn takes(&self) -> u64 {
        self.preserved.count() + self.branch.count()
    }
}

/// See the module. By number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    held: Vec<Held>,
    /// The highest number that one ever had.
    last: CopyNumber,
}

impl Copies {
    /// What the pool held when the process began. Expendable copies up to the number `over`, all in a
    /// damaged pool, and those that were replaced are as if their cut had never ended. Chunks
    /// that lie outside the volumes were of others.
    pub(crate) fn found(
        found: &BeforeFound,
        (over, rollback): (CopyNumber, Option<CopyNumber>),
        chunks: &Chunks,
    ) -> Self {
        let held = |copy: &KeptCopy| {
            let is_over = found.damaged || copy.number <= over;
            let is_over = is_over && copy.class == CopyClass::Expendable;
            let void =
                matches!(copy.stage, CopyStage::Rollback(_)) && rollback != Some(copy.number);
            let gone = is_over || void || is_replaced(copy, &found.copies);
            let stage = if gone { CopyStage::Coming } else { copy.stage };
            let mut held = Held::new(KeptCopy { stage, ..*copy });
            for record in found.records.iter().filter(|record| record.of.copy() == copy.number) {
                match (chunks.find(record.chunk), record.of) {
                    (Some(chunk), CopyView::Cut(_)) => held.preserved.insert(chunk, record.slot),
                    (Some(chunk), CopyView::Branch(_)) => held.branch.insert(chunk, record.slot),
                    (None, _) => held.outside.push(*record),
                }
            }
            held
        };
        Self { held: found.copies.iter().map(held).collect(), last: found.last.max(over) }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The list as the pool has it.
    pub(crate) fn list(&self) -> impl Iterator<Item = KeptCopy> + '_ {
        self.held.iter().map(|held| held.copy)
    }

    pub(crate) fn has(&self, number: CopyNumber) -> bool {
        self.position(number).is_some()
    }

    /// The copies that are held, with what differs from each, what is preserved for it, and its branch, in chunks. The oldest first.
    pub(crate) fn figures(&self) -> Vec<(KeptCopy, [u64; 3])> {
        let mut union = Union::default();
        let mut figures: Vec<_> = (self.held.iter().rev())
            .map(|held| {
                union.add(&held.preserved);
                (held.copy, [union.count(), held.preserved.count(), held.branch.count()])
            })
            .collect();
        figures.retain(|(copy, ..)| copy.stage == CopyStage::Held);
        figures.reverse();
        figures
    }

    /// Whether that copy is there, and of use.
    pub(crate) fn holds(&self, number: CopyNumber) -> bool {
        self.held(number).is_some()
    }

    /// That copy, if it is of use.
    pub(crate) fn held(&self, number: CopyNumber) -> Option<KeptCopy> {
        let copy = self.held[self.position(number)?].copy;
        (copy.stage == CopyStage::Held).then_some(copy)
    }

    fn position(&self, number: CopyNumber) -> Option<usize> {
        self.held.iter().position(|held| held.copy.number == number)
    }

    /// How many chunks of the pool all of them take.
    pub(crate) fn taken(&self) -> u64 {
        self.held.iter().map(Held::takes).sum()
    }

    /// How many those take that yield to a required one.
    pub(crate) fn taken_by_expendable(&self) -> u64 {
        let yields = |held: &&Held| {
            held.copy.class == CopyClass::Expendable && held.copy.stage == CopyStage::Held
        };
        self.held.iter().filter(yields).map(Held::takes).sum()
    }

    /// How many are preserved for that one.
    pub(crate) fn preserved_for(&self, number: CopyNumber) -> u64 {
        self.position(number).map_or(0, |position| self.held[position].preserved.count())
    }

    /// The youngest one, for which a chunk is preserved before a change overwrites it. Before a cut or a rollback that is under
    /// way, that is the one before it.
    pub(crate) fn youngest(&self, before_cut: bool) -> Option<CopyNumber> {
        self.young(before_cut).map(|at| self.held[at].copy.number)
    }

    fn young(&self, before_cut: bool) -> Option<usize> {
        let held = |held: &Held| held.copy.stage == CopyStage::Held;
        self.held.iter().rposition(|it| !before_cut || held(it))
    }

    /// Whether a copy needs what that chunk holds, and the pool does not have it yet.
    pub(crate) fn is_unpreserved(&self, chunk: u64, before_cut: bool) -> bool {
        // A younger copy that was abandoned may have the chunk.
        let needs = self.young(before_cut);
        needs.is_some_and(|at| !self.held[at..].iter().any(|held| held.preserved.has(chunk)))
    }

    /// Where the pool has what is seen of that chunk, if it has it.
    pub(crate) fn slot(&self, view: CopyView, chunk: u64) -> Option<Slot> {
        let maps = &self.held[self.position(view.copy())?..];
        let written = match view {
            CopyView::Branch(_) => maps[0].branch.slot(chunk),
            CopyView::Cut(_) => None,
        };
        written.or_else(|| maps.iter().find_map(|held| held.preserved.slot(chunk)))
    }

    /// Where the branch of a copy has that chunk, if it has it.
    pub(crate) fn branch_slot(&self, number: CopyNumber, chunk: u64) -> Option<Slot> {
        self.held[self.position(number)?].branch.slot(chunk)
    }

    /// The chunk is preserved for that copy, or the branch has it, if the copy is still there.
    pub(crate) fn preserve(&mut self, of: CopyView, chunk: u64, slot: Slot) {
        if let Some(position) = self.position(of.copy()) {
            let held = &mut self.held[position];
            match of {
                CopyView::Cut(_) => held.preserved.insert(chunk, slot),
                CopyView::Branch(_) => held.branch.insert(chunk, slot),
            }
        }
    }

    /// The number of the next copy.
    pub(crate) fn next(&self) -> CopyNumber {
        CopyNumber(self.last.0 + 1)
    }

    /// A copy is cut from now on.
    pub(crate) fn add(&mut self, copy: KeptCopy) {
        self.last = copy.number;
        self.held.push(Held::new(copy));
    }

    /// Its cut has ended: it is as that says.
    pub(crate) fn hold(&mut self, copy: KeptCopy) {
        if let Some(position) = self.position(copy.number) {
            self.held[position].copy = copy;
        }
    }

    /// Copies of that class that are held, the oldest first.
    pub(crate) fn of_class(&self, class: CopyClass) -> impl Iterator<Item = CopyNumber> + '_ {
        let of = move |held: &&Held| held.copy.class == class && held.copy.stage == CopyStage::Held;
        self.held.iter().filter(of).map(|held| held.copy.number)
    }

    /// These copies are of no use any more: as if their cut had never ended.
    pub(crate) fn forsake(&mut self, numbers: &[CopyNumber]) {
        let of = |held: &&mut Held| numbers.contains(&held.copy.number);
        self.held.iter_mut().filter(of).for_each(|held| held.copy.stage = CopyStage::Coming);
    }

    /// Those that need nothing: a process before did not end their cut, or they are of no use any more.
    pub(crate) fn coming(&self) -> impl Iterator<Item = CopyNumber> + '_ {
        let coming = |held: &&Held| held.copy.stage == CopyStage::Coming;
        self.held.iter().filter(coming).map(|held| held.copy.number)
    }

    /// None of them is expendable any more.
    pub(crate) fn require_all(&mut self) {
        self.held.iter_mut().for_each(|held| held.copy.class = CopyClass::Required);
    }

    /// What the list is without those copies, which are still there, and what the records add to the sum that count no more then.
    pub(crate) fn without(&self, numbers: &[CopyNumber], chunks: &Chunks) -> (Vec<KeptCopy>, u64) {
        let mut rest = self.clone();
        let freed = rest.remove(numbers, chunks).into_iter();
        let marks = freed.map(|((volume, extent), slot)| fingerprint(slot, volume, extent.offset));
        let freed = marks.fold(0, u64::wrapping_add);
        (rest.list().collect(), freed)
    }

    /// Those copies are gone. Returns what no other one needs.
    pub(crate) fn remove(&mut self, numbers: &[CopyNumber], chunks: &Chunks) -> Vec<(Chunk, Slot)> {
        let mut freed = Vec::new();
        for number in numbers {
            let Some(position) = self.position(*number) else { continue };
            let gone = self.held.remove(position);
            freed.extend(gone.branch.iter().map(|(chunk, slot)| (chunks.place(chunk), slot)));
            let mut older = position.checked_sub(1).map(|at| &mut self.held[at]);
            for (chunk, slot) in gone.preserved.iter() {
                match older.as_mut().filter(|older| !older.preserved.has(chunk)) {
                    Some(older) => older.preserved.insert(chunk, slot),
                    None => freed.push((chunks.place(chunk), slot)),
                }
            }
            for record in gone.outside {
                let is_cut = |it: &BeforeRecord| matches!(it.of, CopyView::Cut(_));
                let key = |it: &BeforeRecord| (is_cut(it), it.chunk.0, it.chunk.1.offset);
                let same = |it: &BeforeRecord| key(it) == key(&record);
                let lacks =
                    |older: &&mut &mut Held| is_cut(&record) && !older.outside.iter().any(same);
                match older.as_mut().filter(lacks) {
                    Some(older) => older.outside.push(record),
                    None => freed.push((record.chunk, record.slot)),
                }
            }
        }
        freed
    }

    /// Whether a chunk has to be put back by a rollback: a copy from `to` on before `by` has it, and none since.
    pub(crate) fn owes(&self, (to, by): (CopyNumber, CopyNumber), chunk: u64) -> bool {
        let last = self.held.iter().rfind(|held| held.preserved.has(chunk));
        last.is_some_and(|held| (to..by).contains(&held.copy.number))
    }

    /// How many those are from that chunk on.
    pub(crate) fn owed(&self, (to, by): (CopyNumber, CopyNumber), from: u64) -> u64 {
        let mut union = Union::default();
        let maps = self.held.iter().filter(|held| held.copy.number >= to);
        let (since, before): (Vec<_>, Vec<_>) = maps.partition(|held| held.copy.number >= by);
        before.iter().for_each(|held| union.add(&held.preserved));
        since.iter().for_each(|held| union.remove(&held.preserved));
        union.count_from(from)
    }

    /// The chunks of a range in which a volume may differ from what is seen of a copy that is there, or from what was seen of a younger
    /// one. A rollback under way has from `to` on, and before `by`, what it puts back. What of that it has not put back need not be
    /// preserved yet for a copy between the two.
    pub(crate) fn changed(
        &self,
        view: CopyView,
        rollback: Option<(CopyNumber, CopyNumber)>,
        chunks: Range<u64>,
    ) -> impl Iterator<Item = u64> + use<> {
        let copy = view.copy();
        let to = rollback.filter(|(_, by)| copy < *by).map_or(copy, |(to, _)| to.min(copy));
        let mut union = Union::default();
        for held in self.held.iter().filter(|held| held.copy.number >= to) {
            union.add_of(&held.preserved, &chunks);
            if view == CopyView::Branch(held.copy.number) {
                union.add_of(&held.branch, &chunks);
            }
        }
        chunks.filter(move |chunk| union.has(*chunk))
    }

    /// The next chunks, from that one on, in which a copy differs from the volumes, as far as that is known; and where the pool has
    /// what it holds there.
    pub(crate) fn differing(&self, number: CopyNumber, from: u64, most: usize) -> Vec<(u64, Slot)> {
        let Some(position) = self.position(number) else { return Vec::new() };
        let maps = &self.held[position..];
        let (mut found, mut next) = (Vec::new(), Some(from));
        while let Some(from) = next.filter(|_| found.len() < most) {
            let firsts = maps.iter().filter_map(|held| held.preserved.next_from(from));
            let Some((chunk, _)) = firsts.min_by_key(|(chunk, _)| *chunk) else { break };
            found.extend(self.slot(CopyView::Cut(number), chunk).map(|slot| (chunk, slot)));
            next = chunk.checked_add(1);
        }
        found
    }
}

/// Whether another copy has its name since: a process before was to drop it.
fn is_replaced(copy: &KeptCopy, copies: &[KeptCopy]) -> bool {
    let newer = |it: &&KeptCopy| it.number > copy.number && it.stage == CopyStage::Held;
    copy.name().is_some() && copies.iter().filter(newer).any(|it| it.name() == copy.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use helio_format::before::{CopyOwner, KeptImage};
    use helio_units::Bytes;
    use proptest::prelude::*;

    const SIZES: [Bytes; 1] = [Bytes(8 << 16)];

    fn copy(number: u64) -> KeptCopy {
        let (class, stage) = (CopyClass::Expendable, CopyStage::Held);
        let (number, owner) = (CopyNumber(number), CopyOwner::Resync);
        KeptCopy { number, class, stage, owner, image: KeptImage::default() }
    }

    #[test]
    fn what_a_copy_leaves_goes_to_the_next_older_one_as_far_as_it_lacks_it() {
        let mut copies = Copies::default();
        for (number, chunks) in [(1, [0, 1]), (2, [1, 2]), (3, [2, 3])] {
            copies.add(copy(number));
            for (slot, chunk) in (10 * number as u32..).zip(chunks) {
                copies.preserve(CopyView::Cut(CopyNumber(number)), chunk, Slot(slot));
            }
        }
        let (list, _) = copies.without(&[CopyNumber(2)], &Chunks::new(&SIZES));
        assert_eq!(list, [copy(1), copy(3)]);
        let chunks = Chunks::new(&SIZES);
        assert_eq!(copies.remove(&[CopyNumber(2)], &chunks), [(chunks.place(1), Slot(20))]);
        let first = copies.differing(CopyNumber(1), 0, 9);
        assert_eq!(first, [(0, Slot(10)), (1, Slot(11)), (2, Slot(21)), (3, Slot(31))]);
        assert_eq!(copies.remove(&[CopyNumber(1)], &chunks).len(), 3, "nothing is older");
        assert_eq!(copies.differing(CopyNumber(3), 0, 9), [(2, Slot(30)), (3, Slot(31))]);
    }

    #[test]
    fn what_a_rollback_puts_back_changes_since_copies_in_between_and_no_others() {
        let mut copies = Copies::default();
        for number in 1..=5 {
            copies.add(copy(number));
            copies.preserve(CopyView::Cut(CopyNumber(number)), number, Slot(number as u32));
        }
        copies.preserve(CopyView::Branch(CopyNumber(5)), 7, Slot(7));
        let span = Some((CopyNumber(2), CopyNumber(4)));
        let changed = |view, range| copies.changed(view, span, range).collect::<Vec<_>>();
        let cut = |number| CopyView::Cut(CopyNumber(number));
        assert_eq!(changed(cut(1), 0..8), [1, 2, 3, 4, 5]);
        assert_eq!(changed(cut(2), 0..8), [2, 3, 4, 5]);
        assert_eq!(changed(cut(3), 0..8), [2, 3, 4, 5], "chunk 2 is owed, and not preserved for 3");
        assert_eq!(changed(cut(5), 0..8), [5], "it was cut from what is put back");
        assert_eq!(changed(CopyView::Branch(CopyNumber(5)), 0..8), [5, 7]);
        assert_eq!(changed(cut(1), 2..4), [2, 3]);
    }

    proptest! {
        /// Against volumes that are copied whole.
        #[test]
        fn every_copy_gives_what_the_volumes_held(acts in prop::collection::vec((0..6_u8, 0..8_u64), 0..80)) {
            let (mut copies, mut live) = (Copies::default(), [0_u64; 8]);
            let (mut images, mut pool): (BTreeMap<CopyNumber, [u64; 8]>, Vec<u64>) = Default::default();
            for (value, (act, chunk)) in (1..).zip(acts) {
                match act {
                    0 => {
                        let number = copies.next();
                        copies.add(copy(number.0));
                        images.insert(number, live);
                    }
                    1 if !images.is_empty() => {
                        let nth = chunk as usize % images.len();
                        let number = *images.keys().nth(nth).expect("one");
                        images.remove(&number);
                        copies.remove(&[number], &Chunks::new(&SIZES));
                    }
                    _ => {
                        if copies.is_unpreserved(chunk, false) {
                            let youngest = copies.youngest(false).expect("one needs it");
                            let of = CopyView::Cut(youngest);
                            copies.preserve(of, chunk, Slot(pool.len() as u32));
                            pool.push(live[chunk as usize]);
                        }
                        live[chunk as usize] = value;
                    }
                }
                let span = (CopyNumber(2), CopyNumber(4));
                let owed = (0..8).filter(|chunk| copies.owes(span, *chunk)).count() as u64;
                prop_assert_eq!(copies.owed(span, 0), owed);
                for (number, image) in &images {
                    let mut given = live;
                    for (chunk, slot) in copies.differing(*number, 0, 8) {
                        given[chunk as usize] = pool[slot.0 as usize];
                    }
                    prop_assert_eq!(&given, image);
                    let changed: Vec<u64> = copies.changed(CopyView::Cut(*number), None, 0..8).collect();
                    let preserved = copies.differing(*number, 0, 8).into_iter().map(|(chunk, _)| chunk);
                    prop_assert!(changed.iter().copied().eq(preserved));
                    let younger = images.range(number..).map(|(_, younger)| younger);
                    for later in younger.chain([&live]) {
                        let mut differs = (0..8).filter(|at| later[*at as usize] != image[*at as usize]);
                        prop_assert!(differs.all(|chunk| changed.contains(&chunk)));
                    }
                }
            }
            let everything = copies.list().map(|copy| copy.number).collect::<Vec<_>>();
            let held = copies.taken();
            prop_assert_eq!(copies.remove(&everything, &Chunks::new(&SIZES)).len() as u64, held);
        }
    }
}
