// SPDX-License-Identifier: Apache-2.0
//! The engine's status in the words of the control API.

mod advice;
mod one_node;
mod set;
mod snapshots;
mod verdict;
mod verify;

pub(crate) use snapshots::{called, snapshots};

use crate::config::QueueSource;
use crate::names::Unresolved;
use crate::shard::clock::Clock;
use crate::shard::group::Group;
use crate::shard::link::Traffic;
use crate::shard::plan::VolumePlan;
use helio_api::{
    AnswersStatus, AtStake, AttemptsStatus, BufferStatus, Connection, CopyWait, CounterStatus,
    CursorStatus, GroupStatus, Io, LagStatus, LeaseStatus, LinkStatus, ModeStatus, PeerStatus,
    QueueStatus, RecorderEvent, SafeCopyStatus, SeedingStatus, SyncStatus, ThrottleStatus,
    TimesStatus, VolumeStatus, WrongKey,
};
use helio_engine::{BoundSource, LinkState, QUEUE_BYTES_MOST, QUEUE_PRODUCTS, Status, WhenFull};
use helio_units::{Bandwidth, Bytes, Items, MemberState, Moment, Role, VolumeIndex, WallTime};

/// One volume of a group, with its NBD connections, and what its copies wait for.
fn volume(
    (group, volume, at): (&Group, &VolumePlan, VolumeIndex),
    marked: Bytes,
    (clients, copy_waits): (u64, Option<CopyWait>),
    member_state: MemberState,
) -> VolumeStatus {
    let (members, [unmerged_bytes, blank_bytes]) = set::members(group, at);
    VolumeStatus {
        name: volume.name.clone(),
        size_bytes: volume.size,
        member: set::used(&members).or(volume.paths().next()).unwrap_or_default().to_owned(),
        member_state,
        members,
        unmerged_bytes,
        blank_bytes,
        copy_waits,
        io: if volume.buffered { Io::Buffered } else { Io::Direct },
        service: set::service(volume),
        sparse: volume.sparse,
        dirty_bytes: marked.min(volume.size),
        verified: verify::last(group, at),
        clients: Items(clients),
    }
}

/// One group. `of_volume`: the NBD connections of a volume, and what its copies wait for.
pub(crate) fn group(
    group: &Group,
    clock: &Clock,
    of_volume: impl Fn(VolumeIndex) -> (u64, Option<CopyWait>),
) -> GroupStatus {
    let now = clock.now();
    let status = group.engine.view().status(now);
    // One that was released has none any more.
    let volumes = group.volumes.iter().zip(0..).map(|(volume, n)| {
        let (at, marked) = (VolumeIndex(n), status.marked[usize::from(n)]);
        self::volume((group, volume, at), marked, of_volume(at), status.members[usize::from(n)])
    });
    GroupStatus {
        name: group.name.clone(),
        node: group.config.node.clone(),
        role: status.role,
        state: status.state,
        state_since_ms: clock.wall(status.state_since),
        state_reason: reason(&status),
        next: verdict::next(&status, group, clock),
        generation: status.generation.to_string(),
        consistent: status.consistent,
        fault: status.fault.as_ref().map(|fault| fault.what.clone()),
        lease: lease(&status, clock),
        verdict: verdict::of(&status, group, clock),
        mode: ModeStatus { requested: status.mode, effective: status.effective },
        volumes: volumes.collect(),
        queue: status.queue.map(|queue| self::queue(&queue, group, clock)),
        throttle: throttle(&status),
        answers: answers(group, &status, clock),
        lag: LagStatus {
            bytes: status.lag.bytes,
            seconds: status.lag.oldest,
            writes: Items(status.lag.writes),
        },
        cursors: cursors(&status),
        last_write_ms: status.last_write.map(|at| clock.wall(at)),
        peer: peer(&status, group, clock),
        sync: status.sync.map(|s| sync(&s, &status)),
        safe_copy: status.safe_copy.map(|kept| SafeCopyStatus {
            generation: kept.generation.to_string(),
            position: kept.head,
            since_ms: group.before.kept_at().unwrap_or_default(),
            kept_bytes: kept.bytes,
            sound: kept.sound,
        }),
        // Known to whoever writes it.
        trace: None,
        seeding: seeding(&status, group, clock),
        verify: verify::status(group, clock),
        drill: group.drills.clone(),
        restoring: snapshots::restoring(group),
        counters: counters(&status, group.link.traffic),
        metadata: group.metadata.counts(),
        before_images: group.before.counts(),
    }
}

fn lease(status: &Status, clock: &Clock) -> Option<LeaseStatus> {
    let until = status.lease_held.or(status.lease_granted)?;
    let ends = (until != Moment::NEVER).then_some(until);
    Some(LeaseStatus {
        held: status.lease_held.is_some(),
        until_ms: ends.map(|at| clock.wall(at)),
        seconds: ends.map(|at| at - clock.now()),
    })
}

/// A seed disk on its way. A secondary has this from the decision that its primary reported.
fn seeding(status: &Status, group: &Group, clock: &Clock) -> Option<SeedingStatus> {
    if let Some(since) = group.engine.view().seeding() {
        let changed_bytes = status.marked.iter().fold(Bytes::ZERO, |sum, marked| sum + *marked);
        return Some(SeedingStatus { since_ms: WallTime(since), changed_bytes });
    }
    let met = group.engine.view().last_decision().filter(|met| met.label == "seeding")?;
    let follows = status.role == Role::Secondary && status.link.state == LinkState::Connected;
    follows.then(|| SeedingStatus { since_ms: clock.wall(met.at), changed_bytes: status.lag.bytes })
}

fn throttle(status: &Status) -> ThrottleStatus {
    status.queue.map_or_else(ThrottleStatus::default, |queue| ThrottleStatus {
        waiting: Items(queue.waiting),
        count: Items(queue.throttled),
        total_seconds: queue.throttle_time,
        refused: Items(queue.refused),
        dropped: queue.dropped,
    })
}

fn answers(group: &Group, status: &Status, clock: &Clock) -> Option<AnswersStatus> {
    let times = |of: helio_engine::TimesStatus| TimesStatus {
        count: of.count,
        p50_us: of.median,
        p99_us: of.p99,
        most_us: of.most,
    };
    let told = group.engine.view().answer_times()?;
    let since_ms = clock.wall(status.queue?.marks_since);
    Some(AnswersStatus { since_ms, writes: times(told.writes), flushes: times(told.flushes) })
}

fn cursors(status: &Status) -> CursorStatus {
    let c = &status.cursors;
    CursorStatus {
        accepted: c.head,
        completed: c.completed,
        durable: c.durable,
        peer_sent: c.peer_sent,
        peer_received: c.peer_received,
        peer_completed: c.peer_completed,
        peer_durable: c.peer_durable,
    }
}

fn reason(status: &Status) -> String {
    let text = &status.reason;
    match status.changing {
        Some(change) => format!("{text} ({change})"),
        None => text.clone(),
    }
}

fn queue(queue: &helio_engine::QueueStatus, group: &Group, clock: &Clock) -> QueueStatus {
    QueueStatus {
        bytes: queue.bytes,
        items: queue.items,
        bytes_high_water: queue.bytes_high,
        bytes_high_water_at_ms: clock.wall(queue.bytes_high_at),
        items_high_water: queue.items_high,
        items_high_water_at_ms: clock.wall(queue.items_high_at),
        high_water_since_ms: clock.wall(queue.marks_since),
        bound_bytes: queue.bound,
        bound_items: queue.bound_items,
        bound_source: bound_source(queue.source, group),
        bound_reason: bound_reason(queue, group),
        when_full_connected: policy(group.config.queue.connected).into(),
        when_full_disconnected: policy(group.config.queue.disconnected).into(),
    }
}

fn bound_source(source: BoundSource, group: &Group) -> String {
    match (source, group.settings.queue_source) {
        (BoundSource::File, QueueSource::PresetSndr) => "preset sndr".into(),
        (BoundSource::File, QueueSource::Operator) => "operator".into(),
        (BoundSource::File, _) => "file".into(),
        (BoundSource::Default, _) => "default".into(),
        (BoundSource::Measured, _) => "4 x measured bandwidth-delay product".into(),
    }
}

fn bound_reason(queue: &helio_engine::QueueStatus, group: &Group) -> String {
    let automatic_most = group.config.queue.automatic_most;
    let is_limited = queue.bound >= automatic_most;
    match (queue.source, queue.chosen_by) {
        (BoundSource::Measured, Some((round_trip, rate))) => {
            let limit = match automatic_most {
                QUEUE_BYTES_MOST if is_limited => ", which is the maximum of auto",
                _ if is_limited => ", limited to its share of buffer-memory",
                _ => "",
            };
            format!(
                "auto: {QUEUE_PRODUCTS} x {} x {round_trip:.1?}, as measured{limit}",
                Bandwidth(rate)
            )
        }
        (BoundSource::File, _) => match group.settings.queue_source {
            QueueSource::PresetSndr => "preset sndr in the configuration file".into(),
            QueueSource::Operator => {
                "set by an operator; the configuration file is not changed".into()
            }
            QueueSource::Auto | QueueSource::File => "set in the configuration file".into(),
        },
        _ if is_limited => String::from("auto: limited to its share of buffer-memory"),
        _ => format!(
            "auto: the minimum; the link was not measured yet, or {QUEUE_PRODUCTS} x its bandwidth-delay product is \
             less"
        ),
    }
}

fn policy(policy: WhenFull) -> &'static str {
    match policy {
        WhenFull::Block => "block",
        WhenFull::Log => "log",
        WhenFull::Fail => "fail",
    }
}

fn peer(status: &Status, group: &Group, clock: &Clock) -> Option<PeerStatus> {
    let address = group.link.route().peer()?.to_string();
    let link = &status.link;
    let tuning = group.link.tuning();
    Some(PeerStatus {
        name: group.peer.clone(),
        address,
        connection: match link.state {
            LinkState::Connected => Connection::Connected,
            LinkState::Refused => Connection::Refused,
            LinkState::Connecting => Connection::Connecting,
        },
        connection_since_ms: clock.wall(link.since),
        reason: unresolved(status, group).map_or_else(|| link.why.clone(), |name| name.why.clone()),
        age_seconds: link.last_heard.map(|at| clock.now() - at),
        role: link.peer_role,
        state: link.peer_state,
        fault: status.peer_fault.as_ref().map(|fault| fault.what.clone()),
        copy: group.engine.view().peer_copy().label().to_owned(),
        only_there_bytes: status.only_at_peer,
        last_write_ms: status.last_write_at_peer.map(|(age, at)| clock.before(at, age)),
        key: group.link.peer_key().map(|key| key.to_string()),
        attempts: attempts(status, group, clock),
        wrong_key: group.link.wrong_key(clock.now()).map(|call| WrongKey {
            key: call.key.to_string(),
            address: call.from.to_string(),
            age_seconds: clock.now() - call.at,
        }),
        heartbeat_us: link.round_trip,
        heartbeat_least_us: link.round_trip_least,
        link: group.link.figures.as_ref().map(|f| LinkStatus {
            rtt_us: f.round_trip,
            rtt_least_us: f.round_trip_min,
            retransmits: u64::from(f.retransmits),
            congestion_control: f.congestion.clone(),
            send_buffer: BufferStatus {
                requested_bytes: tuning.send_buffer,
                actual_bytes: f.send_buffer,
            },
            receive_buffer: BufferStatus {
                requested_bytes: tuning.receive_buffer,
                actual_bytes: f.receive_buffer,
            },
            window_bytes: f.window,
            delivery_rate_bytes_per_second: f.delivery_rate,
            busy_seconds: f.busy,
            peer_buffer_limited_seconds: f.window_limited,
            send_buffer_limited_seconds: f.buffer_limited,
        }),
    })
}

/// Attempts to connect that failed, and connections that ended, since one lasted.
fn attempts(status: &Status, group: &Group, clock: &Clock) -> Option<AttemptsStatus> {
    let (ended, dials) = (&status.link.attempts, group.link.dials().failures());
    let (failed, since, failure) = dials.unwrap_or((0, Moment::NEVER, ended.last()));
    let (_, why) = failure.max(ended.last());
    let count = ended.count() + failed;
    let first = if ended.count() > 0 { since.min(ended.since()) } else { since };
    (count > 0).then(|| AttemptsStatus {
        count: Items(count),
        since_ms: clock.wall(first),
        reason: why.to_owned(),
        unsteady: verdict::unsteady(status, clock).map(|unsteady| unsteady.word().to_owned()),
        next_seconds: group.link.next_dial().map(|at| at - clock.now()),
    })
}

/// Why the peer's name leads nowhere, while there is no connection for that.
fn unresolved<'a>(status: &Status, group: &'a Group) -> Option<&'a Unresolved> {
    group.link.route().unresolved().filter(|_| status.link.state == LinkState::Connecting)
}

fn sync(sync: &helio_engine::SyncStatus, status: &Status) -> SyncStatus {
    let marked = status.marked.iter().fold(Bytes::ZERO, |sum, b| sum + *b);
    SyncStatus {
        dirty_bytes: marked,
        to_copy_bytes: sync.to_copy,
        copied_bytes: sync.copied,
        rate_bytes_per_second: sync.rate,
        eta_seconds: sync.eta,
        shipped_bytes: sync.shipped,
        converges: sync.converges,
        by_digests: sync.by_digests,
    }
}

fn counters(status: &Status, traffic: Traffic) -> CounterStatus {
    let c = status.counters;
    CounterStatus {
        writes: c.writes,
        reads: c.reads,
        flushes: c.flushes,
        discards: c.discards,
        zeroes: c.zeroes,
        write_bytes: Bytes(c.write_bytes),
        read_bytes: Bytes(c.read_bytes),
        sent_bytes: traffic.sent,
        received_bytes: traffic.received,
        answered: c.answered,
        timed: c.timed,
        timed_seconds: c.time,
    }
}

/// What a forced promotion would put at stake, as far as this node knows.
pub(crate) fn at_stake(group: &Group, clock: &Clock) -> AtStake {
    let now = clock.now();
    let status = group.engine.view().status(now);
    let peer = &group.peer;
    let node = &group.config.node;
    let unproven = group.engine.view().yields();
    let unproven = unproven.map_or_else(String::new, |why| why.of_node(node) + "; ");
    let Some(heard) = status.link.last_heard else {
        return AtStake {
            since_ms: None,
            seconds: None,
            bytes: None,
            writes: None,
            unknown: None,
            last_contact_ms: None,
            text: format!(
                "{unproven}no message from {peer} since this daemon started: it may have writes that this copy does not have"
            ),
        };
    };
    let told = status.lag;
    // A connection may stand for longer than its peer reports; what was written since the report is not in it.
    let reported = status.lag_reported.unwrap_or(heard);
    let ago = |at: Moment| format!("{} ({:.1} s ago)", clock.wall(at), (now - at).as_secs_f64());
    // Only a primary reports what this node lacks.
    let missing = if status.link.peer_state.is_none() {
        String::from("the missing data was unknown")
    } else if told.bytes == Bytes::ZERO && told.writes == 0 {
        String::from("nothing was missing here")
    } else if told.dirty > Bytes::ZERO {
        format!(
            "at most {} were missing here, in dirty regions and {} writes",
            told.bytes, told.writes
        )
    } else {
        format!("at most {} in {} writes had not completed here", told.bytes, told.writes)
    };
    AtStake {
        since_ms: Some(clock.wall(reported)),
        seconds: Some(now - reported),
        bytes: Some(told.bytes),
        writes: Some(Items(told.writes)),
        unknown: None,
        last_contact_ms: Some(clock.wall(heard)),
        text: format!(
            "{unproven}{peer} may have continued since its last report, of {}. At that time {missing}. Writes that {peer} \
             acknowledged later are missing here too; its last message arrived {:.1} s ago",
            ago(reported),
            (now - heard).as_secs_f64()
        ),
    }
}

/// The flight recorder in words.
pub(crate) fn recorder(group: &Group, clock: &Clock) -> Vec<RecorderEvent> {
    let records = group.engine.view().records();
    records
        .into_iter()
        .map(|r| RecorderEvent { at_ms: clock.wall(r.at), what: r.to_string() })
        .collect()
}
