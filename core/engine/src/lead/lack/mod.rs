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

pub(crate) mod compare;
mod lose;
pub(crate) mod pull;
pub(crate) mod pulling;
pub(crate) mod questions;
mod reads;
mod recorded;

use crate::event::CommandId;
use crate::lead::lack::pulling::Pulling;
use crate::lead::lack::questions::{Ask, Questions};
use crate::record::save::Goal;
use crate::turn::Turn;
use alloc::collections::BTreeMap;
use helio_bitmap::Bitmap;
use helio_copy::Claim;
use helio_format::message::Item;
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

/// What is to be recorded of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// Nothing, but marks were kept that answers may wait for.
    News,
    Record(Goal),
    /// That this node's image is not consistent, and it cannot be recorded.
    Unrecordable,
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
pub(crate) enum Parting {
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
    questions: Questions,
    pulling: Pulling,
    flushes: Flushes,
    parting: Parting,
}

impl Lack {
    /// Its own store failed, or an operator reverses the resync.
    pub(crate) fn new(reversal: Option<Reversal>) -> Self {
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
    pub(crate) fn lost(&self) -> impl Iterator<Item = VolumeIndex> {
        self.lost.keys().copied()
    }

    /// Whether the store of that volume is given up.
    pub(crate) fn has_lost(&self, volume: VolumeIndex) -> bool {
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
    pub(crate) fn lose(&mut self, volume: VolumeIndex) {
        self.lost.insert(volume, Marks::Set);
        if matches!(self.stage, Stage::Flushing(..) | Stage::Flushed) {
            self.stage = Stage::Serving;
        }
        self.pulling.touch(..);
    }

    /// The store of a volume is used again.
    pub(crate) fn use_again(&mut self, volume: VolumeIndex) {
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
    pub(crate) fn absolves(&self, item: &Item) -> bool {
        item.kind.changes_data() || self.has_lost(item.volume)
    }

    /// It is recorded. Returns the reversal that it began with, where that was not recorded before.
    pub(crate) const fn recorded(&mut self) -> Option<Reversal> {
        let reversal = self.reversal();
        self.stage = Stage::Serving;
        if reversal.is_some() {
            self.cause = Cause::Reversed;
        }
        reversal
    }

    /// What is to be recorded now. `kept`: every mark is. `failed`: the metadata file cannot be written.
    pub(crate) fn due(&mut self, kept: bool, failed: bool) -> Due {
        let news = kept && self.kept();
        match self.stage {
            Stage::Recording(false) if failed => Due::Unrecordable,
            // A store was given up after the record was written, and the metadata file failed before its marks were kept.
            _ if failed && self.is_unkept() => Due::Unrecordable,
            Stage::Recording(false) if kept => {
                self.stage = Stage::Recording(true);
                Due::Record(Goal::Lacking)
            }
            Stage::Flushed if !failed => {
                self.stage = Stage::Ending;
                Due::Record(Goal::Whole)
            }
            _ if news => Due::News,
            _ => Due::Nothing,
        }
    }

    /// What was recorded does not hold any more, or could not be recorded.
    pub(crate) const fn record_again(&mut self) {
        self.stage = Stage::Recording(false);
    }

    /// Whether bytes of that extent are being copied from the peer.
    pub(crate) fn is_pulling(&self, volume: VolumeIndex, extent: Extent) -> bool {
        self.pulling.is_at(volume, extent)
    }

    /// Copying from the peer, which a failure had halted, goes on.
    pub(crate) fn go_on(&mut self) {
        self.pulling.go_on();
    }

    /// Clients' reads that wait for the peer.
    pub(crate) fn reads(&self) -> impl Iterator<Item = RequestId> {
        self.questions.reads()
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
    pub(crate) fn is_idle(&self) -> bool {
        self.is_quiet() && self.questions.none_open() && self.pulling.is_idle()
    }

    /// Whether a region of that size may be claimed now.
    pub(crate) fn may_claim(&self, grain: Bytes, now: Moment) -> bool {
        self.stage == Stage::Serving
            && self.pulling.may_claim(grain, now)
            && self.questions.admits_claim(self.pulling.differing(), grain)
    }

    /// Claims the next lacking region of a store that is not given up, of the volumes that `fits` accepts.
    pub(crate) fn claim(
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
    pub(crate) fn next_differing(&mut self) -> Option<Ask> {
        self.pulling.next_differing(|length| self.questions.admits_piece(length))
    }

    /// One of the flushes behind the last region has ended.
    pub(crate) fn flushed(&mut self, round: u32, failed: bool) {
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
    pub(crate) const fn part(&mut self, now: Moment) {
        if let Parting::Streams = self.parting {
            self.parting = Parting::Waiting(now);
        }
    }

    /// Requests fail from here on. Returns whether they did before.
    pub(crate) fn deny(&mut self) -> bool {
        let Parting::Waiting(at) = self.parting else { return true };
        self.parting = Parting::Denying(at);
        false
    }

    /// When what waits for a peer that is away fails.
    pub(crate) fn denies_at(&self, turn: &Turn) -> Option<Moment> {
        // A peer that is away is waited for that long.
        let patience = turn.config().flush_limit.max(turn.config().peer_timeout);
        self.parting.since().map(|at| at + patience)
    }

    pub(crate) fn is_denying(&self, turn: &Turn) -> bool {
        self.denies_at(turn).is_some_and(|at| turn.now() >= at)
    }
}

/// Lets a payload go where there is one.
pub(crate) fn let_go(payload: Option<Payload>, turn: &mut Turn) {
    let id: Option<PayloadId> = payload.map(|payload| payload.id);
    id.into_iter().for_each(|id| turn.release(id));
}
