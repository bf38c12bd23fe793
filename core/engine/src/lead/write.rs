// SPDX-License-Identifier: Apache-2.0
//! One write's life on a primary.
//!
//! ```text
//!  request ─split─> parts ─queue bound─> overlap gate ─position, cover─> line ─┬─> local store ─┐
//!                     └──full: block, log or fail──┘                           └─> peer ────────┴─ack.rs─> answer
//! ```
//! A part reserves its room in the queue before it asks for the gate, and gets its position only behind it; so
//! items that overlap have positions in the order their bytes reach the store. The gate is given back when the
//! local store is done. Everything that moves a write stands in this file, but for the peer's leg (`lead/outgoing.rs`).

use crate::config::WhenFull;
use crate::effect::Answer;
use crate::event::{Operation, Request, StoreOutcome};
use crate::lead::Primary;
use crate::lead::ticket::Ticket;
use crate::local::Local;
use crate::local::failure::Failed;
use crate::peer::permit::Permit;
use crate::purpose::PrimaryIo;
use crate::refusal::Denial;
use crate::resync::copier::Copier;
use crate::stream::ack::{self, Decision, Facts, Leg, Remote};
use crate::stream::line::Entry;
use crate::stream::queue::Queue;
use crate::stream::slots::ITEM_COST;
use crate::stream::slots::Part;
use crate::stream::slots::SlotId;
use crate::stream::slots::pieces;
use crate::turn::Turn;
use helio_format::message::{Item, ItemKind};
use helio_plant::{Plant, planted};
use helio_stack::StoreFault;
use helio_units::{Bytes, Extent, Sequence, VolumeIndex};

impl Primary {
    /// A client asks. Bounds were checked at the front end; here they are checked again, since this is the last
    /// place that can.
    pub(crate) fn request(
        &mut self,
        request: Request,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        let Request { id, volume, operation } = request;
        let size = turn.config().volumes.get(usize::from(volume.0)).map_or(0, |b| b.0);
        let (extent, payload) = match operation {
            Operation::Write { extent, payload, .. } => (extent, Some(payload)),
            Operation::Read(extent)
            | Operation::Zero { extent, .. }
            | Operation::Discard { extent, .. } => (extent, None),
            Operation::Flush => (Extent::new(0, size), None),
        };
        let denial = if extent.end() > size || extent.length == 0 {
            Some(Denial::OutOfBounds)
        } else if operation != Operation::Flush && !local.blocks().keeps_to(volume, extent) {
            Some(Denial::Unaligned)
        } else {
            None
        };
        if let Some(denial) = denial {
            payload.into_iter().for_each(|p| turn.release(p.id));
            return turn.reply(id, Answer::Denied(denial));
        }
        turn.count(operation);
        let (kind, extent, fua, punch) = match operation {
            Operation::Read(extent) => return self.read(id, volume, extent, local, turn),
            Operation::Write { fua, .. } => (ItemKind::Write, extent, fua, false),
            Operation::Flush => (ItemKind::Flush, Extent::default(), false, false),
            Operation::Zero { punch, fua, .. } => (ItemKind::Zero, extent, fua, punch),
            Operation::Discard { fua, .. } => (ItemKind::Discard, extent, fua, true),
        };
        let part = |slot, extent| Part { slot, kind, volume, extent, payload, fua, punch };
        if matches!(kind, ItemKind::Write | ItemKind::Flush) {
            let slot = self.requests.open(id, kind, 1, turn);
            return self.arrive(part(slot, extent), local, permit, turn);
        }
        let slot = self.requests.open(id, kind, pieces(extent).count() as u32, turn);
        for piece in pieces(extent) {
            self.arrive(part(slot, piece), local, permit, turn);
        }
    }

    /// A part meets the queue's bound.
    fn arrive(&mut self, part: Part, local: &mut Local, permit: &Permit, turn: &mut Turn) {
        if self.queue.waiters() == 0 && self.queue.admits(part.cost()) {
            self.admit(part, local, permit, turn);
            return;
        }
        self.shed_completed(turn);
        if self.queue.waiters() == 0 && self.queue.admits(part.cost()) {
            self.admit(part, local, permit, turn);
            return;
        }
        match self.when_full(turn) {
            WhenFull::Block => self.queue.wait(part, turn.now()),
            WhenFull::Fail => {
                self.queue.count_refused();
                self.deny(part, Denial::QueueFull, turn);
            }
            WhenFull::Log => {
                self.queue.count_dropped();
                self.drop_queue("the queue was full", local, permit, turn);
                self.queue.wait(part, turn.now());
            }
        }
    }

    /// The policy in force. In logging nothing is queued but what the local store is busy with, so only waiting
    /// makes sense.
    fn when_full(&self, turn: &Turn) -> WhenFull {
        // What is lacking here has no other record than the queue's bytes.
        if !self.target.owed().queues_in_order() || self.lack.is_some() {
            WhenFull::Block
        } else if self.target.streams() {
            turn.config().queue.connected
        } else {
            turn.config().queue.disconnected
        }
    }

    /// Lets in what waits in front of the queue, as far as it fits now; applies a policy that changed meanwhile.
    pub(crate) fn readmit(&mut self, local: &mut Local, permit: &Permit, turn: &mut Turn) {
        while let Some(cost) = self.queue.first_waiting() {
            if !self.queue.admits(cost) {
                self.shed_completed(turn);
            }
            let fits = self.queue.admits(cost);
            match self.when_full(turn) {
                WhenFull::Block if !fits => return,
                WhenFull::Log if !fits => {
                    self.queue.count_dropped();
                    self.drop_queue("the queue was full", local, permit, turn);
                    if !self.queue.admits(cost) {
                        return;
                    }
                }
                _ => {}
            }
            let Some(part) = self.queue.take_waiting(turn.now()) else { return };
            if self.queue.admits(cost) {
                self.admit(part, local, permit, turn)
            } else {
                self.deny(part, Denial::QueueFull, turn)
            }
        }
    }

    /// At the bound, the payload of items the peer has completed may go, before they are durable there (rule 3):
    /// should the peer restart, marks take their place.
    fn shed_completed(&mut self, turn: &mut Turn) {
        if !self.target.streams() || self.lack.is_some() {
            return;
        }
        for entry in self.line.iter_mut() {
            if entry.item().sequence > self.target.cursors().completed() {
                break;
            }
            if entry.has_ended_here() && entry.has_peer_completed() {
                shed(entry, &mut self.queue, &mut self.copier, turn);
            }
        }
    }

    fn admit(&mut self, part: Part, local: &mut Local, permit: &Permit, turn: &mut Turn) {
        if !local.blocks().keeps_to(part.volume, part.extent) {
            return self.deny(part, Denial::Unaligned, turn);
        }
        self.queue.enter(part.cost(), turn.now());
        if part.kind == ItemKind::Flush
            || self.gate.enter(Ticket::Part(part), part.volume, part.extent)
        {
            self.issue(part, local, permit, turn);
        }
    }

    /// Behind the gate: position, cover, line, local store. The peer's leg is pumped when the batch settles.
    fn issue(&mut self, part: Part, local: &mut Local, permit: &Permit, turn: &mut Turn) {
        if !local.blocks().keeps_to(part.volume, part.extent) {
            // Its client left while it waited, and the volume's blocks are larger now.
            self.queue.leave(part.cost());
            self.gate.leave(part.volume, part.extent);
            return self.deny(part, Denial::Unaligned, turn);
        }
        let item = Item {
            sequence: self.line.head().next(),
            after: if planted(Plant::DropAfter) {
                Sequence::ZERO
            } else {
                self.requests.answered()
            },
            kind: part.kind,
            fua: part.fua,
            punch: part.punch,
            resync: false,
            volume: part.volume,
            extent: part.extent,
            payload: part.payload,
        };
        self.push(item, Some(part.slot), part.cost(), turn);
        if self.is_lost(part.volume) {
            // Only the peer's copy gets this item. Until the mark of its region is saved, no record here shows that.
            self.own.item_missing(item.sequence);
            self.local_done(item.sequence, StoreOutcome::Done, local, permit, turn);
        } else {
            local.store(part.volume, part.store_op(), PrimaryIo::Local(item.sequence), turn);
        }
    }

    /// Puts an item on the line, its regions marked first.
    pub(crate) fn push(&mut self, item: Item, slot: Option<SlotId>, cost: Bytes, turn: &Turn) {
        let pended = item.kind.changes_data() && self.target.owed().queues_in_order();
        if item.kind.changes_data() {
            self.touch(item.volume, item.extent);
        }
        if pended {
            self.marks.pend(item.volume, item.extent);
        } else if item.kind.changes_data() && !item.resync {
            self.marks.set(item.volume, item.extent);
        }
        self.line.push(Entry::new(item, slot, pended, turn.now(), cost));
        self.own.advance(&self.line);
    }

    /// The local leg of an item ended.
    pub(crate) fn local_done(
        &mut self,
        at: Sequence,
        outcome: StoreOutcome,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        let Some(entry) = self.line.get_mut(at) else {
            panic!("item {at} left the line unfinished")
        };
        entry.end_here(Leg::Done);
        let (item, slot) = (*entry.item(), entry.slot());
        if let StoreOutcome::Failed(fault) = outcome {
            entry.end_here(Leg::Failed);
            self.local_failed(item, slot, fault, local, turn);
        } else if self.proves_nothing(&item, local) {
            self.flush_proves_nothing(at, slot);
        } else if item.kind == ItemKind::Write {
            self.own.wrote(item.volume);
        }
        self.own.advance(&self.line);
        self.settle_late(at);
        if item.kind.changes_data() {
            self.leave_gate(item.volume, item.extent, local, permit, turn);
        }
        self.consider(at, local, permit, turn);
        self.release_front(turn);
    }

    /// What the store holds there now is unknown, and the peer may hold something else: mark first, then tell.
    fn local_failed(
        &mut self,
        item: Item,
        slot: Option<SlotId>,
        fault: StoreFault,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        self.store_failed(item.volume, Failed::of(&item), fault, local, turn);
        if item.kind.changes_data() && !planted(Plant::FailedUnmarked) {
            self.marks.set(item.volume, item.extent);
            local.hot_mut().bitmap_changed();
            self.own.item_missing(item.sequence);
            // A peer that gets no items of clients is not changed by this one.
            if self.target.owed().queues_in_order() {
                self.copier.item_failed(item.sequence);
            }
        }
        if let (Some(slot), false) = (slot, self.absolves(&item)) {
            self.requests.deny(slot, Denial::Store(fault));
        }
    }

    /// A FLUSH or an operation with FUA succeeded on a suspect store: what it is to promise may have been dropped before.
    fn flush_proves_nothing(&mut self, at: Sequence, slot: Option<SlotId>) {
        if let Some(entry) = self.line.get_mut(at) {
            entry.end_here(Leg::Failed);
        }
        if let Some(slot) = slot {
            self.requests.deny(slot, Denial::Store(StoreFault::Io));
        }
    }

    /// Gives an extent back to the gate and lets its next users through.
    pub(crate) fn leave_gate(
        &mut self,
        volume: VolumeIndex,
        extent: Extent,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        self.gate.leave(volume, extent);
        if !self.gate.has_waiters() {
            return;
        }
        while let Some(ticket) = self.gate.next_ready() {
            match ticket {
                Ticket::Part(part) => self.issue(part, local, permit, turn),
                Ticket::Copy(job) => self.copy_read(job, local, turn),
                Ticket::Survey(stretch) => self.survey_look(stretch, local, turn),
                Ticket::Verify(check) => Self::verify_read(check, local, turn),
                Ticket::Pull(ticket) => self.pull_write(ticket, local, permit, turn),
            }
        }
    }

    /// Answers the client of an item if `ack.rs` says so.
    pub(crate) fn consider(
        &mut self,
        at: Sequence,
        local: &Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        let effective = self.effective(turn.config().mode);
        let received = self.target.streams() && at <= self.target.cursors().received();
        let Some(entry) = self.line.get(at) else { return };
        if entry.is_answered() {
            return;
        }
        let remote = match (entry.has_peer_completed(), received) {
            (true, _) => Remote::Completed,
            (false, true) => Remote::Received,
            (false, false) => Remote::Unknown,
        };
        // Queued or dirty by `push`, and issued behind its hot extent.
        let decision = ack::decide(&Facts {
            mode: turn.config().mode,
            effective,
            here: self.local_leg(entry.item(), entry.local(), local),
            remote,
            // What an update brings by the bitmap is there once that has ended, whatever the cursors say.
            in_order: !self.target.owed().is_image_out_of_order(),
            durable: at <= self.target.cursors().durable(),
            unreplicated: self.unreplicated,
            withholds: permit.withholds(turn.now()),
            gives_up: permit.lease().gives_up(),
            unchecked: permit.pause().withholds(),
        });
        let answer = match decision {
            Decision::Acknowledge(proof) => Answer::Done(proof),
            Decision::Fail(denial) => Answer::Denied(denial),
            Decision::Wait { record } => {
                if record {
                    self.unreplicated.want();
                }
                return;
            }
        };
        let slot = entry.slot();
        if let Some(entry) = self.line.get_mut(at) {
            entry.answer();
        }
        if let Some(slot) = slot {
            self.part_answered(slot, at, answer, turn);
        }
    }

    fn part_answered(&mut self, slot: SlotId, sequence: Sequence, answer: Answer, turn: &mut Turn) {
        if let Some(took) = self.requests.part_answered(slot, sequence, answer, turn) {
            self.copier.pace_mut().answered(took);
        }
    }

    /// Answers with an error a part that never got a position.
    fn deny(&mut self, part: Part, denial: Denial, turn: &mut Turn) {
        part.payload.into_iter().for_each(|p| turn.release(p.id));
        self.requests.part_denied(part.slot, denial, turn);
    }

    /// Every request of a client's that waits for the peer fails; what this node's store is busy with waits for that
    /// first. Returns whether there was any.
    pub(crate) fn deny_all(&mut self, turn: &mut Turn) -> bool {
        let denial = Denial::Store(StoreFault::Io);
        let mut any = false;
        while let Some(part) = self.queue.take_waiting(turn.now()) {
            any = true;
            self.deny(part, denial, turn);
        }
        for at in (self.line.first().0..=self.line.head().0).map(Sequence) {
            let waits = |entry: &&mut Entry| !entry.is_answered() && entry.has_ended_here();
            let Some(entry) = self.line.get_mut(at).filter(waits) else { continue };
            entry.deny();
            if let Some(slot) = entry.slot() {
                any = true;
                self.requests.deny(slot, denial);
                self.part_answered(slot, at, Answer::Denied(denial), turn);
            }
        }
        any
    }

    /// Considers every answer again: the effective mode or the peer's cursors changed as a whole.
    pub(crate) fn consider_all(&mut self, local: &Local, permit: &Permit, turn: &mut Turn) {
        let (first, head) = (self.line.first(), self.line.head());
        for at in first.0..=head.0 {
            self.consider(Sequence(at), local, permit, turn);
        }
        self.release_front(turn);
    }

    /// The peer has items durable: their regions are not pending any more, though an item before them may still wait
    /// for its extents to turn hot. Those extents may need these to turn cold.
    pub(crate) fn settle_durable(&mut self) {
        while let Some(at) = self.target.settle() {
            let Some(entry) = self.line.get_mut(at) else { continue };
            if entry.has_ended_here() {
                let (item, pended) = (*entry.item(), entry.unpend());
                self.peer_durable(&item, pended);
            }
        }
        self.copier.durable_upto(self.target.safe(), &mut self.marks);
    }

    /// An item ended here only after the peer had it durable.
    fn settle_late(&mut self, at: Sequence) {
        if !self.target.is_settled(at) {
            return;
        }
        if let Some(entry) = self.line.get_mut(at)
            && entry.unpend()
        {
            let item = *entry.item();
            self.peer_durable(&item, true);
        }
    }

    /// The peer has an item durable that has ended here too. `pended`: its regions are still counted.
    fn peer_durable(&mut self, item: &Item, pended: bool) {
        if pended {
            self.marks.unpend(item.volume, item.extent);
        }
    }

    /// Lets go of what nobody needs any more, at the front of the line.
    pub(crate) fn release_front(&mut self, turn: &mut Turn) {
        while let Some(entry) = self.line.front() {
            let owed = self.target.owes(entry.item());
            if !entry.has_ended_here() || !entry.is_answered() || owed {
                return;
            }
            let Some(entry) = self.line.pop() else { return };
            self.queue.leave(entry.cost());
            self.snapshots.leaves(entry.item());
            if let Some(payload) = entry.item().payload {
                turn.release(payload.id);
            }
            self.peer_durable(entry.item(), entry.is_pended());
            self.copier.shrink(entry.item(), entry.cost(), Bytes::ZERO);
        }
    }
}

/// The payload of an item leaves the queue before the item does.
pub(super) fn shed(entry: &mut Entry, queue: &mut Queue, copier: &mut Copier, turn: &mut Turn) {
    if let Some((payload, cost)) = entry.shed() {
        turn.release(payload.id);
        queue.shrink(cost, ITEM_COST);
        copier.shrink(entry.item(), cost, ITEM_COST);
    }
}
