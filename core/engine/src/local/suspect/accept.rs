// SPDX-License-Identifier: Apache-2.0
//! An operator takes a suspect copy for what it reads as.
//!
//! ```text
//!   Secondary, Returning ──accept──> Copying ──all of it──> Flushing ──done──> Saving ──recorded──> Secondary
//!                                       └──the store fails, a stop──┴─failed──────┴─not recorded──> as before
//! ```
//! What the copy reads as may lie in a cache alone: a kernel marks the pages of a failed flush clean and keeps them. Were the
//! record to say that the copy is good, those writes would vanish with the power, after the peer was compared with them. So
//! all of the volume is written again with what it reads as, and flushed; the copy stays suspect until then. Nothing else may
//! use the store during that time, so the node neither leads nor follows. After a crash the record still says suspect.
//!
//! The bytes do not change, so no extent turns hot for them.

use crate::refusal::StoreFault;

/// How far a copy is that is being accepted. See the drawing above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rewriting {
    Copying {
        /// Where the next piece begins.
        next: u64,
        /// Pieces that are being read or written.
        under_way: u16,
        /// No more pieces are begun: the disk failed.
        failed: Option<StoreFault>,
    },
    Flushing,
    Saving,
}
