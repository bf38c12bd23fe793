// SPDX-License-Identifier: Apache-2.0
//! The end that asks and writes.

use super::GRACE;
use super::meter::{BurstMeter, LEAST_BURST, Times, lost, next_burst, rate};
use super::socket::{Post, When};
use super::wire::{BURST, Datagram, Kind};
use crate::error::LabError;
use crate::meet::Stage;
use crate::socket::SLICE;
use crate::watch::Event;
use crate::wire::WireError;
use helio_netmodel::{WayWeather, Weather, WeatherRow};
use helio_units::Rate;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// The two ways, as places of what is kept of each.
const THERE: usize = 0;
const BACK: usize = 1;
/// The most datagrams taken before a look at the time.
const BATCH: usize = 1024;
/// How often the other end is called.
const CALL: Duration = Duration::from_millis(200);
/// It is asked again for what did not come after two round trips and this: twice what a burst takes.
const AGAIN: Duration = Duration::from_millis(100);
/// A burst is over when nothing came for so long.
const TAIL: Duration = Duration::from_millis(200);
/// The bursts a rate is the middle of, and the most that are sent for it, since the first ones only find their size.
const BURSTS: usize = 5;
const MOST_BURSTS: usize = 10;

/// What is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// The other end.
    pub remote: SocketAddr,
    /// This end; without it, what the host chooses.
    pub local: Option<SocketAddr>,
    /// How long.
    pub time: Duration,
    /// From one row to the next, bursts aside.
    pub every: Duration,
    /// From one probe to the next.
    pub probe: Duration,
    /// From one look at the rates to the next; none looks never.
    pub rates: Option<Duration>,
    /// How long the other end may take to come.
    pub patience: Duration,
}

impl Asking {
    fn check(&self) -> Result<(), LabError> {
        let ms = Duration::from_millis;
        let wrong = |what: &str| Err(LabError::Asked(what.to_owned()));
        if !(ms(100)..=ms(60_000)).contains(&self.every) {
            return wrong("--every must be at least 100ms and at most 1min");
        }
        if !(ms(1)..=ms(1000)).contains(&self.probe) || self.probe * 2 > self.every {
            return wrong("--probe must be at least 1ms, at most 1s, and at most half of --every");
        }
        if self.time < self.every || self.time > Weather::MOST_LASTS {
            return wrong("--time must be at least --every, and at most a year");
        }
        // A row is never shorter than it should be.
        if self.time.as_nanos() / self.every.as_nanos() >= Weather::MOST_ROWS as u128 {
            return wrong("too many rows: a file has at most 604800; hint: use a longer --every");
        }
        Ok(())
    }
}

/// Records; `each` hears every row when it is complete, up to [`GRACE`] later. Returns how long the recording lasts.
/// A signal ends it early, and in good order.
///
/// # Errors
/// Nobody is there, the other end serves somebody else, or `each` fails.
pub fn run_record(
    asking: &Asking,
    stage: &Stage<'_>,
    each: &mut dyn FnMut(&WeatherRow) -> std::io::Result<()>,
) -> Result<Duration, LabError> {
    asking.check()?;
    let mut end = Asker::call(asking, stage)?;
    let lasts = end.record(each);
    // Three, since one may be lost; a silent run gives way after a while anyway.
    for _ in 0..3 {
        end.send(Datagram::new(Kind::Bye, 0, 0));
    }
    lasts
}

/// A probe, and what became of it.
#[derive(Clone, Copy, Debug)]
struct Probe {
    sent: u64,
    came: bool,
    /// It came back: the time there and the time back, of clocks that are a constant apart.
    times: Option<(i64, i64)>,
    /// It came back.
    back: bool,
}

/// The probes of a row.
struct Phase {
    at: Duration,
    /// The number of its first probe.
    first: u32,
    probes: Vec<Probe>,
    /// When its last probe was sent.
    over: Option<Instant>,
    rates: [Option<u64>; 2],
}

struct Asker<'s> {
    asking: &'s Asking,
    stage: &'s Stage<'s>,
    post: Post,
    token: u64,
    run: u64,
    phases: VecDeque<Phase>,
    /// The last probe.
    number: u32,
    /// The bursts back, as they come.
    meter: BurstMeter,
    /// What was told of a burst there: which, how many were served, in how many nanoseconds.
    told: Option<(u64, u32, u64)>,
    burst: u64,
    /// Datagrams of the next burst, there and back.
    counts: [u32; 2],
    /// The rates, there and back, as last seen.
    rates: [Option<u64>; 2],
    rated: Option<Instant>,
    /// The last known round trip.
    round_trip: Duration,
    /// What ends the run.
    failure: Option<LabError>,
}

impl<'s> Asker<'s> {
    /// Calls until somebody is there.
    fn call(asking: &'s Asking, stage: &'s Stage<'s>) -> Result<Self, LabError> {
        let remote = asking.remote;
        let any = match remote {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let post = Post::bind(asking.local.unwrap_or(any))?;
        // Whatever nobody else has: the hash of nothing under a fresh secret.
        let run = RandomState::new().hash_one(0);
        let mut end = Self {
            asking,
            stage,
            post,
            token: 0,
            run,
            phases: VecDeque::new(),
            number: 0,
            meter: BurstMeter::default(),
            told: None,
            burst: 0,
            counts: [LEAST_BURST; 2],
            rates: [None; 2],
            rated: None,
            round_trip: Duration::ZERO,
            failure: None,
        };
        (stage.watch)(&Event::Calling(remote));
        let begun = Instant::now();
        while end.token == 0 {
            if begun.elapsed() >= asking.patience {
                let whom = format!("no answer from {remote}");
                return Err(LabError::Nobody { whom, limit: asking.patience, last: String::new() });
            }
            let called = Instant::now();
            end.send(Datagram::new(Kind::Call, 0, 0));
            end.listen(called + CALL, |end| end.token != 0)?;
            end.round_trip = called.elapsed();
            if stage.stopped() {
                return Err(LabError::Interrupted);
            }
        }
        (stage.watch)(&Event::Connected(remote));
        Ok(end)
    }

    fn send(&self, datagram: Datagram) -> u64 {
        let (token, run) = (self.token, self.run);
        self.post.send(Datagram { token, run, ..datagram }, self.asking.remote)
    }

    /// Takes what comes until then, or until it is enough, or a signal comes.
    fn listen(&mut self, until: Instant, enough: impl Fn(&Self) -> bool) -> Result<(), LabError> {
        loop {
            for _ in 0..BATCH {
                let Some((from, when, heard)) = self.post.take() else { break };
                if from.ip().to_canonical() == self.asking.remote.ip().to_canonical()
                    && from.port() == self.asking.remote.port()
                {
                    self.hear(when, heard);
                }
            }
            if let Some(why) = self.failure.take() {
                return Err(why);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || enough(self) || self.stage.stopped() {
                return Ok(());
            }
            self.post.wait_in(left.min(SLICE));
        }
    }

    fn hear(&mut self, when: When, heard: Result<Datagram, WireError>) {
        let peer = self.asking.remote;
        let heard = match heard {
            Ok(heard) => heard,
            Err(why @ WireError::Version(_)) => {
                self.failure = Some(LabError::WrongPeer { peer, why });
                return;
            }
            Err(_) => return,
        };
        if heard.run != self.run {
            return;
        }
        match heard.kind {
            Kind::Welcome => self.welcome(heard.token),
            _ if heard.token != self.token => {}
            Kind::Busy => self.failure = Some(LabError::Busy { peer }),
            Kind::Echo => self.echo(when.at, &heard),
            Kind::Told => self.told = Some((heard.first, heard.number, heard.second)),
            Kind::Burst if heard.first == self.meter.id => self.meter.heard(heard.number, when),
            _ => {}
        }
    }

    /// The other end is there, or there anew, with another clock: no time from before may be held against one from now.
    fn welcome(&mut self, token: u64) {
        if token != self.token {
            self.token = token;
            self.phases.iter_mut().flat_map(|phase| &mut phase.probes).for_each(|p| p.times = None);
        }
    }

    fn echo(&mut self, now: Instant, heard: &Datagram) {
        let now = self.post.clock(now);
        let top = u32::try_from(heard.second).unwrap_or(0);
        for number in heard.map.numbers(top) {
            if let Some(probe) = self.probe(number) {
                probe.came = true;
            }
        }
        let Some(probe) = self.probe(heard.number).filter(|probe| !probe.back) else { return };
        (probe.came, probe.back) = (true, true);
        // What both ends say cannot be: no time is made of it.
        let there_and_back = now.saturating_sub(probe.sent);
        if heard.clock.checked_sub(heard.first).is_some_and(|held| held <= there_and_back) {
            let there = (heard.first as i64).wrapping_sub(probe.sent as i64);
            probe.times = Some((there, (now as i64).wrapping_sub(heard.clock as i64)));
        }
    }

    fn probe(&mut self, number: u32) -> Option<&mut Probe> {
        let phase = self.phases.iter_mut().rev().find(|phase| phase.first <= number)?;
        phase.probes.get_mut((number - phase.first) as usize)
    }

    fn record(
        &mut self,
        each: &mut dyn FnMut(&WeatherRow) -> std::io::Result<()>,
    ) -> Result<Duration, LabError> {
        self.look_at_rates()?;
        let begun = Instant::now();
        while begun.elapsed() < self.asking.time && !self.stage.stopped() {
            let at = begun.elapsed();
            self.look_at_rates()?;
            self.phases.push_back(Phase {
                at: if self.number == 0 { Duration::ZERO } else { at },
                first: self.number + 1,
                probes: Vec::new(),
                over: None,
                rates: self.rates,
            });
            self.probing(Instant::now() + self.asking.every, each)?;
        }
        let lasts = begun.elapsed();
        // Behind a signal, too, what is under way may come.
        while !self.phases.is_empty() {
            self.post.wait_in(Duration::from_millis(5));
            self.listen(Instant::now(), |_| false)?;
            self.settle(each)?;
        }
        Ok(lasts)
    }

    /// Sends the probes of a row.
    fn probing(
        &mut self,
        end: Instant,
        each: &mut dyn FnMut(&WeatherRow) -> std::io::Result<()>,
    ) -> Result<(), LabError> {
        let mut next = Instant::now();
        while next < end && !self.stage.stopped() {
            self.number += 1;
            let number = self.number;
            let sent = self.send(Datagram { number, ..Datagram::new(Kind::Probe, 0, 0) });
            let probe = Probe { sent, came: false, times: None, back: false };
            self.phases.back_mut().into_iter().for_each(|phase| phase.probes.push(probe));
            // Where this end got no processor, no two go out together for it.
            next = (next + self.asking.probe).max(Instant::now());
            self.listen(next.min(end), |_| false)?;
            self.settle(each)?;
        }
        let now = Instant::now();
        self.phases.back_mut().into_iter().for_each(|phase| phase.over = Some(now));
        Ok(())
    }

    /// Hands out the rows nothing more is waited for.
    fn settle(
        &mut self,
        each: &mut dyn FnMut(&WeatherRow) -> std::io::Result<()>,
    ) -> Result<(), LabError> {
        while let Some(phase) = self.phases.front() {
            let waited = phase.over.is_some_and(|over| over.elapsed() >= GRACE);
            let complete = phase.over.is_some() && phase.probes.iter().all(|probe| probe.back);
            if !waited && !complete {
                break;
            }
            // A signal came before its first probe.
            let empty = phase.probes.is_empty();
            let row = row(phase, self.round_trip);
            self.round_trip = row.round_trip;
            self.phases.pop_front();
            if empty {
                continue;
            }
            let failed = LabError::system("write what was recorded", "check the disk of the file");
            each(&row).map_err(failed)?;
        }
        Ok(())
    }

    /// Looks at the rates where it is time to. Where nothing passes, the last ones hold until something does.
    fn look_at_rates(&mut self) -> Result<(), LabError> {
        let Some(every) = self.asking.rates else { return Ok(()) };
        let due = self.rated.is_none_or(|at| at.elapsed() >= every);
        let passes = self.phases.back().is_none_or(|phase| phase.probes.iter().any(|p| p.back));
        if !due || !passes {
            return Ok(());
        }
        for way in [THERE, BACK] {
            if !self.look_at_rate(way)? {
                return Ok(());
            }
        }
        self.rated = Some(Instant::now());
        Ok(())
    }

    /// Looks at the rate of a way; where bursts do not tell one, the last holds. False where nothing comes of a burst,
    /// or a signal comes.
    fn look_at_rate(&mut self, way: usize) -> Result<bool, LabError> {
        let header = if self.asking.remote.ip().to_canonical().is_ipv4() { 28 } else { 48 };
        let mut rates = Vec::new();
        for bursts in 1..=MOST_BURSTS {
            let count = self.counts[way];
            let told = if way == THERE { self.there(count)? } else { self.back(count)? };
            let Some((served, nanos)) = told else {
                // It may be too much for a line that has become slow.
                self.counts[way] = (count / 8).max(LEAST_BURST);
                return Ok(false);
            };
            if served == 0 {
                continue;
            }
            self.counts[way] = next_burst(count, served, nanos);
            let fits = self.counts[way] == count || bursts + BURSTS > MOST_BURSTS;
            rates.extend(rate(count, served, nanos, BURST as u64 + header).filter(|_| fits));
            if rates.len() == BURSTS {
                break;
            }
        }
        rates.sort_unstable();
        self.rates[way] = rates.get(rates.len() / 2).copied().or(self.rates[way]);
        Ok(true)
    }

    /// When to ask again.
    fn again(&self) -> Instant {
        Instant::now() + 2 * self.round_trip + AGAIN
    }

    /// Sends a burst; what the other end saw of it.
    fn there(&mut self, count: u32) -> Result<Option<(u32, u64)>, LabError> {
        self.burst += 1;
        let (first, run, token) = (self.burst, self.run, self.token);
        let second = u64::from(count);
        let one = Datagram { first, second, ..Datagram::new(Kind::Burst, token, run) };
        self.post.burst(one, self.asking.remote);
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline && !self.stage.stopped() {
            self.send(Datagram { first, ..Datagram::new(Kind::Ask, 0, 0) });
            let told = |end: &Self| end.told.filter(|(id, ..)| *id == first);
            self.listen(self.again().min(deadline), |end| told(end).is_some())?;
            if let Some((_, served, nanos)) = told(self) {
                return Ok(Some((served, nanos)));
            }
        }
        Ok(None)
    }

    /// Has a burst sent; what this end saw of it.
    fn back(&mut self, count: u32) -> Result<Option<(u32, u64)>, LabError> {
        self.burst += 1;
        self.meter = BurstMeter::new(self.burst);
        let (first, second) = (self.burst, u64::from(count));
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline && self.meter.last().is_none() && !self.stage.stopped() {
            self.send(Datagram { first, second, ..Datagram::new(Kind::Want, 0, 0) });
            self.listen(self.again().min(deadline), |end| end.meter.last().is_some())?;
        }
        while let Some((number, at)) = self.meter.last() {
            let over = number + 1 >= count || at.elapsed() >= TAIL || Instant::now() >= deadline;
            if over || self.stage.stopped() {
                return Ok(Some(self.meter.served(count)));
            }
            self.listen((at + TAIL).min(deadline), |end| {
                end.meter.last().is_some_and(|(number, _)| number + 1 >= count)
            })?;
        }
        Ok(None)
    }
}

/// As exactly as it means something.
fn micros(span: Duration) -> Duration {
    Duration::from_micros(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}

/// What a row's probes come to; where none came back, the last round trip stands.
fn row(phase: &Phase, before: Duration) -> WeatherRow {
    let (mut there, mut back) = (Times::default(), Times::default());
    for (one, other) in phase.probes.iter().filter_map(|probe| probe.times) {
        there.add(one);
        back.add(other);
    }
    let times = there.least_and_jitter().zip(back.least_and_jitter());
    let (round_trip, jitters) = times.map_or((before, [Duration::ZERO; 2]), |(there, back)| {
        let sum = there.0.wrapping_add(back.0).max(0).unsigned_abs();
        (Duration::from_nanos(sum).min(Weather::MOST_DELAY), [there.1, back.1].map(micros))
    });
    let count = |what: fn(&&Probe) -> bool| phase.probes.iter().filter(what).count();
    let (sent, came, heard) = (phase.probes.len(), count(|p| p.came), count(|p| p.back));
    let way = |way: usize, loss| {
        let rate = phase.rates[way].map(Rate);
        WayWeather { jitter: jitters[way], loss, rate }
    };
    // Where nothing came, nothing is known of the way back: it is taken to be the same.
    let loss_back = if came == 0 { lost(sent, 0) } else { lost(came, heard) };
    WeatherRow {
        at: Duration::from_millis(u64::try_from(phase.at.as_millis()).unwrap_or(u64::MAX)),
        round_trip: micros(round_trip),
        there: way(THERE, lost(sent, came)),
        back: way(BACK, loss_back),
    }
}

#[cfg(test)]
mod tests;
