// SPDX-License-Identifier: Apache-2.0
//! Alerts: which figures of a group are beyond their bounds. Pure: samples of the status and the time come in, edges go out.
//!
//! ```text
//!   quiet ──beyond the bound for a time──> raised ──below the lower bound for a time──> quiet
//! ```
//! Between the two bounds an alert stays as it is. A restart of the daemon begins with quiet alerts. If an error stops the group, alerts
//! about figures of a primary end. That protection is lost does not: its end would say that the data is protected again.

use crate::config::{Alert, AlertsConfig};
use helio_engine::{View, Words};
use helio_units::{Mode, Moment, Role, Verdict};
use std::collections::VecDeque;
use std::time::Duration;

/// Figures are compared with their bounds so often.
const EVERY: Duration = Duration::from_secs(1);
/// A figure that has no time of its own must be beyond a bound for so long.
const HOLD: Duration = Duration::from_secs(3);
/// The queue's rate is that of at most this time ...
const RATE_OVER: Duration = Duration::from_secs(10);
/// ... and of at least this.
const RATE_LEAST: Duration = Duration::from_secs(2);
/// From this share on, a queue counts as full: one item more may not fit.
const FULL: f64 = 0.95;
/// Below this share, a queue that does not fill is quiet again.
const CALM: f64 = 0.8;

/// What alerts look at, of one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    role: Role,
    verdict: Verdict,
    /// Age of the oldest write that the peer does not have, on a primary.
    lag: Option<Duration>,
    /// The time from one cut to the next, in mode periodic.
    period: Option<Duration>,
    /// Share of the queue that is used, by bytes or by items.
    used: Option<f64>,
    /// Whether the resync that runs converges.
    converges: Option<bool>,
}

impl Sample {
    /// The figures that users see in the status, without its other parts: this runs every second. `period`: the time from one cut to the
    /// next.
    pub(crate) fn of(view: &View<'_>, words: &Words, period: Duration, now: Moment) -> Self {
        let share = |used: u64, bound: u64| used as f64 / bound.max(1) as f64;
        Self {
            role: words.role,
            verdict: words.verdict,
            lag: view.oldest_owed(now),
            period: (words.mode == Mode::Periodic).then_some(period),
            used: view.queue_status().map(|queue| match queue.waiting {
                0 => share(queue.bytes.0, queue.bound.0)
                    .max(share(queue.items.0, queue.bound_items.0)),
                _ => 1.0,
            }),
            converges: view.converges(now),
        }
    }
}

/// An alert that begins or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) alert: Alert,
    /// It begins.
    pub(crate) begins: bool,
    /// The reason, as text; none: the verdict's.
    pub(crate) why: Option<String>,
}

/// Where a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Beyond,
    Between,
    Below,
}

/// One alert.
#[derive(Clone, Copy, Debug, Default)]
struct Track {
    raised: bool,
    /// Since when its figure is where the alert changes.
    since: Option<Moment>,
}

impl Track {
    /// Returns whether it changed. `begin`: for how long the figure must be beyond its bound.
    fn follow(&mut self, place: Place, begin: Duration, now: Moment) -> bool {
        let (changes_at, hold) =
            if self.raised { (Place::Below, HOLD) } else { (Place::Beyond, begin) };
        if place != changes_at {
            self.since = None;
            return false;
        }
        if now - *self.since.get_or_insert(now) < hold {
            return false;
        }
        *self = Self { raised: !self.raised, since: None };
        true
    }
}

/// The alerts of one group.
#[derive(Debug, Default)]
pub(crate) struct Alerts {
    tracks: [Track; Alert::ALL.len()],
    /// How much of the queue was used of late.
    fill: VecDeque<(Moment, f64)>,
    /// The verdict of the last look.
    verdict: Option<Verdict>,
    next: Moment,
    /// Whether a look is due although nothing happens.
    wakes: bool,
}

impl Alerts {
    /// Whether to look now. A verdict that changed since is looked at when its time has come.
    pub(crate) fn is_due(&mut self, verdict: Verdict, now: Moment) -> bool {
        self.wakes |= self.verdict != Some(verdict);
        now >= self.next
    }

    /// When a look is due although nothing happens.
    pub(crate) const fn deadline(&self) -> Moment {
        if self.wakes { self.next } else { Moment::NEVER }
    }

    /// Whether the alert began and did not end.
    pub(crate) fn is_raised(&self, alert: Alert) -> bool {
        self.tracks[alert as usize].raised
    }

    /// An error stopped the group: its alerts are not updated any more. Returns the alerts that end.
    pub(crate) fn stop(&mut self) -> Vec<Alert> {
        let ends = |alert: &Alert| self.is_raised(*alert) && *alert != Alert::ProtectionLost;
        let ended: Vec<Alert> = Alert::ALL.into_iter().filter(ends).collect();
        ended.iter().for_each(|alert| self.tracks[*alert as usize] = Track::default());
        ended
    }

    /// Takes a look. Returns the alerts that begin or end.
    pub(crate) fn look(
        &mut self,
        sample: Sample,
        bounds: &AlertsConfig,
        peer: &str,
        now: Moment,
    ) -> Vec<Edge> {
        let full_in = self.full_in(sample.used, now);
        let mut edges = Vec::new();
        for alert in Alert::ALL {
            let begin = match alert {
                Alert::LagAbove | Alert::QueueFullWithin => HOLD,
                Alert::ResyncNotConverging => bounds.resync_not_converging.unwrap_or_default(),
                Alert::ProtectionLost => bounds.protection_lost.unwrap_or_default(),
            };
            let track = &mut self.tracks[alert as usize];
            if track.follow(sample.place(alert, bounds, full_in), begin, now) {
                let begins = track.raised;
                edges.push(Edge { alert, begins, why: sample.why((alert, begins), peer, full_in) });
            }
        }
        let moves = sample.lag.is_some()
            || sample.converges.is_some()
            || sample.used.is_some_and(|used| used > 0.0);
        self.wakes = moves || self.tracks.iter().any(|it| it.raised || it.since.is_some());
        self.verdict = Some(sample.verdict);
        self.next = now + EVERY;
        edges
    }

    /// How long until the queue is full at the rate of the last seconds; none: it does not fill.
    fn full_in(&mut self, used: Option<f64>, now: Moment) -> Option<Duration> {
        let Some(used) = used else {
            self.fill.clear();
            return None;
        };
        while self.fill.front().is_some_and(|(at, _)| now - *at > RATE_OVER) {
            self.fill.pop_front();
        }
        self.fill.push_back((now, used));
        if used >= FULL {
            return Some(Duration::ZERO);
        }
        let (first, before) =
            self.fill.front().copied().filter(|(at, _)| now - *at >= RATE_LEAST)?;
        let rate = (used - before) / (now - first).as_secs_f64();
        if rate <= 0.0 {
            return None;
        }
        Duration::try_from_secs_f64((1.0 - used) / rate).ok()
    }
}

impl Sample {
    /// Where the figure of an alert is. An alert without a bound is below it.
    fn place(&self, alert: Alert, bounds: &AlertsConfig, full_in: Option<Duration>) -> Place {
        match alert {
            Alert::LagAbove => match (self.lag, bounds.lag_above.age(self.period)) {
                (Some(lag), Some(bound)) if lag > bound => Place::Beyond,
                (Some(lag), Some(bound)) if lag > bound / 2 => Place::Between,
                _ => Place::Below,
            },
            Alert::QueueFullWithin => match (self.used, bounds.queue_full_within) {
                (None, _) | (_, None) => Place::Below,
                (_, Some(bound)) if full_in.is_some_and(|time| time <= bound) => Place::Beyond,
                (Some(used), Some(bound)) => {
                    match used < CALM && full_in.is_none_or(|time| time > bound * 2) {
                        true => Place::Below,
                        false => Place::Between,
                    }
                }
            },
            Alert::ResyncNotConverging => match (self.converges, bounds.resync_not_converging) {
                (Some(false), Some(_)) => Place::Beyond,
                _ => Place::Below,
            },
            Alert::ProtectionLost => match (self.verdict, bounds.protection_lost) {
                (Verdict::Ok, _) | (_, None) => Place::Below,
                // Nothing is written.
                (Verdict::NoPrimary, _) => Place::Between,
                _ => Place::Beyond,
            },
        }
    }

    /// The reason of an edge.
    fn why(&self, edge: (Alert, bool), peer: &str, full_in: Option<Duration>) -> Option<String> {
        let percent = self.used.unwrap_or_default() * 100.0;
        Some(match edge {
            (Alert::ProtectionLost, _) => return None,
            (Alert::LagAbove | Alert::QueueFullWithin, false) if self.role != Role::Primary => {
                "this node is not primary".to_owned()
            }
            (Alert::LagAbove, _) => match self.lag {
                Some(lag) => {
                    let age = lag.as_secs_f64();
                    format!("the oldest write that {peer} does not have is {age:.1} s old")
                }
                None => format!("{peer} has every write"),
            },
            (Alert::QueueFullWithin, true) => match full_in.filter(|time| !time.is_zero()) {
                Some(time) => {
                    let seconds = time.as_secs_f64();
                    format!(
                        "the queue is {percent:.0} % full, and full in {seconds:.0} s at this rate"
                    )
                }
                None => "the queue is full".to_owned(),
            },
            (Alert::QueueFullWithin, false) => format!("the queue is {percent:.0} % full"),
            (Alert::ResyncNotConverging, true) => {
                "the resync will not converge at this write rate".to_owned()
            }
            (Alert::ResyncNotConverging, false) => match self.converges {
                Some(_) => "the resync converges".to_owned(),
                None => "no resync is in progress".to_owned(),
            },
        })
    }
}

#[cfg(test)]
mod tests;
