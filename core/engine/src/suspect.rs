// SPDX-License-Identifier: Apache-2.0
//! What a failed operation on a primary's store means (rule 14). One function decides: [`Primary::store_failed`].
//!
//! | failed | the peer holds everything | otherwise |
//! |---|---|---|
//! | a read | `serve-from-peer`: the peer's copy is served; `pass`: the client gets the error | the client gets the error |
//! | a write, zero or discard | the same | its extent is marked, the client gets the error |
//! | a flush, or any operation with FUA | the peer's copy is served, whatever the policy | the copy is suspect |
//!
//! A store that fails a flush may have dropped any write that was not durable, and a later flush that succeeds says
//! nothing of those. FUA is often a write plus a flush of everything, so its failure means the same. The copy of that
//! volume is *suspect* from then on:
//! * The superblock says so before the client that asked for the flush is told, as far as it can be written.
//! * No FLUSH and no FUA of the volume succeeds from this copy. Reads and plain writes go on.
//! * Nothing is copied from it to the peer, and no restart and no promotion serves it again.
//!
//! It ends when the volume was written anew from the peer and flushed, when another disk took its place, or when an
//! operator accepted it. A suspect primary whose peer comes to hold everything serves from the peer, as one whose disk
//! is lost does (`lose.rs`).

use crate::ack::Local;
use crate::engine::Engine;
use crate::event::CommandId;
use crate::plant::{Plant, planted};
use crate::primary::Primary;
use crate::refusal::{Refusal, StoreFault};
use crate::role::{Standing, busy};
use crate::save::Goal;
use crate::shared::Shared;
use alloc::format;
use alloc::string::String;
use helio_format::message::{Item, ItemKind, Parting};
use helio_format::superblock::Superblock;
use helio_units::{Extent, Role, VolumeIndex};

/// What kind of operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    Read,
    /// A write, zero or discard that promised nothing durable.
    Change,
    /// A flush, or an operation with FUA.
    Flush,
}

impl Failed {
    /// What the failure of an item's local operation is.
    pub(crate) fn of(item: &Item) -> Self {
        let fua = item.fua && !planted(Plant::FuaIsWrite);
        if item.kind == ItemKind::Flush || fua { Self::Flush } else { Self::Change }
    }
}

/// The bit of a volume in the superblock's `suspect`.
pub(crate) const fn bit(volume: VolumeIndex) -> u64 {
    1 << volume.0
}

impl Primary {
    /// An operation on a store failed. Returns whether the peer's copy is served in its place from now on.
    pub(crate) fn store_failed(
        &mut self,
        volume: VolumeIndex,
        failed: Failed,
        fault: StoreFault,
        s: &mut Shared,
    ) -> bool {
        // What was never issued to the store says nothing of it.
        let flush = failed == Failed::Flush && !self.unissued;
        let lost = self.is_lost(volume);
        if lost || self.may_lose(volume, failed, s) {
            if flush {
                self.suspect |= bit(volume);
            }
            if !lost {
                self.lose(volume, fault, s);
            }
            return true;
        }
        match failed {
            Failed::Flush if flush => self.doubt(volume, fault, s),
            Failed::Flush | Failed::Change => self.fault(volume, fault, s),
            Failed::Read => {}
        }
        false
    }

    /// The copy of a volume is suspect, and no peer is known to hold everything.
    fn doubt(&mut self, volume: VolumeIndex, fault: StoreFault, s: &mut Shared) {
        if !self.is_suspect(volume) {
            let (group, peer) = (&s.config.group, &s.config.peer);
            s.warn(format!(
                "a flush of volume {} of {group} failed on this node: {fault}; writes that were acknowledged and not durable \
                 may be lost in this copy. FLUSH and FUA fail until {peer} holds everything and serves it, or another disk \
                 is in place, or an operator accepts this copy: `helio member accept`",
                volume.0
            ));
        }
        self.suspect |= bit(volume);
        self.faulted = Some((volume, fault));
        // The copier reads this store.
        self.copier.running = false;
    }

    /// What this node's copy of the volume holds is unknown: a flush failed.
    pub(crate) const fn is_suspect(&self, volume: VolumeIndex) -> bool {
        self.suspect & bit(volume) != 0
    }

    /// The store failed a flush and the peer serves in its place: what is read here may be what the store went back to.
    pub(crate) fn is_dropped(&self, volume: VolumeIndex) -> bool {
        self.is_suspect(volume) && self.is_lost(volume)
    }

    /// Something here is suspect and the peer's copy is not served in its place: nothing may be copied from here.
    pub(crate) fn must_not_stream(&self) -> bool {
        self.suspect != 0 && self.lack.is_none() && !planted(Plant::SuspectStreams)
    }

    /// A successful flush here proves nothing of that volume.
    pub(crate) fn proves_nothing(&self, item: &Item) -> bool {
        Failed::of(item) == Failed::Flush
            && self.is_suspect(item.volume)
            && self.lack.is_none()
            && !planted(Plant::FlushForgiven)
    }

    /// An answer about a failed flush waits for the record that says so.
    pub(crate) fn awaits_suspect_record(&self, item: &Item, local: Local) -> bool {
        let unrecorded = self.suspect & bit(item.volume) & !self.suspect_recorded != 0;
        local == Local::Failed
            && Failed::of(item) == Failed::Flush
            && unrecorded
            && !self.recordless
            && !planted(Plant::SuspectUnrecorded)
    }

    /// A peer that holds everything takes the place of what is suspect here.
    pub(crate) fn suspect_step(&mut self, s: &mut Shared) {
        for volume in (0..s.config.volumes.len() as u16).map(VolumeIndex) {
            if self.is_suspect(volume)
                && self.lack.is_none()
                && self.may_lose(volume, Failed::Flush, s)
            {
                let (_, fault) = self.faulted.unwrap_or((volume, StoreFault::Io));
                self.lose(volume, fault, s);
            }
        }
        // The same holds for every other one: it is served from the peer, too.
        for volume in (0..s.config.volumes.len() as u16).map(VolumeIndex) {
            if self.is_suspect(volume) && self.lack.is_some() && !self.is_lost(volume) {
                self.pull_anew(volume, s);
            }
        }
    }

    /// All of a suspect volume is to be pulled, unless that is under way.
    fn pull_anew(&mut self, volume: VolumeIndex, s: &mut Shared) {
        if self.distrusted.insert(volume) {
            let size = s.config.volumes[usize::from(volume.0)];
            self.marks.stale(volume, Extent::new(0, size.0));
            s.cover.marks_moved();
        }
    }

    /// The store of a volume that was given up is used again: all of it is lacking, and pulled whole.
    pub(crate) fn use_again(&mut self, volume: VolumeIndex) {
        // A flush that failed on it is the peer's to answer still.
        let failed = self.line.iter_mut().filter(|entry| {
            entry.item.volume == volume
                && entry.local == Local::Failed
                && !entry.item.kind.changes_data()
        });
        failed.for_each(|entry| entry.local = Local::Done);
        self.faulted = self.faulted.filter(|(failed, _)| *failed != volume);
        if let Some(lack) = &mut self.lack {
            lack.lost.remove(&volume);
            lack.halted = false;
        }
        self.distrusted.insert(volume);
    }

    /// What is suspect, for people.
    pub(crate) fn suspect_text(&self, s: &Shared) -> Option<String> {
        (self.suspect != 0 && self.lack.is_none())
            .then(|| suspect_text(self.suspect, &s.config.peer))
    }
}

/// What is suspect, for people.
fn suspect_text(suspect: u64, peer: &str) -> String {
    format!(
        "the copy of volume {} on this node is suspect since a flush failed: acknowledged writes may be missing from it; \
         FLUSH and FUA fail until it is rebuilt from {peer}, replaced or accepted",
        suspect.trailing_zeros()
    )
}

impl Engine {
    /// Which volumes' copies are suspect here: a bit each.
    pub(crate) fn suspect(&self) -> u64 {
        self.primary.as_ref().map_or(self.superblock.suspect, |primary| primary.suspect)
    }

    /// What the next record says of it, before its own goal changes that.
    pub(crate) fn shape_suspect(&self, b: &mut Superblock) {
        let Some(primary) = &self.primary else { return };
        if primary.suspect != 0 && !planted(Plant::SuspectUnrecorded) {
            b.suspect |= primary.suspect;
            // Everything counts as marked from here on; a record that says seeding proves nothing either.
            b.marks_void |= b.seeding == 0;
        }
    }

    /// Asks for the record of what is suspect.
    pub(crate) fn record_suspect(&mut self) {
        let Some(primary) = &self.primary else { return };
        let news = primary.suspect & !self.superblock.suspect != 0;
        let may = !self.is_saving() && !self.metadata_failed;
        if news && may && !planted(Plant::SuspectUnrecorded) {
            self.save(Goal::FlushFailed);
        }
    }

    /// A record is durable: what waited for its word about flushes is answered.
    pub(crate) fn suspect_recorded(&mut self) {
        let Some(primary) = &mut self.primary else { return };
        let before = core::mem::replace(&mut primary.suspect_recorded, self.superblock.suspect);
        if self.superblock.suspect & !before != 0 {
            primary.consider_all(&mut self.shared);
        }
    }

    /// No record can be made any more: nothing waits for one.
    pub(crate) fn suspect_unrecorded(&mut self) {
        if let Some(primary) = &mut self.primary {
            primary.recordless = true;
            primary.consider_all(&mut self.shared);
        }
    }

    /// A node must not lead from a copy that a failed flush left.
    pub(crate) fn may_lead_from_suspect(&self) -> Result<(), Refusal> {
        if self.suspect() == 0 || planted(Plant::SuspectStreams) {
            return Ok(());
        }
        Err(self.suspect_refusal())
    }

    /// Why nothing may be copied from here.
    pub(crate) fn suspect_refusal(&self) -> Refusal {
        let (group, node, peer) =
            (&self.shared.config.group, &self.shared.config.node, &self.shared.config.peer);
        Refusal::new(
            "suspect",
            format!(
                "the copy of volume {} of {group} on {node} is suspect: a flush failed, and acknowledged writes may be \
                 missing from it",
                self.suspect().trailing_zeros()
            ),
            format!(
                "if {peer} holds them, make it primary: `helio promote {group}` there; it brings {node} level. If this is \
                 the best copy there is: `helio member accept {group}/VOLUME` on {node}"
            ),
        )
    }

    /// Refuses to begin a copy from a suspect store.
    pub(crate) fn refuse_while_suspect(&self) -> Result<(), Refusal> {
        let suspect = self.primary.as_ref().is_some_and(Primary::must_not_stream);
        if suspect { Err(self.suspect_refusal()) } else { Ok(()) }
    }

    /// Whether an operator may accept the copy of that volume as it is, and what is at stake.
    ///
    /// # Errors
    /// It is not suspect, or a better copy takes its place already.
    pub fn may_accept(&self, volume: VolumeIndex) -> Result<String, Refusal> {
        let (group, peer) = (&self.shared.config.group, &self.shared.config.peer);
        if usize::from(volume.0) >= self.shared.config.volumes.len()
            || self.suspect() & bit(volume) == 0
        {
            return Err(Refusal::new(
                "not-suspect",
                format!("the copy of volume {} of {group} on this node is not suspect", volume.0),
                "nothing is to be done",
            ));
        }
        let follows = self.session.peer().is_some_and(|hello| hello.serving);
        if self.is_lacking() || (self.primary.is_none() && follows) {
            return Err(Refusal::new(
                "better-copy",
                format!(
                    "{peer} serves volume {} of {group}, and this copy is rebuilt from there",
                    volume.0
                ),
                format!("`helio update {group}` on the primary goes on with that"),
            ));
        }
        let settled =
            matches!(self.standing, Standing::Primary | Standing::Secondary | Standing::Returning);
        if !settled || self.is_saving() {
            return Err(busy());
        }
        if self.metadata_failed {
            return Err(Refusal::new(
                "metadata-failed",
                format!("the metadata file of {group} cannot be written"),
                "mend it and restart the daemon",
            ));
        }
        Ok(format!(
            "writes of volume {} that were acknowledged before the flush failed and are missing from this copy; {peer} may \
             hold them, and an update from this node overwrites them there",
            volume.0
        ))
    }

    /// The operator takes a suspect copy for what it is.
    pub(crate) fn accept(
        &mut self,
        command: CommandId,
        volume: VolumeIndex,
    ) -> Result<Option<String>, Refusal> {
        self.may_accept(volume)?;
        self.save(Goal::Accepted { command, volume });
        Ok(None)
    }

    /// The record of an accepted copy: nothing proves what it holds, so its peer's is to be compared with all of it.
    pub(crate) fn shape_accepted(b: &mut Superblock, volume: VolumeIndex, leads: bool) {
        b.suspect &= !bit(volume);
        // What a disk that is being shipped lacks of it, no mark tells any more.
        (b.marks_void, b.seeding) = (true, 0);
        (b.clean, b.equal, b.sure) = (false, false, false);
        if !leads {
            b.role = Role::Secondary;
        }
    }

    /// The acceptance is durable.
    pub(crate) fn accepted(&mut self, command: CommandId, volume: VolumeIndex) {
        let (group, peer) = (self.shared.config.group.clone(), self.shared.config.peer.clone());
        self.seed_stopped("a suspect copy was accepted");
        if let Some(primary) = &mut self.primary {
            primary.suspect &= !bit(volume);
            primary.suspect_recorded = primary.suspect;
            primary.faulted = primary.faulted.filter(|(failed, _)| *failed != volume);
            primary.drop_queue("an operator accepted a suspect copy", &mut self.shared);
            primary.marks.stale_all();
            self.shared.cover.marks_moved();
        }
        self.shared.suspect.accepted(volume);
        if self.standing == Standing::Returning {
            // Whoever accepted it decides whether it leads.
            self.stand(Standing::Secondary);
        }
        self.session.refused = None;
        // The two meet anew, by what holds now.
        self.hang_up(Parting::RoleChanged, String::from("a suspect copy was accepted"));
        let text = format!(
            "the copy of volume {} of {group} is accepted as it is; {peer} is updated from it once this node is primary",
            volume.0
        );
        self.shared.warn(text.clone());
        self.done(command, Ok(text));
    }

    /// What is suspect on a node that does not lead, for people.
    pub(crate) fn resting_suspect_text(&self) -> Option<String> {
        let resting = self.primary.is_none() && self.superblock.suspect != 0;
        resting.then(|| suspect_text(self.superblock.suspect, &self.shared.config.peer))
    }
}
