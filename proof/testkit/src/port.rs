// SPDX-License-Identifier: Apache-2.0
//! Ports for daemons that tests start.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
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
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_free_and_given_once() {
        let (one, two) = (free_port(), free_port());
        assert_ne!(one, two);
        let held = TcpListener::bind(one).expect("it is free");
        assert_eq!(held.local_addr().expect("it is bound"), one);
    }
}
