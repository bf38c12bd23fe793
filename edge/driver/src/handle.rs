// SPDX-License-Identifier: Apache-2.0
//! Handles. An operation in flight holds a clone, so no descriptor is closed, and its number given to
//! something else, under an operation.

use rustix::fs::{Mode, OFlags, fchmod, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, bind, connect,
    getsockname, listen, shutdown, socket_with, sockopt,
};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;

/// An open file or block device. Closed when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct File {
    fd: Arc<OwnedFd>,
    cached: bool,
}

impl File {
    /// Wraps an open descriptor. Fails only where its flags cannot be read.
    pub fn new(fd: impl Into<OwnedFd>) -> io::Result<Self> {
        let fd = fd.into();
        let cached = !fcntl_getfl(&fd)?.contains(OFlags::DIRECT);
        Ok(Self { fd: Arc::new(fd), cached })
    }

    /// Whether it goes through the page cache, so that a read may be answered without a device.
    pub(crate) const fn is_cached(&self) -> bool {
        self.cached
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
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
    const fn family(&self) -> AddressFamily {
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
/// methods here do not cover are set through `AsFd`.
#[derive(Clone, Debug)]
pub struct Socket {
    fd: Arc<OwnedFd>,
}

impl Socket {
    /// Wraps a descriptor that is known to be a stream socket, or one that is only ever waited for with
    /// [`crate::Op::Ready`].
    #[must_use]
    pub fn new(fd: impl Into<OwnedFd>) -> Self {
        Self { fd: Arc::new(fd.into()) }
    }

    /// A fresh socket of the kind `address` needs, to be connected by [`crate::Op::Connect`].
    pub fn stream_for(address: &Address) -> io::Result<Self> {
        let kind = SocketType::STREAM;
        Ok(Self::new(socket_with(address.family(), kind, SocketFlags::CLOEXEC, None)?))
    }

    /// A socket listening at `address`, with room for `backlog` connections not yet accepted. A TCP address
    /// may be taken over from connections that linger after a restart. A Unix path must not exist, and is made such
    /// that only its owner can connect.
    pub fn listen(address: &Address, backlog: u16) -> io::Result<Self> {
        let socket = Self::stream_for(address)?;
        match address {
            Address::Inet(_) => sockopt::set_socket_reuseaddr(&socket, true)?,
            // Linux gives the file the mode the socket had before, so there is no moment for others to connect in.
            Address::Unix(_) => fchmod(&socket, Mode::RUSR | Mode::WUSR)?,
        }
        bind(&socket, &address.for_kernel()?)?;
        listen(&socket, i32::from(backlog))?;
        Ok(socket)
    }

    /// The TCP address this end has, so that a listener on port 0 can say where it is; `None` for Unix
    /// sockets.
    pub fn local_address(&self) -> io::Result<Option<SocketAddr>> {
        Ok(getsockname(self)?.try_into().ok())
    }

    /// Ends both directions at once: the other end reads the end of the stream, operations waiting here
    /// complete. The descriptor stays until the last clone goes.
    pub fn shutdown(&self) -> io::Result<()> {
        Ok(shutdown(self, Shutdown::Both)?)
    }

    /// The descriptor's number, which names the socket for as long as a clone is held.
    pub(crate) fn number(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
