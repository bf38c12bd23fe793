// SPDX-License-Identifier: Apache-2.0
//! Requests under way, the parts they are cut into, and what a part costs the queue.

use crate::config::ITEM_BYTES_MAX;
use crate::refusal::Denial;
use alloc::vec::Vec;
use helio_format::message::ItemKind;
use helio_stack::StoreOp;
use helio_units::{Bytes, Extent, Moment, Payload, RequestId, Sequence, VolumeIndex};

/// The least an item costs the queue, whatever it carries: its entry is memory too.
pub(crate) const ITEM_COST: Bytes = Bytes(512);
/// What a zero or discard costs, work at the peer though no payload; and the least a write costs, since its payload
/// takes a page however short it is.
pub(crate) const WORK_COST: Bytes = Bytes(4096);

/// A request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotId(u32);

/// A request is answered once all its parts are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) request: RequestId,
    pub(crate) kind: ItemKind,
    parts: u32,
    pub(crate) last: Sequence,
    pub(crate) denied: Option<Denial>,
    pub(crate) since: Moment,
}

/// Requests under way, in slots that are used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    pub(crate) fn open(
        &mut self,
        request: RequestId,
        kind: ItemKind,
        parts: u32,
        since: Moment,
    ) -> SlotId {
        let slot = Slot { request, kind, parts, last: Sequence::ZERO, denied: None, since };
        if let Some(at) = self.free.pop() {
            self.slots[at as usize] = slot;
            return SlotId(at);
        }
        self.slots.push(slot);
        SlotId((self.slots.len() - 1) as u32)
    }

    /// A part of a request ended there, denied where `denied` says so. Returns the request once that was its last part.
    #[inline]
    pub(crate) fn part_ended(
        &mut self,
        SlotId(at): SlotId,
        sequence: Sequence,
        denied: Option<Denial>,
    ) -> Option<Slot> {
        let slot = &mut self.slots[at as usize];
        slot.parts -= 1;
        slot.last = slot.last.max(sequence);
        slot.denied = denied.or(slot.denied);
        if slot.parts > 0 {
            return None;
        }
        self.free.push(at);
        Some(*slot)
    }

    /// Whatever its parts come to, the request is denied.
    pub(crate) fn deny(&mut self, SlotId(at): SlotId, denial: Denial) {
        self.slots[at as usize].denied = Some(denial);
    }

    /// How many requests are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// A piece of a request that becomes one item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) slot: SlotId,
    pub(crate) kind: ItemKind,
    pub(crate) volume: VolumeIndex,
    pub(crate) extent: Extent,
    pub(crate) payload: Option<Payload>,
    pub(crate) fua: bool,
    pub(crate) punch: bool,
}

impl Part {
    /// What it costs the queue.
    pub(crate) fn cost(&self) -> Bytes {
        match self.kind {
            ItemKind::Write => Bytes(self.extent.length).max(WORK_COST),
            ItemKind::Zero | ItemKind::Discard => WORK_COST,
            ItemKind::Flush
            | ItemKind::Consistent
            | ItemKind::Same
            | ItemKind::Verify
            | ItemKind::Snapshot => ITEM_COST,
        }
    }

    /// A part for stories of what parts wait in.
    #[cfg(test)]
    pub(crate) fn of_a_write(length: Bytes) -> Self {
        let extent = Extent::new(0, length.0);
        let (kind, volume, payload) = (ItemKind::Write, VolumeIndex(0), None);
        Self { slot: SlotId(0), kind, volume, extent, payload, fua: false, punch: false }
    }

    pub(crate) fn store_op(&self) -> StoreOp {
        let Self { extent, fua, punch, .. } = *self;
        match (self.kind, self.payload) {
            (ItemKind::Write, Some(payload)) => StoreOp::Write { extent, payload, fua },
            (ItemKind::Zero, _) => StoreOp::Zero { extent, punch, fua },
            (ItemKind::Discard, _) => StoreOp::Discard { extent, fua },
            (ItemKind::Flush, _) => StoreOp::Flush,
            (
                ItemKind::Write
                | ItemKind::Consistent
                | ItemKind::Same
                | ItemKind::Verify
                | ItemKind::Snapshot,
                _,
            ) => {
                panic!("a client's {:?} without bytes", self.kind)
            }
        }
    }
}

/// The pieces of a long extent: cut where [`ITEM_BYTES_MAX`] divides the volume.
pub(crate) fn pieces(extent: Extent) -> impl Iterator<Item = Extent> {
    let mut at = extent.offset;
    core::iter::from_fn(move || {
        if at >= extent.end() {
            return None;
        }
        let end = ((at / ITEM_BYTES_MAX + 1) * ITEM_BYTES_MAX).min(extent.end());
        let piece = Extent::new(at, end - at);
        at = end;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_discard_is_cut_at_the_boundaries() {
        let mib = 1 << 20;
        let cut: Vec<_> = pieces(Extent::new(31 * mib, 40 * mib))
            .map(|e| (e.offset / mib, e.length / mib))
            .collect();
        assert_eq!(cut, [(31, 1), (32, 32), (64, 7)]);
        assert_eq!(pieces(Extent::new(0, 512)).count(), 1);
    }
}
