// SPDX-License-Identifier: Apache-2.0
//! What a primary keeps for one peer that it sends to.
//!
//! The peer's cursors are contiguous prefixes of the line: `sent ≥ received ≥ completed ≥ durable`. Pace says
//! whether the peer is level with the answers given:
//! ```text
//!            received ≥ until              completed (sync) or received (nearsync) ≥ until
//!   Behind ────────────────────> Closing ─────────────────────────────────────────────────> Level
//! ```
//! In `Behind` answers are given as in async. From `Closing` on every new answer asks what its mode asks, so the
//! set of answers the peer lacks can only shrink; it is empty at `Level`, and only then is the mode in force.

use crate::config::SafeCopy;
use crate::lead::period::Period;
use crate::peer::keeping::PeerKeeping;
use crate::peer::owed::{Cut, Owed, PeerCopy};
use alloc::format;
use alloc::string::String;
use helio_format::frame::HEADER_BYTES;
use helio_format::lineage::Lineage;
use helio_format::message::{Ack, Hello, Item};
use helio_plant::{Plant, planted};
use helio_stack::Shortage;
use helio_units::{Bytes, Generation, Mode, Moment, Sequence};

/// Most bytes handed to the link and not yet taken by its socket (rule 8): enough to keep a socket busy between
/// two turns of the loop, little enough that a lost link holds back little.
const UNSENT_BYTES_MAX: Bytes = Bytes::mib(1);
/// Body of an item on the wire, in bytes (format's table).
const ITEM_BODY_BYTES: u64 = 36;

/// How far the peer is, as it told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursors {
    sent: Sequence,
    received: Sequence,
    completed: Sequence,
    durable: Sequence,
}

impl Cursors {
    const fn all_at(at: Sequence) -> Self {
        Self { sent: at, received: at, completed: at, durable: at }
    }

    /// Whether one of what the peer tells is less than before.
    fn is_behind(&self, before: &Self) -> bool {
        self.received < before.received
            || self.completed < before.completed
            || self.durable < before.durable
    }

    #[inline]
    pub(crate) const fn sent(&self) -> Sequence {
        self.sent
    }

    #[inline]
    pub(crate) const fn received(&self) -> Sequence {
        self.received
    }

    #[inline]
    pub(crate) const fn completed(&self) -> Sequence {
        self.completed
    }

    #[inline]
    pub(crate) const fn durable(&self) -> Sequence {
        self.durable
    }
}

/// See the drawing above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Behind { until: Sequence },
    Closing { until: Sequence },
    Level { since: Moment },
}

/// How far the peer is with a stream that it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Uptake {
    /// It did not acknowledge the stream yet.
    Unheard,
    /// It has taken it up, and its cursors are behind those of the stream before.
    Repeating(Cursors),
    /// It has everything from before it, so its cursors count on from where the stream began.
    CaughtUp,
}

/// A stream that flows.
#[derive(Clone, Debug)]
struct Flow {
    pace: Pace,
    /// Handed to the link, not yet taken by its socket.
    unsent: Bytes,
    uptake: Uptake,
    ships: Option<Ships>,
}

/// A stream that ships a cut: of the line it carries only what is about that.
#[derive(Clone, Copy, Debug)]
struct Ships {
    /// Positions up to here were sent, or are not.
    passed: Sequence,
    /// How far the peer was before, which counts again if the cut is given up.
    before: Cursors,
}

/// What a peer told by its acknowledgements. Where its hello says less, it went back. Zero until it acknowledges: the cursors alone
/// begin at the head.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// The durable position of the last acknowledgement that counted.
    durable: Sequence,
    /// The least head that its record says: that of the last marker that it completed, which it recorded before. Each later record
    /// says no less, unless it says as well that it proves nothing.
    recorded: Sequence,
}

/// The generation that the line is to go on in. An item behind its fork belongs to it, so the peer gets none before it knows of it: a
/// node that received more of the old generation than its primary has in it takes that for a machine that went back.
/// ```text
///   Known ──record begins──> Recording ──durable──> Unheard ──the stream goes on in it──> Known
///     ^                          │
///     └───cannot be written──────┘    without a stream: durable ──> Known; the next one begins in it
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coming {
    /// The stream that flows is of the newest one.
    Known,
    /// Its record is being written.
    Recording { fork: Sequence },
    /// It is recorded, and the peer is yet to be told.
    Unheard { fork: Sequence },
}

/// Whether the peer's image is known to keep the order promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Image {
    /// As its last hello said; not, before the first one. `back`: what it could go back to in an update.
    Said { consistent: bool, back: GoesBack },
    /// As the streams that began since then leave it. `back`: what it can go back to until then.
    Streamed { consistent: bool, back: GoesBack },
}

/// What a peer can restore: its image from before an update that has not ended.
///
/// ```text
///        ┌──────── the marker of the update is passed, or the peer takes a stream up ────────┐
///        v                                                                                   │
///       No ──an update that preserves begins──> ToThis ──the next stream──> ToBefore ──> UntilTakenUp
/// ```
/// Each stream that begins asks what the one before left (`Target::begin`), and the first one of a connection what the hello says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GoesBack {
    /// Nothing.
    No,
    /// The image that it has now.
    ToThis,
    /// The one from before an update that goes on.
    ToBefore,
    /// The same, until it takes this stream up: its image is consistent then, or it preserves none.
    UntilTakenUp,
}

/// Of a stream that begins: its number, whether the peer is to preserve its last consistent image, and what it can go back to.
pub(super) type Begun = (u32, bool, GoesBack);

/// What a primary keeps for one peer: what it owes it, how far that peer is, the stream to it, and what is known of its copy.
///
/// Whatever belongs to one peer alone stands here and not in `Primary`, so that a primary of several peers holds several of
/// these. Of one peer are also, and still stand elsewhere: the bitmap, the copier, what is lacking here, and in each entry of the
/// line whether the peer completed it.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// What the peer is owed.
    owed: Owed,
    /// How far the peer is.
    cursors: Cursors,
    /// What shows whether it goes back.
    told: Told,
    /// Up to here, what the peer has durable was taken note of.
    settled: Sequence,
    /// The stream, while one flows.
    flow: Option<Flow>,
    /// Streams begun by this primary; the number of the last one.
    streams: u32,
    coming: Coming,
    /// The peer's incarnation these cursors belong to.
    incarnation: Option<u64>,
    /// What is known of the peer's copy.
    copy: PeerCopy,
    /// The peer's image.
    image: Image,
    /// Whether the peer keeps its last consistent image while it is updated.
    keeping: PeerKeeping,
    /// When it gets the next cut, in mode periodic.
    period: Period,
}

impl Target {
    /// A peer of which nothing was heard yet. `equal`: its copy is proven equal up to `head`.
    pub(super) fn new(head: Sequence, equal: bool) -> Self {
        Self {
            owed: Owed::at_start(equal),
            cursors: Cursors::all_at(head),
            told: Told::default(),
            settled: head,
            flow: None,
            streams: 0,
            coming: Coming::Known,
            incarnation: None,
            copy: PeerCopy::ByBitmaps,
            image: Image::Said { consistent: false, back: GoesBack::No },
            keeping: PeerKeeping::default(),
            period: Period::default(),
        }
    }

    /// What the peer is owed.
    #[inline]
    pub(super) const fn owed(&self) -> &Owed {
        &self.owed
    }

    /// When it gets the next cut.
    pub(super) const fn period(&self) -> &Period {
        &self.period
    }

    /// The same, to change it.
    pub(super) const fn period_mut(&mut self) -> &mut Period {
        &mut self.period
    }

    /// How far the peer is.
    #[inline]
    pub(super) const fn cursors(&self) -> &Cursors {
        &self.cursors
    }

    /// The last position that the peer told to be durable.
    pub(super) const fn told_durable(&self) -> Sequence {
        self.told.durable
    }

    /// The least head that the peer's record says.
    pub(super) const fn recorded(&self) -> Sequence {
        self.told.recorded
    }

    /// A stream flows.
    #[inline]
    pub(super) const fn streams(&self) -> bool {
        self.flow.is_some()
    }

    /// Dirty regions travel on a stream that flows.
    pub(super) const fn is_updating(&self) -> bool {
        self.streams() && self.owed.is_image_out_of_order()
    }

    /// Answers ask the peer's word.
    #[inline]
    pub(super) fn answers_count(&self) -> bool {
        self.flow.as_ref().is_some_and(Flow::answers_count)
    }

    /// Since when the peer is level with the answers given, if it is.
    pub(super) fn level_since(&self) -> Option<Moment> {
        match self.flow.as_ref()?.pace {
            Pace::Level { since } => Some(since),
            Pace::Behind { .. } | Pace::Closing { .. } => None,
        }
    }

    /// The peer follows the stream that flows, in its generation.
    pub(super) fn is_taken_up(&self) -> bool {
        self.flow.as_ref().is_some_and(|flow| flow.uptake != Uptake::Unheard)
    }

    /// The peer is to be told another generation.
    pub(super) const fn is_to_be_told(&self) -> bool {
        matches!(self.coming, Coming::Unheard { .. })
    }

    /// What was sent may be durable at the peer up to here, as it told.
    #[inline]
    pub(super) fn safe(&self) -> Sequence {
        let c = &self.cursors;
        if planted(Plant::ClearMarkEarly) { c.received } else { c.durable }
    }

    /// The next position that the peer has durable, and that was not taken note of.
    #[inline]
    pub(super) fn settle(&mut self) -> Option<Sequence> {
        if self.settled >= self.safe() {
            return None;
        }
        self.settled = self.settled.next();
        Some(self.settled)
    }

    /// That the peer has it durable was taken note of.
    #[inline]
    pub(super) fn is_settled(&self, at: Sequence) -> bool {
        at <= self.settled
    }

    /// The position to send now, if any may be sent; `head` is the line's.
    #[inline]
    pub(super) fn next_to_send(&self, head: Sequence) -> Option<Sequence> {
        let flow = self.flow.as_ref()?;
        let most = match self.coming {
            Coming::Known => head,
            Coming::Recording { fork } | Coming::Unheard { fork } => head.min(fork),
        };
        let may = self.cursors.sent < most && flow.unsent < UNSENT_BYTES_MAX;
        may.then(|| self.cursors.sent.next())
    }

    /// The next position that is not looked at yet, while a cut is shipped; it counts as looked at.
    pub(super) fn next_to_ship(&mut self, head: Sequence) -> Option<Sequence> {
        let ships = self.flow.as_mut()?.ships.as_mut().filter(|_| self.coming == Coming::Known)?;
        (ships.passed < head).then(|| {
            ships.passed = ships.passed.next();
            ships.passed
        })
    }

    /// Whether a row may be read to be shipped, with so many bytes that are being read, its own included: its items are sent at once, so
    /// that later writes do not wait in the queue behind them.
    pub(super) fn may_ship(&self, reading: Bytes, row: Bytes) -> bool {
        let unsent = self.flow.as_ref().map_or(Bytes::ZERO, |flow| flow.unsent);
        unsent + reading <= UNSENT_BYTES_MAX || (unsent == Bytes::ZERO && reading == row)
    }

    /// Whether the peer is still to get that item of the line.
    #[inline]
    pub(super) fn owes(&self, item: &Item) -> bool {
        match self.flow.as_ref().and_then(|flow| flow.ships) {
            Some(ships) => item.resync && item.sequence > ships.passed,
            None => self.owed.queues_in_order() && item.sequence > self.safe(),
        }
    }

    /// An item with so much payload is handed to the link.
    #[inline]
    pub(super) fn send(&mut self, at: Sequence, payload: u64) {
        self.cursors.sent = at;
        if let Some(flow) = &mut self.flow {
            flow.unsent += Bytes(HEADER_BYTES as u64 + ITEM_BODY_BYTES + payload);
        }
    }

    /// The socket took bytes.
    pub(super) fn link_took(&mut self, bytes: u64) {
        if let Some(flow) = &mut self.flow {
            flow.unsent = flow.unsent.saturating_sub(Bytes(bytes));
        }
    }

    /// The peer says how far it is. Returns its cursors from before, if it speaks of the stream that flows.
    ///
    /// # Errors
    /// It claims what cannot be; the connection must end.
    pub(super) fn acknowledged(&mut self, ack: &Ack) -> Result<Option<Cursors>, String> {
        let Some(flow) = &mut self.flow else { return Ok(None) };
        if ack.stream > self.streams {
            return Err(format!("the peer acknowledges stream {} of {}", ack.stream, self.streams));
        }
        // Of one before, on the same connection: its items are on the way again, or marked.
        if ack.stream < self.streams {
            return Ok(None);
        }
        let old = self.cursors;
        if ack.received > old.sent && !planted(Plant::AckUnsent) {
            return Err(format!(
                "the peer acknowledges item {}, but only {} were sent",
                ack.received, old.sent
            ));
        }
        let told = Cursors {
            sent: old.sent,
            received: ack.received,
            completed: ack.completed,
            durable: ack.durable,
        };
        let before = match flow.uptake {
            Uptake::Repeating(before) => Some(before),
            Uptake::CaughtUp => Some(old),
            Uptake::Unheard => None,
        };
        if before.is_some_and(|before| told.is_behind(&before)) && !planted(Plant::RegressingCursor)
        {
            return Err(format!("the peer's cursors went backwards: {ack:?} after {old:?}"));
        }
        if flow.uptake != Uptake::CaughtUp && told.is_behind(&old) {
            flow.uptake = Uptake::Repeating(told);
            return Ok(None);
        }
        flow.uptake = Uptake::CaughtUp;
        self.cursors = told;
        self.told.durable = told.durable;
        Ok(Some(old))
    }

    /// Whether the peer took up a stream with which it can go back to nothing any more; told once.
    pub(super) fn ends_update(&mut self) -> bool {
        let taken_up = self.flow.as_ref().is_some_and(|flow| flow.uptake == Uptake::CaughtUp);
        match &mut self.image {
            Image::Streamed { back: back @ GoesBack::UntilTakenUp, .. } if taken_up => {
                *back = GoesBack::No;
                true
            }
            _ => false,
        }
    }

    /// The marker that the peer completed: its image is consistent again, and items follow in order.
    pub(super) fn pass_marker(&mut self) -> Option<Sequence> {
        let completed = self.cursors.completed;
        let at = self.owed.marker().filter(|at| completed >= *at && self.streams())?;
        self.told.recorded = self.owed.cut().map_or(at, |cut| cut.head());
        if let Some(cut) = self.owed.cut() {
            self.flow = None;
            self.cursors = Cursors::all_at(cut.head());
            self.owed.end_shipping();
        } else {
            self.owed.restore_order();
        }
        self.keeping.is_over();
        self.image = Image::Streamed { consistent: true, back: GoesBack::No };
        Some(at)
    }

    /// Moves the pace on where the cursors allow it; `head` is the line's. Returns whether answers ask the peer's word now
    /// and did not before.
    pub(super) fn keep_pace(&mut self, head: Sequence, mode: Mode, now: Moment) -> bool {
        let settled = self.owed.stays_consistent();
        let cursors = self.cursors;
        let mut closes = false;
        let Some(flow) = &mut self.flow else { return false };
        if let Pace::Behind { until } = flow.pace
            && settled
            && cursors.received >= until
        {
            flow.pace = Pace::Closing { until: head };
            closes = true;
        }
        if let Pace::Closing { until } = flow.pace {
            let level = match mode {
                _ if planted(Plant::LevelEarly) => true,
                Mode::Sync => cursors.completed >= until,
                Mode::NearSync => cursors.received >= until,
                Mode::Async | Mode::Periodic => true,
            };
            if level {
                flow.pace = Pace::Level { since: now };
            }
        }
        closes
    }

    /// From here on every new answer asks what its mode asks; `head` is the line's.
    pub(super) fn close_from(&mut self, head: Sequence) {
        if let Some(flow) = &mut self.flow {
            flow.pace = Pace::Closing { until: head };
        }
    }

    /// A stream begins in order at `from`, while the line's head is `head`. `consistent`: the peer's image keeps the order
    /// promise all the while.
    pub(super) fn begin_stream(
        &mut self,
        head: Sequence,
        from: Sequence,
        consistent: bool,
        safe_copy: SafeCopy,
    ) -> Begun {
        self.cursors.sent = Sequence(from.0 - 1);
        self.begin(head, from, consistent, safe_copy)
    }

    /// An update begins behind `head`: from there on items are queued in order. `consistent`: there is nothing to copy, and
    /// the peer's image stays consistent.
    pub(super) fn begin_update(
        &mut self,
        head: Sequence,
        consistent: bool,
        safe_copy: SafeCopy,
    ) -> Begun {
        if consistent {
            self.owed.restore_order();
        } else {
            self.owed.begin_copying();
        }
        self.cursors = Cursors::all_at(head);
        self.begin(head, head.next(), consistent, safe_copy)
    }

    /// A cut begins to be shipped behind `head`: what is put on the line for it is sent, and nothing else.
    pub(super) fn begin_shipping(
        &mut self,
        cut: Cut,
        head: Sequence,
        safe_copy: SafeCopy,
    ) -> Begun {
        self.owed.begin_shipping(cut);
        let before = core::mem::replace(&mut self.cursors, Cursors::all_at(head));
        let begun = self.begin(head, head.next(), false, safe_copy);
        if let Some(flow) = &mut self.flow {
            flow.ships = Some(Ships { passed: head, before });
        }
        begun
    }

    /// A stream flows from here on: the one before ends, and what the peer still says of it counts no more.
    fn begin(
        &mut self,
        head: Sequence,
        from: Sequence,
        consistent: bool,
        safe_copy: SafeCopy,
    ) -> Begun {
        if self.is_to_be_told() {
            self.coming = Coming::Known;
        }
        self.streams += 1;
        let pace = Pace::Behind { until: head };
        let (unsent, uptake) = (Bytes::ZERO, Uptake::Unheard);
        self.flow = Some(Flow { pace, unsent, uptake, ships: None });
        let keep = self.keeping.ask(from, consistent, safe_copy);
        let back = match self.image {
            Image::Said { back, .. } => back,
            Image::Streamed { consistent: true, back: GoesBack::No } => GoesBack::ToThis,
            Image::Streamed { back: GoesBack::No, .. } => GoesBack::No,
            Image::Streamed { .. } => GoesBack::ToBefore,
        };
        let preserves = keep && !consistent;
        let goes_back = match back {
            GoesBack::ToThis if consistent => GoesBack::No,
            GoesBack::ToThis | GoesBack::ToBefore if !preserves => GoesBack::UntilTakenUp,
            other => other,
        };
        self.image = Image::Streamed { consistent, back: goes_back };
        (self.streams, keep, goes_back)
    }

    /// Nothing is sent any more.
    pub(super) fn end_stream(&mut self) {
        if let Some(Flow { ships: Some(ships), .. }) = self.flow.take() {
            self.cursors = ships.before;
        }
    }

    /// Order is given up, and the stream with it.
    pub(super) fn drop_order(&mut self, because: &'static str) {
        self.owed.drop_order(because);
        self.end_stream();
    }

    /// Behind this marker the peer's image is in order again.
    pub(super) fn put_marker(&mut self, at: Sequence, head: Sequence) {
        self.owed.put_marker(at, head);
        // From when the peer has it, the next update may preserve the image that it completes.
        if let Image::Streamed { back: back @ GoesBack::No, .. } = &mut self.image {
            *back = GoesBack::ToBefore;
        }
    }

    /// An operator pauses replication.
    pub(super) const fn pause(&mut self) {
        self.owed.pause();
    }

    /// An update is wanted again.
    pub(super) const fn end_pause(&mut self) {
        self.owed.end_pause();
    }

    /// There is another reason why no update begins.
    pub(super) const fn explain(&mut self, why: &'static str) {
        self.owed.explain(why);
    }

    /// Another generation begins behind `fork` once its record is durable.
    pub(super) const fn generation_begins(&mut self, fork: Sequence) {
        self.coming = Coming::Recording { fork };
    }

    /// It is durable, or `failed` to be: then the line goes on in the one before.
    pub(super) const fn generation_recorded(&mut self, failed: bool) {
        if let Coming::Recording { fork } = self.coming {
            let told = failed || !self.streams();
            self.coming = if told { Coming::Known } else { Coming::Unheard { fork } };
        }
    }

    /// The record of another generation is being written.
    pub(super) const fn awaits_generation(&self) -> bool {
        matches!(self.coming, Coming::Recording { .. })
    }

    /// The peer kept its memory, and received items up to there.
    pub(super) fn kept(&mut self, received: Sequence) {
        self.cursors.received = received.max(self.cursors.received);
    }

    /// The peer lost its memory: what it has is what is durable there. Returns whether it may have more in part.
    pub(super) fn lost_memory(&mut self, durable: Sequence) -> bool {
        let had_more = self.cursors.sent > durable;
        self.cursors = Cursors::all_at(durable);
        had_more
    }

    /// Its image takes the place of this node's, in order from `head` on.
    pub(super) const fn lead_from(&mut self, head: Sequence, incarnation: Option<u64>) {
        self.owed.restore_order();
        self.cursors = Cursors::all_at(head);
        self.incarnation = incarnation;
    }

    /// The peer connected. `ours`: the generations of this node's line.
    pub(super) fn met(&mut self, peer: &Hello, ours: &Lineage) {
        let consistent = peer.consistent;
        self.keeping.met(peer, ours);
        let back = match consistent {
            true if peer.lineage.generation != Generation::NONE => GoesBack::ToThis,
            false if peer.keeps => GoesBack::ToBefore,
            // It preserves nothing, or has no history and so nothing to preserve.
            _ => GoesBack::No,
        };
        self.image = Image::Said { consistent, back };
    }

    /// An acknowledgement came from that incarnation. Returns whether a stream flows that it may be of.
    pub(super) const fn heard(&mut self, incarnation: Option<u64>) -> bool {
        if self.streams() {
            self.incarnation = incarnation;
        }
        self.streams()
    }

    /// The incarnation these cursors belong to.
    pub(super) const fn incarnation(&self) -> Option<u64> {
        self.incarnation
    }

    /// The peer's image is known to keep the order promise.
    pub(super) const fn is_consistent(&self) -> bool {
        let (Image::Said { consistent, .. } | Image::Streamed { consistent, .. }) = self.image;
        consistent
    }

    /// If a stream began since the peer's last hello: whether that left a consistent image.
    pub(super) const fn left_consistent(&self) -> Option<bool> {
        match self.image {
            Image::Streamed { consistent, .. } => Some(consistent),
            Image::Said { .. } => None,
        }
    }

    /// What is known of its copy.
    pub(super) const fn copy(&self) -> PeerCopy {
        self.copy
    }

    /// Its copy was found to be another one.
    pub(super) const fn found(&mut self, copy: PeerCopy) {
        self.copy = copy;
    }

    /// It is asked for its bitmap.
    pub(super) const fn ask_bitmap(&mut self) {
        self.copy.ask_bitmap();
    }

    /// Whether it keeps its last consistent image while it is updated.
    pub(super) const fn keeping(&self) -> &PeerKeeping {
        &self.keeping
    }

    /// It has no room to keep its image. Returns whether it was asked to on the stream that flows.
    pub(super) fn has_no_room(&mut self, shortage: Shortage) -> bool {
        let asked = self.streams() && self.keeping.is_asked();
        if asked {
            self.keeping.refuse(shortage);
        }
        asked
    }

    /// Another reason than a shortage keeps the update from starting.
    pub(super) fn forget_refusal(&mut self) {
        self.keeping.forget_refusal();
    }

    /// The operator wants an update that preserves nothing on the peer.
    pub(super) fn give_up_safe_copy(&mut self) {
        self.keeping.give_up();
    }
}

impl Flow {
    fn answers_count(&self) -> bool {
        !matches!(self.pace, Pace::Behind { .. })
    }
}
