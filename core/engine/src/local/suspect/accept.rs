// SPDX-License-Identifier: Apache-2.0
//! How far a copy is that an operator takes for what it reads as (`role/accept.rs` has the drawing).

/// How far a copy is that is being accepted. See the drawing above.
use helio_stack::StoreFault;
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
