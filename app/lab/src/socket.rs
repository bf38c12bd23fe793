// SPDX-License-Identifier: Apache-2.0
//! The sockets of a measurement: what is asked of the kernel, and what it grants.

use crate::error::LabError;
use crate::wire::Granted;
use serde::Serialize;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

/// How often whoever waits looks up: for a signal, and for the end of its patience.
pub(crate) const SLICE: Duration = Duration::from_millis(50);
/// Callers that may wait to be accepted: streams of a few standbys.
const BACKLOG: i32 = 128;

/// What is asked of a socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Send buffer in bytes; none leaves it to the kernel.
    pub send: Option<u64>,
    /// Receive buffer in bytes; none leaves it to the kernel.
    pub receive: Option<u64>,
    /// Let small segments wait for more (Nagle).
    pub nagle: bool,
    /// Let the kernel wait in every call.
    pub blocking: bool,
    /// Congestion control by the kernel's name; none leaves the host's.
    pub congestion: Option<String>,
}

/// What a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Properties {
    /// Whether calls wait in the kernel.
    pub blocking: bool,
    /// Whether small segments wait for more.
    pub nagle: bool,
    /// Send buffer in force, bytes.
    pub send_buffer: u64,
    /// Receive buffer in force, bytes.
    pub receive_buffer: u64,
    /// How long closing waits, in seconds; none where it does not.
    pub linger: Option<u64>,
}

impl Properties {
    /// Looks.
    pub(crate) fn of(socket: &impl AsFd) -> io::Result<Self> {
        let socket = SockRef::from(socket);
        Ok(Self {
            blocking: !socket.nonblocking()?,
            nagle: !socket.tcp_nodelay()?,
            send_buffer: socket.send_buffer_size()? as u64,
            receive_buffer: socket.recv_buffer_size()? as u64,
            linger: socket.linger()?.map(|span| span.as_secs()),
        })
    }
}

impl Ask {
    /// A fresh socket of the address's family.
    pub(crate) fn create(address: SocketAddr) -> io::Result<Socket> {
        Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
    }

    /// Asks for the buffers. Before connect or listen: the window scale is settled in the handshake.
    pub(crate) fn resize(&self, socket: &Socket) -> io::Result<()> {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX).min(i32::MAX as usize);
        if let Some(bytes) = self.send {
            socket.set_send_buffer_size(size(bytes))?;
        }
        if let Some(bytes) = self.receive {
            socket.set_recv_buffer_size(size(bytes))?;
        }
        if let Some(name) = &self.congestion {
            rustix::net::sockopt::set_tcp_congestion(socket, name)?;
        }
        Ok(())
    }

    /// What a connection is set to once it is there.
    pub(crate) fn settle(&self, socket: &Socket) -> io::Result<()> {
        socket.set_nonblocking(!self.blocking)?;
        socket.set_tcp_nodelay(!self.nagle)?;
        if self.blocking {
            socket.set_read_timeout(Some(SLICE))?;
            socket.set_write_timeout(Some(SLICE))?;
        }
        Ok(())
    }

    /// Listens there.
    pub(crate) fn listen(&self, socket: &Socket, address: SocketAddr) -> Result<(), LabError> {
        let doing = format!("listen on {address}");
        let bound = socket
            .set_reuse_address(true)
            .and_then(|()| socket.bind(&address.into()))
            .and_then(|()| socket.listen(BACKLOG))
            .and_then(|()| socket.set_nonblocking(true));
        bound.map_err(LabError::system(doing, "give an address of this host and a free port"))
    }

    /// Both buffers, as asked for and as they are.
    pub(crate) fn granted(&self, now: &Properties) -> [Granted; 2] {
        let send = Granted { asked: self.send.unwrap_or(0), actual: now.send_buffer };
        [send, Granted { asked: self.receive.unwrap_or(0), actual: now.receive_buffer }]
    }
}
