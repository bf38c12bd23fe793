// SPDX-License-Identifier: Apache-2.0
//! Operations on sockets that wait for their socket to become ready.

use crate::gather::{Cursor, total};
use crate::op::{Accepted, Completion, Outcome, Token};
use crate::{Address, Buffer, Cause, OpError, Operation, Piece, Socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, acceptfrom_with, recv, sendmsg, sockopt,
};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, RawFd};

/// What is wanted of a socket.
#[derive(Debug)]
pub(crate) enum Want {
    Accept,
    Connect { address: Address, begun: bool },
    Recv { buffer: Buffer, range: Range<usize> },
    Send { pieces: Vec<Piece>, cursor: Cursor },
    Ready,
}

/// One operation, and one direction of one socket it waits for.
#[derive(Debug)]
struct Pending {
    token: Token,
    socket: Socket,
    want: Want,
}

/// A direction of a socket. Operations with the same key complete in the order they came.
type Key = (RawFd, PollFlags);

/// Everything that waits for a socket, in the order it was submitted. A shard has dozens of sockets, so
/// walking a plain list beats keeping an index.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    pending: Vec<Pending>,
    /// Keys found ready; kept for its memory.
    hot: Vec<Key>,
}

impl Sockets {
    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Tries an operation at once, unless an earlier one is in its way, and keeps it if the socket is not
    /// ready.
    pub(crate) fn submit(
        &mut self,
        token: Token,
        socket: Socket,
        want: Want,
        out: &mut Vec<Completion>,
    ) {
        let pending = Pending { token, socket, want };
        let key = pending.key();
        let queued = self.pending.iter().any(|earlier| earlier.key() == key);
        self.pending.push(pending);
        if !queued {
            self.advance(key, out);
        }
    }

    /// Ends all operations on `socket`.
    pub(crate) fn cancel(&mut self, socket: &Socket, out: &mut Vec<Completion>) {
        let number = socket.number();
        let cancelled = self.pending.extract_if(.., |pending| pending.socket.number() == number);
        out.extend(cancelled.map(Pending::cancelled));
    }

    /// Adds what must become ready to a poll set.
    pub(crate) fn watch<'a>(&'a self, set: &mut Vec<PollFd<'a>>) {
        set.extend(
            self.pending
                .iter()
                .map(|p| PollFd::from_borrowed_fd(p.socket.as_fd(), p.want.direction())),
        );
    }

    /// Notes which entries the kernel found ready, in the order of [`Sockets::watch`].
    pub(crate) fn ready_keys(&self, set: &[PollFd<'_>], mut hot: Vec<Key>) -> Vec<Key> {
        hot.clear();
        let ready = self.pending.iter().zip(set).filter(|(_, entry)| !entry.revents().is_empty());
        hot.extend(ready.map(|(pending, _)| pending.key()));
        hot
    }

    /// Lends the list of ready keys, so that its memory is used again.
    pub(crate) fn take_hot(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.hot)
    }

    /// Lets the operations go on whose sockets are ready.
    pub(crate) fn drive(&mut self, hot: Vec<Key>, out: &mut Vec<Completion>) {
        for &key in &hot {
            self.advance(key, out);
        }
        self.hot = hot;
    }

    /// Completes operations of `key` from the front until one has to wait.
    fn advance(&mut self, key: Key, out: &mut Vec<Completion>) {
        while let Some(index) = self.pending.iter().position(|pending| pending.key() == key) {
            let Some(outcome) = self.pending[index].attempt() else { return };
            let token = self.pending.remove(index).token;
            out.push(Completion { token, outcome });
        }
    }
}

impl Pending {
    fn key(&self) -> Key {
        (self.socket.number(), self.want.direction())
    }

    /// Goes as far as the socket lets it; `None` where it must wait.
    fn attempt(&mut self) -> Option<Outcome> {
        let socket = &self.socket;
        match &mut self.want {
            Want::Accept => {
                let result = accept(socket).transpose()?;
                Some(Outcome::Accept(result.map_err(because(Operation::Accept))))
            }
            Want::Connect { address, begun } => {
                let result = connect(socket, address, begun).transpose()?;
                Some(Outcome::Connect(result.map_err(because(Operation::Connect))))
            }
            Want::Recv { buffer, range } => {
                let result = receive(socket, buffer, range.clone()).transpose()?;
                let result = result.map_err(because(Operation::Recv));
                Some(Outcome::Recv { buffer: take(buffer), result })
            }
            Want::Send { pieces, cursor } => {
                let result = send(socket, pieces, cursor).transpose()?;
                let result = result.map_err(because(Operation::Send));
                Some(Outcome::Send { pieces: std::mem::take(pieces), result })
            }
            Want::Ready => {
                let result = ready(socket).transpose()?;
                Some(Outcome::Ready(result.map_err(because(Operation::Ready))))
            }
        }
    }

    /// Ends it where it stands.
    fn cancelled(self) -> Completion {
        let cause = Cause::Errno(Errno::CANCELED);
        let outcome = match self.want {
            Want::Accept => Outcome::Accept(Err(because(Operation::Accept)(cause))),
            Want::Connect { .. } => Outcome::Connect(Err(because(Operation::Connect)(cause))),
            Want::Recv { buffer, .. } => {
                Outcome::Recv { buffer, result: Err(because(Operation::Recv)(cause)) }
            }
            Want::Send { pieces, .. } => {
                Outcome::Send { pieces, result: Err(because(Operation::Send)(cause)) }
            }
            Want::Ready => Outcome::Ready(Err(because(Operation::Ready)(cause))),
        };
        Completion { token: self.token, outcome }
    }
}

impl Want {
    const fn direction(&self) -> PollFlags {
        match self {
            Self::Accept | Self::Recv { .. } | Self::Ready => PollFlags::IN,
            Self::Connect { .. } | Self::Send { .. } => PollFlags::OUT,
        }
    }
}

pub(crate) const fn because(operation: Operation) -> impl Fn(Cause) -> OpError {
    move |cause| OpError::new(operation, cause)
}

fn take(buffer: &mut Buffer) -> Buffer {
    std::mem::replace(buffer, Buffer::zeroed(0))
}

/// `Ok(None)`, here and below: the socket is not ready.
fn accept(listener: &Socket) -> Result<Option<Accepted>, Cause> {
    // A listener has no flag for one call; it must not block where another process was quicker.
    stop_blocking(listener)?;
    loop {
        match acceptfrom_with(listener, SocketFlags::CLOEXEC) {
            Ok((fd, peer)) => {
                let socket = Socket::new(fd);
                let peer = peer.and_then(|address| SocketAddr::try_from(address).ok());
                if peer.is_some() {
                    sockopt::set_tcp_nodelay(&socket, true)?;
                }
                return Ok(Some(Accepted { socket, peer }));
            }
            Err(Errno::AGAIN) => return Ok(None),
            // The connection went away while it waited; there may be others.
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn connect(socket: &Socket, address: &Address, begun: &mut bool) -> Result<Option<()>, Cause> {
    if *begun {
        // Ready to be written: the attempt has ended, one way or the other.
        sockopt::socket_error(socket)??;
    } else {
        stop_blocking(socket)?;
        match address.connect(socket) {
            Ok(()) => {}
            Err(Errno::INPROGRESS | Errno::INTR) => {
                *begun = true;
                return Ok(None);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    if matches!(address, Address::Inet(_)) {
        sockopt::set_tcp_nodelay(socket, true)?;
    }
    Ok(Some(()))
}

/// Undoes what made a descriptor return instead of wait.
pub(crate) fn may_block(socket: &Socket) -> Result<(), Errno> {
    let flags = fcntl_getfl(socket)?;
    if flags.contains(OFlags::NONBLOCK) {
        fcntl_setfl(socket, flags - OFlags::NONBLOCK)
    } else {
        Ok(())
    }
}

fn stop_blocking(socket: &Socket) -> Result<(), Errno> {
    let flags = fcntl_getfl(socket)?;
    if flags.contains(OFlags::NONBLOCK) {
        return Ok(());
    }
    fcntl_setfl(socket, flags | OFlags::NONBLOCK)
}

fn ready(socket: &Socket) -> Result<Option<()>, Cause> {
    let mut set = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let found = retry_on_intr(|| poll(&mut set, Some(&at_once)))?;
    Ok((found > 0).then_some(()))
}

fn receive(
    socket: &Socket,
    buffer: &mut Buffer,
    range: Range<usize>,
) -> Result<Option<usize>, Cause> {
    // An empty range would read as the end of the stream.
    let target = buffer.get_mut(range).filter(|target| !target.is_empty()).ok_or(Cause::Misfit)?;
    match retry_on_intr(|| recv(socket, &mut *target, RecvFlags::DONTWAIT)) {
        Ok((count, _)) => Ok(Some(count)),
        Err(Errno::AGAIN) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn send(socket: &Socket, pieces: &[Piece], cursor: &mut Cursor) -> Result<Option<()>, Cause> {
    if total(pieces).is_none() {
        return Err(Cause::Misfit);
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    while !cursor.is_done(pieces) {
        let (sent, offered) = cursor.with_slices(pieces, |slices, length| {
            let mut none = SendAncillaryBuffer::default();
            (retry_on_intr(|| sendmsg(socket, slices, &mut none, flags)), length)
        });
        match sent {
            Ok(count) => {
                cursor.advance(pieces, count);
                // A socket that takes a part is full; asking again at once would only hear so.
                if count < offered {
                    return Ok(None);
                }
            }
            Err(Errno::AGAIN) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(Some(()))
}
