// SPDX-License-Identifier: Apache-2.0
//! A change goes to every member that is used, and ends when each of them is sure to hold it or to count as full no more.

use super::Set;
use crate::gate::Pass;
use crate::member::{Copying, Member};
use crate::op::{Change, Legs, Op, bit, members};
use crate::recent::Until;
use helio_plant::{Plant, planted};
use helio_stack::{Io, Outcome, Port, StoreFault, StoreOp};
use helio_units::Extent;

impl Set {
    pub(super) fn begin_change(
        &mut self,
        io: Io,
        op: StoreOp,
        extent: Extent,
        port: &mut Port<'_>,
    ) {
        let id = self.count();
        self.ops.insert(id, Op::Change(Change::new(io, op), Legs::default()));
        if self.gate.enter(id, extent, Pass::Shared) {
            self.issue_change(id, port);
        }
    }

    /// It passed the gate.
    pub(super) fn issue_change(&mut self, id: u64, port: &mut Port<'_>) {
        let (used, fixed) = (self.full() | self.copying(), self.fixed());
        let Some(Op::Change(change, legs)) = self.ops.get_mut(&id) else { return };
        let op = change.op();
        change.begin(fixed);
        *legs = Legs::on(used);
        let removed = self.members.iter_mut().flatten().filter(|member| member.is_removed());
        if let Some(extent) = op.changes().filter(|_| !planted(Plant::StaleBitmap)) {
            removed.for_each(|member| member.set(extent));
        }
        for member in members(used) {
            self.issue(id, member, op, port);
        }
        if used == 0 {
            self.change_done(id, port);
        }
    }

    /// A member was given a change with FUA. One that waits for its extents keeps no flush from ending.
    pub(crate) fn change_issued(&mut self, id: u64) {
        if let Some(Op::Change(change, _)) = self.ops.get_mut(&id) {
            change.issued(|| self.recent.begin());
        }
    }

    /// Every leg of it has ended.
    pub(super) fn change_done(&mut self, id: u64, port: &mut Port<'_>) {
        let Some(Op::Change(change, legs)) = self.ops.get(&id) else { return };
        let (change, legs) = (*change, *legs);
        let Some(extent) = change.op().changes() else { return };
        let until = change.number().map(|number| self.recent.done(number));
        self.wrote(extent);
        let full = self.full();
        if full & legs.done() == 0 {
            if change.op().is_flush() {
                self.flush_failed_everywhere(&legs, port);
            }
            self.mark_unmerged(extent, port);
            // Where a member is only full, the volume has a disk that did not fail. A flush is never only that.
            let only_full = full & legs.without_space() != 0 && !change.op().is_flush();
            let fault = if only_full { StoreFault::NoSpace } else { legs.fault() };
            // A crash may bring back a member that missed it: until that is impossible no reader sees what it left.
            return self.change_waits(id, None, Some(fault));
        }
        // A member that was added meanwhile was not given it, and has it in its bitmap.
        for member in members((full | self.copying()) & legs.failed()) {
            self.remove(member);
        }
        self.fill(extent, legs.done());
        self.change_waits(id, until, None);
    }

    fn change_waits(&mut self, id: u64, until: Option<Until>, fault: Option<StoreFault>) {
        if let Some(Op::Change(change, _)) = self.ops.get_mut(&id) {
            change.wait(until);
            fault.into_iter().for_each(|fault| change.fail(fault));
            self.ended.insert(id);
        }
    }

    /// It waits for nothing any more.
    pub(super) fn end_change(
        &mut self,
        id: u64,
        change: &Change,
        ends_well: bool,
        port: &mut Port<'_>,
    ) {
        let unrecordable = self.records.failed.filter(|_| !ends_well);
        let overlapped = change.number().and_then(|number| self.recent.overlapped(number));
        // That a disk failed is never hidden: what follows from it is more.
        let failed = change.failed().or(overlapped).or(unrecordable);
        let outcome = failed.map_or(Outcome::Done, |fault| Outcome::failed(&change.op(), fault));
        port.end(change.io(), outcome);
        self.leave(id, port);
    }

    /// Whether an operation whose legs have ended ends now, and whether it ends well.
    pub(super) fn verdict(&self, id: u64) -> Option<bool> {
        // A flush by the set itself waits for no record, and a change for no bitmap.
        let (until, tick, own) = match self.ops.get(&id)? {
            Op::Change(change, _) => (change.until(), None, false),
            Op::Flush(flush, _) => {
                let (tick, until) = flush.waits()?;
                (Some(until), flush.io().map(|_| tick), flush.io().is_none())
            }
            Op::Read(_) | Op::Piece(..) => return None,
        };
        if until.is_some_and(|until| !self.recent.is_past(until)) {
            return None;
        }
        let owes = !own && self.owes() && !planted(Plant::RemovalUnrecorded);
        let unsaved = tick.is_some_and(|tick| !self.are_bitmaps_saved(tick));
        match (owes || unsaved, self.records.failed) {
            (false, _) => Some(true),
            (true, Some(_)) => Some(false),
            (true, None) => None,
        }
    }

    /// The ledger may say of a member what is not true of it after a change.
    pub(super) fn owes(&self) -> bool {
        self.which(Member::owes) != 0
    }

    /// All full members failed a flush: each may have lost something else of what was not durable.
    pub(super) fn flush_failed_everywhere(&mut self, legs: &Legs, port: &mut Port<'_>) {
        self.recent.distrust(legs.fault());
        for member in members(legs.failed()) {
            let copying = self.member(member).and_then(Member::copying);
            copying.into_iter().for_each(Copying::distrust);
        }
        for extent in self.unproven() {
            self.mark_unmerged(extent, port);
        }
    }

    /// Whether that member is the last full one.
    pub(super) fn is_last(&self, member: usize) -> bool {
        self.full() == bit(member)
    }
}
