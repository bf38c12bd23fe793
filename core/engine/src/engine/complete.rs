// SPDX-License-Identifier: Apache-2.0
//! Whether a command would discard the last complete copy, as far as this node knows (`helio_recovery::Completeness` has the table).

use crate::lead::Primary;
use crate::refusal::Refusal;
use crate::show::fault::Fault;
use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use helio_recovery::{
    Completeness, Delivered, Side, Yields, is_last, no_complete_copy, only_choice,
};
use helio_units::{Moment, Role};

impl View<'_> {
    /// What is known of this node's own copy.
    pub(crate) fn own_copy(&self) -> Completeness {
        let preserved = self.keeper.kept().is_some_and(|(_, sound)| sound);
        let copy = match Completeness::of(&self.hello_of_record()) {
            // To accept such a copy does not complete it.
            Completeness::Suspect | Completeness::GivenUp
                if !self.record.superblock().consistent =>
            {
                Completeness::Inconsistent
            }
            // What the record tells of lies on the disk that was taken out.
            Completeness::Inconsistent
                if self.local.members().are_foreign()
                    && self.record.superblock().consistent
                    && !self.record.keeping().is_disowned() =>
            {
                Completeness::Failed
            }
            copy => copy,
        };
        match copy {
            Completeness::Inconsistent if preserved => Completeness::Preserved,
            copy => copy.unless_failed(self.has_failed()),
        }
    }

    /// What this node knows of its peer's copy, connected or not.
    #[must_use]
    pub fn peer_copy(&self) -> Completeness {
        let session = self.peer.session();
        let copy = match self.standing.primary().and_then(Primary::left_consistent) {
            Some(true) => Completeness::Complete,
            Some(false) => Completeness::Inconsistent,
            None => session.copy(),
        };
        copy.unless_failed(session.report().is_some_and(|report| !report.fault.is_empty()))
    }

    /// The peer, unless its copy is known to be one that cannot be promoted: a promotion there copies everything to another disk here.
    pub(crate) fn peer_that_may_fill(&self) -> Option<&str> {
        self.turn.config().peer_name().filter(|_| self.peer_copy().may_be_complete())
    }

    /// Why this node's copy does not lead beside a complete one, whether a peer is connected or not.
    #[must_use]
    pub fn yields(&self) -> Option<Yields> {
        Yields::of(&self.hello_of_record())
    }

    /// Why the connected peer, whose copy is complete, does not agree to a promotion of this node.
    #[must_use]
    pub fn yields_to_peer(&self) -> Option<Yields> {
        let session = self.peer.session();
        let peer = session.peer().filter(|_| session.copy().is_complete())?;
        Yields::beside(&self.record_as_met(), peer)
    }

    /// Whether this node was primary, and its record proves that its peer has everything that it acknowledged.
    pub(crate) fn peer_has_everything(&self) -> bool {
        !self.standing.leads() && Delivered::of(self.record.superblock()) == Delivered::Everything
    }

    /// Whether this node was primary, and left something that its peer may not have.
    pub(crate) fn is_ahead(&self) -> bool {
        !self.standing.leads()
            && Delivered::of(self.record.superblock()) == Delivered::NotEverything
    }

    /// Refuses to give up this node's copy for its peer's, if it may be the last complete one. `allowed`: the operator named it as that.
    pub(crate) fn refuse_last_complete(&self, allowed: bool) -> Result<(), Refusal> {
        let kept = self.peer_copy();
        if allowed || !is_last(self.own_copy(), kept) {
            return Ok(());
        }
        let config = self.turn.config();
        let (node, peer, group) = (&config.node, &config.peer, &config.group);
        let text = format!(
            "the copy of {group} on {node} may be the last complete one: {}",
            kept.of_node(peer)
        );
        let hint = format!(
            "{}; to give up the copy of {node} all the same, add `--last-copy {node}`",
            self.way_to_keep(kept)
        );
        Err(Refusal::new("last-copy", text, hint))
    }

    /// What an operator does to keep this node's copy, of a peer whose copy is not known to be complete.
    fn way_to_keep(&self, theirs: Completeness) -> String {
        let config = self.turn.config();
        let (node, peer, group) = (&config.node, &config.peer, &config.group);
        if self.peer.session().refused().is_some()
            && let Some(choice) = self.only_choice()
        {
            return choice;
        }
        let copies = if self.standing.leads() {
            format!("`helio resync {group}` on {node} copies from {node} to {peer}")
        } else {
            format!("`helio promote {group}` on {node}, which then copies to {peer}")
        };
        match theirs {
            Completeness::Failed => {
                format!("`helio status {group}` on {peer} shows what to repair; or {copies}")
            }
            _ if self.peer.session().peer().is_some() => copies,
            Completeness::Unheard => {
                format!("start the daemon of {peer}, or restore the link, then repeat")
            }
            _ => format!("start the daemon of {peer}, or restore the link; then {copies}"),
        }
    }

    /// What an operator does about two nodes of which one must be discarded, unless both copies are complete.
    #[must_use]
    pub fn only_choice(&self) -> Option<String> {
        self.of_both(only_choice)
    }

    /// What an operator does about two copies neither of which is known to be complete.
    #[must_use]
    pub fn no_complete_copy(&self) -> String {
        self.of_both(no_complete_copy)
    }

    /// The same, if two secondaries are connected, neither copy is complete, and this sound node preserves a consistent one: what the peer reports
    /// does not name that.
    #[must_use]
    pub fn preserved_choice(&self) -> Option<String> {
        let idle = self.peer.session().peer().is_some_and(|peer| !peer.serving);
        let is_way_out = idle
            && !self.has_failed()
            && self.own_copy() == Completeness::Preserved
            && !self.peer_copy().is_complete();
        is_way_out.then(|| self.no_complete_copy())
    }

    /// What is said of both copies, by what this node knows of them.
    fn of_both<T>(&self, says: impl FnOnce(&str, [Side<'_>; 2]) -> T) -> T {
        let (config, session) = (self.turn.config(), self.peer.session());
        let copy = self.own_copy();
        let fault = match copy {
            Completeness::Failed => self.fault().unwrap_or_default(),
            _ => Fault::default(),
        };
        let suspect = self.suspect_text().map_or_else(String::new, |(at, _)| config.name_of(at));
        let here = Side {
            node: &config.node,
            role: if self.standing.leads() { Role::Primary } else { Role::Secondary },
            copy,
            suspect: &suspect,
            repair: &fault.hint,
        };
        let there = Side {
            node: &config.peer,
            role: session.role().unwrap_or(Role::Secondary),
            copy: self.peer_copy(),
            repair: session.report().map_or("", |report| &report.hint),
            suspect: "",
        };
        says(&config.group, [here, there])
    }

    /// Since when the peer waits for what this node says in its next hello: then either node connects, whichever it is otherwise.
    #[must_use]
    pub fn has_news_for_peer(&self) -> Option<Moment> {
        self.peer.session().news()
    }
}
