// SPDX-License-Identifier: Apache-2.0
//! How long a log flush takes in each mode, and what rate that allows.
//!
//! A log writer has one flush under way at a time. With `write` for a write of it to disk, `send` for sending it, and the
//! round trip:
//!
//! | mode | a flush takes | from |
//! |---|---|---|
//! | HADR SYNC | write + send + write + round trip, one behind the other | HADR calculator |
//! | HADR NEARSYNC | the longer of write, send + round trip | the same |
//! | HADR ASYNC, SUPERASYNC | the longer of write, send | the same |
//! | sync | the longer of write, send + write + round trip: both legs at once | `docs/reference/modes.md` |
//! | nearsync | the longer of write, send + round trip | the same |
//! | async | write; the queue takes the rest, as long as the link keeps up | the same |
//!
//! and `write` is the disk's overhead plus size ÷ its rate, `send` is size ÷ the link's rate.

use helio_units::{Bytes, Rate};
use std::time::Duration;

/// A page of a HADR log.
pub const PAGE: Bytes = Bytes::kib(4);
/// What HADR ships at a time in remote catch-up, and in SUPERASYNC always.
pub const CATCH_UP: Bytes = Bytes(16 * PAGE.0);

/// A disk as the HADR calculator models it. Both nodes have one like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// What it transfers, once it does.
    pub rate: Rate,
    /// What each write takes besides.
    pub overhead: Duration,
}

impl Disk {
    /// How long a write takes.
    #[must_use]
    pub fn write(self, size: Bytes) -> Duration {
        self.overhead.saturating_add(self.rate.time_for(size))
    }
}

/// A link as the HADR calculator models it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// What it carries each way.
    pub rate: Rate,
    /// Its round trip.
    pub rtt: Duration,
}

/// When a flush is done: HADR's modes and ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// HADR SYNC.
    HadrSync,
    /// HADR NEARSYNC.
    HadrNearsync,
    /// HADR ASYNC.
    HadrAsync,
    /// HADR SUPERASYNC.
    HadrSuperasync,
    /// Our sync.
    Sync,
    /// Our nearsync.
    Nearsync,
    /// Our async.
    Async,
}

impl FlushMode {
    /// All of them, HADR's first.
    pub const ALL: [Self; 7] = [
        Self::HadrSync,
        Self::HadrNearsync,
        Self::HadrAsync,
        Self::HadrSuperasync,
        Self::Sync,
        Self::Nearsync,
        Self::Async,
    ];

    /// What people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HadrSync => "HADR SYNC",
            Self::HadrNearsync => "HADR NEARSYNC",
            Self::HadrAsync => "HADR ASYNC",
            Self::HadrSuperasync => "HADR SUPERASYNC",
            Self::Sync => "sync",
            Self::Nearsync => "nearsync",
            Self::Async => "async",
        }
    }

    /// How much is flushed at a time where `size` is asked for.
    #[must_use]
    pub fn flushes(self, size: Bytes) -> Bytes {
        if self == Self::HadrSuperasync { CATCH_UP } else { size }
    }

    /// A flush of that size.
    #[must_use]
    pub fn flush(self, size: Bytes, disk: Disk, link: Link) -> Flush {
        let size = self.flushes(size);
        let (write, send) = (disk.write(size), link.rate.time_for(size));
        let over = send.saturating_add(link.rtt);
        let time = match self {
            Self::HadrSync => over.saturating_add(write * 2),
            Self::Sync => over.saturating_add(write),
            Self::HadrNearsync | Self::Nearsync => write.max(over),
            Self::HadrAsync | Self::HadrSuperasync => write.max(send),
            Self::Async => write,
        };
        Flush { size, time, rate: per_second(size, time.max(send)) }
    }
}

/// One flush behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Its size.
    pub size: Bytes,
    /// What it takes.
    pub time: Duration,
    /// What that comes to in the long run.
    pub rate: Rate,
}

fn per_second(size: Bytes, time: Duration) -> Rate {
    match time.as_nanos() {
        0 => Rate(u64::MAX),
        nanos => {
            let rate = (u128::from(size.0) * 1_000_000_000 + nanos / 2) / nanos;
            Rate(u64::try_from(rate).unwrap_or(u64::MAX))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_takes_what_its_row_says() {
        // A flush of 1 MB: 2 + 8 ms to write, 20 ms to send, 50 ms there and back.
        let disk = Disk { rate: Rate(125_000_000), overhead: Duration::from_millis(2) };
        let link = Link { rate: Rate(50_000_000), rtt: Duration::from_millis(50) };
        for (mode, ms) in [
            (FlushMode::HadrSync, 90),
            (FlushMode::HadrNearsync, 70),
            (FlushMode::HadrAsync, 20),
            (FlushMode::Sync, 80),
            (FlushMode::Nearsync, 70),
            (FlushMode::Async, 10),
        ] {
            let flush = mode.flush(Bytes(1_000_000), disk, link);
            assert_eq!(flush.time, Duration::from_millis(ms), "{}", mode.name());
            // The queue hides the link from a flush, not from the long run.
            let long = Duration::from_millis(ms.max(20));
            assert_eq!(flush.rate, per_second(Bytes(1_000_000), long), "{}", mode.name());
        }
        let always = FlushMode::HadrSuperasync.flush(Bytes(1_000_000), disk, link);
        assert_eq!(always, FlushMode::HadrAsync.flush(CATCH_UP, disk, link));
    }
}
