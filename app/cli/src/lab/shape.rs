// SPDX-License-Identifier: Apache-2.0
//! What a line is like, each way.

use super::millis;
use crate::args;
use helio_netmodel::{Ppm, Preset, Profile, WayWeather, WeatherRow};
use helio_units::{Bandwidth, Bytes, Rate};
use std::fmt;
use std::time::Duration;

/// What a line is like now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) rtt: Duration,
    pub(super) there: WayWeather,
    pub(super) back: WayWeather,
    /// None is what suits rate and round trip.
    pub(super) queue: Option<Bytes>,
}

/// What is to be changed about it: both ways, but for weather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Rtt(Duration),
    Rate(Rate),
    Jitter(Duration),
    Loss(Ppm),
    Queue(Bytes),
    /// Its rate, and its round trip where it has one.
    Link(Preset),
    Weather(WeatherRow),
}

impl Shape {
    /// Both directions of it.
    pub(super) fn profiles(self) -> [Profile; 2] {
        [self.there, self.back].map(|way| {
            let plain = match way.rate {
                Some(rate) => Profile::wan(self.rtt, rate),
                None => Profile { delay: self.rtt / 2, ..Profile::ideal() },
            };
            let queue = self.queue.unwrap_or(plain.queue);
            Profile { jitter: way.jitter, loss: way.loss, queue, ..plain }
        })
    }

    pub(super) fn change(&mut self, change: Change) {
        match change {
            Change::Rtt(rtt) => self.rtt = rtt,
            Change::Rate(rate) => self.both(|way| way.rate = Some(rate)),
            Change::Jitter(jitter) => self.both(|way| way.jitter = jitter),
            Change::Loss(loss) => self.both(|way| way.loss = loss),
            Change::Queue(queue) => self.queue = Some(queue),
            Change::Link(preset) => {
                self.rtt = preset.round_trip.unwrap_or(self.rtt);
                self.both(|way| way.rate = Some(preset.rate));
            }
            Change::Weather(row) => {
                (self.rtt, self.there, self.back) = (row.round_trip, row.there, row.back);
            }
        }
    }

    fn both(&mut self, change: impl Fn(&mut WayWeather)) {
        change(&mut self.there);
        change(&mut self.back);
    }
}

impl From<args::Line> for Shape {
    fn from(line: args::Line) -> Self {
        let args::Line { link, rtt, rate, jitter, queue } = line;
        let way = WayWeather { rate, jitter, loss: Ppm::NONE };
        let mut shape = Self { rtt: Duration::ZERO, there: way, back: way, queue };
        link.into_iter().for_each(|preset| shape.change(Change::Link(preset)));
        // What was said besides goes before.
        rate.into_iter().for_each(|rate| shape.change(Change::Rate(rate)));
        shape.rtt = rtt.unwrap_or(shape.rtt);
        shape
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [there, back] = self.profiles();
        write!(f, "round trip {}, ", millis(self.rtt))?;
        if self.there == self.back {
            return way(f, &there, " in each direction");
        }
        f.write_str("there ")?;
        way(f, &there, "")?;
        f.write_str("; back ")?;
        way(f, &back, "")
    }
}

fn way(f: &mut fmt::Formatter<'_>, way: &Profile, each: &str) -> fmt::Result {
    match way.rate {
        Some(rate) => write!(f, "{}{each}", Bandwidth(rate))?,
        None => f.write_str("no rate limit")?,
    }
    if !way.jitter.is_zero() {
        write!(f, ", up to {} of jitter{each}", millis(way.jitter))?;
    }
    match way.loss {
        Ppm::NONE => {}
        Ppm::ALL => write!(f, ", nothing passes{each}")?,
        loss => write!(f, ", {loss} lost{each}")?,
    }
    match way.rate {
        Some(_) => write!(f, ", queue of {}", way.queue),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free() -> Shape {
        let (there, back) = (WayWeather::default(), WayWeather::default());
        Shape { rtt: Duration::from_millis(50), there, back, queue: None }
    }

    fn with(changes: &[Change]) -> Shape {
        let mut shape = free();
        changes.iter().for_each(|change| shape.change(*change));
        shape
    }

    #[test]
    fn a_line_is_described_with_its_units() {
        assert_eq!(free().to_string(), "round trip 50 ms, no rate limit");
        let limited = with(&[Change::Rate(Rate::mbit(100))]);
        let text = "round trip 50 ms, 100 Mbit/s in each direction, queue of 610.35 KiB";
        assert_eq!(limited.to_string(), text);
        let rough = with(&[Change::Jitter(Duration::from_micros(1500)), Change::Loss(Ppm(1_000))]);
        let text = "round trip 50 ms, no rate limit, up to 1.5 ms of jitter in each direction, 0.1% lost in each \
                    direction";
        assert_eq!(rough.to_string(), text);
        let there = WayWeather { loss: Ppm::ALL, ..WayWeather::default() };
        let text = "round trip 50 ms, there no rate limit, nothing passes; back no rate limit";
        assert_eq!(Shape { there, ..free() }.to_string(), text);
    }

    #[test]
    fn every_change_reaches_the_profiles() {
        let changes = [
            Change::Rtt(Duration::from_millis(10)),
            Change::Rate(Rate::mbit(8)),
            Change::Jitter(Duration::from_millis(1)),
            Change::Loss(Ppm(7)),
            Change::Queue(Bytes(9)),
        ];
        let expected = Profile {
            delay: Duration::from_millis(5),
            rate: Some(Rate::mbit(8)),
            jitter: Duration::from_millis(1),
            loss: Ppm(7),
            queue: Bytes(9),
            outages: Vec::new(),
        };
        assert_eq!(with(&changes).profiles(), [expected.clone(), expected]);
        let there = WayWeather { rate: None, jitter: Duration::from_millis(3), loss: Ppm(1) };
        let back = WayWeather { rate: Some(Rate(5)), ..WayWeather::default() };
        let row =
            WeatherRow { at: Duration::ZERO, round_trip: Duration::from_millis(2), there, back };
        let [there, back] = with(&[Change::Weather(row)]).profiles();
        assert_eq!((there.jitter.as_millis(), there.loss, there.rate), (3, Ppm(1), None));
        assert_eq!((back.delay.as_millis(), back.loss, back.rate), (1, Ppm::NONE, Some(Rate(5))));
    }

    #[test]
    fn a_named_line_gives_way_to_what_is_said_besides() {
        let said = |link: &str, rtt, rate| -> Shape {
            let link = Some(link.parse().expect("a name"));
            args::Line { link, rtt, rate, jitter: Duration::ZERO, queue: None }.into()
        };
        let whole = said("portland", None, None);
        assert_eq!((whole.rtt.as_millis(), whole.back.rate), (32, Some(Rate(4_800_000))));
        let other = said("portland", Some(Duration::from_millis(9)), Some(Rate(7)));
        assert_eq!((other.rtt.as_millis(), other.there.rate), (9, Some(Rate(7))));
        assert_eq!(said("t3", None, None).rtt, Duration::ZERO);
        let t3 = "t3".parse().expect("a name");
        assert_eq!(with(&[Change::Link(t3)]).rtt, free().rtt, "it has no length of its own");
    }
}
