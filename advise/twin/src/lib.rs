// SPDX-License-Identifier: Apache-2.0
//! Two nodes in virtual time: the real engine over modelled disks and a modelled link.
//!
//! A `Host` has two nodes, a queue of what falls due, and the one place in which what engines ask for is performed. It has one of two
//! kinds of content:
//!
//! - *Stamps*: a [`Cluster`] keeps what every block holds, as a [`Stamp`] per block of [`BLOCK`] bytes, so that "which write is this"
//!   is a comparison and never a guess. The real superblock store lies over sectors that tear; disks, processes and connections fail.
//!   It is driven one event at a time and tells a journal of [`Happening`]s. The simulator of `proof` adds faults, workloads and
//!   an oracle. Everything is aligned to blocks; shorter requests are the business of the stores themselves.
//! - *Sizes*: a [`Pair`] keeps one bit per block, whether the copies differ there, and models what costs time, for forecasts over
//!   millions of writes: see `lean`.
//!
//! Nothing is left to the machine it runs on: one seed, split by label, feeds every draw, and events of one moment have an order.
//!
//! Absent on purpose: clocks, threads, files, sockets.

mod before;
mod checksum;
mod clock;
mod cluster;
mod content;
mod digest;
mod disk;
mod happening;
mod host;
mod lean;
mod machine_image;
mod members;
mod metadata;
mod node;
mod pool;
mod queue;
mod sectors;
mod stamps;
mod suspended;
mod wire;
mod words;

pub use before::Before;
pub use checksum::crc32c;
pub use clock::Clock;
pub use cluster::Cluster;
pub use disk::{Disk, Latency, Lie, StoreVerb};
pub use happening::{Died, Happening, Replied};
pub use lean::{
    Course, DiskModel, Figures, LinkModel, Outcome, Pair, PairConfig, Processor, Run, Sample,
    ServiceTime, Spread, Stuck, Transport,
};
pub use machine_image::{MachineImage, Restore};
pub use metadata::{Metadata, MetadataBytes, MetadataFault};
pub use node::{Hook, Node, Pause, Side};
pub use pool::Pool;
pub use sectors::Sectors;
pub use suspended::Suspended;
pub use wire::{Breakage, Wire};

use helio_units::{Bytes, Extent, SECTOR, VolumeIndex};

/// The unit of content.
pub const BLOCK: Bytes = Bytes(4096);

/// What a block holds: the name of the write that put it there, or zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

impl Stamp {
    /// A block of zeros.
    pub const ZEROS: Self = Self(0);
    /// Half of a block that was torn, in bits; and what tells such a block from others.
    const HALF: u32 = 30;
    const TORN: u64 = 1 << 62;

    /// A block of which some sectors hold the one and some the other; none, where either is itself no request's.
    #[must_use]
    pub const fn torn(held: Self, written: Self) -> Option<Self> {
        if held.0 >> Self::HALF != 0 || written.0 >> Self::HALF != 0 {
            return None;
        }
        Some(Self(Self::TORN | held.0 << Self::HALF | written.0))
    }

    /// What its sectors hold, if it was torn.
    #[must_use]
    pub const fn parts(self) -> Option<(Self, Self)> {
        let half = (1 << Self::HALF) - 1;
        let parts = (Self(self.0 >> Self::HALF & half), Self(self.0 & half));
        if self.0 & Self::TORN == 0 { None } else { Some(parts) }
    }
}

/// One block of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// On which volume.
    pub volume: VolumeIndex,
    /// Which block of it.
    pub block: u32,
}

impl Place {
    /// Its first byte on the volume.
    #[must_use]
    pub fn offset(self) -> u64 {
        u64::from(self.block) * BLOCK.0
    }
}

/// The blocks of an extent, the last of which it may reach into in part: content is a stamp per block, so a request
/// that begins at one and ends in the middle of one changes all of it. Any two that do so overlap.
///
/// # Panics
/// If it does not begin at a block, or does not end at a sector.
pub fn places(volume: VolumeIndex, extent: Extent) -> impl Iterator<Item = Place> + Clone {
    assert!(
        extent.offset.is_multiple_of(BLOCK.0) && extent.length.is_multiple_of(SECTOR),
        "{extent} is not aligned to blocks"
    );
    let first = (extent.offset / BLOCK.0) as u32;
    (first..first + extent.length.div_ceil(BLOCK.0) as u32)
        .map(move |block| Place { volume, block })
}
