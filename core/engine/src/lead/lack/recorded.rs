// SPDX-License-Identifier: Apache-2.0
//! Regions that only the peer has: what follows once the record tells of them, or cannot.

use crate::effect::Answer;
use crate::event::CommandId;
use crate::lead::Primary;
use crate::lead::lack::{Due, Lack, Reversal};
use crate::lead::outgoing::Opening;
use crate::local::Local;
use crate::local::silence::given_up_hint;
use crate::peer::permit::Permit;
use crate::record::Record;
use crate::refusal::{Denial, Refusal};
use crate::resync::verify::Verify;
use crate::stream::unreplicated::Unreplicated;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_stack::StoreFault;
use helio_units::{Extent, MemberState, VolumeIndex};

impl Primary {
    /// Regions are missing here, and the peer's copy is served.
    pub(crate) const fn is_lacking(&self) -> bool {
        self.lack.is_some()
    }

    /// The peer's copy takes the place of this node's own: what is marked is good there, and missing here. A reversal does that once it is
    /// recorded, and the failure of a disk at once.
    pub(crate) fn peer_replaces_copy(&self) -> bool {
        self.lack.as_ref().is_some_and(|lack| lack.reversal().is_none())
    }

    /// The record says which regions are missing here.
    pub(crate) fn is_lack_recorded(&self) -> bool {
        self.lack.as_ref().is_some_and(Lack::is_recorded)
    }

    /// A reversal that is being recorded.
    pub(crate) fn reversal(&self) -> Option<Reversal> {
        self.lack.as_ref()?.reversal()
    }

    /// Whether that extent is being written with what was pulled from the peer.
    pub(crate) fn is_pulling(&self, volume: VolumeIndex, extent: Extent) -> bool {
        self.lack.as_ref().is_some_and(|lack| lack.is_pulling(volume, extent))
    }

    /// The copy of the peer takes the place of this node's own, wherever the two may differ.
    pub(crate) fn lack_all(&mut self, command: CommandId, incarnation: Option<u64>) {
        let head = self.line.head();
        self.own.forgive();
        self.target.lead_from(head, incarnation);
        self.lack = Some(Lack::new(Some(Reversal { command, head })));
    }

    /// Asks for the records that go with lacking regions.
    pub(crate) fn record_lack(
        &mut self,
        record: &mut Record,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        let Some(lack) = self.lack.as_mut().filter(|_| !record.is_saving()) else { return };
        // What a reversal replaces, nobody is told to have behind its record: answers that are held back go first.
        let held = lack.reversal().is_some() && !permit.pause().is_quiet();
        let kept = self.marks.is_saved() && !held;
        match lack.due(kept, local.metadata_failed()) {
            Due::Nothing => {}
            Due::News => self.consider_all(local, permit, turn),
            Due::Record(goal) => record.want(goal),
            Due::Unrecordable => self.lack_unrecorded(local, permit, turn),
        }
    }

    /// The record says that this node's image is not consistent: from here on the peer's is served.
    pub(crate) fn lacking_saved(
        &mut self,
        connected: bool,
        record: &Record,
        verify: &mut Verify,
        local: &Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        let lineage = record.superblock().lineage;
        let marked = self.marks.dirty_bytes();
        let Some(lack) = &mut self.lack else { return };
        let reversal = lack.recorded();
        let peer = turn.config().peer.clone();
        self.copier.progress_mut().begin(marked, turn.now());
        if let Some(Reversal { head, .. }) = reversal {
            self.unreplicated = Unreplicated::Together;
            if connected {
                self.begin_stream(
                    Opening { lineage, from: head.next(), consistent: true },
                    verify,
                    local,
                    permit,
                    turn,
                );
            }
        }
        turn.info(format!(
            "{marked} in dirty regions are served from {peer}, and copied from there"
        ));
        self.consider_all(local, permit, turn);
        if let Some(Reversal { command, .. }) = reversal {
            turn.done(
                command,
                Ok(format!(
                    "the copy of {peer} is served from now on; {marked} are copied in the \
                                           background"
                )),
            );
        }
    }

    /// That record could not be made: a reversal does not begin, and where a store was lost nothing is answered that the
    /// record would have to tell of.
    pub(crate) fn lack_unrecorded(&mut self, local: &mut Local, permit: &Permit, turn: &mut Turn) {
        if self.has_lost() {
            // What ends later is denied as well.
            if let Some(lack) = &mut self.lack {
                lack.record_again();
            }
            self.deny_all(turn);
            return self.release_front(turn);
        }
        let Some(lack) = self.lack.take() else { return };
        for id in lack.reads() {
            turn.reply(id, Answer::Denied(Denial::Store(StoreFault::Io)));
        }
        self.marks.abandon_copies();
        let Some(Reversal { command, .. }) = lack.reversal() else { return };
        self.drop_queue("the reverse resync could not be recorded", local, permit, turn);
        local.hot_mut().bitmap_changed();
        turn.done(command, Err(turn.metadata_refusal()));
    }

    /// The record says that this node's image is consistent again.
    pub(crate) fn whole_saved(&mut self, local: &Local, permit: &Permit, turn: &mut Turn) {
        if !self.marks.none_dirty() {
            if let Some(lack) = &mut self.lack {
                lack.record_again();
            }
            return;
        }
        self.lack = None;
        self.own.trust_all();
        turn.info(format!(
            "this node has everything again and no longer needs {}",
            turn.config().peer
        ));
        self.mode_changed(local, permit, turn);
    }

    /// What is lacking is pulled on.
    ///
    /// # Errors
    /// A store that failed cannot be used again yet.
    pub(crate) fn pull_on(
        &mut self,
        local: &Local,
        turn: &Turn,
    ) -> Result<Option<String>, Refusal> {
        let Some(lack) = &mut self.lack else { return Ok(None) };
        lack.go_on();
        let silent = |volume: &&VolumeIndex| local.member_state(**volume) == MemberState::GivenUp;
        let again: Vec<VolumeIndex> = lack.lost().collect();
        if let Some(volume) = again.iter().find(silent) {
            let name = turn.config().name_of(*volume);
            let text =
                format!("the disk of volume {name} is silent: operations on it have not completed");
            return Err(Refusal::later("busy", text, given_up_hint(turn.config())));
        }
        if again.iter().any(|volume| local.works_on(Some(*volume))) || !lack.is_recorded() {
            return Err(Refusal::later(
                "busy",
                "operations on a disk that failed have not ended",
                "try again in a moment",
            ));
        }
        again.into_iter().for_each(|volume| self.use_again(volume));
        self.own.forgive();
        let peer = &turn.config().peer;
        Ok(Some(format!(
            "{} are missing on this node and are copied from {peer}",
            self.marks.dirty_bytes()
        )))
    }
}
