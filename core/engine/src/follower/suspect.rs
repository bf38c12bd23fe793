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

use crate::config::Config;
use crate::cover::Cover;
use crate::engine::Engine;
use crate::plant::{Plant, planted};
use crate::role::Standing;
use crate::save::Goal;
use crate::suspect::bit;
use alloc::format;
use alloc::vec::Vec;
use helio_format::superblock::Superblock;
use helio_units::{Extent, Role, VolumeIndex};

/// See the module's words.
#[derive(Debug, Default)]
pub(crate) struct Suspect {
    /// Bit n where a flush of volume n failed in this process.
    failed: u64,
    /// What must be written again, in order, without overlaps.
    places: Vec<(VolumeIndex, Extent)>,
}

impl Suspect {
    /// What the record of the process before says.
    pub(crate) fn load(&mut self, record: &Superblock, cover: &Cover, config: &Config) {
        let followed = record.role == Role::Secondary && !record.wrote && !record.alone;
        let hot_tells = followed && record.consistent;
        let suspect = |volume: VolumeIndex| record.suspect & bit(volume) != 0;
        self.places = if hot_tells {
            let hot = cover.touched(|_| true).into_iter();
            hot.filter(|(volume, _)| suspect(*volume)).collect()
        } else {
            let whole = (0u16..).map(VolumeIndex).zip(&config.volumes);
            let whole = whole.filter(|(volume, size)| suspect(*volume) && size.0 > 0);
            whole.map(|(volume, size)| (volume, Extent::new(0, size.0))).collect()
        };
    }

    /// A flush of a volume failed.
    pub(crate) fn flush_failed(&mut self, at: VolumeIndex, cover: &Cover) {
        self.failed |= bit(at);
        let (mut places, others): (Vec<_>, Vec<_>) =
            self.places.drain(..).partition(|(volume, _)| *volume == at);
        places.extend(cover.touched(|_| true).into_iter().filter(|(volume, _)| *volume == at));
        self.places = others;
        self.places.extend(places);
        self.places.sort_unstable_by_key(|(volume, extent)| (*volume, extent.offset));
        self.places.dedup_by(|(next, run), (volume, before)| {
            let joined = next == volume && run.offset <= before.end();
            if joined {
                before.length = before.length.max(run.end() - before.offset);
            }
            joined
        });
    }

    /// Whether a block of the extent must be written again, whatever it reads as.
    pub(crate) fn touches(&self, volume: VolumeIndex, extent: Extent) -> bool {
        let behind =
            |(at, run): &(VolumeIndex, Extent)| (*at, run.end()) <= (volume, extent.offset);
        let next = self.places.get(self.places.partition_point(behind));
        !planted(Plant::CompareSuspect)
            && next.is_some_and(|(at, run)| *at == volume && run.offset < extent.end())
    }

    /// An operator accepted the copy of that volume. Its cache may still return what the store dropped: if the copy follows
    /// after all, those places are written again.
    pub(crate) const fn accepted(&mut self, at: VolumeIndex) {
        self.failed &= !bit(at);
    }

    /// Another disk is that volume's.
    pub(crate) fn replaced(&mut self, at: VolumeIndex) {
        self.failed &= !bit(at);
        self.places.retain(|(volume, _)| *volume != at);
    }

    /// Everything was written again and is durable.
    fn end(&mut self) {
        if self.failed == 0 {
            self.places.clear();
        }
    }
}

impl Engine {
    /// Whether what that volume's extents hold may not be durable whatever a flush says, and nobody marked it.
    pub(crate) fn keeps_hot(&self, volume: VolumeIndex) -> bool {
        let recorded = if self.superblock.marks_void { self.superblock.suspect } else { 0 };
        self.primary.is_none() && (recorded | self.shared.suspect.failed) & bit(volume) != 0
    }

    /// A flush failed, and the record does not say so yet.
    pub(crate) fn owes_failed_flush(&self) -> bool {
        self.shared.suspect.failed & !self.superblock.suspect != 0 && !self.metadata_failed
    }

    /// Records it.
    pub(crate) fn record_failed_flush(&mut self) {
        let stands = self.primary.is_none() && self.standing != Standing::Stopped;
        if stands && self.owes_failed_flush() && !self.is_saving() {
            self.save(Goal::FlushFailed);
        }
    }

    pub(crate) fn shape_flush_failed(&self, b: &mut Superblock) {
        b.suspect |= self.shared.suspect.failed;
        b.marks_void = true;
    }

    /// A copy is consistent: what was suspect was written again, if everything was copied since.
    pub(crate) fn shape_consistent(&self, b: &mut Superblock) {
        b.consistent = true;
        if self.is_peer_proven() {
            b.peer_invalid = helio_units::Generation::NONE;
        }
        if !b.marks_void {
            b.suspect = 0;
        }
        b.marks_void = b.suspect != 0;
        b.head = self.follower.completed.next();
    }

    /// That record is durable.
    pub(crate) fn consistent_saved(&mut self) {
        if self.superblock.suspect == 0 {
            self.shared.suspect.end();
        }
        self.follower.marker_saved(&mut self.shared);
    }

    /// Reports that this copy is suspect, and what ends that.
    pub(crate) fn report_suspect(&mut self) {
        let volumes = (0..self.shared.config.volumes.len() as u16).map(VolumeIndex);
        for volume in volumes.filter(|volume| self.superblock.suspect & bit(*volume) != 0) {
            self.shared.warn(format!(
                "volume {}: a flush failed on this node earlier, and its copy may lack writes that it reads as written; {} \
                 writes them again",
                volume.0, self.shared.config.peer
            ));
        }
    }
}
