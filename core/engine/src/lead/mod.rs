// SPDX-License-Identifier: Apache-2.0
//! What a node holds while it is primary: the line, the gate, the queue, the marks, and the stream to its peer.

mod check;
pub(crate) mod commanded;
mod conversation;
mod copying;
mod keeping;
pub(crate) mod lack;
mod last_copy;
mod lease;
mod meet;
pub(crate) mod outgoing;
mod own;
mod peer;
mod period;
mod seeding;
mod snapshots;
pub(crate) mod status;
mod survey;
mod suspect;
mod target;
pub(crate) mod ticket;
mod unreplicated;
mod verifying;
mod write;

use crate::config::Config;
use crate::event::StoreOutcome;
use crate::lead::lack::Lack;
use crate::lead::own::OwnStore;
use crate::lead::snapshots::Snapshots;
use crate::lead::target::Target;
use crate::lead::ticket::Ticket;
use crate::local::Local;
use crate::local::failure::Failed;
use crate::peer::permit::Permit;
use crate::purpose::PrimaryIo;
use crate::purpose::Reader;
use crate::resync::copier::Copier;
use crate::resync::verify::Verify;
use crate::stream::gate::Gate;
use crate::stream::line::{Entry, Line};
use crate::stream::queue::Queue;
use crate::stream::requests::Requests;
use crate::stream::times::AnswerTimes;
use crate::stream::unreplicated::Unreplicated;
use crate::turn::Turn;
use alloc::format;
use core::time::Duration;
use helio_bitmap::Bitmap;
use helio_format::message::Item;
use helio_plant::{Plant, planted};
use helio_stack::StoreFault;
use helio_units::{Bytes, Mode, Moment, Sequence, VolumeIndex};

/// What a node holds while it is primary.
#[derive(Clone, Debug)]
pub(crate) struct Primary {
    line: Line,
    gate: Gate<Ticket>,
    queue: Queue,
    marks: Bitmap,
    requests: Requests,
    own: OwnStore,
    /// Whether writes may be acknowledged without the peer.
    unreplicated: Unreplicated,
    /// Since when regions are dirty, if any are; not later than the oldest write that they stand for.
    dirty_since: Option<Moment>,
    /// The peer that everything is sent to.
    target: Target,
    copier: Copier,
    /// Regions of this node's own store are not good, and the peer's are.
    lack: Option<Lack>,
    /// What is done about copies at items of the line.
    snapshots: Snapshots,
}

impl Primary {
    /// A primary that begins after `head`, with what is marked. `equal`: the peer's copy is proven equal up to there,
    /// so order is kept from the start.
    pub(crate) fn new(
        config: &Config,
        head: Sequence,
        marks: Bitmap,
        equal: bool,
        now: Moment,
    ) -> Self {
        Self {
            line: Line::starting_after(head),
            gate: Gate::new(config.volumes.len()),
            queue: Queue::new(config.queue, now),
            marks,
            requests: Requests::starting_after(head),
            own: OwnStore::starting_after(head),
            unreplicated: Unreplicated::Recorded,
            dirty_since: None,
            target: Target::new(head, equal),
            copier: Copier::default(),
            lack: None,
            snapshots: Snapshots::default(),
        }
    }

    /// An operation of its own ended.
    #[inline]
    pub(crate) fn ended(
        &mut self,
        io: PrimaryIo,
        outcome: StoreOutcome,
        verify: &mut Verify,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        match io {
            PrimaryIo::Local(at) => self.local_done(at, outcome, local, permit, turn),
            PrimaryIo::Copy(job) => self.copy_done(job, outcome, local, permit, turn),
            PrimaryIo::Survey(id) => self.surveyed(id, outcome, local, permit, turn),
            PrimaryIo::Verify(check) => {
                self.verify_done(check, outcome, verify, local, permit, turn)
            }
            PrimaryIo::Compare(claim) => self.compared(claim, outcome, turn),
            PrimaryIo::Pull(ticket) => self.pull_written(ticket, outcome, local, permit, turn),
            PrimaryIo::Pulled(volume, round) => {
                self.pulled_flushed((volume, round), outcome, local, turn)
            }
        }
    }

    /// A client's read of this node's own store ended. What is read of a store that was given up meanwhile is asked of the
    /// peer, and so is what the store could not read where the peer takes its place.
    pub(crate) fn read_ended(
        &mut self,
        reader: Reader,
        outcome: StoreOutcome,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let Reader { id, volume, extent } = reader;
        let elsewhere = match outcome {
            StoreOutcome::Read { payload, .. } if self.is_dropped(volume, local) => {
                turn.release(payload.id);
                true
            }
            StoreOutcome::Failed(fault) => {
                self.store_failed(volume, Failed::Read, fault, local, turn)
            }
            _ => false,
        };
        if elsewhere {
            return self.read(id, volume, extent, local, turn);
        }
        turn.answer_read(id, outcome);
    }

    /// The mode that answers are to have.
    pub(crate) fn wanted_mode(&self, asked: Mode) -> Mode {
        if self.lack.is_some() { Mode::Sync } else { asked }
    }

    /// The mode in force for answers given now.
    pub(crate) fn effective(&self, asked: Mode) -> Mode {
        let counts = || self.target.answers_count() && !self.target.owed().is_image_out_of_order();
        match () {
            () if self.lack.is_some() && !planted(Plant::LackAlone) => Mode::Sync,
            () if asked != Mode::Periodic && counts() => asked,
            () => Mode::Async,
        }
    }

    /// Gives up order: everything queued becomes marks, and nothing is kept for the peer but those.
    pub(crate) fn drop_queue(
        &mut self,
        because: &'static str,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        if self.target.owed().queues_in_order() {
            let lost = self.line.head().0 - self.target.cursors().durable().0;
            turn.warn(format!(
                "queue dropped: {because}; {lost} items are only recorded in the bitmap, and their order is lost"
            ));
        }
        self.keep_marks_only(because, local, permit, turn);
    }

    /// Nothing is kept for the peer but marks.
    fn keep_marks_only(
        &mut self,
        because: &'static str,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        self.dirty_since = self.dirty_since.or(self.line.pended_since());
        if !planted(Plant::DropUnmarked) {
            self.marks.pending_to_dirty();
        }
        self.marks.end_cut();
        self.target.period_mut().stop();
        local.hot_mut().bitmap_changed();
        self.copier.begin_anew(self.line.head(), &mut self.marks);
        self.line.iter_mut().for_each(|entry| _ = entry.unpend());
        self.target.drop_order(because);
        self.copier.stop();
        self.consider_all(local, permit, turn);
    }

    /// On the way out: what waits for room in the queue of a peer that is away would wait for ever, and so would what
    /// waits for an extent to turn cold in which that peer lacks something.
    pub(crate) fn wait_for_nobody(&mut self, local: &mut Local, permit: &Permit, turn: &mut Turn) {
        let waits = self.queue.waiters() > 0 || local.hot().is_full();
        if waits && !self.target.streams() && self.target.owed().queues_in_order() {
            self.drop_queue(
                "the peer is not connected, and this node leaves the primary role",
                local,
                permit,
                turn,
            );
        }
    }

    /// Up to here this node's own records cover what its line did.
    pub(crate) fn covered(&self) -> Sequence {
        self.own.covered()
    }

    /// The marks are kept: of what failed on its own store, too.
    pub(crate) fn marks_kept(&mut self) {
        self.own.marks_kept();
    }

    /// Its own store failed on a volume, and how; or has no space there.
    pub(crate) fn fault(&self) -> Option<(VolumeIndex, StoreFault)> {
        self.own.shown_fault()
    }

    /// Whether a volume has no space on its own store, and nothing worse failed.
    pub(crate) fn is_full(&self, volume: VolumeIndex) -> bool {
        self.own.fault().is_none() && self.own.is_full(volume)
    }

    /// What failed on its own store does not count any more: an operator lets it go on.
    pub(crate) fn forgive(&mut self) {
        self.own.forgive();
    }

    /// Takes note since when regions are dirty.
    pub(crate) fn date_dirty(&mut self, local: &Local, turn: &Turn) {
        let none = self.marks.none_dirty() && !self.marks.has_received();
        if none && !self.may_differ_anywhere(local) {
            self.dirty_since = None;
        } else {
            self.dirty_since.get_or_insert(turn.now());
        }
    }

    /// Something here is suspect, and the peer's copy is not served in its place: its regions may all differ.
    fn may_differ_anywhere(&self, local: &Local) -> bool {
        local.suspect().any() && self.lack.is_none()
    }

    /// What the peer lacks, as an upper bound: what was accepted and has not completed there, every dirty region, and every
    /// region of a suspect volume. If it is away, also what it received in an update that has not ended.
    pub(crate) fn lag(&self, now: Moment, local: &Local) -> Lag {
        let mut lag = Lag::default();
        if self.owes_dirty(local) && !planted(Plant::LagWithoutDirty) {
            lag.dirty = self.dirty_at_most(self.may_go_back(), local);
            lag.bytes = lag.dirty;
            lag.oldest = self.dirty_since.map_or(Duration::ZERO, |since| now - since);
        }
        if planted(Plant::LagWithoutItems) {
            return lag;
        }
        let mut oldest = now;
        for entry in self.owed_items() {
            oldest = oldest.min(entry.accepted_at());
            if entry.item().kind.changes_data() {
                lag.bytes += Bytes(entry.item().extent.length);
            }
            lag.writes += 1;
        }
        lag.oldest = lag.oldest.max(now - oldest);
        lag
    }

    /// What the peer may lack once this node leads no more: it may restore its image from before an update.
    pub(crate) fn lacks_when_left(&self, now: Moment, local: &Local) -> Bytes {
        let lag = self.lag(now, local);
        if self.peer_replaces_copy() {
            return lag.bytes;
        }
        lag.bytes - lag.dirty + self.dirty_at_most(true, local)
    }

    /// Bytes in dirty regions, or that may be; with `received`, also what the peer received in an update that has not ended.
    fn dirty_at_most(&self, received: bool, local: &Local) -> Bytes {
        let anywhere = self.may_differ_anywhere(local);
        let volumes = if anywhere { local.suspect().volumes() } else { 0 };
        self.marks.dirty_bytes_with(volumes, received)
    }

    /// A peer that is away in an update may restore its image from before it.
    fn may_go_back(&self) -> bool {
        !self.target.streams() && self.marks.has_received()
    }

    /// The peer may lack what is marked. It does not where its copy takes the place of this node's own.
    fn owes_dirty(&self, local: &Local) -> bool {
        let marked = self.may_differ_anywhere(local) || !self.marks.none_dirty();
        (marked || self.may_go_back()) && !self.peer_replaces_copy()
    }

    /// Items that were accepted and that the peer does not have, the oldest first.
    fn owed_items(&self) -> impl Iterator<Item = &Entry> {
        // Of a peer that is away only what was durable there is known to be there still.
        let connected = self.target.streams();
        let cursors = self.target.cursors();
        let there = if connected { cursors.completed() } else { cursors.durable() };
        let is_owed =
            move |e: &&Entry| e.slot().is_some() && !(connected && e.has_peer_completed());
        self.line.behind(there).filter(is_owed)
    }

    /// `oldest` of [`Self::lag`], if the peer lacks anything. It does not walk the queue.
    pub(crate) fn oldest_owed(&self, now: Moment, local: &Local) -> Option<Duration> {
        let dirty = self
            .owes_dirty(local)
            .then(|| self.dirty_since.map_or(Duration::ZERO, |since| now - since));
        let item = self.owed_items().next().map(|entry| now - entry.accepted_at());
        dirty.max(item)
    }

    /// What may differ at the peer.
    #[inline]
    pub(crate) const fn marks(&self) -> &Bitmap {
        &self.marks
    }

    /// What may differ at the peer, to change it.
    #[inline]
    pub(crate) const fn marks_mut(&mut self) -> &mut Bitmap {
        &mut self.marks
    }

    /// The queue.
    pub(crate) const fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The queue, to change its bounds.
    pub(crate) const fn queue_mut(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// The copier, to start and stop it.
    pub(crate) const fn copier_mut(&mut self) -> &mut Copier {
        &mut self.copier
    }

    /// The position accepted last.
    #[inline]
    pub(crate) fn head(&self) -> Sequence {
        self.line.head()
    }

    /// Whether any item on its line is like that.
    pub(crate) fn holds(&self, is_it: impl Fn(&Item) -> bool) -> bool {
        self.line.iter().any(|entry| is_it(entry.item()))
    }

    /// Lets go of everything that it holds, but for the marks: positions of its line mean nothing to the next primary's.
    pub(crate) fn lay_down(mut self, turn: &mut Turn) -> Bitmap {
        while let Some(entry) = self.line.pop() {
            entry.item().payload.into_iter().for_each(|p| turn.release(p.id));
        }
        self.marks.end_stream();
        self.marks
    }

    /// How long answers took.
    pub(crate) fn answer_times(&self) -> AnswerTimes {
        self.requests.times()
    }

    /// Whether everything that was answered is up to there.
    pub(crate) fn has_answered_only(&self, up_to: Sequence) -> bool {
        self.requests.answered() <= up_to
    }

    /// Requests of clients are under way, or wait.
    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Nothing is under way: every request answered, nobody waiting.
    pub(crate) fn is_quiet(&self) -> bool {
        let lack = self.lack.as_ref().is_none_or(Lack::is_quiet);
        self.requests.is_empty() && self.gate.is_empty() && !self.copier.is_surveying() && lack
    }
}

/// What the peer lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// At most so many bytes: written or zeroed, not completed at the peer, and dirty regions.
    pub bytes: Bytes,
    /// Of these, in dirty regions, and in those that a peer that is away received in an update that has not ended; they count whole.
    pub dirty: Bytes,
    /// Items accepted and not completed at the peer; writes that dirty regions stand for are not counted.
    pub writes: u64,
    /// Age of the oldest of all that.
    pub oldest: Duration,
}
