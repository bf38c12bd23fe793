// SPDX-License-Identifier: Apache-2.0
//! A first look at a line: datagrams there and back.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

/// What datagrams told of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// How many set out.
    pub sent: u32,
    /// How many came back.
    pub back: u32,
    /// The shortest round trip of those that came back; zero where none did.
    pub least: Duration,
    /// Their mean.
    pub mean: Duration,
}

/// A socket of the calling thread's namespace.
pub(crate) fn socket(own: Ipv4Addr) -> io::Result<UdpSocket> {
    UdpSocket::bind((own, 0))
}

/// Both ends of the line in turn: what the right end hears it says back.
pub(crate) fn run(
    [left, right]: [UdpSocket; 2],
    rounds: u32,
    limit: Duration,
) -> io::Result<Probe> {
    left.connect(right.local_addr()?)?;
    right.connect(left.local_addr()?)?;
    let begun = Instant::now();
    let (mut probe, mut sum) = (Probe::default(), Duration::ZERO);
    while probe.back < rounds {
        let left_over = limit.saturating_sub(begun.elapsed());
        if left_over.is_zero() {
            break;
        }
        left.set_read_timeout(Some(left_over))?;
        right.set_read_timeout(Some(left_over))?;
        probe.sent += 1;
        let set_out = Instant::now();
        if carry(&left, &right, probe.sent)? && carry(&right, &left, probe.sent)? {
            let took = set_out.elapsed();
            probe.least = if probe.back == 0 { took } else { probe.least.min(took) };
            probe.back += 1;
            sum += took;
        }
    }
    probe.mean = sum / probe.back.max(1);
    Ok(probe)
}

/// Sends a number and waits for it at the other end; false where it does not come in time.
fn carry(from: &UdpSocket, to: &UdpSocket, number: u32) -> io::Result<bool> {
    from.send(&number.to_be_bytes())?;
    let mut heard = [0; 4];
    while u32::from_be_bytes(heard) != number {
        match to.recv(&mut heard) {
            Ok(_) => {}
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Ok(false);
            }
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}
