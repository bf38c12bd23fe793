// SPDX-License-Identifier: Apache-2.0
//! The puller: brings regions that a primary lacks from its peer, in the background.
//!
//! ```text
//!   lacking ──claimed──> compared ──asked──> told ──gate──> written here ──> good
//!      ^                 (compare.rs)          └─ a write touched it since it was claimed: dropped ─┐
//!      └────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! The peer reads a region once it has completed everything that was accepted when it was asked. A write that was
//! accepted since counts the region as touched, behind the gate and before it is issued; so what is written here holds
//! every write the region ever saw. The gate is held for the local write alone, never across a round trip (rule 6). A good region's
//! record ends like any other mark: its extent stays hot until it was flushed and its page was kept. How much is under way at
//! once is the copier's pace to say.

use crate::event::StoreOutcome;
use crate::lead::Primary;
use crate::lead::lack::let_go;
use crate::lead::lack::pulling::Fetched;
use crate::lead::lack::questions::{Ask, For};
use crate::lead::ticket::Ticket;
use crate::local::Local;
use crate::local::failure::Failed;
use crate::peer::permit::Permit;
use crate::purpose::PrimaryIo;
use crate::purpose::Pulled;
use crate::turn::Turn;
use alloc::format;
use helio_bitmap::Region;
use helio_copy::Claim;
use helio_plant::{Plant, planted};
use helio_stack::{StoreFault, StoreOp};
use helio_units::{Bytes, Extent, VolumeIndex};

impl Primary {
    /// Asks for as many lacking regions as the bounds allow.
    pub(crate) fn pull_step(&mut self, turn: &mut Turn) {
        let grain = self.marks.grid().unit();
        let left = self.marks.dirty_bytes();
        if self.copier.progress().is_due(turn.now()) {
            self.copier.progress_mut().look(left, turn.now());
        }
        self.ask_differing(turn);
        while let Some(claim) = self.claim_next(grain, turn) {
            let (volume, extent) = self.marks.place(claim.region);
            let after = self.line.head();
            let Some(lack) = &mut self.lack else { return };
            if !lack.pulling.is_raw() && self.own.trusts(volume) {
                self.compare(claim, turn);
                continue;
            }
            lack.pulling.count_raw();
            let goal = For::Pull(claim);
            turn.send(lack.questions.ask(Ask { goal, volume, extent, after }));
        }
    }

    /// Asks for what was found to differ.
    fn ask_differing(&mut self, turn: &mut Turn) {
        let Some(lack) = &mut self.lack else { return };
        while let Some(ask) = lack.next_differing() {
            match ask.goal {
                For::Pull(claim) if lack.pulling.is_touched(claim) => {
                    lack.pulling.unclaim(claim, &mut self.marks);
                }
                _ => turn.send(lack.questions.ask(ask)),
            }
        }
    }

    /// The next lacking region, as far as the bounds allow.
    fn claim_next(&mut self, grain: Bytes, turn: &Turn) -> Option<Claim> {
        let compares = self.may_compare();
        let lack = self.lack.as_mut()?;
        let under_way = lack.pulling.under_way();
        let allowed = lack.may_claim(grain, turn.now())
            && self.copier.pace().allows(grain, under_way, &turn.config().resync);
        if !allowed {
            return None;
        }
        let any = compares || lack.pulling.is_raw();
        let fits = |volume| any || !self.own.trusts(volume);
        let claim = lack.claim(fits, turn.config().volumes.len(), &mut self.marks)?;
        let (_, extent) = self.marks.place(claim.region);
        self.copier.pace_mut().took_up(Bytes(extent.length), &turn.config().resync);
        Some(claim)
    }

    /// A region is pulled no more; where it is still lacking, its turn comes again.
    pub(crate) fn unclaim(&mut self, claim: Claim) {
        if let Some(lack) = &mut self.lack {
            lack.pulling.unclaim(claim, &mut self.marks);
        }
    }

    /// An item that changes an extent is accepted: what was asked of it before lacks that.
    pub(crate) fn touch(&mut self, volume: VolumeIndex, extent: Extent) {
        let Some(lack) = &mut self.lack else { return };
        let regions = self.marks.grid().touched(volume, extent);
        lack.pulling.touch(Region(regions.start)..Region(regions.end));
    }

    /// Whether what is fetched for it counts no more.
    pub(crate) fn is_touched(&self, claim: Claim) -> bool {
        self.lack.as_ref().is_none_or(|lack| lack.pulling.is_touched(claim))
    }

    /// This node holds the region as its peer does.
    pub(crate) fn is_good(&mut self, claim: Claim) {
        let (_, extent) = self.marks.place(claim.region);
        self.marks.end_copy(claim.region);
        self.copier.progress_mut().count_copied(Bytes(extent.length));
    }

    /// The peer told bytes of a region: through the gate with it, unless it was touched since.
    pub(crate) fn fetched(
        &mut self,
        ticket: Pulled,
        fetched: Fetched,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        let Fetched { volume, extent, .. } = fetched;
        let Some(lack) = &mut self.lack else { return };
        lack.pulling.put(ticket, fetched);
        if self.gate.enter(Ticket::Pull(ticket), volume, extent) {
            self.pull_write(ticket, local, permit, turn);
        }
    }

    /// The gate is ours.
    pub(crate) fn pull_write(
        &mut self,
        ticket: Pulled,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        let Some(Fetched { claim, volume, extent, payload }) =
            self.lack.as_ref().and_then(|lack| lack.pulling.fetched(ticket))
        else {
            panic!("pull {ticket} passed the gate and was not taken")
        };
        if self.is_touched(claim) && !planted(Plant::PullStale) {
            self.pull_over(ticket, local, permit, turn);
            return;
        }
        let op = match payload {
            Some(payload) => StoreOp::Write { extent, payload, fua: false },
            None => StoreOp::Zero { extent, punch: true, fua: false },
        };
        local.store(volume, op, PrimaryIo::Pull(ticket), turn);
    }

    /// What was pulled is written, or could not be.
    pub(crate) fn pull_written(
        &mut self,
        ticket: Pulled,
        outcome: StoreOutcome,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        let fetched = self.lack.as_ref().and_then(|lack| lack.pulling.fetched(ticket));
        let Some(Fetched { claim, volume, extent, payload }) = fetched else {
            panic!("pull {ticket} ended twice")
        };
        if let StoreOutcome::Failed(fault) = outcome {
            self.unclaim(claim);
            if self.store_failed(volume, Failed::Change, fault, local, turn) {
                return self.pull_over(ticket, local, permit, turn);
            }
            self.pull_halts((volume, extent), fault, turn);
        } else {
            if payload.is_some() {
                self.own.wrote(volume);
            }
            self.piece_written(claim);
            let shipped = payload.map_or(0, |payload| u64::from(payload.length));
            self.copier.progress_mut().count_shipped(Bytes(shipped));
        }
        self.pull_over(ticket, local, permit, turn);
    }

    /// What was pulled could not be written. A disk without space is tried again; any other error waits for an operator.
    fn pull_halts(
        &mut self,
        (volume, extent): (VolumeIndex, Extent),
        fault: StoreFault,
        turn: &mut Turn,
    ) {
        let Some(lack) = &mut self.lack else { return };
        if fault == StoreFault::NoSpace && self.own.is_full(volume) {
            return lack.pulling.rest(turn.now());
        }
        lack.pulling.halt();
        turn.warn(format!(
            "{extent} from the peer could not be written here: {fault}; it is still served from {}. Repair \
             the disk, then run `helio resync {}`",
            turn.config().peer, turn.config().group
        ));
    }

    /// A piece of a region is written; with the last one the region is good, unless a write touched it.
    fn piece_written(&mut self, claim: Claim) {
        if !self.lack.as_mut().is_some_and(|lack| lack.pulling.wrote_last(claim)) {
            return;
        }
        if !self.is_touched(claim) || planted(Plant::PullStale) {
            self.is_good(claim);
        }
        self.unclaim(claim);
    }

    /// A piece of a region leaves the gate.
    fn pull_over(&mut self, ticket: Pulled, local: &mut Local, permit: &Permit, turn: &mut Turn) {
        let Some(lack) = &mut self.lack else { return };
        let Some(Fetched { claim, volume, extent, payload }) = lack.pulling.take(ticket) else {
            return;
        };
        let_go(payload, turn);
        // The others of a region that was touched come too late as well.
        if self.is_touched(claim) {
            self.unclaim(claim);
        }
        self.leave_gate(volume, extent, local, permit, turn);
    }

    /// The peer cannot read what this node lacks.
    pub(crate) fn pull_failed(&mut self, claim: Claim, ask: Ask, turn: &mut Turn) {
        if let Some(lack) = &mut self.lack {
            lack.pulling.rest(turn.now());
        }
        self.unclaim(claim);
        turn.warn(format!(
            "{} could not read {} of volume {}, which exists only there; the read is repeated",
            turn.config().peer,
            ask.extent,
            turn.config().name_of(ask.volume)
        ));
    }
}
