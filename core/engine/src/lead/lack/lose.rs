// SPDX-License-Identifier: Apache-2.0
//! The store of a primary's volume fails, and its level peer takes its place: the policy `serve-from-peer`, and whatever
//! the policy, where a flush failed (`suspect.rs`).
//!
//! The whole volume counts as lacking (`mod.rs`), durably before anything is answered that the store does not hold, and
//! nothing more is issued to it. What hit the fault is not an error any more: a write is answered once the peer has it, a
//! read is asked of the peer. Once this node was demoted and its peer promoted, another store may be put in its place; then
//! all of it is copied, since its marks say so. By an operator's word (`helio resync`) the same store is used again: all of it is
//! pulled, and if it fails again, it is given up again.

use crate::config::OnError;
use crate::lead::Primary;
use crate::lead::lack::Lack;
use crate::local::Local;
use crate::local::failure::Failed;
use crate::turn::Turn;
use alloc::format;
use helio_stack::StoreFault;
use helio_units::{Extent, VolumeIndex};

impl Primary {
    /// Whether the store of a volume may be given up: the policy says so, and the peer holds everything in order. Behind
    /// a failed flush a peer will do that still gets everything in order: what waits for a FLUSH waits for that.
    pub(crate) fn may_lose(
        &self,
        volume: VolumeIndex,
        failed: Failed,
        local: &Local,
        turn: &Turn,
    ) -> bool {
        let flush = failed == Failed::Flush;
        let level = self.target.answers_count() || flush && self.target.is_taken_up();
        let in_order = level && self.target.owed().stays_consistent();
        let whole = in_order
            && self.target.is_consistent()
            && (self.marks.none_dirty() || flush && self.is_whole_but_for(volume, local, turn));
        (flush || turn.config().on_error == OnError::ServeFromPeer)
            && !local.metadata_failed()
            && !self.is_lost(volume)
            && match &self.lack {
                // A store that fails while it is pulled to is given up like any other.
                Some(_) => true,
                None => whole && self.copier.is_idle(),
            }
    }

    /// Nothing is marked on any volume, but for those whose copies the peer's take the place of: what failed on them stays
    /// marked, and is on the line like any other item.
    fn is_whole_but_for(&self, volume: VolumeIndex, local: &Local, turn: &Turn) -> bool {
        let kept = (0u16..).map(VolumeIndex).zip(&turn.config().volumes);
        let mut kept =
            kept.filter(|(at, size)| *at != volume && !local.suspect().is(*at) && size.0 > 0);
        kept.all(|(at, size)| !self.marks.any_dirty(at, Extent::new(0, size.0)))
    }

    /// Nothing is issued to the store of that volume any more.
    pub(crate) fn is_lost(&self, volume: VolumeIndex) -> bool {
        self.lack.as_ref().is_some_and(|lack| lack.has_lost(volume))
    }

    /// Any store is given up.
    pub(crate) fn has_lost(&self) -> bool {
        self.lack.as_ref().is_some_and(|lack| lack.lost().next().is_some())
    }

    /// Gives the store of a volume up.
    pub(crate) fn lose(
        &mut self,
        volume: VolumeIndex,
        fault: StoreFault,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let head = self.line.head();
        if self.lack.is_none() {
            self.copier.stop();
            self.target.close_from(head);
        }
        self.lack.get_or_insert_with(|| Lack::new(None)).lose(volume);
        let size = turn.config().volumes[usize::from(volume.0)];
        self.marks.set(volume, Extent::new(0, size.0));
        local.hot_mut().bitmap_changed();
        self.own.failed(volume, fault);
        // What came before its moment may have failed here, and the peer answers for it.
        local.fail_cut(volume, fault, turn);
        turn.warn(format!(
            "the disk of volume {} failed: {fault}; the volume is served from {} from now on",
            turn.config().name_of(volume),
            turn.config().peer
        ));
    }

    /// The first store that was given up.
    pub(crate) fn lost(&self) -> Option<VolumeIndex> {
        self.lack.as_ref()?.lost().next()
    }
}
