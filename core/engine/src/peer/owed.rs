// SPDX-License-Identifier: Apache-2.0
//! What a primary owes its peer, and what is known of the peer's copy.
//!
//! ```text
//!           order is given up (`Primary::drop_queue` says why)
//!   InOrder ───────────────────────────────────────────────────────────────────> BitmapOnly
//!    ^   ^                                                                        │  │   ^
//!    │   └── a resync begins with nothing to copy, or a reverse resync begins ────┘  │   │
//!    │                                                              a resync begins  │   │ order is given up
//!    │                                                                               v   │
//!    └────── the peer completed the marker ─────────────────────────────────────── Copying
//! ```
//! ```text
//!   BitmapOnly ──a cut is shipped──> Shipping ──the peer completed the marker, or the cut is given up──> BitmapOnly
//! ```
//! A new primary begins in `InOrder` where the peer's copy is proven equal, otherwise in `BitmapOnly`. A resync may start in
//! every state (not drawn for `InOrder`). In `InOrder` and `Copying` a stream may flow. The peer's image is consistent again once the peer completed the marker.
//! `Copying` puts one on the line when no region is dirty any more; `InOrder` does if the peer lost what it had received. `Shipping`
//! puts one behind the last region of the cut; later writes are recorded in the bitmap and not queued.

use helio_format::before::CopyNumber;
use helio_units::{Moment, Sequence};

/// Why nothing is queued in mode periodic.
const PERIODIC: &str = "in mode periodic the bitmap records what changes between two cuts";

/// A cut of this node's volumes that is shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    copy: CopyNumber,
    head: Sequence,
    at: Moment,
}

impl Cut {
    /// That copy holds it, with every item up to `head`. It was cut at that moment.
    pub(crate) const fn new(copy: CopyNumber, head: Sequence, at: Moment) -> Self {
        Self { copy, head, at }
    }

    /// The copy that holds it.
    pub(crate) const fn copy(&self) -> CopyNumber {
        self.copy
    }

    /// The last item in it.
    pub(crate) const fn head(&self) -> Sequence {
        self.head
    }

    /// When it was cut.
    pub(crate) const fn at(&self) -> Moment {
        self.at
    }
}

/// See the drawing above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owed {
    /// Every item after the peer's durable cursor, in order. `consistent_at`: the marker, if one is on the line.
    InOrder { consistent_at: Option<Sequence> },
    /// What the bitmap records, and nothing is queued. `why`: shown to the operator. `paused`: by an operator.
    BitmapOnly { why: &'static str, paused: bool },
    /// Dirty regions, copied among items in order. `consistent_at`: the marker, once it is on the line.
    Copying { consistent_at: Option<Sequence> },
    /// The regions of a cut. `consistent_at`: the marker, once it is on the line.
    Shipping { cut: Cut, consistent_at: Option<Sequence> },
}

impl Owed {
    /// What a new primary owes. `equal`: the peer's copy is proven equal.
    pub(crate) const fn at_start(equal: bool) -> Self {
        if equal {
            Self::InOrder { consistent_at: None }
        } else {
            Self::BitmapOnly { why: "the copies may differ", paused: false }
        }
    }

    /// The queue keeps order for the peer.
    pub(crate) const fn queues_in_order(&self) -> bool {
        !matches!(self, Self::BitmapOnly { .. } | Self::Shipping { .. })
    }

    /// The cut that is shipped.
    pub(crate) const fn cut(&self) -> Option<Cut> {
        if let Self::Shipping { cut, .. } = *self { Some(cut) } else { None }
    }

    /// The peer's image will not be in order until dirty regions have been copied.
    pub(crate) const fn is_image_out_of_order(&self) -> bool {
        !matches!(self, Self::InOrder { .. })
    }

    /// The peer's image is consistent behind every item: order is kept, and no marker must be completed before.
    pub(crate) fn stays_consistent(&self) -> bool {
        *self == Self::InOrder { consistent_at: None }
    }

    /// The peer's image is consistent once the peer has every item up to `at`.
    pub(crate) fn is_consistent_after(&self, at: Sequence) -> bool {
        self.stays_consistent() || self.marker().is_some_and(|marker| marker <= at)
    }

    /// The marker behind which the peer's image is consistent again, if it is on the line.
    pub(crate) const fn marker(&self) -> Option<Sequence> {
        match *self {
            Self::InOrder { consistent_at }
            | Self::Copying { consistent_at }
            | Self::Shipping { consistent_at, .. } => consistent_at,
            Self::BitmapOnly { .. } => None,
        }
    }

    /// An operator paused replication.
    pub(crate) const fn is_paused(&self) -> bool {
        matches!(self, Self::BitmapOnly { paused: true, .. })
    }

    /// Why only the bitmap records what the peer lacks.
    pub(crate) const fn why(&self) -> &'static str {
        match self {
            Self::BitmapOnly { why, .. } => why,
            Self::InOrder { .. } | Self::Copying { .. } | Self::Shipping { .. } => "",
        }
    }

    /// Order is given up.
    pub(crate) const fn drop_order(&mut self, why: &'static str) {
        *self = Self::BitmapOnly { why, paused: self.is_paused() };
    }

    /// An operator pauses replication.
    pub(crate) const fn pause(&mut self) {
        *self = Self::BitmapOnly { why: self.why(), paused: true };
    }

    /// A resync is wanted again.
    pub(crate) const fn end_pause(&mut self) {
        if let Self::BitmapOnly { paused, .. } = self {
            *paused = false;
        }
    }

    /// There is another reason why no resync begins.
    pub(crate) const fn explain(&mut self, because: &'static str) {
        if let Self::BitmapOnly { why, .. } = self {
            *why = because;
        }
    }

    /// A resync begins.
    pub(crate) const fn begin_copying(&mut self) {
        *self = Self::Copying { consistent_at: None };
    }

    /// A cut begins to be shipped.
    pub(crate) const fn begin_shipping(&mut self, cut: Cut) {
        *self = Self::Shipping { cut, consistent_at: None };
    }

    /// The peer's image is the cut. Until the next one nothing is owed but what the bitmap records.
    pub(crate) const fn end_shipping(&mut self) {
        *self = Self::BitmapOnly { why: PERIODIC, paused: false };
    }

    /// The marker is on the line. Behind it the peer's image has every item up to `head`.
    pub(crate) fn put_marker(&mut self, at: Sequence, head: Sequence) {
        match self {
            Self::InOrder { consistent_at } | Self::Copying { consistent_at } => {
                *consistent_at = Some(at);
            }
            Self::Shipping { cut, consistent_at } => {
                cut.head = head;
                *consistent_at = Some(at);
            }
            Self::BitmapOnly { .. } => panic!("marker {at} is on a line that keeps no order"),
        }
    }

    /// The peer's image is consistent, and items follow in order.
    pub(crate) const fn restore_order(&mut self) {
        *self = Self::InOrder { consistent_at: None };
    }
}

/// What is known of the peer's copy when a resync begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerCopy {
    /// It differs at most in the dirty regions of both bitmaps.
    ByBitmaps,
    /// Nothing: every region is dirty, and the peer's own bitmap is not needed.
    Unknown,
    /// It began as the disk that was shipped: little differs, even if every region is dirty. `by_bitmaps`: the peer's own
    /// bitmap was asked for since; until then it is not needed.
    Shipped { by_bitmaps: bool },
}

impl PeerCopy {
    /// The peer is asked for its bitmap.
    pub(crate) const fn ask_bitmap(&mut self) {
        *self = match self {
            Self::Shipped { .. } => Self::Shipped { by_bitmaps: true },
            Self::ByBitmaps | Self::Unknown => Self::ByBitmaps,
        };
    }

    /// This node's bitmap has every region that may differ: the peer's own is not needed.
    pub(crate) const fn needs_no_bitmap(&self) -> bool {
        matches!(self, Self::Unknown | Self::Shipped { by_bitmaps: false })
    }

    /// Little differs, even if every region is dirty.
    pub(crate) const fn is_shipped(&self) -> bool {
        matches!(self, Self::Shipped { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::Owed::{self, BitmapOnly, Copying, InOrder, Shipping};
    use super::PeerCopy::{ByBitmaps, Shipped, Unknown};
    use super::{CopyNumber, Cut, Moment};
    use helio_units::Sequence;

    const CUT: Cut = Cut { copy: CopyNumber(4), head: Sequence(2), at: Moment::ZERO };

    #[test]
    fn every_transition_leads_to_its_state_from_every_state() {
        let (before, at) = (Some(Sequence(3)), Sequence(7));
        let states = [
            Owed::at_start(true),
            InOrder { consistent_at: before },
            Owed::at_start(false),
            BitmapOnly { why: "paused", paused: true },
            Copying { consistent_at: None },
            Copying { consistent_at: before },
            Shipping { cut: CUT, consistent_at: None },
            Shipping { cut: CUT, consistent_at: before },
        ];
        for from in states {
            let after = |step: fn(&mut Owed)| {
                let mut owed = from;
                step(&mut owed);
                owed
            };
            let paused = from.is_paused();
            assert_eq!(after(|o| o.drop_order("full")), BitmapOnly { why: "full", paused });
            assert_eq!(after(Owed::pause), BitmapOnly { why: from.why(), paused: true });
            assert_eq!(after(Owed::begin_copying), Copying { consistent_at: None });
            assert!(after(Owed::restore_order).stays_consistent());
            let shipped = after(|o| o.begin_shipping(CUT));
            assert_eq!((shipped.cut(), shipped.marker()), (Some(CUT), None));
            assert!(matches!(after(Owed::end_shipping), BitmapOnly { paused: false, .. }));
            let (resumed, explained) = (after(Owed::end_pause), after(|o| o.explain("refused")));
            if let BitmapOnly { why, .. } = from {
                assert_eq!(resumed, BitmapOnly { why, paused: false });
                assert_eq!(explained, BitmapOnly { why: "refused", paused });
                assert!(
                    !from.queues_in_order()
                        && from.is_image_out_of_order()
                        && from.marker().is_none()
                );
                assert!(!from.is_consistent_after(at));
                continue;
            }
            assert!((resumed, explained) == (from, from) && !paused);
            assert_eq!(from.queues_in_order(), from.cut().is_none());
            let marked = after(|o| o.put_marker(Sequence(7), Sequence(5)));
            assert_eq!(marked.cut().map(|cut| cut.head), from.cut().map(|_| Sequence(5)));
            assert_eq!(marked.marker(), Some(at));
            assert_eq!(marked.is_image_out_of_order(), from.is_image_out_of_order());
            assert!(marked.is_consistent_after(at) && !marked.is_consistent_after(Sequence(6)));
            assert!(!marked.stays_consistent());
        }
    }

    #[test]
    fn a_bitmap_that_is_asked_for_is_needed_and_a_shipped_disk_stays_one() {
        let shipped = Shipped { by_bitmaps: true };
        let cases = [
            (ByBitmaps, ByBitmaps),
            (Unknown, ByBitmaps),
            (Shipped { by_bitmaps: false }, shipped),
            (shipped, shipped),
        ];
        for (from, to) in cases {
            let mut copy = from;
            copy.ask_bitmap();
            assert_eq!((copy, copy.is_shipped()), (to, from.is_shipped()));
            assert!(!copy.needs_no_bitmap());
        }
        assert!(Unknown.needs_no_bitmap() && Shipped { by_bitmaps: false }.needs_no_bitmap());
    }
}
