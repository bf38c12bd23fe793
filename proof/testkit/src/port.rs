// SPDX-License-Identifier: Apache-2.0
//! Ports for daemons that tests start.

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the range from which Linux takes the ports of outgoing connections, so that none of those can
/// take a port between its choice here and its use.
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;

/// A loopback address nobody listens on, and none that this process was given before.
///
/// # Panics
/// Where every port is taken.
#[must_use]
pub fn free_port() -> SocketAddr {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Processes that test side by side begin far apart; 61 is prime to the count, so each walk sees all.
    let start = std::process::id().wrapping_mul(61);
    for _ in 0..COUNT {
        let step = GIVEN.fetch_add(1, Ordering::Relaxed);
        let number = FIRST + start.wrapping_add(step) % COUNT;
        let port = u16::try_from(number).expect("the range ends below 65536");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if ask(address).is_ok() {
            return address;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}

/// Asks whether nobody listens on an address. The socket that asks never listens itself: a process that another thread starts
/// meanwhile has a copy of it for a moment, and only a socket that listens keeps the port from others.
fn ask(address: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_port_is_free_and_given_once() {
        let (one, two) = (free_port(), free_port());
        assert_ne!(one, two);
        let held = TcpListener::bind(one).expect("it is free");
        assert_eq!(held.local_addr().expect("it is bound"), one);
        assert!(ask(one).is_err(), "somebody listens on it");
        let asks = ask(two).expect("nobody listens on it");
        let listens = TcpListener::bind(two);
        assert!(listens.is_ok(), "who asks keeps the port from nobody: {listens:?}");
        drop(asks);
    }
}
