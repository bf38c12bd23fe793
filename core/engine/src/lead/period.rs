// SPDX-License-Identifier: Apache-2.0
//! Mode periodic: when the next cut is made, shipped and committed.
//!
//! ```text
//!          an update may begin            due: the layer prepares a cut
//!   Off ───────────────────────> Waits ───────────────────────────────> Cutting
//!    ^                             ^  ^                                     │ the moment: the marks are split
//!    │ order is given up, the      │  └─── no cut could be made: Failed <───┤
//!    │ connection is lost, ...     │                                        v
//!    └── from everywhere           └── committed ── Owed::Shipping <── held ── Cut
//! ```
//! The peer gets the content of one moment. What is written since is in the bitmap alone, and in the next cut. A region that was
//! written many times between two cuts is sent once. Nothing that a client writes waits for a cut: where none can be made, or one is
//! lost, its regions stay dirty.

use crate::config::Config;
use crate::lead::Primary;
use crate::local::Local;
use crate::peer::owed::{Cut, Owed};
use crate::peer::permit::Permit;
use crate::resync::verify::Verify;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use helio_format::before::CopyNumber;
use helio_format::lineage::Lineage;
use helio_format::message::{Message, Start};
use helio_units::{Mode, Moment, Sequence};

/// If no cut could be made, the next one is tried after a period, but not before that long, ...
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// ... and not later than that.
const RETRY_WITHIN: Duration = Duration::from_secs(60);

/// See the drawing above.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Next {
    /// None is made.
    #[default]
    Off,
    /// A period after the last one, or at once.
    Waits { last: Option<Moment> },
    /// None could be made, or sent, at that time.
    Failed { at: Moment, why: String },
    /// The layer prepares one.
    Cutting,
    /// It was cut: the layer makes it durable.
    Cut { head: Sequence, at: Moment },
}

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub(super) struct Period {
    next: Next,
    /// When the last cut was made that this peer has as a whole.
    committed: Option<Moment>,
}

impl Period {
    /// No cut is made until an update may begin.
    pub(super) fn stop(&mut self) {
        self.next = Next::Off;
    }
}

impl Primary {
    /// Whether the peer gets one cut after the other.
    pub(crate) fn is_periodic(&self, config: &Config) -> bool {
        config.mode == Mode::Periodic && self.lack.is_none()
    }

    /// Whether a cut is shipped, or another one follows.
    pub(crate) fn period_runs(&self) -> bool {
        self.target.period().next != Next::Off || self.target.owed().cut().is_some()
    }

    /// When the last cut was made that the peer has as a whole, as long as others follow.
    pub(crate) fn committed(&self) -> Option<Moment> {
        let follow = self.period_runs() && self.why_no_cut().is_none();
        self.target.period().committed.filter(|_| follow)
    }

    /// Why no cut could be made or sent.
    pub(crate) fn why_no_cut(&self) -> Option<&str> {
        if let Next::Failed { why, .. } = &self.target.period().next { Some(why) } else { None }
    }

    /// The next cut is made at once.
    pub(super) fn want_cut(&mut self) {
        if !matches!(self.target.period().next, Next::Cutting | Next::Cut { .. }) {
            self.target.period_mut().next = Next::Waits { last: None };
        }
    }

    /// The peer's copy is another one.
    pub(super) fn forget_committed(&mut self) {
        self.target.period_mut().committed = None;
    }

    /// Follows the mode. Returns whether an update is to begin in order.
    pub(crate) fn follow_mode(
        &mut self,
        connected: bool,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> bool {
        let ships = self.target.owed().cut().is_some();
        if !self.is_periodic(turn.config()) {
            let ends = self.period_runs();
            if ends {
                self.keep_marks_only("the mode changed", local, permit, turn);
                self.forget_committed();
            }
            return ends && connected;
        }
        if self.target.owed().queues_in_order() {
            let streams = self.target.streams();
            self.keep_marks_only("the mode is periodic", local, permit, turn);
            if streams {
                self.want_cut();
            }
        } else if ships && self.target.is_to_be_told() {
            // The next stream is of the new generation.
            self.keep_marks_only("another generation began", local, permit, turn);
            self.want_cut();
        }
        false
    }

    /// When the next cut is due.
    fn cut_due(&self, config: &Config) -> Moment {
        match &self.target.period().next {
            Next::Waits { last: None } => Moment::ZERO,
            Next::Waits { last: Some(last) } => *last + config.period,
            Next::Failed { at, .. } => *at + config.period.clamp(RETRY_AFTER, RETRY_WITHIN),
            Next::Off | Next::Cutting | Next::Cut { .. } => Moment::NEVER,
        }
    }

    /// When the next cut falls due by time.
    pub(crate) fn period_deadline(&self, turn: &Turn) -> Moment {
        let due = self.cut_due(turn.config());
        if due > turn.now() { due } else { Moment::NEVER }
    }

    /// Whether a cut is to be made now. If the peer's copy is equal, none is needed.
    pub(crate) fn is_cut_due(&mut self, local: &Local, turn: &Turn) -> bool {
        let is_due = self.cut_due(turn.config()) <= turn.now();
        if !is_due || self.target.awaits_generation() || self.must_not_stream(local) {
            return false;
        }
        let is_equal = self.marks.none_dirty() && self.target.is_consistent();
        if is_equal && self.target.period().next == (Next::Waits { last: None }) {
            self.committed_at(turn.now());
        }
        !is_equal
    }

    fn committed_at(&mut self, at: Moment) {
        self.target.period_mut().next = Next::Waits { last: Some(at) };
        self.target.period_mut().committed = Some(at);
    }

    /// The layer is asked for a cut.
    pub(crate) fn begin_cutting(&mut self) {
        self.target.period_mut().next = Next::Cutting;
    }

    /// The layer is ready for the cut: this is its moment, if it is still wanted. Returns the last item in it.
    pub(crate) fn cut(&mut self, turn: &Turn) -> Option<Sequence> {
        if self.target.period().next != Next::Cutting {
            return None;
        }
        let (head, at) = (self.line.head(), turn.now());
        self.marks.begin_cut();
        self.target.period_mut().next = Next::Cut { head, at };
        Some(head)
    }

    /// The cut is durable: it is shipped, if it is still wanted.
    pub(crate) fn ship(
        &mut self,
        copy: CopyNumber,
        lineage: Lineage,
        verify: &mut Verify,
        turn: &mut Turn,
    ) {
        let Next::Cut { head, at } = self.target.period().next else { return };
        self.target.period_mut().next = Next::Off;
        let (behind, safe_copy) = (self.line.head(), turn.config().safe_copy);
        self.copier.begin_anew(behind, &mut self.marks);
        // One cut may differ in whole regions, and the next one in a block of each.
        self.copier.guess_anew();
        let cut = Cut::new(copy, head, at);
        let begun = self.target.begin_shipping(cut, behind, safe_copy);
        let (stream, keep) = self.begun(begun);
        verify.rewind();
        let to_copy = self.marks.bytes_to_copy();
        self.copier.start(false, to_copy, turn.now());
        turn.send(Message::Start(Start {
            lineage,
            from: behind.next(),
            consistent: false,
            keep,
            whole: self.target.copy().needs_no_bitmap(),
            to_copy: to_copy.0,
            stream,
            ships: true,
        }));
    }

    /// No cut could be made.
    pub(crate) fn cut_failed(&mut self, why: &str, turn: &mut Turn) {
        if matches!(self.target.period().next, Next::Cutting | Next::Cut { .. }) {
            self.marks.end_cut();
            self.ship_later(why, turn);
            turn.warn(format!("no cut of the volumes was made for the peer: {why}"));
        }
    }

    /// The cut that is shipped, or is about to be, is lost.
    pub(crate) fn give_cut_up(
        &mut self,
        why: &str,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        self.cut_failed(why, turn);
        if self.target.owed().cut().is_some() {
            turn.warn(format!("the cut was not sent as a whole: {why}; another one follows"));
            self.keep_marks_only("the cut was lost", local, permit, turn);
            self.ship_later(why, turn);
        }
    }

    /// Another cut is tried later.
    pub(super) fn ship_later(&mut self, why: &str, turn: &Turn) {
        if self.is_periodic(turn.config()) {
            self.target.period_mut().next = Next::Failed { at: turn.now(), why: String::from(why) };
        }
    }

    /// The peer has the cut as a whole.
    pub(super) fn cut_arrived(&mut self, cut: Cut) {
        self.marks.end_cut();
        self.dirty_since = (!self.marks.none_dirty()).then_some(cut.at());
        self.committed_at(cut.at());
    }

    /// What is done in mode periodic; for people.
    pub(crate) fn period_text(&self, config: &Config) -> String {
        let peer = &config.peer;
        match (self.target.owed(), &self.target.period().next) {
            (Owed::Shipping { .. }, _) => format!("a cut is being sent to {peer}"),
            (_, Next::Cutting | Next::Cut { .. }) => String::from("the next cut is being made"),
            (_, Next::Failed { why, .. }) => format!("no cut could be sent to {peer}: {why}"),
            _ => format!("{peer} has the last cut; the bitmap records what changes until the next"),
        }
    }
}
