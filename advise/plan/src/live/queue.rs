// SPDX-License-Identifier: Apache-2.0
//! The rules of the queue: how full it was, whether it fills, and what writes met at its bound.

use super::{Counted, Figure, Judgement, Label, Seen, Verdict, exact};
use crate::{ENLARGE_PERCENT, Flow, HighWater, WATCH_PERCENT, high_water};
use core::time::Duration;
use helio_units::Bytes;

/// The first bound, by doubling, that a mark is below [`WATCH_PERCENT`] of.
pub(super) fn enlarged(bound: u64, mark: u64) -> u64 {
    let mut larger = bound.max(1).saturating_mul(2);
    while high_water(Bytes(mark), Bytes(larger)) != HighWater::Fine {
        larger = larger.saturating_mul(2);
    }
    larger
}

/// The commands that make a queue so large, and keep it so.
fn enlarge(group: &str, bound: Bytes) -> [String; 2] {
    let size = exact(bound);
    [
        format!("`helio queue set {group} --memory {size}`"),
        format!("to keep it, in the configuration file: [group.{group}.queue] memory = \"{size}\""),
    ]
}

pub(super) fn anew(group: &str) -> String {
    format!(
        "`helio queue reset {group}` resets high-water marks, counters and histograms; repeat this after the busiest \
         hour"
    )
}

fn marked(label: Label, mark: u64, bound: u64, told: String) -> Judgement {
    let verdict = match high_water(Bytes(mark), Bytes(bound)) {
        HighWater::Fine => Verdict::Well,
        HighWater::Watch => Verdict::Watch,
        HighWater::Enlarge => Verdict::Change,
    };
    let threshold = if verdict == Verdict::Change { ENLARGE_PERCENT } else { WATCH_PERCENT };
    let share = mark as f64 * 100.0 / bound as f64;
    let told = format!("{told}, {share:.0} %");
    Judgement::new(label, verdict, told).figure(Figure::of(share, threshold as f64, "%"))
}

pub(super) fn bytes(seen: &Seen) -> Judgement {
    let (queue, group) = (&seen.queue, &seen.group);
    let told = format!("at most {} of {} were used", queue.high, queue.bound);
    let judged = marked(Label::QueueBytes, queue.high.0, queue.bound.0, told);
    match judged.verdict {
        Verdict::Change => {
            let larger = Bytes(enlarged(queue.bound.0, queue.high.0));
            judged.hints(enlarge(group, larger)).hints([anew(group)])
        }
        Verdict::Watch => judged.hints([anew(group)]),
        Verdict::Well | Verdict::Unknown => judged,
    }
}

pub(super) fn items(seen: &Seen) -> Judgement {
    let (queue, group) = (&seen.queue, &seen.group);
    let told = format!("at most {} of {} items were used", queue.high_items, queue.bound_items);
    let judged = marked(Label::QueueItems, queue.high_items, queue.bound_items, told);
    match judged.verdict {
        Verdict::Change => {
            let larger = enlarged(queue.bound_items, queue.high_items);
            judged.hints([
                format!("`helio queue set {group} --items {larger}`"),
                format!(
                    "to keep it, in the configuration file: [group.{group}.queue] items = {larger}"
                ),
                anew(group),
            ])
        }
        Verdict::Watch => judged.hints([anew(group)]),
        Verdict::Well | Verdict::Unknown => judged,
    }
}

pub(super) fn fills(seen: &Seen) -> Judgement {
    let (label, queue) = (Label::QueueFills, &seen.queue);
    let flow = Flow { fill: seen.written, drain: seen.sent };
    let figure = Figure::of(flow.fill.0 as f64, flow.drain.0 as f64, "B/s");
    if !queue.pressed {
        let told = format!("{} was written, and the queue did not grow", flow.fill);
        return Judgement::well(label, told).figure(figure);
    }
    let told = format!("{} was written and {} was sent", flow.fill, flow.drain);
    match flow.time_to_full(queue.bound.saturating_sub(queue.held)) {
        None => Judgement::well(label, told).figure(figure),
        Some(left) => {
            let told = format!("{told}: if this continues, the queue is full in {}", brief(left));
            Judgement::watch(label, told).figure(figure).hints([
                "a larger queue absorbs a longer peak; if this is not a peak, use a faster link or write less"
                    .into(),
            ])
        }
    }
}

/// What happened at the bound: of late it is to be changed, before it is to be known.
fn met(label: Label, counted: Counted, what: &str, more: &str) -> Judgement {
    let figure = Figure::of(counted.meanwhile as f64, 0.0, "times");
    match counted {
        Counted { meanwhile: 0, before: 0 } => Judgement::well(label, format!("0 {what}")),
        Counted { meanwhile: 0, before } => Judgement::watch(
            label,
            format!(
                "{before} {what} since the queue was reset or this node became primary; none during the measurement"
            ),
        ),
        Counted { meanwhile, .. } => {
            Judgement::change(label, format!("{meanwhile} {what} during the measurement{more}"))
        }
    }
    .figure(figure)
}

/// Hints for what is to be changed; what is to be watched can be forgotten.
fn with<const N: usize>(
    judged: Judgement,
    seen: &Seen,
    hints: impl FnOnce() -> [String; N],
) -> Judgement {
    match judged.verdict {
        Verdict::Change => judged.hints(hints()),
        Verdict::Watch => judged.hints([anew(&seen.group)]),
        Verdict::Well | Verdict::Unknown => judged,
    }
}

fn larger(seen: &Seen) -> [String; 2] {
    enlarge(&seen.group, Bytes(enlarged(seen.queue.bound.0, seen.queue.high.0)))
}

pub(super) fn waits(seen: &Seen) -> Judgement {
    let queue = &seen.queue;
    let more = format!(", {} in all", brief(queue.wait_time));
    let what = "writes waited for space in the queue";
    with(met(Label::WritesWait, queue.waited, what, &more), seen, || larger(seen))
}

pub(super) fn refused(seen: &Seen) -> Judgement {
    let what = "writes failed because the queue was full";
    let block = format!("`helio queue set {} --when-full block` makes them wait", seen.group);
    with(met(Label::WritesRefused, seen.queue.refused, what, ""), seen, || {
        let [now, file] = larger(seen);
        [now, file, block]
    })
}

pub(super) fn dropped(seen: &Seen) -> Judgement {
    let what = "drops of the full queue (only dirty regions were recorded)";
    let block = format!(
        "`helio queue set {} --when-full block/log` keeps the write order, but writers wait",
        seen.group
    );
    with(met(Label::QueueDropped, seen.queue.dropped, what, ""), seen, || {
        let [now, file] = larger(seen);
        [now, file, block]
    })
}

/// A span in the unit that suits it.
pub(super) fn brief(span: Duration) -> String {
    match span.as_secs_f64() {
        s if s >= 120.0 => format!("{:.1} min", s / 60.0),
        s if s >= 1.0 => format!("{s:.1} s"),
        s => format!("{:.1} ms", s * 1e3),
    }
}
