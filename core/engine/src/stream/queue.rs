// SPDX-License-Identifier: Apache-2.0
//! The bounded memory queue: what it holds, what waits in front of it, and its figures.
//!
//! Bytes and items are bounded. A write that does not fit meets the policy; once the queue was full it opens again
//! at 85 % of its bound (the low mark of Sun's remote mirror), so that writers are not woken one by one. An item
//! larger than the bound is admitted alone (rule 15).

use crate::config::{QUEUE_BYTES_SNDR, QUEUE_ROUND_TRIP_MIN, QueueConfig, automatic_bound};
use crate::stream::write::Part;
use alloc::collections::VecDeque;
use core::time::Duration;
use helio_units::{Bytes, Items, Moment, Rate};

/// Rows of regions in the copier's half of the queue.
const COPY_ROWS: u64 = 8;
/// The low mark in percent of the bound.
const LOW_MARK_PERCENT: u64 = 85;

/// Where a queue's bound comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundSource {
    /// The configuration names it.
    File,
    /// The default: no link was measured yet, or its product is small.
    Default,
    /// Four measured bandwidth-delay products.
    Measured,
}

/// The queue of one group.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    config: QueueConfig,
    pub(crate) bound: Bytes,
    pub(crate) source: BoundSource,
    pub(crate) bytes: Bytes,
    pub(crate) items: Items,
    pub(crate) bytes_high: Bytes,
    pub(crate) items_high: Items,
    pub(crate) bytes_high_at: Moment,
    pub(crate) items_high_at: Moment,
    /// Since when the high-water marks count, and what happened at the bound.
    pub(crate) marks_since: Moment,
    /// The round trip and the rate that an automatic bound was chosen by.
    pub(crate) chosen_by: Option<(Duration, Rate)>,
    full: bool,
    waiting: VecDeque<(Part, Moment)>,
    pub(crate) throttled: u64,
    pub(crate) throttle_time: Duration,
    /// Writes refused for want of room.
    pub(crate) refused: u64,
    /// How often it was dropped for want of room.
    pub(crate) dropped: u64,
}

impl Queue {
    pub(crate) fn new(config: QueueConfig, now: Moment) -> Self {
        let mut queue = Self {
            config,
            bound: QUEUE_BYTES_SNDR,
            source: BoundSource::Default,
            bytes: Bytes::ZERO,
            items: Items(0),
            bytes_high: Bytes::ZERO,
            items_high: Items(0),
            bytes_high_at: now,
            items_high_at: now,
            marks_since: now,
            chosen_by: None,
            full: false,
            waiting: VecDeque::new(),
            throttled: 0,
            throttle_time: Duration::ZERO,
            refused: 0,
            dropped: 0,
        };
        queue.reconfigure(config);
        queue
    }

    pub(crate) fn reconfigure(&mut self, config: QueueConfig) {
        self.config = config;
        if let Some(fixed) = config.memory {
            self.bound = fixed;
            (self.source, self.chosen_by) = (BoundSource::File, None);
        } else if self.source == BoundSource::File {
            self.bound = QUEUE_BYTES_SNDR;
            self.source = BoundSource::Default;
        }
    }

    /// Grows an automatic bound to four bandwidth-delay products; it never shrinks while running.
    pub(crate) fn measured(&mut self, round_trip: Duration, rate: Rate) {
        let round_trip = round_trip.max(QUEUE_ROUND_TRIP_MIN);
        let wanted = automatic_bound(rate, round_trip);
        if self.config.memory.is_none() && wanted > self.bound {
            self.bound = wanted;
            self.source = BoundSource::Measured;
            self.chosen_by = Some((round_trip, rate));
        }
    }

    /// Whether something of that cost would be let in now; remembers where not.
    pub(crate) fn admits(&mut self, cost: Bytes) -> bool {
        let low = |n: u64| n * LOW_MARK_PERCENT / 100;
        if self.full
            && (self.bytes.0 > low(self.bound.0) || self.items.0 > low(self.config.items.0))
        {
            return false;
        }
        self.full = self.items.0 > 0
            && (self.bytes + cost > self.bound || self.items.0 + 1 > self.config.items.0);
        !self.full
    }

    /// Whether the copier may add that much: it leaves half of the queue to the application, and always may have
    /// one region.
    pub(crate) fn admits_copy(&self, cost: Bytes, in_flight: Bytes) -> bool {
        in_flight == Bytes::ZERO || (self.bytes + cost).0 <= self.bound.0 / 2
    }

    /// The most the copier takes up at once: a part of its half, so that the parts of the way overlap.
    pub(crate) fn copy_row(&self) -> Bytes {
        Bytes(self.bound.0 / 2 / COPY_ROWS)
    }

    pub(crate) fn enter(&mut self, cost: Bytes, now: Moment) {
        self.bytes += cost;
        self.items.0 += 1;
        if self.bytes > self.bytes_high {
            (self.bytes_high, self.bytes_high_at) = (self.bytes, now);
        }
        if self.items > self.items_high {
            (self.items_high, self.items_high_at) = (self.items, now);
        }
    }

    /// The high-water marks and what happened at the bound begin anew, at what is in the queue and before it now.
    pub(crate) fn reset_marks(&mut self, now: Moment) {
        (self.throttled, self.throttle_time) = (self.waiting.len() as u64, Duration::ZERO);
        (self.refused, self.dropped) = (0, 0);
        (self.bytes_high, self.bytes_high_at) = (self.bytes, now);
        (self.items_high, self.items_high_at) = (self.items, now);
        self.marks_since = now;
    }

    pub(crate) fn leave(&mut self, cost: Bytes) {
        self.bytes -= cost;
        self.items.0 -= 1;
    }

    /// The cost of something inside becomes smaller: its payload is gone, or was zeros.
    pub(crate) fn shrink(&mut self, from: Bytes, to: Bytes) {
        self.bytes = self.bytes - from + to;
    }

    pub(crate) fn wait(&mut self, part: Part, now: Moment) {
        self.throttled += 1;
        self.waiting.push_back((part, now));
    }

    pub(crate) fn waiters(&self) -> usize {
        self.waiting.len()
    }

    /// The cost of the first that waits.
    pub(crate) fn first_waiting(&self) -> Option<Bytes> {
        self.waiting.front().map(|(part, _)| part.cost())
    }

    pub(crate) fn take_waiting(&mut self, now: Moment) -> Option<Part> {
        let (part, since) = self.waiting.pop_front()?;
        self.throttle_time += now - since.max(self.marks_since);
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(bytes: u64) -> Queue {
        let config = QueueConfig { memory: Some(Bytes(bytes)), ..QueueConfig::default() };
        Queue::new(config, Moment::ZERO)
    }

    #[test]
    fn a_full_queue_opens_again_at_its_low_mark() {
        let mut q = queue(1000);
        for _ in 0..10 {
            assert!(q.admits(Bytes(100)));
            q.enter(Bytes(100), Moment::ZERO);
        }
        assert!(!q.admits(Bytes(1)), "eleven hundred bytes in a thousand");
        q.leave(Bytes(100));
        assert!(!q.admits(Bytes(1)), "open at 90 %");
        q.leave(Bytes(100));
        assert!(q.admits(Bytes(1)), "closed at 80 %");
    }

    #[test]
    fn what_is_larger_than_the_queue_is_let_in_alone() {
        let mut q = queue(1000);
        assert!(q.admits(Bytes(5000)));
        q.enter(Bytes(5000), Moment::ZERO);
        assert!(!q.admits(Bytes(1)));
        q.leave(Bytes(5000));
        assert!(q.admits(Bytes(1)));
    }

    #[test]
    fn the_automatic_bound_is_four_products_between_its_limits() {
        let mut q = Queue::new(QueueConfig::default(), Moment::ZERO);
        assert_eq!((q.bound, q.source), (Bytes::mib(8), BoundSource::Default));
        q.measured(Duration::from_millis(50), Rate::mbit(100));
        assert_eq!(q.bound, Bytes::mib(8), "2.5 MB is less than the default");
        q.measured(Duration::from_millis(100), Rate::mbit(1000));
        assert_eq!((q.bound, q.source), (Bytes(50_000_000), BoundSource::Measured));
        assert_eq!(q.chosen_by, Some((Duration::from_millis(100), Rate::mbit(1000))));
        let mut near = Queue::new(QueueConfig::default(), Moment::ZERO);
        near.measured(Duration::from_micros(50), Rate::mbit(10_000));
        assert_eq!(near.bound, Bytes(50_000_000), "as much as the store of the peer keeps waiting");
        q.measured(Duration::from_secs(1), Rate::mbit(100_000));
        assert_eq!(q.bound, Bytes::mib(256));
        let fixed = QueueConfig { memory: Some(Bytes::mib(16)), ..QueueConfig::default() };
        q.reconfigure(fixed);
        assert_eq!((q.bound, q.source, q.chosen_by), (Bytes::mib(16), BoundSource::File, None));
    }

    #[test]
    fn high_water_marks_tell_when_and_begin_anew_at_what_is_there() {
        let mut q = queue(1000);
        q.enter(Bytes(300), Moment(1));
        q.enter(Bytes(300), Moment(2));
        q.leave(Bytes(300));
        q.enter(Bytes(100), Moment(3));
        let marks = |q: &Queue| (q.bytes_high, q.bytes_high_at, q.items_high, q.items_high_at);
        assert_eq!(marks(&q), (Bytes(600), Moment(2), Items(2), Moment(2)));
        q.reset_marks(Moment(4));
        assert_eq!(marks(&q), (Bytes(400), Moment(4), Items(2), Moment(4)));
        assert_eq!(q.marks_since, Moment(4));
        q.enter(Bytes(100), Moment(5));
        assert_eq!(marks(&q), (Bytes(500), Moment(5), Items(3), Moment(5)));
    }

    #[test]
    fn a_write_that_waits_while_the_marks_are_reset_is_the_first_that_is_counted_anew() {
        let mut q = queue(1000);
        let second = Duration::from_secs(1);
        let at = |n: u32| Moment::ZERO + second * n;
        let part = || Part::of_a_write(Bytes(600));
        q.enter(Bytes(600), at(0));
        q.wait(part(), at(0));
        q.wait(part(), at(0));
        assert!(q.take_waiting(at(2)).is_some());
        (q.refused, q.dropped) = (1, 1);
        assert_eq!((q.throttled, q.throttle_time), (2, second * 2));
        q.reset_marks(at(3));
        assert_eq!((q.throttled, q.throttle_time, q.refused, q.dropped), (1, Duration::ZERO, 0, 0));
        assert!(q.take_waiting(at(4)).is_some());
        assert_eq!(
            (q.throttled, q.throttle_time),
            (1, second),
            "what it waited before is forgotten"
        );
    }
}
