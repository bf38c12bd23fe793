// SPDX-License-Identifier: Apache-2.0
//! Open files and sockets of simulated machines. A call on a handle of a process that ended fails with EIO and does nothing.

use crate::disk::{Access, Content, Disk, HandleId, Inode, is_aligned};
use crate::faults::FileFault;
use crate::net::{SocketId, Taken};
use crate::world::{Host, Inner, MachineId, ProcessId, Released, World};
use helio_driver::{Errno, Facts, FallocateFlags, FileBody, Mode, Room, SeekFrom, SocketBody};
use helio_units::{Bytes, SECTOR};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::MutexGuard;

/// An open file.
#[derive(Debug)]
pub(crate) struct SimFile {
    world: World,
    pub(crate) handle: HandleId,
    pub(crate) machine: MachineId,
    pub(crate) process: ProcessId,
    pub(crate) inode: Inode,
    pub(crate) access: Access,
}

impl SimFile {
    pub(crate) const fn new(
        world: World,
        handle: HandleId,
        owner: (MachineId, ProcessId),
        inode: Inode,
        access: Access,
    ) -> Self {
        Self { world, handle, machine: owner.0, process: owner.1, inode, access }
    }

    fn lock(&self) -> Result<MutexGuard<'_, Inner>, Errno> {
        let inner = self.world.lock_to_block();
        if inner.is_alive(self.process) && inner.is_up(self.machine) {
            Ok(inner)
        } else {
            Err(Errno::IO)
        }
    }

    fn with<R>(&self, act: impl FnOnce(&mut Host) -> Result<R, Errno>) -> Result<R, Errno> {
        act(self.lock()?.host(self.machine))
    }

    fn change(
        &self,
        act: impl FnOnce(&mut Content, crate::disk::Change) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        if !self.access.writes {
            return Err(Errno::BADF);
        }
        self.with(|host| {
            host.faults.fails(self.inode, FileFault::Write)?;
            let change = host.disk.change();
            act(host.disk.content_mut(self.inode)?, change)
        })
    }

    /// Direct I/O wants whole sectors, also in memory.
    fn unit(&self, memory: &[u8], at: u64) -> Result<usize, Errno> {
        if !self.access.direct {
            return Ok(1);
        }
        let in_memory = (memory.as_ptr() as usize).is_multiple_of(SECTOR as usize);
        let aligned = in_memory && is_aligned(at, memory.len() as u64);
        if aligned { Ok(SECTOR as usize) } else { Err(Errno::INVAL) }
    }

    fn content<R>(&self, look: impl FnOnce(&Content) -> Result<R, Errno>) -> Result<R, Errno> {
        self.with(|host| look(host.disk.content(self.inode)?))
    }
}

impl FileBody for SimFile {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn direct_alignment(&self) -> Option<(Bytes, Bytes)> {
        Some((Bytes(SECTOR), Bytes(SECTOR)))
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> Result<usize, Errno> {
        let unit = self.unit(into, at)?;
        if !self.access.reads {
            return Err(Errno::BADF);
        }
        self.with(|host| {
            host.faults.fails(self.inode, FileFault::Read)?;
            let count = host.faults.short(into.len(), unit);
            Ok(host.disk.content(self.inode)?.read(at, &mut into[..count], self.access.direct))
        })
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> Result<usize, Errno> {
        let unit = self.unit(bytes, at)?;
        let mut written = 0;
        let count = self.with(|host| Ok(host.faults.short(bytes.len(), unit)))?;
        self.change(|content, change| {
            written = content.write(change, at, &bytes[..count]).map_err(|_| Errno::NOSPC)?;
            Ok(())
        })?;
        Ok(written)
    }

    fn sync_all(&self) -> Result<(), Errno> {
        let mut inner = self.lock()?;
        let failed = inner.host(self.machine).faults.fails(self.inode, FileFault::Flush).is_err();
        let upto = inner.host(self.machine).disk.begin_flush(self.inode)?;
        inner.end_flush(self.machine, self.inode, upto, true, failed)
    }

    fn set_length(&self, length: u64) -> Result<(), Errno> {
        self.change(|content, change| {
            content.set_length(change.stamp, length);
            Ok(())
        })
    }

    fn allocate(&self, flags: FallocateFlags, at: u64, length: u64) -> Result<(), Errno> {
        if length == 0 {
            return Err(Errno::INVAL);
        }
        self.change(|content, change| allocate(content, change, flags, at, length))
    }

    fn seek(&self, to: SeekFrom) -> Result<u64, Errno> {
        self.content(|content| {
            let length = content.length();
            match to {
                SeekFrom::Start(at) => Ok(at),
                SeekFrom::End(by) => length.checked_add_signed(by).ok_or(Errno::INVAL),
                SeekFrom::Data(at) => content.data_from(at).ok_or(Errno::NXIO),
                SeekFrom::Hole(at) if at < length => Ok(content.hole_from(at)),
                SeekFrom::Hole(_) => Err(Errno::NXIO),
                // Nothing here reads on from where it was.
                _ => Err(Errno::INVAL),
            }
        })
    }

    fn drop_cache(&self) -> Result<(), Errno> {
        self.with(|host| {
            let stamp = host.disk.change().stamp;
            host.disk.content_mut(self.inode)?.drop_cache(stamp);
            Ok(())
        })
    }

    fn lock(&self) -> Result<bool, Errno> {
        self.with(|host| host.disk.lock(self.inode, self.handle))
    }

    fn facts(&self) -> Result<Facts, Errno> {
        self.with(|host| host.facts(self.inode))
    }

    fn set_mode(&self, mode: Mode) -> Result<(), Errno> {
        self.with(|host| host.disk.set_mode(self.inode, mode))
    }

    fn room(&self) -> Result<Room, Errno> {
        self.with(|host| Ok(host.disk.room()))
    }

    fn attribute(&self, name: &str, into: &mut [u8]) -> Result<usize, Errno> {
        self.with(|host| {
            let value = host.disk.attribute(self.inode, name)?;
            if into.is_empty() {
                return Ok(value.len());
            }
            into.get_mut(..value.len()).ok_or(Errno::RANGE)?.copy_from_slice(value);
            Ok(value.len())
        })
    }

    fn set_attribute(&self, name: &str, value: &[u8]) -> Result<(), Errno> {
        self.with(|host| {
            set_attribute(&mut host.disk, &mut host.faults, self.inode, name, Some(value))
        })
    }

    fn remove_attribute(&self, name: &str) -> Result<(), Errno> {
        self.with(|host| set_attribute(&mut host.disk, &mut host.faults, self.inode, name, None))
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.world.release(Released::File(self.handle));
    }
}

fn set_attribute(
    disk: &mut Disk,
    faults: &mut crate::faults::Faults,
    inode: Inode,
    name: &str,
    value: Option<&[u8]>,
) -> Result<(), Errno> {
    faults.fails(inode, FileFault::Write)?;
    disk.set_attribute(inode, name, value)
}

/// What `fallocate` does.
pub(crate) fn allocate(
    content: &mut Content,
    change: crate::disk::Change,
    flags: FallocateFlags,
    at: u64,
    length: u64,
) -> Result<(), Errno> {
    let keeps = flags.contains(FallocateFlags::KEEP_SIZE);
    let how = flags - FallocateFlags::KEEP_SIZE;
    if how == FallocateFlags::PUNCH_HOLE && keeps {
        content.punch(change.stamp, at, at + length);
        return Ok(());
    }
    if how != FallocateFlags::empty() && how != FallocateFlags::ZERO_RANGE {
        return Err(Errno::OPNOTSUPP);
    }
    content.allocate(change, at, length, !keeps).map_err(|_| Errno::NOSPC)?;
    if how == FallocateFlags::ZERO_RANGE {
        content.zero(change.stamp, at, at + length);
    }
    Ok(())
}

/// A socket.
#[derive(Debug)]
pub(crate) struct SimSocket {
    world: World,
    pub(crate) id: SocketId,
    process: ProcessId,
}

impl SimSocket {
    pub(crate) const fn new(world: World, id: SocketId, process: ProcessId) -> Self {
        Self { world, id, process }
    }

    fn lock(&self) -> Result<MutexGuard<'_, Inner>, Errno> {
        let inner = self.world.lock();
        if inner.is_alive(self.process) { Ok(inner) } else { Err(Errno::IO) }
    }
}

impl SocketBody for SimSocket {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn local_address(&self) -> io::Result<Option<SocketAddr>> {
        Ok(self.lock()?.net.local(self.id))
    }

    fn shutdown(&self) -> io::Result<()> {
        Ok(self.lock()?.shut_socket(self.id)?)
    }

    fn receive(&self, into: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        let mut inner = self.lock()?;
        let Some(first) = into.iter_mut().find(|slice| !slice.is_empty()) else { return Ok(0) };
        match inner.take(self.id, first) {
            Taken::Bytes(count) => Ok(count),
            Taken::End => Ok(0),
            Taken::Nothing => Err(Errno::AGAIN),
            Taken::Gone(errno) => Err(errno),
        }
    }

    fn send(&self, message: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let mut inner = self.lock()?;
        let mut sent = 0;
        for slice in message {
            let count = inner.give(self.id, slice)?;
            sent += count;
            if count < slice.len() {
                break;
            }
        }
        let wanted = message.iter().any(|slice| !slice.is_empty());
        if sent == 0 && wanted { Err(Errno::AGAIN) } else { Ok(sent) }
    }
}

impl Drop for SimSocket {
    fn drop(&mut self) {
        self.world.release(Released::Socket(self.id));
    }
}
