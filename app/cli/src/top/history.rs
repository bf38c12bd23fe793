// SPDX-License-Identifier: Apache-2.0
//! Rates and levels of the last statuses, a bounded number per group. Groups that a status no longer shows are dropped.

use helio_api::{GroupStatus, Status};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Values that are kept of each series: more than a terminal has columns for, as a rule.
const KEPT: usize = 240;
/// A queue that is full.
pub(crate) const FULL: u64 = 1000;

/// The last values of one measure, the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series(VecDeque<u64>);

impl Series {
    fn push(&mut self, value: u64) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    /// The last one; zero before there is one.
    pub(crate) fn last(&self) -> u64 {
        self.0.back().copied().unwrap_or_default()
    }

    /// The last `width` values as bars. `full`: the value of the highest bar; without it, the largest of them.
    pub(crate) fn bars(&self, width: usize, full: Option<u64>) -> String {
        const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let shown = || self.0.iter().skip(self.0.len().saturating_sub(width)).copied();
        let full = full.unwrap_or_else(|| shown().max().unwrap_or_default()).max(1);
        let bar = |value: u64| {
            let step = u128::from(value.min(full)) * 7;
            BARS[usize::try_from(step.div_ceil(u128::from(full))).unwrap_or(7).min(7)]
        };
        shown().map(bar).collect()
    }
}

/// Counters of a group when they were read last.
#[derive(Clone, Copy, Debug)]
struct Counted {
    at: Duration,
    written: u64,
    sent: u64,
    received: u64,
}

/// The series of one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    last: Option<Counted>,
    written: Series,
    sent: Series,
    received: Series,
    lag: Series,
    queue: Series,
}

impl Track {
    /// Bytes of clients' writes per second.
    pub(crate) fn written(&self) -> &Series {
        &self.written
    }

    /// Bytes sent to the peer per second.
    pub(crate) fn sent(&self) -> &Series {
        &self.sent
    }

    /// Bytes received from the peer per second.
    pub(crate) fn received(&self) -> &Series {
        &self.received
    }

    /// Bytes that the peer may not have.
    pub(crate) fn lag(&self) -> &Series {
        &self.lag
    }

    /// Fill of the queue in parts of [`FULL`].
    pub(crate) fn queue(&self) -> &Series {
        &self.queue
    }

    fn take(&mut self, g: &GroupStatus, at: Duration) {
        let counted = Counted {
            at,
            written: g.counters.write_bytes.0,
            sent: g.counters.sent_bytes.0,
            received: g.counters.received_bytes.0,
        };
        if let Some(last) = self.last.replace(counted) {
            let span = at.saturating_sub(last.at);
            // A daemon that was restarted counts from zero.
            let rate = |now: u64, before: u64| per_second(now.saturating_sub(before), span);
            self.written.push(rate(counted.written, last.written));
            self.sent.push(rate(counted.sent, last.sent));
            self.received.push(rate(counted.received, last.received));
        }
        self.lag.push(g.lag.bytes.0);
        self.queue.push(fill(g));
    }
}

fn per_second(bytes: u64, span: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000 / span.as_micros().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// The fill of a group's queue, by bytes or items, whichever is nearer to its bound.
pub(crate) fn fill(g: &GroupStatus) -> u64 {
    let part =
        |held: u64, bound: u64| u128::from(held) * u128::from(FULL) / u128::from(bound.max(1));
    let parts = g.queue.as_ref().map_or(0, |queue| {
        part(queue.bytes.0, queue.bound_bytes.0).max(part(queue.items.0, queue.bound_items.0))
    });
    u64::try_from(parts).map_or(FULL, |parts| parts.min(FULL))
}

/// The series of all groups.
#[derive(Debug, Default)]
pub(crate) struct History(BTreeMap<String, Track>);

impl History {
    /// Takes the next status; `at` is when it came, on a clock that never goes back.
    pub(crate) fn take(&mut self, status: &Status, at: Duration) {
        self.0.retain(|name, _| status.groups.iter().any(|group| group.name == *name));
        for group in &status.groups {
            self.0.entry(group.name.clone()).or_default().take(group, at);
        }
    }

    /// The series of a group; none before its first status.
    pub(crate) fn of(&self, group: &str) -> Option<&Track> {
        self.0.get(group)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use helio_units::Bytes;

    #[test]
    fn rates_come_from_successive_statuses_and_a_restart_is_no_rate() {
        let mut status = sample::status();
        let mut history = History::default();
        for (second, written) in [(0, 0), (1, 1000), (3, 5000), (4, 10)] {
            status.groups[0].counters.write_bytes = Bytes(written);
            history.take(&status, Duration::from_secs(second));
        }
        let track = history.of("db").expect("it was shown");
        assert_eq!(track.written().0, [1000, 2000, 0]);
        assert_eq!(track.queue().last(), 187);
    }

    #[test]
    fn memory_is_bounded_and_a_group_that_is_gone_is_dropped() {
        let mut status = sample::status();
        let mut history = History::default();
        for second in 0..1000 {
            history.take(&status, Duration::from_secs(second));
        }
        let track = history.of("db").expect("it was shown");
        let series = [&track.written, &track.sent, &track.received, &track.lag, &track.queue];
        assert!(series.iter().all(|series| series.0.len() == KEPT));
        status.groups.clear();
        history.take(&status, Duration::from_secs(1000));
        assert!(history.of("db").is_none());
    }

    #[test]
    fn bars_have_the_height_of_their_share() {
        let mut series = Series::default();
        [0, 1, 50, 100].into_iter().for_each(|value| series.push(value));
        assert_eq!(series.bars(10, None), "▁▂▅█");
        assert_eq!(series.bars(2, Some(FULL)), "▂▂");
        assert_eq!(series.bars(0, None), "");
    }
}
