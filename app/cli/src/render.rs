// SPDX-License-Identifier: Apache-2.0
//! Status for people: the verdict and what to do at a glance, and with `-v` one fact a line, with units.

mod glance;
mod set;

use crate::verify;
pub(crate) use glance::{Colour, check_code, title, topology, words};
use helio_api::{
    AttemptsStatus, BufferStatus, GroupStatus, Service, Status, TimesStatus, VolumeStatus, WrongKey,
};
use helio_units::{Bytes, MemberState, WallTime};
use std::fmt::Write;
use std::time::Duration;

/// How much of a status is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// One line per group.
    List,
    /// A few lines per group.
    Group,
    /// Everything.
    All,
}

/// The groups of a status, the worst first.
pub(crate) fn status(status: &Status, detail: Detail, colour: Colour) -> String {
    if status.groups.is_empty() && status.failed.is_empty() {
        return format!("node {} is in no group\n", status.node);
    }
    if detail == Detail::List {
        return glance::list(status, colour);
    }
    let mut groups: Vec<&GroupStatus> = status.groups.iter().collect();
    groups.sort_by_key(|group| group.verdict.word);
    let failed = status.failed.iter().map(|failed| glance::failed(failed, status.at_ms, colour));
    let served = groups.into_iter().map(|group| {
        let short = glance::group(group, status.at_ms, colour);
        let all_or_sets = match detail {
            Detail::All => all(group, status.at_ms),
            Detail::Group | Detail::List => glance::sets(group),
        };
        short + &all_or_sets
    });
    failed.chain(served).collect::<Vec<_>>().join("\n")
}

/// One labelled line.
pub(crate) fn line(out: &mut String, label: &str, text: &str) {
    let _infallible = writeln!(out, "  {label:<10} {text}");
}

/// Everything else about a group.
fn all(g: &GroupStatus, now: WallTime) -> String {
    let mut out = String::new();
    let text =
        format!("{}, {} for {}: {}", g.role, g.state, ago(g.state_since_ms, now), g.state_reason);
    line(&mut out, "state", &text);
    if let Some(fault) = &g.fault {
        line(&mut out, "fault", fault);
    }
    if g.peer.is_some() {
        replication(&mut out, g);
    }
    answers(&mut out, g);
    if let Some(seeding) = &g.seeding {
        let (since, changed) = (seeding.since_ms, seeding.changed_bytes);
        let text =
            format!("a disk is being shipped since {since}, {changed} in regions changed since");
        line(&mut out, "seeding", &text);
    }
    verify::lines(&mut out, g);
    trace(&mut out, g, now);
    peer(&mut out, g, now);
    if let Some(peer) = &g.peer {
        lease(&mut out, g, &peer.name);
    }
    for v in &g.volumes {
        volume(&mut out, v, g.peer.is_some(), now);
    }
    let image = if g.consistent { "consistent" } else { "inconsistent" };
    line(
        &mut out,
        "copy",
        &format!("{image}, generation {}, item {}", g.generation, g.cursors.accepted),
    );
    if let Some(restoring) = &g.restoring {
        let rest = match &restoring.failed {
            None => String::from("reads and writes wait for what they need"),
            Some(why) => format!("stopped until the daemon is restarted: {why}"),
        };
        let (name, left) = (&restoring.snapshot, restoring.left_bytes);
        line(&mut out, "restoring", &format!("from snapshot {name}, {left} left; {rest}"));
    }
    if let Some(kept) = &g.safe_copy {
        let text = format!(
            "{} generation {}, item {}, from {}; {} were overwritten since",
            if kept.sound { "preserved:" } else { "damaged:" },
            kept.generation,
            kept.position,
            kept.since_ms,
            kept.kept_bytes
        );
        line(&mut out, "safe copy", &text);
    }
    out
}

/// A volume, and under it its members if it has several.
fn volume(out: &mut String, v: &VolumeStatus, mirrored: bool, now: WallTime) {
    let sparse = if v.sparse { ", sparse" } else { "" };
    let state = match v.member_state {
        MemberState::Responds => String::new(),
        other => format!(", {other}"),
    };
    let member = if v.members.is_empty() { v.member.clone() } else { set::summary(v) };
    let [dirty, verified] = if mirrored {
        [format!(", {} dirty", v.dirty_bytes), format!(", {}", verify::last(v, now))]
    } else {
        [String::new(), String::new()]
    };
    let service = match v.service {
        Service::Here => "",
        Service::Aside => ", on threads",
        Service::Slow => ", slow, on threads",
    };
    let text = format!(
        "{}: {}, {member} ({}{sparse}{service}{state}){dirty}, {} NBD connections{verified}",
        v.name, v.size_bytes, v.io, v.clients
    );
    line(out, "volume", &text);
    for (label, text) in set::rows(v) {
        line(out, &label, &text);
    }
}

fn queue(out: &mut String, g: &GroupStatus) {
    let Some(q) = &g.queue else { return };
    let text = format!(
        "{} in {} items, high-water mark {} in {}, limit {} in {} ({})",
        q.bytes,
        q.items,
        q.bytes_high_water,
        q.items_high_water,
        q.bound_bytes,
        q.bound_items,
        q.bound_source
    );
    line(out, "queue", &text);
    let text = format!(
        "{} while connected, {} while not",
        q.when_full_connected, q.when_full_disconnected
    );
    line(out, "when full", &text);
    let t = &g.throttle;
    let text = format!(
        "{} writes waited {} in all, {} wait now",
        t.count,
        seconds(t.total_seconds),
        t.waiting
    );
    line(out, "throttle", &text);
}

/// How long requests of clients took.
fn answers(out: &mut String, g: &GroupStatus) {
    let Some(a) = &g.answers else { return };
    let of = |what: &str, t: &TimesStatus| match t.count {
        0 => format!("no {what}"),
        count => {
            let [half, most] = [t.p50_us, t.p99_us].map(|time| time.as_secs_f64() * 1e3);
            format!("{count} {what}, p50 {half:.2} ms, p99 {most:.2} ms")
        }
    };
    let (writes, flushes) = (of("writes", &a.writes), of("flushes", &a.flushes));
    line(out, "latency", &format!("{writes}; {flushes}; since {}", a.since_ms));
}

/// The mode, the queue and the lag.
fn replication(out: &mut String, g: &GroupStatus) {
    let effective = g.mode.effective.map_or_else(|| "none".to_owned(), |mode| mode.to_string());
    line(out, "mode", &format!("requested {}, effective {effective}", g.mode.requested));
    queue(out, g);
    let lag = &g.lag;
    let dirty = g.volumes.iter().any(|volume| volume.dirty_bytes > Bytes::ZERO);
    let most = if dirty { "at most " } else { "" };
    let text =
        format!("{most}{} in {} writes, {} behind", lag.bytes, lag.writes, seconds(lag.seconds));
    line(out, "lag", &text);
}

fn peer(out: &mut String, g: &GroupStatus, now: WallTime) {
    let Some(p) = &g.peer else { return };
    let age = p.age_seconds.map_or_else(
        || "no message yet".to_owned(),
        |age| format!("last message {} ago", seconds(age)),
    );
    let told: Vec<String> = p
        .role
        .iter()
        .map(ToString::to_string)
        .chain(p.state.iter().map(ToString::to_string))
        .collect();
    let told = if told.is_empty() { String::new() } else { format!(" as {}", told.join(", ")) };
    let since = ago(p.connection_since_ms, now);
    let text = format!(
        "{} at {}, {} for {since}: {}; {age}{told}",
        p.name, p.address, p.connection, p.reason
    );
    line(out, "peer", &text);
    if let Some(attempts) = &p.attempts {
        let AttemptsStatus { count, since_ms, reason, next_seconds, .. } = attempts;
        let next = next_seconds.map(|next| format!(", the next in {}", seconds(next)));
        let next = next.unwrap_or_default();
        line(out, "attempts", &format!("{count} since {since_ms}{next}; the last: {reason}"));
    }
    if let Some(key) = &p.key {
        line(out, "key", key);
    }
    if let Some(WrongKey { key, address, age_seconds }) = &p.wrong_key {
        let age = seconds(*age_seconds);
        let text =
            format!("{address} connected {age} ago with a key that is not {}'s: {key}", p.name);
        line(out, "refused", &text);
    }
    let Some(l) = &p.link else { return };
    let text = format!(
        "round trip {:.2} ms (least), {}, window {}, {} segments sent again",
        l.rtt_least_us.as_secs_f64() * 1e3,
        l.congestion_control,
        l.window_bytes,
        l.retransmits
    );
    line(out, "link", &text);
    let text = format!("send {}, receive {}", buffer(l.send_buffer), buffer(l.receive_buffer));
    line(out, "buffers", &text);
}

fn lease(out: &mut String, g: &GroupStatus, peer: &str) {
    let Some(lease) = &g.lease else { return };
    let ends = lease.seconds.map_or_else(
        || "until this node is secondary".to_owned(),
        |left| format!("for {}", seconds(left)),
    );
    let text = if lease.held {
        format!("held {ends}: until then `helio promote {}` needs no --force", g.name)
    } else {
        format!("granted {ends}: until then nothing is acknowledged without {peer}")
    };
    line(out, "lease", &text);
}

fn trace(out: &mut String, g: &GroupStatus, now: WallTime) {
    let Some(t) = &g.trace else { return };
    let dropped = match t.dropped.0 {
        0 => String::new(),
        _ => format!(", {} not recorded", t.dropped),
    };
    let count = format!("{} requests{dropped}", t.requests);
    let text = match &t.ended {
        Some(why) => format!("ended, as {why}: {count}, {} in {}", t.bytes, t.file),
        None => {
            let until = t.until_ms.map(|at| format!(", until {at}")).unwrap_or_default();
            let since = ago(t.since_ms, now);
            format!(
                "recording for {since}{until}: {count}, {} of {} in {}",
                t.bytes, t.limit_bytes, t.file
            )
        }
    };
    line(out, "trace", &text);
}

fn buffer(b: BufferStatus) -> String {
    match b.requested_bytes {
        Some(asked) => format!("{asked} requested, {} actual", b.actual_bytes),
        None => format!("autotuned, {} actual", b.actual_bytes),
    }
}

/// How long ago, in the two largest units.
pub(crate) fn ago(then: WallTime, now: WallTime) -> String {
    let s = now.0.saturating_sub(then.0) / 1000;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {} min", s / 3600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86_400, s / 3600 % 24),
    }
}

pub(crate) fn seconds(span: Duration) -> String {
    let s = span.as_secs_f64();
    if s < 1.0 { format!("{:.0} ms", s * 1e3) } else { format!("{s:.1} s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = include_str!("render_sample.json");

    #[test]
    fn the_details_follow_what_a_decision_needs() {
        let sample: Status = serde_json::from_str(SAMPLE).expect("the sample is a status");
        let text = status(&sample, Detail::All, Colour::default());
        assert!(text.starts_with("db   AT RISK      paris* -x- lyon"), "{text}");
        assert!(text.contains("  state      primary, queuing for 1 min 15 s: lyon gave no sign"));
        assert!(text.contains(
            "  queue      12 MiB in 1536 items, high-water mark 20 MiB in 2560, limit 64 MiB"
        ));
        assert!(text.contains("  lag        at most 12 MiB in 1536 writes, 75.2 s behind"));
        assert!(
            text.contains("send 1 MiB requested, 2 MiB actual, receive autotuned, 128 KiB actual")
        );
        assert!(text.contains("; last message 75.5 s ago\n"));
    }

    #[test]
    fn members_stand_under_their_volume_if_there_are_several() {
        let mut sample: Status = serde_json::from_str(SAMPLE).expect("the sample is a status");
        let alone = status(&sample, Detail::Group, Colour::default());
        assert!(!alone.contains("member"), "{alone}");
        set::tests::fill(&mut sample.groups[0].volumes[0]);
        let all = status(&sample, Detail::All, Colour::default());
        let expected = "
  volume     data: 256 MiB, 3 members, 1 full, 4 MiB not merged, waits for another copy (direct), 12 MiB dirty, 1 NBD connections, never verified
    member 0 full, read cost 3 (measured), 2 reads repaired: /dev/vg0/a
    member 1 copying 75 %, 64 MiB left, from member 0: /dev/vg0/b
    member 2 removed, 1 MiB dirty, closed (it is not in use): /dev/vg0/c
";
        assert!(all.contains(expected), "{all}");
        let group = status(&sample, Detail::Group, Colour::default());
        let expected = "
     data         3 members, 1 full, 4 MiB not merged, waits for another copy
       member 0   full, read cost 3 (measured), 2 reads repaired: /dev/vg0/a
       member 1   copying 75 %, 64 MiB left, from member 0: /dev/vg0/b
       member 2   removed, 1 MiB dirty, closed (it is not in use): /dev/vg0/c
";
        assert!(group.ends_with(expected), "{group}");
        let volume = &mut sample.groups[0].volumes[0];
        (volume.copy_waits, volume.blank_bytes) = (None, Bytes::mib(8));
        let group = status(&sample, Detail::Group, Colour::default());
        let expected = "3 members, 1 full, 4 MiB not merged, 8 MiB never written\n";
        assert!(group.contains(expected), "{group}");
    }

    #[test]
    fn what_the_peer_told_of_itself_stands_beside_its_age() {
        let mut sample: Status = serde_json::from_str(SAMPLE).expect("the sample is a status");
        let peer = sample.groups[0].peer.as_mut().expect("the sample has one");
        peer.role = Some(helio_units::Role::Secondary);
        peer.state = Some(helio_units::State::Replicating);
        let text = status(&sample, Detail::All, Colour::default());
        assert!(text.contains("; last message 75.5 s ago as secondary, replicating\n"));
    }

    #[test]
    fn spans_are_told_in_their_two_largest_units() {
        let ago = |s: u64| super::ago(WallTime(0), WallTime(s * 1000));
        assert_eq!(
            [ago(59), ago(61), ago(7260), ago(90_000)],
            ["59 s", "1 min 1 s", "2 h 1 min", "1 d 1 h"]
        );
    }
}
