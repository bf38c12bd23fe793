// SPDX-License-Identifier: Apache-2.0
//! A connection that was accepted, and who made it.

use crate::Socket;
use rustix::net::sockopt;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

/// A connection just accepted.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// The connection; TCP ones have `TCP_NODELAY`.
    pub socket: Socket,
    /// The other end's TCP address; `None` for Unix sockets, which have no name.
    pub peer: Option<SocketAddr>,
    /// The process that connected a Unix socket; `None` for TCP, and for a process in a namespace that this one does not see.
    pub process: Option<u32>,
}

impl Accepted {
    /// A connection of the kernel.
    pub(crate) fn new(socket: Socket, peer: Option<SocketAddr>) -> rustix::io::Result<Self> {
        let process = match peer {
            Some(_) => {
                sockopt::set_tcp_nodelay(&socket, true)?;
                None
            }
            None => process_of(&socket),
        };
        Ok(Self { socket, peer, process })
    }
}

/// The process that connected a Unix socket, from `SO_PEERCRED`.
///
/// The kernel gives the number 0 for a process that this one does not see. In `rustix` that number is of a type that has no zero.
#[allow(unsafe_code)]
fn process_of(socket: &Socket) -> Option<u32> {
    let mut who = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open for the length of the borrow, and the kernel writes at most `length` bytes, which is the length of
    // `who`, a struct of integers.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &raw mut length,
        )
    };
    u32::try_from(who.pid).ok().filter(|process| answer == 0 && *process > 0)
}
