// SPDX-License-Identifier: Apache-2.0
//! After a pause a primary acknowledges only what its peer has durable, until one check has passed (rule 5).
//!
//! The peer may have taken over while this process was stopped or its machine slept: by its hold lease, or by force after an
//! operator declared this node fenced. So a primary checks first. The check looks for a peer
//! that took over and can be reached. It passes if the peer cannot be reached, or does not serve now, unless its history
//! shows that it took over. A peer that took over and was lost again is not found: this primary goes on as without any
//! other lost peer, and the recovery table refuses the two when they connect. recovery.md names that limit.
//!
//! A check is needed
//! * after a gap of this node's clock longer than the peer timeout, as seen between two calls of the engine;
//! * when the wait for a hold lease ends: the attempt must have begun when the peer could not use the lease any more;
//! * when the peer is seen to serve, as long as this primary acknowledged nothing without it.
//!
//! These end it, if they began after the moment from which the check is needed:
//! * an attempt to connect that failed ([`crate::Event::DialFailed`]);
//! * an answer of the peer, which does not serve, to a ping that was sent since;
//! * the end of a connection, by what [`proof`] says of it.
//!
//! A write that the peer only received or completed is not acknowledged before the check: the peer's ack may have been in the
//! socket since before the peer crashed, lost the write and took over. An acknowledgement that was decided and not yet sent when the
//! pause is noticed is held back, too; the daemon reads the clock once more directly before it submits replies. A pause
//! between that look and the system call is not noticed, nor is one that this node's clock does not count, unless a
//! hold lease was out: recovery.md names both limits.

use crate::config::Config;
use crate::effect::{Answer, Effect};
use crate::peer::link::Session;
use crate::refusal::Denial;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use helio_format::lineage::{Lineage, Relation};
use helio_format::message::{Hello, Parting};
use helio_units::{Moment, RequestId};

/// What the peer sent on a connection that ended. A hello counts also where this node, on its way out of its role, said none
/// and judged none (`greet`): the peer was reached, and waited for this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// No message.
    Nothing,
    /// Messages, but no hello of this group's peer: another node answered, or a daemon that does not serve the group.
    NoHello,
    /// A hello: it serves.
    Serves,
    /// A hello: it does not serve, and its history continues this node's.
    TookOver,
    /// A hello: it does not serve, and nothing shows that it took over.
    Follows,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It broke.
    Broken,
    /// The peer sent nothing for the peer timeout.
    Silent,
    /// One side changes its role: what its hello said does not hold any more.
    RoleChange,
    /// One side ended it for any other reason, so what its hello said still held.
    Goodbye,
}

impl From<Parting> for End {
    fn from(parting: Parting) -> Self {
        match parting {
            Parting::RoleChanged => Self::RoleChange,
            Parting::Stopping | Parting::Refused | Parting::Protocol | Parting::VolumeFailed => {
                Self::Goodbye
            }
        }
    }
}

/// What the end of a connection proves to a primary that waits for a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Nothing: the next attempt decides.
    Nothing,
    /// The peer serves: the check does not pass.
    Serves,
    /// The peer took over and does not serve any more: the check does not pass.
    TookOver,
    /// The peer cannot be reached.
    Unreachable,
    /// The daemon at the peer's address does not serve this group. It may have served it since the pause, like a peer
    /// that cannot be reached; it does not now.
    NotServed,
    /// The peer did not serve when it sent its hello.
    Follows,
}

/// The table. A test walks all of it.
pub(crate) const fn proof(heard: Heard, end: End) -> Proof {
    match (heard, end) {
        (Heard::Serves, _) => Proof::Serves,
        (Heard::TookOver, _) => Proof::TookOver,
        (Heard::Nothing, _) | (Heard::NoHello, End::Silent) => Proof::Unreachable,
        (Heard::NoHello, End::Goodbye) => Proof::NotServed,
        (Heard::Follows, End::Goodbye | End::Silent) => Proof::Follows,
        // The peer may be about to serve.
        (Heard::NoHello | Heard::Follows, End::Broken | End::RoleChange) => Proof::Nothing,
    }
}

impl Proof {
    /// What the end of the present connection, on which the peer said `hello`, proves to a node of that lineage.
    pub(crate) fn of(
        hello: Option<&Hello>,
        session: &Session,
        lineage: &Lineage,
        end: End,
    ) -> Self {
        let heard = match hello {
            Some(peer) if peer.serving => Heard::Serves,
            Some(peer) => match lineage.relation_of(&peer.lineage) {
                Relation::Descendant(_) => Heard::TookOver,
                _ => Heard::Follows,
            },
            None if session.last_heard().is_some_and(|at| at >= session.began()) => Heard::NoHello,
            None => Heard::Nothing,
        };
        proof(heard, end)
    }
}

/// A check that is needed.
#[derive(Clone, Copy, Debug)]
struct Check {
    /// It must have begun then or later.
    since: Moment,
    /// What kept it from passing: the peer serves, or took over.
    found: Option<Proof>,
}

/// See the module documentation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pause {
    needed: Option<Check>,
    /// Acknowledgements that were decided before the pause.
    held: Vec<(RequestId, Answer)>,
}

impl Pause {
    /// A primary needs an event at least so often: a longer gap is a pause.
    pub(crate) fn deadline(leads: bool, now: Moment, peer_timeout: Duration) -> Moment {
        if leads { now + peer_timeout / 2 } else { Moment::NEVER }
    }

    /// Whether an acknowledgement of what the peer is not known to have durable must wait.
    pub(crate) fn withholds(&self) -> bool {
        self.needed.is_some()
    }

    /// The moment from which a check is needed, if one is.
    pub(crate) fn needed_since(&self) -> Option<Moment> {
        self.needed.map(|check| check.since)
    }

    /// Whether nothing is held back.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.held.is_empty()
    }

    /// What a primary's clients wait for, while a check is needed, and what ends it if only an operator can.
    pub(crate) fn text(&self, config: &Config) -> Option<String> {
        let (node, peer, group) = (&config.node, &config.peer, &config.group);
        Some(match self.needed?.found {
            Some(Proof::Serves) => format!(
                "writes wait: {peer} is primary of {group}, too; `helio demote {group}` on the node whose writes you \
                 discard, or stop its daemon if its clients cannot be disconnected"
            ),
            Some(Proof::TookOver) => format!(
                "writes wait: {peer} was promoted and is not primary now; `helio demote {group}` on {node} (or stop its \
                 daemon if its clients cannot be disconnected), then `helio promote {group}` on {peer}; or `helio \
                 resolve {group} --discard {peer}` on {peer}"
            ),
            _ => format!("writes wait until it is certain that {peer} was not promoted"),
        })
    }

    /// A check is needed that began at `since` or later. What the peer answered so far proves nothing.
    pub(crate) fn needs_check(&mut self, since: Moment) {
        let since = self.needed.map_or(since, |check| check.since.max(since));
        self.needed = Some(Check { since, found: None });
    }

    /// Holds back the acknowledgements that were not performed yet.
    pub(crate) fn hold(&mut self, out: &mut Vec<Effect>) {
        for effect in mem::take(out) {
            match effect {
                Effect::Reply { request, answer: answer @ Answer::Done(_) } => {
                    self.held.push((request, answer));
                }
                other => out.push(other),
            }
        }
    }

    /// An attempt to reach the peer that began then failed. Returns what passes the check, if that does.
    pub(crate) fn dial_failed(&self, began: Moment) -> Option<Proof> {
        self.needed.filter(|check| began >= check.since).map(|_| Proof::Unreachable)
    }

    /// The connection that began then ended, and that proves something if it is new enough: what lay in a socket during
    /// the pause is read at once after it. Returns what passes the check, if that does.
    pub(crate) fn connection_ended(
        &mut self,
        proof: Proof,
        began: Moment,
        now: Moment,
        peer_timeout: Duration,
    ) -> Option<Proof> {
        let Check { since, found } = self.needed.as_mut()?;
        let late = *since + peer_timeout;
        let counts = match proof {
            Proof::Nothing => false,
            Proof::Serves | Proof::TookOver => {
                *found = Some(proof);
                false
            }
            // A connection that was made during the pause may have been closed during the pause.
            Proof::Unreachable => began >= *since && now >= late,
            // It answers the hello of this node, which was sent since.
            Proof::NotServed => began >= *since,
            // The hello may have been sent during the pause.
            Proof::Follows => began >= late,
        };
        counts.then_some(proof)
    }

    /// The peer answered a ping that was sent after the pause. Returns what passes the check, if that does.
    pub(crate) fn peer_answered(&self, serving: bool) -> Option<Proof> {
        (self.withholds() && !serving).then_some(Proof::Follows)
    }

    /// The check passed: what was held back is acknowledged.
    pub(crate) fn end(&mut self, out: &mut Vec<Effect>) {
        self.needed = None;
        let held = mem::take(&mut self.held).into_iter();
        out.extend(held.map(|(request, answer)| Effect::Reply { request, answer }));
    }

    /// Fails the requests whose acknowledgements are held back: this node leaves the primary role.
    pub(crate) fn give_up(&mut self, out: &mut Vec<Effect>) {
        let held = mem::take(&mut self.held).into_iter();
        out.extend(held.map(|(request, _)| {
            let answer = Answer::Denied(Denial::NotPrimary);
            Effect::Reply { request, answer }
        }));
    }

    /// This node begins or ends to be primary: no check is needed.
    pub(crate) fn forget(&mut self, out: &mut Vec<Effect>) {
        self.give_up(out);
        self.needed = None;
    }
}
