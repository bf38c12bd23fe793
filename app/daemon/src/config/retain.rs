// SPDX-License-Identifier: Apache-2.0
//! When automatic snapshots of a group are created, and how many are kept: `retain = "6 per hour, 24 hourly, 7 daily"`.
//!
//! Every term divides the calendar, in UTC, into intervals, and keeps one snapshot of each of the last so many. Snapshots are
//! created at the begin of the shortest interval.

use super::error::ConfigError;
use super::table::Table;
use core::fmt;
use helio_format::before::EXPENDABLE_MOST;
use helio_units::WallTime;
use time::OffsetDateTime;

/// Most automatic snapshots that a group keeps.
const KEPT_MOST: usize = 100;
/// How many are left for operators, and for the one that is created before others are deleted.
const OTHERS: usize = EXPENDABLE_MOST - KEPT_MOST;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// What follows the number of a term.
const KINDS: [(&str, Kind); 7] = [
    ("per minute", Kind::Per { period: MINUTE, most: 12 }),
    ("per hour", Kind::Per { period: HOUR, most: 60 }),
    ("per day", Kind::Per { period: DAY, most: KEPT_MOST }),
    ("hourly", Kind::Each(Interval::Seconds(HOUR))),
    ("daily", Kind::Each(Interval::Seconds(DAY))),
    ("weekly", Kind::Each(Interval::Week)),
    ("monthly", Kind::Each(Interval::Month)),
];

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The period is divided by the number.
    Per { period: u64, most: usize },
    /// One of each.
    Each(Interval),
}

/// Into what a term divides the calendar. The shorter one is the lesser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interval {
    /// So many seconds from midnight on; a day at most.
    Seconds(u64),
    /// From Monday on.
    Week,
    /// From the first day on.
    Month,
}

impl Interval {
    /// When the interval began in which that time is.
    #[must_use]
    pub fn begin(self, at: WallTime) -> WallTime {
        let seconds = at.0 / 1000;
        let date = OffsetDateTime::from_unix_timestamp(seconds as i64);
        let days = |days: u8| seconds % DAY + u64::from(days) * DAY;
        let since = match (self, date) {
            (Self::Seconds(length), _) => seconds % length,
            (Self::Week, Ok(date)) => days(date.weekday().number_days_from_monday()),
            (Self::Month, Ok(date)) => days(date.day() - 1),
            // No calendar goes so far.
            (Self::Week | Self::Month, Err(_)) => 0,
        };
        WallTime(seconds.saturating_sub(since) * 1000)
    }
}

/// One term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Of how many intervals a snapshot is kept.
    pub count: usize,
    /// The intervals.
    pub interval: Interval,
    kind: &'static str,
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.count, self.kind)
    }
}

impl Term {
    /// Reads one term; what is wrong otherwise, and the hint.
    fn read(text: &str) -> Result<Self, (String, String)> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let unknown = || {
            let kinds = KINDS.map(|(name, _)| format!("N {name}"));
            let message = match words.join(" ").as_str() {
                "" => "`retain` has an empty term".to_owned(),
                term => format!("`{term}` in `retain` is unknown"),
            };
            (message, format!("separate terms by commas, and use {}", kinds.join(", ")))
        };
        let (number, rest) = words.split_first().ok_or_else(unknown)?;
        let rest = rest.join(" ");
        let known = KINDS.iter().find(|(name, _)| *name == rest);
        let (Some((name, kind)), Ok(count)) = (known, number.parse::<usize>()) else {
            return Err(unknown());
        };
        let interval = match *kind {
            _ if count == 0 => {
                let message = format!("`{count} {name}` in `retain` keeps nothing");
                return Err((message, "use at least 1, or leave it out".to_owned()));
            }
            Kind::Per { most, .. } if count > most => {
                let message = format!("`{count} {name}` in `retain` is too many");
                return Err((message, format!("use at most {most} {name}")));
            }
            Kind::Per { period, .. } if period % count as u64 != 0 => {
                let message = format!(
                    "`{count} {name}` in `retain`: {period} seconds divided by {count} is not a whole number of seconds"
                );
                let less = (1..count).rev().find(|less| period % *less as u64 == 0).unwrap_or(1);
                return Err((message, format!("use {less} {name}")));
            }
            Kind::Per { period, .. } => Interval::Seconds(period / count as u64),
            Kind::Each(interval) => interval,
        };
        Ok(Self { count, interval, kind: name })
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retain {
    terms: Vec<Term>,
}

impl fmt::Display for Retain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms: Vec<String> = self.terms.iter().map(Term::to_string).collect();
        f.write_str(&terms.join(", "))
    }
}

impl Retain {
    /// The terms, one at least, each with an interval of its own.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// When a snapshot was due last.
    #[must_use]
    pub fn due(&self, now: WallTime) -> WallTime {
        self.terms
            .iter()
            .map(|term| term.interval)
            .min()
            .map_or(now, |shortest| shortest.begin(now))
    }

    /// Reads the terms; what is wrong otherwise, and the hint.
    fn of(text: &str) -> Result<Self, (String, String)> {
        let mut terms: Vec<Term> = Vec::new();
        for text in text.split(',') {
            let term = Term::read(text)?;
            let same = |other: &&Term| (other.kind == term.kind) || other.interval == term.interval;
            if let Some(other) = terms.iter().find(same) {
                let message = format!("`{other}` and `{term}` in `retain` are of the same kind");
                return Err((message, "use only one of them".to_owned()));
            }
            terms.push(term);
        }
        let sum = terms.iter().fold(0, |sum: usize, term| sum.saturating_add(term.count));
        if sum > KEPT_MOST {
            let message = format!(
                "`retain` keeps {sum} snapshots; a group can have {EXPENDABLE_MOST}, and {OTHERS} of these are not for automatic ones"
            );
            return Err((message, format!("keep at most {KEPT_MOST} in all terms together")));
        }
        Ok(Self { terms })
    }
}

/// `retain`: none, or the terms.
pub(super) fn read(table: &Table<'_>) -> Result<Option<Retain>, ConfigError> {
    let Some(text) = table.text("retain")? else { return Ok(None) };
    let retain = Retain::of(text.value);
    retain.map(Some).map_err(|(message, hint)| table.refuse(text.at, message, hint))
}
