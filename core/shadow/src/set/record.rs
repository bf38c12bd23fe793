// SPDX-License-Identifier: Apache-2.0
//! What is made durable of a set: what its members are worth, and pages of their bitmaps.

use super::Set;
use crate::member::Member;
use crate::op::{Op, bit, members};
use helio_bitmap::Bitmap;
use helio_format::copying::PageBits;
use helio_format::members::{MEMBERS_MAX, VolumeMembers};
use helio_plant::{Plant, planted};
use helio_stack::{Leg, StoreFault};

impl Set {
    /// Whether the ledger is to say something else of its members.
    pub(crate) fn is_unrecorded(&self) -> bool {
        self.which(Member::is_unrecorded) != 0
    }

    /// A record of all members begins. Returns what it says.
    pub(crate) fn record(&mut self) -> VolumeMembers {
        let mut says = [None; MEMBERS_MAX];
        for (says, member) in says.iter_mut().zip(&mut self.members) {
            *says = member.as_mut().map(Member::record);
        }
        says
    }

    /// That record is durable.
    pub(crate) fn recorded(&mut self) {
        self.members.iter_mut().flatten().for_each(Member::recorded);
    }

    /// Nothing can be recorded any more.
    pub(crate) fn record_failed(&mut self) {
        let is_disk = planted(Plant::RecordIsDisk);
        self.records.failed = Some(if is_disk { StoreFault::Io } else { StoreFault::Unrecorded });
    }

    /// The ledger is not to say any more that something is blank once nothing is. What a command asked to merge may be durable.
    pub(super) fn step_record(&mut self) {
        let members = self.members.iter_mut().flatten();
        if self.unmerged.blank().none_dirty() {
            members.for_each(Member::forget_blank);
        }
        let Some(tick) = self.records.asked_at else { return };
        let mut bitmaps = self.members.iter().flatten().filter_map(Member::differs);
        if !self.is_unrecorded() && bitmaps.all(|bitmap| bitmap.is_all_saved_since(tick)) {
            self.records.asked_at = None;
        }
    }

    /// Whether a page of the bitmap of a full member changed that nothing waits for.
    pub(crate) fn has_unsaved(&self) -> bool {
        self.members.iter().flatten().filter_map(Member::differs).any(Bitmap::has_unsaved)
    }

    /// A copy waits for pages of bitmaps, what a command asked to merge, or a flush may.
    pub(crate) fn waits_for_pages(&self) -> bool {
        let is_flush = |id: &u64| matches!(self.ops.get(id), Some(Op::Flush(..)));
        self.records.asked_at.is_some()
            || self.ended.iter().any(is_flush)
            || self.which(Member::waits_for_pages) != 0
    }

    /// A page that is to be saved.
    pub(crate) fn take_page(&mut self) -> Option<(Leg, u32, PageBits)> {
        let (tick, turn) = (self.count(), self.records.turn);
        // Full members have their turns behind the others: where the bitmap of one has a region, that is unmerged, whatever others say.
        // A command to merge waits for the pages of full members, and one that is copied may always have another: then all take turns.
        let turned =
            if self.records.asked_at.is_some() { self.which(|_| true) } else { self.full() };
        let later = u8::MAX << turn;
        let turns = members(turned & later).chain(members(turned & !later));
        for n in members(!turned).chain(turns) {
            let Some(bitmap) = self.member(n).and_then(Member::bitmap) else { continue };
            let Some(page) = bitmap.take_unsaved(tick) else { continue };
            let bits = bitmap.page_bits(page);
            if turned & bit(n) != 0 {
                self.records.turn = n + 1;
            }
            return Some((self.leg(n), page, bits));
        }
        None
    }

    /// That page is durable.
    pub(crate) fn page_saved(&mut self, member: usize, page: u32) {
        if let Some(bitmap) = self.member(member).and_then(Member::bitmap) {
            bitmap.page_saved(page, true);
        }
    }
}
