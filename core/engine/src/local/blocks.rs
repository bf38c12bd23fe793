// SPDX-License-Identifier: Apache-2.0
//! Block sizes: what every request on a volume keeps to, so that each copy of it can take it (rules 15 and 24).
//!
//! A volume's block size is the largest that a member of it has required so far, on either node. The two tell each other
//! theirs when they meet, and the record keeps it, so that a node that starts without its peer, or takes over from it,
//! offers no smaller one. It never shrinks: partition tables count in it.
//!
//! ```text
//!   a larger one becomes known ──nobody uses the volume──> it is offered
//!                └──────────────somebody does───────────> what is offered stays, and a peer that needs more is refused
//! ```

use crate::config::Config;
use crate::event::MemberFound;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_format::message::{self, BLOCK_MIN};
use helio_format::superblock::Superblock;
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, VolumeIndex};

/// Of every volume of a group.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    volumes: Vec<Block>,
    /// Bit n while anybody uses volume n here.
    used: u64,
}

/// Of one volume, in bytes.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// What its member on this node requires.
    member: u32,
    /// The largest that is known of, on either node.
    known: u32,
    /// What its users were told.
    offered: u32,
}

impl Blocks {
    /// What the record knows, and what was found.
    pub(crate) fn new(record: &Superblock, found: &[MemberFound]) -> Self {
        let block = |(n, recorded): (usize, &u32)| {
            let member = found.get(n).map_or(BLOCK_MIN, |found| found.block.max(BLOCK_MIN));
            let known = member.max(*recorded);
            Block { member, known, offered: known }
        };
        Self { volumes: record.blocks.iter().enumerate().map(block).collect(), used: 0 }
    }

    /// The block size that users of a volume are to be told.
    pub(crate) fn offered(&self, volume: VolumeIndex) -> u32 {
        self.volumes.get(usize::from(volume.0)).map_or(BLOCK_MIN, |block| block.offered)
    }

    /// Whether a request keeps to what its client was told.
    pub(crate) fn keeps_to(&self, volume: VolumeIndex, extent: Extent) -> bool {
        is_multiple(extent, self.offered(volume))
    }

    /// Whether this node's member can do that.
    pub(crate) fn fits_member(&self, volume: VolumeIndex, extent: Extent) -> bool {
        let block = self.volumes.get(usize::from(volume.0));
        block.is_none_or(|block| is_multiple(extent, block.member))
    }

    /// Another disk lies in a volume's place.
    pub(crate) fn put(&mut self, volume: VolumeIndex, member: u32) {
        if let Some(block) = self.volumes.get_mut(usize::from(volume.0)) {
            block.member = member.max(BLOCK_MIN);
            block.known = block.known.max(block.member);
        }
        self.used(self.used);
    }

    /// A client or a device uses a volume.
    pub(crate) const fn in_use(&self) -> bool {
        self.used != 0
    }

    /// Somebody uses these volumes, bit n volume n, and nobody any other: those may offer what became known meanwhile.
    pub(crate) fn used(&mut self, volumes: u64) {
        self.used = volumes;
        for (n, block) in self.volumes.iter_mut().enumerate() {
            if volumes >> n & 1 == 0 {
                block.offered = block.known;
            }
        }
    }

    /// The peer tells of its own.
    pub(crate) fn learn(&mut self, theirs: &[message::Blocks]) {
        if planted(Plant::PeerBlockIgnored) {
            return;
        }
        for (block, theirs) in self.volumes.iter_mut().zip(theirs) {
            block.known = block.known.max(theirs.volume);
        }
        self.used(self.used);
    }

    /// What a hello says.
    pub(crate) fn told(&self) -> Vec<message::Blocks> {
        let told = |block: &Block| message::Blocks { member: block.member, volume: block.known };
        self.volumes.iter().map(told).collect()
    }

    /// What a record says.
    pub(crate) fn record(&self, b: &mut Superblock) {
        for (recorded, block) in b.blocks.iter_mut().zip(&self.volumes) {
            *recorded = block.known;
        }
    }

    /// Whether the peer told of a larger one than the record or this node's own member would tell after a restart.
    pub(crate) fn are_news(&self, b: &Superblock) -> bool {
        let mut both = self.volumes.iter().zip(&b.blocks);
        both.any(|(block, recorded)| block.known > block.member.max(*recorded))
    }

    /// Why an extent that the peer named cannot be: it does not keep to the blocks of this node's member.
    ///
    /// # Errors
    /// It does not: the connection must end.
    pub(crate) fn check_member(
        &self,
        volume: VolumeIndex,
        extent: Extent,
        config: &Config,
    ) -> Result<(), String> {
        if self.fits_member(volume, extent) {
            return Ok(());
        }
        let block = self.volumes.get(usize::from(volume.0)).map_or(BLOCK_MIN, |block| block.member);
        Err(format!(
            "{extent} of volume {} is not aligned to this node's blocks of {}",
            config.name_of(volume),
            Bytes(block.into())
        ))
    }
}

pub(crate) fn is_multiple(extent: Extent, block: u32) -> bool {
    let block = u64::from(block);
    extent.offset.is_multiple_of(block) && extent.length.is_multiple_of(block)
}
