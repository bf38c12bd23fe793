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

use crate::config::Config;
use crate::effect::StoreOp;
use crate::engine::Engine;
use crate::event::{CommandId, StoreOutcome};
use crate::local::Local;
use crate::local::failure::Failed;
use crate::local::lack::{Lack, Reversal, let_go};
use crate::local::pulling::{Fetched, Pulled};
use crate::local::questions::{Ask, For};
use crate::peer::outgoing::Cursors;
use crate::peer::permit::Permit;
use crate::peer::primary::{Primary, PrimaryIo};
use crate::refusal::Refusal;
use crate::role::busy;
use crate::role::resolve::Stake;
use crate::stream::write::Ticket;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_bitmap::Region;
use helio_copy::Claim;
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, VolumeIndex};

impl Primary {
    /// Asks for as many lacking regions as the bounds allow.
    pub(crate) fn pull_step(&mut self, turn: &mut Turn) {
        let grain = self.marks.grid().unit();
        let left = self.marks.dirty_bytes();
        if self.copier.progress.is_due(turn.now()) {
            self.copier.progress.look(left, turn.now());
        }
        self.ask_differing(turn);
        while let Some(claim) = self.claim_next(grain, turn) {
            let (volume, extent) = self.marks.place(claim.region);
            let after = self.line.head;
            let Some(lack) = &mut self.lack else { return };
            if !lack.pulling.is_raw() && !self.distrusted.contains(&volume) {
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
            && self.copier.pace.allows(grain, under_way, &turn.config().resync);
        if !allowed {
            return None;
        }
        let any = compares || lack.pulling.is_raw();
        let fits = |volume| any || self.distrusted.contains(&volume);
        let claim = lack.claim(fits, turn.config().volumes.len(), &mut self.marks)?;
        let (_, extent) = self.marks.place(claim.region);
        self.copier.pace.took_up(Bytes(extent.length), &turn.config().resync);
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
        self.copier.progress.count_copied(Bytes(extent.length));
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
            if let Some(lack) = &mut self.lack {
                lack.pulling.halt();
            }
            turn.warn(format!(
                "{extent} from the peer could not be written here: {fault}; it is still served from {}. Repair \
                 the disk, then run `helio resync {}`",
                turn.config().peer, turn.config().group
            ));
        } else {
            self.piece_written(claim);
            let shipped = payload.map_or(0, |payload| u64::from(payload.length));
            self.copier.progress.count_shipped(Bytes(shipped));
        }
        self.pull_over(ticket, local, permit, turn);
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

impl Engine {
    /// What the primary would throw away by taking its peer's copy over its own.
    ///
    /// # Errors
    /// It cannot: it is not primary, or its peer's copy is not known to be consistent.
    pub fn reversal_stake(&self, full: bool) -> Result<Stake, Refusal> {
        let verb = if full { "resync --full --reverse" } else { "resync --reverse" };
        let (config, peer) = (self.turn.config(), &self.turn.config().peer);
        let Some(primary) = self.standing.primary() else { return Err(self.not_primary(verb)) };
        if !self.standing.serves() || self.record.is_saving() {
            return Err(busy());
        }
        if primary.lack.is_some() {
            return Err(Refusal::later(
                "lacking",
                format!("the copy of {} is being rebuilt from {peer}", config.node),
                format!("wait for its end; `helio status {}` shows the progress", config.group),
            ));
        }
        self.resync.seed.refuse_update(self.record.superblock(), config)?;
        if self.peer.session.peer().is_none() || self.resync.update.is_awaiting() {
            return Err(Refusal::later(
                "peer-lost",
                format!("{peer} is not connected, or has not reported yet what may differ"),
                format!("repeat when `helio status {}` shows it connected", config.group),
            ));
        }
        if !primary.peer_consistent {
            return Err(Refusal::new(
                "needs-sync",
                format!("{peer}'s copy is not consistent: a copy to it was interrupted"),
                format!("`helio resync {}` completes it; then repeat", config.group),
            ));
        }
        let differing = if full {
            let sizes = config.volumes.iter().zip(0..);
            sizes.map(|(size, n)| (VolumeIndex(n), Extent::new(0, size.0))).collect()
        } else {
            primary.marks.differing_runs()
        };
        Ok(Stake::of(self.record.superblock(), differing))
    }

    /// Takes the peer's copy over this node's own, wherever the two may differ.
    pub(crate) fn reverse(&mut self, id: CommandId, full: bool) -> Result<Option<String>, Refusal> {
        self.reversal_stake(full)?;
        let incarnation = self.peer.session.peer().map(|peer| peer.incarnation);
        let Some(primary) = self.standing.primary_mut() else { return Err(busy()) };
        if !primary.is_quiet() || self.local.reads_under_way() {
            return Err(Refusal::later(
                "in-use",
                "requests of clients are in progress, and the data that they use is about to be replaced",
                "stop the clients, then repeat",
            ));
        }
        if self.local.metadata_failed() {
            return Err(self.turn.metadata_refusal());
        }
        primary.drop_queue(
            "the operator requested a reverse resync",
            &mut self.local,
            &self.permit,
            &mut self.turn,
        );
        if full {
            primary.marks.set_all();
        }
        self.local.hot_mut().bitmap_changed();
        primary.release_front(&mut self.turn);
        let peer = self.turn.config().peer.clone();
        let head = primary.line.head;
        primary.faulted = None;
        primary.owed.restore_order();
        primary.cursors = Cursors::all_at(head);
        primary.peer_incarnation = incarnation;
        primary.lack = Some(Lack::new(Some(Reversal { command: id, head })));
        primary.suspect_step(&mut self.local, &mut self.turn);
        self.resync.verify.rewind();
        self.resync.update.give_up();
        self.turn
            .info(format!("the operator replaces the copy of this node by the copy of {peer}"));
        Ok(None)
    }

    /// This node is primary and lacks regions.
    pub(crate) fn is_lacking(&self) -> bool {
        self.standing.primary().is_some_and(|primary| primary.lack.is_some())
    }

    /// A reversal is being recorded.
    pub(crate) fn is_reversing(&self) -> bool {
        let lack = self.standing.primary().and_then(|primary| primary.lack.as_ref());
        lack.is_some_and(|lack| lack.reversal().is_some())
    }

    /// Whether that extent is being written with what was pulled from the peer; for tests and proofs.
    #[must_use]
    pub fn is_pulling(&self, volume: VolumeIndex, extent: Extent) -> bool {
        let Some(primary) = self.standing.primary() else { return false };
        primary.lack.as_ref().is_some_and(|lack| lack.pulling.is_at(volume, extent))
    }

    /// What cannot be done meanwhile.
    pub(crate) fn lacks(&self, verb: &str) -> Refusal {
        let Config { node, peer, group, .. } = self.turn.config();
        Refusal::later(
            "lacking",
            format!(
                "`helio {verb} {group}` must wait: the copy of {node} is being rebuilt from {peer}"
            ),
            format!("wait for its end; `helio status {group}` shows the progress"),
        )
    }

    /// What is lacking is pulled on.
    ///
    /// # Errors
    /// A store of which a flush failed cannot be used again yet.
    pub(crate) fn pull_on(&mut self) -> Result<Option<String>, Refusal> {
        let Some(primary) = self.standing.primary_mut() else { return Ok(None) };
        let Some(lack) = &mut primary.lack else { return Ok(None) };
        lack.pulling.go_on();
        let again: Vec<VolumeIndex> = lack.lost().filter(|v| self.local.suspect().is(*v)).collect();
        if again.iter().any(|volume| self.local.works_on(Some(*volume))) || !lack.is_recorded() {
            return Err(Refusal::later(
                "busy",
                "operations on a disk whose flush failed have not ended",
                "try again in a moment",
            ));
        }
        again.into_iter().for_each(|volume| primary.use_again(volume));
        primary.faulted = None;
        let peer = &self.turn.config().peer;
        Ok(Some(format!(
            "{} are missing on this node and are copied from {peer}",
            primary.marks.dirty_bytes()
        )))
    }
}
