// SPDX-License-Identifier: Apache-2.0
//! The primary's stream to its peer: sending in order, hearing how far it is, and when its word counts again.
//!
//! The peer's cursors are contiguous prefixes of the line: `sent ≥ received ≥ completed ≥ durable`. Pace says
//! whether the peer is level with the answers given:
//! ```text
//!            received ≥ until              completed (sync) or received (nearsync) ≥ until
//!   Behind ────────────────────> Closing ─────────────────────────────────────────────────> Level
//! ```
//! In `Behind` answers are given as in async. From `Closing` on every new answer asks what its mode asks, so the
//! set of answers the peer lacks can only shrink; it is empty at `Level`, and only then is the mode in force.

use crate::lead::Primary;
use crate::local::Local;
use crate::peer::permit::Permit;
use crate::resync::verify::Verify;
use crate::stream::line::Entry;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_format::before::CHUNK_BYTES;
use helio_format::frame::HEADER_BYTES;
use helio_format::lineage::Lineage;
use helio_format::message::{Ack, ItemKind, Message, Start};
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Mode, Moment, Sequence};

/// How far the peer is, as it told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursors {
    sent: Sequence,
    received: Sequence,
    completed: Sequence,
    durable: Sequence,
}

impl Cursors {
    pub(crate) fn all_at(at: Sequence) -> Self {
        Self { sent: at, received: at, completed: at, durable: at }
    }

    pub(crate) const fn sent(&self) -> Sequence {
        self.sent
    }

    pub(crate) const fn received(&self) -> Sequence {
        self.received
    }

    pub(crate) const fn completed(&self) -> Sequence {
        self.completed
    }

    pub(crate) const fn durable(&self) -> Sequence {
        self.durable
    }
}

/// See the drawing above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    Behind { until: Sequence },
    Closing { until: Sequence },
    Level { since: Moment },
}

/// How far the peer is with a stream that it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uptake {
    /// It did not acknowledge the stream yet.
    Unheard,
    /// It has taken it up, and its cursors are behind those of the stream before.
    Repeating,
    /// It has everything from before it, so its cursors count on from where the stream began.
    CaughtUp,
}

/// A stream that flows.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pace: Pace,
    /// Handed to the link, not yet taken by its socket.
    unsent: Bytes,
    /// Its number, as its start names it.
    number: u32,
    uptake: Uptake,
}

impl Flow {
    /// A stream that begins while the line's head is `head`.
    pub(crate) fn behind(head: Sequence, number: u32) -> Self {
        let pace = Pace::Behind { until: head };
        Self { pace, unsent: Bytes::ZERO, number, uptake: Uptake::Unheard }
    }

    /// Whether answers ask the peer's word.
    pub(crate) fn answers_count(&self) -> bool {
        !matches!(self.pace, Pace::Behind { .. })
    }

    /// Since when the peer is level with the answers given, if it is.
    pub(crate) const fn level_since(&self) -> Option<Moment> {
        if let Pace::Level { since } = self.pace { Some(since) } else { None }
    }

    /// The peer follows the stream, in its generation.
    pub(crate) fn is_taken_up(&self) -> bool {
        self.uptake != Uptake::Unheard
    }

    /// From here on every new answer asks what its mode asks; `head` is the line's.
    pub(crate) fn close_from(&mut self, head: Sequence) {
        self.pace = Pace::Closing { until: head };
    }
}

/// How a stream begins: at `from`, in order. `consistent`: the peer's image keeps the order promise all the while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) lineage: Lineage,
    pub(crate) from: Sequence,
    pub(crate) consistent: bool,
}

/// Most bytes handed to the link and not yet taken by its socket (rule 8): enough to keep a socket busy between
/// two turns of the loop, little enough that a lost link holds back little.
const UNSENT_BYTES_MAX: Bytes = Bytes::mib(1);
/// Body of an item on the wire, in bytes (format's table).
const ITEM_BODY_BYTES: u64 = 36;

impl Primary {
    /// Begins to stream.
    pub(crate) fn begin_stream(
        &mut self,
        Opening { lineage, from, consistent }: Opening,
        verify: &mut Verify,
        local: &Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        self.tell_generation = false;
        let stream = self.next_stream(self.line.head());
        verify.rewind();
        self.cursors.sent = Sequence(from.0 - 1);
        self.peer_consistent = consistent;
        let keep = self.peer_keeping.ask(from, consistent, turn.config().safe_copy);
        let marked = self.marks.dirty_bytes().0;
        let to_copy = if consistent { 0 } else { self.chunks_from(from) + marked };
        let start = Start { lineage, from, consistent, keep, whole: false, to_copy, stream };
        turn.send(Message::Start(start));
        self.keep_pace(local, permit, turn);
    }

    /// A stream flows from here on, behind a line whose head is `head`. Returns its number: the one before ends, and what
    /// the peer still says of it counts no more.
    pub(crate) fn next_stream(&mut self, head: Sequence) -> u32 {
        self.streams += 1;
        self.flow = Some(Flow::behind(head, self.streams));
        self.streams
    }

    /// Bytes in the chunks that items from there on touch, one by one.
    fn chunks_from(&self, from: Sequence) -> u64 {
        let items = self.line.iter().map(Entry::item);
        let data = items.filter(|item| item.sequence >= from && item.kind.changes_data());
        let chunks = data
            .map(|item| item.extent.end().div_ceil(CHUNK_BYTES) - item.extent.offset / CHUNK_BYTES);
        chunks.sum::<u64>() * CHUNK_BYTES
    }

    /// Sends what may be sent now.
    pub(crate) fn pump(&mut self, turn: &mut Turn) {
        while let Some(flow) = &mut self.flow {
            if self.cursors.sent() >= self.line.head() || flow.unsent >= UNSENT_BYTES_MAX {
                return;
            }
            let next = self.cursors.sent().next();
            let Some(entry) = self.line.get(next) else {
                panic!("item {next} left the line unsent")
            };
            let payload = entry.item().payload.map_or(0, |p| u64::from(p.length));
            flow.unsent += Bytes(HEADER_BYTES as u64 + ITEM_BODY_BYTES + payload);
            self.cursors.sent = next;
            turn.send(Message::Item(*entry.item()));
        }
    }

    /// The peer is level with the answers given.
    pub(crate) fn is_level(&self) -> bool {
        self.flow.as_ref().is_some_and(|flow| flow.level_since().is_some())
    }

    /// The peer follows the stream that flows, in its generation.
    pub(crate) fn is_taken_up(&self) -> bool {
        self.flow.as_ref().is_some_and(Flow::is_taken_up)
    }

    /// The socket took bytes.
    pub(crate) fn link_took(&mut self, bytes: u64) {
        if let Some(flow) = &mut self.flow {
            flow.unsent = flow.unsent.saturating_sub(Bytes(bytes));
        }
    }

    /// The peer says how far it is. Returns whether any cursor moved.
    ///
    /// # Errors
    /// It claims what cannot be; the connection must end.
    pub(crate) fn acknowledged(
        &mut self,
        ack: Ack,
        local: &Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> Result<bool, String> {
        let Some(flow) = &mut self.flow else { return Ok(false) };
        if ack.stream > flow.number {
            return Err(format!("the peer acknowledges stream {} of {}", ack.stream, flow.number));
        }
        // Of one before, on the same connection: its items are on the way again, or marked.
        if ack.stream < flow.number {
            return Ok(false);
        }
        let old = self.cursors;
        if ack.received > old.sent && !planted(Plant::AckUnsent) {
            return Err(format!(
                "the peer acknowledges item {}, but only {} were sent",
                ack.received, old.sent
            ));
        }
        let backwards = ack.received < old.received
            || ack.completed < old.completed
            || ack.durable < old.durable;
        if backwards && flow.uptake != Uptake::CaughtUp {
            flow.uptake = Uptake::Repeating;
            return Ok(false);
        }
        if backwards && !planted(Plant::RegressingCursor) {
            return Err(format!("the peer's cursors went backwards: {ack:?} after {old:?}"));
        }
        flow.uptake = Uptake::CaughtUp;
        self.cursors = Cursors {
            sent: old.sent,
            received: ack.received,
            completed: ack.completed,
            durable: ack.durable,
        };
        for at in old.completed.0 + 1..=ack.completed.0 {
            self.peer_completed(Sequence(at), local, permit, turn);
        }
        for (first, last) in ack.ranges.as_slice() {
            for at in first.0..=last.0 {
                self.peer_completed(Sequence(at), local, permit, turn);
            }
        }
        if turn.config().mode == Mode::NearSync {
            for at in old.received.0 + 1..=ack.received.0 {
                self.consider(Sequence(at), local, permit, turn);
            }
        }
        self.keep_pace(local, permit, turn);
        self.settle_durable();
        self.release_front(turn);
        Ok(self.cursors != old || !ack.ranges.is_empty())
    }

    fn peer_completed(&mut self, at: Sequence, local: &Local, permit: &Permit, turn: &mut Turn) {
        if let Some(entry) = self.line.get_mut(at) {
            entry.peer_completes();
            self.consider(at, local, permit, turn);
            self.shed_copy(at, turn);
        }
    }

    /// Moves the pace on where the cursors allow it.
    pub(crate) fn keep_pace(&mut self, local: &Local, permit: &Permit, turn: &mut Turn) {
        if let Some(at) = self.owed.marker()
            && self.cursors.completed() >= at
            && self.flow.is_some()
        {
            self.owed.restore_order();
            self.peer_keeping.is_over();
            self.peer_consistent = true;
            self.copier.stop();
            turn.info(format!("the peer's copy is consistent again as of item {at}"));
            if self.lack.is_some() {
                self.consider_all(local, permit, turn);
            }
        }
        let settled = self.owed.stays_consistent();
        let (head, cursors) = (self.line.head(), self.cursors);
        let mode = self.wanted_mode(turn.config().mode);
        let mut closes = false;
        let Some(flow) = &mut self.flow else { return };
        if let Pace::Behind { until } = flow.pace
            && settled
            && cursors.received() >= until
        {
            flow.close_from(head);
            closes = true;
        }
        if let Pace::Closing { until } = flow.pace {
            let level = match mode {
                _ if planted(Plant::LevelEarly) => true,
                Mode::Sync => cursors.completed() >= until,
                Mode::NearSync => cursors.received() >= until,
                Mode::Async => true,
            };
            if level {
                flow.pace = Pace::Level { since: turn.now() };
            }
        }
        if closes && permit.withholds(turn.now()) {
            self.consider_all(local, permit, turn);
        }
    }

    /// Another mode is asked for: a stricter one must close up first.
    pub(crate) fn mode_changed(&mut self, local: &Local, permit: &Permit, turn: &mut Turn) {
        let head = self.line.head();
        if let Some(flow) = self.flow.as_mut().filter(|flow| flow.answers_count()) {
            flow.close_from(head);
        }
        self.keep_pace(local, permit, turn);
        self.consider_all(local, permit, turn);
    }

    /// The connection is gone: a stream in order waits in the queue, one without order is marks again.
    pub(crate) fn stream_broken(&mut self, local: &mut Local, permit: &Permit, turn: &mut Turn) {
        self.flow = None;
        self.copier.unask(&mut self.marks);
        self.unask();
        if self.owed.is_image_out_of_order() {
            self.drop_queue(
                "the connection was lost before the resync was complete",
                local,
                permit,
                turn,
            );
        }
        self.consider_all(local, permit, turn);
    }

    /// Whether the line can be streamed in order from behind `at`: every item is still there with its payload.
    pub(crate) fn can_resume_behind(&self, at: Sequence) -> bool {
        let whole = |from: u64| {
            (from..=self.line.head().0).all(|n| {
                let item = self.line.get(Sequence(n)).map(Entry::item);
                item.is_some_and(|item| item.payload.is_some() || item.kind != ItemKind::Write)
            })
        };
        self.owed.queues_in_order() && at <= self.line.head() && whole(at.0 + 1)
    }

    /// Streams again to a peer that kept its memory.
    pub(crate) fn resume_received(
        &mut self,
        lineage: Lineage,
        received: Sequence,
        verify: &mut Verify,
        local: &Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        self.cursors.received = received.max(self.cursors.received());
        let skipped = planted(Plant::ResumePastGap) && received < self.line.head();
        let from = Sequence(received.0 + 1 + u64::from(skipped));
        // A marker that the peer received already ends its inconsistency there, whatever we heard of it.
        self.begin_stream(
            Opening { lineage, from, consistent: self.owed.is_consistent_after(received) },
            verify,
            local,
            permit,
            turn,
        );
    }

    /// Streams again to a peer that lost its memory: what it had received beyond its durable position may be
    /// there in part, so its image is out of order until all of it has come again.
    pub(crate) fn resume_durable(
        &mut self,
        lineage: Lineage,
        durable: Sequence,
        verify: &mut Verify,
        local: &Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        let had_more = self.cursors.sent() > durable;
        self.forget_comparisons(durable, turn);
        self.cursors = Cursors::all_at(durable);
        let behind = self.line.iter_mut().filter(|entry| entry.item().sequence > durable);
        behind.for_each(|entry| entry.peer_forgets(had_more));
        if had_more {
            self.push_consistent_marker(turn);
        }
        self.begin_stream(
            Opening { lineage, from: durable.next(), consistent: self.owed.marker().is_none() },
            verify,
            local,
            permit,
            turn,
        );
    }
}
