// SPDX-License-Identifier: Apache-2.0
//! A merge of a region: what full members hold is read and compared, and the version of the fixed one written where it differs.

use super::Set;
use super::piece::LATER;
use crate::op::{Job, Op, Step, bit, members};
use helio_plant::{Plant, planted};
use helio_stack::{Port, StoreOp};
use helio_units::{Extent, Payload};

impl Set {
    pub(super) fn begin_merge(&mut self, id: u64, extent: Extent, port: &mut Port<'_>) {
        let full = self.full();
        if full.count_ones() < 2 {
            return self.end_merge(id, true, port);
        }
        self.unmerged.delay().begins(id, port.now());
        if let Some((piece, _)) = self.piece_mut(id) {
            piece.add_tried(full);
        }
        for member in members(full) {
            self.issue_leg(id, member, StoreOp::Read { extent }, port);
        }
    }

    /// Of those that are full still: the first version, and the others.
    fn versions(&self, id: u64) -> Option<((usize, Payload), u8)> {
        let Some(Op::Piece(piece, _)) = self.ops.get(&id) else { return None };
        let full = self.full();
        let mut held = piece.held().iter().filter(|(member, _)| full & bit(*member) != 0);
        let base = *held.next()?;
        Some((base, held.fold(0, |all, (member, _)| all | bit(*member))))
    }

    /// Every member was read.
    pub(super) fn merge_read(&mut self, id: u64, port: &mut Port<'_>) {
        if self.unread() != 0 {
            return self.end_merge(id, false, port);
        }
        let Some(((first, base), others)) = self.versions(id) else {
            return self.cannot_merge(id, port);
        };
        let failed = self.piece_mut(id).map_or(0, |(_, legs)| legs.failed());
        self.go(id, Step::Compares);
        let Some((piece, legs)) = self.piece_mut(id) else { return };
        piece.add_differs(failed);
        piece.found(first);
        let mut pairs = alloc::vec::Vec::new();
        for member in members(others) {
            legs.add(member);
            pairs.extend(piece.held_of(member).map(|other| (member, [base.id, other.id])));
        }
        for (member, pair) in pairs {
            port.compare(pair, self.tag(id, member));
        }
        if others == 0 {
            self.merge_compared(id, port);
        }
    }

    /// No full member can read it.
    fn cannot_merge(&mut self, id: u64, port: &mut Port<'_>) {
        let tried = self.piece_mut(id).map_or(0, |(piece, _)| piece.tried());
        if self.full() & !tried != 0 {
            // A member that became full meanwhile may read it.
            return self.end_merge(id, false, port);
        }
        if let Some((_, extent, _)) = self.piece(id) {
            // Reads do not wait for a repair.
            if self.unmerged.has(extent) {
                self.fail_reads(extent, id, port);
            }
        }
        self.unmerged.wait(port.now() + LATER);
        self.end_merge(id, false, port);
    }

    /// It is known which members differ.
    pub(super) fn merge_compared(&mut self, id: u64, port: &mut Port<'_>) {
        let Some((_, extent, _)) = self.piece(id) else { return };
        if self.unread() != 0 {
            return self.end_merge(id, false, port);
        }
        let full = self.full();
        let differs = self.piece_mut(id).map_or(0, |(piece, _)| piece.differs()) & full;
        let Some((base, payload)) = self.piece_mut(id).and_then(|(piece, _)| piece.base()) else {
            return self.end_merge(id, false, port);
        };
        let differs = differs & !bit(base);
        // Of one that is left alone readers may have seen its own version already.
        if differs == 0 || !self.has_several() {
            return self.end_merge(id, true, port);
        }
        self.go(id, Step::Writes);
        // What a member that is not full holds there may be either version.
        self.members.iter_mut().flatten().for_each(|member| member.set(extent));
        let write = |payload| StoreOp::Write { extent, payload, fua: false };
        for member in members(differs) {
            self.issue_leg(id, member, write(payload), port);
        }
        let mixed = members(differs).find_map(|member| self.piece_mut(id)?.0.held_of(member));
        if let Some(other) = mixed.filter(|_| planted(Plant::MergeMixes)) {
            self.issue_leg(id, base, write(other), port);
        }
    }

    /// Every member that differed was written.
    pub(super) fn merge_written(&mut self, id: u64, extent: Extent, port: &mut Port<'_>) {
        let Some((piece, legs)) = self.piece_mut(id) else { return };
        let (compared, failed) = (piece.tried(), legs.failed());
        self.wrote(extent);
        for member in members(failed & self.full()) {
            if !self.is_last(member) {
                self.remove(member);
            }
        }
        // A member that became full meanwhile may hold either version.
        let all = self.full() & !compared == 0;
        self.end_merge(id, all, port);
        if !all {
            self.mark_unmerged(extent, port);
        }
    }

    /// A merge has ended there.
    fn note_merged(&mut self, extent: Extent) {
        if !self.unmerged.has(extent) {
            let full = self.members.iter_mut().flatten().filter(|member| member.is_full());
            full.for_each(|member| member.equal(extent, None, true));
        }
    }

    fn end_merge(&mut self, id: u64, merged: bool, port: &mut Port<'_>) {
        if let Some((Job::Merge, extent, _)) = self.piece(id) {
            // Where a member was removed meanwhile, the versions of the others count once the ledger says so.
            let merged = merged && self.has_several() && self.is_settled();
            self.unmerged.delay().ended(id, merged, port.now());
            let cools = self.unmerged.end(extent, id, merged);
            self.note_merged(extent);
            self.let_cool(cools, port);
        }
        self.end_piece(id, port);
    }
}
