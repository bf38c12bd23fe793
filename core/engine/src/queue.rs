// SPDX-License-Identifier: Apache-2.0
//! The bounded memory queue: what it holds, what waits in front of it, and its figures.
//!
//! Bytes and items are bounded. A write that does not fit meets the policy; once the queue was full it opens again
//! at 85 % of its bound (the low mark of Sun's remote mirror), so that writers are not woken one by one. An item
//! larger than the bound is admitted alone (rule 15).

use crate::config::{QUEUE_BYTES_MOST, QUEUE_BYTES_SNDR, QUEUE_PRODUCTS, QueueConfig};
use crate::write::Part;
use alloc::collections::VecDeque;
use core::time::Duration;
use helio_units::{Bytes, Items, Moment, Rate};

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
#[derive(Debug)]
pub(crate) struct Queue {
    config: QueueConfig,
    pub(crate) bound: Bytes,
    pub(crate) source: BoundSource,
    pub(crate) bytes: Bytes,
    pub(crate) items: Items,
    pub(crate) bytes_high: Bytes,
    pub(crate) items_high: Items,
    full: bool,
    waiting: VecDeque<(Part, Moment)>,
    pub(crate) throttled: u64,
    pub(crate) throttle_time: Duration,
}

impl Queue {
    pub(crate) fn new(config: QueueConfig) -> Self {
        let mut queue = Self {
            config,
            bound: QUEUE_BYTES_SNDR,
            source: BoundSource::Default,
            bytes: Bytes::ZERO,
            items: Items(0),
            bytes_high: Bytes::ZERO,
            items_high: Items(0),
            full: false,
            waiting: VecDeque::new(),
            throttled: 0,
            throttle_time: Duration::ZERO,
        };
        queue.reconfigure(config);
        queue
    }

    pub(crate) fn reconfigure(&mut self, config: QueueConfig) {
        self.config = config;
        if let Some(fixed) = config.memory {
            self.bound = fixed;
            self.source = BoundSource::File;
        } else if self.source == BoundSource::File {
            self.bound = QUEUE_BYTES_SNDR;
            self.source = BoundSource::Default;
        }
    }

    /// Grows an automatic bound to four bandwidth-delay products; it never shrinks while running.
    pub(crate) fn measured(&mut self, round_trip: Duration, rate: Rate) {
        let products = rate.bytes_in(round_trip) * QUEUE_PRODUCTS;
        let wanted = products.max(QUEUE_BYTES_SNDR).min(QUEUE_BYTES_MOST);
        if self.config.memory.is_none() && wanted > self.bound {
            self.bound = wanted;
            self.source = BoundSource::Measured;
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

    pub(crate) fn enter(&mut self, cost: Bytes) {
        self.bytes += cost;
        self.items.0 += 1;
        self.bytes_high = self.bytes_high.max(self.bytes);
        self.items_high = self.items_high.max(self.items);
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
        self.throttle_time += now - since;
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(bytes: u64) -> Queue {
        Queue::new(QueueConfig { memory: Some(Bytes(bytes)), ..QueueConfig::default() })
    }

    #[test]
    fn a_full_queue_opens_again_at_its_low_mark() {
        let mut q = queue(1000);
        for _ in 0..10 {
            assert!(q.admits(Bytes(100)));
            q.enter(Bytes(100));
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
        q.enter(Bytes(5000));
        assert!(!q.admits(Bytes(1)));
        q.leave(Bytes(5000));
        assert!(q.admits(Bytes(1)));
    }

    #[test]
    fn the_automatic_bound_is_four_products_between_its_limits() {
        let mut q = Queue::new(QueueConfig::default());
        assert_eq!((q.bound, q.source), (Bytes::mib(8), BoundSource::Default));
        q.measured(Duration::from_millis(50), Rate::mbit(100));
        assert_eq!(q.bound, Bytes::mib(8), "2.5 MB is less than the default");
        q.measured(Duration::from_millis(100), Rate::mbit(1000));
        assert_eq!((q.bound, q.source), (Bytes(50_000_000), BoundSource::Measured));
        q.measured(Duration::from_secs(1), Rate::mbit(100_000));
        assert_eq!(q.bound, Bytes::mib(256));
    }
}
