// SPDX-License-Identifier: Apache-2.0
//! The rules of the connection's socket buffers.

use super::{BufferSeen, Buffers, Figure, Judgement, Label, LinkSeen, Promise, Seen, exact};
use crate::{buffer, doubled, granted_by_linux, throughput};
use core::time::Duration;
use helio_units::{Bytes, Rate};

/// From this share on of the time in which there was something to send, buffers are what holds it up.
const LIMIT_PERCENT: f64 = 50.0;
/// Who sent for less than this share of the time says nothing about buffers.
const BUSY_PERCENT: f64 = 5.0;

/// Judges the connection, or says why it cannot be.
fn of_link(label: Label, seen: &Seen, judge: impl FnOnce(&LinkSeen) -> Judgement) -> Judgement {
    match &seen.link {
        Ok(link) => judge(link),
        Err(why) => Judgement::unknown(label, why.clone()),
    }
}

/// All buffers that are known: where, which, the limit on it, and the buffer.
fn all(seen: &Seen, link: &LinkSeen) -> Vec<(String, &'static str, &'static str, BufferSeen)> {
    let of = |node: &str, buffers: Buffers| {
        [
            (node.to_owned(), "send", "net.core.wmem_max", buffers.send),
            (node.to_owned(), "receive", "net.core.rmem_max", buffers.receive),
        ]
    };
    let there = link.there.into_iter().flat_map(|there| of(&seen.peer, there));
    of(&seen.node, link.here).into_iter().chain(there).collect()
}

/// That there may be more to it.
fn unknown_there(seen: &Seen, link: &LinkSeen) -> String {
    if link.there.is_some() {
        return String::new();
    }
    let (peer, group) = (&seen.peer, &seen.group);
    format!(
        "; {peer}'s are not known: `--peer-status FILE` names what `helio status {group} --json` prints there"
    )
}

pub(super) fn capped(seen: &Seen) -> Judgement {
    let label = Label::BuffersCapped;
    of_link(label, seen, |link| {
        let all = all(seen, link);
        let capped: Vec<_> = all
            .iter()
            .filter_map(|(node, which, limit, buffer)| {
                let requested = buffer.requested?;
                let short = buffer.actual < granted_by_linux(requested);
                short.then_some((node, which, limit, requested, buffer.actual))
            })
            .collect();
        let Some(&(_, _, _, requested, actual)) = capped.first() else {
            let asked = all.iter().any(|(.., buffer)| buffer.requested.is_some());
            let told =
                if asked { "what was asked for is granted" } else { "all are left to the kernel" };
            return Judgement::well(label, format!("{told}{}", unknown_there(seen, link)));
        };
        let told: Vec<_> = capped
            .iter()
            .map(|(node, which, _, requested, actual)| {
                format!("{node} asked for {requested} to {which} and has {actual}")
            })
            .collect();
        let (value, threshold) = (actual.0 as f64, granted_by_linux(requested).0 as f64);
        let mut judged =
            Judgement::change(label, told.join("; ")).figure(Figure::of(value, threshold, "B"));
        for (node, _, limit, requested, _) in &capped {
            judged = judged.hints([format!("on {node}: `sysctl -w {limit}={}`", requested.0)]);
        }
        judged.hints([
            "`helio lab search --write-sysctl FILE` makes such limits stay; a restart of the daemon asks again".into(),
        ])
    })
}

pub(super) fn unequal(seen: &Seen) -> Judgement {
    let label = Label::BuffersUnequal;
    of_link(label, seen, |link| {
        let all = all(seen, link);
        let asked = |requested: Option<Bytes>| requested.map_or_else(|| "auto".into(), exact);
        let first = all[0].3.requested;
        if all.iter().all(|(.., buffer)| buffer.requested == first) {
            let told =
                format!("{} is asked for everywhere{}", asked(first), unknown_there(seen, link));
            return Judgement::well(label, told);
        }
        let told: Vec<_> = all
            .iter()
            .map(|(node, which, _, buffer)| format!("{node} {which} {}", asked(buffer.requested)))
            .collect();
        let most = all.iter().filter_map(|(.., buffer)| buffer.requested).max().unwrap_or_default();
        let least = all.iter().map(|(.., buffer)| buffer.requested.unwrap_or_default()).min();
        let least = least.unwrap_or_default();
        Judgement::change(label, told.join(", "))
            .figure(Figure::of(least.0 as f64, most.0 as f64, "B"))
            .hints([one_size(&seen.group, &exact(most))])
    })
}

fn one_size(group: &str, size: &str) -> String {
    format!(
        "in the file, the same on both nodes, and a restart of both daemons: [group.{group}.link] send-buffer = \
         \"{size}\", receive-buffer = \"{size}\""
    )
}

pub(super) fn limit(seen: &Seen, promise: Option<&Promise>) -> Judgement {
    let label = Label::BuffersLimit;
    of_link(label, seen, |link| {
        let share =
            |part: Duration, whole: Duration| 100.0 * part.as_secs_f64() / whole.as_secs_f64();
        if link.busy.is_zero() || share(link.busy, seen.span) < BUSY_PERCENT {
            return Judgement::unknown(label, "hardly anything was sent during the measurement");
        }
        let limited = share(link.limited_by_peer + link.limited_here, link.busy);
        let told = format!(
            "for {limited:.0} % of the {:.1} s in which there was something to send",
            link.busy.as_secs_f64()
        );
        let figure = Figure::of(limited, LIMIT_PERCENT, "%");
        if limited < LIMIT_PERCENT {
            return Judgement::well(label, told).figure(figure);
        }
        let told = format!(
            "{told} {}",
            if here(link) {
                "this end's send buffer was full"
            } else {
                "the other end's receive buffer was"
            }
        );
        let Some(size) = fullest(link) else {
            let (peer, group) = (&seen.peer, &seen.group);
            let told = format!(
                "{told}; how large that is, `helio status {group} --json` on {peer} says: --peer-status FILE"
            );
            return Judgement::unknown(label, told);
        };
        let carries = throughput(Bytes(size.0 / 2), link.tcp_round_trip, Rate(u64::MAX));
        if carries.0 / 2 > seen.sent.0 {
            let told = format!(
                "{told}, but {size} are not too small: they carry more than twice the {} that went out",
                seen.sent
            );
            return Judgement::watch(label, told).figure(figure).hints([format!(
                "something takes no more: {}'s disk (`helio lab link write FILE` there), or a relay or proxy on the way",
                seen.peer
            )]);
        }
        Judgement::change(label, format!("{told}, {size}")).figure(figure).hints([
            larger(seen, link, promise),
            "`helio lab search` finds the size this link needs".into(),
        ])
    })
}

/// It was rather this end's buffer than the other's.
fn here(link: &LinkSeen) -> bool {
    link.limited_here > link.limited_by_peer
}

/// The buffer that was full, by its size; of the other end's nothing is known unless it was told, or asked for in the file
/// that both share.
fn fullest(link: &LinkSeen) -> Option<Bytes> {
    if here(link) {
        return Some(link.here.send.actual);
    }
    let asked = || link.here.receive.requested.map(granted_by_linux);
    link.there.map(|there| there.receive.actual).or_else(asked)
}

/// Twice the bandwidth-delay product, and more than there is; where the kernel chooses, what it may choose.
fn larger(seen: &Seen, link: &LinkSeen, promise: Option<&Promise>) -> String {
    let rate = promise.and_then(|promise| promise.rate).unwrap_or(seen.sent);
    let asked = [link.here.send.requested, link.here.receive.requested].into_iter().flatten().max();
    let least = asked.or(fullest(link)).unwrap_or_default();
    let size = doubled(buffer(rate, link.round_trip).max(least * 2));
    if asked.is_some() {
        return one_size(&seen.group, &exact(size));
    }
    let (node, limit) =
        if here(link) { (&seen.node, "tcp_wmem") } else { (&seen.peer, "tcp_rmem") };
    format!("on {node}: raise the last number of `sysctl net.ipv4.{limit}` to {} at least", size.0)
}
