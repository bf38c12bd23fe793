// SPDX-License-Identifier: Apache-2.0
//! Which snapshots are automatic, and which of them are kept. Pure: names and times in, times out.

use crate::config::Retain;
use helio_units::{CopyName, WallTime};
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// What every name of an automatic snapshot begins with.
const PREFIX: &str = "auto-";

/// The name of the automatic snapshot of that time, such as `auto-2026-11-27T20:40:00Z`.
pub(super) fn name_at(at: WallTime) -> CopyName {
    let name = format!("{PREFIX}{at}").replace(' ', "T");
    CopyName::new(&name).expect("digits and few other bytes")
}

/// The time of an automatic snapshot; none if the name is not exactly of this form.
pub(super) fn time_of(name: &str) -> Option<WallTime> {
    let text = name.strip_prefix(PREFIX)?;
    let seconds = OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp();
    let at = WallTime(u64::try_from(seconds).ok()? * 1000);
    (name_at(at).as_str() == name).then_some(at)
}

/// Which of the automatic snapshots are not kept, the oldest first. Of each of the last intervals that have one, a term keeps the
/// first; so an interval without snapshots counts for nothing. Those later than `now` are kept: a clock was set back.
pub(super) fn expired(retain: &Retain, now: WallTime, times: &[WallTime]) -> Vec<WallTime> {
    let past: BTreeSet<WallTime> = times.iter().copied().filter(|at| *at <= now).collect();
    let mut kept = BTreeSet::new();
    for term in retain.terms() {
        let mut firsts = BTreeMap::new();
        for at in &past {
            firsts.entry(term.interval.begin(*at)).or_insert(*at);
        }
        kept.extend(firsts.into_values().rev().take(term.count));
    }
    past.difference(&kept).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Term};
    use helio_netmodel::Dice;

    const MINUTE: u64 = 60_000;
    const DAY: u64 = 24 * 60 * MINUTE;
    /// 2026-11-27 00:00:00 UTC.
    const FRIDAY: u64 = 1_795_737_600_000;

    fn retain(terms: &str) -> Retain {
        let text = format!(
            "node.a.address = '127.0.0.1:1'\n[group.g]\nnodes = ['a']\nretain = '{terms}'\n[group.g.volume.v]\n\
             size = '1MiB'\nmembers.a = ['/x']\n"
        );
        let mut config =
            Config::parse(&text, "helio.toml").unwrap_or_else(|error| panic!("{error}"));
        config.groups.remove("g").and_then(|group| group.retain).expect("it is set")
    }

    #[test]
    fn a_name_has_exactly_one_form() {
        let name = "auto-2026-11-27T20:40:00Z";
        let at = time_of(name).expect("a time");
        assert_eq!((at, name_at(at).as_str()), (WallTime(FRIDAY + (20 * 60 + 40) * MINUTE), name));
        for other in [
            "before-upgrade",
            "auto-",
            "auto-2026-11-27",
            "auto-2026-11-27T20:40:00",
            "auto-2026-11-27t20:40:00z",
            "auto-2026-11-27T20:40:00.5Z",
            "auto-2026-11-27T20:40:00+00:00",
            "auto-2026-11-27T20:40:60Z",
            "auto-2026-02-29T20:40:00Z",
            "auto-1969-12-31T20:40:00Z",
            "Auto-2026-11-27T20:40:00Z",
            "auto-2026-11-27T20:40:00Z-1",
        ] {
            assert_eq!(time_of(other), None, "{other}");
        }
    }

    #[test]
    fn the_first_of_each_interval_is_kept() {
        let at = |minutes: u64| WallTime(FRIDAY + minutes * MINUTE);
        let retain = retain("6 per hour, 2 hourly");
        let times: Vec<WallTime> = (0..=13).map(|tens| at(tens * 10)).collect();
        // Six from 1:20 to 2:10, and the first of hours 1 and 2.
        let gone: Vec<WallTime> = [0, 10, 20, 30, 40, 50, 70].map(at).to_vec();
        assert_eq!(expired(&retain, at(130), &times), gone);
        // As many are kept after a day without any.
        let later = [&times[..], &[at(1600)]].concat();
        let gone: Vec<WallTime> = (0..=8).map(|tens| at(tens * 10)).collect();
        assert_eq!(expired(&retain, at(1600), &later), gone);
        // What is later than now neither goes nor takes the place of another one.
        let future = [&times[..], &[at(9000), at(9010)]].concat();
        assert_eq!(expired(&retain, at(130), &future), expired(&retain, at(130), &times));
        assert_eq!(expired(&retain, at(130), &[]), []);
    }

    /// What a node holds that looks at the calendar about once in `step`. When it does not run is drawn, and so is what it cannot create.
    fn keep_with_outages(terms: &str, step: u64, seed: u64) {
        let retain = retain(terms);
        let sum: usize = retain.terms().iter().map(|term| term.count).sum();
        // The first one that was ever created in each interval of each term.
        let mut firsts: Vec<(Term, Vec<WallTime>)> =
            retain.terms().iter().map(|term| (*term, Vec::new())).collect();
        let mut dice = Dice::new(seed);
        let (mut held, mut now) = (Vec::new(), FRIDAY + dice.below(40 * DAY));
        let mut due = retain.due(WallTime(now));
        for _ in 0..3000 {
            now += 1 + dice.below(2 * step);
            if dice.chance(1, 50) {
                let doublings = dice.below(8);
                now += dice.below(1 << doublings) * step;
            }
            let next = retain.due(WallTime(now));
            if next == due || dice.chance(1, 20) {
                continue;
            }
            due = next;
            held.push(due);
            assert!(held.len() <= sum + 1, "{} of {sum} and one", held.len());
            let gone = expired(&retain, due, &held);
            assert!(gone.is_sorted() && !gone.contains(&due), "the newest one is kept");
            held.retain(|at| !gone.contains(at));
            assert!(held.len() <= sum);
            for (term, firsts) in &mut firsts {
                let begin = |at: &WallTime| term.interval.begin(*at);
                if firsts.last().map(begin) != Some(begin(&due)) {
                    firsts.push(due);
                }
                for first in firsts.iter().rev().take(term.count) {
                    assert!(held.contains(first), "{term} without {first}, of {held:?}");
                }
            }
        }
        assert!(firsts.iter().all(|(term, firsts)| firsts.len() > term.count), "{firsts:?}");
    }

    #[test]
    fn each_of_the_last_intervals_with_snapshots_keeps_its_first_whatever_outages_there_were() {
        for seed in 0..3 {
            keep_with_outages("6 per hour, 24 hourly, 3 daily", 5 * MINUTE, seed);
            keep_with_outages("60 per hour, 3 hourly", MINUTE, seed);
            keep_with_outages("7 daily, 5 per day, 3 weekly", 4 * 60 * MINUTE, seed);
            keep_with_outages("12 monthly, 8 weekly, 24 hourly", DAY / 4, seed);
        }
    }
}
