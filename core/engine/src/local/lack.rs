// SPDX-License-Identifier: Apache-2.0
//! A primary that lacks regions of its own store: its peer's copy is consistent and holds them.
//!
//! ```text
//!            every mark kept, then the record          nothing is lacking: flushed here, then the record
//!   whole ──> Recording ───────────────────> Serving ──────────> Flushing ──> Flushed ──> Ending ──────────> whole
//!                 ^                             ^ └──pull.rs──┘      │                       │
//!                 └─────────────────────────────┴─ lacking again ────┴───────────────────────┘
//! ```
//! While it lasts the stale marks point the other way: what is marked is good at the peer and not here. So wherever
//! this node stops, its records say what they always say, that the two may differ there; and its superblock says that its image is
//! not consistent, so that it cannot become source before it was brought level.
//!
//! The line and the stream go on in order. No answer is given without the peer, whatever mode is asked for: the
//! effective mode is sync. The queue is never dropped, because marks could not take its place. A read that touches a lacking region is
//! the peer's to answer, once it has completed everything accepted before the read. If the peer stays away, what waits
//! for it fails at last; nothing is answered alone.

use crate::effect::{Answer, StoreOp};
use crate::engine::Engine;
use crate::event::{CommandId, StoreOutcome};
use crate::local::failure::Failed;
use crate::peer::primary::{Primary, PrimaryIo};
use crate::peer::read_server::{ASKED_BYTES_MAX, ASKED_MAX};
use crate::record::save::Goal;
use crate::refusal::{Denial, StoreFault};
use crate::shared::{Purpose, Shared};
use crate::stream::ack::{Here, Local};
use crate::stream::unreplicated::Unreplicated;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use helio_copy::{Claim, Guess, Walk};
use helio_format::message::{Item, Message};
use helio_format::reading::{Reading, Told};
use helio_format::superblock::Superblock;
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, Moment, Payload, PayloadId, RequestId, Sequence, VolumeIndex};

/// See the drawing above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The record that says so is wanted (false), or on its way (true).
    Recording(bool),
    Serving,
    /// Volumes whose flush has not ended, and whether one failed.
    Flushing(u16, bool),
    Flushed,
    Ending,
}

/// Who wants to know what the peer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// A client reads.
    Client(RequestId),
    /// The puller.
    Pull(Claim),
}

/// A question to the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) goal: For,
    pub(crate) volume: VolumeIndex,
    pub(crate) extent: Extent,
    /// Everything up to here was accepted before it.
    pub(crate) after: Sequence,
}

/// Bytes of a region that the peer told: at the gate, or being written here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetched {
    pub(crate) claim: Claim,
    pub(crate) volume: VolumeIndex,
    pub(crate) extent: Extent,
    pub(crate) payload: Option<Payload>,
}

/// A reversal that is being recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reversal {
    pub(crate) command: CommandId,
    /// The line goes on behind this item, in a generation of its own.
    pub(crate) head: Sequence,
}

/// What a primary holds while it lacks something.
#[derive(Clone, Debug)]
pub(crate) struct Lack {
    pub(crate) stage: Stage,
    pub(crate) reversal: Option<Reversal>,
    /// It began with a reversal: the line before is nobody's.
    pub(crate) reverses: bool,
    /// Volumes whose own store failed and is given up.
    pub(crate) lost: BTreeSet<VolumeIndex>,
    /// What became lacking last is not kept as marks yet.
    pub(crate) unkept: bool,
    /// Clients' reads that were not asked yet.
    pub(crate) waiting: VecDeque<Ask>,
    pub(crate) asked: BTreeMap<u64, Ask>,
    /// Bytes in them.
    pub(crate) open: Bytes,
    pub(crate) tickets: u64,
    pub(crate) fetched: BTreeMap<u64, Fetched>,
    /// Bytes of regions from the question to the end of their write.
    pub(crate) pulling: Bytes,
    /// Counts how often everything was flushed.
    round: u32,
    /// Flushes of any round that did not end.
    flushes: u32,
    /// Regions being pulled, each with the count of pieces that are to be written here.
    pub(crate) walk: Walk<u32>,
    /// Of which the peer was asked for digests, in the order of its answers (`compare.rs`).
    pub(crate) comparing: VecDeque<Claim>,
    /// How many are being read here to compare.
    pub(crate) reading: u32,
    /// What was found to differ and was not asked for yet: no more than the regions being pulled hold.
    pub(crate) pulls: VecDeque<Ask>,
    /// Whether to compare at all.
    pub(crate) guess: Guess,
    /// Pulling stopped at an error, until an operator says update.
    pub(crate) halted: bool,
    /// The peer could not read what was asked: not before then again.
    pub(crate) rests_until: Moment,
    /// Since when no stream flows.
    parted_at: Option<Moment>,
    denying: bool,
}

impl Lack {
    pub(crate) fn new(reversal: Option<Reversal>) -> Self {
        Self {
            stage: Stage::Recording(false),
            reversal,
            reverses: reversal.is_some(),
            lost: BTreeSet::new(),
            unkept: false,
            waiting: VecDeque::new(),
            asked: BTreeMap::new(),
            open: Bytes::ZERO,
            tickets: 0,
            fetched: BTreeMap::new(),
            pulling: Bytes::ZERO,
            round: 0,
            flushes: 0,
            walk: Walk::default(),
            comparing: VecDeque::new(),
            reading: 0,
            pulls: VecDeque::new(),
            guess: Guess::default(),
            halted: false,
            rests_until: Moment::ZERO,
            parted_at: None,
            denying: false,
        }
    }

    /// The superblock says that this node's image is not consistent.
    pub(crate) fn is_recorded(&self) -> bool {
        matches!(self.stage, Stage::Serving | Stage::Flushing(..) | Stage::Flushed) && !self.unkept
    }

    /// A failed item's bytes are the peer's to give: its regions are lacking.
    fn absolves(&self, item: &Item) -> bool {
        item.kind.changes_data() || self.lost.contains(&item.volume)
    }

    /// No client waits for the peer's word about a read, and nothing is being written here.
    pub(crate) fn is_quiet(&self) -> bool {
        let reads = |ask: &Ask| matches!(ask.goal, For::Client(_));
        // A store that is lost meanwhile ends the round, and not its flushes.
        let flushing = self.flushes > 0;
        let reading = !self.waiting.is_empty() || self.asked.values().any(reads);
        !reading && self.reading == 0 && self.fetched.is_empty() && !flushing
    }
}

impl Primary {
    /// A client reads: here, or where it is lacking here, at the peer.
    pub(crate) fn read(
        &mut self,
        id: RequestId,
        volume: VolumeIndex,
        extent: Extent,
        s: &mut Shared,
    ) {
        match &mut self.lack {
            Some(lack) if self.marks.any_dirty(volume, extent) => {
                let (goal, after) = (For::Client(id), self.line.head);
                lack.waiting.push_back(Ask { goal, volume, extent, after });
            }
            _ => {
                let op = StoreOp::Read { extent, look_for_zeros: false };
                s.store(volume, op, Purpose::Read(Reader { id, volume, extent }));
            }
        }
    }

    /// How an item counts on this node for its answer.
    pub(crate) fn local_leg(&self, item: &Item, local: Local, s: &Shared) -> Here {
        let as_it_is = match local {
            Local::Pending => Here::Pending,
            Local::Done => Here::Done,
            Local::Failed => Here::Failed,
        };
        let Some(lack) = &self.lack else {
            let waits = Self::awaits_suspect_record(item, local, s);
            return if waits { Here::Unrecorded } else { as_it_is };
        };
        // The peer's image is the only one there is: while it is out of order, nothing is promised of it.
        if self.owed.marker().is_some() {
            return Here::Unrecorded;
        }
        let failed = local == Local::Failed && lack.absolves(item);
        match local {
            Local::Pending => Here::Pending,
            _ if failed || lack.lost.contains(&item.volume) => match (lack.is_recorded(), local) {
                (false, _) => Here::Unrecorded,
                (true, Local::Failed) => Here::OnPeer,
                (true, _) => Here::Done,
            },
            _ => as_it_is,
        }
    }

    /// Whether a failed item needs no denial, because the peer has its bytes.
    pub(crate) fn absolves(&self, item: &Item) -> bool {
        self.lack.as_ref().is_some_and(|lack| lack.absolves(item))
    }

    /// Asks the peer, pulls, and ends where nothing is lacking any more. `pulls`: this node stays primary.
    pub(crate) fn lack_step(&mut self, pulls: bool, s: &mut Shared) {
        let streams = self.flow.is_some();
        let Some(lack) = &mut self.lack else { return };
        if !streams {
            let due = *lack.parted_at.get_or_insert(s.now) + patience(s);
            if s.now >= due {
                self.deny_lacking(s);
            }
            return;
        }
        lack.parted_at = None;
        lack.denying = false;
        while let Some(ask) = lack.waiting.front().copied() {
            let room = lack.asked.is_empty()
                || (lack.asked.len() < ASKED_MAX
                    && lack.open + Bytes(ask.extent.length) <= ASKED_BYTES_MAX);
            if !room {
                break;
            }
            lack.waiting.pop_front();
            lack.ask(ask, s);
        }
        if pulls {
            self.pull_step(s);
        }
        self.end_step(s);
    }

    fn end_step(&mut self, s: &mut Shared) {
        let Some(lack) = &mut self.lack else { return };
        let whole = self.marks.none_dirty();
        match lack.stage {
            Stage::Serving
                if whole
                    && lack.is_quiet()
                    && lack.asked.is_empty()
                    && lack.walk.is_idle()
                    && lack.comparing.is_empty() =>
            {
                let volumes = s.config.volumes.len() as u16;
                lack.round += 1;
                lack.stage = Stage::Flushing(volumes, false);
                lack.flushes += u32::from(volumes);
                for volume in (0..volumes).map(VolumeIndex) {
                    s.store(volume, StoreOp::Flush, PrimaryIo::Pulled(volume, lack.round));
                }
            }
            Stage::Flushed if !whole => lack.stage = Stage::Serving,
            _ => {}
        }
    }

    /// One of the flushes behind the last region that was pulled has ended.
    pub(crate) fn pulled_flushed(
        &mut self,
        (volume, round): (VolumeIndex, u32),
        outcome: StoreOutcome,
        s: &mut Shared,
    ) {
        if let StoreOutcome::Failed(fault) = outcome
            && !self.store_failed(volume, Failed::Flush, fault, s)
        {
            // What the store holds of it is unknown from here on.
            let size = s.config.volumes[usize::from(volume.0)];
            self.marks.set(volume, Extent::new(0, size.0));
            self.distrusted.insert(volume);
            s.cover.bitmap_changed();
        }
        let failed = matches!(outcome, StoreOutcome::Failed(_));
        let Some(lack) = &mut self.lack else {
            panic!("a copy from the peer ended that was not started")
        };
        lack.flushes -= 1;
        // Where a store was lost meanwhile, another round follows.
        let Stage::Flushing(left, failures) = lack.stage else { return };
        if round != lack.round {
            return;
        }
        lack.halted |= failed;
        lack.stage = match (left, failures || failed) {
            (2.., failures) => Stage::Flushing(left - 1, failures),
            (_, true) => Stage::Serving,
            (_, false) => Stage::Flushed,
        };
    }

    /// The peer tells what it holds. `pulls`: this node stays primary, and writes what it lacks.
    ///
    /// # Errors
    /// Nobody asked that; the connection must end.
    pub(crate) fn read_told(
        &mut self,
        (ticket, what): (u64, Told),
        pulls: bool,
        s: &mut Shared,
    ) -> Result<(), String> {
        let Some(ask) = self.lack.as_mut().and_then(|lack| lack.asked.remove(&ticket)) else {
            return Err(String::from("it sent the result of a read without a request"));
        };
        if let Some(lack) = &mut self.lack {
            lack.open -= Bytes(ask.extent.length);
        }
        let Ask { volume, extent, .. } = ask;
        let fits = match what {
            Told::Bytes(payload) => u64::from(payload.length) == ask.extent.length,
            Told::Zeros => matches!(ask.goal, For::Pull(_)),
            Told::Failed => true,
        };
        match (ask.goal, what) {
            _ if !fits => {
                self.take_back(ask);
                return Err(format!(
                    "it sent the result of a read that is not {} long",
                    ask.extent
                ));
            }
            (For::Client(id), Told::Bytes(payload)) => s.reply(id, Answer::Read(payload)),
            (For::Client(id), _) => s.reply(id, Answer::Denied(Denial::Store(StoreFault::Io))),
            (For::Pull(claim), what) if !pulls => {
                self.unclaim(claim);
                if let Told::Bytes(payload) = what {
                    s.release(payload.id);
                }
            }
            (For::Pull(claim), Told::Bytes(payload)) => {
                self.fetched(ticket, Fetched { claim, volume, extent, payload: Some(payload) }, s);
            }
            (For::Pull(claim), Told::Zeros) => {
                self.fetched(ticket, Fetched { claim, volume, extent, payload: None }, s);
            }
            (For::Pull(claim), Told::Failed) => self.pull_failed(claim, ask, s),
        }
        Ok(())
    }

    /// A question that got no answer: a client's is asked again, the puller's when its turn comes.
    fn take_back(&mut self, ask: Ask) {
        let Some(lack) = &mut self.lack else { return };
        match ask.goal {
            For::Client(_) => lack.waiting.push_front(ask),
            For::Pull(claim) => self.unclaim(claim),
        }
    }

    /// The connection is gone, and with it every question.
    pub(crate) fn unask(&mut self) {
        let Some(lack) = &mut self.lack else { return };
        lack.open = Bytes::ZERO;
        lack.comparing.clear();
        lack.pulls.clear();
        for (_, ask) in core::mem::take(&mut lack.asked).into_iter().rev() {
            self.take_back(ask);
        }
        self.unclaim_all();
    }

    /// The peer stays away: what waits for it fails, once a record tells of every flush that failed here.
    fn deny_lacking(&mut self, s: &mut Shared) {
        // The record being saved may end a suspicion, and a flush may have failed since that record was made.
        let ending = self.lack.as_ref().is_some_and(|lack| lack.stage == Stage::Ending);
        let recording = s.suspect.unrecorded() != 0 && !planted(Plant::SuspectUnrecorded);
        if (ending || recording) && !s.metadata_failed {
            return;
        }
        let Some(lack) = &mut self.lack else { return };
        let reads: alloc::vec::Vec<Ask> = lack.waiting.drain(..).collect();
        let mut any = !reads.is_empty();
        for ask in reads {
            if let For::Client(id) = ask.goal {
                s.reply(id, Answer::Denied(Denial::Store(StoreFault::Io)));
            }
        }
        any |= self.deny_all(s);
        let Some(lack) = &mut self.lack else { return };
        if any && !core::mem::replace(&mut lack.denying, true) {
            let (group, peer) = (&s.config.group, &s.config.peer);
            s.warn(format!(
                "{group}: some regions exist only on {peer}, and {peer} is not connected: requests \
                 fail with EIO. Connect {peer}; or demote this node and promote {peer}"
            ));
        }
        self.release_front(s);
    }

    /// The peer stays away, and what waits for it fails.
    pub(crate) fn is_denying(&self, s: &Shared) -> bool {
        let parted = self.lack.as_ref().and_then(|lack| lack.parted_at);
        parted.is_some_and(|at| s.now >= at + patience(s))
    }

    /// When what waits for a peer that is away fails.
    pub(crate) fn lack_deadline(&self, s: &Shared) -> Moment {
        let Some(lack) = &self.lack else { return Moment::NEVER };
        let pace = if self.flow.is_some() && lack.stage == Stage::Serving && !lack.halted {
            let rest = if lack.rests_until > s.now { lack.rests_until } else { Moment::NEVER };
            self.copier.pace.next_at(s.now, &s.config.resync).min(rest)
        } else {
            Moment::NEVER
        };
        let due = lack.parted_at.map_or(Moment::NEVER, |at| at + patience(s));
        pace.min(if due > s.now { due } else { Moment::NEVER })
    }
}

/// A peer that is away is waited for that long.
fn patience(s: &Shared) -> core::time::Duration {
    s.config.flush_limit.max(s.config.peer_timeout)
}

impl Lack {
    /// Asks the peer.
    pub(crate) fn ask(&mut self, ask: Ask, s: &mut Shared) {
        let Ask { goal, volume, extent, after } = ask;
        self.tickets += 1;
        let ticket = self.tickets;
        self.open += Bytes(extent.length);
        self.asked.insert(ticket, ask);
        let zeros = matches!(goal, For::Pull(_));
        s.send(Message::Reading(Reading::Wanted { ticket, after, volume, extent, zeros }));
    }
}

impl Engine {
    /// The two speak about what the primary lacks.
    ///
    /// # Errors
    /// What was said is out of turn, or about what does not exist: the connection must end.
    pub(crate) fn peer_reading(&mut self, talk: Reading) -> Result<(), String> {
        let pulls = self.standing.serves();
        let result = match (talk, self.standing.primary_mut()) {
            (Reading::Told { ticket, what }, Some(primary)) => {
                primary.read_told((ticket, what), pulls, &mut self.shared)
            }
            (talk, None) => self.peer_reads.ask(talk, &self.shared),
            (talk, Some(_)) => Err(crate::peer::session::out_of_turn(&Message::Reading(talk))),
        };
        if let (Err(_), Some(payload)) = (&result, talk.payload()) {
            self.shared.release(payload.id);
        }
        result
    }

    /// Asks for the records that go with lacking regions.
    pub(crate) fn record_lack(&mut self) {
        // A store may be given up while the last requests before a demotion are answered: they wait for the record too.
        let leads = self.standing.serves() || self.standing.is_draining();
        if !leads || self.is_saving() {
            return;
        }
        let Some(primary) = self.standing.primary_mut() else { return };
        let kept = primary.marks.is_saved();
        let Some(lack) = &mut primary.lack else { return };
        let news = kept && core::mem::take(&mut lack.unkept);
        let goal = match lack.stage {
            Stage::Recording(false) if self.shared.metadata_failed => {
                return self.lack_unrecorded();
            }
            Stage::Recording(false) if kept => {
                lack.stage = Stage::Recording(true);
                Goal::Lacking
            }
            Stage::Flushed if !self.shared.metadata_failed => {
                lack.stage = Stage::Ending;
                Goal::Whole
            }
            _ if news => return primary.consider_all(&mut self.shared),
            _ => return,
        };
        self.save(goal);
    }

    /// Every page of marks is to be kept at once: a record waits for them.
    pub(crate) fn is_recording_lack(&self) -> bool {
        let lack = self.standing.primary().and_then(|primary| primary.lack.as_ref());
        lack.is_some_and(|lack| lack.stage == Stage::Recording(false) || lack.unkept)
    }

    /// The record says that this node's image is not consistent: from here on the peer's is served.
    pub(crate) fn lacking_saved(&mut self) {
        let lineage = self.superblock.lineage;
        let connected = self.session.peer().is_some();
        let Some(primary) = self.standing.primary_mut() else { return };
        let marked = primary.marks.dirty_bytes();
        let Some(lack) = &mut primary.lack else { return };
        lack.stage = Stage::Serving;
        let reversal = lack.reversal.take();
        let s = &mut self.shared;
        let peer = s.config.peer.clone();
        primary.copier.progress.begin(marked, s.now);
        if let Some(Reversal { head, .. }) = reversal {
            primary.unreplicated = Unreplicated::Together;
            if connected {
                primary.begin_stream(lineage, head.next(), true, s);
            }
        }
        s.info(format!("{marked} in dirty regions are served from {peer}, and copied from there"));
        primary.consider_all(s);
        if let Some(Reversal { command, .. }) = reversal {
            self.done(
                command,
                Ok(format!(
                    "the copy of {peer} is served from now on; {marked} are copied in the \
                                           background"
                )),
            );
        }
    }

    /// That record could not be made: a reversal does not begin, and where a store was lost nothing is answered that the
    /// record would have to tell of.
    pub(crate) fn lack_unrecorded(&mut self) {
        let Some(primary) = self.standing.primary_mut() else { return };
        if primary.has_lost() {
            // What ends later is denied as well.
            if let Some(lack) = &mut primary.lack {
                lack.stage = Stage::Recording(false);
            }
            primary.deny_all(&mut self.shared);
            return primary.release_front(&mut self.shared);
        }
        let Some(lack) = primary.lack.take() else { return };
        for ask in lack.waiting.iter().chain(lack.asked.values()) {
            if let For::Client(id) = ask.goal {
                self.shared.reply(id, Answer::Denied(Denial::Store(StoreFault::Io)));
            }
        }
        primary.marks.abandon_copies();
        let Some(Reversal { command, .. }) = lack.reversal else { return };
        primary.drop_queue("the reverse resync could not be recorded", &mut self.shared);
        self.shared.cover.bitmap_changed();
        self.done(command, Err(self.shared.metadata_refusal()));
    }

    /// What waits for a place in the metadata fails with everything else that waits for a peer that stays away.
    pub(crate) fn deny_parked(&mut self) {
        let denying = self.standing.primary().is_some_and(|p| p.is_denying(&self.shared));
        if !denying || !self.shared.cover.is_stuck() {
            return;
        }
        // That is no fault of the store's.
        self.fail_parked();
    }

    /// Changes the record of a primary that has all regions again and no suspect copy. Changes nothing if a region was marked since
    /// the save was requested.
    pub(crate) fn shape_whole(&self, b: &mut Superblock) {
        if self.standing.primary().is_some_and(|primary| primary.marks.none_dirty()) {
            (b.consistent, b.suspect) = (true, 0);
        }
    }

    /// The record says that this node's image is consistent again.
    pub(crate) fn whole_saved(&mut self) {
        let Some(primary) = self.standing.primary_mut() else { return };
        let s = &mut self.shared;
        if !primary.marks.none_dirty() {
            if let Some(lack) = &mut primary.lack {
                lack.stage = Stage::Recording(false);
            }
            return;
        }
        primary.lack = None;
        primary.distrusted.clear();
        s.info(format!("this node has everything again and no longer needs {}", s.config.peer));
        primary.mode_changed(s);
    }
}

/// A client's read of this node's own store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reader {
    pub(crate) id: RequestId,
    pub(crate) volume: VolumeIndex,
    pub(crate) extent: Extent,
}

/// Names a region that the peer told.
pub(crate) type Pulled = u64;

/// Lets a payload go where there is one.
pub(crate) fn let_go(payload: Option<Payload>, s: &mut Shared) {
    let id: Option<PayloadId> = payload.map(|payload| payload.id);
    id.into_iter().for_each(|id| s.release(id));
}
