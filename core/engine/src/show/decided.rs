// SPDX-License-Identifier: Apache-2.0
//! Which row of the recovery table decided last, and what it looked at.
//!
//! The source alone has all the facts; it sends the row's label to the target. If it refused before it could, both nodes
//! looked the same two hellos up in the same table.

use crate::peer::link::Session;
use crate::show::Show;
use crate::show::view::View;
use crate::turn::Turn;
use alloc::string::{String, ToString};
use helio_format::message::{Hello, Message};
use helio_format::roles::Roles;
use helio_recovery::{Facts, LastDecision};

impl Show {
    /// Keeps the row that fired; a source tells it to the target. `ours`: this node's hello, as it met.
    pub(crate) fn remember_row(
        &mut self,
        facts: Facts,
        label: &'static str,
        as_source: bool,
        ours: Hello,
        session: &Session,
        turn: &mut Turn,
    ) {
        let Some(peer) = session.peer().cloned() else { return };
        let (source, target) = if as_source { (ours, peer) } else { (peer, ours) };
        let (at, label) = (turn.now(), label.to_string());
        if as_source {
            turn.send(Message::Roles(Roles::Row { label: label.clone() }));
        }
        self.decided(LastDecision { at, label, as_source, source, target, facts });
    }

    /// The source tells by which row it went.
    pub(crate) fn row_told(&mut self, label: String, ours: Hello, session: &Session, turn: &Turn) {
        let Some(peer) = session.peer().cloned() else { return };
        let began = session.since();
        let known = self.last_decision().filter(|last| !last.as_source && last.at >= began);
        if known.is_none_or(|last| last.label != label) {
            let facts = helio_recovery::facts_of(&peer, &ours);
            let (at, as_source) = (turn.now(), false);
            let (source, target) = (peer, ours);
            self.decided(LastDecision { at, label, as_source, source, target, facts });
        }
    }
}

impl<'a> View<'a> {
    /// What the recovery table decided when the peer connected last.
    #[must_use]
    pub fn last_decision(&self) -> Option<&'a LastDecision> {
        self.show.last_decision()
    }
}
