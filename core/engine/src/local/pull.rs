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
use crate::local::failure::Failed;
use crate::local::lack::{Ask, Fetched, For, Lack, Pulled, Reversal, Stage, let_go};
use crate::peer::outgoing::Cursors;
use crate::peer::primary::{Primary, PrimaryIo};
use crate::peer::read_server::ASKED_MAX;
use crate::refusal::Refusal;
use crate::role::busy;
use crate::role::resolve::Stake;
use crate::shared::Shared;
use crate::stream::write::Ticket;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use helio_bitmap::Region;
use helio_copy::Claim;
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, VolumeIndex};

/// Bytes asked for at which the puller asks no more: the rest of what may be open is the clients'.
const PULLING_MAX: Bytes = Bytes::mib(32);
/// What the peer could not read is asked for again after that long.
const REST: Duration = Duration::from_secs(1);

impl Primary {
    /// Asks for as many lacking regions as the bounds allow.
    pub(crate) fn pull_step(&mut self, s: &mut Shared) {
        let grain = self.marks.grid().unit();
        let left = self.marks.dirty_bytes();
        if self.copier.progress.is_due(s.now) {
            self.copier.progress.look(left, s.now);
        }
        self.ask_differing(s);
        while let Some(claim) = self.claim_next(grain, s) {
            let (volume, extent) = self.marks.place(claim.region);
            let after = self.line.head;
            let Some(lack) = &mut self.lack else { return };
            if !lack.guess.is_raw() && !self.distrusted.contains(&volume) {
                self.compare(claim, s);
                continue;
            }
            lack.guess.count_raw(1);
            lack.ask(Ask { goal: For::Pull(claim), volume, extent, after }, s);
        }
    }

    /// Asks for what was found to differ.
    fn ask_differing(&mut self, s: &mut Shared) {
        while let Some(lack) = &mut self.lack
            && let Some(ask) = lack.pulls.front().copied()
            && lack.asked.len() < ASKED_MAX / 2
            && (lack.open + Bytes(ask.extent.length) <= PULLING_MAX || lack.asked.is_empty())
        {
            lack.pulls.pop_front();
            if let For::Pull(claim) = ask.goal
                && self.is_touched(claim)
            {
                self.unclaim(claim);
            } else if let Some(lack) = &mut self.lack {
                lack.ask(ask, s);
            }
        }
    }

    /// The next lacking region, as far as the bounds allow.
    fn claim_next(&mut self, grain: Bytes, s: &Shared) -> Option<Claim> {
        let compares = self.may_compare();
        let lack = self.lack.as_mut()?;
        let allowed = lack.stage == Stage::Serving
            && !lack.halted
            && s.now >= lack.rests_until
            && lack.asked.len() + lack.pulls.len() < ASKED_MAX / 2
            && lack.pulling + grain <= PULLING_MAX
            && lack.open + grain <= PULLING_MAX
            && self.copier.pace.allows(grain, lack.pulling, &s.config.resync);
        if !allowed {
            return None;
        }
        let claim = lack.walk.claim(lack.tickets + 1, 1, |from| {
            (0..s.config.volumes.len() as u16)
                .map(VolumeIndex)
                .filter(|v| !lack.lost.contains(v))
                .filter(|v| compares || lack.guess.is_raw() || self.distrusted.contains(v))
                .find_map(|v| self.marks.begin_copy_of(v, from))
        })?;
        lack.tickets = claim.number;
        let (_, extent) = self.marks.place(claim.region);
        let whole = Bytes(extent.length);
        lack.pulling += whole;
        self.copier.pace.took_up(whole, &s.config.resync);
        Some(claim)
    }

    /// A region is pulled no more; where it is still lacking, its turn comes again.
    pub(crate) fn unclaim(&mut self, claim: Claim) {
        let (_, extent) = self.marks.place(claim.region);
        let Some(lack) = &mut self.lack else { return };
        if lack.walk.end(claim) {
            lack.pulling -= Bytes(extent.length);
            self.marks.abandon_copy(claim.region);
        }
    }

    /// What is at the gate or written here by now ends nothing any more.
    pub(crate) fn unclaim_all(&mut self) {
        let Some(lack) = &self.lack else { return };
        let all: Vec<Claim> = lack.walk.claims().collect();
        all.into_iter().for_each(|claim| self.unclaim(claim));
    }

    /// An item that changes an extent is accepted: what was asked of it before lacks that.
    pub(crate) fn touch(&mut self, volume: VolumeIndex, extent: Extent) {
        let regions = self.marks.grid().touched(volume, extent);
        let Some(lack) = &mut self.lack else { return };
        lack.walk.touch(Region(regions.start)..Region(regions.end));
    }

    /// Whether what is fetched for it counts no more.
    pub(crate) fn is_touched(&self, claim: Claim) -> bool {
        self.lack.as_ref().is_none_or(|lack| lack.walk.is_touched(claim))
    }

    /// This node holds the region as its peer does.
    pub(crate) fn is_good(&mut self, claim: Claim) {
        let (_, extent) = self.marks.place(claim.region);
        self.marks.end_copy(claim.region);
        self.copier.progress.count_copied(Bytes(extent.length));
    }

    /// The peer told bytes of a region: through the gate with it, unless it was touched since.
    pub(crate) fn fetched(&mut self, ticket: Pulled, fetched: Fetched, s: &mut Shared) {
        let Fetched { volume, extent, .. } = fetched;
        let Some(lack) = &mut self.lack else { return };
        lack.fetched.insert(ticket, fetched);
        if self.gate.enter(Ticket::Pull(ticket), volume, extent) {
            self.pull_write(ticket, s);
        }
    }

    /// The gate is ours.
    pub(crate) fn pull_write(&mut self, ticket: Pulled, s: &mut Shared) {
        let Some(Fetched { claim, volume, extent, payload }) =
            self.lack.as_ref().and_then(|lack| lack.fetched.get(&ticket).copied())
        else {
            panic!("pull {ticket} passed the gate and was not taken")
        };
        if self.is_touched(claim) && !planted(Plant::PullStale) {
            self.pull_over(ticket, s);
            return;
        }
        let op = match payload {
            Some(payload) => StoreOp::Write { extent, payload, fua: false },
            None => StoreOp::Zero { extent, punch: true, fua: false },
        };
        s.store(volume, op, PrimaryIo::Pull(ticket));
    }

    /// What was pulled is written, or could not be.
    pub(crate) fn pull_written(&mut self, ticket: Pulled, outcome: StoreOutcome, s: &mut Shared) {
        let fetched = self.lack.as_ref().and_then(|lack| lack.fetched.get(&ticket).copied());
        let Some(Fetched { claim, volume, extent, payload }) = fetched else {
            panic!("pull {ticket} ended twice")
        };
        if let StoreOutcome::Failed(fault) = outcome {
            self.unclaim(claim);
            if self.store_failed(volume, Failed::Change, fault, s) {
                return self.pull_over(ticket, s);
            }
            if let Some(lack) = &mut self.lack {
                lack.halted = true;
            }
            s.warn(format!(
                "{extent} from the peer could not be written here: {fault}; it is still served from {}. Repair \
                 the disk, then run `helio resync {}`",
                s.config.peer, s.config.group
            ));
        } else {
            self.piece_written(claim);
            let shipped = payload.map_or(0, |payload| u64::from(payload.length));
            self.copier.progress.count_shipped(Bytes(shipped));
        }
        self.pull_over(ticket, s);
    }

    /// A piece of a region is written; with the last one the region is good, unless a write touched it.
    fn piece_written(&mut self, claim: Claim) {
        let pieces = self.lack.as_mut().and_then(|lack| lack.walk.data_mut(claim));
        let Some(pieces) = pieces else { return };
        *pieces -= 1;
        if *pieces > 0 {
            return;
        }
        if !self.is_touched(claim) || planted(Plant::PullStale) {
            self.is_good(claim);
        }
        self.unclaim(claim);
    }

    /// A piece of a region leaves the gate.
    fn pull_over(&mut self, ticket: Pulled, s: &mut Shared) {
        let Some(lack) = &mut self.lack else { return };
        let Some(Fetched { claim, volume, extent, payload }) = lack.fetched.remove(&ticket) else {
            return;
        };
        let_go(payload, s);
        // The others of a region that was touched come too late as well.
        if self.is_touched(claim) {
            self.unclaim(claim);
        }
        self.leave_gate(volume, extent, s);
    }

    /// The peer cannot read what this node lacks.
    pub(crate) fn pull_failed(&mut self, claim: Claim, ask: Ask, s: &mut Shared) {
        if let Some(lack) = &mut self.lack {
            lack.rests_until = s.now + REST;
        }
        self.unclaim(claim);
        s.warn(format!(
            "{} could not read {} of volume {}, which exists only there; the read is repeated",
            s.config.peer,
            ask.extent,
            s.config.name_of(ask.volume)
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
        let (config, peer) = (&self.shared.config, &self.shared.config.peer);
        let Some(primary) = self.standing.primary() else { return Err(self.not_primary(verb)) };
        if !self.standing.serves() || self.is_saving() {
            return Err(busy());
        }
        if primary.lack.is_some() {
            return Err(Refusal::later(
                "lacking",
                format!("the copy of {} is being rebuilt from {peer}", config.node),
                format!("wait for its end; `helio status {}` shows the progress", config.group),
            ));
        }
        self.seed.refuse_update(&self.superblock, config)?;
        if self.session.peer().is_none() || self.update.is_awaiting() {
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
        Ok(Stake::of(&self.superblock, differing))
    }

    /// Takes the peer's copy over this node's own, wherever the two may differ.
    pub(crate) fn reverse(&mut self, id: CommandId, full: bool) -> Result<Option<String>, Refusal> {
        self.reversal_stake(full)?;
        let incarnation = self.session.peer().map(|peer| peer.incarnation);
        let Some(primary) = self.standing.primary_mut() else { return Err(busy()) };
        let s = &mut self.shared;
        if !primary.is_quiet() || s.reads_under_way() {
            return Err(Refusal::later(
                "in-use",
                "requests of clients are in progress, and the data that they use is about to be replaced",
                "stop the clients, then repeat",
            ));
        }
        if s.metadata_failed {
            return Err(s.metadata_refusal());
        }
        primary.drop_queue("the operator requested a reverse resync", s);
        if full {
            primary.marks.set_all();
        }
        s.cover.bitmap_changed();
        primary.release_front(s);
        let peer = s.config.peer.clone();
        let head = primary.line.head;
        primary.faulted = None;
        primary.owed.restore_order();
        primary.cursors = Cursors::all_at(head);
        primary.peer_incarnation = incarnation;
        primary.lack = Some(Lack::new(Some(Reversal { command: id, head })));
        primary.suspect_step(s);
        s.verify.rewind();
        self.update.give_up();
        s.info(format!("the operator replaces the copy of this node by the copy of {peer}"));
        Ok(None)
    }

    /// This node is primary and lacks regions.
    pub(crate) fn is_lacking(&self) -> bool {
        self.standing.primary().is_some_and(|primary| primary.lack.is_some())
    }

    /// A reversal is being recorded.
    pub(crate) fn is_reversing(&self) -> bool {
        let lack = self.standing.primary().and_then(|primary| primary.lack.as_ref());
        lack.is_some_and(|lack| lack.reversal.is_some())
    }

    /// Whether that extent is being written with what was pulled from the peer; for tests and proofs.
    #[must_use]
    pub fn is_pulling(&self, volume: VolumeIndex, extent: Extent) -> bool {
        let Some(primary) = self.standing.primary() else { return false };
        let pulled = |f: &Fetched| (f.volume, f.extent) == (volume, extent);
        primary.lack.as_ref().is_some_and(|lack| lack.fetched.values().any(pulled))
    }

    /// What cannot be done meanwhile.
    pub(crate) fn lacks(&self, verb: &str) -> Refusal {
        let Config { node, peer, group, .. } = &self.shared.config;
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
        let s = &self.shared;
        let Some(primary) = self.standing.primary_mut() else { return Ok(None) };
        let Some(lack) = &mut primary.lack else { return Ok(None) };
        lack.halted = false;
        let again = lack.lost.iter().copied();
        let again: Vec<VolumeIndex> = again.filter(|v| s.suspect.is(*v)).collect();
        if again.iter().any(|volume| s.works_on(Some(*volume))) || !lack.is_recorded() {
            return Err(Refusal::later(
                "busy",
                "operations on a disk whose flush failed have not ended",
                "try again in a moment",
            ));
        }
        again.into_iter().for_each(|volume| primary.use_again(volume));
        primary.faulted = None;
        let peer = &s.config.peer;
        Ok(Some(format!(
            "{} are missing on this node and are copied from {peer}",
            primary.marks.dirty_bytes()
        )))
    }
}
