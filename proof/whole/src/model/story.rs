// SPDX-License-Identifier: Apache-2.0
//! Broken promises, and the words that tell of one.

use super::{Action, Fate, Model};
use std::fmt;

/// What the product promises to clients. The names are those of the core's simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// A read returns what was answered before it, or later.
    ReadsBack,
    /// What was answered before a FLUSH was submitted, and a FUA write itself, is durable here.
    DurableHere,
    /// A write answered in an effective mode that includes the peer is there.
    AtPeer,
    /// A peer that takes over holds, with any write, every write answered before that one began.
    Closed,
    /// The lag that a primary reports is not smaller than the acknowledged data that is missing on its peer.
    Reports,
    /// A sector holds the bytes of one write of a client, or zeros.
    KnownBytes,
    /// Every request is answered exactly once, or its connection ends.
    AnsweredOnce,
    /// The server keeps to the protocol.
    Protocol,
    /// A request or option that breaks a rule or a bound is refused.
    Refuses,
    /// Full members of a volume hold the same bytes once its group is in sync.
    SameCopies,
    /// Every group is in sync again some time after the last misfortune.
    InSyncAgain,
    /// What was asked for ends, and clients can leave.
    Ends,
    /// A daemon that stopped has nothing open.
    Closes,
    /// Once a group is in sync and no client is left, nothing is held for one.
    Rests,
    /// Nothing grows with time.
    Steady,
    /// What a daemon reports is within the bounds of its configuration.
    Bounded,
    /// Clients and operators are served while nothing fails, or only another group does.
    Serves,
    /// A daemon that has nothing to do waits.
    Waits,
    /// What is to be attached is attached again, and nothing else is left of devices.
    Attached,
    /// A daemon starts on sound disks.
    Starts,
    /// A daemon ends if it is stopped, and cleanly, as long as its disks are sound.
    Stays,
    /// Nothing panics.
    NoPanic,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadsBack => "a read returns what was answered before it",
            Self::DurableHere => "what a FLUSH or FUA answer covers is durable here",
            Self::AtPeer => "a write answered in sync is at the peer",
            Self::Closed => "a secondary is closed under \"answered before accepted\"",
            Self::Reports => {
                "the lag that a primary reports covers all that is missing on its peer"
            }
            Self::KnownBytes => "a sector holds only what a client wrote there",
            Self::AnsweredOnce => "every request is answered exactly once",
            Self::Protocol => "the server keeps to the protocol",
            Self::Refuses => "what breaks a rule is refused",
            Self::SameCopies => "the copies of a volume in sync are equal",
            Self::InSyncAgain => "every group is in sync again after the last misfortune",
            Self::Ends => "what was asked for ends",
            Self::Closes => "a daemon that stopped has nothing open",
            Self::Rests => "nothing is held at rest",
            Self::Steady => "nothing grows with time",
            Self::Bounded => "every bound holds",
            Self::Serves => "clients and operators are served",
            Self::Waits => "a daemon that has nothing to do waits",
            Self::Attached => "what is to be attached is attached, and nothing else is left",
            Self::Starts => "a daemon starts on sound disks",
            Self::Stays => "a daemon on sound disks ends only if it is stopped, and cleanly",
            Self::NoPanic => "nothing panics",
        })
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// What was seen.
    pub detail: String,
}

impl Violation {
    /// A promise that was broken, and how.
    #[must_use]
    pub const fn new(promise: Promise, detail: String) -> Self {
        Self { promise, detail }
    }

    /// A node cannot be made, or does not start on sound disks.
    pub(crate) const fn starts(detail: String) -> Self {
        Self::new(Promise::Starts, detail)
    }

    /// The same, with who broke it.
    #[must_use]
    pub fn at(self, name: &str) -> Self {
        Self { detail: format!("{name}: {}", self.detail), ..self }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken: {}: {}", self.promise, self.detail)
    }
}

/// Fails with a violation unless `holds`.
pub(super) fn hold(
    holds: bool,
    promise: Promise,
    detail: impl FnOnce() -> String,
) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation::new(promise, detail())) }
}

impl Model {
    /// A request and what became of it, in one line; 0 stands for what was there first.
    pub(super) fn tell(&self, ticket: u64) -> String {
        if ticket == 0 {
            return "the zeros that the volume began with".to_owned();
        }
        let record = self.record(ticket);
        let request = &record.request;
        let (name, extent, forced) = match request.action {
            Action::Read(extent) => ("read", Some(extent), false),
            Action::Write { extent, fua } => ("write", Some(extent), fua),
            Action::Zero { extent, fua } => ("zeroing", Some(extent), fua),
            Action::Flush => ("FLUSH", None, false),
            Action::Hint => ("CACHE", None, false),
        };
        let place = extent.map_or(String::new(), |extent| format!(" at {extent}"));
        let forced = if forced { " with FUA" } else { "" };
        let end = match record.fate {
            Fate::Open => "not answered yet".to_owned(),
            Fate::Unanswered => "never answered".to_owned(),
            Fate::Settled { at } => format!("never answered, ended at #{at}"),
            Fate::Withdrawn => "never sent whole".to_owned(),
            Fate::Failed { at, code } => format!("failed with {code} at #{at}"),
            Fate::Acknowledged { at, when } => {
                format!("acknowledged at #{at} ({:.6} s)", seconds(when))
            }
        };
        let durable = if record.durable { ", durable" } else { "" };
        let void = record.void.map_or(String::new(), |at| format!(", given up at #{at}"));
        format!(
            "{name} {ticket}{forced} of connection {} to volume {}{place}, begun at #{} ({:.6} s), {end}{durable}{void}",
            request.connection.0,
            request.volume,
            record.begun,
            seconds(record.when),
        )
    }
}

fn seconds(moment: helio_units::Moment) -> f64 {
    moment.0 as f64 / 1e9
}
