// SPDX-License-Identifier: Apache-2.0
//! Tables of what a group does over time, and the edges that follow.

use super::*;
use crate::config::LagBound;

/// A primary without anything to report.
const QUIET: Sample = Sample {
    role: Role::Primary,
    verdict: Verdict::Ok,
    lag: None,
    period: None,
    used: Some(0.0),
    converges: None,
};

const BOUNDS: AlertsConfig = AlertsConfig {
    lag_above: LagBound::Above(Duration::from_secs(30)),
    queue_full_within: Some(Duration::from_secs(60)),
    resync_not_converging: Some(Duration::from_secs(10)),
    protection_lost: Some(Duration::from_secs(10)),
};

fn lag(seconds: u64) -> Sample {
    Sample { lag: Some(Duration::from_secs(seconds)), ..QUIET }
}

fn resync(converges: bool) -> Sample {
    Sample { converges: Some(converges), ..QUIET }
}

fn verdict(verdict: Verdict) -> Sample {
    Sample { verdict, ..QUIET }
}

/// Takes a look every second: `sample(n)` is that of second n. Returns the second of every edge, and whether it begins.
fn edges_of(
    alert: Alert,
    bounds: &AlertsConfig,
    seconds: u64,
    sample: impl Fn(u64) -> Sample,
) -> Vec<(u64, bool)> {
    let mut alerts = Alerts::default();
    let mut found = Vec::new();
    for second in 0..seconds {
        let (now, sample) = (Moment::ZERO + EVERY * second as u32, sample(second));
        assert!(alerts.is_due(sample.verdict, now));
        for edge in alerts.look(sample, bounds, "lyon", now) {
            assert_eq!(edge.alert, alert, "no other figure moves");
            assert_eq!(alerts.is_raised(alert), edge.begins);
            found.push((second, edge.begins));
        }
        let moves = alerts.tracks.iter().any(|track| track.raised || track.since.is_some());
        assert!(!moves || alerts.deadline() == now + EVERY, "it looks again by itself");
    }
    found
}

/// What lasts so many seconds, one after the other; the last one to the end.
type Story = Vec<(u64, Sample)>;

fn at(story: &Story, second: u64) -> Sample {
    let mut before = 0;
    for (lasts, sample) in story {
        before += lasts;
        if second < before {
            return *sample;
        }
    }
    story.last().expect("a story").1
}

/// A story's name, the story, and the edges that follow.
type Row<'a> = (&'a str, Story, &'a [(u64, bool)]);

#[track_caller]
fn assert_stories(alert: Alert, stories: &[Row<'_>]) {
    for (name, story, expected) in stories {
        let seconds = story.iter().map(|(lasts, _)| lasts).sum();
        let found = edges_of(alert, &BOUNDS, seconds, |second| at(story, second));
        assert_eq!(found, *expected, "{name}");
    }
}

#[test]
fn a_lag_is_told_once_above_its_bound_and_once_below_half_of_it() {
    let secondary = Sample { role: Role::Secondary, ..QUIET };
    assert_stories(
        Alert::LagAbove,
        &[
            ("at the bound", vec![(60, lag(30))], &[]),
            ("begins, stays, ends", vec![(9, lag(31)), (9, lag(1))], &[(3, true), (12, false)]),
            ("a short peak", vec![(3, lag(99)), (9, lag(1))], &[]),
            ("between the bounds it stays", vec![(9, lag(31)), (60, lag(16))], &[(3, true)]),
            ("a short valley", vec![(9, lag(31)), (3, lag(1)), (9, lag(31))], &[(3, true)]),
            ("everything arrived", vec![(9, lag(31)), (9, QUIET)], &[(3, true), (12, false)]),
            ("a change of role", vec![(9, lag(31)), (9, secondary)], &[(3, true), (12, false)]),
        ],
    );
}

#[test]
fn a_lag_that_swings_around_its_bound_is_told_once() {
    let swings = |second: u64| lag(if second.is_multiple_of(2) { 31 } else { 29 });
    assert_eq!(edges_of(Alert::LagAbove, &BOUNDS, 100, swings), [], "never for long enough");
    let slowly = |second: u64| lag(if second % 20 < 10 { 31 } else { 29 });
    assert_eq!(edges_of(Alert::LagAbove, &BOUNDS, 100, slowly), [(3, true)]);
}

#[test]
fn the_automatic_bound_of_the_lag_grows_with_the_period() {
    let bounds = AlertsConfig { lag_above: LagBound::Auto, ..BOUNDS };
    let periodic = |seconds| Sample { period: Some(Duration::from_secs(60)), ..lag(seconds) };
    assert_eq!(edges_of(Alert::LagAbove, &bounds, 9, |_| periodic(150)), []);
    assert_eq!(edges_of(Alert::LagAbove, &bounds, 9, |_| periodic(151)), [(3, true)]);
    assert_eq!(edges_of(Alert::LagAbove, &bounds, 9, |_| lag(31)), [(3, true)]);
    let off = AlertsConfig { lag_above: LagBound::Off, ..BOUNDS };
    assert_eq!(edges_of(Alert::LagAbove, &off, 99, |_| lag(1000)), []);
}

#[test]
fn a_queue_is_told_while_it_fills_within_the_bound() {
    let of = |seconds, used: fn(f64) -> f64| {
        let sample = |second: u64| Sample { used: Some(used(second as f64)), ..QUIET };
        edges_of(Alert::QueueFullWithin, &BOUNDS, seconds, sample)
    };
    let found = of(90, |t| t / 100.0);
    let [(second, true)] = found[..] else { panic!("{found:?}") };
    assert!((43..=44).contains(&second), "60 s before it is full, and for 3 s: {second}");
    assert_eq!(of(300, |t| t / 1000.0), [], "it is full too late");
    assert_eq!(of(60, |_| 0.94), [], "it is nearly full, and does not fill");
    assert_eq!(of(9, |_| 0.95), [(3, true)], "one item more may not fit");
    assert_eq!(of(60, |t| if t < 3.0 { t / 10.0 } else { 0.0 }), [], "a short burst");
    let drains = |t: f64| if t < 40.0 { t / 50.0 } else { (0.78 - (t - 40.0) / 50.0).max(0.0) };
    let found = of(90, drains);
    assert_eq!(found.iter().map(|(_, begins)| *begins).collect::<Vec<_>>(), [true, false]);
    assert!(found[1].0 < 60, "{found:?}");
}

#[test]
fn a_queue_that_is_full_stays_told_until_a_fifth_of_it_is_free() {
    let used = |used| Sample { used: Some(used), ..QUIET };
    let none = Sample { used: None, role: Role::Secondary, ..QUIET };
    assert_stories(
        Alert::QueueFullWithin,
        &[
            ("it stays", vec![(9, used(1.0)), (60, used(0.9))], &[(3, true)]),
            ("it ends", vec![(9, used(1.0)), (9, used(0.7))], &[(3, true), (12, false)]),
            ("a change of role", vec![(9, used(1.0)), (9, none)], &[(3, true), (12, false)]),
        ],
    );
}

#[test]
fn a_resync_that_does_not_converge_is_told_until_it_does_or_ends() {
    assert_stories(
        Alert::ResyncNotConverging,
        &[
            ("in time", vec![(10, resync(false)), (99, resync(true))], &[]),
            (
                "it converges",
                vec![(20, resync(false)), (20, resync(true))],
                &[(10, true), (23, false)],
            ),
            ("it ended", vec![(20, resync(false)), (20, QUIET)], &[(10, true), (23, false)]),
        ],
    );
}

#[test]
fn protection_is_lost_and_regained_once_each() {
    let (risk, none) = (verdict(Verdict::AtRisk), verdict(Verdict::NoPrimary));
    let failed = verdict(Verdict::DiskFailed);
    assert_stories(
        Alert::ProtectionLost,
        &[
            ("a short cut", vec![(10, risk), (60, QUIET)], &[]),
            ("lost, regained", vec![(20, risk), (20, QUIET)], &[(10, true), (23, false)]),
            ("worse in between", vec![(20, risk), (20, failed), (9, risk)], &[(10, true)]),
            ("a planned switch", vec![(60, none), (60, QUIET)], &[]),
            ("no primary any more", vec![(20, risk), (60, none)], &[(10, true)]),
            ("the peer is unknown", vec![(20, verdict(Verdict::Unknown))], &[(10, true)]),
            ("flapping", vec![(20, risk), (2, QUIET), (20, risk)], &[(10, true)]),
        ],
    );
}

#[test]
fn a_restart_tells_again_what_still_lasts() {
    let once = || edges_of(Alert::ProtectionLost, &BOUNDS, 20, |_| verdict(Verdict::AtRisk));
    assert_eq!(once(), [(10, true)]);
    assert_eq!(once(), [(10, true)], "alerts begin quiet");
    assert_eq!(edges_of(Alert::ProtectionLost, &BOUNDS, 20, |_| QUIET), []);
}

#[test]
fn an_alert_that_is_switched_off_ends() {
    let mut alerts = Alerts::default();
    let mut edges = Vec::new();
    let off = AlertsConfig { protection_lost: None, ..BOUNDS };
    for second in 0..40 {
        let bounds = if second < 20 { &BOUNDS } else { &off };
        let now = Moment::ZERO + EVERY * second;
        edges.extend(alerts.look(verdict(Verdict::AtRisk), bounds, "lyon", now));
    }
    assert_eq!(edges.iter().map(|edge| edge.begins).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn a_quiet_group_is_not_woken_and_a_changed_verdict_is_looked_at_in_time() {
    let mut alerts = Alerts::default();
    assert!(alerts.is_due(Verdict::Ok, Moment::ZERO));
    assert_eq!(alerts.look(QUIET, &BOUNDS, "lyon", Moment::ZERO), []);
    assert_eq!(alerts.deadline(), Moment::NEVER);
    let soon = Moment::ZERO + EVERY / 2;
    assert!(!alerts.is_due(Verdict::Ok, soon));
    assert_eq!(alerts.deadline(), Moment::NEVER);
    assert!(!alerts.is_due(Verdict::AtRisk, soon));
    assert_eq!(alerts.deadline(), Moment::ZERO + EVERY);
}

#[test]
fn an_edge_says_why() {
    let why = |sample: Sample, alert, begins, full_in: Option<u64>| {
        let full_in = full_in.map(Duration::from_secs);
        sample.why((alert, begins), "lyon", full_in).unwrap_or_default()
    };
    let queue = Sample { used: Some(0.63), ..QUIET };
    let secondary = Sample { role: Role::Secondary, ..QUIET };
    for (found, expected) in [
        (
            why(lag(41), Alert::LagAbove, true, None),
            "the oldest write that lyon does not have is 41.0 s old",
        ),
        (why(QUIET, Alert::LagAbove, false, None), "lyon has every write"),
        (why(secondary, Alert::LagAbove, false, None), "this node is not primary"),
        (
            why(queue, Alert::QueueFullWithin, true, Some(41)),
            "the queue is 63 % full, and full in 41 s at this rate",
        ),
        (why(queue, Alert::QueueFullWithin, true, Some(0)), "the queue is full"),
        (why(queue, Alert::QueueFullWithin, false, None), "the queue is 63 % full"),
        (
            why(resync(false), Alert::ResyncNotConverging, true, None),
            "the resync will not converge at this write rate",
        ),
        (why(QUIET, Alert::ResyncNotConverging, false, None), "no resync is in progress"),
        (why(QUIET, Alert::ProtectionLost, false, None), ""),
    ] {
        assert_eq!(found, expected);
    }
}

#[test]
fn an_error_that_stops_the_group_ends_alerts_of_a_primary_and_not_that_protection_is_lost() {
    let mut alerts = Alerts::default();
    let bad = Sample { verdict: Verdict::AtRisk, ..lag(99) };
    (0..20).for_each(|second| {
        alerts.look(bad, &BOUNDS, "lyon", Moment::ZERO + EVERY * second);
    });
    assert!([Alert::LagAbove, Alert::ProtectionLost].iter().all(|alert| alerts.is_raised(*alert)));
    assert_eq!(alerts.stop(), [Alert::LagAbove]);
    assert!(alerts.is_raised(Alert::ProtectionLost) && !alerts.is_raised(Alert::LagAbove));
    assert_eq!(alerts.stop(), [], "each ends once");
}
