// SPDX-License-Identifier: Apache-2.0
//! A copy of a run of regions: it is read from a full member, compared with what the target holds unless that is known to lack it,
//! and written to the target.

use super::Set;
use super::read::Route;
use crate::member::{Copying, Stage, State};
use crate::op::{Job, Op, Step, bit};
use helio_plant::{Plant, planted};
use helio_stack::{Port, StoreOp};
use helio_units::Extent;

impl Set {
    /// Whether regions are left that no piece copies, or a copy is to be finished.
    pub(super) fn has_to_copy(&self) -> bool {
        self.which(|member| match member.state() {
            State::Copying(copying) => match copying.stage() {
                Stage::Settling(0) | Stage::Copies => true,
                Stage::Marking(_) => !copying.is_clean(self.unmerged.blank()),
                Stage::Settling(_) | Stage::Flushing(_) | Stage::Saving | Stage::Recording => false,
            },
            _ => false,
        }) != 0
    }

    /// Claims the next run of regions that a member lacks, and in which full members do not differ.
    pub(super) fn next_copy(&mut self, id: u64) -> Option<(Job, Extent)> {
        let busy = self.ops.values().any(Op::is_asked_for);
        let most = self.pace.transfer.regions(self.place.region, busy);
        let (targets, differs) = (self.members.iter_mut().enumerate(), self.unmerged.regions());
        let mut copying = targets.filter_map(|(n, member)| Some((n, member.as_mut()?.copying()?)));
        copying.find_map(|(n, copying)| Some((Job::Copy(n), copying.claim(id, differs, most)?)))
    }

    /// Whether the piece is still what the target waits for.
    fn is_wanted(&mut self, id: u64, target: usize) -> bool {
        let Some((_, extent, _)) = self.piece(id) else { return false };
        let copying = self.member(target).and_then(|member| member.copying());
        copying.is_some_and(|copying| copying.holds(extent, id))
    }

    pub(super) fn begin_copy(
        &mut self,
        id: u64,
        target: usize,
        extent: Extent,
        port: &mut Port<'_>,
    ) {
        let route = self.route(extent, 0);
        if route == Route::Nowhere {
            self.wait(port);
        }
        let Route::To(source) = route else {
            return self.end_copy_piece(id, target, false, port);
        };
        if !self.is_wanted(id, target) {
            return self.end_copy_piece(id, target, false, port);
        }
        let copying = self.member(target).and_then(|it| it.copying());
        let compares = copying.is_some_and(|it| it.begins_with_compare(extent));
        self.issue_leg(id, source, StoreOp::Read { extent }, port);
        if compares && source != target {
            self.issue_leg(id, target, StoreOp::Read { extent }, port);
        }
    }

    /// A member was read, or could not be.
    pub(super) fn copy_leg_read(
        &mut self,
        id: u64,
        (member, target): (usize, usize),
        over: bool,
        extent: Extent,
        port: &mut Port<'_>,
    ) {
        let Some((piece, legs)) = self.piece_mut(id) else { return };
        let failed = legs.failed() & !bit(target) & !piece.tried();
        piece.add_tried(failed);
        let tried = piece.tried();
        // What cannot be read from one full member is read from another.
        if failed != 0
            && member != target
            && let Route::To(source) = self.route(extent, tried)
        {
            return self.issue_leg(id, source, StoreOp::Read { extent }, port);
        }
        if over {
            self.copy_read(id, target, port);
        }
    }

    fn copy_read(&mut self, id: u64, target: usize, port: &mut Port<'_>) {
        let source = self.source(id, target);
        let Some((piece, _)) = self.piece_mut(id) else { return };
        let (tried, theirs, extent) = (piece.tried(), piece.held_of(target), piece.extent());
        let Some((member, ours)) = source else {
            let copying = self.member(target).and_then(|it| it.copying());
            copying.into_iter().for_each(Copying::could_not_read);
            self.wait(port);
            return self.end_copy_piece(id, target, false, port);
        };
        self.repair(tried, extent);
        match theirs.filter(|_| member != target) {
            Some(theirs) => {
                self.go(id, Step::Compares);
                if let Some((_, legs)) = self.piece_mut(id) {
                    legs.add(target);
                }
                port.compare([ours.id, theirs.id], self.tag(id, target));
            }
            None => self.write_copy(id, target, port),
        }
    }

    /// What a full member was read to hold.
    fn source(&self, id: u64, target: usize) -> Option<(usize, helio_units::Payload)> {
        let Some(Op::Piece(piece, _)) = self.ops.get(&id) else { return None };
        let planted = planted(Plant::ReadCopyTarget);
        piece.held().iter().find(|(member, _)| *member != target || planted).copied()
    }

    /// Whether the target held it already.
    pub(super) fn copy_compared(
        &mut self,
        id: u64,
        target: usize,
        equal: bool,
        port: &mut Port<'_>,
    ) {
        let Some((_, extent, _)) = self.piece(id) else { return };
        let copying = self.member(target).and_then(|it| it.copying());
        copying.into_iter().for_each(|it| it.compared(extent, equal));
        if equal {
            let trusted = self.unread() == 0;
            self.end_copy_piece(id, target, trusted, port);
        } else {
            self.write_copy(id, target, port);
        }
    }

    fn write_copy(&mut self, id: u64, target: usize, port: &mut Port<'_>) {
        let Some((_, extent, _)) = self.piece(id) else { return };
        let source = self.source(id, target);
        let trusted = self.unread() == 0;
        let Some((_, payload)) = source.filter(|_| trusted && self.is_wanted(id, target)) else {
            return self.end_copy_piece(id, target, false, port);
        };
        if planted(Plant::CopyClearsEarly)
            && let Some(copying) = self.member(target).and_then(|it| it.copying())
        {
            copying.end(extent, id, true);
        }
        self.go(id, Step::Writes);
        self.issue_leg(id, target, StoreOp::Write { extent, payload, fua: false }, port);
    }

    /// The target was written, or could not be.
    pub(super) fn copy_written(
        &mut self,
        id: u64,
        target: usize,
        extent: Extent,
        port: &mut Port<'_>,
    ) {
        let failed = self.piece_mut(id).is_none_or(|(_, legs)| legs.failed() != 0);
        self.wrote(extent);
        // It cannot have returned meanwhile: it does not while an operation on it is under way.
        if failed && self.copying() & bit(target) != 0 {
            self.remove(target);
        }
        self.end_copy_piece(id, target, !failed, port);
    }

    pub(super) fn end_copy_piece(
        &mut self,
        id: u64,
        target: usize,
        copied: bool,
        port: &mut Port<'_>,
    ) {
        if let Some((_, extent, _)) = self.piece(id)
            && let Some(copying) = self.member(target).and_then(|it| it.copying())
        {
            copying.end(extent, id, copied);
        }
        self.end_piece(id, port);
    }
}
