// SPDX-License-Identifier: Apache-2.0
//! An operator takes a suspect copy for what it reads as.
//!
//! ```text
//!   Secondary, Returning ──accept──> Copying ──all of it──> Flushing ──done──> Saving ──recorded──> Secondary
//!                                       └──the store fails, a stop──┴─failed──────┴─not recorded──> as before
//! ```
//! What the copy reads as may lie in a cache alone: a kernel marks the pages of a failed flush clean and keeps them. Were the
//! record to say that the copy is good, those writes would vanish with the power, after the peer was compared with them. So
//! all of the volume is written again with what it reads as, and flushed; the copy stays suspect until then. Nothing else may
//! use the store during that time, so the node neither leads nor follows. After a crash the record still says suspect.
//!
//! The bytes do not change, so no extent turns hot for them.

use crate::effect::StoreOp;
use crate::engine::Engine;
use crate::event::{CommandId, StoreOutcome};
use crate::local::suspect::Rewriting;
use crate::local::suspect::bit;
use crate::purpose::AcceptIo;
use crate::purpose::Piece;
use crate::record::save::Goal;
use crate::refusal::{Refusal, StoreFault};
use crate::role::{Following, Stage, busy};
use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use helio_format::message::Parting;
use helio_format::superblock::Superblock;
use helio_units::{Bytes, Extent, Role, VolumeIndex};

/// One read, and the write that follows it.
const PIECE: Bytes = Bytes::mib(1);
/// So many are under way at once.
const AT_ONCE: u16 = 4;

impl Engine {
    /// The operator takes a suspect copy for what it reads as.
    pub(crate) fn accept(
        &mut self,
        command: CommandId,
        volume: VolumeIndex,
    ) -> Result<Option<String>, Refusal> {
        self.view().may_accept(volume)?;
        if !self.view().is_link_down() {
            self.hang_up(Parting::RoleChanged, String::from("a suspect copy is being accepted"));
        }
        self.standing.reset_follower(&mut self.keeper, &self.record, &mut self.turn);
        let stage = Rewriting::Copying { next: 0, under_way: 0, failed: None };
        self.standing.stand(Following::Accepting { command, volume, stage });
        Ok(None)
    }

    /// Begins what can begin now.
    pub(crate) fn accept_step(&mut self) {
        let Stage::Following(Following::Accepting { command, volume, stage }) =
            self.standing.stage()
        else {
            return;
        };
        let Rewriting::Copying { mut next, mut under_way, failed } = stage else { return };
        // If a flush of the engine's own fails during the copy, the store may drop what was written again.
        let failed = failed.or(self.view().apply_fault());
        let size = self.turn.config().volumes[usize::from(volume.0)];
        let stops = self.asked.stops();
        while failed.is_none() && !stops && next < size.0 && under_way < AT_ONCE {
            let extent = Extent::new(next, PIECE.0.min(size.0 - next));
            let op = StoreOp::Read { extent, look_for_zeros: true };
            self.local.store(
                volume,
                op,
                AcceptIo::Piece(Piece { extent, payload: None }),
                &mut self.turn,
            );
            (next, under_way) = (extent.end(), under_way + 1);
        }
        let stage = match (under_way, failed) {
            (0, Some(fault)) => return self.rewrite_failed(command, volume, fault),
            (0, None) if stops => {
                return self.not_accepted(command, String::from("the daemon stops"));
            }
            (0, None) => {
                self.local.store(volume, StoreOp::Flush, AcceptIo::Flush, &mut self.turn);
                Rewriting::Flushing
            }
            _ => Rewriting::Copying { next, under_way, failed },
        };
        self.standing.stand(Following::Accepting { command, volume, stage });
    }

    /// An operation of its own ended.
    pub(crate) fn accept_ended(&mut self, io: AcceptIo, outcome: &StoreOutcome) {
        match io {
            AcceptIo::Piece(piece) => self.rewrote(piece, outcome),
            AcceptIo::Flush => self.rewritten(outcome),
        }
    }

    /// A piece was read, or written again.
    fn rewrote(&mut self, piece: Piece, outcome: &StoreOutcome) {
        let Stage::Following(Following::Accepting { command, volume, stage }) =
            self.standing.stage()
        else {
            panic!("a piece of a copy was written again, and no copy is being accepted")
        };
        let Rewriting::Copying { next, under_way, failed } = stage else {
            panic!("a copy was flushed before all of it was written again")
        };
        let Piece { extent, payload } = piece;
        payload.into_iter().for_each(|payload| self.turn.release(payload.id));
        let mut again = |op, payload| {
            self.local.store(
                volume,
                op,
                AcceptIo::Piece(Piece { extent, payload }),
                &mut self.turn,
            );
        };
        let now = match *outcome {
            StoreOutcome::Read { payload, zero: false } => {
                return again(StoreOp::Write { extent, payload, fua: false }, Some(payload));
            }
            StoreOutcome::Read { payload, zero: true } => {
                again(StoreOp::Zero { extent, punch: true, fua: false }, None);
                return self.turn.release(payload.id);
            }
            StoreOutcome::Failed(fault) => failed.or(Some(fault)),
            _ => failed,
        };
        let stage = Rewriting::Copying { next, under_way: under_way - 1, failed: now };
        self.standing.stand(Following::Accepting { command, volume, stage });
    }

    /// The flush behind the last piece has ended.
    fn rewritten(&mut self, outcome: &StoreOutcome) {
        let Stage::Following(Following::Accepting { command, volume, .. }) = self.standing.stage()
        else {
            panic!("a copy was flushed, and no copy is being accepted")
        };
        let failed = match *outcome {
            StoreOutcome::Failed(fault) => Some(fault),
            _ => self.view().apply_fault(),
        };
        if let Some(fault) = failed {
            return self.rewrite_failed(command, volume, fault);
        }
        self.standing.stand(Following::Accepting { command, volume, stage: Rewriting::Saving });
        self.record.want(Goal::Accepted { command, volume });
    }

    /// The store failed again: it is used no more until the daemon starts again, or another disk is there.
    fn rewrite_failed(&mut self, command: CommandId, volume: VolumeIndex, fault: StoreFault) {
        self.stop_applying(volume, fault);
        self.not_accepted(command, format!("the disk failed: {fault}"));
    }

    /// Nothing more is written to that volume's disk.
    pub(crate) fn stop_applying(&mut self, volume: VolumeIndex, fault: StoreFault) {
        if let Some(follower) = self.standing.follower_mut() {
            follower.stop_applying(volume, fault);
        }
    }

    /// A flush of this node's own failed on a volume, and it does not lead.
    pub(crate) fn own_flush_failed(&mut self, volume: VolumeIndex, fault: StoreFault) {
        if let Some(follower) = self.standing.follower_mut() {
            follower.flush_failed(volume, fault, &mut self.local, &mut self.turn);
        }
    }

    /// The copy stays suspect.
    pub(crate) fn not_accepted(&mut self, command: CommandId, why: String) {
        self.standing.stand(Following::resting(self.record.superblock().role));
        let text = format!("the copy could not be rewritten, and is still suspect: {why}");
        let group = &self.turn.config().group;
        let hint =
            format!("repeat, or put another disk in its place: `helio status {group}` shows how");
        self.turn.done(command, Err(Refusal::new("not-rewritten", text, hint)));
    }

    /// The record of an accepted copy: nothing proves what it holds, so its peer's is to be compared with all of it.
    pub(crate) fn shape_accepted(b: &mut Superblock, volume: VolumeIndex) {
        b.suspect &= !bit(volume);
        // From here on the marks do not cover the differences to a disk that is being shipped.
        (b.marks_void, b.seeding) = (true, 0);
        (b.clean, b.equal, b.sure) = (false, false, false);
        // The operator who accepted it decides whether it leads.
        b.role = Role::Secondary;
    }

    /// The acceptance is durable.
    pub(crate) fn accepted(&mut self, command: CommandId, volume: VolumeIndex) {
        let (group, peer) = (self.turn.config().group.clone(), self.turn.config().peer.clone());
        self.resync.seed.interrupt("a suspect copy was accepted", &mut self.turn);
        self.line_changed();
        self.standing.stand(Following::Secondary);
        self.peer.session.admit();
        let text = format!(
            "the copy of volume {} of {group} is accepted as it is; {peer} is resynced from it when this node is \
             primary: `helio promote {group}`",
            self.turn.config().name_of(volume)
        );
        self.turn.warn(text.clone());
        self.turn.done(command, Ok(text));
    }
}

impl View<'_> {
    /// Whether an operator may accept the copy of that volume as it is, and what is at stake.
    ///
    /// # Errors
    /// It is not suspect, or a better copy takes its place already, or it is in use.
    pub fn may_accept(&self, volume: VolumeIndex) -> Result<String, Refusal> {
        let (group, peer) = (&self.turn.config().group, &self.turn.config().peer);
        if usize::from(volume.0) >= self.turn.config().volumes.len()
            || !self.local.suspect().is(volume)
        {
            return Err(Refusal::new(
                "not-suspect",
                format!(
                    "the copy of volume {} of {group} on this node is not suspect",
                    self.turn.config().name_of(volume)
                ),
                format!("nothing; `helio status {group}` shows the state of each copy"),
            ));
        }
        let follows = self.peer.session.peer().is_some_and(|hello| hello.serving && !hello.suspect);
        if self.is_lacking() || (!self.standing.leads() && follows) {
            return Err(Refusal::new(
                "better-copy",
                format!(
                    "{peer} serves volume {} of {group}, and this copy is rebuilt from there",
                    self.turn.config().name_of(volume)
                ),
                format!("`helio resync {group}` on the primary continues that"),
            ));
        }
        if self.standing.serves() {
            return Err(Refusal::new(
                "leads",
                format!(
                    "{group} is primary on this node: all of volume {} must be rewritten before the copy is accepted, while no \
                     client uses it",
                    self.turn.config().name_of(volume)
                ),
                format!(
                    "`helio demote {group}`, repeat this, then `helio promote {group} --force` if {peer} cannot agree"
                ),
            ));
        }
        if self.local.metadata_failed() {
            return Err(self.turn.metadata_refusal());
        }
        self.may_lead()?;
        let rests = matches!(
            self.standing.stage(),
            Stage::Following(Following::Secondary | Following::Returning)
        );
        if !rests
            || self.record.is_saving()
            || self.local.replacing().is_some()
            || self.local.works_on(None)
        {
            return Err(busy());
        }
        Ok(format!(
            "writes of volume {} that were acknowledged before the flush failed and are missing from this copy; {peer} may \
             have them, and a resync from this node overwrites them there",
            self.turn.config().name_of(volume)
        ))
    }

    /// How a disk failed that is written to no more.
    fn apply_fault(&self) -> Option<StoreFault> {
        self.standing.failed().map(|(_, fault)| fault)
    }

    /// How far the acceptance is, for people.
    pub(crate) fn accepting_text(&self) -> Option<String> {
        let Stage::Following(Following::Accepting { volume, stage, .. }) = self.standing.stage()
        else {
            return None;
        };
        let size = self.turn.config().volumes[usize::from(volume.0)];
        let next = match stage {
            Rewriting::Copying { next, .. } => Bytes(next),
            Rewriting::Flushing | Rewriting::Saving => size,
        };
        Some(format!(
            "the suspect copy of volume {} is being written again: {next} of {size}",
            self.turn.config().name_of(volume)
        ))
    }
}
