// SPDX-License-Identifier: Apache-2.0
//! Handles. An operation in flight holds a clone, so no descriptor is closed, and its number given to
//! something else, under an operation.

use crate::body::{FileBody, SocketBody};
use crate::linux::{Descriptor, OpenFile, PATIENCE};
use crate::service::{Service, Shown};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, connect};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// An open file or block device. Closed when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct File {
    shared: Arc<Shared<dyn FileBody>>,
    cached: bool,
}

/// What all clones of a file share.
#[derive(Debug)]
struct Shared<B: ?Sized> {
    service: Shown,
    body: B,
}

impl File {
    /// Wraps an open descriptor. Fails only where its flags cannot be read.
    pub fn new(fd: impl Into<OwnedFd>) -> io::Result<Self> {
        Self::within(fd, PATIENCE)
    }

    /// The same; a file system that may not answer is asked for so long.
    pub(crate) fn within(fd: impl Into<OwnedFd>, patience: Duration) -> io::Result<Self> {
        let fd = fd.into();
        let cached = !fcntl_getfl(&fd)?.contains(OFlags::DIRECT);
        let service = Service::of(&fd);
        let (body, service) = (OpenFile::new(fd, service, patience), Shown::new(service));
        Ok(Self { shared: Arc::new(Shared { service, body }), cached })
    }

    /// A file of a machine that is not the kernel's.
    #[must_use]
    pub fn of(body: impl FileBody, cached: bool) -> Self {
        let service = Shown::new(Service::Here);
        Self { shared: Arc::new(Shared { service, body }), cached }
    }

    /// What the machine keeps of it.
    #[must_use]
    pub fn body(&self) -> &dyn FileBody {
        &self.shared.body
    }

    /// Where its operations are performed.
    #[must_use]
    pub fn service(&self) -> Service {
        self.shared.service.get()
    }

    /// Whether the thread that asks may hand it requests.
    pub(crate) fn is_here(&self) -> bool {
        self.shared.service.is_here()
    }

    /// Whether a ring may have what reads and writes it.
    pub(crate) fn is_direct_here(&self) -> bool {
        !self.cached && self.is_here()
    }

    /// Whether the thread that asks may use the page cache itself.
    pub(crate) fn is_cached_here(&self) -> bool {
        self.cached && self.is_here()
    }

    /// A call of the shard about it took that long.
    pub(crate) fn called(&self, took: Duration) {
        self.shared.service.called(took);
    }

    /// Reads so many bytes.
    ///
    /// # Errors
    /// As of `pread`, or the file ends before.
    pub fn read_exact_at(&self, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
        while !into.is_empty() {
            match self.body().read_at(into, at)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => (into, at) = (&mut into[count..], at + count as u64),
            }
        }
        Ok(())
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// As of `pread`.
    pub fn read_all(&self) -> io::Result<Vec<u8>> {
        let (mut bytes, mut filled) = (vec![0; 8192], 0);
        loop {
            match self.body().read_at(&mut bytes[filled..], filled as u64)? {
                0 => break,
                count => filled += count,
            }
            if filled == bytes.len() {
                bytes.resize(filled * 2, 0);
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Writes all of the bytes.
    ///
    /// # Errors
    /// As of `pwrite`.
    pub fn write_all_at(&self, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.body().write_at(bytes, at)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => (bytes, at) = (&bytes[count..], at + count as u64),
            }
        }
        Ok(())
    }

    /// Makes everything of it durable.
    ///
    /// # Errors
    /// As of `fsync`; after one, nothing is known about what was written before.
    pub fn sync_all(&self) -> io::Result<()> {
        Ok(self.body().sync_all()?)
    }

    /// Whether it goes through the page cache, so that a read may be answered without a device.
    #[must_use]
    pub const fn is_cached(&self) -> bool {
        self.cached
    }
}

impl AsFd for File {
    /// For what only a kernel can do: an operation of a driver, a request to a block device.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.body().descriptor().expect("a file of another machine reached the kernel")
    }
}

/// Where a socket listens or connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Inet(SocketAddr),
    /// A Unix stream socket in the file system.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl Address {
    pub(crate) const fn family(&self) -> AddressFamily {
        match self {
            Self::Inet(SocketAddr::V4(_)) => AddressFamily::INET,
            Self::Inet(SocketAddr::V6(_)) => AddressFamily::INET6,
            Self::Unix(_) => AddressFamily::UNIX,
        }
    }

    /// The address as system calls want it.
    pub(crate) fn for_kernel(&self) -> Result<SocketAddrAny, Errno> {
        Ok(match self {
            Self::Inet(address) => (*address).into(),
            Self::Unix(path) => SocketAddrUnix::new(path)?.into(),
        })
    }

    /// Starts or makes a connection, as the socket's blocking mode has it.
    pub(crate) fn connect(&self, socket: &Socket) -> Result<(), Errno> {
        connect(socket, &self.for_kernel()?)
    }
}

/// A TCP or Unix stream socket, connected, connecting or listening. Closed when the last clone is dropped.
///
/// Whether its descriptor blocks is the driver's business: it may set the flag as it needs. Options the
/// methods here do not cover are set through [`Socket::descriptor`].
#[derive(Clone, Debug)]
pub struct Socket {
    body: Arc<dyn SocketBody>,
}

impl Socket {
    /// Wraps a descriptor that is known to be a stream socket, or one that is only ever waited for with
    /// [`crate::Op::Ready`].
    #[must_use]
    pub fn new(fd: impl Into<OwnedFd>) -> Self {
        Self { body: Arc::new(Descriptor(fd.into())) }
    }

    /// A socket of a machine that is not the kernel's.
    #[must_use]
    pub fn of(body: Arc<dyn SocketBody>) -> Self {
        Self { body }
    }

    /// What the machine keeps of it.
    #[must_use]
    pub fn body(&self) -> &dyn SocketBody {
        &*self.body
    }

    /// The descriptor of a kernel's socket.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.body.descriptor()
    }

    /// The TCP address this end has, so that a listener on port 0 can say where it is; `None` for Unix
    /// sockets.
    pub fn local_address(&self) -> io::Result<Option<SocketAddr>> {
        self.body.local_address()
    }

    /// Ends both directions at once: the other end reads the end of the stream, operations waiting here
    /// complete. The descriptor stays until the last clone goes.
    pub fn shutdown(&self) -> io::Result<()> {
        self.body.shutdown()
    }

    /// The descriptor's number, which names the socket for as long as a clone is held.
    pub(crate) fn number(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl AsFd for Socket {
    /// For what only a kernel can do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.body.descriptor().expect("a socket of another machine reached the kernel")
    }
}
