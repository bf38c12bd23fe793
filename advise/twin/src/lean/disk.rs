// SPDX-License-Identifier: Apache-2.0
//! A disk as service times, lanes and a bandwidth.

use core::cmp::Reverse;
use core::num::NonZeroU32;
use core::time::Duration;
use helio_engine::StoreOp;
use helio_netmodel::Dice;
use helio_units::{Bytes, Moment, Rate};
use std::collections::BinaryHeap;

/// The 99th percentile of the standard normal distribution.
const Z99: f64 = 2.326_347_874;
/// Draws further out than this many standard deviations are cut: one in 30,000, and what a model says there is a guess.
const Z_MOST: f64 = 4.0;

/// How long operations of a kind take: log-normal, given by two percentiles that every measurement prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceTime {
    /// Half of them take at most that long.
    pub median: Duration,
    /// 99 of 100 take at most that long; the same as `median` where they all take equally long.
    pub p99: Duration,
}

impl ServiceTime {
    /// The same for all.
    #[must_use]
    pub const fn even(time: Duration) -> Self {
        Self { median: time, p99: time }
    }

    fn draw(self, dice: &mut Dice) -> Duration {
        if self.p99 <= self.median || self.median.is_zero() {
            return self.median;
        }
        let sigma = (self.p99.as_secs_f64() / self.median.as_secs_f64()).ln() / Z99;
        // Box and Muller's transform; 1 - u is never zero.
        let (u, v) = (1.0 - dice.uniform(), dice.uniform());
        let z = (-2.0 * u.ln()).sqrt() * (core::f64::consts::TAU * v).cos();
        self.median.mul_f64((sigma * z.clamp(-Z_MOST, Z_MOST)).exp())
    }
}

/// What a disk is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskModel {
    /// Reads.
    pub read: ServiceTime,
    /// Writes, zeroes and discards, answered as soon as the device has them.
    pub write: ServiceTime,
    /// Flushes, and what a write with FUA takes longer.
    pub flush: ServiceTime,
    /// Operations it works on at once; the others wait.
    pub lanes: NonZeroU32,
    /// Bytes per second it moves at most, if that bounds it.
    pub bandwidth: Option<Rate>,
}

/// A disk at work.
#[derive(Debug)]
pub struct Disk {
    model: DiskModel,
    /// When each lane is free again.
    lanes: BinaryHeap<Reverse<Moment>>,
    /// When everything begun has been moved.
    moved: Moment,
    dice: Dice,
}

impl Disk {
    pub(super) fn new(model: DiskModel, dice: Dice) -> Self {
        let lanes = (0..model.lanes.get()).map(|_| Reverse(Moment::ZERO)).collect();
        Self { model, lanes, moved: Moment::ZERO, dice }
    }

    /// Begins an operation. Returns when it ends.
    pub(super) fn begin(&mut self, now: Moment, op: StoreOp) -> Moment {
        let DiskModel { read, write, flush, .. } = self.model;
        let (first, also, bytes) = match op {
            StoreOp::Write { extent, fua, .. } => (write, fua.then_some(flush), extent.length),
            StoreOp::Zero { fua, .. } | StoreOp::Discard { fua, .. } => {
                (write, fua.then_some(flush), 0)
            }
            StoreOp::Flush => (flush, None, 0),
            StoreOp::Map { .. } => (read, None, 0),
            StoreOp::Read { extent } => (read, None, extent.length),
        };
        let time = first.draw(&mut self.dice)
            + also.map_or(Duration::ZERO, |also| also.draw(&mut self.dice));
        self.occupy(now, time, Bytes(bytes))
    }

    /// Takes a lane for that long, and the bandwidth for that many bytes. Returns when both are done.
    fn occupy(&mut self, now: Moment, time: Duration, bytes: Bytes) -> Moment {
        let free = self.lanes.pop().map_or(now, |Reverse(free)| free);
        let begins = free.max(now);
        if let Some(rate) = self.model.bandwidth {
            self.moved = self.moved.max(begins) + rate.time_for(bytes);
        }
        let ends = (begins + time).max(if bytes.0 > 0 { self.moved } else { begins });
        self.lanes.push(Reverse(ends));
        ends
    }

    /// How long a write and a flush behind it take, as the metadata file does them: beside the lanes, since a record is
    /// short and its file lies elsewhere.
    pub(super) fn record_time(&mut self) -> Duration {
        self.model.write.draw(&mut self.dice) + self.model.flush.draw(&mut self.dice)
    }

    /// When so many bytes have been read, written elsewhere and flushed: the before-image file's work.
    pub(super) fn preserve(&mut self, now: Moment, bytes: Bytes) -> Moment {
        let time = self.model.read.draw(&mut self.dice) + self.record_time();
        self.occupy(now, time, Bytes(bytes.0 * 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn model(lanes: u32, bandwidth: Option<Rate>) -> DiskModel {
        let even = ServiceTime::even(MS);
        let lanes = NonZeroU32::new(lanes).expect("lanes");
        DiskModel { read: even, write: even, flush: even, lanes, bandwidth }
    }

    #[test]
    fn draws_have_the_percentiles_they_are_given() {
        for seed in 0..5 {
            let mut dice = Dice::new(seed);
            let time = ServiceTime { median: MS, p99: MS * 8 };
            let mut drawn: Vec<_> = (0..20_000).map(|_| time.draw(&mut dice)).collect();
            drawn.sort_unstable();
            let near = |found: Duration, wanted: Duration| {
                (found.as_secs_f64() / wanted.as_secs_f64() - 1.0).abs() < 0.1
            };
            assert!(near(drawn[10_000], MS), "seed {seed}: {:?}", drawn[10_000]);
            assert!(near(drawn[19_800], MS * 8), "seed {seed}: {:?}", drawn[19_800]);
        }
    }

    #[test]
    fn lanes_work_at_once_and_what_is_too_much_waits() {
        let mut disk = Disk::new(model(2, None), Dice::new(1));
        let ends: Vec<u64> =
            (0..4).map(|_| disk.begin(Moment::ZERO, StoreOp::Flush).0 / 1_000_000).collect();
        assert_eq!(ends, [1, 1, 2, 2]);
    }

    #[test]
    fn bandwidth_bounds_what_lanes_would_take() {
        let mut disk = Disk::new(model(64, Some(Rate(1_000_000))), Dice::new(1));
        let ends: Vec<u64> =
            (0..3).map(|_| disk.occupy(Moment::ZERO, MS, Bytes(10_000)).0 / 1_000_000).collect();
        assert_eq!(ends, [10, 20, 30]);
    }
}
