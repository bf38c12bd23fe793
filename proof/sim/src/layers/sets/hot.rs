// SPDX-License-Identifier: Apache-2.0
//! Hot extents of a desk: an extent turns hot before an operation enters it, and cools at any time behind a flush that covers
//! it, unless a layer owns it.

use helio_bitmap::EXTENT;
use helio_netmodel::Dice;
use helio_units::{Bytes, Extent, VolumeIndex};
use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    busy: u32,
    owned: bool,
    /// Flushes begun when its last change ended.
    done_in: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flushes {
    begun: u64,
    ended: u64,
    /// A flush failed on all members: no later one counts.
    failed: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Hot {
    sizes: Vec<Bytes>,
    slots: BTreeMap<(u16, u64), Slot>,
    flushes: Vec<Flushes>,
}

const fn numbers(extent: Extent) -> Range<u64> {
    extent.offset / EXTENT.0..extent.end().div_ceil(EXTENT.0)
}

impl Hot {
    pub(super) fn new(sizes: &[Bytes]) -> Self {
        let flushes = vec![Flushes::default(); sizes.len()];
        Self { sizes: sizes.to_vec(), slots: BTreeMap::new(), flushes }
    }

    /// An operation is issued there.
    pub(super) fn enter(&mut self, volume: VolumeIndex, extent: Extent) {
        for number in numbers(extent) {
            self.slots.entry((volume.0, number)).or_default().busy += 1;
        }
    }

    /// It ended.
    pub(super) fn leave(&mut self, volume: VolumeIndex, extent: Extent) {
        let begun = self.flushes[usize::from(volume.0)].begun;
        for number in numbers(extent) {
            let slot = self.slots.entry((volume.0, number)).or_default();
            slot.busy -= 1;
            slot.done_in = slot.done_in.max(begun);
        }
    }

    pub(super) fn own(&mut self, volume: VolumeIndex, extent: Extent) -> Result<(), String> {
        for number in numbers(extent) {
            match self.slots.get_mut(&(volume.0, number)) {
                Some(slot) => slot.owned = true,
                None => return Err(format!("extent {number} of volume {volume:?} is owned cold")),
            }
        }
        Ok(())
    }

    pub(super) fn let_cool(&mut self, volume: VolumeIndex, extent: Extent) -> Result<(), String> {
        let begun = self.flushes[usize::from(volume.0)].begun;
        for number in numbers(extent) {
            match self.slots.get_mut(&(volume.0, number)) {
                Some(slot) if slot.owned => {
                    (slot.owned, slot.done_in) = (false, slot.done_in.max(begun));
                }
                _ => return Err(format!("extent {number} of volume {volume:?} is not owned")),
            }
        }
        Ok(())
    }

    /// A client's flush begins; returns its number.
    pub(super) fn flush_begins(&mut self, volume: usize) -> u64 {
        self.flushes[volume].begun += 1;
        self.flushes[volume].begun
    }

    pub(super) fn flush_ended(&mut self, volume: usize, number: u64) {
        let flushes = &mut self.flushes[volume];
        flushes.ended = flushes.ended.max(number);
    }

    /// A flush failed: the engine trusts no later one of the volume.
    pub(super) fn flush_failed(&mut self, volume: usize) {
        self.flushes[volume].failed = true;
    }

    pub(super) fn has_failed(&self, volume: usize) -> bool {
        self.flushes[volume].failed
    }

    /// Some of those that may cool do.
    pub(super) fn cool(&mut self, dice: &mut Dice) {
        let flushes = &self.flushes;
        self.slots.retain(|(volume, _), slot| {
            let Flushes { ended, failed, .. } = flushes[usize::from(*volume)];
            let may = slot.busy == 0 && !slot.owned && !failed && slot.done_in < ended;
            !may || dice.chance(1, 2)
        });
    }

    pub(super) fn is_hot(&self, volume: usize, offset: u64) -> bool {
        self.slots.contains_key(&(volume as u16, offset / EXTENT.0))
    }

    /// The ledger is an old one: it does not tell what was hot.
    pub(super) fn forget(&mut self) {
        self.slots.clear();
    }

    /// The process starts. Takes out what is hot; [`Self::load`] puts each extent back.
    pub(super) fn restart(&mut self) -> Vec<(VolumeIndex, Extent)> {
        let counts = |flushes: &mut Flushes| (flushes.begun, flushes.ended) = (0, 0);
        self.flushes.iter_mut().for_each(counts);
        let place = |(volume, number): &(u16, u64)| {
            let offset = number * EXTENT.0;
            let length = EXTENT.0.min(self.sizes[usize::from(*volume)].0 - offset);
            (VolumeIndex(*volume), Extent::new(offset, length))
        };
        std::mem::take(&mut self.slots).keys().map(place).collect()
    }

    /// That hot extent was hot when the process before ended.
    pub(super) fn load(&mut self, volume: VolumeIndex, extent: Extent, owned: bool) {
        self.slots.insert((volume.0, extent.offset / EXTENT.0), Slot { owned, ..Slot::default() });
    }
}
