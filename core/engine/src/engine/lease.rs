// SPDX-License-Identifier: Apache-2.0
//! The hold lease among the other rooms: when it is asked for and kept, and whether it was taken over by.

use crate::follow::follower::Follower;
use crate::peer::lease::Use;
use crate::role::Following;
use crate::show::view::View;
use helio_format::lineage::Relation;
use helio_units::{Moment, State};

impl View<'_> {
    /// Whether this node is, or is about to be, primary by its hold lease.
    #[must_use]
    pub fn leads_by_lease(&self) -> bool {
        self.permit.lease().is_used()
    }

    /// Until when this node may become primary by its hold lease, if it has one.
    #[must_use]
    pub fn lease_held(&self) -> Option<Moment> {
        let until = self.permit.lease().held_until()?;
        (self.turn.now() < until && self.lease_use() != Use::Nothing).then_some(until)
    }

    /// The peer introduced itself while this primary waits for its lease to end: as primary, by that lease?
    pub(crate) fn lease_was_taken(&self) -> bool {
        let (Some(p), Some(peer)) = (self.standing.primary(), self.peer.session().peer()) else {
            return false;
        };
        let Relation::Descendant(fork) =
            self.record.superblock().lineage.relation_of(&peer.lineage)
        else {
            return false;
        };
        let same = p.peer_incarnation() == Some(peer.incarnation)
            && peer.sure
            && p.has_answered_only(fork);
        same && self.permit.withholds(self.turn.now()) && !self.permit.lease().was_used()
    }

    /// What this node may do with a lease.
    pub(crate) fn lease_use(&self) -> Use {
        let may_use = self.turn.config().may_lease()
            && self.standing.is(Following::Secondary)
            && !self.asked.switches()
            && self.is_consistent()
            && self.standing.streaming().is_some_and(|f| f.failed().is_none())
            && !self.local.metadata_failed();
        let told = self.peer.session().told().and_then(|(ping, _)| ping.state);
        let granted = self.peer.session().peer().is_some_and(|hello| hello.serving)
            && told == Some(State::Replicating)
            && self.standing.follower().is_some_and(Follower::is_begun);
        match (may_use, granted) {
            (false, _) => Use::Nothing,
            (true, false) => Use::Keeps,
            (true, true) => Use::Asks,
        }
    }
}
