// SPDX-License-Identifier: Apache-2.0
//! A follower's copy is suspect once a flush of its store failed (rule 14).
//!
//! ```text
//!   flush or FUA fails ──> nothing is applied any more ──> recorded: suspect, marks void
//!   restart ──> unproven: everything is compared ── in suspect places ──> written without a comparison
//!                                                └──────────────────────> consistent, recorded: not suspect
//! ```
//! The store may have dropped what it had not made durable, and may still return it to every read: a kernel marks the pages
//! of a failed flush clean and keeps them. So a block that reads as equal proves nothing, nor does a later flush that
//! succeeds, and a restart of the process does not drop the cache. Only to write the block again and flush it does.
//!
//! Everything that was not durable lies in a hot extent, because an extent turns cold behind a flush that proves
//! something. None turns cold while the copy is suspect and none of it was written again; so after a restart the hot
//! extents tell which blocks are suspect. Of a copy that was being written again, or that was written as a primary's,
//! nothing tells: all of the volume is suspect then.

use super::Suspect;
use alloc::vec::Vec;
use helio_bitmap::HotExtents;
use helio_stack::StoreOp;
use helio_units::{Extent, VolumeIndex};

/// What is hot on a volume.
pub(super) fn hot_on(cover: &HotExtents<StoreOp>, at: VolumeIndex) -> Vec<(VolumeIndex, Extent)> {
    let mut hot = cover.touched(|_| true);
    hot.retain(|(volume, _)| *volume == at);
    hot
}

impl Suspect {
    /// A flush of a volume failed on a node that does not lead: what is hot there must be written again.
    pub(crate) fn stopped(&mut self, at: VolumeIndex, cover: &HotExtents<StoreOp>) {
        self.flush_failed(at);
        self.put_places(at, hot_on(cover, at));
    }
}
