// SPDX-License-Identifier: Apache-2.0
//! What a measurement tells while it goes on. Whoever listens decides what of it is shown, and in which words.

use crate::socket::Properties;
use crate::wire::Mode;
use std::net::SocketAddr;
use std::time::Duration;

/// Something happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The first socket is there.
    Created(Properties),
    /// It was asked for buffers: of which kinds, send and receive.
    Resized([bool; 2], Properties),
    /// The standby binds its own end.
    Binding,
    /// The primary listens.
    Listening(SocketAddr),
    /// The standby calls.
    Calling(SocketAddr),
    /// The first connection is there.
    Connected(SocketAddr),
    /// It is as it will be used.
    Ready(Properties),
    /// The primary sent the terms of the run, or the standby heard them.
    Terms {
        /// Who tells.
        sent: bool,
        /// The mode.
        mode: Mode,
        /// Bytes of a flush.
        flush: u64,
        /// When the run's first connection came, milliseconds since 1970.
        began_ms: u64,
    },
    /// Flushes go out, or are waited for.
    Running,
    /// Somebody called and was sent away, or this end was and calls again. Told once, not at every attempt.
    Refused(String),
    /// A call of the kernel was over; told only where everything is.
    Did {
        /// `send`, `recv`, `write` or `congestion`.
        what: &'static str,
        /// Bytes of it.
        bytes: u64,
        /// How long it took; zero where nobody looked.
        took: Duration,
    },
}

/// Hears what happens.
pub type Watch<'w> = &'w (dyn Fn(&Event) + Sync);
