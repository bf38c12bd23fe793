// SPDX-License-Identifier: Apache-2.0
//! HotExtents before issue (rule 1): nothing that changes bytes reaches this node's store before a durable record says
//! that the extent may differ from the other node's.
//!
//! ```text
//!            somebody enters            kept                nobody in it, flushed here, the peer
//!   cold ───────────────────> Wanted ─────────> Hot ──────── has it or its bits are saved ────────> Removing ─kept─> cold
//!                                └── its items are parked ──┘ and issued                               │ entered again
//!                                 ^────────────────────────────────────────────────────────────────────┘
//! ```
//! An extent is 4 MiB; turning hot costs one metadata write, and what happens in it afterwards costs none. Their
//! number is bounded. Below an eighth free the engine flushes by itself, saves pages, and lets the coldest go in
//! batches. After a crash every hot extent counts as dirty, and stays hot until each layer that has something to do in it (a
//! shadow set makes its members equal there) lets it cool: another crash before finds it again.

use crate::grid::{Grid, add_run};
use crate::parts::Parts;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, IoId, Sequence, VolumeIndex};

/// Bytes of a hot extent.
pub const EXTENT: Bytes = Bytes::mib(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Wanted,
    Adding(u64),
    Hot,
    Removing(u64),
}

/// An extent that is not cold.
#[derive(Clone, Copy, Debug)]
pub struct HotExtent {
    stage: Stage,
    /// Operations parked or under way.
    busy: u32,
    /// How many of them are parked.
    parked: u32,
    /// Layers that do not let it cool yet, a bit for each.
    owners: u8,
    /// The parts touched since it turned hot; all of them if that is not known.
    touched: Parts,
    /// The last item that touched it; none if that is not known.
    last: Option<Sequence>,
    /// Flushes begun on its volume when the last operation ended: a later one covers it.
    done_in: u64,
    /// When it was entered last, in ticks.
    used: u64,
}

impl HotExtent {
    /// One that nobody has entered yet.
    const fn wanted(last: Option<Sequence>, used: u64) -> Self {
        let stage = Stage::Wanted;
        let touched = Parts::NONE;
        Self { stage, busy: 0, parked: 0, owners: 0, touched, last, done_in: 0, used }
    }

    /// The last item that touched it; none if that is not known.
    #[must_use]
    #[inline]
    pub fn last(&self) -> Option<Sequence> {
        self.last
    }

    /// When it was entered last, in ticks.
    #[must_use]
    #[inline]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// No operation changes it, and no layer owns it.
    fn may_cool(&self) -> bool {
        let owned = self.owners != 0 && !planted(Plant::OwnedCools);
        self.stage == Stage::Hot && self.busy == self.parked && !owned
    }

    /// What was touched of it, `extent` being where it is, as runs.
    pub fn runs(&self, extent: Extent) -> impl Iterator<Item = Extent> + use<> {
        self.touched.runs(extent)
    }
}

/// Operations above the layers that hold an extent.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    operations: u32,
    /// The last item among them; none if there is none, or it is not known.
    last: Option<Sequence>,
}

/// An operation that waits for its extents to be kept.
#[derive(Clone, Debug)]
pub struct Parked<P> {
    /// Its name.
    pub io: IoId,
    /// Its volume.
    pub volume: VolumeIndex,
    /// What is to be issued.
    pub op: P,
    extent: Extent,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flushes {
    begun: u64,
    ended: u64,
    /// Those up to this one prove nothing: one failed, and whichever the device told, the fault may be another's; or an
    /// extent was let go unflushed since.
    unproven: u64,
    running: u32,
}

/// When a volume's hot extents may go, as far as its store is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cooling {
    /// Behind a flush that was begun after the last operation in them.
    Flushed,
    /// At any time: all of the volume counts as dirty, whatever its store holds.
    Unflushed,
    /// Not now.
    Never,
}

/// What the ledger is asked to keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Counts them.
    pub ticket: u64,
    /// Extents that turn hot.
    pub add: Vec<u64>,
    /// Extents that turn cold.
    pub remove: Vec<u64>,
}

/// How many extents there are.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Those that are not merely wanted.
    taken: usize,
    /// Those that layers own.
    owned: usize,
}

/// See the drawing above.
#[derive(Clone, Debug)]
pub struct HotExtents<P> {
    /// Of extents.
    grid: Grid,
    most: usize,
    slots: BTreeMap<u64, HotExtent>,
    /// Extents that operations above the layers hold.
    held: BTreeMap<u64, Held>,
    counts: Counts,
    wanted: Vec<u64>,
    removing: Vec<u64>,
    parked: VecDeque<Parked<P>>,
    flushes: Vec<Flushes>,
    tickets: u64,
    tick: u64,
    /// Marks were set beside what was entered at this tick: those of every extent are as young.
    floor: u64,
}

impl<P> HotExtents<P> {
    /// None is hot. `most`: how many may be.
    #[must_use]
    pub fn new(sizes: &[Bytes], most: usize) -> Self {
        Self {
            grid: Grid::new(sizes, EXTENT),
            most,
            slots: BTreeMap::new(),
            held: BTreeMap::new(),
            counts: Counts::default(),
            wanted: Vec::new(),
            removing: Vec::new(),
            parked: VecDeque::new(),
            flushes: vec![Flushes::default(); sizes.len()],
            tickets: 0,
            tick: 1,
            floor: 0,
        }
    }

    /// An extent that was hot when the process before ended. It stays hot until each of the layers `owners`, a bit for each,
    /// lets it cool.
    pub fn load(&mut self, number: u64, owners: u8) {
        let (stage, touched) = (Stage::Hot, Parts::ALL);
        let slot = HotExtent { stage, owners, touched, ..HotExtent::wanted(None, 0) };
        self.counts.owned += usize::from(owners != 0);
        match self.slots.insert(number, slot) {
            None => self.counts.taken += 1,
            Some(before) => self.counts.owned -= usize::from(before.owners != 0),
        }
    }

    /// A hot extent stays hot from now on, until the layer lets it cool: its members may differ there. One that is cold, or that
    /// turns cold, stays as it is: the host let the layer write there without a hot extent because the layer does everything on
    /// that volume again when a process begins.
    pub fn own(&mut self, volume: VolumeIndex, extent: Extent, layer: u8) {
        for number in self.grid.touched(volume, extent) {
            if let Some(slot) = self.slots.get_mut(&number)
                && (slot.busy > 0 || !matches!(slot.stage, Stage::Removing(_)))
            {
                self.counts.owned += usize::from(slot.owners == 0);
                slot.owners |= 1 << layer;
            }
        }
    }

    /// The layer has made its members equal in the extent; the extent may cool. A flush that begins from now on is to cover what it
    /// found equal there. The layer does not own an extent that was cold when it was to own it: one that is hot now cools behind
    /// such a flush, too.
    pub fn let_cool(&mut self, volume: VolumeIndex, extent: Extent, layer: u8) {
        let begun = self.flushes[usize::from(volume.0)].begun;
        for number in self.grid.touched(volume, extent) {
            if let Some(slot) = self.slots.get_mut(&number) {
                let before = slot.owners;
                slot.owners &= !(1 << layer);
                self.counts.owned -= usize::from(before != 0 && slot.owners == 0);
                slot.done_in = slot.done_in.max(begun);
            }
        }
    }

    /// The volumes, divided into extents.
    #[must_use]
    #[inline]
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Bits of the bitmap were set or cleared beside what was entered.
    #[inline]
    pub fn bitmap_changed(&mut self) {
        self.floor = self.next_tick();
    }

    /// The next tick: later than everything that was entered so far, and earlier than what comes.
    #[inline]
    pub fn next_tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// Somebody is about to change the extent. Returns whether it may be issued now; otherwise it is to be parked.
    #[inline]
    pub fn enter(&mut self, volume: VolumeIndex, extent: Extent, at: Option<Sequence>) -> bool {
        self.tick += 1;
        let mut covered = true;
        for number in self.grid.touched(volume, extent) {
            let base = self.grid.offset(volume, number);
            let tick = self.tick;
            let at = at.max(self.held.get(&number).and_then(|held| held.last));
            if let Some(slot) = self.slots.get_mut(&number) {
                slot.busy += 1;
                slot.touched.touch(base, extent);
                slot.used = tick;
                slot.last = slot.last.max(at);
                covered &= slot.stage == Stage::Hot;
            } else {
                let mut slot = HotExtent { busy: 1, ..HotExtent::wanted(at, tick) };
                slot.touched.touch(base, extent);
                self.slots.insert(number, slot);
                self.wanted.push(number);
                covered = false;
            }
        }
        covered
    }

    /// An operation above the layers holds the extent. The operations that the layers issue for it enter the extent for
    /// themselves, and whatever enters it before [`Self::release`] counts as the item `at`'s. A hold keeps no slot: what no
    /// operation has entered the store does not hold. While a quarter of the slots is free, as [`Self::evict`] leaves them, the
    /// extent turns hot ahead of that operation.
    pub fn hold(&mut self, volume: VolumeIndex, extent: Extent, at: Option<Sequence>) {
        self.tick += 1;
        for number in self.grid.touched(volume, extent) {
            let held = self.held.entry(number).or_default();
            held.operations += 1;
            held.last = held.last.max(at);
            if self.counts.taken + self.wanted.len() < self.goal()
                && !self.slots.contains_key(&number)
            {
                self.slots.insert(number, HotExtent::wanted(at, self.tick));
                self.wanted.push(number);
            }
        }
    }

    /// Whether an operation above the layers holds any of the extent.
    #[must_use]
    pub fn is_held(&self, volume: VolumeIndex, extent: Extent) -> bool {
        self.grid.touched(volume, extent).any(|number| self.held.contains_key(&number))
    }

    /// The end of what [`Self::hold`] began.
    ///
    /// # Panics
    /// Where nothing holds the extent.
    pub fn release(&mut self, volume: VolumeIndex, extent: Extent) {
        for number in self.grid.touched(volume, extent) {
            match self.held.get_mut(&number) {
                Some(held) if held.operations > 1 => held.operations -= 1,
                Some(_) => _ = self.held.remove(&number),
                None => panic!("no operation holds extent {number}"),
            }
        }
    }

    /// Puts an operation aside until its extents are kept.
    pub fn park(&mut self, io: IoId, volume: VolumeIndex, op: P, extent: Extent) {
        self.count_parked(volume, extent, 1);
        self.parked.push_back(Parked { io, volume, op, extent });
    }

    fn count_parked(&mut self, volume: VolumeIndex, extent: Extent, more: i32) {
        for number in self.grid.touched(volume, extent) {
            if let Some(slot) = self.slots.get_mut(&number) {
                slot.parked = slot.parked.wrapping_add_signed(more);
            }
        }
    }

    /// An operation that had entered has ended.
    #[inline]
    pub fn leave(&mut self, volume: VolumeIndex, extent: Extent) {
        let done_in = self.flushes[usize::from(volume.0)].begun;
        for number in self.grid.touched(volume, extent) {
            let Some(slot) = self.slots.get_mut(&number) else {
                panic!("extent {number} turned cold under an operation")
            };
            slot.busy -= 1;
            slot.done_in = slot.done_in.max(done_in);
        }
    }

    /// A flush of a volume begins; returns its number.
    #[inline]
    pub fn flush_begins(&mut self, volume: VolumeIndex) -> u64 {
        let flushes = &mut self.flushes[usize::from(volume.0)];
        flushes.begun += 1;
        flushes.running += 1;
        flushes.begun
    }

    /// That flush ended; what had ended before it began is durable here, if it went well.
    #[inline]
    pub fn flush_ended(&mut self, volume: VolumeIndex, number: u64, ok: bool) {
        let flushes = &mut self.flushes[usize::from(volume.0)];
        flushes.running -= 1;
        if ok {
            flushes.ended = flushes.ended.max(number);
        }
    }

    /// A flush, or an operation with FUA, failed, or an extent was let go without one: those begun so far prove nothing.
    pub fn distrust_flushes(&mut self, volume: VolumeIndex) {
        let flushes = &mut self.flushes[usize::from(volume.0)];
        flushes.unproven = flushes.begun;
    }

    /// Whether a flush of the volume went well since this process began, since the last one that did not, and since an
    /// extent was let go unflushed.
    #[inline]
    pub fn was_flushed(&self, volume: VolumeIndex) -> bool {
        let Flushes { ended, unproven, .. } = self.flushes[usize::from(volume.0)];
        ended > unproven
    }

    /// Whether a flush of the volume is under way.
    #[inline]
    pub fn is_flushing(&self, volume: VolumeIndex) -> bool {
        self.flushes[usize::from(volume.0)].running > 0
    }

    /// What the ledger should keep now, if anything: extents that are wanted, as far as there is room, and those
    /// that may turn cold.
    #[inline]
    pub fn change(&mut self) -> Option<Change> {
        let room = self.most.saturating_sub(self.counts.taken).min(self.wanted.len());
        if room < self.wanted.len()
            && let Some(first) = self.parked.front().map(|p| self.grid.touched(p.volume, p.extent))
        {
            self.wanted.sort_by_key(|number| !first.contains(number));
        }
        if room == 0 && self.removing.is_empty() {
            return None;
        }
        self.tickets += 1;
        let ticket = self.tickets;
        let add: Vec<u64> = self.wanted.drain(..room).collect();
        let remove = core::mem::take(&mut self.removing);
        self.counts.taken += add.len();
        for number in &add {
            self.stage(*number, Stage::Adding(ticket));
        }
        for number in &remove {
            self.stage(*number, Stage::Removing(ticket));
        }
        Some(Change { ticket, add, remove })
    }

    fn stage(&mut self, number: u64, stage: Stage) {
        if let Some(slot) = self.slots.get_mut(&number) {
            slot.stage = stage;
        }
    }

    /// A change is durable. Returns what may be issued now, in the order it was parked.
    ///
    /// # Panics
    /// Where an extent turned cold that a layer owns.
    pub fn kept(&mut self, Change { ticket, add, remove }: &Change) -> Vec<Parked<P>> {
        for number in add {
            debug_assert_eq!(self.slots.get(number).map(|s| s.stage), Some(Stage::Adding(*ticket)));
            self.stage(*number, Stage::Hot);
        }
        for number in remove {
            self.counts.taken -= 1;
            if self.slots.get(number).is_some_and(|slot| slot.busy > 0) {
                self.stage(*number, Stage::Wanted);
                self.wanted.push(*number);
            } else if let Some(slot) = self.slots.remove(number) {
                assert!(
                    slot.owners == 0,
                    "extent {number} turned cold, and layers own it: {slot:?}"
                );
            }
        }
        let mut ready = Vec::new();
        for parked in core::mem::take(&mut self.parked) {
            if self.is_hot(parked.volume, parked.extent) {
                self.count_parked(parked.volume, parked.extent, -1);
                ready.push(parked);
            } else {
                self.parked.push_back(parked);
            }
        }
        ready
    }

    /// Where parked operations are: the store does not hold them yet.
    pub fn parked_places(&self) -> Vec<(VolumeIndex, Extent)> {
        self.parked.iter().map(|parked| (parked.volume, parked.extent)).collect()
    }

    /// Everything parked, because nothing can be kept any more.
    pub fn give_up(&mut self) -> VecDeque<Parked<P>> {
        let parked = core::mem::take(&mut self.parked);
        for Parked { volume, extent, .. } in &parked {
            self.count_parked(*volume, *extent, -1);
        }
        parked
    }

    #[inline]
    fn is_hot(&self, volume: VolumeIndex, extent: Extent) -> bool {
        self.grid
            .touched(volume, extent)
            .all(|number| self.slots.get(&number).is_some_and(|slot| slot.stage == Stage::Hot))
    }

    /// Fewer than an eighth of the slots are free, or somebody waits for one.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.counts.taken * 8 > self.most * 7 || self.is_full()
    }

    /// Somebody waits for a slot, and none is free.
    #[inline]
    pub fn is_full(&self) -> bool {
        !self.wanted.is_empty() && self.counts.taken >= self.most
    }

    /// An operation waits for a slot, and no operation under way will free one. If layers own every hot extent, they free one later.
    #[inline]
    pub fn is_stuck(&self) -> bool {
        let moving = |slot: &HotExtent| matches!(slot.stage, Stage::Adding(_) | Stage::Removing(_));
        let owed = |slot: &HotExtent| slot.stage == Stage::Hot && slot.owners == 0;
        !self.wanted.is_empty()
            && self.counts.taken >= self.most
            && self.flushes.iter().all(|flushes| flushes.running == 0)
            && !self.slots.values().any(moving)
            && self.slots.values().any(owed)
    }

    /// Volumes on which a flush would free extents, and none runs.
    #[inline]
    pub fn wants_flush(&self, volume: VolumeIndex) -> bool {
        let flushes = self.flushes[usize::from(volume.0)];
        flushes.running == 0
            && self
                .slots
                .range(self.grid.volume(volume))
                .any(|(_, slot)| slot.may_cool() && slot.done_in >= flushes.ended)
    }

    /// Whether an extent is wanted, and layers let none of the others cool.
    #[inline]
    #[must_use]
    pub fn waits_for_layers(&self) -> bool {
        self.is_full() && self.counts.owned >= self.counts.taken
    }

    /// How many extents are left hot when others wait for slots.
    fn goal(&self) -> usize {
        self.most * 3 / 4
    }

    /// Removes the extents that were unused longest and for which `may` holds, until a quarter of the slots is free, or all
    /// of them. `ways` has one entry for each volume. `may` gets the tick since which the extent's bits must be durable.
    pub fn evict(
        &mut self,
        all: bool,
        ways: &[Cooling],
        mut may: impl FnMut(&HotExtent, u64, VolumeIndex, Extent) -> bool,
    ) {
        let goal = if all { 0 } else { self.goal() };
        let mut left = (self.counts.taken - self.removing.len()).saturating_sub(goal);
        let first =
            self.parked.front().map(|parked| self.grid.touched(parked.volume, parked.extent));
        let mut order: Vec<(u64, u64)> =
            self.slots.iter().map(|(number, slot)| (slot.used, *number)).collect();
        order.sort_unstable();
        for (_, number) in order {
            if left == 0 {
                return;
            }
            let (volume, extent) = self.grid.place(number);
            let (at, slot) = (usize::from(volume.0), self.slots[&number]);
            let durable = match ways[at] {
                Cooling::Flushed => slot.done_in < self.flushes[at].ended,
                Cooling::Unflushed => true,
                Cooling::Never => false,
            };
            // What only waits for other extents may give its own up, but for the first in the queue: it gets all of its
            // extents, so somebody always does.
            let idle = slot.may_cool()
                && durable
                && !first.as_ref().is_some_and(|first| first.contains(&number));
            if idle && may(&slot, slot.used.max(self.floor), volume, extent) {
                // From here on nobody may be let in on the strength of the old record.
                self.stage(number, Stage::Removing(0));
                self.removing.push(number);
                if ways[at] == Cooling::Unflushed {
                    self.distrust_flushes(volume);
                }
                left -= 1;
            }
        }
    }

    /// What was touched in extents for which `which` holds, as runs.
    pub fn touched(&self, which: impl Fn(&HotExtent) -> bool) -> Vec<(VolumeIndex, Extent)> {
        let mut runs: Vec<(VolumeIndex, Extent)> = Vec::new();
        for (number, slot) in self.slots.iter().filter(|(_, slot)| which(slot)) {
            let (volume, extent) = self.grid.place(*number);
            for run in slot.runs(extent) {
                add_run(&mut runs, volume, run);
            }
        }
        runs
    }

    /// Nobody remembers which items touched what: another line begins.
    pub fn forget_items(&mut self) {
        self.slots.values_mut().for_each(|slot| slot.last = None);
        self.held.values_mut().for_each(|held| held.last = None);
    }

    /// What nobody remembers was touched at `at` at the latest.
    pub fn remember_items(&mut self, at: Sequence) {
        self.slots.values_mut().filter(|slot| slot.last.is_none()).for_each(|slot| {
            slot.last = Some(at);
        });
        self.held.values_mut().for_each(|held| held.last = held.last.or(Some(at)));
    }

    /// Marks of every extent must be as young as this.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// How many extents are hot.
    #[must_use]
    pub fn hot(&self) -> usize {
        self.counts.taken
    }

    /// Whether nothing is hot, wanted, held or being changed, but for what layers do not let cool.
    #[inline]
    pub fn is_cold(&self) -> bool {
        let rests =
            |slot: &HotExtent| slot.owners != 0 && slot.stage == Stage::Hot && slot.busy == 0;
        self.held.is_empty() && self.slots.values().all(rests)
    }
}

#[cfg(test)]
#[path = "hot_tests.rs"]
mod tests;
