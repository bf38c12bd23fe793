// SPDX-License-Identifier: Apache-2.0
//! What a forecast promised, and whether it holds.

use super::queue::{anew, brief};
use super::{AnswersSeen, Figure, Judgement, Label, Seen, Times, exact, millis};
use core::time::Duration;
use helio_units::{Bandwidth, Bytes, Mode, Rate};

/// What may be more than was forecast, in percent, before it is told.
pub const TOLERANCE_PERCENT: u64 = 10;
/// What the 99th percentile of answers may be more: what a busy machine adds to every hundredth is in no forecast.
const P99_TOLERANCE_PERCENT: u64 = 25;
/// Answers may take so much longer besides: the machine wakes threads.
const ANSWER_SLACK: Duration = Duration::from_millis(1);
/// A round trip may be longer by so much besides: the peer takes its turn.
const ROUND_TRIP_SLACK: Duration = Duration::from_millis(1);
/// The peer may be so much further behind besides.
const LAG_SLACK: Bytes = Bytes::kib(64);
/// The same as an age.
const BEHIND_SLACK: Duration = Duration::from_millis(10);

/// One run of a forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    /// The link as it was named.
    pub link: String,
    /// Its round trip.
    pub round_trip: Duration,
    /// Its rate; none where it has no limit, or an older forecast does not tell.
    pub rate: Option<Rate>,
    /// The mode.
    pub mode: Mode,
    /// The queue's bound.
    pub bound: Bytes,
    /// The most it held.
    pub high: Bytes,
    /// How far the peer was behind at 99 % of the moments.
    pub lag: Bytes,
    /// The same as an age.
    pub behind: Duration,
    /// What half of the writes take, and 99 of 100; none where there are none.
    pub writes: Option<[Duration; 2]>,
    /// The same of flushes.
    pub flushes: Option<[Duration; 2]>,
    /// What is written.
    pub throughput: Rate,
}

const fn tolerated(value: u64) -> u64 {
    value.saturating_add(value / 100 * TOLERANCE_PERCENT + value % 100 * TOLERANCE_PERCENT / 100)
}

fn tolerated_time(time: Duration) -> Duration {
    more(time, TOLERANCE_PERCENT)
}

/// So many percent longer.
fn more(time: Duration, percent: u64) -> Duration {
    time + time.mul_f64(percent as f64 / 100.0)
}

/// What helps where it is not the link: another forecast, of what there is.
fn again(seen: &Seen) -> [String; 1] {
    let group = &seen.group;
    [format!(
        "`helio trace start {group} --for 1h` records the requests; then run `helio plan forecast` with this trace"
    )]
}

pub(super) fn held(label: Label, seen: &Seen, promise: &Promise) -> Judgement {
    match label {
        Label::LinkRate => rate(seen, promise),
        Label::LinkRoundTrip => round_trip(seen, promise),
        Label::PlanMode => mode(seen, promise),
        Label::PlanQueue => queue(seen, promise),
        Label::PlanHighWater => high(seen, promise),
        Label::PlanLag => lag(seen, promise),
        Label::PlanLatency | Label::PlanMedian | Label::PlanFlushLatency => {
            answers(label, seen, promise)
        }
        _ => load(seen, promise),
    }
}

fn rate(seen: &Seen, promise: &Promise) -> Judgement {
    let label = Label::LinkRate;
    let Some(planned) = promise.rate else {
        return Judgement::unknown(
            label,
            format!("the forecast's link {} has no rate", promise.link),
        );
    };
    if let Err(why) = &seen.link {
        return Judgement::unknown(label, why.clone());
    }
    if !seen.queue.pressed {
        let told = format!(
            "the link was not full during the measurement: {} went out and nothing waited",
            Bandwidth(seen.sent)
        );
        return Judgement::unknown(label, told);
    }
    let told = format!(
        "{} was sent while more waited; the forecast has {}",
        Bandwidth(seen.sent),
        Bandwidth(planned)
    );
    let least = planned.0 / 100 * (100 - TOLERANCE_PERCENT);
    let figure = Figure::of(seen.sent.0 as f64, least as f64, "B/s");
    if seen.sent.0 >= least {
        return Judgement::well(label, told).figure(figure);
    }
    Judgement::change(label, told).figure(figure).hints([
        "`helio lab link primary` and `standby` measure the link alone; if it carries more, check buffers-limit and \
         the disk of the peer"
            .into(),
        format!("if it does not: a faster link, or a forecast with rate={}kB/s", seen.sent.0 / 1000),
    ])
}

fn round_trip(seen: &Seen, promise: &Promise) -> Judgement {
    let label = Label::LinkRoundTrip;
    let link = match &seen.link {
        Ok(link) => link,
        Err(why) => return Judgement::unknown(label, why.clone()),
    };
    let (found, planned) = (link.round_trip, promise.round_trip);
    let most = tolerated_time(planned) + ROUND_TRIP_SLACK;
    let told = format!("{} at least; the forecast has {}", millis(found), millis(planned));
    let figure = Figure::of(found.as_secs_f64() * 1e3, most.as_secs_f64() * 1e3, "ms");
    if found <= most {
        return Judgement::well(label, told).figure(figure);
    }
    Judgement::change(label, told).figure(figure).hints([
        format!("ask the provider of the link; forecast again with rtt={}us", found.as_micros()),
        "in sync and nearsync every write takes that much longer; windows and queues must hold that much more".into(),
    ])
}

fn mode(seen: &Seen, promise: &Promise) -> Judgement {
    let (label, group, planned) = (Label::PlanMode, &seen.group, promise.mode);
    if seen.mode == planned {
        return Judgement::well(label, format!("{planned}, as forecast"));
    }
    Judgement::change(label, format!("{}; the forecast has {planned}", seen.mode))
        .hints([format!("`helio mode {group} {planned}`, or a forecast of {}", seen.mode)])
}

fn queue(seen: &Seen, promise: &Promise) -> Judgement {
    let (label, queue) = (Label::PlanQueue, &seen.queue);
    let told = format!("{}; the forecast has {}", queue.bound, promise.bound);
    let figure = Figure::of(queue.bound.0 as f64, promise.bound.0 as f64, "B");
    let judged = match (queue.bound >= promise.bound, queue.automatic) {
        (true, _) => return Judgement::well(label, told).figure(figure),
        (false, true) => Judgement::watch(
            label,
            format!("{told}; it grows automatically with the measured rate of the link"),
        ),
        (false, false) => Judgement::change(label, told),
    };
    let size = exact(promise.bound);
    judged.figure(figure).hints([format!("`helio queue set {} --memory {size}`", seen.group)])
}

fn high(seen: &Seen, promise: &Promise) -> Judgement {
    let (label, found) = (Label::PlanHighWater, seen.queue.high);
    let most = tolerated(promise.high.0);
    let told = format!("{found}; the forecast has {}", promise.high);
    let figure = Figure::of(found.0 as f64, most as f64, "B");
    if found.0 <= most {
        return Judgement::well(label, told).figure(figure);
    }
    Judgement::watch(label, told).figure(figure).hints(again(seen))
}

fn lag(seen: &Seen, promise: &Promise) -> Judgement {
    let label = Label::PlanLag;
    let most = tolerated(promise.lag.0).saturating_add(LAG_SLACK.0);
    let oldest = tolerated_time(promise.behind) + BEHIND_SLACK;
    let told = format!(
        "{} and {} behind; the forecast has {} and {}",
        seen.lag,
        brief(seen.behind),
        promise.lag,
        brief(promise.behind)
    );
    let figure = if seen.behind > oldest {
        Figure::of(seen.behind.as_secs_f64(), oldest.as_secs_f64(), "s")
    } else {
        Figure::of(seen.lag.0 as f64, most as f64, "B")
    };
    if seen.lag.0 <= most && seen.behind <= oldest {
        return Judgement::well(label, told).figure(figure);
    }
    Judgement::change(label, told)
        .figure(figure)
        .hints([
            "a forced failover loses that much more; link-rate and plan-load show the cause".into()
        ])
        .hints(again(seen))
}

/// How many times there must be for one in a hundred of them to say something.
const ENOUGH: u64 = 100;

/// Times that are held against a forecast's.
#[derive(Clone, Copy)]
struct Held {
    label: Label,
    /// What they are times of.
    what: &'static str,
    /// Who of them they are told of, and for whom the forecast is.
    share: [&'static str; 2],
    count: u64,
    found: Duration,
    /// None where the forecast has none of these.
    planned: Option<Duration>,
    tolerance_percent: u64,
}

fn answers(label: Label, seen: &Seen, promise: &Promise) -> Judgement {
    let times = match &seen.answers {
        Ok(times) => times,
        Err(why) => return Judgement::unknown(label, why.clone()),
    };
    if seen.mode != promise.mode {
        return Judgement::unknown(label, format!("the forecast is of {}", promise.mode));
    }
    let AnswersSeen { writes, flushes } = times;
    let slowest = |what, of: &Times, planned: Option<[Duration; 2]>| Held {
        label,
        what,
        share: ["99 %", "as the p99"],
        count: of.count,
        found: of.p99,
        planned: planned.map(|[_, p99]| p99),
        tolerance_percent: P99_TOLERANCE_PERCENT,
    };
    let of_writes = slowest("writes", writes, promise.writes);
    let held = match label {
        Label::PlanLatency => of_writes,
        Label::PlanMedian => Held {
            share: ["half", "as the median"],
            found: writes.median,
            planned: promise.writes.map(|[median, _]| median),
            tolerance_percent: TOLERANCE_PERCENT,
            ..of_writes
        },
        _ => slowest("flushes", flushes, promise.flushes),
    };
    took(held, seen)
}

fn took(held: Held, seen: &Seen) -> Judgement {
    let Held { label, what, share: [share, whom], count, found, planned, tolerance_percent } = held;
    let Some(planned) = planned else {
        return Judgement::unknown(label, format!("the forecast has no {what}"));
    };
    if count < ENOUGH {
        let told = format!(
            "{count} {what} were acknowledged since the queue was reset; at least {ENOUGH} are needed"
        );
        return Judgement::unknown(label, told);
    }
    let most = more(planned, tolerance_percent) + ANSWER_SLACK;
    let told = format!(
        "{share} of {count} {what} were acknowledged within {}; the forecast has {} {whom}",
        millis(found),
        millis(planned)
    );
    let figure = Figure::of(found.as_secs_f64() * 1e3, most.as_secs_f64() * 1e3, "ms");
    if found <= most {
        return Judgement::well(label, told).figure(figure);
    }
    let judged = if label == Label::PlanMedian { Judgement::watch } else { Judgement::change };
    judged(label, told).figure(figure).hints([
        "link-round-trip, link-rate and writes-wait show whether the cause is the link or the queue; if they are \
         well, it is the disk or the machine: forecast again with `--disk` as `helio lab disk` measures it"
            .into(),
        anew(&seen.group),
    ])
}

fn load(seen: &Seen, promise: &Promise) -> Judgement {
    let (label, found, planned) = (Label::PlanLoad, seen.written, promise.throughput);
    let most = tolerated(planned.0);
    let told = format!("{found} is written; the forecast has {planned} on average");
    let figure = Figure::of(found.0 as f64, most as f64, "B/s");
    if found.0 <= most {
        return Judgement::well(label, told).figure(figure);
    }
    Judgement::watch(label, told).figure(figure).hints(again(seen))
}
