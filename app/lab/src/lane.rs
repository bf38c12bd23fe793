// SPDX-License-Identifier: Apache-2.0
//! One stream of a primary: flush after flush to every standby, as the mode says.
//!
//! | mode | local write | the next flush waits for |
//! |---|---|---|
//! | sync | before the flush is sent | its acknowledgement, sent when the standby has written it |
//! | nearsync | while it is sent | both, the acknowledgement sent when it was received |
//! | async, superasync | while it is sent | the write, and TCP to take it |
//!
//! Every flush is acknowledged in every mode; the modes differ in who waits for it. So what a flush takes to arrive is
//! known in all of them, and a window on what is not acknowledged holds in all of them.

use crate::channel::{Channel, GRACE, STALL, wait_any};
use crate::error::LabError;
use crate::meet::Stage;
use crate::outcome::Counts;
use crate::pause::Waking;
use crate::payload::Payload;
use crate::primary::Job;
use crate::series::micros;
use crate::socket::SLICE;
use crate::wire::{Again, End, Frame, Mode, Report, WireError};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The most flushes that may be sent and not acknowledged: what is remembered of each is small, but not nothing.
const MOST_UNDER_WAY: usize = 65_536;
/// Bytes of acknowledgements that are taken in one call.
const ACKS: usize = 64 << 10;

/// A flush that was sent and not acknowledged by all.
#[derive(Clone, Copy, Debug)]
struct Flight {
    sent: Instant,
    bytes: u64,
}

/// What the streams of a run share.
pub(crate) struct Shared<'a> {
    pub(crate) job: &'a Job,
    pub(crate) stage: Stage<'a>,
    pub(crate) waking: Waking,
    pub(crate) began: Instant,
    /// Flushes begun on all streams.
    pub(crate) begun: AtomicU64,
    /// One stream failed, and the others end.
    pub(crate) broken: AtomicBool,
}

impl Shared<'_> {
    /// Waits for a moment; whether it came before a signal, or the end of another stream, broke that off.
    fn pause(&self, until: Instant) -> bool {
        self.waking.until(until, || self.stage.stopped() || self.broken.load(Ordering::Relaxed))
    }
}

/// One stream.
pub(crate) struct Lane<'a> {
    shared: &'a Shared<'a>,
    pub(crate) channels: Vec<Channel<'a>>,
    /// The last flush each standby acknowledged.
    acked: Vec<u64>,
    pub(crate) reports: Vec<Option<Report>>,
    payload: Payload,
    number: u64,
    /// The flush the front of `flights` is.
    oldest: u64,
    flights: VecDeque<Flight>,
    /// Bytes of them.
    under_way: u64,
    pub(crate) counts: Counts,
    /// When the last flush was over.
    pub(crate) over: Instant,
    stopped_at: Option<Instant>,
}

impl<'a> Lane<'a> {
    pub(crate) fn new(shared: &'a Shared<'a>, mut channels: Vec<Channel<'a>>) -> Self {
        let payload = Payload::new(shared.job.flush, shared.job.compress);
        channels.iter_mut().for_each(|channel| channel.enlarge(ACKS));
        Self {
            shared,
            acked: vec![0; channels.len()],
            reports: vec![None; channels.len()],
            channels,
            payload,
            number: 0,
            oldest: 1,
            flights: VecDeque::new(),
            under_way: 0,
            counts: Counts::default(),
            over: shared.began,
            stopped_at: None,
        }
    }

    /// Flushes until the run is over, then the end and the standbys' reports. What was counted stays where it fails.
    pub(crate) fn run(&mut self, again: Option<Again>) -> Result<(), LabError> {
        self.channels.iter_mut().for_each(Channel::begin);
        let result = self.flushes().and_then(|()| self.end(again));
        if result.is_err() {
            self.shared.broken.store(true, Ordering::Relaxed);
        }
        result
    }

    fn flushes(&mut self) -> Result<(), LabError> {
        let Shared { job, began, .. } = *self.shared;
        while !self.shared.stage.stopped() && !self.shared.broken.load(Ordering::Relaxed) {
            if job.time.is_some_and(|limit| began.elapsed() >= limit) {
                return Ok(());
            }
            let begun = self.shared.begun.fetch_add(1, Ordering::Relaxed);
            if job.flushes.is_some_and(|limit| begun >= limit) {
                return Ok(());
            }
            if let Some(rate) = job.target {
                let due = Duration::try_from_secs_f64(begun as f64 * job.flush as f64 / rate);
                if !self.rest(began + due.unwrap_or(Duration::MAX / 4))? {
                    return Ok(());
                }
            }
            self.flush()?;
        }
        Ok(())
    }

    /// Waits for a moment, and hears acknowledgements meanwhile; whether the run goes on then.
    fn rest(&mut self, until: Instant) -> Result<bool, LabError> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let over = self.shared.job.time.is_some_and(|t| self.shared.began.elapsed() >= t);
            if over || self.shared.stage.stopped() || self.shared.broken.load(Ordering::Relaxed) {
                return Ok(false);
            }
            if left <= self.shared.waking.spin {
                return Ok(self.shared.pause(until));
            }
            wait_any(&self.channels, true, (left - self.shared.waking.spin).min(SLICE));
            self.turn()?;
            // Nothing is expected of a link that is at rest.
            if self.flights.is_empty() {
                self.channels.iter_mut().for_each(Channel::rested);
            }
        }
    }

    fn flush(&mut self) -> Result<(), LabError> {
        let job = self.shared.job;
        let window = job.window.unwrap_or(u64::MAX);
        self.pump("waiting for room in the window", |lane| {
            let fits = lane.under_way.saturating_add(job.flush) <= window;
            (fits && lane.flights.len() < MOST_UNDER_WAY) || lane.flights.is_empty()
        })?;
        let begun = Instant::now();
        let written = begun + job.disk.map_or(Duration::ZERO, |disk| disk.time(job.flush));
        if job.mode == Mode::Sync && !self.shared.pause(written) {
            return Ok(());
        }
        self.number += 1;
        let sent = Instant::now();
        let frame = self.payload.frame(self.number);
        self.counts.wire += frame.len() as u64;
        self.channels.iter_mut().for_each(|channel| channel.queue(frame));
        self.flights.push_back(Flight { sent, bytes: job.flush });
        self.under_way += job.flush;
        let (waits, number) = (job.mode.waits(), self.number);
        self.pump("sending a flush", |lane| {
            lane.channels.iter().all(|channel| !channel.is_sending())
                && (!waits || lane.acked.iter().all(|acked| *acked >= number))
        })?;
        self.counts.shipping.add(micros(sent.elapsed()));
        let is_written = self.shared.pause(written);
        self.over = Instant::now();
        self.counts.flushes.add(job.flush);
        // A write that was broken off says nothing of how long writes take.
        if is_written {
            self.counts.answered.add(self.over - begun);
        }
        Ok(())
    }

    /// Sends and hears until `done`.
    fn pump(&mut self, doing: &'static str, done: impl Fn(&Self) -> bool) -> Result<(), LabError> {
        loop {
            self.turn()?;
            if done(self) {
                return Ok(());
            }
            if self.shared.stage.stopped()
                && self.stopped_at.get_or_insert_with(Instant::now).elapsed() > GRACE
            {
                return Err(LabError::Unended { peer: self.slowest(), doing, limit: GRACE });
            }
            if self.shared.broken.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            self.channels.iter().try_for_each(|channel| channel.check(doing, STALL))?;
            wait_any(&self.channels, true, SLICE);
        }
    }

    /// The standby that is furthest behind.
    fn slowest(&self) -> SocketAddr {
        let behind = |n: &usize| (self.reports[*n].is_some(), self.acked[*n]);
        let n = (0..self.channels.len()).min_by_key(behind).unwrap_or_default();
        self.channels[n].peer
    }

    /// Once around: sends what can be sent, hears what came.
    fn turn(&mut self) -> Result<(), LabError> {
        for n in 0..self.channels.len() {
            self.channels[n].push()?;
            while self.channels[n].pull()? {
                self.hear(n)?;
            }
        }
        Ok(())
    }

    fn hear(&mut self, n: usize) -> Result<(), LabError> {
        let flush = self.shared.job.flush;
        while let Some((frame, _)) = self.channels[n].frame(flush)? {
            match frame {
                Frame::Ack(ack) if ack.number == self.acked[n] + 1 && ack.number <= self.number => {
                    self.acked[n] = ack.number;
                }
                Frame::Report(report) if self.reports[n].is_none() => {
                    self.reports[n] = Some(report)
                }
                _ => {
                    let peer = self.channels[n].peer;
                    return Err(LabError::WrongPeer { peer, why: WireError::Kind });
                }
            }
        }
        let all = self.acked.iter().copied().min().unwrap_or_default();
        let now = Instant::now();
        while self.oldest <= all {
            let Some(flight) = self.flights.pop_front() else { break };
            self.oldest += 1;
            self.under_way -= flight.bytes;
            let took = now - flight.sent;
            self.counts.delivered.add(took);
            self.counts.jitter.add(took);
            self.counts.series.add(now - self.shared.began, flight.bytes, took);
        }
        Ok(())
    }

    fn end(&mut self, again: Option<Again>) -> Result<(), LabError> {
        // A signal ends the series, too: nobody would answer the standby's next call.
        let again = again.filter(|_| !self.shared.stage.stopped());
        let end = End { flushes: self.number, again }.encode();
        // What is said now is none of the traffic.
        let before: Vec<_> = self.channels.iter().map(|channel| channel.tally.clone()).collect();
        self.channels.iter_mut().for_each(|channel| channel.queue(&end));
        self.channels.iter_mut().for_each(Channel::rested);
        self.pump("ending the run", |lane| lane.reports.iter().all(Option::is_some))?;
        for (channel, before) in self.channels.iter_mut().zip(before) {
            channel.tally.sent = before.sent;
        }
        Ok(())
    }
}
