// SPDX-License-Identifier: Apache-2.0
//! Layers, one above the other, and what travels between them.

use crate::contract::{
    CopyIo, CopyOp, CopyOutcome, CopyStatus, HeldCopy, Leg, MemberFault, Outcome, PoolOp,
    PoolOutcome, RollbackStatus, StoreFault, StoreOp,
};
use crate::layer::{Io, Layer, Operation, Port, Tag};
use crate::set::{LayerRecord, LayerSetting, MemberEvent, SetOp, SetRefusal, SetStatus};
use crate::slots::Slots;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use helio_format::before::{CopyNumber, CopyView, KeptCopy, KeptImage};
use helio_units::{Bytes, Extent, Moment, PayloadId, VolumeIndex};

/// A step between two layers that is due.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// The layer of that level is given an operation; below the last one are the members.
    Begin {
        level: usize,
        operation: Operation,
    },
    /// An operation that the layer of that level was given has ended.
    End {
        level: usize,
        io: Io,
        outcome: Outcome,
    },
    Pool {
        level: usize,
        op: PoolOp,
    },
    /// An operation on a copy has ended.
    CopyEnded {
        name: u64,
        outcome: Outcome,
    },
    Own {
        level: usize,
        volume: VolumeIndex,
        extent: Extent,
    },
    LetCool {
        level: usize,
        volume: VolumeIndex,
        extent: Extent,
    },
    Record {
        level: usize,
        record: LayerRecord,
    },
    Compare {
        level: usize,
        pair: [PayloadId; 2],
        tag: Tag,
    },
    GiveUp(Leg),
    FlushFailed(VolumeIndex, StoreFault),
    CutReady,
    Over(Box<KeptCopy>),
    Copied(CopyOutcome),
    Release(PayloadId),
}

/// What a stack asks and tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// An operation for the member; its end is told by [`Stack::member_ended`].
    Member {
        /// Its name.
        name: u64,
        /// Which member.
        leg: Leg,
        /// What.
        op: StoreOp,
    },
    /// An operation that was begun with this name has ended, or a read of a copy.
    Ended {
        /// Its name.
        name: u64,
        /// How.
        outcome: Outcome,
    },
    /// Something is to be recorded durably; [`Stack::recorded`] tells when it is.
    Record(LayerRecord),
    /// Whether two payloads hold the same bytes is asked; [`Stack::compared`] tells it.
    Compare {
        /// The question's name.
        name: u64,
        /// The payloads.
        pair: [PayloadId; 2],
    },
    /// A member is used no more.
    GiveUp(Leg),
    /// A flush of a layer's own failed on every member that holds all of the volume.
    FlushFailed(VolumeIndex, StoreFault),
    /// An extent is to stay hot until that layer lets it cool.
    Own {
        /// Its place in the stack.
        layer: u8,
        /// On which volume.
        volume: VolumeIndex,
        /// Where.
        extent: Extent,
    },
    /// The layer has made its members equal in the extent; the extent may cool.
    LetCool {
        /// Its place in the stack; [`Stack::found_hot`] counts alike.
        layer: u8,
        /// On which volume.
        volume: VolumeIndex,
        /// Where.
        extent: Extent,
    },
    /// Something is asked of the pool; its end is told by [`Stack::pool_ended`].
    Pool(PoolOp),
    /// The layer is ready for the cut that was asked for: [`Stack::cut`] is to tell the moment, or that there is none.
    CutReady,
    /// That copy, which was expendable, is over: there was no room for what it needed, or the pool failed.
    Over(Box<KeptCopy>),
    /// The operation of the group has ended.
    Copied(CopyOutcome),
    /// Bytes are needed no more.
    Release(PayloadId),
}

#[derive(Clone, Debug)]
struct Level {
    layer: Box<dyn Layer>,
    /// Its own operations under way.
    below: Slots<Tag>,
}

/// Layers, the one next to the engine first. Empty by default: then nothing passes through it.
#[derive(Clone, Debug, Default)]
pub struct Stack {
    levels: Vec<Level>,
    work: VecDeque<Work>,
    /// Whose operation the pool carries out.
    pool: Option<usize>,
    /// Whose record is being made durable, and those that wait for that.
    recording: Option<usize>,
    records: VecDeque<(usize, LayerRecord)>,
    /// Who asked for comparisons that are under way, and what it calls each.
    comparing: Slots<(usize, Tag)>,
}

impl Stack {
    /// These layers, the one next to the engine first.
    ///
    /// # Panics
    /// Where there are more than eight.
    #[must_use]
    pub fn new(layers: Vec<Box<dyn Layer>>) -> Self {
        assert!(layers.len() <= 8, "{} layers in one stack", layers.len());
        let level = |layer| Level { layer, below: Slots::new() };
        Self { levels: layers.into_iter().map(level).collect(), ..Self::default() }
    }

    /// It has no layers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Nothing needs to pass through it: every layer would hand on each operation as it is, and none has anything under way.
    #[must_use]
    #[inline]
    pub fn rests(&self) -> bool {
        self.levels.is_empty() || self.all_rest()
    }

    fn all_rest(&self) -> bool {
        let rests = |level: &Level| level.layer.rests() && level.below.is_empty();
        let records = self.recording.is_some() || !self.records.is_empty();
        let asks = self.pool.is_some() || records || !self.comparing.is_empty();
        self.work.is_empty() && !asks && self.levels.iter().all(rests)
    }

    /// When [`Self::tick`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Moment {
        let deadlines = self.levels.iter().map(|level| level.layer.deadline());
        deadlines.min().unwrap_or(Moment::NEVER)
    }

    /// How the copy is that a layer preserves, if one does.
    #[must_use]
    pub fn preserves(&self) -> Option<CopyStatus> {
        self.levels.iter().find_map(|level| level.layer.preserves())
    }

    /// A rollback is under way: what members hold is not what the volumes hold.
    #[must_use]
    pub fn is_rolling_back(&self) -> bool {
        self.levels.iter().any(|level| level.layer.is_rolling_back())
    }

    /// How far it is, which takes time.
    #[must_use]
    pub fn rollback(&self) -> Option<RollbackStatus> {
        self.levels.iter().find_map(|level| level.layer.rollback())
    }

    /// The process begins, and this hot extent was hot when the one before ended. Returns which layers own it now, a bit for each.
    pub fn found_hot(&mut self, volume: VolumeIndex, extent: Extent) -> u8 {
        let levels = self.levels.iter_mut();
        let owners = levels.map(|level| u8::from(level.layer.found_hot(volume, extent)));
        (0..).zip(owners).fold(0, |all, (level, owns)| all | owns << level)
    }

    /// An operation begins, under a name of the caller's.
    pub fn begin(&mut self, name: u64, volume: VolumeIndex, op: StoreOp) {
        let operation = Operation { io: Io::new(name), leg: Leg::whole(volume), op };
        self.work.push_back(Work::Begin { level: 0, operation });
    }

    /// An operation of the group begins.
    pub fn copy(&mut self, mut op: CopyOp, now: Moment) {
        for level in 0..self.levels.len() {
            match self.at(level, now, |layer, port| layer.copy(op, port)) {
                Some(refused) => op = refused,
                None => return,
            }
        }
        self.work.push_back(Work::Copied(CopyOutcome::Unsupported));
    }

    /// This is the moment of the cut for which a layer is ready: what the volumes hold now is that image. None: there is no moment.
    /// Where the cut has failed since, that changes nothing.
    pub fn cut(&mut self, image: Option<KeptImage>, now: Moment) {
        for level in 0..self.levels.len() {
            let image = image.map(Box::new);
            self.at(level, now, |layer, port| layer.cut(image, port));
        }
    }

    /// An operation on a copy begins. It fails where no layer holds that copy, and where its bytes are damaged.
    pub fn begin_on_copy(&mut self, io: CopyIo, now: Moment) {
        let mut levels = 0..self.levels.len();
        if !levels.any(|level| self.at(level, now, |layer, port| layer.begin_on_copy(io, port))) {
            let outcome = Outcome::failed(&io.op, StoreFault::Io);
            self.work.push_back(Work::CopyEnded { name: io.name, outcome });
        }
    }

    /// The copies that are held, the oldest first, without figures, which take time.
    #[must_use]
    pub fn held(&self) -> Vec<KeptCopy> {
        self.levels.iter().flat_map(|level| level.layer.held()).collect()
    }

    /// The copy of that number, if it is held.
    #[must_use]
    pub fn held_copy(&self, number: CopyNumber) -> Option<KeptCopy> {
        self.levels.iter().find_map(|level| level.layer.held_copy(number))
    }

    /// Where the volumes differ from a copy, as far as that is known: runs of whole chunks.
    #[must_use]
    pub fn differing(&self, copy: CopyNumber) -> Vec<(VolumeIndex, Extent)> {
        self.levels.iter().flat_map(|level| level.layer.differing(copy)).collect()
    }

    /// Where, in an extent that is not empty, a volume may differ from what is seen of a copy, or from what was seen of a younger copy
    /// before: whole chunks, in their order. None if that copy is not held.
    #[must_use]
    pub fn changed(&self, on: CopyView, within: (VolumeIndex, Extent)) -> Option<Vec<Extent>> {
        self.levels.iter().find_map(|level| level.layer.changed(on, within))
    }

    /// The copies that are held, the oldest first.
    #[must_use]
    pub fn copies(&self) -> Vec<HeldCopy> {
        self.levels.iter().flat_map(|level| level.layer.copies()).collect()
    }

    /// The pool may take that many bytes from now on; none where nothing bounds it.
    pub fn bound(&mut self, most: Option<Bytes>) {
        self.levels.iter_mut().for_each(|level| level.layer.bound(most));
    }

    /// A copy is of no use any more, which the pool may not be able to record.
    pub fn abandon(&mut self, copy: CopyNumber, now: Moment) {
        for level in 0..self.levels.len() {
            self.at(level, now, |layer, port| layer.abandon(copy, port));
        }
    }

    /// The disk of a volume is given up, or is another one from now on: a copy that is being cut, and whose moment was, fails.
    pub fn fail_cut(&mut self, failed: MemberFault, now: Moment) {
        for level in 0..self.levels.len() {
            self.at(level, now, |layer, port| layer.fail_cut(failed, port));
        }
    }

    /// The copy that is being cut, once its moment was, and until the cut has ended.
    #[must_use]
    pub fn cutting(&self) -> Option<CopyNumber> {
        self.levels.iter().find_map(|level| level.layer.cutting())
    }

    /// The member was given an operation with FUA; before its end is told.
    ///
    /// # Panics
    /// Where it ended, or never began.
    pub fn member_issued(&mut self, name: u64) {
        let mut given = Some(Io::new(name));
        for Level { layer, below } in self.levels.iter_mut().rev() {
            let Some(io) = given else { return };
            given = layer.issued(*below.get(io.number()));
        }
    }

    /// The member ended an operation.
    ///
    /// # Panics
    /// Where it ended twice, or never began.
    pub fn member_ended(&mut self, name: u64, outcome: Outcome) {
        let level = self.levels.len();
        self.work.push_back(Work::End { level, io: Io::new(name), outcome });
    }

    /// What was asked of the pool ended.
    ///
    /// # Panics
    /// Where nothing was asked of it.
    pub fn pool_ended(&mut self, outcome: PoolOutcome, now: Moment) {
        let Some(level) = self.pool.take() else {
            panic!("the pool ended an operation that was not asked for")
        };
        self.at(level, now, |layer, port| layer.pool_ended(outcome, port));
    }

    /// A layer's record is durable, or cannot be written.
    ///
    /// # Panics
    /// Where nothing was.
    pub fn recorded(&mut self, ok: bool, now: Moment) {
        let Some(level) = self.recording.take() else {
            panic!("a record ended that no layer asked for")
        };
        self.at(level, now, |layer, port| layer.recorded(ok, port));
    }

    /// Payloads were compared.
    ///
    /// # Panics
    /// Where that was not asked, or was told before.
    pub fn compared(&mut self, name: u64, equal: bool, now: Moment) {
        let (level, tag) = self.comparing.take(name);
        self.at(level, now, |layer, port| layer.compared(tag, equal, port));
    }

    /// The host reports something of a member's disk.
    pub fn member_event(&mut self, leg: Leg, event: MemberEvent, now: Moment) {
        for level in 0..self.levels.len() {
            self.at(level, now, |layer, port| layer.member_event(leg, event, port));
        }
    }

    /// An administrator asks something of a volume's members.
    ///
    /// # Errors
    /// It is refused, and nothing changed.
    pub fn ask_set(&mut self, op: SetOp, now: Moment) -> Result<(), SetRefusal> {
        for level in 0..self.levels.len() {
            match self.at(level, now, |layer, port| layer.ask_set(op, port)) {
                Err(SetRefusal::Unsupported) => {}
                answer => return answer,
            }
        }
        Err(SetRefusal::Unsupported)
    }

    /// The ledger was found in a state that is older than what happened to members since.
    pub fn doubt_members(&mut self, now: Moment) {
        for level in 0..self.levels.len() {
            self.at(level, now, |layer, port| layer.doubt_members(port));
        }
    }

    /// The ledger says of members what it is to say.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.levels.iter().all(|level| level.layer.is_recorded())
    }

    /// The host sets something of layers.
    pub fn set(&mut self, setting: LayerSetting, now: Moment) {
        for level in 0..self.levels.len() {
            self.at(level, now, |layer, port| layer.set(setting, port));
        }
    }

    /// The volumes, a bit for each, in which layers have work that no operation waits for, and could begin it now.
    #[must_use]
    pub fn background(&self, now: Moment) -> u64 {
        self.levels.iter().fold(0, |all, level| all | level.layer.background(now))
    }

    /// Where a layer keeps several members of a volume alike: which of them hold all of it, a bit for each.
    #[must_use]
    pub fn full_members(&self, volume: VolumeIndex) -> Option<u8> {
        self.levels.iter().find_map(|level| level.layer.full_members(volume))
    }

    /// How the members of a volume are, where a layer keeps its members alike, be it only one.
    #[must_use]
    pub fn set_status(&self, volume: VolumeIndex) -> Option<SetStatus> {
        self.levels.iter().find_map(|level| level.layer.set_status(volume))
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Moment) {
        for level in 0..self.levels.len() {
            if self.levels[level].layer.deadline() <= now {
                self.at(level, now, |layer, port| layer.tick(port));
            }
        }
    }

    fn at<R>(
        &mut self,
        level: usize,
        now: Moment,
        then: impl FnOnce(&mut dyn Layer, &mut Port<'_>) -> R,
    ) -> R {
        let Level { layer, below } = &mut self.levels[level];
        then(&mut **layer, &mut Port::new(now, level, below, &mut self.work))
    }

    fn next_record(&mut self) -> Option<Out> {
        if self.recording.is_some() {
            return None;
        }
        let (level, record) = self.records.pop_front()?;
        self.recording = Some(level);
        Some(Out::Record(record))
    }

    /// The next thing that is to be done outside, or that has ended.
    pub fn next(&mut self, now: Moment) -> Option<Out> {
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Begin { level, operation } if level == self.levels.len() => {
                    let Operation { io, leg, op } = operation;
                    return Some(Out::Member { name: io.number(), leg, op });
                }
                Work::Begin { level, operation } => {
                    self.at(level, now, |layer, port| layer.begin(operation, port));
                }
                Work::End { level: 0, io, outcome } => {
                    return Some(Out::Ended { name: io.number(), outcome });
                }
                Work::End { level, io, outcome } => {
                    let tag = self.levels[level - 1].below.take(io.number());
                    self.at(level - 1, now, |layer, port| layer.ended(tag, outcome, port));
                }
                Work::Pool { level, op } => {
                    assert!(self.pool.is_none(), "two operations on the pool at once");
                    self.pool = Some(level);
                    return Some(Out::Pool(op));
                }
                Work::Own { level, volume, extent } => {
                    return Some(Out::Own { layer: level as u8, volume, extent });
                }
                Work::Record { level, record } => {
                    self.records.push_back((level, record));
                    if let Some(out) = self.next_record() {
                        return Some(out);
                    }
                }
                Work::Compare { level, pair, tag } => {
                    let name = self.comparing.put((level, tag));
                    return Some(Out::Compare { name, pair });
                }
                Work::GiveUp(leg) => return Some(Out::GiveUp(leg)),
                Work::FlushFailed(volume, fault) => return Some(Out::FlushFailed(volume, fault)),
                Work::LetCool { level, volume, extent } => {
                    return Some(Out::LetCool { layer: level as u8, volume, extent });
                }
                Work::CopyEnded { name, outcome } => return Some(Out::Ended { name, outcome }),
                Work::CutReady => return Some(Out::CutReady),
                Work::Over(copy) => return Some(Out::Over(copy)),
                Work::Copied(outcome) => return Some(Out::Copied(outcome)),
                Work::Release(payload) => return Some(Out::Release(payload)),
            }
        }
        self.next_record()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{Faults, Odds};
    use crate::pass::Pass;
    use alloc::vec;
    use core::time::Duration;
    use helio_units::Payload;

    const V: VolumeIndex = VolumeIndex(0);
    const WRITE: StoreOp = StoreOp::Write {
        extent: Extent::new(0, 8192),
        payload: Payload { id: PayloadId(7), length: 8192 },
        fua: false,
    };

    fn passes(layers: usize) -> Stack {
        Stack::new((0..layers).map(|_| Pass::default().boxed()).collect())
    }

    /// Everything that the stack asks and tells at this time.
    fn drain(stack: &mut Stack, now: Moment) -> Vec<Out> {
        core::iter::from_fn(|| stack.next(now)).collect()
    }

    fn member(out: &[Out]) -> (u64, StoreOp) {
        let [Out::Member { name, op, .. }] = out else { panic!("{out:?}") };
        (*name, *op)
    }

    #[test]
    fn an_operation_passes_every_layer_down_and_up_and_ends_once() {
        let mut stack = passes(3);
        stack.begin(41, V, WRITE);
        let (name, op) = member(&drain(&mut stack, Moment::ZERO));
        assert_eq!(op, WRITE);
        stack.member_ended(name, Outcome::Done);
        let ended = Out::Ended { name: 41, outcome: Outcome::Done };
        assert_eq!(drain(&mut stack, Moment::ZERO), [ended]);
    }

    #[test]
    #[should_panic(expected = "ended twice")]
    fn an_operation_that_ends_twice_is_a_mistake_of_ours() {
        let mut stack = passes(1);
        stack.begin(1, V, WRITE);
        let (name, _) = member(&drain(&mut stack, Moment::ZERO));
        stack.member_ended(name, Outcome::Done);
        stack.member_ended(name, Outcome::Done);
        drain(&mut stack, Moment::ZERO);
    }

    #[test]
    fn what_no_layer_can_do_is_unsupported() {
        let mut stack = passes(2);
        stack.copy(CopyOp::Drop(CopyNumber(1)), Moment::ZERO);
        assert_eq!(drain(&mut stack, Moment::ZERO), [Out::Copied(CopyOutcome::Unsupported)]);
    }

    #[test]
    fn a_fault_layer_fails_tears_and_delays_by_seed_and_ends_everything_once() {
        let odds = Odds { untouched: 100, short: 100, lost: 100, changes_wait: 300, ..Odds::NONE };
        let odds = Odds { longest: Duration::from_millis(5), ..odds };
        let faults = Faults::new(11, odds, Bytes(4096));
        let mut stack = Stack::new(vec![faults.boxed(), Pass::default().boxed()]);
        let (mut now, mut left) = (Moment::ZERO, vec![0_u32; 1000]);
        let (mut torn, mut failed) = (0, 0);
        for name in 0..1000 {
            stack.begin(name, V, WRITE);
            loop {
                let out = drain(&mut stack, now);
                if out.is_empty() && stack.deadline() == Moment::NEVER {
                    break;
                }
                now = if out.is_empty() { stack.deadline() } else { now };
                stack.tick(now);
                for out in out {
                    match out {
                        Out::Member { name, op, .. } => {
                            torn += u32::from(op != WRITE);
                            stack.member_ended(name, Outcome::Done);
                        }
                        Out::Ended { name, outcome } => {
                            left[name as usize] += 1;
                            failed += u32::from(outcome != Outcome::Done);
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
        assert!(left.iter().all(|ends| *ends == 1), "{left:?}");
        assert!(torn > 50 && failed > 200 && now > Moment::ZERO, "{torn} {failed} {now:?}");
    }

    #[test]
    fn a_flush_that_fails_makes_its_caller_unsure() {
        let odds = Odds { flush: 1000, ..Odds::NONE };
        let mut stack = Stack::new(vec![Faults::new(1, odds, Bytes(4096)).boxed()]);
        stack.begin(3, V, StoreOp::Flush);
        let out = drain(&mut stack, Moment::ZERO);
        let [Out::Ended { name: 3, outcome: Outcome::Unsure(StoreFault::Io) }] = out[..] else {
            panic!("{out:?}")
        };
        assert!(!stack.rests(), "a layer of faults wants to see everything");
    }
}
