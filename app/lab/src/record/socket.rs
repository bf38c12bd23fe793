// SPDX-License-Identifier: Apache-2.0
//! A socket for datagrams, and waiting for it.

use super::wire::{BURST, Datagram, Kind};
use crate::error::LabError;
use crate::pause::timespec;
use crate::wire::WireError;
use rustix::event::{PollFd, PollFlags, poll};
use socket2::SockRef;
use std::cell::Cell;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// What is asked for, so that a burst finds room; the kernel grants what it may.
const BUFFER: usize = 4 << 20;
/// How long a burst may wait for the host's own queue.
const SENDING: Duration = Duration::from_secs(1);

/// When a datagram was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct When {
    pub(crate) at: Instant,
    /// Nothing was there before: it came now, and not while this end did something else.
    pub(crate) waited_for: bool,
}

/// From whom, when, and what it says.
pub(crate) type Taken = (SocketAddr, When, Result<Datagram, WireError>);

/// A socket for datagrams. Those that cannot be sent are lost, as on the way.
#[derive(Debug)]
pub(crate) struct Post {
    socket: UdpSocket,
    begun: Instant,
    /// Nothing was there at the last look.
    empty: Cell<bool>,
}

impl Post {
    pub(crate) fn bind(local: SocketAddr) -> Result<Self, LabError> {
        let failed = LabError::system(
            format!("listen on {local}"),
            "give an address of this host and a free port",
        );
        let made = UdpSocket::bind(local).and_then(|socket| {
            let ask = SockRef::from(&socket);
            ask.set_recv_buffer_size(BUFFER)?;
            ask.set_send_buffer_size(BUFFER)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        Ok(Self { socket: made.map_err(failed)?, begun: Instant::now(), empty: Cell::new(true) })
    }

    pub(crate) fn local(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// This end's clock at a moment.
    pub(crate) fn clock(&self, at: Instant) -> u64 {
        super::meter::nanos(at.duration_since(self.begun))
    }

    /// Sends it with the clock of now; returns that.
    pub(crate) fn send(&self, mut datagram: Datagram, to: SocketAddr) -> u64 {
        datagram.clock = self.clock(Instant::now());
        let _ = self.socket.send_to(&datagram.encode(), to);
        datagram.clock
    }

    /// Sends a burst of so many as `datagram` is one of.
    pub(crate) fn burst(&self, datagram: Datagram, to: SocketAddr) {
        let mut bytes = [0; BURST];
        let deadline = Instant::now() + SENDING;
        for number in 0..datagram.second as u32 {
            let one = Datagram { kind: Kind::Burst, number, ..datagram }.encode();
            bytes[..one.len()].copy_from_slice(&one);
            while let Err(why) = self.socket.send_to(&bytes, to) {
                let left = deadline.saturating_duration_since(Instant::now());
                if why.kind() != ErrorKind::WouldBlock || left.is_zero() {
                    return;
                }
                self.wait(PollFlags::OUT, left);
            }
        }
    }

    /// What came, from whom and when; none while nothing is there. What says nothing of ours is told as that.
    pub(crate) fn take(&self) -> Option<Taken> {
        // One more, or a datagram too long would look like one that fits.
        let mut bytes = [0; BURST + 1];
        // An error is of one that was sent before: nothing came.
        let Ok((length, from)) = self.socket.recv_from(&mut bytes) else {
            self.empty.set(true);
            return None;
        };
        let when = When { at: Instant::now(), waited_for: self.empty.replace(false) };
        Some((from, when, Datagram::decode(&bytes[..length])))
    }

    /// Waits until something came, or for so long.
    pub(crate) fn wait_in(&self, span: Duration) {
        self.wait(PollFlags::IN, span);
    }

    fn wait(&self, what: PollFlags, span: Duration) {
        let mut fds = [PollFd::new(&self.socket, what)];
        // A signal ends it early, which the clock shows.
        let _ = poll(&mut fds, Some(&timespec(span)));
    }
}
