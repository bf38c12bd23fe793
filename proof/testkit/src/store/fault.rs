// SPDX-License-Identifier: Apache-2.0
//! What is to fail, and what did.

use super::cache::{Loss, Shows};
use helio_units::Extent;
use std::time::Duration;

/// What a store makes of a write with FUA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fua {
    /// This write is durable when it completes; earlier ones are not.
    Native,
    /// A write, and a flush of everything: what most disks do.
    WriteAndFlush,
}

/// A kind of request to a store, as FUSE has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The file is opened.
    Open,
    /// Its length and times are asked for.
    Look,
    /// Its length or times change.
    Change,
    /// An extended attribute is read, set or removed.
    Attribute,
    /// Where data or a hole begins.
    Seek,
    /// Bytes are reserved, zeroed or discarded.
    Allocate,
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// What was written becomes durable.
    Flush,
}

impl Request {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Open,
        Self::Look,
        Self::Change,
        Self::Attribute,
        Self::Seek,
        Self::Allocate,
        Self::Read,
        Self::Write,
        Self::Flush,
    ];

    /// By FUSE's number; none for requests that are answered at once always.
    pub(super) const fn of(opcode: u32) -> Option<Self> {
        Some(match opcode {
            3 => Self::Look,
            4 => Self::Change,
            14 => Self::Open,
            15 => Self::Read,
            16 => Self::Write,
            20 => Self::Flush,
            21 | 22 | 24 => Self::Attribute,
            43 => Self::Allocate,
            46 => Self::Seek,
            _ => return None,
        })
    }
}

/// Something that is to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// The flush that follows so many others fails with EIO, and the cache drops what it says.
    Flush {
        /// Flushes that succeed before.
        after: u64,
        /// What is lost.
        loss: Loss,
        /// When that shows.
        shows: Shows,
    },
    /// The same of a write with FUA.
    Fua {
        /// Writes with FUA that succeed before.
        after: u64,
        /// What is lost; of a store with native FUA nothing but the write itself.
        loss: Loss,
        /// When that shows.
        shows: Shows,
    },
}

impl Failing {
    /// The next flush fails, drops everything that is not durable, and shows it at once.
    pub const FLUSH: Self = Self::Flush { after: 0, loss: Loss::All, shows: Shows::AtOnce };
    /// The same of the next write with FUA.
    pub const FUA: Self = Self::Fua { after: 0, loss: Loss::All, shows: Shows::AtOnce };

    const fn is_fua(&self) -> bool {
        matches!(self, Self::Fua { .. })
    }
}

/// What a store did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writes and zeroes, those with FUA included.
    pub writes: u64,
    /// Flushes that were asked for.
    pub flushes: u64,
    /// Writes with FUA that were asked for.
    pub fuas: u64,
    /// Flushes and writes with FUA that failed on demand.
    pub failed: u64,
    /// Blocks of 4 KiB that these dropped.
    pub dropped: u64,
    /// Flushes that wait now.
    pub waiting: usize,
    /// Requests that the store was slow at.
    pub slowed: u64,
    /// Blocks of 4 KiB that are not durable now.
    pub volatile: usize,
}

#[derive(Debug)]
pub(super) struct Control {
    pub(super) fua: Fua,
    pub(super) slow: Option<(Request, Duration)>,
    pub(super) holds: bool,
    pub(super) hangs: bool,
    pub(super) counts: Counts,
    failing: Vec<Failing>,
    /// Extents, and whether it is their writes that fail.
    bad: Vec<(Extent, bool)>,
}

impl Control {
    pub(super) const fn new(fua: Fua) -> Self {
        Self {
            fua,
            slow: None,
            holds: false,
            hangs: false,
            counts: Counts {
                writes: 0,
                flushes: 0,
                fuas: 0,
                failed: 0,
                dropped: 0,
                waiting: 0,
                slowed: 0,
                volatile: 0,
            },
            failing: Vec::new(),
            bad: Vec::new(),
        }
    }

    pub(super) fn fail(&mut self, failing: Failing) {
        self.failing.push(failing);
    }

    pub(super) fn fail_extent(&mut self, extent: Extent, writes: bool) {
        self.bad.push((extent, writes));
    }

    /// How long a request of that number is to take.
    pub(super) fn delay(&self, opcode: u32) -> Duration {
        let slow = self.slow.filter(|(request, _)| Request::of(opcode) == Some(*request));
        slow.map_or(Duration::ZERO, |(_, by)| by)
    }

    pub(super) fn heal(&mut self) {
        self.failing.clear();
        self.bad.clear();
    }

    /// Whether a read or write of an extent fails.
    pub(super) fn is_bad(&self, extent: Extent, write: bool) -> bool {
        let meets = |bad: &Extent| bad.offset < extent.end() && extent.offset < bad.end();
        self.bad.iter().any(|(bad, writes)| *writes == write && meets(bad))
    }

    /// A flush, or a write with FUA, is about to end: what is lost if it fails.
    pub(super) fn ends(&mut self, fua: bool) -> Option<(Loss, Shows)> {
        let mut due = None;
        for (at, failing) in self.failing.iter_mut().enumerate() {
            if failing.is_fua() != fua {
                continue;
            }
            let (Failing::Flush { after, loss, shows } | Failing::Fua { after, loss, shows }) =
                failing;
            if *after == 0 {
                due = Some((at, (*loss, *shows)));
                break;
            }
            *after -= 1;
        }
        let (at, lost) = due?;
        self.failing.remove(at);
        self.counts.failed += 1;
        Some(lost)
    }
}
