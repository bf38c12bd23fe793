// SPDX-License-Identifier: Apache-2.0
//! A piece: a region that is merged, or a run of regions that is copied, alone in the gate.
//!
//! ```text
//!   Waits ──> Reads ──> Compares ──> Writes ──> over
//!               └───────────┴── equal ───────────^
//! ```

use super::Set;
use crate::gate::Pass;
use crate::op::{Job, Legs, Op, Piece, Step};
use core::time::Duration;
use helio_stack::{Port, StoreOp};
use helio_units::{Extent, Moment};

/// Most pieces of a set at once: a disk that does not respond holds up no other set of the group.
pub(crate) const MOST_PIECES: usize = 4;
/// What cannot be read is tried again so much later.
pub(super) const LATER: Duration = Duration::from_secs(1);

impl Set {
    /// Begins one more piece; where none in the background is permitted, only one that a read waits for, or a repair. Returns
    /// false if there is none to begin.
    pub(crate) fn begin_piece(&mut self, permitted: bool, port: &mut Port<'_>) -> bool {
        if self.pieces == MOST_PIECES {
            return false;
        }
        let id = self.count();
        let Some((job, extent)) = self.next_piece(id, permitted, port.now()) else { return false };
        self.pieces += 1;
        self.ops.insert(id, Op::Piece(Piece::new(job, extent), Legs::default()));
        if self.gate.enter(id, extent, Pass::Alone) {
            self.issue_piece(id, port);
            self.resume_reads(port);
        }
        true
    }

    /// Whether regions are to be merged or copied that no read waits for. Those that cannot be read count once they are tried again.
    pub(crate) fn has_background(&self, now: Moment) -> bool {
        let merges = self.has_several() && self.unmerged.is_due(now);
        let copies = self.copying() != 0 && now >= self.pace.again;
        merges || (copies && self.records.failed.is_none())
    }

    /// Pieces under way.
    pub(crate) const fn pieces(&self) -> usize {
        self.pieces
    }

    /// What operations wait for comes first, then what is unmerged, and copies of other regions only then.
    fn next_piece(&mut self, id: u64, permitted: bool, now: Moment) -> Option<(Job, Extent)> {
        if self.unread() != 0 {
            return None;
        }
        if self.has_several() && self.is_settled() {
            if let Some(extent) = self.unmerged.claim_urgent(id) {
                return Some((Job::Merge, extent));
            }
            if let Some(extent) = self.unmerged.claim_repair(now) {
                return Some((Job::Merge, extent));
            }
            if permitted && let Some(extent) = self.unmerged.claim(id, now) {
                return Some((Job::Merge, extent));
            }
        }
        if !permitted || now < self.pace.again { None } else { self.next_copy(id) }
    }

    /// No copy goes on for a while.
    pub(super) fn wait(&mut self, port: &Port<'_>) {
        self.pace.again = port.now() + LATER;
    }

    /// It passed the gate.
    pub(super) fn issue_piece(&mut self, id: u64, port: &mut Port<'_>) {
        let Some((job, extent, _)) = self.piece(id) else { return };
        self.go(id, Step::Reads);
        match job {
            Job::Merge => self.begin_merge(id, extent, port),
            Job::Copy(target) => self.begin_copy(id, target, extent, port),
        }
    }

    pub(super) fn piece(&self, id: u64) -> Option<(Job, Extent, Step)> {
        match self.ops.get(&id) {
            Some(Op::Piece(piece, _)) => Some((piece.job(), piece.extent(), piece.step())),
            _ => None,
        }
    }

    pub(super) fn piece_mut(&mut self, id: u64) -> Option<(&mut Piece, &mut Legs)> {
        match self.ops.get_mut(&id) {
            Some(Op::Piece(piece, legs)) => Some((piece, legs)),
            _ => None,
        }
    }

    /// It takes the next step, with new legs.
    pub(super) fn go(&mut self, id: u64, step: Step) {
        if let Some((piece, legs)) = self.piece_mut(id) {
            piece.go(step);
            *legs = Legs::default();
        }
    }

    /// One more leg of it.
    pub(super) fn issue_leg(&mut self, id: u64, member: usize, op: StoreOp, port: &mut Port<'_>) {
        if let Some((_, legs)) = self.piece_mut(id) {
            legs.add(member);
        }
        self.issue(id, member, op, port);
    }

    /// A leg of a piece ended; `over`: the last one.
    pub(super) fn piece_leg_ended(
        &mut self,
        id: u64,
        member: usize,
        over: bool,
        port: &mut Port<'_>,
    ) {
        let Some((job, extent, step)) = self.piece(id) else { return };
        match (job, step) {
            (Job::Merge, Step::Reads) if over => self.merge_read(id, port),
            (Job::Merge, Step::Writes) if over => self.merge_written(id, extent, port),
            (Job::Copy(target), Step::Reads) => {
                self.copy_leg_read(id, (member, target), over, extent, port);
            }
            (Job::Copy(target), Step::Writes) => self.copy_written(id, target, extent, port),
            _ => {}
        }
    }

    /// Two payloads of a piece were compared.
    pub(crate) fn compared(&mut self, id: u64, member: usize, equal: bool, port: &mut Port<'_>) {
        let Some((piece, legs)) = self.piece_mut(id) else { panic!("piece {id} has ended") };
        let over = legs.end(member, helio_stack::Outcome::Done);
        if !equal {
            piece.add_differs(crate::op::bit(member));
        }
        let job = piece.job();
        match job {
            Job::Merge if over => self.merge_compared(id, port),
            Job::Copy(target) => self.copy_compared(id, target, equal, port),
            Job::Merge => {}
        }
    }

    /// It is over: what it holds is released, and what it excluded goes on.
    pub(super) fn end_piece(&mut self, id: u64, port: &mut Port<'_>) {
        if let Some(Op::Piece(piece, _)) = self.ops.remove(&id) {
            piece.held().iter().for_each(|(_, payload)| port.release(payload.id));
        }
        self.pieces -= 1;
        self.leave(id, port);
    }
}
