// SPDX-License-Identifier: Apache-2.0
//! The HADR calculator: what becomes of a measured log rate in each mode.
//!
//! At the flush size it has, a workload reaches a least rate. Where it wants more, transactions pile up meanwhile and
//! flushes grow, at most to what all open transactions have written; that is its most. In between lies the flush size at
//! which the wanted rate is just reached. Question marks tell how much of that room is used up: see [`Impact`].

use crate::flush::{CATCH_UP, Disk, Flush, FlushMode, Link, PAGE};
use crate::window::{LEAST_BUFFER, MOST_BUFFER, buffer, doubled};
use helio_units::{Bytes, Rate};

/// One sample of a log: what was written in some interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What the application wrote per second.
    pub rate: Rate,
    /// In flushes of this size on average.
    pub flush: Bytes,
    /// What all open transactions have written, the most one flush can come to; not less than `flush`.
    pub most: Bytes,
}

impl Sample {
    /// A sample with so many transactions of that size open on average.
    #[must_use]
    pub fn new(rate: Rate, flush: Bytes, transaction: Bytes, open: f64) -> Self {
        let together = Bytes((transaction.0 as f64 * open).round() as u64);
        Self { rate, flush, most: together.max(flush) }
    }
}

/// How hard a mode is on the application, as the calculator marks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Impact {
    /// The rate is reached as it is.
    None,
    /// Only by larger flushes, but with a quarter of the mode's most.
    Small,
    /// With more than a quarter of it.
    Medium,
    /// With more than half of it, or not at all.
    Heavy,
}

impl Impact {
    /// The calculator's mark.
    #[must_use]
    pub fn mark(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Small => "?",
            Self::Medium => "??",
            Self::Heavy => "???",
        }
    }

    fn of(wanted: Rate, least: Rate, most: Rate) -> Self {
        let beyond = |part: u64| wanted > Rate(most.0 / part);
        match wanted <= least {
            true => Self::None,
            false if beyond(2) => Self::Heavy,
            false if beyond(4) => Self::Medium,
            false => Self::Small,
        }
    }
}

/// What one mode makes of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// Which mode.
    pub mode: FlushMode,
    /// At the flush size there is.
    pub least: Flush,
    /// At the largest there can be.
    pub most: Flush,
    /// At the one it will come to.
    pub expected: Flush,
    /// What the application notices.
    pub impact: Impact,
}

impl Prediction {
    /// Whether the wanted rate is out of reach even with the largest flushes.
    #[must_use]
    pub fn short_of(self, wanted: Rate) -> bool {
        wanted > self.most.rate
    }
}

/// What `mode` makes of a sample.
#[must_use]
pub fn predict(mode: FlushMode, sample: Sample, disk: Disk, link: Link) -> Prediction {
    let at = |size| mode.flush(size, disk, link);
    let (least, most) = (at(sample.flush), at(sample.most));
    let expected = match sample.rate {
        rate if rate <= least.rate => least,
        rate if rate >= most.rate => most,
        rate => reaching(rate, least, most, at),
    };
    let impact = Impact::of(sample.rate, least.rate, most.rate);
    Prediction { mode, least, most, expected, impact }
}

/// The smallest flush between the two that reaches the rate, to a page: a larger flush is never slower in the long run.
fn reaching(rate: Rate, least: Flush, most: Flush, at: impl Fn(Bytes) -> Flush) -> Flush {
    let (mut low, mut high) = (least, most);
    while high.size.saturating_sub(low.size) > PAGE {
        let middle = at(Bytes(low.size.0.midpoint(high.size.0)));
        if middle.rate < rate { low = middle } else { high = middle }
    }
    high
}

/// What remote catch-up of HADR reaches, 16 pages at a time, and whether that keeps up with an average log rate.
#[must_use]
pub fn catch_up(average: Rate, disk: Disk, link: Link) -> (Flush, Impact) {
    let flush = FlushMode::HadrAsync.flush(CATCH_UP, disk, link);
    let beyond =
        |quarters: u64| average.0.saturating_mul(4) > flush.rate.0.saturating_mul(quarters);
    let impact = match () {
        () if beyond(4) => Impact::Heavy,
        () if beyond(3) => Impact::Medium,
        () if beyond(2) => Impact::Small,
        () => Impact::None,
    };
    (flush, impact)
}

/// The socket buffer to ask for: room for a flush and for twice the link's product, as the search by doubling would
/// find it, from 64 KiB to 32 MiB.
#[must_use]
pub fn socket_buffer(flush: Bytes, link: Link) -> Bytes {
    doubled(flush.max(buffer(link.rate, link.rtt))).clamp(LEAST_BUFFER, MOST_BUFFER)
}

/// A size in HADR's pages, a part of one counted whole.
#[must_use]
pub fn pages(size: Bytes) -> u64 {
    size.0.div_ceil(PAGE.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Disk and link of IBM's tuning guide: 200 MB/s and 1 ms a write, 10 MB/s and 100 ms; its MB are 2^20 bytes.
    const DISK: Disk = Disk { rate: Rate(200 << 20), overhead: Duration::from_millis(1) };
    const LINK: Link = Link { rate: Rate(10 << 20), rtt: Duration::from_millis(100) };
    /// The sample line of its log scanner: 7.307 MB/s, 17.6 pages a flush, 22.7 transactions of 15.9 pages.
    fn sample() -> Sample {
        let (flush, transaction) = (Bytes(72_090), Bytes(65_126));
        Sample::new(Rate(7_661_945), flush, transaction, 22.7)
    }

    #[test]
    fn the_guides_sample_is_too_much_for_the_modes_that_wait() {
        let told = |mode| predict(mode, sample(), DISK, LINK);
        let pages_of = |flush: Flush| (pages(flush.size), (flush.rate.0 * 1000) >> 20);
        // 17.6 pages are 0.06875 MB: 1.34375 ms to write, 6.875 ms to send.
        let sync = told(FlushMode::HadrSync);
        assert_eq!(sync.least.time.as_micros(), 109_562);
        assert_eq!((pages_of(sync.most), sync.impact), ((361, 5_484), Impact::Heavy));
        assert!(sync.short_of(sample().rate) && sync.expected == sync.most);
        let nearsync = told(FlushMode::HadrNearsync);
        assert_eq!((nearsync.least.time.as_micros(), nearsync.impact), (106_875, Impact::Heavy));
        let direct = told(FlushMode::HadrAsync);
        assert_eq!((direct.expected, direct.impact), (direct.least, Impact::None));
        assert_eq!(direct.least.time.as_micros(), 6_875);
    }

    #[test]
    fn flushes_grow_until_the_rate_is_reached() {
        let (mode, slow) = (FlushMode::HadrNearsync, Sample { rate: Rate(2 << 20), ..sample() });
        let told = predict(mode, slow, DISK, LINK);
        assert!(told.expected.rate >= slow.rate && told.expected.size < told.most.size, "{told:?}");
        let smaller = mode.flush(told.expected.size - PAGE, DISK, LINK);
        assert!(smaller.rate < slow.rate, "a page less would not do: {smaller:?}");
        assert_eq!(told.impact, Impact::Medium);
    }

    #[test]
    fn marks_change_at_a_quarter_and_at_half_of_the_most() {
        for (wanted, mark) in [(10, ""), (11, "?"), (25, "?"), (26, "??"), (50, "??"), (51, "???")]
        {
            assert_eq!(Impact::of(Rate(wanted), Rate(10), Rate(100)).mark(), mark, "{wanted}");
        }
    }

    #[test]
    fn catch_up_is_marked_at_half_at_three_quarters_and_beyond() {
        // 64 KiB at 10 MiB/s.
        let most = catch_up(Rate(0), DISK, LINK).0.rate.0;
        assert_eq!(most, 10 << 20);
        for (average, mark) in
            [(most / 2, ""), (most / 2 + 1, "?"), (most, "??"), (most + 1, "???")]
        {
            assert_eq!(catch_up(Rate(average), DISK, LINK).1.mark(), mark, "{average}");
        }
    }

    #[test]
    fn a_socket_buffer_holds_the_largest_flush() {
        // The guide: 1126 pages at most, "a 2000 page (8MB) socket buffer size is recommended".
        assert_eq!(socket_buffer(Bytes(1126 * PAGE.0), LINK), Bytes::mib(8));
        assert_eq!(socket_buffer(Bytes::mib(100), LINK), MOST_BUFFER);
        let near = Link { rtt: Duration::ZERO, ..LINK };
        assert_eq!(socket_buffer(PAGE, near), LEAST_BUFFER);
    }
}
