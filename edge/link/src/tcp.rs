// SPDX-License-Identifier: Apache-2.0
//! The socket's knobs and figures.
//!
//! Buffers are left to the kernel's autotuning unless a size is asked for: asking switches autotuning off, and
//! Linux grants twice what was asked, capped by a system limit. So requested and actual are shown side by side, as
//! HADR's monitor does.
#![allow(unsafe_code)]

use helio_driver::Socket;
use helio_units::{Bytes, Rate};
use rustix::net::sockopt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Bytes the kernel may hold that it has not sent: beyond it the socket is not writable. Low, so that what waits does
/// so in the queue, where it is counted; high enough to keep 10 Gbit/s busy between two turns of a loop (100 us hold
/// 125 kB).
const NOT_SENT_LOW_WATER: u32 = 256 << 10;

/// What may be asked of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Send buffer; none leaves autotuning on.
    pub send_buffer: Option<Bytes>,
    /// Receive buffer; none leaves autotuning on.
    pub receive_buffer: Option<Bytes>,
    /// Congestion control by name; none leaves the system's.
    pub congestion: Option<String>,
}

impl Tuning {
    /// Applies to a socket; before it connects or listens, since the window scale is settled in the handshake.
    ///
    /// # Errors
    /// The kernel refuses: an unknown congestion control, for one.
    pub fn apply(&self, socket: &Socket) -> io::Result<()> {
        // A simulated socket has no TCP options.
        let Some(socket) = socket.descriptor() else { return Ok(()) };
        let size = |b: Bytes| usize::try_from(b.0).unwrap_or(usize::MAX).min(i32::MAX as usize);
        if let Some(bytes) = self.send_buffer {
            sockopt::set_socket_send_buffer_size(socket, size(bytes))?;
        }
        if let Some(bytes) = self.receive_buffer {
            sockopt::set_socket_recv_buffer_size(socket, size(bytes))?;
        }
        if let Some(name) = &self.congestion {
            sockopt::set_tcp_congestion(socket, name)?;
        }
        set_not_sent_low_water(socket)
    }
}

fn set_not_sent_low_water(socket: BorrowedFd<'_>) -> io::Result<()> {
    let value: u32 = NOT_SENT_LOW_WATER;
    // SAFETY: the descriptor is open for the life of the borrow; the pointer and length describe one live u32.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const value).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the kernel tells of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Send buffer in force.
    pub send_buffer: Bytes,
    /// Receive buffer in force.
    pub receive_buffer: Bytes,
    /// Congestion control in force.
    pub congestion: String,
    /// Smoothed round trip.
    pub round_trip: Duration,
    /// Smallest round trip seen.
    pub round_trip_min: Duration,
    /// Segments sent again since the connection began.
    pub retransmits: u32,
    /// Congestion window.
    pub window: Bytes,
    /// Window the peer offers; zero on kernels that do not tell.
    pub peer_window: Bytes,
    /// Rate at which the kernel saw data delivered.
    pub delivery_rate: Rate,
    /// How much the round trip varies.
    pub round_trip_variance: Duration,
    /// Segments sent since the connection began, those sent again included.
    pub segments: u32,
    /// By how many bits this end and the other shift the windows they offer (RFC 7323); none where scaling is off.
    pub window_scale: Option<[u8; 2]>,
    /// How long there was something to send.
    pub busy: Duration,
    /// How much of it the peer's window was the limit.
    pub window_limited: Duration,
    /// How much of it this end's send buffer was.
    pub buffer_limited: Duration,
}

/// Length of the kernel's `struct tcp_info` that is read; older kernels fill less, and the rest stays zero.
const INFO_BYTES: usize = 232;

/// Among the options both ends agreed on.
const WINDOW_SCALING: u8 = 4;

impl Figures {
    /// Reads them.
    ///
    /// # Errors
    /// The socket is not a TCP connection of a kernel.
    pub fn of(socket: &Socket) -> io::Result<Self> {
        let socket = socket.descriptor().ok_or(io::ErrorKind::Unsupported)?;
        let info = tcp_info(socket)?;
        // Offsets in bytes, from the kernel's user-space header linux/tcp.h.
        let u32_at =
            |at: usize| u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let (mss, cwnd) = (u32_at(16), u32_at(80));
        Ok(Self {
            send_buffer: Bytes(sockopt::socket_send_buffer_size(socket)? as u64),
            receive_buffer: Bytes(sockopt::socket_recv_buffer_size(socket)? as u64),
            congestion: sockopt::tcp_congestion(socket)?,
            round_trip: Duration::from_micros(u64::from(u32_at(68))),
            round_trip_min: Duration::from_micros(u64::from(u32_at(148))),
            retransmits: u32_at(100),
            window: Bytes(u64::from(mss) * u64::from(cwnd)),
            peer_window: Bytes(u64::from(u32_at(228))),
            delivery_rate: Rate(u64_at(160)),
            round_trip_variance: Duration::from_micros(u64::from(u32_at(72))),
            segments: u32_at(136),
            // The low half is what the peer shifts, the high half what we do.
            window_scale: (info[5] & WINDOW_SCALING != 0).then_some([info[6] >> 4, info[6] & 15]),
            busy: Duration::from_micros(u64_at(168)),
            window_limited: Duration::from_micros(u64_at(176)),
            buffer_limited: Duration::from_micros(u64_at(184)),
        })
    }
}

fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<[u8; INFO_BYTES]> {
    let mut info = [0; INFO_BYTES];
    let mut length = INFO_BYTES as libc::socklen_t;
    // SAFETY: the descriptor is open for the life of the borrow; the kernel writes at most `length` bytes, all of them
    // inside `info`, and any bytes are valid u8.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    fn pair() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let ours = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        (Socket::new(ours), listener.accept().expect("accept").0)
    }

    #[test]
    fn the_figures_of_a_live_connection_make_sense() {
        let begun = Instant::now();
        let (ours, mut theirs) = pair();
        rustix::io::write(&ours, &[7; 4096]).expect("write");
        let mut got = [0; 4096];
        theirs.read_exact(&mut got).expect("read");
        theirs.write_all(&[1]).expect("write");
        let figures = Figures::of(&ours).expect("figures");
        assert!(
            figures.send_buffer.0 > 0 && figures.window.0 > 0 && !figures.congestion.is_empty()
        );
        // Microseconds that are read as another unit would be longer than all of this.
        assert!(figures.round_trip <= begun.elapsed());
    }

    #[test]
    fn a_requested_buffer_is_granted_and_shown() {
        let (ours, _theirs) = pair();
        let tuning = Tuning { send_buffer: Some(Bytes::kib(64)), ..Tuning::default() };
        tuning.apply(&ours).expect("applies");
        assert_eq!(
            Figures::of(&ours).expect("figures").send_buffer,
            Bytes::kib(128),
            "Linux grants twice"
        );
    }

    #[test]
    fn an_unknown_congestion_control_is_an_error() {
        let (ours, _theirs) = pair();
        let tuning = Tuning { congestion: Some("carrier-pigeon".into()), ..Tuning::default() };
        assert!(tuning.apply(&ours).is_err());
    }
}
