// SPDX-License-Identifier: Apache-2.0
//! The ledger of a desk, as far as it concerns members: one record at a time, done or not when the process ends.

use helio_format::copying::PageBits;
use helio_format::members::{CopyHealth, VolumeMembers};
use helio_netmodel::Dice;
use helio_stack::{LayerRecord, Leg};
use std::collections::BTreeMap;

/// What it says of members, and the pages of their bitmaps.
type Says = (Vec<VolumeMembers>, BTreeMap<(Leg, u32), PageBits>);

/// See the module.
#[derive(Debug)]
pub(super) struct Ledger {
    members: Vec<VolumeMembers>,
    pages: BTreeMap<(Leg, u32), PageBits>,
    under_way: Option<LayerRecord>,
    failed: bool,
    /// What it said at some moment.
    backup: Option<Says>,
}

impl Ledger {
    pub(super) const fn new(members: Vec<VolumeMembers>) -> Self {
        Self { members, pages: BTreeMap::new(), under_way: None, failed: false, backup: None }
    }

    /// A volume is created with blank members: their bitmaps.
    pub(super) fn create_blank(&mut self, leg: Leg, pages: Vec<(u32, PageBits)>) {
        self.members[usize::from(leg.volume.0)][usize::from(leg.member.0)] =
            Some(CopyHealth::Blank);
        self.pages.extend(pages.into_iter().map(|(page, bits)| ((leg, page), bits)));
    }

    /// What it says now is kept as a backup.
    pub(super) fn back_up(&mut self) {
        self.backup = Some((self.members.clone(), self.pages.clone()));
    }

    /// What the backup says of the members of every volume.
    pub(super) fn backed_up(&self) -> Option<&[VolumeMembers]> {
        self.backup.as_ref().map(|(members, _)| members.as_slice())
    }

    /// No backup tells of the disks that there are now.
    pub(super) fn forget_backup(&mut self) {
        self.backup = None;
    }

    /// The backup is put in its place. The host that opens it records members that the configuration names and the backup does not as
    /// unproven, before anything is served (`app/daemon/src/open/members.rs`): those that the later ledger had.
    pub(super) fn restore(&mut self) {
        let Some((mut members, pages)) = self.backup.take() else { return };
        for (old, named) in members.iter_mut().flatten().zip(self.members.iter().flatten()) {
            *old = old.or(named.map(|_| CopyHealth::Unproven));
        }
        (self.members, self.pages) = (members, pages);
    }

    pub(super) fn members(&self) -> &[VolumeMembers] {
        &self.members
    }

    pub(super) fn is_full(&self, leg: Leg) -> bool {
        matches!(self.state(leg), Some(CopyHealth::Good | CopyHealth::Blank))
    }

    pub(super) fn state(&self, leg: Leg) -> Option<CopyHealth> {
        self.members[usize::from(leg.volume.0)][usize::from(leg.member.0)]
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = (Leg, u32, &PageBits)> {
        self.pages.iter().map(|((leg, page), bits)| (*leg, *page, bits))
    }

    /// Whether the bit of a region is set. `per_page`: regions in a page.
    pub(super) fn has_bit(&self, leg: Leg, region: u64, per_page: u64) -> bool {
        let at = region % per_page;
        let page = self.pages.get(&(leg, (region / per_page) as u32));
        page.is_some_and(|bits| bits[at as usize / 64] & (1 << (at % 64)) != 0)
    }

    pub(super) const fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }

    pub(super) const fn has_failed(&self) -> bool {
        self.failed
    }

    pub(super) fn begin(&mut self, record: LayerRecord) {
        assert!(self.under_way.replace(record).is_none(), "two records at once");
        assert!(!self.failed, "a record after one that failed");
    }

    /// The record ends. Returns whether it is durable, and whether it was one of members.
    pub(super) fn end(&mut self, fails: bool) -> (bool, bool) {
        let Some(record) = self.under_way.take() else { panic!("nothing is recorded") };
        let of_members = matches!(record, LayerRecord::Members(_));
        self.failed |= fails;
        if !self.failed {
            self.done(record);
        }
        (!self.failed, of_members)
    }

    fn done(&mut self, record: LayerRecord) {
        match record {
            LayerRecord::Members(members) => self.members = members,
            LayerRecord::Page { leg, page, bits } => _ = self.pages.insert((leg, page), bits),
            LayerRecord::Copies(_) => panic!("no layer here preserves copies"),
        }
    }

    /// The process ends: what was under way is durable or not. The one that starts has a ledger that works. Returns whether a
    /// record of members became durable.
    pub(super) fn crash(&mut self, dice: &mut Dice) -> bool {
        let record = self.under_way.take().filter(|_| !self.failed && dice.chance(1, 2));
        let of_members = matches!(record, Some(LayerRecord::Members(_)));
        record.into_iter().for_each(|record| self.done(record));
        self.failed = false;
        of_members
    }
}
