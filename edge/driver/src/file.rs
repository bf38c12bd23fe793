// SPDX-License-Identifier: Apache-2.0
//! Operations on files, and computations: each is done to its end on the thread that calls.

use crate::gather::{Cursor, total};
use crate::op::{MAP_RUNS, Op, Outcome, Reserved, Run};
use crate::{Buffer, Cause, Computation, File, FileBody, OpError, Operation, Piece};
use helio_units::{Bytes, Extent};
use rustix::fs::{
    FallocateFlags, SeekFrom, XattrFlags, fallocate, fdatasync, fsetxattr, fsync, seek,
};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2, pwritev2, retry_on_intr};
use std::io::{IoSlice, IoSliceMut};
use std::sync::LazyLock;

/// The most a read may copy from the page cache on the reactor's own thread: a few microseconds' worth.
const INLINE_READ: usize = 64 << 10;

/// Zeroes to write where the file system has no quicker way, in bytes: large enough that calls do not
/// count, small enough to have around.
const ZEROES: usize = 256 << 10;

static ZERO_BUFFER: LazyLock<Buffer> = LazyLock::new(|| Buffer::zeroed(ZEROES));

/// The operations that may take long, and so run on worker threads.
#[derive(Debug)]
pub(crate) enum Job {
    Read { file: File, extent: Extent, buffer: Buffer },
    Write { file: File, extent: Extent, pieces: Vec<Piece>, sync: bool },
    SyncData { file: File },
    SyncAll { file: File },
    SetAttribute { file: File, name: &'static str, value: Vec<u8> },
    Punch { file: File, extent: Extent },
    Zero { file: File, extent: Extent },
    Map { file: File, extent: Extent },
    Reserve { file: File, length: Bytes },
    SetLength { file: File, length: Bytes },
    Compute(Computation),
}

impl Job {
    /// Does it.
    pub(crate) fn perform(self) -> Outcome {
        match self {
            Self::Read { file, extent, mut buffer } => {
                let result = read(&file, extent, &mut buffer);
                Outcome::Read { buffer, result: result.map_err(at(Operation::Read, extent)) }
            }
            Self::Write { file, extent, pieces, sync } => {
                let result = write(&file, extent, &pieces, sync);
                Outcome::Write { pieces, result: result.map_err(at(Operation::Write, extent)) }
            }
            Self::SyncData { file } => {
                Outcome::SyncData(of(Operation::SyncData, retry_on_intr(|| fdatasync(&file))))
            }
            Self::SyncAll { file } => {
                Outcome::SyncData(of(Operation::SyncData, retry_on_intr(|| fsync(&file))))
            }
            Self::SetAttribute { file, name, value } => {
                let set = || fsetxattr(&file, name, &value, XattrFlags::empty());
                Outcome::SetAttribute(of(Operation::SetAttribute, retry_on_intr(set)))
            }
            Self::Punch { file, extent } => {
                Outcome::Punch(punch(&file, extent).map_err(at(Operation::Punch, extent)))
            }
            Self::Zero { file, extent } => {
                Outcome::Zero(zero(&file, extent).map_err(at(Operation::Zero, extent)))
            }
            Self::Map { file, extent } => {
                Outcome::Map(map(&file, extent).map_err(at(Operation::Map, extent)))
            }
            Self::Reserve { file, length } => {
                let reserved = reserve(file.body(), length.0).map_err(Cause::from);
                Outcome::Reserve(reserved.map_err(|why| OpError::new(Operation::Reserve, why)))
            }
            Self::SetLength { file, length } => {
                Outcome::SetLength(of(Operation::SetLength, file.body().set_length(length.0)))
            }
            Self::Compute(computation) => {
                computation.perform();
                Outcome::Compute
            }
        }
    }

    /// The operation, unless it is on a socket or a wait; gives back those.
    pub(crate) fn of(op: Op) -> Result<Self, Op> {
        Ok(match op {
            Op::Read { file, extent, buffer } => Self::Read { file, extent, buffer },
            Op::Write { file, extent, pieces, sync } => Self::Write { file, extent, pieces, sync },
            Op::SyncData { file } => Self::SyncData { file },
            Op::SyncAll { file } => Self::SyncAll { file },
            Op::SetAttribute { file, name, value } => Self::SetAttribute { file, name, value },
            Op::Punch { file, extent } => Self::Punch { file, extent },
            Op::Zero { file, extent } => Self::Zero { file, extent },
            Op::Map { file, extent } => Self::Map { file, extent },
            Op::Reserve { file, length } => Self::Reserve { file, length },
            Op::SetLength { file, length } => Self::SetLength { file, length },
            Op::Compute(computation) => Self::Compute(computation),
            op => return Err(op),
        })
    }

    /// On which file; none for a computation.
    pub(crate) const fn on(&self) -> Option<&File> {
        match self {
            Self::Read { file, .. }
            | Self::Write { file, .. }
            | Self::SyncData { file }
            | Self::SyncAll { file }
            | Self::SetAttribute { file, .. }
            | Self::Punch { file, .. }
            | Self::Zero { file, .. }
            | Self::Map { file, .. }
            | Self::Reserve { file, .. }
            | Self::SetLength { file, .. } => Some(file),
            Self::Compute(_) => None,
        }
    }

    /// Whether it is a write of at most `most` bytes that ends in the page cache.
    pub(crate) fn is_cached_write(&self, most: u64) -> bool {
        matches!(self, Self::Write { file, extent, sync: false, .. } if file.is_cached_here() && extent.length <= most)
    }

    /// Does a write, and returns the file; gives back anything else.
    pub(crate) fn write_in_place(self) -> Result<(Outcome, File), Self> {
        let Self::Write { file, extent, pieces, sync } = self else { return Err(self) };
        let result = write(&file, extent, &pieces, sync).map_err(at(Operation::Write, extent));
        Ok((Outcome::Write { pieces, result }, file))
    }

    /// Does it if that takes no waiting: a read that the page cache can answer in full. A hop to a worker
    /// and back costs tens of microseconds, the copy costs two.
    pub(crate) fn perform_at_once(mut self) -> Result<Outcome, Self> {
        if let Self::Read { file, extent, buffer } = &mut self
            && file.is_cached_here()
            && extent.length > 0
            && let Ok(target) = front(buffer, *extent)
            && target.len() <= INLINE_READ
        {
            let wanted = target.len();
            let mut slices = [IoSliceMut::new(target)];
            let got = preadv2(&*file, &mut slices, extent.offset, ReadWriteFlags::NOWAIT);
            if got == Ok(wanted) {
                let buffer = std::mem::replace(buffer, Buffer::zeroed(0));
                return Ok(Outcome::Read { buffer, result: Ok(()) });
            }
        }
        Err(self)
    }
}

fn of(operation: Operation, result: Result<(), Errno>) -> Result<(), OpError> {
    result.map_err(|errno| OpError::new(operation, errno.into()))
}

const fn at(operation: Operation, extent: Extent) -> impl Fn(Cause) -> OpError {
    move |cause| OpError::at(operation, extent, cause)
}

/// The part of the buffer that the extent fills.
pub(crate) fn front(buffer: &mut Buffer, extent: Extent) -> Result<&mut [u8], Cause> {
    let length = usize::try_from(extent.length).map_err(|_| Cause::Misfit)?;
    buffer.get_mut(..length).ok_or(Cause::Misfit)
}

fn read(file: &File, extent: Extent, buffer: &mut Buffer) -> Result<(), Cause> {
    let target = front(buffer, extent)?;
    let mut done = 0;
    while done < target.len() {
        let offset = extent.offset + done as u64;
        match retry_on_intr(|| pread(file, &mut target[done..], offset))? {
            0 => return Err(Cause::EndOfFile(Bytes(done as u64))),
            count => done += count,
        }
    }
    Ok(())
}

fn write(file: &File, extent: Extent, pieces: &[Piece], sync: bool) -> Result<(), Cause> {
    fits(extent, pieces)?;
    let length = extent.length;
    let flags = if sync { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
    let (mut cursor, mut done) = (Cursor::default(), 0);
    while done < length {
        let count = cursor.with_slices(pieces, |slices, _| {
            retry_on_intr(|| pwritev2(file, slices, extent.offset + done, flags))
        })?;
        if count == 0 {
            return Err(Cause::NoProgress(Bytes(done)));
        }
        done += count as u64;
        cursor.advance(pieces, count);
    }
    Ok(())
}

/// Pieces must be as long as their extent.
pub(crate) fn fits(extent: Extent, pieces: &[Piece]) -> Result<(), Cause> {
    if total(pieces).is_some_and(|length| length as u64 == extent.length) {
        return Ok(());
    }
    Err(Cause::Misfit)
}

/// On a file this makes a hole. On a block device the kernel promises zeroes too, and unmaps where that
/// gives zeroes; a plain discard (which promises nothing about what is read) is never issued.
fn punch(file: &File, extent: Extent) -> Result<(), Cause> {
    match allocate(file, FallocateFlags::PUNCH_HOLE, extent) {
        Err(Errno::OPNOTSUPP) => zero(file, extent),
        other => Ok(other?),
    }
}

/// Asks the file system where data begins and ends. A block device, and a file system that cannot tell, say that all
/// of it is data.
fn map(file: &File, extent: Extent) -> Result<Vec<Run>, Cause> {
    let mut runs = Vec::new();
    let mut at = extent.offset;
    while at < extent.end() && runs.len() < MAP_RUNS {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.min(extent.end()),
            // No data from here on.
            Err(Errno::NXIO) => extent.end(),
            Err(Errno::INVAL) => at,
            Err(errno) => return Err(errno.into()),
        };
        if data > at {
            runs.push(Run { length: data - at, data: false });
            at = data;
            continue;
        }
        let hole = match seek(file, SeekFrom::Hole(at)) {
            Ok(hole) if hole > at => hole.min(extent.end()),
            Ok(_) | Err(Errno::NXIO | Errno::INVAL) => extent.end(),
            Err(errno) => return Err(errno.into()),
        };
        runs.push(Run { length: hole - at, data: true });
        at = hole;
    }
    Ok(runs)
}

/// Where the file system knows no quick way, zeroes are written; they read the same.
fn zero(file: &File, extent: Extent) -> Result<(), Cause> {
    match allocate(file, FallocateFlags::ZERO_RANGE, extent) {
        Err(Errno::OPNOTSUPP) => write_zeroes(file, extent),
        other => Ok(other?),
    }
}

fn allocate(file: &File, how: FallocateFlags, extent: Extent) -> Result<(), Errno> {
    if extent.length == 0 {
        return Ok(());
    }
    let flags = how | FallocateFlags::KEEP_SIZE;
    retry_on_intr(|| fallocate(file, flags, extent.offset, extent.length))
}

/// Where the file system cannot reserve, what is free now must do.
fn reserve(body: &dyn FileBody, length: u64) -> Result<Reserved, Errno> {
    let had = body.facts()?.length.0;
    if length <= had {
        return Ok(Reserved::Done);
    }
    let free = || body.room().map(|room| Bytes(had + room.free.0));
    match body.allocate(FallocateFlags::empty(), 0, length) {
        Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => {
            body.set_length(had)?;
            Ok(Reserved::NoRoom { free: free()? })
        }
        Err(Errno::OPNOTSUPP) => match free()? {
            free if length > free.0 => Ok(Reserved::NoRoom { free }),
            _ => body.set_length(length).map(|()| Reserved::Done),
        },
        allocated => allocated.map(|()| Reserved::Done),
    }
}

fn write_zeroes(file: &File, extent: Extent) -> Result<(), Cause> {
    let mut offset = extent.offset;
    while offset < extent.end() {
        let left = usize::try_from(extent.end() - offset).unwrap_or(usize::MAX);
        let slices = [IoSlice::new(&ZERO_BUFFER[..left.min(ZEROES)])];
        match retry_on_intr(|| pwritev2(file, &slices, offset, ReadWriteFlags::empty()))? {
            0 => return Err(Cause::NoProgress(Bytes(offset - extent.offset))),
            count => offset += count as u64,
        }
    }
    Ok(())
}
