// SPDX-License-Identifier: Apache-2.0
//! The bounded memory queue: what it holds, what waits in front of it, and its figures.
//!
//! Bytes and items are bounded. A write that does not fit meets the policy; once the queue was full it opens again
//! at 85 % of its bound (the low mark of Sun's remote mirror), so that writers are not woken one by one. An item
//! larger than the bound is admitted alone (rule 15).

use crate::config::{QUEUE_ROUND_TRIP_MIN, QueueConfig, automatic_bound};
use crate::stream::slots::Part;
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

/// What a queue held at most, and what happened at its bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Since when all this counts.
    pub(crate) since: Moment,
    /// Most bytes, and when they were in it first.
    pub(crate) bytes_high: (Bytes, Moment),
    /// Most items, and when they were in it first.
    pub(crate) items_high: (Items, Moment),
    /// Writes that had to wait.
    pub(crate) throttled: u64,
    /// How long they waited.
    pub(crate) throttle_time: Duration,
    /// Writes refused for want of room.
    pub(crate) refused: u64,
    /// How often the queue was dropped for want of room.
    pub(crate) dropped: u64,
}

impl Figures {
    const fn new(bytes: Bytes, items: Items, throttled: u64, now: Moment) -> Self {
        Self {
            since: now,
            bytes_high: (bytes, now),
            items_high: (items, now),
            throttled,
            throttle_time: Duration::ZERO,
            refused: 0,
            dropped: 0,
        }
    }

    fn held(&mut self, bytes: Bytes, items: Items, now: Moment) {
        if bytes > self.bytes_high.0 {
            self.bytes_high = (bytes, now);
        }
        if items > self.items_high.0 {
            self.items_high = (items, now);
        }
    }
}

/// The queue of one group.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    config: QueueConfig,
    bound: Bytes,
    /// The round trip and the rate that a measured bound was chosen by.
    chosen_by: Option<(Duration, Rate)>,
    bytes: Bytes,
    items: Items,
    /// Payload of items that left it, which operations on a disk that was given up may still read.
    late: Bytes,
    /// What it may hold, in percent of its bound, to let something in: less from when it was full.
    mark_percent: u64,
    waiting: VecDeque<(Part, Moment)>,
    figures: Figures,
}

impl Queue {
    pub(crate) fn new(config: QueueConfig, now: Moment) -> Self {
        Self {
            config,
            bound: config.first_bound(),
            chosen_by: None,
            bytes: Bytes::ZERO,
            items: Items(0),
            late: Bytes::ZERO,
            mark_percent: 100,
            waiting: VecDeque::new(),
            figures: Figures::new(Bytes::ZERO, Items(0), 0, now),
        }
    }

    pub(crate) fn reconfigure(&mut self, config: QueueConfig) {
        let before = core::mem::replace(&mut self.config, config);
        if config.memory.is_some() || before.memory.is_some() {
            (self.bound, self.chosen_by) = (config.first_bound(), None);
        } else {
            self.bound = self.bound.max(config.first_bound()).min(config.automatic_most);
        }
    }

    /// Grows an automatic bound to four bandwidth-delay products; it shrinks only with the largest one that it may have.
    pub(crate) fn measured(&mut self, round_trip: Duration, rate: Rate) {
        let round_trip = round_trip.max(QUEUE_ROUND_TRIP_MIN);
        let wanted = automatic_bound(rate, round_trip).min(self.config.automatic_most);
        if self.config.memory.is_none() && wanted > self.bound {
            self.bound = wanted;
            self.chosen_by = Some((round_trip, rate));
        }
    }

    /// What is in it, with the payload that late operations hold.
    pub(crate) fn held(&self) -> (Bytes, Items) {
        (self.bytes + self.late, self.items)
    }

    /// Late operations hold so much payload of items that left it. It counts against the bound.
    pub(crate) const fn hold_late(&mut self, late: Bytes) {
        self.late = late;
    }

    /// The bound, where it comes from, and the round trip and the rate that a measured one was chosen by.
    pub(crate) fn bound(&self) -> (Bytes, BoundSource, Option<(Duration, Rate)>) {
        let source = match (self.config.memory, self.chosen_by) {
            (Some(_), _) => BoundSource::File,
            (None, None) => BoundSource::Default,
            (None, Some(_)) => BoundSource::Measured,
        };
        (self.bound, source, self.chosen_by)
    }

    pub(crate) fn figures(&self) -> Figures {
        self.figures
    }

    /// Whether something of that cost would be let in now; remembers where not.
    pub(crate) fn admits(&mut self, cost: Bytes) -> bool {
        let percent = self.mark_percent;
        // 100 is the usual value, and costs no division.
        let mark = |n: u64| if percent == 100 { n } else { n * percent / 100 };
        let bytes = self.bytes + self.late;
        // An item is always admitted alone, so late payload cannot stop the queue for ever.
        let full = self.items.0 > 0
            && (bytes.0 > mark(self.bound.0)
                || self.items.0 > mark(self.config.items.0)
                || bytes + cost > self.bound
                || self.items.0 + 1 > self.config.items.0);
        self.mark_percent = if full { LOW_MARK_PERCENT } else { 100 };
        !full
    }

    /// Whether the copier may add that much: it leaves half of the queue to the application, and always may have
    /// one region.
    pub(crate) fn admits_copy(&self, cost: Bytes, in_flight: Bytes) -> bool {
        in_flight == Bytes::ZERO || (self.bytes + self.late + cost).0 <= self.bound.0 / 2
    }

    /// The most the copier takes up at once: a part of its half, so that the parts of the way overlap.
    pub(crate) fn copy_row(&self) -> Bytes {
        Bytes(self.bound.0 / 2 / COPY_ROWS)
    }

    pub(crate) fn enter(&mut self, cost: Bytes, now: Moment) {
        self.bytes += cost;
        self.items.0 += 1;
        self.figures.held(self.bytes, self.items, now);
    }

    /// The high-water marks and what happened at the bound begin anew, at what is in the queue and before it now.
    pub(crate) fn reset_marks(&mut self, now: Moment) {
        let waiting = self.waiting.len() as u64;
        self.figures = Figures::new(self.bytes, self.items, waiting, now);
    }

    /// A write was refused for want of room.
    pub(crate) fn count_refused(&mut self) {
        self.figures.refused += 1;
    }

    /// It is dropped for want of room.
    pub(crate) fn count_dropped(&mut self) {
        self.figures.dropped += 1;
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
        self.figures.throttled += 1;
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
        self.figures.throttle_time += now - since.max(self.figures.since);
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
        assert_eq!(q.bound(), (Bytes::mib(8), BoundSource::Default, None));
        q.measured(Duration::from_millis(50), Rate::mbit(100));
        assert_eq!(q.bound, Bytes::mib(8), "2.5 MB is less than the default");
        q.measured(Duration::from_millis(100), Rate::mbit(1000));
        let chosen_by = Some((Duration::from_millis(100), Rate::mbit(1000)));
        assert_eq!(q.bound(), (Bytes(50_000_000), BoundSource::Measured, chosen_by));
        let mut near = Queue::new(QueueConfig::default(), Moment::ZERO);
        near.measured(Duration::from_micros(50), Rate::mbit(10_000));
        assert_eq!(near.bound, Bytes(50_000_000), "as much as the store of the peer keeps waiting");
        q.measured(Duration::from_secs(1), Rate::mbit(100_000));
        assert_eq!(q.bound, Bytes::mib(256));
        let fixed = QueueConfig { memory: Some(Bytes::mib(16)), ..QueueConfig::default() };
        q.reconfigure(fixed);
        assert_eq!(q.bound(), (Bytes::mib(16), BoundSource::File, None));
    }

    #[test]
    fn the_automatic_bound_follows_the_largest_one_it_may_have() {
        let most = |automatic_most| QueueConfig { automatic_most, ..QueueConfig::default() };
        let mut q = Queue::new(most(Bytes::mib(1)), Moment::ZERO);
        assert_eq!(q.bound(), (Bytes::mib(1), BoundSource::Default, None));
        q.reconfigure(most(Bytes::mib(20)));
        assert_eq!(q.bound(), (Bytes::mib(8), BoundSource::Default, None));
        let (round_trip, rate) = (Duration::from_millis(100), Rate::mbit(1000));
        q.measured(round_trip, rate);
        let chosen_by = Some((round_trip, rate));
        assert_eq!(q.bound(), (Bytes::mib(20), BoundSource::Measured, chosen_by));
        q.enter(Bytes::mib(15), Moment::ZERO);
        q.reconfigure(most(Bytes::mib(10)));
        assert_eq!(q.bound, Bytes::mib(10));
        assert!(!q.admits(Bytes(1)), "what was let in is more than the bound");
        q.leave(Bytes::mib(15));
        assert!(q.admits(Bytes::mib(10)));
        q.reconfigure(most(Bytes::mib(256)));
        assert_eq!(q.bound, Bytes::mib(10), "until it is measured again");
        q.measured(round_trip, rate);
        assert_eq!(q.bound, Bytes(50_000_000));
    }

    #[test]
    fn high_water_marks_tell_when_and_begin_anew_at_what_is_there() {
        let mut q = queue(1000);
        q.enter(Bytes(300), Moment(1));
        q.enter(Bytes(300), Moment(2));
        q.leave(Bytes(300));
        q.enter(Bytes(100), Moment(3));
        let marks = |q: &Queue| (q.figures.bytes_high, q.figures.items_high);
        assert_eq!(marks(&q), ((Bytes(600), Moment(2)), (Items(2), Moment(2))));
        q.reset_marks(Moment(4));
        assert_eq!(marks(&q), ((Bytes(400), Moment(4)), (Items(2), Moment(4))));
        assert_eq!(q.figures.since, Moment(4));
        q.enter(Bytes(100), Moment(5));
        assert_eq!(marks(&q), ((Bytes(500), Moment(5)), (Items(3), Moment(5))));
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
        q.count_refused();
        q.count_dropped();
        let waits = |q: &Queue| (q.figures.throttled, q.figures.throttle_time);
        assert_eq!(waits(&q), (2, second * 2));
        q.reset_marks(at(3));
        assert_eq!(waits(&q), (1, Duration::ZERO));
        assert_eq!((q.figures.refused, q.figures.dropped), (0, 0));
        assert!(q.take_waiting(at(4)).is_some());
        assert_eq!(waits(&q), (1, second), "what it waited before is forgotten");
    }
}
