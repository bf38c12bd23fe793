// SPDX-License-Identifier: Apache-2.0
//! The sockets of a relay: small buffers, no delay of small segments, never blocking.

use helio_units::Bytes;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// What a relay asks of the kernel for each receive and each send buffer of its own sockets. Linux books twice as
/// much, for its overhead. Left alone, the kernel would grow them to several megabytes, which on a slow link is
/// more than the link itself holds.
pub const SOCKET_BUFFER: Bytes = Bytes::kib(256);

/// How many callers may wait to be accepted.
const BACKLOG: i32 = 1024;

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // Before connect or listen: the window a connection may offer is fixed by its handshake.
    socket.set_recv_buffer_size(SOCKET_BUFFER.0 as usize)?;
    socket.set_send_buffer_size(SOCKET_BUFFER.0 as usize)?;
    Ok(socket)
}

/// Listens on `address`; accepted connections inherit the buffers.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(address)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Makes an accepted connection fit for the relay.
pub(crate) fn adopt(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)
}

/// Begins to connect to `address`; the socket becomes writable when that has ended, well or badly.
pub(crate) fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket(address)?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&address.into()) {
        Err(e) if e.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => Err(e),
        _ => Ok(socket.into()),
    }
}

/// Makes the socket say reset, not end of stream, when it is closed.
pub(crate) fn reset_on_close(stream: &TcpStream) {
    // A socket the kernel refuses this for is already dead.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
