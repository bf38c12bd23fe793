// SPDX-License-Identifier: Apache-2.0
//! This node's copy: the border to its store, what it lies on, and what a failed operation means.

pub(crate) mod blocks;
pub(crate) mod copying;
pub(crate) mod failure;
pub(crate) mod flushes;
pub(crate) mod health;
mod layered;
pub(crate) mod members;
pub(crate) mod replace;
mod sets;
pub(crate) mod silence;
pub(crate) mod store;
pub(crate) mod suspect;

use crate::config::Config;
use crate::local::blocks::Blocks;
use crate::local::flushes::Flushes;
use alloc::vec::Vec;
use helio_bitmap::HotExtents;
use helio_format::superblock::Superblock;
use helio_plant::{Plant, planted};
use helio_stack::Stack;
use helio_stack::StoreOp;
use helio_units::VolumeIndex;
use layered::Layered;
use members::Members;
use replace::Replacing;
use silence::Silence;
use store::UnderWay;
use suspect::Suspect;

/// Whether this node's metadata file takes records (`record/invalid.rs` has the drawing).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metadata {
    Works,
    Failed,
    /// It failed, and the peer recorded that it tells nothing: stores are written uncovered.
    Uncovered,
}

/// What is under way on this node's store, what may be issued to it, and what is known of its copies.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    hot: HotExtents<StoreOp>,
    flushes: Flushes,
    ios: Vec<Option<UnderWay>>,
    free: Vec<u32>,
    /// What stands between the engine and the members.
    layered: Layered,
    metadata: Metadata,
    /// What flushes that failed left of this node's copies: the health of each.
    suspect: Suspect,
    blocks: Blocks,
    /// What the volumes lie on.
    members: Members,
    /// Which of these disks complete their operations.
    silence: Silence,
    /// A secondary's disk that is being replaced.
    replacing: Option<Replacing>,
}

impl Local {
    /// As the last process left it: `hot` are the numbers of the extents that the ledger tells of.
    pub(crate) fn starting(
        config: &Config,
        record: &Superblock,
        blocks: Blocks,
        members: Members,
        mut layers: Stack,
        hot: impl IntoIterator<Item = u64>,
    ) -> Self {
        let mut extents = HotExtents::new(&config.volumes, config.hot_extents as usize);
        for number in hot {
            let (volume, extent) = extents.grid().place(number);
            extents.load(number, layers.found_hot(volume, extent));
        }
        layers.bound(config.safe_copy.bound());
        let mut suspect = Suspect::new(config.volumes.len());
        suspect.load(record, &extents, config);
        Self {
            hot: extents,
            flushes: Flushes::new(),
            ios: Vec::new(),
            free: Vec::new(),
            layered: Layered::new(layers),
            metadata: Metadata::Works,
            suspect,
            blocks,
            members,
            silence: Silence::new(),
            replacing: None,
        }
    }

    /// The extents that may be written now.
    #[inline]
    pub(crate) const fn hot(&self) -> &HotExtents<StoreOp> {
        &self.hot
    }

    pub(crate) fn hot_mut(&mut self) -> &mut HotExtents<StoreOp> {
        &mut self.hot
    }

    #[inline]
    pub(crate) const fn suspect(&self) -> &Suspect {
        &self.suspect
    }

    pub(crate) fn suspect_mut(&mut self) -> &mut Suspect {
        &mut self.suspect
    }

    /// What requests on its volumes keep to.
    #[inline]
    pub(crate) const fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub(crate) fn blocks_mut(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

    /// What the volumes lie on.
    pub(crate) const fn members(&self) -> &Members {
        &self.members
    }

    pub(crate) fn members_mut(&mut self) -> &mut Members {
        &mut self.members
    }

    /// A secondary's disk that is being replaced.
    pub(crate) const fn replacing(&self) -> Option<Replacing> {
        self.replacing
    }

    pub(crate) fn replace(&mut self, replacing: Replacing) {
        self.replacing = Some(replacing);
    }

    pub(crate) fn end_replacing(&mut self) {
        self.replacing = None;
    }

    /// The metadata file cannot be written.
    #[inline]
    pub(crate) fn metadata_failed(&self) -> bool {
        self.metadata != Metadata::Works
    }

    /// Stores are written uncovered: the peer recorded that this node's metadata tells nothing.
    pub(crate) fn is_uncovered(&self) -> bool {
        self.metadata == Metadata::Uncovered
    }

    pub(crate) fn fail_metadata(&mut self) {
        if self.metadata == Metadata::Works {
            self.metadata = Metadata::Failed;
        }
    }

    /// `recorded`: the peer's record says that this node's metadata, which failed, tells nothing.
    pub(crate) fn uncover(&mut self, recorded: bool) {
        if self.metadata_failed() {
            self.metadata = if recorded { Metadata::Uncovered } else { Metadata::Failed };
        }
    }

    /// What the next record says of what the volumes lie on. `takes`: any disk is the right one from then on.
    pub(crate) fn shape(&self, b: &mut Superblock, takes: bool) {
        self.members.record(b, takes);
        self.blocks.record(b);
    }

    /// Whether this node's image keeps the order promise: its record says so, and is about this image, and no flush of it
    /// failed.
    pub(crate) fn is_consistent(&self, record: &Superblock) -> bool {
        record.consistent && !self.members.are_foreign() && !self.must_not_lead()
    }

    /// A node must not lead from a copy that a failed flush left.
    pub(crate) fn must_not_lead(&self) -> bool {
        self.suspect.any() && !planted(Plant::SuspectStreams)
    }

    /// A flush of a volume failed on a node that does not lead: what is hot there must be written again.
    pub(crate) fn doubt_hot(&mut self, volume: VolumeIndex) {
        self.suspect.stopped(volume, &self.hot);
    }

    /// What the record says of suspect copies holds from now on.
    pub(crate) fn reload_suspect(&mut self, record: &Superblock, config: &Config) {
        self.suspect.load(record, &self.hot, config);
    }
}
