// SPDX-License-Identifier: Apache-2.0
//! What every chapter works with, and what they leave for the last one.

use super::image::Image;
use super::latency::Row;
use super::node::Node;
use super::screen::Screen;
use super::stage::Stage;
use helio_api::GroupStatus;
use helio_units::{Bytes, Rate};
use helio_wan::Relay;
use std::time::Duration;

/// The stage, the two nodes and the line between them.
pub(super) struct Story<'a> {
    pub(super) screen: &'a Screen,
    pub(super) stage: &'a Stage,
    pub(super) paris: Node<'a>,
    pub(super) lyon: Node<'a>,
    pub(super) line: Relay,
}

/// What writing the image showed.
pub(super) struct Mirrored {
    pub(super) image: Image,
    /// Of the image's own bytes.
    pub(super) checksum: super::digest::Checksum,
    /// Bytes of it that are not zero, in whole pieces.
    pub(super) data: Bytes,
    /// Until the last write was answered.
    pub(super) answered: Duration,
    /// Until the other node had it all.
    pub(super) arrived: Duration,
    /// The most the other node was seen behind.
    pub(super) most_behind: Bytes,
}

/// What the cut showed.
#[derive(Default)]
pub(super) struct Survived {
    /// Records written in all.
    pub(super) records: u64,
    /// The longest that any of them waited for its answer.
    pub(super) longest: Duration,
    /// The most seen in the queue.
    pub(super) most_queued: Bytes,
    /// From healing to replicating.
    pub(super) caught_up: Duration,
    /// Looks at the other node's journal; each found a prefix.
    pub(super) looks: u32,
}

/// What the failover showed.
pub(super) struct FailedOver {
    /// Records answered before the primary was killed; all were found.
    pub(super) answered: usize,
    /// Records on their way then.
    pub(super) in_flight: u64,
    /// From the kill to the first read on the new primary.
    pub(super) took: Duration,
}

/// Everything that was measured.
pub(super) struct Measured {
    pub(super) mirrored: Mirrored,
    pub(super) latency: Vec<Row>,
    pub(super) survived: Survived,
    pub(super) failed_over: FailedOver,
}

/// How fast so many bytes went in that time.
pub(super) fn rate(bytes: Bytes, took: Duration) -> Rate {
    let nanos = took.as_nanos().max(1);
    Rate(u64::try_from(u128::from(bytes.0) * 1_000_000_000 / nanos).unwrap_or(u64::MAX))
}

/// What waits for the other node; nothing on a secondary.
pub(super) fn queued(status: &GroupStatus) -> Bytes {
    status.queue.as_ref().map_or(Bytes::ZERO, |queue| queue.bytes)
}

/// A span as people read it: milliseconds to three digits that count, from a second on seconds.
pub(super) fn span(span: Duration) -> String {
    let millis = span.as_secs_f64() * 1e3;
    let decimals = match millis {
        1000.0.. => return format!("{:.2} s", millis / 1e3),
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{millis:.decimals$} ms")
}

/// State, queue and lag of a group in one line.
pub(super) fn pulse(status: &GroupStatus) -> String {
    let (lag, items) = (&status.lag, status.queue.as_ref().map_or(0, |queue| queue.items.0));
    format!(
        "{:<12} queue {:>10} in {items:>4} writes   lag {:>10}, {:.2} s",
        status.state.word(),
        queued(status).to_string(),
        lag.bytes.to_string(),
        lag.seconds.as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_prints_with_the_digits_that_count() {
        let us = |n| span(Duration::from_micros(n));
        assert_eq!([us(119), us(1_234), us(51_300)], ["0.119 ms", "1.23 ms", "51.3 ms"]);
        assert_eq!([us(450_000), us(3_050_000)], ["450 ms", "3.05 s"]);
    }

    #[test]
    fn a_rate_is_bytes_over_time() {
        assert_eq!(rate(Bytes(25_000_000), Duration::from_secs(2)), Rate::mbit(100));
        assert_eq!(rate(Bytes::ZERO, Duration::ZERO), Rate(0));
    }
}
