// SPDX-License-Identifier: Apache-2.0
//! What the clients experienced during the last seconds, in words.

use super::Kind;
use helio_units::Moment;
use std::collections::VecDeque;
use std::time::Duration;

/// What is looked at.
const WINDOW: Duration = Duration::from_secs(2);
/// Without a reply for so long, clients notice that they wait.
const NOTICED: Duration = Duration::from_secs(1);

/// How a request ended.
#[derive(Clone, Copy, Debug)]
struct Ended {
    at: Moment,
    took: Duration,
    is_write: bool,
    failed: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Experience {
    ended: VecDeque<Ended>,
    /// When the last request succeeded.
    succeeded: Moment,
}

impl Experience {
    pub(super) fn replied(&mut self, kind: Kind, took: Duration, failed: bool, now: Moment) {
        while self.ended.front().is_some_and(|it| now.since(it.at) > WINDOW) {
            self.ended.pop_front();
        }
        self.ended.push_back(Ended { at: now, took, is_write: kind == Kind::Write, failed });
        if !failed {
            self.succeeded = now;
        }
    }

    /// In a sentence. `server` is the node that they are connected to.
    pub(super) fn tell(&self, server: Option<&str>, outstanding: usize, now: Moment) -> String {
        let silent = now.since(self.succeeded);
        let Some(server) = server else {
            return format!(
                "The clients have no node that serves the volume, for {}.",
                seconds(silent)
            );
        };
        let recent = || self.ended.iter().filter(|it| now.since(it.at) <= WINDOW);
        let failed = recent().filter(|it| it.failed).count();
        if failed > 0 {
            let all = recent().count();
            return format!("{server} fails requests of the clients: {failed} of the last {all}.");
        }
        if outstanding > 0 && silent >= NOTICED {
            let waiting = if outstanding == 1 { "request waits" } else { "requests wait" };
            return format!(
                "The clients wait for {server}: {outstanding} {waiting}, and none has ended for {}.",
                seconds(silent)
            );
        }
        let mut times: Vec<Duration> =
            recent().filter(|it| it.is_write).map(|it| it.took).collect();
        times.sort_unstable();
        let (Some(median), Some(p99)) = (share(&times, 50), share(&times, 99)) else {
            return format!("The clients are connected to {server}.");
        };
        let span = WINDOW.min(now.since(Moment::ZERO)).as_secs_f64().max(0.001);
        format!(
            "{server} acknowledges {:.0} writes/s: median {}, p99 {}.",
            times.len() as f64 / span,
            millis(median),
            millis(p99)
        )
    }
}

/// The time that this many percent of the requests took at most.
fn share(times: &[Duration], percent: usize) -> Option<Duration> {
    times.get((times.len() * percent / 100).min(times.len().saturating_sub(1))).copied()
}

fn millis(span: Duration) -> String {
    format!("{:.1} ms", span.as_secs_f64() * 1000.0)
}

fn seconds(span: Duration) -> String {
    format!("{:.0} s", span.as_secs_f64())
}
