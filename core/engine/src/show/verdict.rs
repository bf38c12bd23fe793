// SPDX-License-Identifier: Apache-2.0
//! The verdict on a group: whether its data is protected. Both nodes come to the same one while they are connected,
//! since each decides by the same facts of both.

use crate::role::Following;
use crate::show::fault::Fault;
use crate::show::view::View;
use helio_format::report::Report;
use helio_units::{Role, State, Verdict, VolumeIndex};

/// Rows of the recovery table by which both nodes acknowledged writes that the other does not have.
const CLASHES: [&str; 4] = ["two-primaries", "split-brain", "both-crashed", "diverged"];

/// Which nodes serve clients, as far as this one knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// One of the two, and this one knows.
    Yes,
    /// None.
    No,
    /// The peer did when it was connected last.
    Cut,
    /// The peer sent no message since this daemon started.
    Unheard,
}

/// What the verdict is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) served: Served,
    /// Both nodes acknowledged writes of their own.
    pub(crate) clash: bool,
    /// Something failed on one of the nodes.
    pub(crate) fault: bool,
    /// The copies are in sync, no verify found a difference, and the link is not unsteady. In a group of one node: no volume lacks members.
    pub(crate) in_sync: bool,
}

/// The one table of verdicts: the first row that applies.
pub(crate) const fn verdict(facts: Facts) -> Verdict {
    match facts {
        Facts { clash: true, .. } => Verdict::SplitBrain,
        Facts { fault: true, .. } => Verdict::DiskFailed,
        Facts { served: Served::No, .. } => Verdict::NoPrimary,
        Facts { served: Served::Unheard, .. } => Verdict::Unknown,
        Facts { served: Served::Yes, in_sync: true, .. } => Verdict::Ok,
        Facts { served: Served::Yes | Served::Cut, .. } => Verdict::AtRisk,
    }
}

impl View<'_> {
    pub(crate) fn verdict(&self, state: State) -> Verdict {
        let theirs = self.peer.session().report();
        let served = match (self.standing.primary(), self.peer.session().peer()) {
            (Some(_), _) => Served::Yes,
            _ if self.turn.config().peer_name().is_none() => Served::No,
            (None, Some(peer)) if peer.serving => Served::Yes,
            (None, Some(_)) => Served::No,
            (None, None) if self.standing.is(Following::Returning) => Served::No,
            // Neither was primary when they were connected last, and a primary cannot be made without this node or force.
            (None, None) if self.peer.session().role() == Some(Role::Secondary) => Served::No,
            (None, None) if self.peer.session().last_heard().is_some() => Served::Cut,
            (None, None) => Served::Unheard,
        };
        verdict(Facts {
            served,
            clash: self.clash().is_some()
                || self.is_ahead() && theirs.is_some_and(|report| report.ahead),
            fault: self.has_failed() || self.peer_failed(),
            in_sync: match self.turn.config().peer_name() {
                Some(_) => {
                    matches!(state, State::Replicating | State::Periodic)
                        && self.unrepaired() == 0
                        && self.peer.session().unsteady().is_none()
                }
                None => !self.turn.config().indices().any(|volume| self.lacks_members(volume)),
            },
        })
    }

    /// Whether the volume has several members, and fewer than two of them are full.
    #[must_use]
    pub fn lacks_members(&self, volume: VolumeIndex) -> bool {
        self.local.lacks_members(volume)
    }

    /// Differences that a verify found and that were not repaired, on a secondary as its primary reported.
    pub(crate) fn unrepaired(&self) -> u64 {
        match (self.standing.primary(), self.peer.session().report()) {
            (Some(_), _) => self.resync.verify().unmended(),
            (None, report) => report.map_or(0, |report| report.differing),
        }
    }

    /// The row of the recovery table by which both nodes acknowledged writes that the other does not have.
    #[must_use]
    pub fn clash(&self) -> Option<&'static str> {
        let last = self.show.last_decision().filter(|_| self.peer.session().refused().is_some())?;
        CLASHES.into_iter().find(|label| *label == last.label)
    }

    /// What this node reports of itself to its peer.
    pub(crate) fn report(&self, state: State) -> Report {
        // Its texts are long to look for, and mostly there are none.
        let fault = if self.has_failed() { self.fault() } else { None }.unwrap_or_default();
        let primary = self.standing.primary();
        let in_force = state.has_mode();
        // What waits in the queue or on the link of a connected peer changes with every write, and its pings tell.
        let cut = self.peer.session().peer().is_none();
        Report {
            effective: primary.map(|p| p.effective(self.turn.config().mode)).filter(|_| in_force),
            paused: self.is_paused(),
            ahead: self.is_ahead(),
            differing: primary.map_or(0, |_| self.resync.verify().unmended()),
            only_here: primary.filter(|_| cut).map(|p| p.lag(self.turn.now(), self.local).bytes),
            last_write: self.turn.last_write().map(|at| self.turn.now() - at),
            fault: fault.what,
            hint: fault.hint,
        }
    }

    /// Whether an operator paused replication on this primary.
    pub(crate) fn is_paused(&self) -> bool {
        self.standing.primary().is_some_and(|primary| primary.owed().is_paused())
    }

    /// Of a secondary without a connection, that its peer is away counts, unless a secondary closed the connection because of its fault:
    /// it does so again at each connection.
    fn peer_failed(&self) -> bool {
        let session = self.peer.session();
        let closed = session.has_failed() && session.role() == Some(Role::Secondary);
        let counts = self.standing.leads() || session.peer().is_some() || closed;
        counts && session.report().is_some_and(|report| !report.fault.is_empty())
    }

    /// The fault of the peer, if an operator must do something about it.
    pub(crate) fn peer_needs_repair(&self) -> Option<Fault> {
        self.peer_fault().filter(|fault| !Fault::needs_nothing(&fault.hint))
    }

    /// What failed on the peer, as it reported last.
    pub(crate) fn peer_fault(&self) -> Option<Fault> {
        let report = self.peer.session().report().filter(|_| self.peer_failed())?;
        Some(Fault { what: report.fault.clone(), hint: report.hint.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_of_facts_has_the_worst_verdict_that_applies() {
        let flags = [false, true];
        for served in [Served::Yes, Served::No, Served::Cut, Served::Unheard] {
            for (clash, fault, in_sync) in flags
                .into_iter()
                .flat_map(|a| flags.into_iter().map(move |b| (a, b)))
                .flat_map(|(a, b)| flags.into_iter().map(move |c| (a, b, c)))
            {
                let found = verdict(Facts { served, clash, fault, in_sync });
                let expected = [
                    (clash, Verdict::SplitBrain),
                    (fault, Verdict::DiskFailed),
                    (served == Served::No, Verdict::NoPrimary),
                    (served == Served::Unheard, Verdict::Unknown),
                    (served == Served::Cut || !in_sync, Verdict::AtRisk),
                    (true, Verdict::Ok),
                ];
                let first = expected.into_iter().find(|(applies, _)| *applies);
                assert_eq!(Some(found), first.map(|(_, verdict)| verdict));
                assert!(found != Verdict::Ok || (in_sync && served == Served::Yes));
            }
        }
    }
}
