// SPDX-License-Identifier: Apache-2.0
//! Making a file ready for direct I/O that does not wait: allocated, and out of the page cache.

use crate::refusal::Refusal;
use helio_driver::{Errno, FallocateFlags, File, SeekFrom};
use helio_units::Bytes;
use std::fmt;

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

/// Allocates the space of a file up to `size`, and keeps its content.
pub(crate) fn make_room(file: &File, size: Bytes, sparse: bool) -> Result<Space, Refusal> {
    if !has_holes(file, size) {
        Ok(Space::Written)
    } else if sparse {
        Ok(Space::Sparse)
    } else {
        allocate(file, size)
    }
}

/// Flushes a file, and drops its cached pages: dirty ones would make every direct write wait for them, and those of a flush that
/// failed are not what the disk holds. Returns the error of the flush; nothing may refuse the file any more, since the kernel reports
/// it to one caller only, and writes of the process that had the file open before may be lost.
pub(crate) fn flush(file: &File) -> Result<Option<Errno>, Refusal> {
    // A flush is waited for, and an error of it is one of the disk.
    if file.body().room() == Err(Errno::TIMEDOUT) {
        return Err(Refusal::NoAnswer { step: "statfs" });
    }
    let failed = match file.body().sync_all() {
        Ok(()) => None,
        // Nothing failed: its file system has no flushes.
        Err(errno @ Errno::INVAL) => return Err(Refusal::Kernel { step: "fsync", errno }),
        Err(errno) => {
            // A name that the file just got may still become durable.
            let _ = file.body().sync_all();
            Some(errno)
        }
    };
    // Advice: a kernel that does not take it serves the same bytes, slower.
    let _ = file.body().drop_cache();
    Ok(failed)
}

fn allocate(file: &File, size: Bytes) -> Result<Space, Refusal> {
    room_for(file, size)?;
    match file.body().allocate(FallocateFlags::KEEP_SIZE, 0, size.0) {
        Ok(()) => Ok(Space::Allocated),
        // Some network file systems cannot: they work, at the cost that `Sparse` names.
        Err(Errno::OPNOTSUPP) => Ok(Space::Sparse),
        Err(Errno::NOSPC | Errno::DQUOT) => Err(Refusal::NoSpace { size }),
        Err(errno) => Err(Refusal::Kernel { step: "fallocate", errno }),
    }
}

/// Bytes that [`make_room`] will allocate; refused as it would refuse it.
pub(crate) fn lacking(file: &File, size: Bytes, sparse: bool) -> Result<Bytes, Refusal> {
    if sparse || !has_holes(file, size) { Ok(Bytes::ZERO) } else { room_for(file, size) }
}

/// What the file still needs, if that much is free: a file system that runs out takes all it has first, and its other
/// users with it. Where the file system does not say, allocating will.
fn room_for(file: &File, size: Bytes) -> Result<Bytes, Refusal> {
    let (Ok(facts), Ok(room)) = (file.body().facts(), file.body().room()) else {
        return Ok(Bytes::ZERO);
    };
    let lacking = size.saturating_sub(facts.held);
    if lacking > room.free { Err(Refusal::NoSpace { size }) } else { Ok(lacking) }
}

/// Whether some part was never written. Where the file system cannot tell, it says that nothing is a hole.
fn has_holes(file: &File, size: Bytes) -> bool {
    file.body().seek(SeekFrom::Hole(0)).is_ok_and(|first| first < size.0)
}
