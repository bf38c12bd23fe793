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

use crate::effect::ReadAs;
use crate::event::{CommandId, StoreOutcome};
use crate::follow::before::Keeper;
use crate::local::Local;
use crate::local::suspect::Rewriting;
use crate::peer::Peer;
use crate::purpose::{AcceptIo, Piece};
use crate::record::Record;
use crate::record::save::Goal;
use crate::refusal::Refusal;
use crate::resync::Resync;
use crate::role::{Following, Stage, Standing};
use crate::turn::Turn;
use alloc::format;
use helio_stack::{StoreFault, StoreOp};
use helio_units::{Bytes, Extent, VolumeIndex};

/// One read, and the write that follows it.
const PIECE: Bytes = Bytes::mib(1);
/// So many are under way at once.
const AT_ONCE: u16 = 4;

impl Standing {
    /// The operator takes a suspect copy for what it reads as.
    pub(crate) fn accept(
        &mut self,
        (command, volume): (CommandId, VolumeIndex),
        keeper: &mut Keeper,
        record: &Record,
        turn: &mut Turn,
    ) {
        self.reset_follower(keeper, record, turn);
        let stage = Rewriting::Copying { next: 0, under_way: 0, failed: None };
        self.stand(Following::Accepting { command, volume, stage });
    }

    /// Begins what can begin now; `stops`: the daemon is asked to stop.
    pub(crate) fn accept_step(
        &mut self,
        stops: bool,
        record: &Record,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let Stage::Following(Following::Accepting { command, volume, stage }) = self.stage() else {
            return;
        };
        let Rewriting::Copying { mut next, mut under_way, failed } = stage else { return };
        // If a flush of the engine's own fails during the copy, the store may drop what was written again.
        let failed = failed.or(self.apply_fault());
        let size = turn.config().volumes[usize::from(volume.0)];
        while failed.is_none() && !stops && next < size.0 && under_way < AT_ONCE {
            let extent = Extent::new(next, PIECE.0.min(size.0 - next));
            let piece = AcceptIo::Piece(Piece { extent, payload: None });
            local.read((volume, extent), ReadAs::BytesOrZero, piece, turn);
            (next, under_way) = (extent.end(), under_way + 1);
        }
        let stage = match (under_way, failed) {
            (0, Some(fault)) => return self.rewrite_failed(command, volume, fault, record, turn),
            (0, None) if stops => {
                return self.not_accepted(command, "the daemon stops", record, turn);
            }
            (0, None) => {
                local.store(volume, StoreOp::Flush, AcceptIo::Flush, turn);
                Rewriting::Flushing
            }
            _ => Rewriting::Copying { next, under_way, failed },
        };
        self.stand(Following::Accepting { command, volume, stage });
    }

    /// An operation of its own ended.
    pub(crate) fn accept_ended(
        &mut self,
        io: AcceptIo,
        outcome: &StoreOutcome,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        match io {
            AcceptIo::Piece(piece) => self.rewrote(piece, outcome, local, turn),
            AcceptIo::Flush => self.rewritten(outcome, record, turn),
        }
    }

    /// A piece was read, or written again.
    fn rewrote(
        &mut self,
        piece: Piece,
        outcome: &StoreOutcome,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let Stage::Following(Following::Accepting { command, volume, stage }) = self.stage() else {
            panic!("a piece of a copy was written again, and no copy is being accepted")
        };
        let Rewriting::Copying { next, under_way, failed } = stage else {
            panic!("a copy was flushed before all of it was written again")
        };
        let Piece { extent, payload } = piece;
        payload.into_iter().for_each(|payload| turn.release(payload.id));
        let mut again = |op, payload| {
            local.store(volume, op, AcceptIo::Piece(Piece { extent, payload }), turn);
        };
        let now = match *outcome {
            StoreOutcome::Read { payload, zero: false } => {
                return again(StoreOp::Write { extent, payload, fua: false }, Some(payload));
            }
            StoreOutcome::Read { payload, zero: true } => {
                again(StoreOp::Zero { extent, punch: true, fua: false }, None);
                return turn.release(payload.id);
            }
            StoreOutcome::Failed(fault) => failed.or(Some(fault)),
            _ => failed,
        };
        let stage = Rewriting::Copying { next, under_way: under_way - 1, failed: now };
        self.stand(Following::Accepting { command, volume, stage });
    }

    /// The flush behind the last piece has ended.
    fn rewritten(&mut self, outcome: &StoreOutcome, record: &mut Record, turn: &mut Turn) {
        let Stage::Following(Following::Accepting { command, volume, .. }) = self.stage() else {
            panic!("a copy was flushed, and no copy is being accepted")
        };
        let failed = match *outcome {
            StoreOutcome::Failed(fault) => Some(fault),
            _ => self.apply_fault(),
        };
        if let Some(fault) = failed {
            return self.rewrite_failed(command, volume, fault, record, turn);
        }
        self.stand(Following::Accepting { command, volume, stage: Rewriting::Saving });
        record.want(Goal::Accepted { command, volume });
    }

    /// How a disk failed that is written to no more.
    fn apply_fault(&self) -> Option<StoreFault> {
        self.failed().map(|(_, fault)| fault)
    }

    /// The store failed again: it is used no more until the daemon starts again, or another disk is there.
    fn rewrite_failed(
        &mut self,
        command: CommandId,
        volume: VolumeIndex,
        fault: StoreFault,
        record: &Record,
        turn: &mut Turn,
    ) {
        if let Some(follower) = self.follower_mut() {
            follower.stop_applying(volume, fault);
        }
        let why = turn.config().failure_of(volume, fault);
        self.not_accepted(command, &why, record, turn);
    }

    /// The acceptance is durable.
    pub(crate) fn accepted(
        &mut self,
        (command, volume): (CommandId, VolumeIndex),
        peer: &mut Peer,
        resync: &mut Resync,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        resync.seed_mut().interrupt("a suspect copy was accepted", turn);
        record.keeping_mut().line_changed(local.hot_mut(), turn.now());
        self.stand(Following::Secondary);
        peer.session_mut().admit();
        let (group, name) = (&turn.config().group, turn.config().name_of(volume));
        let then = match turn.config().peer_name() {
            // The copy also lacks regions that the failed flush has nothing to do with.
            _ if !record.superblock().consistent => {
                format!("it is still inconsistent, and `helio status {group}` shows what to do")
            }
            Some(peer) => format!(
                "{peer} is resynced from it when this node is primary: `helio promote {group}`"
            ),
            None => format!("this node serves it when it is primary: `helio promote {group}`"),
        };
        let text = format!("the copy of volume {name} of {group} is accepted as it is; {then}");
        turn.warn(text.clone());
        turn.done(command, Ok(text));
    }

    /// The copy stays suspect.
    pub(crate) fn not_accepted(
        &mut self,
        command: CommandId,
        why: &str,
        record: &Record,
        turn: &mut Turn,
    ) {
        self.stand(Following::resting(record.superblock().role));
        let text = format!("the copy could not be rewritten, and is still suspect: {why}");
        let group = &turn.config().group;
        let hint = format!("`helio status {group}` shows what failed; repair that, and repeat");
        turn.done(command, Err(Refusal::new("not-rewritten", text, hint)));
    }
}
