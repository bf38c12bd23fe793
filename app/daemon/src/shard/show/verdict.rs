// SPDX-License-Identifier: Apache-2.0
//! Why the verdict on a group is what it is, and what an operator does next.

use crate::shard::clock::Clock;
use crate::shard::group::Group;
use crate::shard::route::CONNECTS_WITHIN;
use crate::shard::show::advice::{self, Contact, Facts, Words};
use crate::shard::show::{one_node, reason, seeding, unresolved, verify};
use helio_api::VerdictStatus;
use helio_engine::{Fault, LinkState, LinkStatus, Status, Unsteady};
use helio_units::{Bytes, Generation, Mode, Role, State, Verdict};

/// The verdict with its reason.
pub(super) fn of(status: &Status, group: &Group, clock: &Clock) -> VerdictStatus {
    VerdictStatus {
        word: status.verdict,
        since_ms: clock.wall(status.verdict_since),
        why: why(status, group, clock),
    }
}

fn why(status: &Status, group: &Group, clock: &Clock) -> String {
    if group.config.peer_name().is_none() {
        return one_node::why(status, group);
    }
    let (node, peer, link) = (&group.config.node, &group.peer, &status.link);
    let cut = link.state == LinkState::Connecting;
    if let Some(why) = unreachable(status, group, clock) {
        return why;
    }
    let told_first = matches!(status.verdict, Verdict::DiskFailed | Verdict::SplitBrain);
    let unsteady = none_lasts(status, peer, clock);
    if let Some(waits) = clients_wait(status).filter(|_| !told_first) {
        let cause = match unsteady {
            Some(unsteady) => format!("; {unsteady}"),
            None if cut => format!("; no message from {peer}"),
            None => String::new(),
        };
        return format!("{waits}{cause}");
    }
    if let (Verdict::AtRisk, Some(unsteady)) = (status.verdict, unsteady) {
        return unsteady;
    }
    match status.verdict {
        Verdict::Ok if status.role == Role::Secondary => follows(status, peer, clock),
        Verdict::Ok => match status.mode {
            Mode::Sync => format!("every acknowledged write is on {peer}"),
            Mode::NearSync => format!("every acknowledged write is in the memory of {peer}"),
            Mode::Async => format!("{peer} follows in order, {} behind", status.lag.bytes),
            Mode::Periodic => committed(status, peer, clock),
        },
        Verdict::DiskFailed => fault(status, group)
            .map_or_else(String::new, |(node, fault)| format!("{node}: {}", fault.what)),
        Verdict::NoPrimary if status.changing.is_some() => reason(status),
        Verdict::NoPrimary if status.ahead => format!("only {node} has the last writes"),
        Verdict::NoPrimary if status.peer_ahead => format!("only {peer} has the last writes"),
        Verdict::NoPrimary => neither(node, peer, cut),
        Verdict::Unknown => format!("no message from {peer} since this daemon started"),
        Verdict::AtRisk if cut => match link.last_heard {
            Some(at) if status.role == Role::Primary => {
                format!(
                    "no message from {peer} since {}; writes are only on {node}",
                    clock.wall(at).time()
                )
            }
            Some(at) => format!("no message from {peer} since {}", clock.wall(at)),
            None => format!("no message from {peer} since this daemon started"),
        },
        Verdict::AtRisk if status.differing > 0 => verify::why(status, group),
        Verdict::AtRisk if status.role == Role::Secondary && ships(status, group, clock) => {
            format!("a disk is being shipped; {peer} records dirty regions, and sends nothing")
        }
        Verdict::AtRisk if status.paused => String::from("an operator paused replication"),
        Verdict::AtRisk if status.role == Role::Secondary && status.state == State::Logging => {
            format!("{peer} records dirty regions, and sends nothing")
        }
        Verdict::AtRisk if status.role == Role::Secondary && status.state == State::Syncing => {
            if status.consistent {
                format!("{peer} rebuilds its copy from {node}")
            } else {
                format!("{peer} copies dirty regions; {node} is inconsistent until then")
            }
        }
        Verdict::SplitBrain => {
            let label =
                group.engine.view().clash().map_or(String::new(), |label| format!(" ({label})"));
            format!("each may have writes of its own{label}")
        }
        Verdict::AtRisk => reason(status),
    }
}

/// Why no connection begins, if that is known and counts.
fn unreachable(status: &Status, group: &Group, clock: &Clock) -> Option<String> {
    if !matches!(status.verdict, Verdict::Unknown | Verdict::AtRisk) {
        return None;
    }
    let stranger = group.link.wrong_key(clock.now()).map(|call| {
        let (peer, from, key) = (&group.peer, call.from, call.key);
        format!("{from} connects with a key that is not {peer}'s: {key}")
    });
    stranger.or_else(|| unresolved(status, group).map(|name| name.why.clone()))
}

/// What is wrong with the link, where connections begin and none lasts. That counts while they begin.
pub(super) fn unsteady(status: &Status, clock: &Clock) -> Option<Unsteady> {
    status.link.unsteady.filter(|_| contact(&status.link, clock) != Contact::Missing)
}

/// The same for people.
fn none_lasts(status: &Status, peer: &str, clock: &Clock) -> Option<String> {
    let attempts = &status.link.attempts;
    let (count, since) = (attempts.count(), clock.wall(attempts.since()));
    let ended = format!("{count} connections to {peer} ended since {since}");
    Some(match unsteady(status, clock)? {
        Unsteady::Silent => format!("{ended}, the last ones without data: only small packets pass"),
        Unsteady::Ends => format!("{ended}, and none lasted; the last: {}", attempts.last().1),
    })
}

/// What an operator looks at then.
fn check_link(unsteady: Unsteady, group: &Group) -> String {
    let (node, peer) = (&group.config.node, &group.peer);
    let network = format!("the network between {node} and {peer}");
    match (unsteady, group.link.route().peer()) {
        (Unsteady::Silent, Some(address)) => {
            let host = address.host();
            // Of an IP packet of 1500 bytes, the headers take 28 bytes, or 48 with IPv6.
            let most = if host.contains(':') { 1452 } else { 1472 };
            format!("check the MTU of {network}, with `ping -M do -s {most} {host}` for example")
        }
        _ => format!("check the log of {peer}, and {network}"),
    }
}

/// Neither node is primary, as far as is known on this node.
fn neither(node: &str, peer: &str, cut: bool) -> String {
    if cut {
        return format!(
            "{node} is not primary, and {peer} was not primary when they were connected last"
        );
    }
    format!("neither {node} nor {peer} is primary")
}

/// Whether a seed disk is on its way to the secondary.
fn ships(status: &Status, group: &Group, clock: &Clock) -> bool {
    seeding(status, group, clock).is_some()
}

/// What clients wait for, if the queue is full and its policy is to block.
fn clients_wait(status: &Status) -> Option<String> {
    let queue = status.queue.as_ref().filter(|queue| queue.waiting > 0)?;
    Some(format!("clients wait: the queue is full, and {} writes wait for space", queue.waiting))
}

/// What lets waiting clients continue.
fn unblock(status: &Status, group: &Group, connected: bool) -> Option<String> {
    let name = &group.name;
    let queue = status.queue.as_ref().filter(|queue| queue.waiting > 0)?;
    let fill = |used: u64, most: u64| used as f64 / most.max(1) as f64;
    let by_items = fill(queue.items.0, queue.bound_items.0) > fill(queue.bytes.0, queue.bound.0);
    let larger = if by_items {
        format!("`helio queue set {name} --items {}`", queue.bound_items.0 * 2)
    } else {
        format!("`helio queue set {name} --memory {}MiB`", (queue.bound.0 >> 19).max(2))
    };
    Some(if connected {
        format!("nothing if this is short; otherwise a faster link, or {larger}")
    } else {
        format!(
            "restore the link; or `helio pause {name}`: clients continue unreplicated until `helio resume {name}`; or {larger}"
        )
    })
}

/// What failed first, and on which node.
fn fault<'a>(status: &'a Status, group: &'a Group) -> Option<(&'a str, &'a Fault)> {
    let here = status.fault.as_ref().map(|fault| (group.config.node.as_str(), fault));
    here.or_else(|| status.peer_fault.as_ref().map(|fault| (group.peer.as_str(), fault)))
}

/// What an operator does next; if nothing is to do, what happens by itself.
pub(super) fn next(status: &Status, group: &Group, clock: &Clock) -> String {
    if group.config.peer_name().is_none() {
        return one_node::next(status, group);
    }
    let (name, peer) = (&group.name, &group.peer);
    let open = matches!(status.verdict, Verdict::Unknown | Verdict::AtRisk);
    if open && group.link.wrong_key(clock.now()).is_some() {
        return format!(
            "compare `helio key show` on {peer} with `key` of [node.{peer}] in the configuration file here; correct it, then \
             `helio apply`"
        );
    }
    if let (true, Some(name)) = (open, unresolved(status, group)) {
        return name.hint.clone();
    }
    if let Some(choice) = group.engine.view().preserved_choice() {
        return choice;
    }
    // The hint of a refused connection is from the last attempt; this one is current.
    if status.verdict == Verdict::SplitBrain
        && let Some(only) = group.engine.view().only_choice()
    {
        return only;
    }
    // A repair without an operator may need something else first: the end of a pause, a primary, a resync.
    let repair = fault(status, group).map(|(_, fault)| fault.hint.clone());
    let repairs = repair.as_ref().filter(|hint| !Fault::needs_nothing(hint));
    match (repairs, &status.link.hint) {
        // If a primary is refused because of its fault, the refusal names the repair.
        (Some(repair), Some(link))
            if status.verdict == Verdict::DiskFailed
                && status.role == Role::Secondary
                && status.fault.is_some()
                && !link.contains(repair.as_str()) =>
        {
            return format!("{repair}. After that: {link}");
        }
        (_, Some(hint)) | (Some(hint), None) => return hint.clone(),
        (None, None) => {}
    }
    let connected = status.link.state == LinkState::Connected;
    if status.verdict == Verdict::SplitBrain {
        return format!(
            "choose the node to discard: `helio demote {name}` on it, then `helio resolve {name} --discard NODE` on it"
        );
    }
    let check = unsteady(status, clock).filter(|_| status.verdict == Verdict::AtRisk);
    let check = check.map(|unsteady| check_link(unsteady, group));
    let unblock = unblock(status, group, connected && check.is_none());
    match (check, unblock) {
        (Some(check), Some(unblock)) => return format!("{check}. Until then: {unblock}"),
        (Some(next), None) | (None, Some(next)) => return next,
        (None, None) => {}
    }
    let hint = group.engine.view().neither_has_everything();
    if let Some(hint) = hint.filter(|_| status.role == Role::Secondary) {
        return hint;
    }
    let change = status.changing.unwrap_or_default();
    let copies = || group.engine.view().no_complete_copy();
    let words = Words { group: name, node: &group.config.node, peer, change, copies: &copies };
    let next = advice::of(&facts(status, group, clock), &words);
    if Fault::needs_nothing(&next) { repair.unwrap_or(next) } else { next }
}

fn contact(link: &LinkStatus, clock: &Clock) -> Contact {
    match link.state {
        LinkState::Connected => Contact::Connected,
        _ if clock.now() < link.apart_since + CONNECTS_WITHIN => Contact::Expected,
        _ => Contact::Missing,
    }
}

fn facts(status: &Status, group: &Group, clock: &Clock) -> Facts {
    let (view, link) = (group.engine.view(), &status.link);
    let contact = contact(link, clock);
    let returning = view.is_returning();
    Facts {
        role: status.role,
        state: if view.lacks_room() { State::NeedsRoom } else { status.state },
        contact,
        peer: link.peer_role,
        changing: status.changing.is_some() && !returning,
        returning,
        ships: ships(status, group, clock),
        paused: status.paused,
        autosync: group.config.autosync,
        differs: status.differing > 0,
        ahead: status.ahead,
        peer_ahead: status.peer_ahead,
        new: status.generation == Generation::NONE || view.yields_to_peer().is_some(),
        peer_new: view.peer_is_new(),
        peer_complete: view.peer_is_complete(),
        preserved: status.safe_copy.is_some_and(|kept| kept.sound),
        reported: status.lag_reported.is_some_and(|at| at >= link.since),
        lease: status.lease_held.is_some(),
    }
}

/// What the secondary has of a primary in mode periodic.
fn committed(status: &Status, peer: &str, clock: &Clock) -> String {
    let lag = &status.lag;
    if lag.bytes == Bytes::ZERO {
        return format!("{peer} has every acknowledged write");
    }
    let at = status.committed.map_or_else(String::new, |at| clock.wall(at).time().to_string());
    format!("{peer} has everything until {at}; {} in regions that changed since", lag.bytes)
}

/// How far a secondary follows, by what its primary reported last.
fn follows(status: &Status, peer: &str, clock: &Clock) -> String {
    let reported = status
        .lag_reported
        .map_or_else(String::new, |at| format!(" ({:.1} s ago)", (clock.now() - at).as_secs_f64()));
    let lag = &status.lag;
    if lag.bytes == Bytes::ZERO && lag.writes == 0 {
        return format!("has every write that {peer} reported{reported}");
    }
    if status.state == State::Periodic {
        let age = lag.oldest.as_secs_f64();
        return format!(
            "has everything but at most the last {age:.0} s of writes, as {peer} reported{reported}"
        );
    }
    format!("follows in order, at most {} behind {peer}{reported}", lag.bytes)
}
