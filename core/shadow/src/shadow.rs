// SPDX-License-Identifier: Apache-2.0
//! The layer: all sets of a group, and the one record that is under way.

use crate::set::{Set, untag};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use helio_bitmap::EXTENT;
use helio_format::copying::PageBits;
use helio_format::members::VolumeMembers;
use helio_stack::{
    Io, Layer, LayerRecord, Leg, Operation, Outcome, Port, SetOp, SetRefusal, SetStatus, Tag, Voice,
};
use helio_units::{Bytes, Extent, Moment, VolumeIndex};

/// How often pages are saved that no operation waits for: how far copies are.
const SAVED_EVERY: Duration = Duration::from_secs(1);

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

/// See the drawing of the crate.
#[derive(Clone, Debug)]
pub struct Shadow {
    sets: Vec<Set>,
    recording: Recording,
    /// The set whose pages were saved last: each has its turn.
    turn: usize,
    /// Pages that no operation waits for are saved from then on.
    again: Moment,
}

impl Shadow {
    /// Of volumes of these sizes, with the members that the ledger names, and `region` bytes in a region of their bitmaps.
    ///
    /// # Panics
    /// Where a hot extent is not a multiple of a region.
    #[must_use]
    pub fn new(sizes: &[Bytes], region: Bytes, found: &[VolumeMembers]) -> Self {
        assert!(EXTENT.0.is_multiple_of(region.0), "regions of {region:?}");
        let sets = (0..).map(VolumeIndex).zip(sizes.iter().zip(found));
        let sets = sets.map(|(volume, (size, found))| Set::new(volume, *size, region, found));
        Self { sets: sets.collect(), recording: Recording::Nothing, turn: 0, again: Moment::ZERO }
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

    /// What a read of a member costs, as many operations under way on it as that.
    pub fn set_cost(&mut self, leg: Leg, cost: u32) {
        let (set, member) = self.at(leg);
        set.set_cost(member, cost);
    }

    fn at(&mut self, leg: Leg) -> (&mut Set, usize) {
        (&mut self.sets[usize::from(leg.volume.0)], usize::from(leg.member.0))
    }

    /// Lets a set do what it can, and records what is to be recorded.
    fn go_on(&mut self, volume: usize, port: &mut Port<'_>) {
        self.sets[volume].go_on(port);
        self.record(port);
    }

    fn record(&mut self, port: &mut Port<'_>) {
        if !matches!(self.recording, Recording::Nothing) {
            return;
        }
        if self.sets.iter_mut().fold(false, |any, set| set.is_unrecorded() | any) {
            self.recording = Recording::Members;
            return port
                .record(LayerRecord::Members(self.sets.iter_mut().map(Set::record).collect()));
        }
        for step in 1..=self.sets.len() {
            let turn = (self.turn + step) % self.sets.len();
            let waits = self.sets[turn].waits_for_pages();
            if !waits && port.now() < self.again {
                continue;
            }
            if let Some((leg, page, bits)) = self.sets[turn].take_page() {
                (self.turn, self.recording) = (turn, Recording::Page(leg, page));
                if !waits {
                    self.again = port.now() + SAVED_EVERY;
                }
                return port.record(LayerRecord::Page { leg, page, bits });
            }
        }
    }
}

impl Layer for Shadow {
    fn found_hot(&mut self, hot: &[(VolumeIndex, Extent)]) -> bool {
        let owned = self.sets.iter().any(Set::has_several);
        for (volume, extent) in hot {
            self.sets[usize::from(volume.0)].found_hot(*extent, owned);
        }
        owned
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
                self.sets.iter_mut().for_each(Set::cannot_record);
            }
            Recording::Members => self.sets.iter_mut().for_each(Set::recorded),
            Recording::Page(leg, page) => {
                let (set, member) = self.at(leg);
                set.page_saved(member, page);
            }
            other => panic!("nothing was to be recorded: {other:?}"),
        }
        self.sets.iter_mut().for_each(|set| set.go_on(port));
        self.record(port);
    }

    fn compared(&mut self, tag: Tag, equal: bool, port: &mut Port<'_>) {
        let (volume, id, member) = untag(tag);
        self.sets[volume].compared(id, member, equal, port);
        self.go_on(volume, port);
    }

    fn heard(&mut self, leg: Leg, voice: Voice, port: &mut Port<'_>) {
        let (set, member) = self.at(leg);
        set.hear(member, voice);
        self.go_on(usize::from(leg.volume.0), port);
    }

    fn ask_set(&mut self, op: SetOp, port: &mut Port<'_>) -> Result<(), SetRefusal> {
        let volume = match op {
            SetOp::Add { leg, .. } | SetOp::Remove { leg, .. } => leg.volume,
            SetOp::Merge(volume) => volume,
        };
        let volume = usize::from(volume.0);
        self.sets[volume].ask(op)?;
        self.go_on(volume, port);
        Ok(())
    }

    fn full_members(&self, volume: VolumeIndex) -> Option<u8> {
        self.sets.get(usize::from(volume.0))?.full_members()
    }

    fn members(&self, volume: VolumeIndex) -> Option<SetStatus> {
        self.sets.get(usize::from(volume.0)).map(Set::status)
    }

    fn rests(&self) -> bool {
        matches!(self.recording, Recording::Nothing | Recording::Failed)
            && self.sets.iter().all(Set::rests)
    }

    fn deadline(&self) -> Moment {
        self.sets.iter().map(Set::deadline).min().unwrap_or(Moment::NEVER)
    }

    fn tick(&mut self, port: &mut Port<'_>) {
        self.sets.iter_mut().for_each(|set| set.go_on(port));
        self.record(port);
    }

    fn boxed(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}
