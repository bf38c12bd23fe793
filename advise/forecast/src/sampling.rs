// SPDX-License-Identifier: Apache-2.0
//! Long workloads by samples: some windows of them, evenly spread, and the one in which most is written.
//!
//! Before each window the workload runs for a while uncounted, so that queues are as full as they would be. What took
//! longer than that to build up is missed; [`deviations`] says by how much, where the whole was run too.

use core::time::Duration;
use helio_twin::{Figures, Outcome, Pair, PairConfig, Run, Stuck};
use helio_units::{Bytes, Items, Moment};
use helio_workload::{Kind, Request, Workload};

/// Samples of a run: as many as a plot can show, and percentiles of lag need.
const SAMPLES: u32 = 20_000;
/// Multiples of the golden ratio's fraction fill an interval more evenly than any other number's.
const GOLDEN: f64 = 0.618_033_988_75;
const SAMPLE_LEAST: Duration = Duration::from_millis(10);

/// What of a workload is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// All of it.
    Whole,
    /// Windows.
    Windows {
        /// How many, evenly spread; the busiest comes on top.
        count: u32,
        /// How long each is.
        each: Duration,
        /// How long the workload runs before each without being counted.
        lead: Duration,
    },
}

/// One window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    begin: Moment,
    measured: Moment,
    end: Moment,
    /// Whether its distributions count; the busiest window's count for extremes alone.
    counts: bool,
}

impl Window {
    /// What is asked for within it; what comes as the workload ends belongs to the last.
    fn requests(self, workload: &Workload) -> &[Request] {
        let all = workload.requests();
        let at = |moment| all.partition_point(|request| request.at < moment);
        let last = self.end >= Moment::ZERO + workload.span();
        &all[at(self.begin)..if last { all.len() } else { at(self.end) }]
    }
}

impl Sampling {
    fn windows(self, workload: &Workload) -> Vec<Window> {
        let span = workload.span();
        let whole = Moment::ZERO + span;
        let Self::Windows { count, each, lead } = self else {
            return vec![Window {
                begin: Moment::ZERO,
                measured: Moment::ZERO,
                end: whole,
                counts: true,
            }];
        };
        if each * count >= span || count == 0 {
            return Self::Whole.windows(workload);
        }
        let window = |at: Moment, counts| Window {
            begin: Moment(at.0.saturating_sub(lead.as_nanos() as u64)),
            measured: at,
            end: (at + each).min(whole),
            counts,
        };
        // One in each of equal parts, at another place in each: what comes every hour is met at every minute of it.
        let part = span / count;
        let even = (0..count).map(|n| {
            let place = (f64::from(n) * GOLDEN).fract();
            window(Moment::ZERO + part * n + (part - each).mul_f64(place), true)
        });
        even.chain([window(busiest(workload, each), false)]).collect()
    }

    /// Runs it. Returns the figures, and how much of the workload they count.
    pub(crate) fn run(
        self,
        workload: &Workload,
        config: &PairConfig,
        patience: Duration,
    ) -> (Result<Figures, Stuck>, Duration) {
        let windows = self.windows(workload);
        let mut measured = Duration::ZERO;
        let mut all: Option<Figures> = None;
        for window in windows {
            let mut pair = match Pair::new(config.clone()) {
                Ok(pair) => pair,
                Err(stuck) => return (Err(stuck), Duration::ZERO),
            };
            let requests = window.requests(workload);
            let span = window.end.since(window.measured);
            let figures = pair.run(&Run {
                requests,
                begin: window.begin,
                measured: window.measured,
                end: window.end,
                patience,
                every: (span / SAMPLES).max(SAMPLE_LEAST),
            });
            if window.counts {
                measured += span;
            }
            match &mut all {
                Some(all) => merge(all, figures, window.counts),
                None => all = Some(figures),
            }
        }
        (Ok(all.expect("there is always a window")), measured)
    }
}

/// Where most bytes are written within that long, looked for in steps of a quarter of it.
fn busiest(workload: &Workload, each: Duration) -> Moment {
    let step = (each.as_nanos() as u64 / 4).max(1);
    let mut sums = vec![0u64; (workload.span().as_nanos() as u64 / step + 1) as usize];
    let writes = workload.requests().iter().filter(|request| request.kind == Kind::Write);
    writes.for_each(|request| sums[(request.at.0 / step) as usize] += request.extent.length);
    let of = |at: usize| sums.iter().skip(at).take(4).sum::<u64>();
    let most = (0..sums.len()).rev().max_by_key(|at| of(*at)).unwrap_or(0);
    let last = workload.span().saturating_sub(each);
    Moment(most as u64 * step).min(Moment::ZERO + last)
}

fn merge(all: &mut Figures, other: Figures, counts: bool) {
    if counts {
        all.writes.add_all(&other.writes, 1);
        all.responses.add_all(&other.responses, 1);
        all.flushes.add_all(&other.flushes, 1);
        all.reads.add_all(&other.reads, 1);
        all.lag.add_all(&other.lag, 1);
        all.behind.add_all(&other.behind, 1);
        all.samples.extend(other.samples);
        all.answered += other.answered;
        all.took += other.took;
        all.denied.0 += other.denied.0;
        all.throttled.0 += other.throttled.0;
        all.throttle_time += other.throttle_time;
        all.sent += other.sent;
        all.received += other.received;
    }
    all.dropped.0 += other.dropped.0;
    all.events.0 += other.events.0;
    all.bound = all.bound.max(other.bound);
    all.queue_high = all.queue_high.max(other.queue_high);
    all.items_high = all.items_high.max(other.items_high);
    all.full_after = all.full_after.or(other.full_after);
    all.level_after = all.level_after.max(other.level_after);
    let rank = |outcome: Outcome| match outcome {
        Outcome::Level => 0,
        Outcome::Behind => 1,
        Outcome::Unanswered => 2,
    };
    if rank(other.outcome) > rank(all.outcome) {
        all.outcome = other.outcome;
    }
}

/// How far a figure by samples is from the same of the whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// Which figure.
    pub what: &'static str,
    /// By samples, and of the whole, as people read them.
    pub sampled: String,
    /// Of the whole.
    pub whole: String,
    /// The difference in percent of the whole's.
    pub percent: f64,
}

/// How far figures by samples are from those of the whole.
#[must_use]
pub fn deviations(sampled: &Figures, whole: &Figures) -> Vec<Deviation> {
    let time = |nanos: u64| format!("{:?}", Duration::from_nanos(nanos));
    let size = |bytes: u64| Bytes(bytes).to_string();
    let count = |items: u64| Items(items).to_string();
    type Tell<'a> = &'a dyn Fn(u64) -> String;
    let rows: [(&'static str, u64, u64, Tell<'_>); 7] = [
        ("write p50", sampled.writes.at(50.0), whole.writes.at(50.0), &time),
        ("write p99", sampled.writes.at(99.0), whole.writes.at(99.0), &time),
        ("write p99.9", sampled.writes.at(99.9), whole.writes.at(99.9), &time),
        ("lag p99", sampled.lag.at(99.0), whole.lag.at(99.0), &size),
        ("behind p99", sampled.behind.at(99.0), whole.behind.at(99.0), &time),
        ("queue high", sampled.queue_high.0, whole.queue_high.0, &size),
        ("items high", sampled.items_high.0, whole.items_high.0, &count),
    ];
    let row = |(what, of, from, tell): (_, u64, u64, Tell<'_>)| Deviation {
        what,
        sampled: tell(of),
        whole: tell(from),
        percent: if from == 0 { 0.0 } else { (of as f64 / from as f64 - 1.0) * 100.0 },
    };
    rows.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn every_request_of_a_whole_workload_is_run_the_last_one_too() {
        let work = synthetic("rate=100,for=10s,even").expect("fields").draw().expect("fine");
        let last = work.requests().last().expect("there are some").at;
        let span = last.since(Moment::ZERO);
        let cut = Workload::new(work.volumes().to_vec(), work.requests().to_vec(), span);
        let cut = cut.expect("it lasts as long as its last request");
        assert_eq!(cut.span(), span, "the last request comes as it ends");
        let windows = Sampling::Whole.windows(&cut);
        let run: usize = windows.iter().map(|window| window.requests(&cut).len()).sum();
        assert_eq!(run, cut.requests().len());
    }

    #[test]
    fn windows_are_spread_and_the_busiest_is_among_them() {
        let work =
            synthetic("rate=100,for=1000s,burst=50s/500s").expect("fields").draw().expect("fine");
        let each = Duration::from_secs(20);
        let sampling = Sampling::Windows { count: 5, each, lead: Duration::from_secs(10) };
        let windows = sampling.windows(&work);
        let begins: Vec<u64> = windows.iter().map(|w| w.measured.0 / 1_000_000_000).collect();
        let parts: Vec<u64> = begins[..5].iter().map(|at| at / 200).collect();
        assert_eq!(parts, [0, 1, 2, 3, 4]);
        let mut places: Vec<u64> = begins[..5].iter().map(|at| at % 200 / 40).collect();
        places.sort_unstable();
        places.dedup();
        assert!(places.len() >= 4, "what comes every 200 s is missed: {begins:?}");
        assert!(
            begins[5] < 40 || (500..540).contains(&begins[5]),
            "bursts are there: {}",
            begins[5]
        );
        assert!(
            windows[1..5].iter().all(|w| w.counts && w.measured.since(w.begin).as_secs() == 10)
        );
        assert_eq!(Sampling::Windows { count: 60, each, lead: each }.windows(&work).len(), 1);
    }
}
