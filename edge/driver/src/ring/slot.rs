// SPDX-License-Identifier: Apache-2.0
//! An operation in flight with everything the kernel looks at meanwhile, and how it goes on after each result.
#![allow(unsafe_code)]

use super::lanes::Way;
use crate::file::{fits, front};
use crate::gather::Cursor;
use crate::op::{Accepted, Outcome, Token};
use crate::sockets::{because, may_block};
use crate::{Address, Buffer, Cause, File, OpError, Operation, Piece, Socket};
use helio_units::{Bytes, Extent};
use io_uring::squeue::Entry;
use io_uring::{opcode, types};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, getpeername, sockopt};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What is to be done, and how far it has come.
#[derive(Debug)]
pub(super) enum Work {
    Read { file: File, extent: Extent, buffer: Buffer, done: usize },
    Write { file: File, extent: Extent, pieces: Vec<Piece>, sync: bool, cursor: Cursor, done: u64 },
    SyncData { file: File },
    Accept { listener: Socket },
    Connect { socket: Socket, address: Address, name: Option<Box<SocketAddrAny>> },
    Recv { socket: Socket, buffer: Buffer, range: Range<usize> },
    Send { socket: Socket, pieces: Vec<Piece>, cursor: Cursor },
    Ready { socket: Socket },
}

/// Where an operation stands after a result.
pub(super) enum Next {
    /// The rest of it goes to the kernel.
    Again,
    /// It ended.
    Ended(Outcome),
}

/// One place for an operation. The lists the kernel reads are kept from one operation to the next, so that steady
/// state allocates nothing.
pub(super) struct Slot {
    pub(super) token: Token,
    pub(super) work: Option<Work>,
    /// The file that it flushes.
    pub(super) flushed: Option<RawFd>,
    /// Its socket was cancelled: nothing more of it goes to the kernel.
    pub(super) unwanted: bool,
    vectors: Vec<libc::iovec>,
    header: Box<libc::msghdr>,
}

// SAFETY: the pointers in the lists lead to what the slot's own work holds, and move with it.
unsafe impl Send for Slot {}

impl Slot {
    pub(super) fn empty() -> Self {
        // SAFETY: a msghdr is pointers and integers, for which all zeroes is a value.
        let header = Box::new(unsafe { std::mem::zeroed() });
        Self {
            token: Token(0),
            work: None,
            flushed: None,
            unwanted: false,
            vectors: Vec::new(),
            header,
        }
    }

    /// The socket and direction whose next operation waits for this one; none for files.
    pub(super) fn lane(&self) -> Option<(RawFd, Way)> {
        match self.work.as_ref()? {
            Work::Accept { listener } => Some((listener.number(), Way::In)),
            Work::Recv { socket, .. } | Work::Ready { socket } => Some((socket.number(), Way::In)),
            Work::Connect { socket, .. } | Work::Send { socket, .. } => {
                Some((socket.number(), Way::Out))
            }
            Work::Read { .. } | Work::Write { .. } | Work::SyncData { .. } => None,
        }
    }

    /// The file that it works on.
    pub(super) const fn file(&self) -> Option<&File> {
        match &self.work {
            Some(Work::Read { file, .. } | Work::Write { file, .. } | Work::SyncData { file }) => {
                Some(file)
            }
            _ => None,
        }
    }

    /// The entry for what is left to do, or how the operation ends without the kernel. What the entry points at lives
    /// in this slot, on the heap, until the operation ends.
    pub(super) fn entry(&mut self) -> Result<Entry, Outcome> {
        let Self { work, vectors, header, .. } = self;
        let Some(work) = work else { panic!("an entry for no operation") };
        match prepare(work, vectors, header) {
            Ok(entry) => Ok(entry),
            Err(cause) => Err(self.end(Err(cause))),
        }
    }

    /// Learns from the kernel's answer.
    pub(super) fn advance(&mut self, result: i32) -> Next {
        match self.learn(result) {
            Next::Again if self.unwanted => self.ended(Errno::CANCELED.into()),
            next => next,
        }
    }

    fn learn(&mut self, result: i32) -> Next {
        let count = match usize::try_from(result) {
            Ok(count) => count,
            Err(_) => return self.failed(Errno::from_raw_os_error(-result)),
        };
        let Some(work) = &mut self.work else { panic!("a result for no operation") };
        let ended = match work {
            Work::Read { done, .. } if count == 0 => Err(Cause::EndOfFile(Bytes(*done as u64))),
            Work::Read { extent, done, .. } => {
                *done += count;
                if (*done as u64) < extent.length {
                    return Next::Again;
                }
                Ok(count)
            }
            Work::Write { done, .. } if count == 0 => Err(Cause::NoProgress(Bytes(*done))),
            Work::Write { extent, pieces, cursor, done, .. } => {
                *done += count as u64;
                cursor.advance(pieces, count);
                if *done < extent.length {
                    return Next::Again;
                }
                Ok(count)
            }
            Work::Send { pieces, cursor, .. } => {
                cursor.advance(pieces, count);
                if !cursor.is_done(pieces) {
                    return Next::Again;
                }
                Ok(count)
            }
            Work::Connect { socket, address: Address::Inet(_), .. } => {
                sockopt::set_tcp_nodelay(&*socket, true).map(|()| 0).map_err(Cause::from)
            }
            _ => Ok(count),
        };
        Next::Ended(self.end(ended))
    }

    fn failed(&mut self, errno: Errno) -> Next {
        let socket = match &self.work {
            Some(
                Work::Recv { socket, .. } | Work::Send { socket, .. } | Work::Ready { socket },
            ) => Some(socket),
            Some(Work::Accept { listener }) => Some(listener),
            Some(Work::Connect { .. }) | None => None,
            Some(Work::Read { .. } | Work::Write { .. } | Work::SyncData { .. }) => {
                return if errno == Errno::INTR { Next::Again } else { self.ended(errno.into()) };
            }
        };
        match (errno, socket) {
            (Errno::INTR, Some(_)) => Next::Again,
            // The connection went away while it waited to be accepted; there may be others.
            (Errno::CONNABORTED, _) if matches!(self.work, Some(Work::Accept { .. })) => {
                Next::Again
            }
            // The ring waits only on descriptors that may block.
            (Errno::AGAIN, Some(socket)) => match may_block(socket) {
                Ok(()) => Next::Again,
                Err(errno) => self.ended(errno.into()),
            },
            _ => self.ended(errno.into()),
        }
    }

    fn ended(&mut self, cause: Cause) -> Next {
        Next::Ended(self.end(Err(cause)))
    }

    /// Ends the operation where it stands.
    pub(super) fn cancelled(&mut self) -> Outcome {
        self.end(Err(Cause::Errno(Errno::CANCELED)))
    }

    fn end(&mut self, result: Result<usize, Cause>) -> Outcome {
        let at = |operation, extent| move |cause| OpError::at(operation, extent, cause);
        match self.work.take() {
            Some(Work::Read { extent, buffer, .. }) => {
                let result = result.map(drop).map_err(at(Operation::Read, extent));
                Outcome::Read { buffer, result }
            }
            Some(Work::Write { extent, pieces, .. }) => {
                let result = result.map(drop).map_err(at(Operation::Write, extent));
                Outcome::Write { pieces, result }
            }
            Some(Work::SyncData { .. }) => {
                Outcome::SyncData(result.map(drop).map_err(because(Operation::SyncData)))
            }
            Some(Work::Accept { .. }) => {
                let accepted = result.and_then(adopt);
                Outcome::Accept(accepted.map_err(because(Operation::Accept)))
            }
            Some(Work::Connect { .. }) => {
                Outcome::Connect(result.map(drop).map_err(because(Operation::Connect)))
            }
            Some(Work::Recv { buffer, .. }) => {
                Outcome::Recv { buffer, result: result.map_err(because(Operation::Recv)) }
            }
            Some(Work::Send { pieces, .. }) => {
                let result = result.map(drop).map_err(because(Operation::Send));
                Outcome::Send { pieces, result }
            }
            Some(Work::Ready { .. }) => {
                Outcome::Ready(result.map(drop).map_err(because(Operation::Ready)))
            }
            None => panic!("an operation ended twice"),
        }
    }
}

/// Makes a socket of the number `accept` gave.
fn adopt(number: usize) -> Result<Accepted, Cause> {
    let number = i32::try_from(number).map_err(|_| Cause::Misfit)?;
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows its number.
    let socket = Socket::new(unsafe { OwnedFd::from_raw_fd(number) });
    // One whose other end has gone again has no name; its first receive will say so.
    let peer = getpeername(&socket).ok().and_then(|name| SocketAddr::try_from(name?).ok());
    if peer.is_some() {
        sockopt::set_tcp_nodelay(&socket, true)?;
    }
    Ok(Accepted { socket, peer })
}

fn fd(of: &impl AsFd) -> types::Fd {
    types::Fd(of.as_fd().as_raw_fd())
}

/// The longest run of bytes one entry is given: whole blocks, whatever their size.
const LONGEST: u32 = !0xFFFF;

fn length_of(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(LONGEST)
}

/// The entry for what is left. The lengths are checked here: the kernel is given pointers.
fn prepare(
    work: &mut Work,
    vectors: &mut Vec<libc::iovec>,
    header: &mut libc::msghdr,
) -> Result<Entry, Cause> {
    Ok(match work {
        Work::Read { file, extent, buffer, done } => {
            let target = &mut front(buffer, *extent)?[*done..];
            let offset = extent.offset + *done as u64;
            opcode::Read::new(fd(file), target.as_mut_ptr(), length_of(target.len()))
                .offset(offset)
                .build()
        }
        Work::Write { file, extent, pieces, sync, cursor, done } => {
            fits(*extent, pieces)?;
            gather(*cursor, pieces, vectors);
            let flags = if *sync { libc::RWF_DSYNC } else { 0 };
            write(fd(file), vectors, extent.offset + *done, flags)
        }
        Work::SyncData { file } => {
            opcode::Fsync::new(fd(file)).flags(types::FsyncFlags::DATASYNC).build()
        }
        Work::Accept { listener } => {
            let (none, nothing) = (std::ptr::null_mut(), std::ptr::null_mut());
            opcode::Accept::new(fd(listener), none, nothing).flags(libc::SOCK_CLOEXEC).build()
        }
        Work::Connect { socket, address, name } => {
            may_block(socket)?;
            let name = name.insert(Box::new(address.for_kernel()?));
            opcode::Connect::new(fd(socket), name.as_ptr().cast(), name.addr_len()).build()
        }
        Work::Recv { socket, buffer, range } => {
            // An empty range would read as the end of the stream.
            let target = buffer.get_mut(range.clone()).filter(|target| !target.is_empty());
            let target = target.ok_or(Cause::Misfit)?;
            opcode::Recv::new(fd(socket), target.as_mut_ptr(), length_of(target.len())).build()
        }
        Work::Ready { socket } => opcode::PollAdd::new(fd(socket), libc::POLLIN as u32).build(),
        Work::Send { socket, pieces, cursor } => {
            if crate::gather::total(pieces).is_none() {
                return Err(Cause::Misfit);
            }
            gather(*cursor, pieces, vectors);
            send(fd(socket), vectors, header)
        }
    })
}

fn write(file: types::Fd, vectors: &[libc::iovec], offset: u64, flags: i32) -> Entry {
    match vectors {
        [one] => opcode::Write::new(file, one.iov_base.cast(), length_of(one.iov_len))
            .offset(offset)
            .rw_flags(flags)
            .build(),
        many => opcode::Writev::new(file, many.as_ptr(), many.len() as u32)
            .offset(offset)
            .rw_flags(flags)
            .build(),
    }
}

fn send(socket: types::Fd, vectors: &[libc::iovec], header: &mut libc::msghdr) -> Entry {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
    match vectors {
        [one] => {
            let bytes = one.iov_base.cast_const().cast();
            opcode::Send::new(socket, bytes, length_of(one.iov_len)).flags(flags).build()
        }
        many => {
            header.msg_iov = many.as_ptr().cast_mut();
            header.msg_iovlen = many.len();
            opcode::SendMsg::new(socket, header).flags(flags as u32).build()
        }
    }
}

/// Lists the next bytes for the kernel.
fn gather(cursor: Cursor, pieces: &[Piece], vectors: &mut Vec<libc::iovec>) {
    vectors.clear();
    cursor.with_slices(pieces, |slices, _| {
        vectors.extend(slices.iter().map(|slice| libc::iovec {
            iov_base: slice.as_ptr().cast_mut().cast(),
            iov_len: slice.len(),
        }));
    });
}
