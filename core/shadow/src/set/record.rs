// SPDX-License-Identifier: Apache-2.0
//! What is made durable of a set: what its members are worth, and pages of their bitmaps.

use super::Set;
use crate::member::Member;
use crate::op::Op;
use helio_format::copying::PageBits;
use helio_format::members::{MEMBERS_MAX, VolumeMembers};
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
    pub(crate) const fn record_failed(&mut self) {
        self.unrecordable = Some(StoreFault::Io);
    }

    /// A copy waits for pages of bitmaps, or a flush may.
    pub(crate) fn waits_for_pages(&self) -> bool {
        let is_flush = |id: &u64| matches!(self.ops.get(id), Some(Op::Flush(..)));
        self.ended.iter().any(is_flush) || self.which(Member::waits_for_pages) != 0
    }

    /// A page that is to be saved.
    pub(crate) fn take_page(&mut self) -> Option<(Leg, u32, PageBits)> {
        let tick = self.count();
        let pages = self.members.iter_mut().enumerate();
        let mut pages = pages.filter_map(|(n, member)| Some((n, member.as_mut()?.bitmap()?)));
        let (member, page, bits) = pages.find_map(|(n, bitmap)| {
            let page = bitmap.take_unsaved(tick)?;
            Some((n, page, bitmap.page_bits(page)))
        })?;
        Some((self.leg(member), page, bits))
    }

    /// That page is durable.
    pub(crate) fn page_saved(&mut self, member: usize, page: u32) {
        if let Some(bitmap) = self.member(member).and_then(Member::bitmap) {
            bitmap.page_saved(page, true);
        }
    }
}
