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
use crate::local::Local;
use crate::local::failure::Failed;
use crate::local::pulling::{Fetched, Pulling};
use crate::local::questions::{Ask, For, Questions};
use crate::peer::outgoing::Opening;
use crate::peer::permit::Permit;
use crate::peer::primary::{Primary, PrimaryIo};
use crate::purpose::Purpose;
use crate::record::save::Goal;
use crate::refusal::{Denial, StoreFault};
use crate::stream::ack::{Here, Leg};
use crate::stream::unreplicated::Unreplicated;
use crate::turn::Turn;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use helio_bitmap::Bitmap;
use helio_copy::Claim;
use helio_format::message::{Item, Message};
use helio_format::reading::{Reading, Told};
use helio_format::superblock::Superblock;
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, Moment, Payload, PayloadId, RequestId, Sequence, VolumeIndex};

/// See the drawing above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The record that says so is wanted (false), or on its way (true).
    Recording(bool),
    Serving,
    /// Volumes whose flush has not ended, and whether one failed.
    Flushing(u16, bool),
    Flushed,
    Ending,
}

/// A reversal that is being recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reversal {
    pub(crate) command: CommandId,
    /// The line goes on behind this item, in a generation of its own.
    pub(crate) head: Sequence,
}

/// What made it lack regions.
#[derive(Clone, Copy, Debug)]
enum Cause {
    /// Its own store failed.
    Failure,
    /// An operator started a reverse resync: no node continues the previous generation.
    Reversal(Reversal),
    /// The same, and the record says so.
    Reversed,
}

/// How long no stream flows.
#[derive(Clone, Copy, Debug)]
enum Parting {
    Streams,
    /// Since then, and what waits for the peer waits on.
    Waiting(Moment),
    /// Since then, and requests fail.
    Denying(Moment),
}

impl Parting {
    const fn since(self) -> Option<Moment> {
        match self {
            Self::Streams => None,
            Self::Waiting(at) | Self::Denying(at) => Some(at),
        }
    }
}

/// The flushes behind the last region that was pulled.
#[derive(Clone, Debug, Default)]
struct Flushes {
    /// Counts how often everything was flushed.
    round: u32,
    /// Those of any round that did not end.
    open: u32,
}

impl Flushes {
    fn begin(&mut self, volumes: u16) -> u32 {
        self.round += 1;
        self.open += u32::from(volumes);
        self.round
    }

    /// One of them ended. Returns whether it is of the last round.
    const fn end(&mut self, round: u32) -> bool {
        self.open -= 1;
        round == self.round
    }
}

/// How the marks of a volume tell that its store is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marks {
    /// In memory.
    Set,
    /// Every one of them is kept.
    Kept,
}

/// What a primary holds while it lacks something.
#[derive(Clone, Debug)]
pub(crate) struct Lack {
    stage: Stage,
    cause: Cause,
    /// Volumes whose own store failed and is given up.
    lost: BTreeMap<VolumeIndex, Marks>,
    pub(super) questions: Questions,
    pub(super) pulling: Pulling,
    flushes: Flushes,
    parting: Parting,
}

impl Lack {
    /// Its own store failed, or an operator reverses the resync.
    pub(super) fn new(reversal: Option<Reversal>) -> Self {
        Self {
            stage: Stage::Recording(false),
            cause: reversal.map_or(Cause::Failure, Cause::Reversal),
            lost: BTreeMap::new(),
            questions: Questions::default(),
            pulling: Pulling::default(),
            flushes: Flushes::default(),
            parting: Parting::Streams,
        }
    }

    /// Volumes whose own store failed and is given up.
    pub(super) fn lost(&self) -> impl Iterator<Item = VolumeIndex> {
        self.lost.keys().copied()
    }

    /// Whether the store of that volume is given up.
    pub(super) fn has_lost(&self, volume: VolumeIndex) -> bool {
        self.lost.contains_key(&volume)
    }

    /// What became lacking last is not kept as marks yet.
    fn is_unkept(&self) -> bool {
        self.lost.values().any(|marks| *marks == Marks::Set)
    }

    /// Every mark is kept. Returns whether that is news.
    fn kept(&mut self) -> bool {
        let news = self.is_unkept();
        self.lost.values_mut().for_each(|marks| *marks = Marks::Kept);
        news
    }

    /// Gives the store of a volume up.
    pub(super) fn lose(&mut self, volume: VolumeIndex) {
        self.lost.insert(volume, Marks::Set);
        if matches!(self.stage, Stage::Flushing(..) | Stage::Flushed) {
            self.stage = Stage::Serving;
        }
        self.pulling.touch(..);
    }

    /// The store of a volume is used again.
    pub(super) fn use_again(&mut self, volume: VolumeIndex) {
        self.lost.remove(&volume);
        self.pulling.go_on();
    }

    /// The reversal that is being recorded.
    pub(crate) const fn reversal(&self) -> Option<Reversal> {
        match self.cause {
            Cause::Reversal(reversal) => Some(reversal),
            Cause::Failure | Cause::Reversed => None,
        }
    }

    /// It began with a reversal: the line before is nobody's.
    pub(crate) const fn reverses(&self) -> bool {
        !matches!(self.cause, Cause::Failure)
    }

    /// The superblock says that this node's image is not consistent.
    pub(crate) fn is_recorded(&self) -> bool {
        matches!(self.stage, Stage::Serving | Stage::Flushing(..) | Stage::Flushed)
            && !self.is_unkept()
    }

    /// A failed item's bytes are the peer's to give: its regions are lacking.
    fn absolves(&self, item: &Item) -> bool {
        item.kind.changes_data() || self.has_lost(item.volume)
    }

    /// It is recorded. Returns the reversal that it began with, where that was not recorded before.
    const fn recorded(&mut self) -> Option<Reversal> {
        let reversal = self.reversal();
        self.stage = Stage::Serving;
        if reversal.is_some() {
            self.cause = Cause::Reversed;
        }
        reversal
    }

    /// Every page of marks is to be kept at once: a record waits for them.
    pub(crate) fn is_recording(&self) -> bool {
        self.stage == Stage::Recording(false) || self.is_unkept()
    }

    /// No client waits for the peer's word about a read, and nothing is being written here.
    pub(crate) fn is_quiet(&self) -> bool {
        // A store that is lost meanwhile ends the round, and not its flushes.
        self.questions.reads().next().is_none() && self.pulling.is_quiet() && self.flushes.open == 0
    }

    /// Nothing is asked, and no region is being pulled.
    fn is_idle(&self) -> bool {
        self.is_quiet() && self.questions.none_open() && self.pulling.is_idle()
    }

    /// Whether a region of that size may be claimed now.
    pub(super) fn may_claim(&self, grain: Bytes, now: Moment) -> bool {
        self.stage == Stage::Serving
            && self.pulling.may_claim(grain, now)
            && self.questions.admits_claim(self.pulling.differing(), grain)
    }

    /// Claims the next lacking region of a store that is not given up, of the volumes that `fits` accepts.
    pub(super) fn claim(
        &mut self,
        fits: impl Fn(VolumeIndex) -> bool,
        volumes: usize,
        marks: &mut Bitmap,
    ) -> Option<Claim> {
        let (lost, fits) = (&self.lost, &fits);
        let volumes = (0..volumes as u16).map(VolumeIndex);
        let volumes = volumes.filter(move |v| !lost.contains_key(v) && fits(*v));
        let claim = self.pulling.claim(self.questions.next_ticket(), volumes, marks)?;
        self.questions.take_ticket(claim.number);
        Some(claim)
    }

    /// The next piece that was found to differ, if the peer may be asked for it now.
    pub(super) fn next_differing(&mut self) -> Option<Ask> {
        self.pulling.next_differing(|length| self.questions.admits_piece(length))
    }

    /// One of the flushes behind the last region has ended.
    fn flushed(&mut self, round: u32, failed: bool) {
        let is_last = self.flushes.end(round);
        // Where a store was lost meanwhile, another round follows.
        let Stage::Flushing(left, failures) = self.stage else { return };
        if !is_last {
            return;
        }
        if failed {
            self.pulling.halt();
        }
        self.stage = match (left, failures || failed) {
            (2.., failures) => Stage::Flushing(left - 1, failures),
            (_, true) => Stage::Serving,
            (_, false) => Stage::Flushed,
        };
    }

    /// No stream flows.
    const fn part(&mut self, now: Moment) {
        if let Parting::Streams = self.parting {
            self.parting = Parting::Waiting(now);
        }
    }

    /// Requests fail from here on. Returns whether they did before.
    fn deny(&mut self) -> bool {
        let Parting::Waiting(at) = self.parting else { return true };
        self.parting = Parting::Denying(at);
        false
    }

    /// When what waits for a peer that is away fails.
    fn denies_at(&self, turn: &Turn) -> Option<Moment> {
        // A peer that is away is waited for that long.
        let patience = turn.config().flush_limit.max(turn.config().peer_timeout);
        self.parting.since().map(|at| at + patience)
    }

    fn is_denying(&self, turn: &Turn) -> bool {
        self.denies_at(turn).is_some_and(|at| turn.now() >= at)
    }
}

impl Primary {
    /// A client reads: here, or where it is lacking here, at the peer.
    pub(crate) fn read(
        &mut self,
        id: RequestId,
        volume: VolumeIndex,
        extent: Extent,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        match &mut self.lack {
            Some(lack) if self.marks.any_dirty(volume, extent) => {
                let (goal, after) = (For::Client(id), self.line.head);
                lack.questions.wait(Ask { goal, volume, extent, after });
            }
            _ => {
                let op = StoreOp::Read { extent, look_for_zeros: false };
                local.store(volume, op, Purpose::Read(Reader { id, volume, extent }), turn);
            }
        }
    }

    /// How an item counts on this node for its answer.
    pub(crate) fn local_leg(&self, item: &Item, leg: Leg, local: &Local) -> Here {
        let as_it_is = match leg {
            Leg::Pending => Here::Pending,
            Leg::Done => Here::Done,
            Leg::Failed => Here::Failed,
        };
        let Some(lack) = &self.lack else {
            let waits = Self::awaits_suspect_record(item, leg, local);
            return if waits { Here::Unrecorded } else { as_it_is };
        };
        // The peer's image is the only one there is: while it is out of order, nothing is promised of it.
        if self.owed.marker().is_some() {
            return Here::Unrecorded;
        }
        let failed = leg == Leg::Failed && lack.absolves(item);
        match leg {
            Leg::Pending => Here::Pending,
            _ if failed || lack.has_lost(item.volume) => match (lack.is_recorded(), leg) {
                (false, _) => Here::Unrecorded,
                (true, Leg::Failed) => Here::OnPeer,
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
    pub(crate) fn lack_step(&mut self, pulls: bool, local: &mut Local, turn: &mut Turn) {
        let streams = self.flow.is_some();
        let Some(lack) = &mut self.lack else { return };
        if !streams {
            lack.part(turn.now());
            if lack.is_denying(turn) {
                self.deny_lacking(local, turn);
            }
            return;
        }
        lack.parting = Parting::Streams;
        while let Some(ask) = lack.questions.next_read() {
            turn.send(lack.questions.ask(ask));
        }
        if pulls {
            self.pull_step(turn);
        }
        self.end_step(local, turn);
    }

    fn end_step(&mut self, local: &mut Local, turn: &mut Turn) {
        let Some(lack) = &mut self.lack else { return };
        let whole = self.marks.none_dirty();
        match lack.stage {
            Stage::Serving if whole && lack.is_idle() => {
                let volumes = turn.config().volumes.len() as u16;
                let round = lack.flushes.begin(volumes);
                lack.stage = Stage::Flushing(volumes, false);
                for volume in (0..volumes).map(VolumeIndex) {
                    local.store(volume, StoreOp::Flush, PrimaryIo::Pulled(volume, round), turn);
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
        local: &mut Local,
        turn: &mut Turn,
    ) {
        if let StoreOutcome::Failed(fault) = outcome
            && !self.store_failed(volume, Failed::Flush, fault, local, turn)
        {
            // What the store holds of it is unknown from here on.
            let size = turn.config().volumes[usize::from(volume.0)];
            self.marks.set(volume, Extent::new(0, size.0));
            self.distrusted.insert(volume);
            local.hot_mut().bitmap_changed();
        }
        let failed = matches!(outcome, StoreOutcome::Failed(_));
        let Some(lack) = &mut self.lack else {
            panic!("a copy from the peer ended that was not started")
        };
        lack.flushed(round, failed);
    }

    /// The peer tells what it holds. `pulls`: this node stays primary, and writes what it lacks.
    ///
    /// # Errors
    /// Nobody asked that; the connection must end.
    pub(crate) fn read_told(
        &mut self,
        (ticket, what): (u64, Told),
        pulls: bool,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> Result<(), String> {
        let Some(ask) = self.lack.as_mut().and_then(|lack| lack.questions.answered(ticket)) else {
            return Err(String::from("it sent the result of a read without a request"));
        };
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
            (For::Client(id), Told::Bytes(payload)) => turn.reply(id, Answer::Read(payload)),
            (For::Client(id), _) => turn.reply(id, Answer::Denied(Denial::Store(StoreFault::Io))),
            (For::Pull(claim), what) if !pulls => {
                self.unclaim(claim);
                if let Told::Bytes(payload) = what {
                    turn.release(payload.id);
                }
            }
            (For::Pull(claim), Told::Bytes(payload)) => {
                self.fetched(
                    ticket,
                    Fetched { claim, volume, extent, payload: Some(payload) },
                    local,
                    permit,
                    turn,
                );
            }
            (For::Pull(claim), Told::Zeros) => {
                self.fetched(
                    ticket,
                    Fetched { claim, volume, extent, payload: None },
                    local,
                    permit,
                    turn,
                );
            }
            (For::Pull(claim), Told::Failed) => self.pull_failed(claim, ask, turn),
        }
        Ok(())
    }

    /// A question that got no answer: a client's is asked again, the puller's when its turn comes.
    fn take_back(&mut self, ask: Ask) {
        let Some(lack) = &mut self.lack else { return };
        match ask.goal {
            For::Client(_) => lack.questions.wait_again(ask),
            For::Pull(claim) => self.unclaim(claim),
        }
    }

    /// The connection is gone, and with it every question.
    pub(crate) fn unask(&mut self) {
        let Some(lack) = &mut self.lack else { return };
        lack.pulling.unask();
        for ask in lack.questions.take_asked().rev() {
            self.take_back(ask);
        }
        if let Some(lack) = &mut self.lack {
            lack.pulling.unclaim_all(&mut self.marks);
        }
    }

    /// The peer stays away: what waits for it fails, once a record tells of every flush that failed here.
    fn deny_lacking(&mut self, local: &Local, turn: &mut Turn) {
        // The record being saved may end a suspicion, and a flush may have failed since that record was made.
        let ending = self.lack.as_ref().is_some_and(|lack| lack.stage == Stage::Ending);
        let recording = local.suspect().unrecorded() != 0 && !planted(Plant::SuspectUnrecorded);
        if (ending || recording) && !local.metadata_failed() {
            return;
        }
        let Some(lack) = &mut self.lack else { return };
        let mut any = false;
        for id in lack.questions.take_waiting() {
            any = true;
            turn.reply(id, Answer::Denied(Denial::Store(StoreFault::Io)));
        }
        any |= self.deny_all(turn);
        let Some(lack) = &mut self.lack else { return };
        if any && !lack.deny() {
            let (group, peer) = (&turn.config().group, &turn.config().peer);
            turn.warn(format!(
                "{group}: some regions exist only on {peer}, and {peer} is not connected: requests \
                 fail with EIO. Connect {peer}; or demote this node and promote {peer}"
            ));
        }
        self.release_front(turn);
    }

    /// The peer stays away, and what waits for it fails.
    pub(crate) fn is_denying(&self, turn: &Turn) -> bool {
        self.lack.as_ref().is_some_and(|lack| lack.is_denying(turn))
    }

    /// Every page of marks is to be kept at once: a record waits for them.
    pub(crate) fn is_recording_lack(&self) -> bool {
        self.lack.as_ref().is_some_and(Lack::is_recording)
    }

    /// When what waits for a peer that is away fails.
    pub(crate) fn lack_deadline(&self, turn: &Turn) -> Moment {
        let Some(lack) = &self.lack else { return Moment::NEVER };
        let later = |at: &Moment| *at > turn.now();
        let pulls = self.flow.is_some() && lack.stage == Stage::Serving;
        let pace = match lack.pulling.rests_until().filter(|_| pulls) {
            Some(rest) => {
                let rest = Some(rest).filter(later).unwrap_or(Moment::NEVER);
                self.copier.pace.next_at(turn.now(), &turn.config().resync).min(rest)
            }
            None => Moment::NEVER,
        };
        pace.min(lack.denies_at(turn).filter(later).unwrap_or(Moment::NEVER))
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
            (Reading::Told { ticket, what }, Some(primary)) => primary.read_told(
                (ticket, what),
                pulls,
                &mut self.local,
                &self.permit,
                &mut self.turn,
            ),
            (talk, None) => self.peer.reads.ask(talk, &self.local, &self.turn),
            (talk, Some(_)) => Err(crate::peer::session::out_of_turn(&Message::Reading(talk))),
        };
        if let (Err(_), Some(payload)) = (&result, talk.payload()) {
            self.turn.release(payload.id);
        }
        result
    }

    /// Asks for the records that go with lacking regions.
    pub(crate) fn record_lack(&mut self) {
        // A store may be given up while the last requests before a demotion are answered: they wait for the record too.
        let leads = self.standing.serves() || self.standing.is_draining();
        if !leads || self.record.is_saving() {
            return;
        }
        let Some(primary) = self.standing.primary_mut() else { return };
        let kept = primary.marks.is_saved();
        let Some(lack) = &mut primary.lack else { return };
        let news = kept && lack.kept();
        let goal = match lack.stage {
            Stage::Recording(false) if self.local.metadata_failed() => {
                return self.lack_unrecorded();
            }
            Stage::Recording(false) if kept => {
                lack.stage = Stage::Recording(true);
                Goal::Lacking
            }
            Stage::Flushed if !self.local.metadata_failed() => {
                lack.stage = Stage::Ending;
                Goal::Whole
            }
            _ if news => return primary.consider_all(&self.local, &self.permit, &mut self.turn),
            _ => return,
        };
        self.save(goal);
    }

    /// The record says that this node's image is not consistent: from here on the peer's is served.
    pub(crate) fn lacking_saved(&mut self) {
        let lineage = self.record.superblock().lineage;
        let connected = self.peer.session.peer().is_some();
        let Some(primary) = self.standing.primary_mut() else { return };
        let marked = primary.marks.dirty_bytes();
        let Some(lack) = &mut primary.lack else { return };
        let reversal = lack.recorded();
        let peer = self.turn.config().peer.clone();
        primary.copier.progress.begin(marked, self.turn.now());
        if let Some(Reversal { head, .. }) = reversal {
            primary.unreplicated = Unreplicated::Together;
            if connected {
                primary.begin_stream(
                    Opening { lineage, from: head.next(), consistent: true },
                    &mut self.resync.verify,
                    &self.local,
                    &self.permit,
                    &mut self.turn,
                );
            }
        }
        self.turn.info(format!(
            "{marked} in dirty regions are served from {peer}, and copied from there"
        ));
        primary.consider_all(&self.local, &self.permit, &mut self.turn);
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
            primary.deny_all(&mut self.turn);
            return primary.release_front(&mut self.turn);
        }
        let Some(lack) = primary.lack.take() else { return };
        for id in lack.questions.reads() {
            self.turn.reply(id, Answer::Denied(Denial::Store(StoreFault::Io)));
        }
        primary.marks.abandon_copies();
        let Some(Reversal { command, .. }) = lack.reversal() else { return };
        primary.drop_queue(
            "the reverse resync could not be recorded",
            &mut self.local,
            &self.permit,
            &mut self.turn,
        );
        self.local.hot_mut().bitmap_changed();
        self.done(command, Err(self.turn.metadata_refusal()));
    }

    /// What waits for a place in the metadata fails with everything else that waits for a peer that stays away.
    pub(crate) fn deny_parked(&mut self) {
        let denying = self.standing.primary().is_some_and(|p| p.is_denying(&self.turn));
        if !denying || !self.local.hot().is_stuck() {
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
        if !primary.marks.none_dirty() {
            if let Some(lack) = &mut primary.lack {
                lack.stage = Stage::Recording(false);
            }
            return;
        }
        primary.lack = None;
        primary.distrusted.clear();
        self.turn.info(format!(
            "this node has everything again and no longer needs {}",
            self.turn.config().peer
        ));
        primary.mode_changed(&self.local, &self.permit, &mut self.turn);
    }
}

/// A client's read of this node's own store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reader {
    pub(crate) id: RequestId,
    pub(crate) volume: VolumeIndex,
    pub(crate) extent: Extent,
}

/// Lets a payload go where there is one.
pub(crate) fn let_go(payload: Option<Payload>, turn: &mut Turn) {
    let id: Option<PayloadId> = payload.map(|payload| payload.id);
    id.into_iter().for_each(|id| turn.release(id));
}
