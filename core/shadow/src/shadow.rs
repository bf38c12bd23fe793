// SPDX-License-Identifier: Apache-2.0
//! The layer: all sets of a group, and the one record that is under way.

use crate::op::bits;
use crate::set::{MOST_PIECES, Set, untag};
use crate::transfer::Transfer;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use helio_bitmap::{Bitmap, EXTENT};
use helio_format::copying::PageBits;
use helio_format::members::VolumeMembers;
use helio_format::superblock::GRANULARITY_MAX;
use helio_stack::{
    Io, Layer, LayerRecord, LayerSetting, Leg, MemberEvent, Operation, Outcome, Port, SetOp,
    SetRefusal, SetStatus, Tag,
};
use helio_units::{Bytes, Extent, Moment, VolumeIndex};

/// How often a page is saved that no operation waits for: how far copies and merges are. One page of one member of the group at a time.
const SAVED_EVERY: Duration = Duration::from_secs(1);
/// Pieces of a group that are merged or copied at once.
const WINDOW: usize = 2 * MOST_PIECES;

/// What is being recorded.
#[derive(Clone, Debug)]
enum Recording {
    Nothing,
    /// What every member is worth.
    Members,
    /// A page of the bitmap of a member.
    Page(Leg, u32),
    /// Nothing ever again: a record failed.
    Failed,
}

/// The bitmap of every member of a volume of that size that is created with blank members. It is to be durable before the state of the
/// members is.
#[must_use]
pub fn blank_pages(size: Bytes, region: Bytes) -> Vec<(u32, PageBits)> {
    let mut bitmap = Bitmap::new(&[size], region);
    bitmap.set_all();
    bitmap.dirty_pages().map(|page| (page, bitmap.page_bits(page))).collect()
}

/// See the drawing of the crate.
#[derive(Clone, Debug)]
pub struct Shadow {
    sets: Vec<Set>,
    recording: Recording,
    /// Sets of which the ledger is to say something else, ...
    unrecorded: u64,
    /// ... those of which an operation waits for pages, ...
    waiting: u64,
    /// ... and those that may have a piece to begin: a bit for each.
    eager: u64,
    /// The set whose pages were saved last, and the one whose piece began last: each has its turn.
    turns: (usize, usize),
    /// Pages that no operation waits for are saved from then on.
    again: Moment,
    /// Sets whose pieces may begin that no read waits for, a bit for each.
    permitted: u64,
    /// Of each set, a bit for each member that the configuration names no more.
    unnamed: Vec<u8>,
}

impl Shadow {
    /// Of volumes of these sizes, with the members that the ledger names, and `region` bytes in a region of their bitmaps.
    ///
    /// # Panics
    /// Where a hot extent is not a multiple of a region, or a region is larger than [`GRANULARITY_MAX`].
    #[must_use]
    pub fn new(sizes: &[Bytes], region: Bytes, found: &[VolumeMembers]) -> Self {
        let fits = region.0 <= u64::from(GRANULARITY_MAX) && EXTENT.0.is_multiple_of(region.0);
        assert!(fits, "regions of {region:?}");
        let sets = (0..).map(VolumeIndex).zip(sizes.iter().zip(found));
        let sets = sets.map(|(volume, (size, found))| Set::new(volume, *size, region, found));
        Self {
            sets: sets.collect(),
            recording: Recording::Nothing,
            unrecorded: 0,
            waiting: 0,
            eager: 0,
            turns: (0, 0),
            again: Moment::ZERO,
            permitted: u64::MAX,
            unnamed: vec![0; sizes.len()],
        }
    }

    /// A page of the bitmap of a member, as the ledger has it. Before the layer is used.
    pub fn load(&mut self, leg: Leg, page: u32, bits: &PageBits) {
        let (set, member) = self.at(leg);
        set.load(member, page, bits);
    }

    /// Another disk lies where a member did, or nothing proves what it holds: it lacks everything. Before the layer is used.
    /// Returns false, and changes nothing, if no other member of the volume is full.
    #[must_use]
    pub fn distrust(&mut self, leg: Leg) -> bool {
        let (set, member) = self.at(leg);
        set.distrust(member)
    }

    /// The disk of a member is not there: it is used no more, and lacks what was hot when the process before ended. Before the
    /// layer is used, and before it is told what was hot. Nothing happens if no other member of the volume is full.
    pub fn absent(&mut self, leg: Leg) {
        let (set, member) = self.at(leg);
        set.absent(member);
    }

    /// How much is copied at a time, from now on.
    pub fn set_transfer(&mut self, transfer: Transfer) {
        self.sets.iter_mut().for_each(|set| set.set_transfer(transfer));
    }

    fn at(&mut self, leg: Leg) -> (&mut Set, usize) {
        (&mut self.sets[usize::from(leg.volume.0)], usize::from(leg.member.0))
    }

    /// Lets a set do what it can, begins pieces, and records what is to be recorded.
    fn go_on(&mut self, volume: usize, port: &mut Port<'_>) {
        self.sets[volume].go_on(port);
        self.eager |= 1 << volume;
        self.begin_pieces(port);
        self.look(volume);
        self.record(port);
    }

    fn all_go_on(&mut self, port: &mut Port<'_>) {
        self.sets.iter_mut().for_each(|set| set.go_on(port));
        self.eager = bits(self.sets.len());
        self.begin_pieces(port);
        (0..self.sets.len()).for_each(|volume| self.look(volume));
        self.record(port);
    }

    /// Sets begin pieces in turn, as long as the group's window has room.
    fn begin_pieces(&mut self, port: &mut Port<'_>) {
        while self.eager != 0 && self.sets.iter().map(Set::pieces).sum::<usize>() < WINDOW {
            let turn = next(self.turns.1, self.eager);
            self.turns.1 = turn;
            if !self.sets[turn].begin_piece(self.permitted & (1 << turn) != 0, port) {
                self.eager &= !(1 << turn);
            }
        }
    }

    /// A set may have changed.
    fn look(&mut self, volume: usize) {
        let (set, bit) = (&self.sets[volume], 1 << volume);
        let put = |bits: &mut u64, is: bool| *bits = if is { *bits | bit } else { *bits & !bit };
        put(&mut self.unrecorded, set.is_unrecorded());
        put(&mut self.waiting, set.waits_for_pages());
    }

    fn record(&mut self, port: &mut Port<'_>) {
        if !matches!(self.recording, Recording::Nothing) {
            return;
        }
        if self.unrecorded != 0 {
            self.recording = Recording::Members;
            return port
                .record(LayerRecord::Members(self.sets.iter_mut().map(Set::record).collect()));
        }
        let due = port.now() >= self.again;
        let mut left = if due { bits(self.sets.len()) } else { self.waiting };
        if due {
            self.again = port.now() + SAVED_EVERY;
        }
        while left != 0 {
            let turn = next(self.turns.0, left);
            self.turns.0 = turn;
            if let Some((leg, page, bits)) = self.sets[turn].take_page() {
                self.recording = Recording::Page(leg, page);
                return port.record(LayerRecord::Page { leg, page, bits });
            }
            left &= !(1 << turn);
        }
    }
}

impl Layer for Shadow {
    fn found_hot(&mut self, volume: VolumeIndex, extent: Extent) -> bool {
        self.sets[usize::from(volume.0)].found_hot(extent)
    }

    fn begin(&mut self, operation: Operation, port: &mut Port<'_>) {
        let volume = usize::from(operation.leg.volume.0);
        self.sets[volume].begin(operation, port);
        self.go_on(volume, port);
    }

    fn ended(&mut self, tag: Tag, outcome: Outcome, port: &mut Port<'_>) {
        let (volume, id, member) = untag(tag);
        self.sets[volume].leg_ended(id, member, outcome, port);
        self.go_on(volume, port);
    }

    fn issued(&mut self, tag: Tag) -> Option<Io> {
        let (volume, id, _) = untag(tag);
        self.sets[volume].change_issued(id);
        None
    }

    fn recorded(&mut self, ok: bool, port: &mut Port<'_>) {
        match core::mem::replace(&mut self.recording, Recording::Nothing) {
            _ if !ok => {
                self.recording = Recording::Failed;
                self.sets.iter_mut().for_each(Set::record_failed);
            }
            Recording::Members => self.sets.iter_mut().for_each(Set::recorded),
            Recording::Page(leg, page) => {
                let (set, member) = self.at(leg);
                set.page_saved(member, page);
            }
            other => panic!("nothing was to be recorded: {other:?}"),
        }
        self.all_go_on(port);
    }

    fn compared(&mut self, tag: Tag, equal: bool, port: &mut Port<'_>) {
        let (volume, id, member) = untag(tag);
        self.sets[volume].compared(id, member, equal, port);
        self.go_on(volume, port);
    }

    fn member_event(&mut self, leg: Leg, event: MemberEvent, port: &mut Port<'_>) {
        let (set, member) = self.at(leg);
        set.member_event(member, event);
        self.go_on(usize::from(leg.volume.0), port);
    }

    fn ask_set(&mut self, op: SetOp, port: &mut Port<'_>) -> Result<(), SetRefusal> {
        let volume = match op {
            SetOp::Add { leg, .. } | SetOp::Remove { leg, .. } => leg.volume,
            SetOp::Merge(volume) => volume,
        };
        let volume = usize::from(volume.0);
        self.sets.get_mut(volume).ok_or(SetRefusal::Unsupported)?.ask(op)?;
        if let SetOp::Add { leg, .. } = op {
            self.unnamed[volume] &= !(1 << leg.member.0);
        }
        self.go_on(volume, port);
        Ok(())
    }

    fn doubt_members(&mut self, port: &mut Port<'_>) {
        if !matches!(self.recording, Recording::Failed) {
            self.sets.iter_mut().for_each(Set::doubt_members);
            self.all_go_on(port);
        }
    }

    fn is_recorded(&self) -> bool {
        self.unrecorded == 0
    }

    fn set(&mut self, setting: LayerSetting, port: &mut Port<'_>) {
        match setting {
            LayerSetting::ReadCost { leg, cost } => {
                let (set, member) = self.at(leg);
                set.set_cost(member, cost);
            }
            LayerSetting::MergeDelay(factor) => {
                self.sets.iter_mut().for_each(|set| set.set_merge_delay(factor));
            }
            LayerSetting::Distrust(leg) => {
                let (set, member) = self.at(leg);
                set.distrust_removed(member);
                self.go_on(usize::from(leg.volume.0), port);
            }
            LayerSetting::Unnamed(leg) => {
                self.unnamed[usize::from(leg.volume.0)] |= 1 << leg.member.0;
            }
            LayerSetting::Background(volumes) => {
                self.permitted = volumes;
                self.all_go_on(port);
            }
            LayerSetting::LetCool => {
                let now = port.now();
                self.sets.iter_mut().for_each(|set| set.hurry_owned(now));
                self.all_go_on(port);
            }
        }
    }

    fn background(&self, now: Moment) -> u64 {
        let sets = self.sets.iter().enumerate().filter(|(_, set)| set.has_background(now));
        sets.fold(0, |all, (volume, _)| all | 1 << volume)
    }

    fn full_members(&self, volume: VolumeIndex) -> Option<u8> {
        self.sets.get(usize::from(volume.0))?.full_members()
    }

    fn set_status(&self, volume: VolumeIndex) -> Option<SetStatus> {
        let unnamed = *self.unnamed.get(usize::from(volume.0))?;
        Some(self.sets.get(usize::from(volume.0))?.status(unnamed))
    }

    fn rests(&self) -> bool {
        matches!(self.recording, Recording::Nothing | Recording::Failed)
            && self.sets.iter().all(Set::rests)
    }

    fn deadline(&self) -> Moment {
        let saves =
            matches!(self.recording, Recording::Nothing) && self.sets.iter().any(Set::has_unsaved);
        let saves = saves.then_some(self.again);
        self.sets.iter().map(Set::deadline).chain(saves).min().unwrap_or(Moment::NEVER)
    }

    fn tick(&mut self, port: &mut Port<'_>) {
        self.all_go_on(port);
    }

    fn boxed(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}

/// The first of some bits, of which there is one, that comes behind this one in turn.
const fn next(behind: usize, bits: u64) -> usize {
    let rest = bits & (u64::MAX << behind) & !(1 << behind);
    let of = if rest == 0 { bits } else { rest };
    of.trailing_zeros() as usize
}
