// SPDX-License-Identifier: Apache-2.0
//! The copier: brings marked regions to the peer, as items on the line like any other.
//!
//! For each marked region it reserves queue room, asks the gate in turn (earlier writes finish, later ones wait),
//! reads at most one region from the local store, takes a position, and gives the gate back: never across a round
//! trip (rule 6). A region of zeros travels as a zero item. When no mark is left and nothing is in flight, a
//! Consistent marker follows: once the peer completed it, its image is in order again.
//!
//! Digests, before-images, pacing and resuming across restarts come with the durable marks.

use crate::effect::StoreOp;
use crate::event::StoreOutcome;
use crate::marks::Region;
use crate::primary::Primary;
use crate::shared::{Purpose, Shared};
use crate::stream::{Cursors, Flow};
use crate::write::Ticket;
use alloc::format;
use helio_format::lineage::Lineage;
use helio_format::message::{Item, ItemKind, Message, Start};
use helio_units::{Bytes, Extent, VolumeIndex};

/// Most the copier has between read and durable at once. Above the product of a long fast link (1 Gbit/s and
/// 100 ms hold 12.5 MB), below what would crowd out the application, which half of the queue belongs to anyway.
const IN_FLIGHT_MAX: Bytes = Bytes::mib(16);
/// What a region of zeros costs the queue.
const ZERO_COST: Bytes = Bytes(4096);

impl Primary {
    /// Begins an update: from here on items are queued in order, while marked regions are copied among them.
    /// Where nothing is marked and the peer's image is consistent, it stays so and there is nothing to copy.
    pub(crate) fn begin_sync(&mut self, lineage: Lineage, peer_consistent: bool, s: &mut Shared) {
        let head = self.line.head;
        let nothing_to_do = self.marks.none_stale() && peer_consistent;
        self.marks.abandon_copies();
        self.retaining = true;
        self.order_lost = !nothing_to_do;
        self.consistent_at = None;
        self.told_to_log = false;
        self.cursors = Cursors::all_at(head);
        self.flow = Some(Flow::behind(head));
        s.verify.rewind();
        // What the local store is still busy with reaches the peer by its marks: the peer owes no word about it.
        self.line.iter_mut().for_each(|entry| entry.peer_completed = true);
        self.copier.running = !nothing_to_do;
        self.copier.copied = Bytes::ZERO;
        self.copier.to_copy = self.marks.stale_bytes();
        self.copier.since = s.now;
        s.info(format!("update begins: {} in marked regions", self.copier.to_copy));
        s.send(Message::Start(Start {
            lineage,
            from: head.next(),
            consistent: nothing_to_do,
            keep: false,
            whole: self.whole,
            to_copy: self.copier.to_copy.0,
        }));
    }

    /// Lets the copier run where order is kept and yet something is marked (a local write failed).
    pub(crate) fn mend(&mut self, s: &Shared) {
        if self.flow.is_some()
            && !self.order_lost
            && !self.marks.none_stale()
            && self.faulted.is_none()
        {
            self.copier.running = true;
            self.copier.to_copy = self.marks.stale_bytes();
            self.copier.since = s.now;
        }
    }

    /// Starts as many copies as the bounds allow, and ends the update when nothing is left.
    pub(crate) fn copy_step(&mut self, s: &mut Shared) {
        if !self.copier.running || self.flow.is_none() {
            return;
        }
        while self.copier.in_flight < IN_FLIGHT_MAX {
            let most = self.marks.grain();
            if !self.queue.admits_copy(most, self.copier.in_flight) {
                return;
            }
            let Some(region) = self.marks.begin_copy(self.copier.next) else { break };
            self.copier.next = Region(region.0 + 1);
            let (volume, extent) = self.marks.place(region);
            self.queue.enter(Bytes(extent.length), s.now);
            self.copier.in_flight += Bytes(extent.length);
            if self.gate.enter(Ticket::Copy(region), volume, extent) {
                self.copy_read(region, s);
            }
        }
        let done = self.marks.none_stale() && self.copier.in_flight == Bytes::ZERO;
        if done && self.order_lost && self.consistent_at.is_none() {
            self.push_consistent_marker(s);
        } else if done && !self.order_lost {
            self.copier.running = false;
        }
    }

    /// The gate is ours: read the region.
    pub(crate) fn copy_read(&mut self, region: Region, s: &mut Shared) {
        let (volume, extent) = self.marks.place(region);
        let op = StoreOp::Read { extent, look_for_zeros: true };
        s.store(volume, op, Purpose::Copy(region));
    }

    /// The region was read: onto the line with it, and the gate back.
    pub(crate) fn copy_done(&mut self, region: Region, outcome: StoreOutcome, s: &mut Shared) {
        let (volume, extent) = self.marks.place(region);
        let whole = Bytes(extent.length);
        let current = self.copier.running && self.flow.is_some();
        match outcome {
            StoreOutcome::Read { payload, zero } if current => {
                let (kind, kept) =
                    if zero { (ItemKind::Zero, None) } else { (ItemKind::Write, Some(payload)) };
                let cost = if zero { ZERO_COST } else { whole };
                if zero {
                    s.release(payload.id);
                    self.queue.shrink(whole, cost);
                }
                let item = self.copier_item(kind, volume, extent);
                self.push(Item { payload: kept, punch: zero, ..item }, None, cost, s);
            }
            StoreOutcome::Read { payload, .. } => {
                s.release(payload.id);
                self.give_up_copy(region, whole);
            }
            StoreOutcome::Failed(fault) => {
                self.give_up_copy(region, whole);
                self.copier.running = false;
                self.fault(volume, fault, s);
                s.warn(format!("the update stopped at {extent}: {fault}; mend the store, then run `helio update`"));
            }
            other => panic!("a copier's read ended as {other:?}"),
        }
        self.leave_gate(volume, extent, s);
    }

    /// A region that was begun does not get onto the line; its mark stays.
    fn give_up_copy(&mut self, region: Region, whole: Bytes) {
        self.queue.leave(whole);
        self.marks.abandon_copy(region);
        self.copier.in_flight -= whole;
    }

    fn copier_item(&self, kind: ItemKind, volume: VolumeIndex, extent: Extent) -> Item {
        Item {
            sequence: self.line.head.next(),
            after: self.answered,
            kind,
            fua: false,
            punch: false,
            resync: true,
            volume,
            extent,
            payload: None,
        }
    }

    /// The peer has a copied region durable.
    pub(crate) fn copy_durable(&mut self, item: &Item) {
        self.marks.end_copy(self.marks.region_of(item.volume, item.extent));
        let bytes = Bytes(item.extent.length);
        self.copier.in_flight -= bytes;
        self.copier.copied += bytes;
    }

    /// Behind this marker the peer's image is in order again.
    pub(crate) fn push_consistent_marker(&mut self, s: &Shared) {
        let sequence = self.line.head.next();
        let after = self.line.head;
        let extent = Extent::default();
        let item = self.copier_item(ItemKind::Consistent, VolumeIndex(0), extent);
        self.queue.enter(Bytes(512), s.now);
        self.push(Item { after, ..item }, None, Bytes(512), s);
        self.consistent_at = Some(sequence);
    }
}
