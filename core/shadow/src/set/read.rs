// SPDX-License-Identifier: Apache-2.0
//! Which full member is read.
//!
//! No reader sees two versions of a block in turn unless it was changed in between. So reads that overlap a change go to one member,
//! the *fixed* one, and reads of regions in which full members may differ wait until they are equal there.

use super::Set;
use crate::member::Member;
use crate::op::{Job, Op, Read, Step, bit, members};
use helio_plant::{Plant, planted};
use helio_stack::{Io, Outcome, Port, StoreOp};
use helio_units::Extent;

/// Where a read goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    To(usize),
    /// A change or a merge is to end first.
    Waits,
    /// Every full member failed it.
    Nowhere,
}

const fn place(op: &StoreOp) -> Extent {
    match op {
        StoreOp::Read { extent } | StoreOp::Map { extent } => *extent,
        _ => Extent::new(0, 0),
    }
}

impl Set {
    pub(super) fn begin_read(&mut self, io: Io, op: StoreOp, port: &mut Port<'_>) {
        let id = self.count();
        self.ops.insert(id, Op::Read(Read::new(io, op)));
        self.dispatch(id, port);
    }

    fn dispatch(&mut self, id: u64, port: &mut Port<'_>) {
        let Some(Op::Read(read)) = self.ops.get(&id) else { return };
        let (op, tried) = (read.op(), read.tried());
        match self.route(place(&op), tried) {
            Route::To(member) => self.issue(id, member, op, port),
            Route::Waits => {
                self.touch(place(&op));
                // Also where a piece ended that could not merge it.
                self.unmerged.hurry(place(&op));
                self.parked.push(id);
            }
            Route::Nowhere => self.fail_read(id, port),
        }
    }

    /// The member that is read.
    pub(super) fn route(&self, extent: Extent, tried: u8) -> Route {
        let Some(fixed) = self.fixed() else { return Route::Nowhere };
        if self.is_unmerged(extent) {
            return Route::Waits;
        }
        let unread = self.unread();
        match self.fixed_by_changes(extent, fixed) {
            Some(true) if (tried | unread) & bit(fixed) == 0 => Route::To(fixed),
            Some(_) => Route::Waits,
            None => match self.cheapest(tried | unread) {
                Some(member) => Route::To(member),
                // Soon the others are removed, or may be read.
                None if unread & self.full() & !tried != 0 => Route::Waits,
                None => Route::Nowhere,
            },
        }
    }

    /// Full members may differ there, or a merge is writing to one, whatever became of the others since.
    fn is_unmerged(&self, extent: Extent) -> bool {
        let writes = |id: u64| matches!(self.piece(id), Some((Job::Merge, _, Step::Writes)));
        !planted(Plant::ReadUnmerged)
            && (self.unmerged.has(extent) || self.gate.pieces(extent).any(writes))
    }

    /// Whether the changes that overlap it, if there are any, all began with that fixed member.
    fn fixed_by_changes(&self, extent: Extent, fixed: usize) -> Option<bool> {
        let mut changing = self.gate.changing(extent).peekable();
        changing.peek()?;
        Some(changing.all(|id| match self.ops.get(&id) {
            Some(Op::Change(change, _)) => change.fixed() == Some(fixed),
            _ => true,
        }))
    }

    /// The full member with the least cost of a read, those apart.
    pub(super) fn cheapest(&self, tried: u8) -> Option<usize> {
        let copying = if planted(Plant::ReadCopyTarget) { self.copying() } else { 0 };
        let cost = |member: &usize| self.members[*member].as_ref().map(|it| it.read_cost());
        members((self.full() | copying) & !tried).min_by_key(cost)
    }

    /// A member ended it.
    pub(super) fn read_ended(
        &mut self,
        id: u64,
        member: usize,
        outcome: Outcome,
        port: &mut Port<'_>,
    ) {
        let Some(Op::Read(read)) = self.ops.get_mut(&id) else { return };
        let (io, extent, tried) = (read.io(), place(&read.op()), read.tried());
        match outcome {
            Outcome::Failed(fault) | Outcome::Unsure(fault) => read.failed(member, fault),
            outcome if self.may_return(member, extent) => {
                self.ops.remove(&id);
                self.repair(tried, extent);
                if matches!(outcome, Outcome::Read(_)) {
                    self.member(member).into_iter().for_each(Member::was_read);
                }
                return port.end(io, outcome);
            }
            Outcome::Read(payload) => port.release(payload.id),
            _ => {}
        }
        self.dispatch(id, port);
    }

    /// Whether what that member returned is what every other reader sees.
    fn may_return(&self, member: usize, extent: Extent) -> bool {
        let full = self.full() & !self.unread();
        let full = full & bit(member) != 0 || planted(Plant::ReadCopyTarget);
        let Some(fixed) = self.fixed().filter(|_| full && !self.is_unmerged(extent)) else {
            return false;
        };
        self.fixed_by_changes(extent, fixed).is_none_or(|same| same && fixed == member)
    }

    /// Those full members failed to read what another one could: it is written to them again.
    pub(super) fn repair(&mut self, tried: u8, extent: Extent) {
        for member in members(tried & self.full()) {
            self.unmerged.repair(extent);
            if let Some(member) = self.member(member) {
                member.repaired();
            }
        }
    }

    fn fail_read(&mut self, id: u64, port: &mut Port<'_>) {
        if let Some(Op::Read(read)) = self.ops.remove(&id) {
            port.end(read.io(), Outcome::Failed(read.fault()));
        }
    }

    /// Reads that waited are tried again.
    pub(super) fn resume_reads(&mut self, port: &mut Port<'_>) {
        for id in core::mem::take(&mut self.parked) {
            self.dispatch(id, port);
        }
    }

    /// No full member could read that region for the piece of that number: reads that waited for it since before fail.
    pub(super) fn fail_reads(&mut self, extent: Extent, piece: u64, port: &mut Port<'_>) {
        for id in core::mem::take(&mut self.parked) {
            match self.ops.get(&id) {
                Some(Op::Read(read)) if id < piece && place(&read.op()).overlaps(extent) => {
                    self.fail_read(id, port);
                }
                _ => self.parked.push(id),
            }
        }
    }
}
