// SPDX-License-Identifier: Apache-2.0
//! What a machine keeps of an open file or socket, and what can be done with it without a driver: the calls that come before a
//! shard runs, or that never wait.

use crate::machine::{Facts, Room};
use helio_units::Bytes;
use rustix::fs::{FallocateFlags, Mode, SeekFrom};
use rustix::io::Errno;
use std::any::Any;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// An open file or block device, as its machine keeps it. All calls may block.
pub trait FileBody: Any + fmt::Debug + Send + Sync {
    /// Its descriptor; none if the machine is not the kernel's.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Reads up to as many bytes as there is room for; 0 at the end of the file.
    ///
    /// # Errors
    /// As of `pread`.
    fn read_at(&self, into: &mut [u8], at: u64) -> Result<usize, Errno>;

    /// Writes up to so many bytes.
    ///
    /// # Errors
    /// As of `pwrite`.
    fn write_at(&self, bytes: &[u8], at: u64) -> Result<usize, Errno>;

    /// Makes every completed write durable, and whatever else there is of the file.
    ///
    /// # Errors
    /// As of `fsync`.
    fn sync_all(&self) -> Result<(), Errno>;

    /// Changes the length, in bytes.
    ///
    /// # Errors
    /// As of `ftruncate`.
    fn set_length(&self, length: u64) -> Result<(), Errno>;

    /// Gives `length` bytes from `at` on room.
    ///
    /// # Errors
    /// As of `fallocate`.
    fn allocate(&self, flags: FallocateFlags, at: u64, length: u64) -> Result<(), Errno>;

    /// Where data or a hole begins, or where the end is.
    ///
    /// # Errors
    /// As of `lseek`.
    fn seek(&self, to: SeekFrom) -> Result<u64, Errno>;

    /// Drops what the page cache has of it and the disk has, too. Advice.
    ///
    /// # Errors
    /// As of `posix_fadvise`.
    fn drop_cache(&self) -> Result<(), Errno>;

    /// Locks the whole file against every other opener, until the last clone is dropped. Returns false if another
    /// opener has it locked.
    ///
    /// # Errors
    /// As of `fcntl`.
    fn lock(&self) -> Result<bool, Errno>;

    /// What it is.
    ///
    /// # Errors
    /// As of `fstat`.
    fn facts(&self) -> Result<Facts, Errno>;

    /// What direct I/O requires of offsets, and of memory; zero if it cannot be done. None if the machine does not say.
    fn direct_alignment(&self) -> Option<(Bytes, Bytes)>;

    /// Changes its permissions.
    ///
    /// # Errors
    /// As of `fchmod`.
    fn set_mode(&self, mode: Mode) -> Result<(), Errno>;

    /// Room of the file system that it is on.
    ///
    /// # Errors
    /// As of `fstatvfs`.
    fn room(&self) -> Result<Room, Errno>;

    /// Reads an extended attribute; returns its length.
    ///
    /// # Errors
    /// As of `fgetxattr`: `NODATA` if there is none, `RANGE` if it is longer.
    fn attribute(&self, name: &str, into: &mut [u8]) -> Result<usize, Errno>;

    /// Sets an extended attribute; [`FileBody::sync_all`] makes it durable.
    ///
    /// # Errors
    /// As of `fsetxattr`.
    fn set_attribute(&self, name: &str, value: &[u8]) -> Result<(), Errno>;

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// As of `fremovexattr`: `NODATA` if there is none.
    fn remove_attribute(&self, name: &str) -> Result<(), Errno>;
}

/// A stream socket, or another descriptor that is waited for, as its machine keeps it. No call blocks.
pub trait SocketBody: Any + fmt::Debug + Send + Sync {
    /// Its descriptor; none if the machine is not the kernel's.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// The TCP address of this end; none for Unix sockets.
    ///
    /// # Errors
    /// As of `getsockname`.
    fn local_address(&self) -> io::Result<Option<SocketAddr>>;

    /// Ends both directions.
    ///
    /// # Errors
    /// As of `shutdown`.
    fn shutdown(&self) -> io::Result<()>;

    /// Takes what is there, for descriptors that hand out whole messages.
    ///
    /// # Errors
    /// As of `readv`: `AGAIN` if there is nothing.
    fn receive(&self, into: &mut [IoSliceMut<'_>]) -> Result<usize, Errno>;

    /// Gives a whole message.
    ///
    /// # Errors
    /// As of `writev`.
    fn send(&self, message: &[IoSlice<'_>]) -> Result<usize, Errno>;
}
