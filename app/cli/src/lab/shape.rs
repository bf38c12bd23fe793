// SPDX-License-Identifier: Apache-2.0
//! What a line is like, the same both ways.

use crate::args;
use helio_netmodel::{Ppm, Profile};
use helio_units::{Bytes, Rate};
use std::fmt;
use std::time::Duration;

/// What a line is like now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(super) rtt: Duration,
    /// Each way; none is without limit.
    pub(super) rate: Option<Rate>,
    /// The bound of what is added each way.
    pub(super) jitter: Duration,
    pub(super) loss: Ppm,
    /// None is what suits rate and round trip.
    pub(super) queue: Option<Bytes>,
}

/// What is to be changed about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Rtt(Duration),
    Rate(Rate),
    Jitter(Duration),
    Loss(Ppm),
    Queue(Bytes),
}

impl Shape {
    /// One direction of it.
    pub(super) fn profile(self) -> Profile {
        let plain = match self.rate {
            Some(rate) => Profile::wan(self.rtt, rate),
            None => Profile { delay: self.rtt / 2, ..Profile::ideal() },
        };
        let queue = self.queue.unwrap_or(plain.queue);
        Profile { jitter: self.jitter, loss: self.loss, queue, ..plain }
    }

    pub(super) fn change(&mut self, change: Change) {
        match change {
            Change::Rtt(rtt) => self.rtt = rtt,
            Change::Rate(rate) => self.rate = Some(rate),
            Change::Jitter(jitter) => self.jitter = jitter,
            Change::Loss(loss) => self.loss = loss,
            Change::Queue(queue) => self.queue = Some(queue),
        }
    }
}

impl From<args::Line> for Shape {
    fn from(line: args::Line) -> Self {
        let args::Line { rtt, rate, jitter, queue } = line;
        Self { rtt, rate, jitter, loss: Ppm::NONE, queue }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "round trip {} ms, ", self.rtt.as_secs_f64() * 1e3)?;
        match self.rate {
            Some(rate) => write!(f, "{rate} each way")?,
            None => f.write_str("no limit to the rate")?,
        }
        if !self.jitter.is_zero() {
            write!(f, ", up to {} ms of jitter each way", self.jitter.as_secs_f64() * 1e3)?;
        }
        if self.loss > Ppm::NONE {
            write!(f, ", {} lost each way", self.loss)?;
        }
        match self.rate {
            Some(_) => write!(f, ", queue of {}", self.profile().queue),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free() -> Shape {
        let (rtt, jitter) = (Duration::from_millis(50), Duration::ZERO);
        Shape { rtt, rate: None, jitter, loss: Ppm::NONE, queue: None }
    }

    #[test]
    fn a_line_is_described_with_its_units() {
        assert_eq!(free().to_string(), "round trip 50 ms, no limit to the rate");
        let limited = Shape { rate: Some(Rate::mbit(100)), ..free() };
        let text = "round trip 50 ms, 12.50 MB/s each way, queue of 610.35 KiB";
        assert_eq!(limited.to_string(), text);
        let rough = Shape { jitter: Duration::from_micros(1500), loss: Ppm(1_000), ..free() };
        let text = "round trip 50 ms, no limit to the rate, up to 1.5 ms of jitter each way, 0.1% lost each way";
        assert_eq!(rough.to_string(), text);
    }

    #[test]
    fn every_change_reaches_the_profile() {
        let mut shape = free();
        for change in [
            Change::Rtt(Duration::from_millis(10)),
            Change::Rate(Rate::mbit(8)),
            Change::Jitter(Duration::from_millis(1)),
            Change::Loss(Ppm(7)),
            Change::Queue(Bytes(9)),
        ] {
            shape.change(change);
        }
        let expected = Profile {
            delay: Duration::from_millis(5),
            rate: Some(Rate::mbit(8)),
            jitter: Duration::from_millis(1),
            loss: Ppm(7),
            queue: Bytes(9),
            outages: Vec::new(),
        };
        assert_eq!(shape.profile(), expected);
    }
}
