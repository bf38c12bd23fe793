// SPDX-License-Identifier: Apache-2.0
//! The primary's stream to its peer: sending in order, hearing how far it is, and when its word counts again. What is kept
//! for the peer, and the drawing of the pace, stand in `target.rs`.

use crate::lead::Primary;
use crate::lead::target::{Begun, GoesBack};
use crate::local::Local;
use crate::peer::permit::Permit;
use crate::resync::verify::Verify;
use crate::stream::line::Entry;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_format::before::CHUNK_BYTES;
use helio_format::lineage::Lineage;
use helio_format::message::{Ack, ItemKind, Message, Start};
use helio_plant::{Plant, planted};
use helio_units::{Mode, Sequence};

/// How a stream begins: at `from`, in order. `consistent`: the peer's image keeps the order promise all the while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) lineage: Lineage,
    pub(crate) from: Sequence,
    pub(crate) consistent: bool,
}

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
        let (head, safe_copy) = (self.line.head(), turn.config().safe_copy);
        let begun = self.target.begin_stream(head, from, consistent, safe_copy);
        let (stream, keep) = self.begun(begun);
        verify.rewind();
        let marked = self.marks.dirty_bytes().0;
        let to_copy = if consistent { 0 } else { self.chunks_from(from) + marked };
        let (whole, ships) = (false, false);
        let start = Start { lineage, from, consistent, keep, whole, to_copy, stream, ships };
        turn.send(Message::Start(start));
        self.keep_pace(local, permit, turn);
    }

    /// A stream begins: what the peer receives counts as missing there while the peer can restore an image from before. Returns the
    /// number of the stream, and whether the peer is to preserve its image.
    pub(super) fn begun(&mut self, (stream, keep, goes_back): Begun) -> (u32, bool) {
        match goes_back {
            GoesBack::No => self.marks.end_update(),
            GoesBack::ToThis => self.marks.begin_update(true),
            GoesBack::ToBefore | GoesBack::UntilTakenUp => self.marks.begin_update(false),
        }
        (stream, keep)
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
        if self.target.owed().cut().is_some() {
            return self.pump_cut(turn);
        }
        while let Some(next) = self.target.next_to_send(self.line.head()) {
            let Some(entry) = self.line.get(next) else {
                panic!("item {next} left the line unsent")
            };
            self.target.send(next, entry.item().payload.map_or(0, |p| u64::from(p.length)));
            self.snapshots.announce(entry.item(), turn);
            turn.send(Message::Item(*entry.item()));
        }
    }

    /// Sends what is on the line of the cut that is shipped.
    fn pump_cut(&mut self, turn: &mut Turn) {
        while let Some(next) = self.target.next_to_ship(self.line.head()) {
            let Some(entry) = self.line.get(next).filter(|entry| entry.item().resync) else {
                continue;
            };
            self.target.send(next, entry.item().payload.map_or(0, |p| u64::from(p.length)));
            turn.send(Message::Item(*entry.item()));
        }
        self.release_front(turn);
    }

    /// The peer is level with the answers given.
    pub(crate) fn is_level(&self) -> bool {
        self.target.level_since().is_some()
    }

    /// The peer follows the stream that flows, in its generation.
    pub(crate) fn is_taken_up(&self) -> bool {
        self.target.is_taken_up()
    }

    /// The socket took bytes.
    pub(crate) fn link_took(&mut self, bytes: u64) {
        self.target.link_took(bytes);
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
        let Some(old) = self.target.acknowledged(&ack)? else { return Ok(false) };
        for at in old.completed().0 + 1..=ack.completed.0 {
            self.peer_completed(Sequence(at), local, permit, turn);
        }
        for (first, last) in ack.ranges.as_slice() {
            for at in first.0..=last.0 {
                self.peer_completed(Sequence(at), local, permit, turn);
            }
        }
        if turn.config().mode == Mode::NearSync {
            for at in old.received().0 + 1..=ack.received.0 {
                self.consider(Sequence(at), local, permit, turn);
            }
        }
        // What this reports as durable counts before a marker moves the cursors.
        self.settle_durable();
        self.keep_pace(local, permit, turn);
        self.release_front(turn);
        Ok(*self.target.cursors() != old || !ack.ranges.is_empty())
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
        let shipped = self.target.owed().cut();
        if self.target.ends_update() {
            self.marks.end_update();
        }
        if let Some(at) = self.target.pass_marker() {
            self.copier.stop();
            self.marks.end_update();
            match shipped {
                Some(cut) => self.cut_arrived(cut),
                None => turn.info(format!("the peer's copy is consistent again as of item {at}")),
            }
            if self.lack.is_some() {
                self.consider_all(local, permit, turn);
            }
        }
        let mode = self.wanted_mode(turn.config().mode);
        let closes = self.target.keep_pace(self.line.head(), mode, turn.now());
        if closes && permit.withholds(turn.now()) {
            self.consider_all(local, permit, turn);
        }
    }

    /// Another mode is asked for: a stricter one must close up first.
    pub(crate) fn mode_changed(&mut self, local: &Local, permit: &Permit, turn: &mut Turn) {
        if self.target.answers_count() {
            self.target.close_from(self.line.head());
        }
        self.keep_pace(local, permit, turn);
        self.consider_all(local, permit, turn);
    }

    /// The connection is gone: a stream in order waits in the queue, one without order is marks again.
    pub(crate) fn stream_broken(&mut self, local: &mut Local, permit: &Permit, turn: &mut Turn) {
        self.target.end_stream();
        self.copier.unask(&mut self.marks);
        self.unask();
        if self.target.owed().is_image_out_of_order() {
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
        self.target.owed().queues_in_order() && at <= self.line.head() && whole(at.0 + 1)
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
        self.target.kept(received);
        let skipped = planted(Plant::ResumePastGap) && received < self.line.head();
        let from = Sequence(received.0 + 1 + u64::from(skipped));
        // A marker that the peer received already ends its inconsistency there, whatever we heard of it.
        self.begin_stream(
            Opening { lineage, from, consistent: self.target.owed().is_consistent_after(received) },
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
        self.forget_comparisons(durable, turn);
        let had_more = self.target.lost_memory(durable);
        let behind = self.line.iter_mut().filter(|entry| entry.item().sequence > durable);
        behind.for_each(|entry| entry.peer_forgets(had_more));
        if had_more {
            self.push_consistent_marker(turn);
        }
        self.begin_stream(
            Opening {
                lineage,
                from: durable.next(),
                consistent: self.target.owed().marker().is_none(),
            },
            verify,
            local,
            permit,
            turn,
        );
    }
}
