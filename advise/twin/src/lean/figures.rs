// SPDX-License-Identifier: Apache-2.0
//! What a run came to.

use core::time::Duration;
use hdrhistogram::Histogram;
use helio_units::{Bytes, Items, Moment, State};

/// Why a histogram takes every value.
const GROWS: &str = "a histogram without a highest value grows";
/// Digits that percentiles keep.
const DIGITS: u8 = 3;

/// A distribution, of times in nanoseconds or of sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread(Histogram<u64>);

impl Default for Spread {
    fn default() -> Self {
        Self(Histogram::new(DIGITS).expect("three digits are few enough for any histogram"))
    }
}

impl Spread {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.0.record(value).expect(GROWS);
    }

    /// Adds a time.
    pub fn add_time(&mut self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds another one's values, each `times`.
    pub fn add_all(&mut self, other: &Self, times: u64) {
        for step in other.0.iter_recorded() {
            let count = step.count_at_value() * times;
            self.0.record_n(step.value_iterated_to(), count).expect(GROWS);
        }
    }

    /// How many values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The value that so many percent do not exceed; 0 where there is none.
    #[must_use]
    pub fn at(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// The time that so many percent do not exceed.
    #[must_use]
    pub fn time_at(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.at(percent))
    }

    /// The largest.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.0.max()
    }

    /// The mean; 0 where there is none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }
}

/// How things stood at one moment, and what was answered since the sample before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Since the workload began.
    pub at: Duration,
    /// Accepted and not completed at the peer.
    pub lag: Bytes,
    /// How old the peer's consistent image is.
    pub behind: Duration,
    /// In the queue.
    pub queue: Bytes,
    /// Writes answered since the sample before.
    pub answered: Items,
    /// Their 99th percentile.
    pub p99: Duration,
    /// The state the primary shows.
    pub state: State,
}

/// How the run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was answered, and the copies are level.
    Level,
    /// Everything was answered; the peer was still behind when the patience was over.
    Behind,
    /// Not everything was answered when the patience was over.
    Unanswered,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// From a write's issue to its answer, in nanoseconds; zeroes and discards are writes.
    pub writes: Spread,
    /// From the moment the workload has it to its answer: what an application waits that cannot wait for its turn.
    pub responses: Spread,
    /// Flushes.
    pub flushes: Spread,
    /// Reads.
    pub reads: Spread,
    /// Lag in bytes, sampled.
    pub lag: Spread,
    /// How old the peer's image was, sampled, in nanoseconds: what a forced failover at that moment loses.
    pub behind: Spread,
    /// Samples, evenly spread.
    pub samples: Vec<Sample>,
    /// Bytes of writes the application had answered.
    pub answered: Bytes,
    /// From the first request to the last answer.
    pub took: Duration,
    /// Requests answered with an error.
    pub denied: Items,
    /// The most bytes in the queue.
    pub queue_high: Bytes,
    /// The most items in it.
    pub items_high: Items,
    /// The queue's bound at the end.
    pub bound: Bytes,
    /// When the queue was full first, counted from the beginning.
    pub full_after: Option<Duration>,
    /// Writes that waited for room.
    pub throttled: Items,
    /// How long they waited, together.
    pub throttle_time: Duration,
    /// How often the queue was dropped for want of room.
    pub dropped: Items,
    /// To the peer, in frames; the headers of TCP and IP are not in it.
    pub sent: Bytes,
    /// From the peer.
    pub received: Bytes,
    /// From the end of the last outage until the copies are level.
    pub level_after: Option<Duration>,
    /// Events the two engines took.
    pub events: Items,
    /// How it ended.
    pub outcome: Outcome,
}

impl Figures {
    pub(super) fn new() -> Self {
        Self {
            writes: Spread::default(),
            responses: Spread::default(),
            flushes: Spread::default(),
            reads: Spread::default(),
            lag: Spread::default(),
            behind: Spread::default(),
            samples: Vec::new(),
            answered: Bytes::ZERO,
            took: Duration::ZERO,
            denied: Items(0),
            queue_high: Bytes::ZERO,
            items_high: Items(0),
            bound: Bytes::ZERO,
            full_after: None,
            throttled: Items(0),
            throttle_time: Duration::ZERO,
            dropped: Items(0),
            sent: Bytes::ZERO,
            received: Bytes::ZERO,
            level_after: None,
            events: Items(0),
            outcome: Outcome::Unanswered,
        }
    }

    /// Bytes of writes answered per second.
    #[must_use]
    pub fn throughput(&self) -> helio_units::Rate {
        let nanos = self.took.as_nanos().max(1);
        let rate = u128::from(self.answered.0) * 1_000_000_000 / nanos;
        helio_units::Rate(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

/// What the samples between two drawn ones come to.
#[derive(Debug, Default)]
pub(super) struct Since {
    pub(super) writes: Spread,
    /// When the peer's image was consistent last.
    pub(super) image: Moment,
}
