// SPDX-License-Identifier: Apache-2.0
//! Latencies and CPU time of a run. Recording an operation allocates nothing.

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The longest latency told apart, in nanoseconds; longer ones count as this.
const LONGEST: u64 = 100_000_000_000;

/// What one run did.
#[derive(Debug)]
pub struct Gauge {
    whole: Histogram<u64>,
    flush: Histogram<u64>,
    began: Instant,
    ends: Instant,
    cpu: Duration,
}

impl Gauge {
    /// Begins a run of `length`.
    #[must_use]
    pub fn begin(length: Duration) -> Self {
        let histogram =
            || Histogram::new_with_bounds(100, LONGEST, 3).expect("the bounds are legal constants");
        let began = Instant::now();
        Self {
            whole: histogram(),
            flush: histogram(),
            began,
            ends: began + length,
            cpu: cpu_time(),
        }
    }

    /// Whether the run's time is over at `now`.
    #[must_use]
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.ends
    }

    /// An operation took so long.
    pub fn operation(&mut self, took: Duration) {
        self.whole.saturating_record(nanoseconds(took));
    }

    /// The flush that ended an operation took so long.
    pub fn flush(&mut self, took: Duration) {
        self.flush.saturating_record(nanoseconds(took));
    }

    /// Ends the run: times in microseconds, CPU time that of this process.
    #[must_use]
    pub fn report(&self) -> Value {
        let seconds = self.began.elapsed().as_secs_f64();
        let cpu = (cpu_time() - self.cpu).as_secs_f64();
        let ops = self.whole.len();
        let us = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        json!({
            "ops": ops,
            "seconds": seconds,
            "iops": ops as f64 / seconds,
            "p50_us": us(self.whole.value_at_quantile(0.5)),
            "p99_us": us(self.whole.value_at_quantile(0.99)),
            "max_us": us(self.whole.max()),
            "mean_us": self.whole.mean() / 1e3,
            "flush_p50_us": (!self.flush.is_empty()).then(|| us(self.flush.value_at_quantile(0.5))),
            "cpu_us_per_op": cpu * 1e6 / ops.max(1) as f64,
        })
    }
}

fn nanoseconds(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(LONGEST)
}

/// CPU time of all threads of this process, kernel workers that run its I/O included.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_tells_the_median_in_microseconds() {
        let mut gauge = Gauge::begin(Duration::from_secs(1));
        for us in [10, 20, 30, 40, 5000] {
            gauge.operation(Duration::from_micros(us));
        }
        let report = gauge.report();
        assert_eq!(report["ops"], 5);
        let p50 = report["p50_us"].as_f64().expect("a number");
        assert!((29.9..30.2).contains(&p50), "{p50}");
        assert!(report["flush_p50_us"].is_null());
    }
}
