// SPDX-License-Identifier: Apache-2.0
//! Making a file ready for direct I/O that does not wait: allocated, and out of the page cache.

use crate::refusal::Refusal;
use helio_driver::Errno;
use helio_units::{Bytes, SECTOR};
use rustix::fs::{
    Advice, FallocateFlags, SeekFrom, fadvise, fallocate, fstat, fstatvfs, fsync, seek,
};
use rustix::io::retry_on_intr;
use std::fmt;
use std::os::fd::AsFd;

/// How a member's space is held, which decides what a write to it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Every byte has been written before, or it is a block device: writes cost what the device costs.
    Written,
    /// Allocated, in part never written: the first write to a place costs the file system some work.
    Allocated,
    /// Allocated as it is written: a write may wait for the file system, and may find no room.
    Sparse,
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Written => "written",
            Self::Allocated => "allocated",
            Self::Sparse => "sparse",
        })
    }
}

/// What a file is once it is prepared.
pub(crate) struct Prepared {
    pub(crate) space: Space,
    /// The error of its flush. Do not retry: the kernel reports it to one caller only, and writes of the process that had the
    /// file open before may be lost.
    pub(crate) failed_flush: Option<Errno>,
}

/// Allocates what a file of `size` lacks, never changing what it holds, and drops its cached pages: dirty ones
/// would make every direct write wait for them, and those of a flush that failed are not what the disk holds.
pub(crate) fn prepare(file: impl AsFd, size: Bytes, sparse: bool) -> Result<Prepared, Refusal> {
    let space = if !has_holes(&file, size) {
        Space::Written
    } else if sparse {
        Space::Sparse
    } else {
        allocate(&file, size)?
    };
    let failed_flush = match retry_on_intr(|| fsync(&file)) {
        Ok(()) => None,
        // Nothing failed: its file system has no flushes.
        Err(errno @ Errno::INVAL) => return Err(Refusal::Kernel { step: "fsync", errno }),
        Err(errno) => Some(errno),
    };
    // Advice: a kernel that does not take it serves the same bytes, slower.
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    Ok(Prepared { space, failed_flush })
}

fn allocate(file: impl AsFd, size: Bytes) -> Result<Space, Refusal> {
    room_for(&file, size)?;
    let flags = FallocateFlags::KEEP_SIZE;
    match retry_on_intr(|| fallocate(&file, flags, 0, size.0)) {
        Ok(()) => Ok(Space::Allocated),
        // Some network file systems cannot: they work, at the cost that `Sparse` names.
        Err(Errno::OPNOTSUPP) => Ok(Space::Sparse),
        Err(Errno::NOSPC | Errno::DQUOT) => Err(Refusal::NoSpace { size }),
        Err(errno) => Err(Refusal::Kernel { step: "fallocate", errno }),
    }
}

/// Bytes that [`prepare`] will allocate; refused as it would refuse it.
pub(crate) fn lacking(file: impl AsFd, size: Bytes, sparse: bool) -> Result<Bytes, Refusal> {
    if sparse || !has_holes(&file, size) { Ok(Bytes::ZERO) } else { room_for(file, size) }
}

/// What the file still needs, if that much is free: a file system that runs out takes all it has first, and its other
/// users with it. Where the file system does not say, allocating will.
fn room_for(file: impl AsFd, size: Bytes) -> Result<Bytes, Refusal> {
    let (Ok(facts), Ok(room)) = (fstat(&file), fstatvfs(&file)) else { return Ok(Bytes::ZERO) };
    let held = Bytes(u64::try_from(facts.st_blocks).unwrap_or(0).saturating_mul(SECTOR));
    let free = Bytes(room.f_bavail.saturating_mul(room.f_frsize));
    let lacking = size.saturating_sub(held);
    if lacking > free { Err(Refusal::NoSpace { size }) } else { Ok(lacking) }
}

/// Whether some part was never written. Where the file system cannot tell, it says that nothing is a hole.
fn has_holes(file: impl AsFd, size: Bytes) -> bool {
    seek(file, SeekFrom::Hole(0)).is_ok_and(|first| first < size.0)
}
