// SPDX-License-Identifier: Apache-2.0
//! Who made a connection over a Unix socket.

use crate::Socket;
use std::mem::size_of;
use std::os::fd::AsRawFd;

/// The process that made a connection over a Unix socket, from `SO_PEERCRED`; `None` for TCP, and for a process in a namespace that this
/// one does not see.
///
/// The kernel gives the number 0 for a process that this one does not see. In `rustix` that number is of a type that has no zero.
#[must_use]
#[allow(unsafe_code)]
pub fn process_of(socket: &Socket) -> Option<u32> {
    let descriptor = socket.descriptor()?;
    let mut who = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open for the length of the borrow, and the kernel writes at most `length` bytes, which is the length of
    // `who`, a struct of integers.
    let answer = unsafe {
        libc::getsockopt(
            descriptor.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &raw mut length,
        )
    };
    u32::try_from(who.pid).ok().filter(|process| answer == 0 && *process > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_process_is_known_over_a_unix_socket_only() {
        let (here, _there) = UnixStream::pair().expect("a pair");
        assert_eq!(process_of(&Socket::new(here)), Some(std::process::id()));
        let listener = TcpListener::bind("127.0.0.1:0").expect("it listens");
        let to = listener.local_addr().expect("an address");
        let stream = TcpStream::connect(to).expect("it connects");
        assert_eq!(process_of(&Socket::new(stream)), None);
    }
}
