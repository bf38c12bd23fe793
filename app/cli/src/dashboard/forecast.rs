// SPDX-License-Identifier: Apache-2.0
//! What is to be expected of a group, beside what happens: figures of a forecast that was made before, the rules of `helio advise`, and
//! when a queue is full or a resync ends at the present rates.

use crate::advise::{self, seen};
use anyhow::Result;
use helio_api::GroupStatus;
use helio_plan::live::{Judgement, Promise, Seen, Verdict, judge};
use helio_plan::{Flow, Work};
use helio_units::{Mode, Role};
use helio_web::{Advice, Forecast, Looks};
use std::path::Path;
use std::time::Duration;

/// A file that `helio plan forecast --json` wrote.
pub(super) struct Planned {
    file: String,
    plan: advise::Forecast,
}

impl Planned {
    /// Reads it.
    ///
    /// # Errors
    /// It cannot be read, or is something else.
    pub(super) fn read(file: &Path) -> Result<Self> {
        Ok(Self { file: file.display().to_string(), plan: advise::read(file)? })
    }

    /// Its run in that mode, if there is one.
    fn promise(&self, mode: Mode) -> Option<Promise> {
        self.plan.promise(None, mode).ok().filter(|promise| promise.mode == mode)
    }
}

/// What is to be expected of a primary; nothing of a secondary, or before there are rates.
pub(super) fn expected(
    looks: &Looks,
    group: &GroupStatus,
    planned: Option<&Planned>,
) -> Option<Forecast> {
    if group.role != Role::Primary {
        return None;
    }
    let promise = planned.and_then(|planned| planned.promise(group.mode.requested));
    let seen = seen(&group.node, looks, &group.name, Work::Oltp, None).ok();
    if seen.is_none() && group.sync.is_none() {
        return None;
    }
    let mut forecast =
        Forecast { source: source(planned, promise.as_ref()), ..Forecast::default() };
    if let Some(promise) = &promise {
        planned_figures(&mut forecast, promise);
    }
    if let Some(seen) = &seen {
        at_present(&mut forecast, seen, group);
        let judged = judge(seen, promise.as_ref());
        forecast.advice = judged.iter().filter(|judged| worth(judged)).map(advice).collect();
    }
    if let Some(sync) = &group.sync {
        forecast.converges = Some(sync.converges);
        forecast.catch_up_seconds = sync.eta_seconds.map(|left| left.as_secs_f64());
    }
    Some(forecast)
}

fn source(planned: Option<&Planned>, promise: Option<&Promise>) -> String {
    match (planned, promise) {
        (Some(planned), Some(promise)) => {
            format!(
                "{}, mode {}, link {}; and the present rates",
                planned.file, promise.mode, promise.link
            )
        }
        (Some(planned), None) => {
            format!("the present rates; {} has no run in this mode", planned.file)
        }
        (None, _) => "the present rates".into(),
    }
}

fn planned_figures(forecast: &mut Forecast, promise: &Promise) {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    forecast.p50_us = promise.writes.map(|[median, _]| micros(median));
    forecast.p99_us = promise.writes.map(|[_, p99]| micros(p99));
    forecast.lag_bytes = Some(promise.lag.0);
    forecast.lag_seconds = Some(promise.behind.as_secs_f64());
    forecast.sent_bytes_per_second = Some(promise.throughput.0);
    forecast.queue_high_bytes = Some(promise.high.0);
}

/// When the queue is full or empty if nothing changes.
fn at_present(forecast: &mut Forecast, seen: &Seen, group: &GroupStatus) {
    let Some(queue) = group.queue.as_ref().filter(|queue| queue.items.0 > 0) else { return };
    // Without a connection nothing drains.
    let drain = if group.is_connected() { seen.sent } else { helio_units::Rate(0) };
    let flow = Flow { fill: seen.written, drain };
    let left = queue.bound_bytes.saturating_sub(queue.bytes);
    forecast.queue_full_seconds = flow.time_to_full(left).map(|time| time.as_secs_f64());
    forecast.catch_up_seconds = flow.time_to_empty(queue.bytes).map(|time| time.as_secs_f64());
}

/// A rule that is met, or cannot be judged, is not shown.
fn worth(judged: &Judgement) -> bool {
    matches!(judged.verdict, Verdict::Change | Verdict::Watch)
}

fn advice(judged: &Judgement) -> Advice {
    Advice {
        label: judged.label.to_string(),
        verdict: judged.verdict.word().to_owned(),
        what: judged.told.clone(),
        hint: judged.hints.first().cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::sample;
    use helio_api::{Connection, Status, SyncStatus};
    use helio_units::Bytes;

    /// Two statuses, two seconds apart, of a primary that wrote 40 MB and sent 10 MB.
    fn looks(change: impl Fn(&mut Status)) -> Vec<Status> {
        let mut first = sample::status();
        if let Some(peer) = &mut first.groups[0].peer {
            peer.connection = Connection::Connected;
        }
        change(&mut first);
        let mut last = first.clone();
        last.daemon_uptime_seconds += Duration::from_secs(2);
        last.groups[0].counters.write_bytes += Bytes(40_000_000);
        last.groups[0].counters.sent_bytes += Bytes(10_000_000);
        vec![first, last]
    }

    fn of(looks: &[Status]) -> Option<Forecast> {
        expected(looks, &looks.last()?.groups[0], None)
    }

    #[test]
    fn a_queue_is_full_when_its_room_is_used_up_at_the_present_rates() {
        let looks = looks(|_| {});
        let queue = looks[1].groups[0].queue.as_ref().expect("a queue");
        let room = (queue.bound_bytes.0 - queue.bytes.0) as f64;
        let forecast = of(&looks).expect("a primary");
        let seconds = forecast.queue_full_seconds.expect("it fills");
        assert!((seconds - room / 15e6).abs() < 0.01, "{seconds}");
        assert_eq!(forecast.catch_up_seconds, None);
        assert!(
            forecast.advice.iter().any(|advice| advice.label == "queue-fills"),
            "{forecast:#?}"
        );
    }

    #[test]
    fn what_a_lost_link_sent_before_drains_nothing() {
        let looks = looks(|status| {
            if let Some(peer) = &mut status.groups[0].peer {
                peer.connection = Connection::Connecting;
            }
        });
        let queue = looks[1].groups[0].queue.as_ref().expect("a queue");
        let room = (queue.bound_bytes.0 - queue.bytes.0) as f64;
        let seconds =
            of(&looks).and_then(|forecast| forecast.queue_full_seconds).expect("it fills");
        assert!((seconds - room / 20e6).abs() < 0.01, "{seconds}");
    }

    #[test]
    fn a_resync_that_does_not_converge_is_shown_as_such() {
        let looks = looks(|status| {
            status.groups[0].sync = Some(SyncStatus { converges: false, ..SyncStatus::default() });
        });
        let forecast = of(&looks).expect("a resync");
        assert_eq!((forecast.converges, forecast.catch_up_seconds), (Some(false), None));
    }

    #[test]
    fn a_secondary_and_one_status_forecast_nothing() {
        let both = looks(|status| status.groups[0].role = Role::Secondary);
        assert_eq!(of(&both), None);
        assert_eq!(of(&looks(|_| {})[..1]), None);
    }
}
