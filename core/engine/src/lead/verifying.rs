// SPDX-License-Identifier: Apache-2.0
//! Verify: compares the two copies, region by region, while they are written.
//!
//! ```text
//!  region ─queue room─> gate ─read, digests─> position ─> line ─> peer compares behind its gate ─> Differs*, ack
//! ```
//! A comparison is an item on the line, so both sides look at the same moment of it: here the gate is held from the
//! read until the position is taken, there the item passes the gate like a write. So a difference is a difference,
//! whatever load there is.
//!
//! A comparison counts once its item is acknowledged on the stream it was asked on; what differs is told before. When
//! a stream begins anew, everything that did not count is asked again, and what lies on the line for a peer that lost
//! its memory compares no more: that peer's image may hold later items already.
//!
//! The place outlives the primary that runs it, and the daemon carries it over a restart.

use crate::effect::ReadAs;
use crate::event::StoreOutcome;
use crate::lead::Primary;
use crate::lead::ticket::Ticket;
use crate::local::Local;
use crate::peer::permit::Permit;
use crate::purpose::Check;
use crate::purpose::PrimaryIo;
use crate::resync::verify::Verify;
use crate::stream::line::Entry;
use crate::turn::Turn;
use alloc::format;
use helio_format::message::{Item, ItemKind};
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, Moment, Sequence, VolumeIndex};

/// Most comparisons asked and not counted: 8 MiB, which keeps a disk busy over a long link.
const IN_FLIGHT_MAX: usize = 128;
/// What one costs the queue.
const COST: Bytes = Bytes(1024);

impl Primary {
    /// What a verify waits for, if it cannot go on.
    pub(crate) fn verify_waits(&self, local: &Local) -> Option<&'static str> {
        match () {
            // It may lack acknowledged writes that the peer has.
            () if local.suspect().any() => {
                Some("the copy of this node is suspect since a failed flush")
            }
            () if self.period_runs() => Some("the mode is periodic"),
            () if !self.target.streams() => Some("items are not sent to the peer"),
            () if self.own.fault().is_some() => Some("the local disk failed"),
            () if !self.target.owed().stays_consistent() => Some("a resync is running"),
            () if !self.marks.none_dirty() => Some("dirty regions are being copied"),
            () => None,
        }
    }

    /// Counts what was compared, and asks for as much more as the bounds allow.
    pub(crate) fn verify_step(&mut self, verify: &mut Verify, local: &mut Local, turn: &mut Turn) {
        // What is lacking here would be found different, and is known.
        if !verify.is_under_way() || self.lack.is_some() {
            return;
        }
        verify.wake(&turn.config().volumes, turn.now());
        self.count_comparisons(verify, turn);
        if self.verify_waits(local).is_some() {
            return;
        }
        while verify.in_flight() < IN_FLIGHT_MAX && turn.now() >= verify.not_before() {
            let in_flight = verify.in_flight();
            let room = self.queue.held().1.0 < turn.config().queue.items.0 / 2;
            let admitted = self.queue.admits_copy(COST, COST * in_flight as u64);
            if !(room || in_flight == 0) || !admitted {
                return;
            }
            let Some(check) = verify.ask(&turn.config().volumes, turn.now()) else { return };
            self.queue.enter(COST, turn.now());
            let (volume, extent) = check.place();
            if self.gate.enter(Ticket::Verify(check), volume, extent) {
                Self::verify_read(check, local, turn);
            }
        }
    }

    /// The gate is ours: read the region.
    pub(crate) fn verify_read(check: Check, local: &mut Local, turn: &mut Turn) {
        local.read(check.place(), ReadAs::DigestPayload, PrimaryIo::Verify(check), turn);
    }

    /// The region was read: onto the line with its digests, and the gate back.
    pub(crate) fn verify_done(
        &mut self,
        check: Check,
        outcome: StoreOutcome,
        verify: &mut Verify,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        let (volume, extent) = check.place();
        match outcome {
            StoreOutcome::Read { payload, .. }
                if self.verify_waits(local).is_none()
                    && verify.take_place(check, self.line.head().next()) =>
            {
                let item = Item {
                    sequence: self.line.head().next(),
                    after: self.requests.answered(),
                    kind: ItemKind::Verify,
                    fua: false,
                    punch: false,
                    resync: false,
                    volume,
                    extent,
                    payload: Some(payload),
                };
                self.push(item, None, COST, turn);
            }
            StoreOutcome::Read { payload, .. } => {
                turn.release(payload.id);
                self.queue.leave(COST);
                verify.abandon(check);
            }
            StoreOutcome::Failed(fault) => {
                self.queue.leave(COST);
                let volume = turn.config().name_of(volume);
                let why = format!("this node cannot read {extent} of volume {volume}: {fault}");
                if verify.fail(check, why) {
                    turn.warn(format!("verify stopped: {fault} at {extent} of volume {volume}"));
                }
            }
            other => panic!("a read for a verify ended as {other:?}"),
        }
        self.leave_gate(volume, extent, local, permit, turn);
    }

    fn count_comparisons(&mut self, verify: &mut Verify, turn: &mut Turn) {
        while let Some((volume, at)) = verify.oldest() {
            let here = self.line.get(at).is_some_and(Entry::has_peer_completed);
            if !here && at > self.target.cursors().completed() {
                return;
            }
            let size = turn.config().volumes[usize::from(volume.0)];
            if let Some(pass) = verify.count_oldest(size, turn.now()) {
                turn.info(format!(
                    "volume {} is compared completely: {} differed",
                    turn.config().name_of(volume),
                    pass.differed
                ));
            }
        }
    }

    /// Differences that were only listed become marks, for the copier.
    pub(crate) fn mark_differing(&mut self, verify: &mut Verify, local: &mut Local) {
        for (volume, extent) in verify.take_listed() {
            self.marks.set(volume, extent);
            local.hot_mut().bitmap_changed();
        }
    }

    /// A peer that lost its memory may hold items from behind `durable` already: comparisons there mean nothing.
    pub(crate) fn forget_comparisons(&mut self, durable: Sequence, turn: &mut Turn) {
        if planted(Plant::CompareAgain) {
            return;
        }
        let compares = |item: &Item| item.kind == ItemKind::Verify && item.sequence > durable;
        for entry in self.line.iter_mut().filter(|entry| compares(entry.item())) {
            entry.compare_nothing().into_iter().for_each(|payload| turn.release(payload.id));
        }
    }

    /// The peer found a difference.
    pub(crate) fn peer_differs(
        &mut self,
        volume: VolumeIndex,
        extent: Extent,
        at: Sequence,
        verify: &mut Verify,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let compares = |item: &Item| item.kind == ItemKind::Verify && item.volume == volume;
        if !self.target.streams()
            || self.target.owed().is_image_out_of_order()
            || !self.line.get(at).is_some_and(|entry| compares(entry.item()))
        {
            return;
        }
        if verify.is_worth_a_warning(volume) {
            let (volume, peer) = (turn.config().name_of(volume), &turn.config().peer);
            turn.warn(format!("verify: {extent} of volume {volume} differs on {peer}"));
        }
        if verify.found(volume, extent, at) {
            self.marks.set(volume, extent);
            local.hot_mut().bitmap_changed();
        }
    }

    /// When a verify may go on that only its rate holds back.
    pub(crate) fn verify_deadline(&self, verify: &Verify, local: &Local, turn: &Turn) -> Moment {
        let may = verify.is_under_way() && verify.in_flight() < IN_FLIGHT_MAX;
        let limited = verify.not_before() > turn.now();
        if may && limited && self.verify_waits(local).is_none() {
            verify.not_before()
        } else {
            Moment::NEVER
        }
    }
}
