// SPDX-License-Identifier: Apache-2.0
//! A primary that goes on without its peer.

use crate::config::WhenFull;
use crate::lead::Primary;
use crate::lead::outgoing::Opening;
use crate::local::Local;
use crate::peer::permit::Permit;
use crate::record::Record;
use crate::record::save::Goal;
use crate::resync::verify::Verify;
use crate::stream::unreplicated::Unreplicated;
use crate::turn::Turn;
use alloc::format;
use helio_format::lineage::Lineage;
use helio_units::{Mode, Sequence};

impl Primary {
    /// Whether the record of the generation says that writes are acknowledged without the peer.
    pub(crate) fn acknowledges_alone(&self) -> bool {
        self.unreplicated == Unreplicated::Recorded
    }

    /// Acknowledgements without the peer begin anew, in a generation of their own.
    pub(crate) const fn begin_generation(&mut self) {
        self.unreplicated = Unreplicated::Wanted;
    }

    /// Goes on in a generation that was recorded, once the peer has taken up the stream before it: a stream that
    /// begins twice would make it forget what came between.
    pub(crate) fn go_on_in(
        &mut self,
        lineage: Lineage,
        verify: &mut Verify,
        local: &Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        if !self.is_taken_up() {
            return;
        }
        // A marker that is on its way ends the inconsistency before the peer takes up the new generation.
        let sent = self.target.cursors().sent();
        let consistent = self.target.owed().is_consistent_after(sent);
        self.begin_stream(
            Opening { lineage, from: sent.next(), consistent },
            verify,
            local,
            permit,
            turn,
        );
    }

    /// It cannot be recorded that writes are acknowledged without the peer: then none is.
    pub(crate) fn refuse_alone(&mut self, local: &Local, permit: &Permit, turn: &mut Turn) {
        self.unreplicated = Unreplicated::Unrecordable;
        self.consider_all(local, permit, turn);
    }

    /// Asks for the record that fits how answers are given now. A restore is recorded only while the record says that writes may be
    /// acknowledged without the peer. So while one begins, this primary does not record that the peer has everything, even if a resync
    /// has made the copies equal.
    pub(crate) fn record_company(
        &mut self,
        restore_begins: bool,
        record: &mut Record,
        local: &Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        if local.metadata_failed() && self.unreplicated == Unreplicated::Wanted {
            self.refuse_alone(local, permit, turn);
        }
        if record.is_saving() || local.metadata_failed() {
            return;
        }
        let level = self.is_level();
        let config = turn.config();
        let together = self.wanted_mode(config.mode) == Mode::Sync || config.may_lease();
        let raises = !record.superblock().alone && config.hold_millis() > record.superblock().hold;
        match self.unreplicated {
            Unreplicated::Wanted | Unreplicated::Unrecordable => record.want(Goal::Alone),
            Unreplicated::Recorded if restore_begins => {}
            at if level && together && (at == Unreplicated::Recorded || raises) => {
                self.unreplicated = Unreplicated::Together;
                record.want(Goal::Together);
            }
            Unreplicated::Recorded | Unreplicated::Together => {}
        }
    }

    /// The record of another generation is being written.
    pub(crate) const fn generation_begins(&mut self, fork: Sequence) {
        self.target.generation_begins(fork);
    }

    /// It is durable, or `failed` to be.
    pub(crate) const fn generation_recorded(&mut self, failed: bool) {
        self.target.generation_recorded(failed);
    }

    /// The new generation is durable: what waited for it is answered, and a stream goes on in it.
    pub(crate) fn alone_saved(
        &mut self,
        record: &Record,
        local: &Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        let lineage = record.superblock().lineage;
        turn.info(format!(
            "writes are acknowledged without {} from item {} on, in generation {}",
            turn.config().peer,
            record.superblock().head,
            lineage.generation
        ));
        self.unreplicated = Unreplicated::Recorded;
        self.consider_all(local, permit, turn);
    }

    /// All extents are hot for items that a peer lacks which is away. Their number is a bound like the queue's, and
    /// meets the same policy: where it says log, or this node `leaves` for good, marks take the place of order.
    pub(crate) fn give_order_up(
        &mut self,
        leaves: bool,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        let logs = turn.config().queue.disconnected == WhenFull::Log || leaves;
        if !self.target.streams()
            && self.lack.is_none()
            && self.target.owed().queues_in_order()
            && logs
        {
            self.drop_queue("every hot extent holds what the peer lacks", local, permit, turn);
        }
    }
}
