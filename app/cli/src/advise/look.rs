// SPDX-License-Identifier: Apache-2.0
//! Several looks at a group, as what the rules want to know of it.

use helio_api::{
    BufferStatus, Connection, GroupStatus, LinkStatus, PeerStatus, QueueStatus, Status, TimesStatus,
};
use helio_plan::Work;
use helio_plan::live::{
    AnswersSeen, BufferSeen, Buffers, Counted, LinkSeen, QueueSeen, Seen, Times,
};
use helio_units::{Bytes, Rate, Role};
use std::time::Duration;

/// What was seen of a group, or why it cannot be judged.
pub(crate) fn seen(
    node: &str,
    looks: &[Status],
    group: &str,
    work: Work,
    there: Option<Buffers>,
) -> Result<Seen, String> {
    let all: Vec<&GroupStatus> =
        looks.iter().flat_map(|look| look.groups.iter().find(|of| of.name == group)).collect();
    let (Some(first), Some(last)) = (all.first(), all.last()) else {
        return Err("it is no longer served".into());
    };
    let (Some(before), Some(peer)) = (&first.peer, &last.peer) else {
        return Err("it has only one node: queue, mode and link need a peer".into());
    };
    if last.role == Role::Secondary {
        let peer = &peer.name;
        return Err(format!(
            "{node} is secondary, and the primary has the queue: run this on {peer}"
        ));
    }
    let queues: Vec<&QueueStatus> = all.iter().filter_map(|of| of.queue.as_ref()).collect();
    let (Some(queue), true) = (queues.last(), queues.len() == looks.len()) else {
        return Err("roles changed during the measurement: repeat it".into());
    };
    let uptime = |look: Option<&Status>| look.map_or(Duration::ZERO, |of| of.daemon_uptime_seconds);
    let span = uptime(looks.last()).saturating_sub(uptime(looks.first()));
    if span.is_zero() {
        return Err("the measurement was too short: repeat it".into());
    }
    let rate = |of: fn(&GroupStatus) -> Bytes| {
        let more = of(last).saturating_sub(of(first));
        Rate((more.0 as f64 / span.as_secs_f64()).round() as u64)
    };
    Ok(Seen {
        group: group.to_owned(),
        node: node.to_owned(),
        peer: peer.name.clone(),
        span,
        mode: last.mode.requested,
        work,
        queue: self::queue(queue, &all, first, last),
        written: rate(|of| of.counters.write_bytes),
        sent: rate(|of| of.counters.sent_bytes),
        lag: all.iter().map(|of| of.lag.bytes).min().unwrap_or_default(),
        behind: all.iter().map(|of| of.lag.seconds).min().unwrap_or_default(),
        answers: answers(last),
        link: link(before, peer, there),
    })
}

/// How long answers took, as the daemon counted them.
fn answers(group: &GroupStatus) -> Result<AnswersSeen, String> {
    let times = |of: TimesStatus| Times { count: of.count, median: of.p50_us, p99: of.p99_us };
    match &group.answers {
        Some(of) => Ok(AnswersSeen { writes: times(of.writes), flushes: times(of.flushes) }),
        None => Err("the daemon does not report latencies: it is older than this program".into()),
    }
}

/// Something waits for the socket, or the queue is half full.
fn pressed(group: &GroupStatus) -> bool {
    let unsent = group.cursors.accepted > group.cursors.peer_sent;
    group.queue.as_ref().is_some_and(|queue| {
        queue.items.0 > 0 && (unsent || queue.bytes.0 >= queue.bound_bytes.0 / 2)
    })
}

fn queue(
    queue: &QueueStatus,
    all: &[&GroupStatus],
    first: &GroupStatus,
    last: &GroupStatus,
) -> QueueSeen {
    let since = |of: &GroupStatus| of.queue.as_ref().map(|queue| queue.high_water_since_ms);
    // What was counted before somebody reset it is not what was counted last.
    let anew = since(first) != since(last);
    let counted = |of: fn(&GroupStatus) -> u64| {
        let before = if anew { 0 } else { of(first) };
        Counted { meanwhile: of(last).saturating_sub(before), before }
    };
    let waited = if anew { Duration::ZERO } else { first.throttle.total_seconds };
    QueueSeen {
        held: queue.bytes,
        pressed: all.iter().all(|look| pressed(look)),
        bound: queue.bound_bytes,
        high: queue.bytes_high_water,
        bound_items: queue.bound_items.0,
        high_items: queue.items_high_water.0,
        // As the API says it: these two are the ones nobody set.
        automatic: !matches!(queue.bound_source.as_str(), "file" | "operator" | "preset sndr"),
        waited: counted(|of| of.throttle.count.0),
        wait_time: last.throttle.total_seconds.saturating_sub(waited),
        refused: counted(|of| of.throttle.refused.0),
        dropped: counted(|of| of.throttle.dropped),
    }
}

fn link(first: &PeerStatus, peer: &PeerStatus, there: Option<Buffers>) -> Result<LinkSeen, String> {
    if peer.connection != Connection::Connected {
        return Err(format!("{} is not connected: {}", peer.name, peer.reason));
    }
    if first.connection_since_ms != peer.connection_since_ms {
        return Err(format!(
            "the connection to {} was made again during the measurement: repeat the command",
            peer.name
        ));
    }
    let (Some(before), Some(link)) = (&first.link, &peer.link) else {
        return Err("the kernel has no data about the connection yet: repeat it".into());
    };
    Ok(LinkSeen {
        // TCP's own ends where a relay or a proxy does; a heartbeat goes all the way.
        round_trip: peer.heartbeat_least_us.unwrap_or(link.rtt_least_us),
        tcp_round_trip: link.rtt_us,
        busy: link.busy_seconds.saturating_sub(before.busy_seconds),
        limited_by_peer: link
            .peer_buffer_limited_seconds
            .saturating_sub(before.peer_buffer_limited_seconds),
        limited_here: link
            .send_buffer_limited_seconds
            .saturating_sub(before.send_buffer_limited_seconds),
        here: buffers(link),
        there,
    })
}

/// The buffers of one end.
pub(super) fn buffers(link: &LinkStatus) -> Buffers {
    let one =
        |of: BufferStatus| BufferSeen { requested: of.requested_bytes, actual: of.actual_bytes };
    Buffers { send: one(link.send_buffer), receive: one(link.receive_buffer) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sample of `helio status`, twice, two seconds apart.
    fn looks(change: impl Fn(&mut GroupStatus)) -> Vec<Status> {
        let sample: Status = serde_json::from_str(include_str!("../render_sample.json"))
            .expect("the sample is a status");
        let mut later = sample.clone();
        later.daemon_uptime_seconds += Duration::from_secs(2);
        let group = &mut later.groups[0];
        group.counters.write_bytes += Bytes(2000);
        group.counters.sent_bytes += Bytes(1000);
        group.throttle.count.0 += 2;
        change(group);
        vec![sample, later]
    }

    fn seen_of(looks: &[Status]) -> Result<Seen, String> {
        seen("paris", looks, "db", Work::Oltp, None)
    }

    #[test]
    fn what_grew_between_the_looks_is_told_by_the_second() {
        let seen = seen_of(&looks(|_| {})).expect("it is a primary");
        assert_eq!(
            (seen.written, seen.sent, seen.span),
            (Rate(1000), Rate(500), Duration::from_secs(2))
        );
        let writes = seen.answers.expect("the sample tells them").writes;
        assert_eq!((writes.count, writes.p99), (9000, Duration::from_micros(7512)));
        assert_eq!(seen.queue.waited, Counted { meanwhile: 2, before: 3 });
        assert!(seen.queue.pressed && !seen.queue.automatic);
        assert!(seen.link.expect_err("the sample's is down").contains("lyon is not connected"));
    }

    #[test]
    fn a_queue_without_anything_unsent_is_not_pressed_unless_half_full() {
        let level = |bytes: u64| {
            looks(move |group| {
                group.cursors.peer_sent = group.cursors.accepted;
                let queue = group.queue.as_mut().expect("the sample has one");
                queue.bytes = Bytes(bytes);
            })
        };
        let half = 33_554_432;
        assert!(seen_of(&level(half)).is_ok_and(|seen| seen.queue.pressed));
        assert!(seen_of(&level(half - 1)).is_ok_and(|seen| !seen.queue.pressed));
    }

    #[test]
    fn what_was_counted_before_a_reset_meanwhile_is_not_subtracted() {
        let seen = seen_of(&looks(|group| {
            group.queue.as_mut().expect("the sample has one").high_water_since_ms.0 += 1;
            group.throttle.count.0 = 2;
        }));
        let waited = seen.expect("it is a primary").queue.waited;
        assert_eq!(waited, Counted { meanwhile: 2, before: 0 });
        let older = seen_of(&looks(|group| group.answers = None)).expect("all else is there");
        assert!(older.answers.expect_err("nobody told them").contains("older than"));
    }

    #[test]
    fn who_has_no_queue_is_told_whom_to_ask() {
        let secondary = looks(|group| (group.role, group.queue) = (Role::Secondary, None));
        assert!(seen_of(&secondary).is_err_and(|why| why.contains("run this on lyon")));
        let between = looks(|group| group.queue = None);
        assert!(seen_of(&between).is_err_and(|why| why.contains("roles changed")));
    }

    #[test]
    fn a_connection_made_anew_is_not_compared_with_the_one_before() {
        let mut both = looks(|_| {});
        for look in &mut both {
            let peer = look.groups[0].peer.as_mut().expect("the sample has one");
            peer.connection = Connection::Connected;
        }
        assert!(seen_of(&both).is_ok_and(|seen| seen.link.is_ok()));
        let peer = both[1].groups[0].peer.as_mut().expect("the sample has one");
        peer.connection_since_ms.0 += 1;
        assert!(
            seen_of(&both).is_ok_and(|seen| seen.link.is_err_and(|why| why.contains("made again")))
        );
    }
}
