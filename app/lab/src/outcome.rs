// SPDX-License-Identifier: Apache-2.0
//! What a run told: the same for both ends and both faces.

use crate::channel::Tally;
use crate::error::LabError;
use crate::series::{Series, micros};
use crate::wire::{Again, Granted, Mode, Report};
use hdrhistogram::Histogram;
use helio_link::Figures;
use helio_workload::Distribution;
use std::net::SocketAddr;
use std::time::Duration;

/// The longest latency that is told apart, in microseconds: ten minutes.
const LONGEST: u64 = 600_000_000;
/// Decimal digits of a latency that are kept.
const DIGITS: u8 = 3;

/// Latencies in microseconds.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST, DIGITS);
        Self(histogram.expect("these bounds are in order"))
    }
}

impl Latencies {
    /// Counts one.
    pub fn add(&mut self, took: Duration) {
        self.0.saturating_record(micros(took).max(1));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that so many percent do not exceed, in microseconds.
    #[must_use]
    pub fn at(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// The mean, in microseconds.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The least and the most, in microseconds; zeros where there is none.
    #[must_use]
    pub fn range(&self) -> (u64, u64) {
        if self.0.is_empty() { (0, 0) } else { (self.0.min(), self.0.max()) }
    }
}

/// By how much neighbours differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jitter {
    sum: Duration,
    count: u64,
    last: Option<Duration>,
}

impl Jitter {
    pub(crate) fn add(&mut self, took: Duration) {
        if let Some(last) = self.last.replace(took) {
            self.sum += took.abs_diff(last);
            self.count += 1;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.count += other.count;
    }

    /// The mean difference between a latency and the one before it on its stream.
    #[must_use]
    pub fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.sum.as_secs_f64() / self.count.max(1) as f64)
    }
}

/// What was counted of flushes.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Bytes of every flush, before compression.
    pub flushes: Distribution,
    /// Bytes of them on the wire, heads included.
    pub wire: u64,
    /// Microseconds until a flush was shipped: acknowledged, or taken by TCP, as the mode says. Primary only.
    pub shipping: Distribution,
    /// Until it was over for whoever wrote it: shipped, and written here. Primary only.
    pub answered: Latencies,
    /// Until its acknowledgement was here, whether anybody waited or not. Primary only.
    pub delivered: Latencies,
    /// How these differ from one to the next.
    pub jitter: Jitter,
    /// These over time at a primary, what arrived over time at a standby.
    pub series: Series,
    /// How long nothing was received since too much waited to be applied. Standby only.
    pub blocked: Duration,
    /// The most that waited to be applied. Standby only.
    pub most_waiting: u64,
}

impl Counts {
    pub(crate) fn merge(&mut self, other: Self) {
        self.flushes.merge(&other.flushes);
        self.wire += other.wire;
        self.shipping.merge(&other.shipping);
        self.answered.merge(&other.answered);
        self.delivered.merge(&other.delivered);
        self.jitter.merge(&other.jitter);
        self.series.merge(other.series);
        self.blocked += other.blocked;
        self.most_waiting = self.most_waiting.max(other.most_waiting);
    }
}

/// Which end this was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that sends.
    Primary,
    /// The one that receives.
    Standby,
}

/// One connection at its end.
#[derive(Clone, Debug)]
pub struct Wire {
    /// Which standby it led to, from 0.
    pub standby: usize,
    /// Who was at the other end.
    pub peer: SocketAddr,
    /// Socket buffers here: send and receive.
    pub here: [Granted; 2],
    /// Those of the other end, where it told: as they were at the end of the run, or before it where that broke off.
    pub there: Option<[Granted; 2]>,
    /// What the kernel knows of it; zeros where it was gone already.
    pub figures: Figures,
    /// What the standby said at the end.
    pub report: Option<Told>,
}

/// What a standby told of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Whether windows are scaled, as it sees the connection.
    pub scaling: bool,
    /// Its send buffer in force, in bytes; 0 where its kernel did not say.
    pub send: u64,
    /// Its receive buffer in force, in bytes; 0 where its kernel did not say.
    pub receive: u64,
    /// Flushes it received.
    pub flushes: u64,
    /// Bytes of them, before compression.
    pub bytes: u64,
    /// From the first bytes of the run to the last of them.
    pub span: Duration,
    /// Bytes of the later half.
    pub late_bytes: u64,
    /// How long that half is; zero where the run was too short to have one.
    pub late_span: Duration,
    /// How long it did not receive since too much waited to be applied.
    pub blocked: Duration,
    /// The most that waited.
    pub most_waiting: u64,
}

impl From<Report> for Told {
    fn from(report: Report) -> Self {
        Self {
            scaling: report.scaling,
            send: report.send,
            receive: report.receive,
            flushes: report.flushes,
            bytes: report.bytes,
            span: report.span,
            late_bytes: report.late_bytes,
            late_span: report.late_span,
            blocked: report.blocked,
            most_waiting: report.most_waiting,
        }
    }
}

/// One run, over or broken off.
#[derive(Debug)]
pub struct Outcome {
    /// Whose it is.
    pub end: End,
    /// The mode.
    pub mode: Mode,
    /// Bytes of a flush.
    pub flush: u64,
    /// Streams to each standby.
    pub streams: u16,
    /// From the handshake, at a standby from the first bytes that came, to the end of the last flush.
    pub span: Duration,
    /// Flushes and their times.
    pub counts: Counts,
    /// Calls.
    pub tally: Tally,
    /// Connections.
    pub wires: Vec<Wire>,
    /// What broke it off.
    pub failure: Option<LabError>,
    /// Whether a signal ended it.
    pub interrupted: bool,
    /// The next run a primary announced.
    pub(crate) again: Option<Again>,
}

impl Outcome {
    /// Bytes of flushes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        total(&self.counts.flushes)
    }

    /// Bytes a second at this end. A primary counts what TCP took.
    #[must_use]
    pub fn rate(&self) -> f64 {
        per_second(self.bytes(), self.span)
    }

    /// Bytes a second that the slowest standby received, once the connection had settled; none where it did not tell.
    #[must_use]
    pub fn arrived(&self) -> Option<f64> {
        let standbys = 1 + self.wires.iter().map(|wire| wire.standby).max()?;
        let of = |n| {
            let told = self.wires.iter().filter(move |wire| wire.standby == n);
            told.map(|wire| {
                let told = wire.report?;
                Some(match told.late_span.is_zero() {
                    true => per_second(told.bytes, told.span),
                    false => per_second(told.late_bytes, told.late_span),
                })
            })
            .sum::<Option<f64>>()
        };
        (0..standbys).map(of).try_fold(f64::INFINITY, |least, rate| Some(least.min(rate?)))
    }
}

/// Bytes a second; zero where no time passed.
#[must_use]
pub fn per_second(bytes: u64, span: Duration) -> f64 {
    if span.is_zero() { 0.0 } else { bytes as f64 / span.as_secs_f64() }
}

/// The sum of what was counted; the largest number if it is larger.
pub(crate) fn total(of: &Distribution) -> u64 {
    u64::try_from(of.sum()).unwrap_or(u64::MAX)
}
