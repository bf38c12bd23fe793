// SPDX-License-Identifier: Apache-2.0
//! What is remembered of a meeting, and what the peer is told of this node.

use crate::engine::Engine;
use alloc::string::{String, ToString};
use helio_format::message::Message;
use helio_format::report::Report;
use helio_format::roles::Roles;
use helio_recovery::{Facts, LastDecision};
use helio_units::State;

impl Engine {
    /// Keeps the row that fired; a source tells it to the target.
    pub(crate) fn remember_row(&mut self, facts: Facts, label: &'static str, as_source: bool) {
        let ours = self.view().hello_as_met();
        let Some(peer) = self.peer.session.peer().cloned() else { return };
        let (source, target) = if as_source { (ours, peer) } else { (peer, ours) };
        let at = self.turn.now();
        self.show.decided(LastDecision {
            at,
            label: label.to_string(),
            as_source,
            source,
            target,
            facts,
        });
        if as_source {
            self.turn.send(Message::Roles(Roles::Row { label: label.to_string() }));
        }
    }

    /// The source tells by which row it went. Two that both serve are both sources, and went by the same one.
    pub(crate) fn row_told(&mut self, label: String) {
        if self.standing.leads() {
            return;
        }
        let ours = self.view().hello_as_met();
        let Some(peer) = self.peer.session.peer().cloned() else { return };
        let began = self.peer.session.since();
        let known = self.show.last_decision().filter(|last| !last.as_source && last.at >= began);
        if known.is_none_or(|last| last.label != label) {
            let facts = helio_recovery::facts_of(&peer, &ours);
            let (at, as_source) = (self.turn.now(), false);
            self.show.decided(LastDecision {
                at,
                label,
                as_source,
                source: peer,
                target: ours,
                facts,
            });
        }
    }

    /// Two that do not serve met, and one of them must not go on.
    pub(crate) fn remember_refusal(&mut self, label: &'static str) {
        let ours = self.view().hello_as_met();
        if let Some(peer) = self.peer.session.peer() {
            self.remember_row(helio_recovery::facts_of(&ours, peer), label, true);
        }
    }

    /// Sends the report where it changed since the hello or the last one.
    pub(crate) fn report_to_peer(&mut self, state: State) {
        if self.peer.session.peer().is_none() {
            return;
        }
        let report = self.view().report(state);
        // The time of the last write is no news by itself: it changes with every write.
        let same = self.peer.session.reported().is_some_and(|last| {
            let figures = |r: &Report| (r.effective, r.paused, r.ahead, r.differing, r.only_here);
            let texts = last.fault == report.fault && last.hint == report.hint;
            figures(last) == figures(&report) && texts
        });
        if !same {
            self.peer.session.reports(report.clone());
            self.turn.send(Message::Report(report));
        }
    }
}
