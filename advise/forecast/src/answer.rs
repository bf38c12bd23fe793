// SPDX-License-Identifier: Apache-2.0
//! The answer: which of the combinations that were run meets the goals, and why.
//!
//! The strictest mode wins that meets every goal; of its runs the one that leaves the queue room enough, with the
//! smallest queue, then the smallest buffer. Streams and compression are no choice today: a group has one stream, and
//! nothing is compressed; the answer says whether that is what holds it back.

use crate::grid::{Cell, Point, Queue};
use core::fmt::Write;
use core::time::Duration;
use helio_twin::{Figures, Outcome};
use helio_units::{Bandwidth, Bytes, Mode, Rate};

/// A queue that was fuller than this at its highest is to be enlarged (Sun's rule for its remote mirror: 80 to 85 %).
const ROOM_PERCENT: u64 = 80;

/// What must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Goals {
    /// The 99th percentile of writes' latency.
    pub latency_p99: Option<Duration>,
    /// What a forced failover may lose, as the age of the peer's image at 99 % of the time.
    pub rpo: Option<Duration>,
    /// From the end of an outage until the copies are level.
    pub resync: Option<Duration>,
}

/// The combination to take, and the argument.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Index of the cell; none where none is fit.
    pub cell: Option<usize>,
    /// Sentences, each with its number.
    pub reasons: Vec<String>,
    /// What would help where no combination meets the goals.
    pub hints: Vec<String>,
}

/// Why a cell is not fit; nothing where it is.
fn misses(cell: &Cell, goals: &Goals) -> Vec<String> {
    let figures = match &cell.figures {
        Ok(figures) => figures,
        Err(stuck) => return vec![stuck.to_string()],
    };
    let mut misses = Vec::new();
    let mut over = |what: &str, found: Duration, goal: Option<Duration>| {
        if let Some(goal) = goal.filter(|goal| found > *goal) {
            misses.push(format!("{what} is {found:.1?}, more than {goal:?}"));
        }
    };
    over("write p99", figures.responses.time_at(99.0), goals.latency_p99);
    over("the peer's copy at 99 % of the time", rpo(cell.point.mode, figures), goals.rpo);
    over("in sync after the outage", figures.level_after.unwrap_or_default(), goals.resync);
    if figures.outcome == Outcome::Unanswered {
        misses.push("requests were still not acknowledged when the patience was over".into());
    }
    if figures.denied.0 > 0 {
        misses.push(format!("{} requests failed", figures.denied));
    }
    misses
}

/// What an operator loses. Under sync and nearsync an answered write is at the peer while the two are connected and
/// level; how far the peer's image is behind counts there only in an outage.
fn rpo(mode: Mode, figures: &Figures) -> Duration {
    let away = figures.level_after.is_some() || figures.outcome != Outcome::Level;
    if mode == Mode::Async || away { figures.behind.time_at(99.0) } else { Duration::ZERO }
}

fn strictness(mode: Mode) -> u8 {
    match mode {
        Mode::Sync => 0,
        Mode::NearSync => 1,
        Mode::Async => 2,
        Mode::Periodic => 3,
    }
}

/// The queue's bound that was in force.
fn bound(point: &Point, figures: &Figures) -> Bytes {
    match point.queue {
        Queue::Auto => figures.bound,
        Queue::Bytes(bytes) => bytes,
    }
}

fn has_room(cell: &Cell) -> bool {
    cell.figures.as_ref().is_ok_and(|figures| {
        let room = bound(&cell.point, figures).0 / 100 * ROOM_PERCENT;
        figures.throttled.0 == 0 && figures.dropped.0 == 0 && figures.queue_high.0 <= room
    })
}

/// Holds the cells against the goals.
#[must_use]
pub fn answer(cells: &[Cell], goals: &Goals) -> Answer {
    let fit = cells.iter().enumerate().filter(|(_, cell)| misses(cell, goals).is_empty());
    let best = fit.min_by_key(|(_, cell)| {
        let figures = cell.figures.as_ref().expect("a cell that is fit has figures");
        (
            strictness(cell.point.mode),
            !has_room(cell),
            bound(&cell.point, figures),
            cell.point.buffer.window(),
        )
    });
    match best {
        Some((at, cell)) => {
            let mut reasons = Vec::new();
            why_mode(cells, cell, goals, &mut reasons);
            if let Ok(figures) = &cell.figures {
                why_queue(cell, figures, &mut reasons);
                why_buffer(cell, figures, &mut reasons);
                why_link(cell, figures, &mut reasons);
            }
            Answer { cell: Some(at), reasons, hints: Vec::new() }
        }
        None => nothing(cells, goals),
    }
}

fn why_mode(cells: &[Cell], chosen: &Cell, goals: &Goals, reasons: &mut Vec<String>) {
    let Ok(figures) = &chosen.figures else { return };
    let mode = chosen.point.mode;
    let latency = figures.responses.time_at(99.0);
    let mut text = format!(
        "{mode}: half of the writes are acknowledged within {:.1?}, 99 % within {latency:.1?}",
        figures.responses.time_at(50.0)
    );
    let loses = rpo(mode, figures);
    let _infallible = if loses.is_zero() {
        write!(text, "; an acknowledged write is on the peer")
    } else {
        write!(text, "; a forced failover loses at most {loses:.1?} of writes at 99 % of the time")
    };
    reasons.push(text);
    for stricter in Mode::IN_ORDER.into_iter().filter(|m| strictness(*m) < strictness(mode)) {
        let same =
            |cell: &&Cell| cell.point.mode == stricter && cell.point.link == chosen.point.link;
        let of: Vec<&Cell> = cells.iter().filter(same).collect();
        let nearest = of.iter().map(|cell| misses(cell, goals)).min_by_key(Vec::len);
        if let Some(nearest) = nearest.filter(|misses| !misses.is_empty()) {
            reasons.push(format!("not {stricter}: {}", nearest.join("; ")));
        }
    }
}

fn why_queue(cell: &Cell, figures: &Figures, reasons: &mut Vec<String>) {
    let bound = bound(&cell.point, figures);
    let high = figures.queue_high;
    let percent = high.0 as f64 * 100.0 / bound.0.max(1) as f64;
    reasons.push(if has_room(cell) {
        format!("queue of {bound}: at most {high} were used ({percent:.0} %; it should be enlarged from \
                 {ROOM_PERCENT} % on)")
    } else {
        let wanted = Bytes((high.0 * 100 / ROOM_PERCENT).next_power_of_two());
        format!(
            "queue of {bound}: it reached {high} ({percent:.0} %), {} writes waited for {:.1?} in all and it was \
             dropped {} times; repeat with {wanted} or more",
            figures.throttled, figures.throttle_time, figures.dropped
        )
    });
}

fn why_buffer(cell: &Cell, figures: &Figures, reasons: &mut Vec<String>) {
    let link = &cell.point.link;
    let window = cell.point.buffer.window();
    if link.relay {
        return;
    }
    let nanos = link.round_trip.as_nanos().max(1);
    let most =
        Rate(u64::try_from(u128::from(window.0) * 1_000_000_000 / nanos).unwrap_or(u64::MAX));
    let needs = figures.throughput();
    let mut text = format!(
        "buffers {}: a window of {window} carries {most} in one stream over {:?}; the workload writes {needs}",
        cell.point.buffer, link.round_trip
    );
    if let Some(rate) = link.rate {
        let product = rate.bytes_in(link.round_trip);
        let _infallible = write!(
            text,
            "; bandwidth times delay is {product}, twice that is {}",
            Bytes(product.0 * 2)
        );
    }
    text.push_str(if most.0 < needs.0 * 2 {
        "; a group has only one stream, so a larger buffer would help"
    } else {
        "; one stream is enough"
    });
    reasons.push(text);
}

fn why_link(cell: &Cell, figures: &Figures, reasons: &mut Vec<String>) {
    let Some(rate) = cell.point.link.rate else { return };
    let seconds = cell.measured.as_secs_f64().max(f64::MIN_POSITIVE);
    let busy = figures.sent.0 as f64 / seconds / rate.0 as f64 * 100.0;
    reasons.push(format!(
        "no compression: it is not available; the link is {busy:.0} % busy on average{}",
        if busy > 70.0 {
            ", and the peaks of the workload are higher: a faster link would help"
        } else {
            ""
        }
    ));
}

fn nothing(cells: &[Cell], goals: &Goals) -> Answer {
    let mut reasons = Vec::new();
    let mut hints = Vec::new();
    let nearest = cells.iter().min_by_key(|cell| {
        let count = misses(cell, goals).len();
        let latency = cell.figures.as_ref().map_or(Duration::MAX, |f| f.responses.time_at(99.0));
        (count, latency)
    });
    reasons.push("no combination meets every goal".into());
    if let Some(cell) = nearest {
        let Point { mode, queue, buffer, link } = &cell.point;
        let misses = misses(cell, goals).join("; ");
        reasons.push(format!(
            "nearest: {mode}, queue {queue}, buffers {buffer}, {}: {misses}",
            link.name
        ));
        let untried = cells.iter().all(|cell| cell.point.mode != Mode::Async);
        if goals.latency_p99.is_some_and(|goal| goal < link.round_trip) && untried {
            hints.push(format!(
                "sync and nearsync cost a round trip of {:?}; run async, too",
                link.round_trip
            ));
        }
        if let Ok(figures) = &cell.figures
            && (figures.throttled.0 > 0 || figures.dropped.0 > 0)
        {
            hints.push(format!(
                "the queue of {} was full; run a larger one",
                bound(&cell.point, figures)
            ));
        }
        if let (Ok(figures), Some(rate)) = (&cell.figures, link.rate)
            && figures.throughput().0 * 10 > rate.0 * 9
        {
            hints.push(format!(
                "the link carries {}, and the workload needs all of it: use a faster link",
                Bandwidth(rate)
            ));
        }
    }
    if hints.is_empty() {
        hints.push("relax a goal, or run more modes, queues and buffers".into());
    }
    Answer { cell: None, reasons, hints }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Grid, Sampling, disk, synthetic};
    use core::num::NonZeroUsize;

    fn cells(modes: Vec<Mode>, rtt: &str) -> Vec<Cell> {
        let disk = disk("nvme").expect("a name");
        let grid = Grid {
            modes,
            queues: vec![Queue::Bytes(Bytes::mib(4)), Queue::Bytes(Bytes::mib(16))],
            buffers: vec![Buffer::Auto],
            links: vec![format!("rtt={rtt},rate=100Mbit/s").parse().expect("a link")],
            outages: Vec::new(),
            disks: [disk, disk],
            depth: 256,
            sampling: Sampling::Whole,
            patience: Duration::from_secs(60),
            seed: 1,
        };
        let work = synthetic("rate=500,for=4s").expect("fields").draw().expect("fine");
        grid.run(&work, NonZeroUsize::MIN).expect("it runs")
    }

    #[test]
    fn the_strictest_mode_that_is_fast_enough_with_the_smallest_queue_wins() {
        let goals = |ms| Goals { latency_p99: Some(Duration::from_millis(ms)), ..Goals::default() };
        let near = cells(Mode::IN_ORDER.to_vec(), "2ms");
        let chosen = answer(&near, &goals(5));
        let point = &near[chosen.cell.expect("sync is fast enough")].point;
        assert_eq!((point.mode, point.queue), (Mode::Sync, Queue::Bytes(Bytes::mib(4))));
        let far = cells(Mode::IN_ORDER.to_vec(), "40ms");
        let chosen = answer(&far, &goals(5));
        assert_eq!(far[chosen.cell.expect("async is")].point.mode, Mode::Async);
        let told = chosen.reasons.join("\n");
        assert!(told.contains("not sync: write p99 is"), "{told}");
    }

    #[test]
    fn where_nothing_fits_it_says_what_would_help() {
        let far = cells(vec![Mode::Sync], "40ms");
        let goals = Goals { latency_p99: Some(Duration::from_millis(5)), ..Goals::default() };
        let none = answer(&far, &goals);
        assert_eq!(none.cell, None);
        assert!(none.hints.iter().any(|hint| hint.contains("async")), "{:?}", none.hints);
    }
}
