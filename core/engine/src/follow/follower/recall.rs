// SPDX-License-Identifier: Apache-2.0
//! Whether a secondary has everything again that a process before this one may have confirmed.

use helio_units::Sequence;

/// ```text
/// Unknown ──a ping tells how far the primary is, behind the adopted start──▶ Until ──received so far──▶ Whole
///    ◀───────────────────another start is adopted─────────────────────────────╯
/// ```
/// The memory of that process is gone, and with it what it had received, confirmed, and not made durable. The primary sends it again,
/// since nothing that it accepted on its line is left out of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Recall {
    #[default]
    Unknown,
    /// The primary was here when it was asked first.
    Until(Sequence),
    Whole,
}

impl Recall {
    /// The primary's line reaches to `accepted`, and this node received what comes up to `received`.
    pub(super) fn primary_is_at(&mut self, accepted: Sequence, received: Sequence) {
        let until = match *self {
            Self::Unknown => accepted,
            Self::Until(until) => until,
            Self::Whole => return,
        };
        *self = if received >= until { Self::Whole } else { Self::Until(until) };
    }

    /// Another start is to be adopted: positions may be those of another line.
    pub(super) fn starts_again(&mut self) {
        if *self != Self::Whole {
            *self = Self::Unknown;
        }
    }
}
