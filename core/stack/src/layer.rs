// SPDX-License-Identifier: Apache-2.0
//! What a layer is, and what it is given.

use crate::contract::{
    CopyIo, CopyOp, CopyOutcome, CopyStatus, HeldCopy, Leg, MemberFault, Outcome, PoolOp,
    PoolOutcome, RollbackStatus, StoreFault, StoreOp,
};
use crate::set::{LayerRecord, LayerSetting, MemberEvent, SetOp, SetRefusal, SetStatus};
use crate::slots::Slots;
use crate::stack::Work;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt::Debug;
use helio_format::before::{CopyNumber, CopyView, KeptCopy, KeptImage};
use helio_units::{Bytes, Extent, Moment, PayloadId, VolumeIndex};

/// Names an operation to the layer that carries it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io(u64);

impl Io {
    /// The operation of that number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number, which a layer may give along in a [`Tag`].
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// What a layer remembers of an operation of its own: the number that it gave along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(pub u64);

/// An operation on a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its name.
    pub io: Io,
    /// Where: above the layer that keeps several members alike, a volume as a whole.
    pub leg: Leg,
    /// What.
    pub op: StoreOp,
}

/// A layer of a store stack. Its methods do what they can at once, through the port, and return.
pub trait Layer: Debug + Send {
    /// The process begins, and this hot extent was hot when the one before ended: what was written there last may lie below this
    /// layer in part. Returns whether the layer owns it. Then it stays hot, through any number of crashes, until the layer lets it
    /// cool ([`Port::let_cool`]). Whatever the layer has to do there it begins when its deadline comes. No operation of an earlier
    /// process is under way on any member.
    fn found_hot(&mut self, _volume: VolumeIndex, _extent: Extent) -> bool {
        false
    }

    /// An operation begins. The layer ends it exactly once, now or later. By default it hands it on as it is.
    fn begin(&mut self, operation: Operation, port: &mut Port<'_>) {
        port.issue(operation.leg, operation.op, Tag(operation.io.number()));
    }

    /// An operation of its own ended. By default it is one that it handed on as it was.
    fn ended(&mut self, tag: Tag, outcome: Outcome, port: &mut Port<'_>) {
        port.end(Io::new(tag.0), outcome);
    }

    /// A member was given an operation of its own with FUA, which may have waited until its extents were hot. Returns the operation
    /// that it handed on as it was, if it did.
    fn issued(&mut self, _tag: Tag) -> Option<Io> {
        None
    }

    /// An operation of the group begins. Returns it where another layer is to carry it out.
    fn copy(&mut self, op: CopyOp, _port: &mut Port<'_>) -> Option<CopyOp> {
        Some(op)
    }

    /// It is ready for a cut, and this is the moment: what the volumes hold now is that image. None: there is no moment.
    fn cut(&mut self, _image: Option<Box<KeptImage>>, _port: &mut Port<'_>) {}

    /// The pool may take that many bytes from now on; none where nothing bounds it.
    fn bound(&mut self, _most: Option<Bytes>) {}

    /// A layer's record is durable, or cannot be written. Then none can be written any more.
    fn recorded(&mut self, ok: bool, _port: &mut Port<'_>) {
        panic!("a layer that records nothing was told of it: {ok}")
    }

    /// Bytes that it asked about were compared.
    fn compared(&mut self, tag: Tag, _equal: bool, _port: &mut Port<'_>) {
        panic!("a layer that compares nothing was told of {tag:?}")
    }

    /// The host reports something of a member's disk.
    fn member_event(&mut self, _leg: Leg, _event: MemberEvent, _port: &mut Port<'_>) {}

    /// An administrator asks something of a volume's members. No change is under way beside the layers.
    ///
    /// # Errors
    /// It is refused, and nothing changed.
    fn ask_set(&mut self, op: SetOp, _port: &mut Port<'_>) -> Result<(), SetRefusal> {
        let _ = op;
        Err(SetRefusal::Unsupported)
    }

    /// The ledger was found in a state that is older than what happened to members since. A layer that keeps several members of a
    /// volume alike uses one full member of it. Every other one lacks everything, whatever its bitmap says; that is recorded.
    fn doubt_members(&mut self, _port: &mut Port<'_>) {}

    /// The ledger says of members what it is to say.
    fn is_recorded(&self) -> bool {
        true
    }

    /// The host sets something.
    fn set(&mut self, _setting: LayerSetting, _port: &mut Port<'_>) {}

    /// Where it keeps several members of a volume alike: which of them hold all of it, a bit for each.
    fn full_members(&self, _volume: VolumeIndex) -> Option<u8> {
        None
    }

    /// How the members of a volume are, where it keeps its members alike, be it only one.
    fn set_status(&self, _volume: VolumeIndex) -> Option<SetStatus> {
        None
    }

    /// The volumes, a bit for each, in which it has work that no operation waits for, and could begin it now.
    fn background(&self, _now: Moment) -> u64 {
        0
    }

    /// What it asked of the pool ended.
    fn pool_ended(&mut self, outcome: PoolOutcome, _port: &mut Port<'_>) {
        panic!("a layer that has no pool was told {outcome:?}")
    }

    /// An operation on a copy begins. Returns whether the layer performs it; then [`Port::copy_ended`] tells how it ended, exactly once.
    fn begin_on_copy(&mut self, _io: CopyIo, _port: &mut Port<'_>) -> bool {
        false
    }

    /// A copy is of no use any more, and the pool may not be able to record that: operations do not wait for it.
    fn abandon(&mut self, _copy: CopyNumber, _port: &mut Port<'_>) {}

    /// The disk of a volume is given up, or is another one from now on. If a copy is being cut whose moment was, the cut fails like
    /// that: what came before the moment may be missing on the disk, or may be gone with it.
    fn fail_cut(&mut self, _failed: MemberFault, _port: &mut Port<'_>) {}

    /// The copy that is being cut, once its moment was, and until the cut has ended: the list may say already that it is held.
    fn cutting(&self) -> Option<CopyNumber> {
        None
    }

    /// The copies that it holds, the oldest first, without figures.
    fn held(&self) -> Vec<KeptCopy> {
        Vec::new()
    }

    /// One of these.
    fn held_copy(&self, _number: CopyNumber) -> Option<KeptCopy> {
        None
    }

    /// Where the volumes differ from one of them, as far as that is known: runs of whole chunks.
    fn differing(&self, _copy: CopyNumber) -> Vec<(VolumeIndex, Extent)> {
        Vec::new()
    }

    /// Where, in an extent that is not empty, a volume may differ from what is seen of a copy, or from what was seen of a younger copy
    /// before: whole chunks, in their order. None if it does not hold that copy.
    fn changed(&self, _on: CopyView, _within: (VolumeIndex, Extent)) -> Option<Vec<Extent>> {
        None
    }

    /// The copies that it holds, the oldest first.
    fn copies(&self) -> Vec<HeldCopy> {
        Vec::new()
    }

    /// How the copy is that it preserves, if it preserves one.
    fn preserves(&self) -> Option<CopyStatus> {
        None
    }

    /// A rollback is under way: what members hold is not what the volumes hold.
    fn is_rolling_back(&self) -> bool {
        false
    }

    /// How far it is, which takes time.
    fn rollback(&self) -> Option<RollbackStatus> {
        None
    }

    /// It has nothing under way, and would hand on each operation as it is.
    fn rests(&self) -> bool;

    /// When it wants to be asked again.
    fn deadline(&self) -> Moment {
        Moment::NEVER
    }

    /// That time has come, maybe.
    fn tick(&mut self, _port: &mut Port<'_>) {}

    /// Another one, in the same state.
    fn boxed(&self) -> Box<dyn Layer>;
}

impl Clone for Box<dyn Layer> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// What a layer may do.
#[derive(Debug)]
pub struct Port<'a> {
    now: Moment,
    level: usize,
    below: &'a mut Slots<Tag>,
    work: &'a mut VecDeque<Work>,
}

impl<'a> Port<'a> {
    /// Of the layer of that level, whose own operations are `below`.
    pub(crate) const fn new(
        now: Moment,
        level: usize,
        below: &'a mut Slots<Tag>,
        work: &'a mut VecDeque<Work>,
    ) -> Self {
        Self { now, level, below, work }
    }

    /// What time it is.
    #[must_use]
    pub const fn now(&self) -> Moment {
        self.now
    }

    /// An operation that it was given has ended.
    pub fn end(&mut self, io: Io, outcome: Outcome) {
        self.work.push_back(Work::End { level: self.level, io, outcome });
    }

    /// An operation of its own begins.
    pub fn issue(&mut self, leg: Leg, op: StoreOp, tag: Tag) {
        let io = Io(self.below.put(tag));
        let operation = Operation { io, leg, op };
        self.work.push_back(Work::Begin { level: self.level + 1, operation });
    }

    /// The layer has made its members equal in the extent; the extent may cool.
    pub fn let_cool(&mut self, volume: VolumeIndex, extent: Extent) {
        self.work.push_back(Work::LetCool { level: self.level, volume, extent });
    }

    /// An extent that is hot stays hot from now on, until the layer lets it cool: its members may differ there.
    pub fn own(&mut self, volume: VolumeIndex, extent: Extent) {
        self.work.push_back(Work::Own { level: self.level, volume, extent });
    }

    /// Makes something durable; then [`Layer::recorded`] says so. One of a layer at a time.
    pub fn record(&mut self, record: LayerRecord) {
        self.work.push_back(Work::Record { level: self.level, record });
    }

    /// Asks whether two payloads of one length hold the same bytes; [`Layer::compared`] says it.
    pub fn compare(&mut self, pair: [PayloadId; 2], tag: Tag) {
        self.work.push_back(Work::Compare { level: self.level, pair, tag });
    }

    /// A member is used no more: what is under way on it fails as silent, and is late from then on.
    pub fn give_up(&mut self, leg: Leg) {
        self.work.push_back(Work::GiveUp(leg));
    }

    /// A flush that no operation waits for failed on every member that holds all of the volume, like that: what they hold of earlier
    /// writes is unknown.
    pub fn flush_failed(&mut self, volume: VolumeIndex, fault: StoreFault) {
        self.work.push_back(Work::FlushFailed(volume, fault));
    }

    /// Asks something of the pool; once that has ended, [`Layer::pool_ended`] says so.
    pub fn pool(&mut self, op: PoolOp) {
        self.work.push_back(Work::Pool { level: self.level, op });
    }

    /// It is ready for the cut that was asked for; then [`Layer::cut`] tells the moment.
    pub fn cut_ready(&mut self) {
        self.work.push_back(Work::CutReady);
    }

    /// An expendable copy is over: there was no room for what it needed, or the pool failed.
    pub fn over(&mut self, copy: KeptCopy) {
        self.work.push_back(Work::Over(Box::new(copy)));
    }

    /// An operation on a copy has ended.
    pub fn copy_ended(&mut self, name: u64, outcome: Outcome) {
        self.work.push_back(Work::CopyEnded { name, outcome });
    }

    /// The operation of the group has ended.
    pub fn copied(&mut self, outcome: CopyOutcome) {
        self.work.push_back(Work::Copied(outcome));
    }

    /// Bytes that it was given are needed no more.
    pub fn release(&mut self, payload: PayloadId) {
        self.work.push_back(Work::Release(payload));
    }
}
