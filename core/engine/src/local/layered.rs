// SPDX-License-Identifier: Apache-2.0
//! Operations that pass the layers between the engine and the members.
//!
//! ```text
//!   store / read ──layers rest──────────────────────────────────────> hot extents ──> member
//!         └──────────────> Upper ──> stack ──> Purpose::Layer(name) ──────┘
//!   ended <── host looks <──┴── Ended <─┘  <──────── ended <───────────────────────── member
//! ```
//! The operation that the engine asked for holds its extents for as long as it is under way, with the item that it belongs to;
//! those that layers issue enter them as that item's, and wait until they are hot. So whatever a layer writes is covered as a
//! client's write is. What writes an accepted copy again as it reads passes beside the layers, unless one keeps several members:
//! then that writes all of them, and holds no extent.

use crate::config::Config;
use crate::effect::{Effect, ReadAs};
use crate::event::{CommandId, StoreOutcome};
use crate::local::Local;
use crate::local::copying::{CopyUser, Copying};
use crate::local::store::{UnderWay, What, rewrites};
use crate::purpose::Purpose;
use crate::refusal::Denial;
use crate::turn::Turn;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_plant::{Plant, planted};
use helio_stack::{
    CopyIo, CopyNumber, CopyOp, CopyOutcome, CopyRecord, CopyView, HeldCopy, KeptCopy, KeptImage,
    LayerRecord, LayerSetting, Leg, MemberEvent, MemberFault, Out, Outcome, PoolHealth,
    PoolOutcome, RollbackStatus, SetOp, SetRefusal, SetStatus, Stack, StoreFault, StoreOp,
    Unsettled,
};
use helio_units::{Bytes, CopyName, Extent, IoId, MemberIndex, Moment, RequestId, VolumeIndex};

/// Whether the metadata was found older than what happened to members since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// Nothing says so.
    None,
    /// It was; what follows of it for the members is being recorded.
    Recording,
    /// It was; that is durable.
    Recorded,
    /// It was, and the metadata cannot be written any more: the next process finds a file as old, and its peer tells it so, too.
    Unrecorded,
}

/// What layers may do that no operation waits for: the volumes, a bit for each.
#[derive(Clone, Copy, Debug)]
struct Permits {
    /// Where the host permits it.
    host: u64,
    /// Where layers may begin it.
    layers: u64,
}

/// The layers, and what passes them.
#[derive(Clone, Debug)]
pub(super) struct Layered {
    stack: Stack,
    /// What the host is to look for in bytes that are being read.
    looks: BTreeMap<IoId, (VolumeIndex, Extent, ReadAs)>,
    /// Operations that layers ended, in their order.
    ended: VecDeque<(IoId, StoreOutcome)>,
    /// What is asked of the group's copies.
    copying: Copying,
    /// What is asked of members, likewise.
    asked: VecDeque<(CommandId, SetOp)>,
    doubt: Doubt,
    permits: Permits,
    /// Flushes of the layers' own that failed, until [`Local::take_failed_flush`] returns them.
    failed_flushes: VecDeque<(VolumeIndex, StoreFault)>,
}

impl Layered {
    pub(super) fn new(stack: Stack) -> Self {
        Self {
            stack,
            looks: BTreeMap::new(),
            ended: VecDeque::new(),
            copying: Copying::default(),
            asked: VecDeque::new(),
            doubt: Doubt::None,
            permits: Permits { host: u64::MAX, layers: u64::MAX },
            failed_flushes: VecDeque::new(),
        }
    }

    /// Operations pass beside the layers.
    #[inline]
    pub(super) fn rests(&self) -> bool {
        self.copying.is_idle() && self.asked.is_empty() && self.stack.rests()
    }

    /// A command asks something of the members of a volume, once no change is under way beside the layers.
    pub(super) fn ask_later(&mut self, command: CommandId, op: SetOp) {
        self.asked.push_back((command, op));
    }

    /// Whether such a question waits.
    pub(super) fn is_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// The next one, and how it is answered.
    pub(super) fn ask_next(
        &mut self,
        now: Moment,
    ) -> Option<(CommandId, SetOp, Result<(), SetRefusal>)> {
        let (command, op) = self.asked.pop_front()?;
        Some((command, op, self.stack.ask_set(op, now)))
    }

    /// The metadata was found older than what happened to members since. Where members are to be doubted, no change is under way
    /// beside the layers. Returns whether that is news.
    pub(super) fn doubt_members(&mut self, now: Moment) -> bool {
        let is_news = self.doubt == Doubt::None;
        if is_news {
            self.stack.doubt_members(now);
            self.doubt = Doubt::Recording;
            self.look_at_doubt(true);
        }
        is_news
    }

    /// That is not durable yet, and may become so.
    pub(super) fn records_doubt(&self) -> bool {
        self.doubt == Doubt::Recording
    }

    /// That is durable.
    pub(super) fn doubted_members(&self) -> bool {
        self.doubt == Doubt::Recorded
    }

    /// It may be durable now. `works`: something can still be recorded.
    fn look_at_doubt(&mut self, works: bool) {
        if self.doubt == Doubt::Recording {
            self.doubt = match works {
                true if self.stack.is_recorded() => Doubt::Recorded,
                true => Doubt::Recording,
                false => Doubt::Unrecorded,
            };
        }
    }

    /// Whether a layer keeps several members of that volume.
    pub(super) fn keeps_several(&self, volume: VolumeIndex) -> bool {
        self.stack.full_members(volume).is_some()
    }

    /// How the members of a volume are, where a layer keeps its members alike, be it only one.
    pub(super) fn set_status(&self, volume: VolumeIndex) -> Option<SetStatus> {
        self.stack.set_status(volume)
    }

    /// The first member that holds all of a volume as it is read.
    ///
    /// # Errors
    /// Why none does.
    pub(super) fn settled_member(&self, volume: VolumeIndex) -> Result<MemberIndex, Unsettled> {
        self.stack.settled_member(volume)
    }

    /// The members of a volume that hold all of it.
    pub(super) fn full_members(&self, volume: VolumeIndex) -> impl Iterator<Item = Leg> + use<> {
        let full = self.stack.full_members(volume).unwrap_or(1);
        let members = (0..u8::BITS as u8).filter(move |n| full & (1 << n) != 0);
        members.map(move |n| Leg { volume, member: MemberIndex(n) })
    }

    /// A member was given an operation of a layer's with FUA.
    pub(super) fn member_issued(&mut self, name: u64) {
        self.stack.member_issued(name);
    }

    /// The next operation that a layer ended.
    #[inline]
    pub(super) fn next_ended(&mut self) -> Option<(IoId, StoreOutcome)> {
        self.ended.pop_front()
    }

    /// Whether the engine is to be settled at once, and otherwise when.
    pub(super) fn deadline(&self) -> Moment {
        if self.ended.is_empty() && self.failed_flushes.is_empty() {
            self.stack.deadline().min(self.copying.deadline())
        } else {
            Moment::ZERO
        }
    }
}

impl Local {
    /// An operation that passes the layers.
    pub(super) fn pass_layers(
        &mut self,
        (volume, op): (VolumeIndex, StoreOp),
        read_as: ReadAs,
        purpose: Purpose,
        turn: &mut Turn,
    ) {
        let changes = op.changes().filter(|_| !self.is_uncovered() && !rewrites(purpose));
        if let Some(extent) = changes {
            self.hot.hold(volume, extent, purpose.item());
        }
        let covers = (op == StoreOp::Flush && self.layered.keeps_several(volume))
            .then(|| self.hot.flush_begins(volume));
        let what = What::Passes { changes, flushes: op.is_flush(), covers };
        let io = self.begin(UnderWay::new(purpose, Leg::whole(volume), what));
        if let StoreOp::Read { extent } = op
            && read_as != ReadAs::Bytes
        {
            self.layered.looks.insert(io, (volume, extent, read_as));
        }
        self.layered.stack.begin(io.0, volume, op);
        self.run_layers(turn);
    }

    /// A client uses a point-in-time copy, which only a layer has. None of the volumes changes.
    pub(crate) fn begin_on_copy(&mut self, copy_io: CopyIo, turn: &mut Turn) {
        let CopyIo { name, volume, op, .. } = copy_io;
        let size = turn.config().volumes.get(usize::from(volume.0)).map_or(0, |size| size.0);
        let fits = |extent: Extent| extent.length > 0 && extent.end() <= size;
        if !op.reads().or(op.changes()).is_none_or(fits) {
            return turn.deny_copy(&copy_io, Denial::OutOfBounds);
        }
        let payload = op.payload().map(|payload| payload.id);
        let purpose = Purpose::CopyIo(RequestId(name), payload);
        self.pass_on_copy(copy_io, ReadAs::Bytes, purpose, turn);
    }

    /// Reads a copy that is held, and has the host report that of the bytes.
    pub(crate) fn read_copy(
        &mut self,
        (copy, (volume, extent)): (CopyNumber, (VolumeIndex, Extent)),
        read_as: ReadAs,
        purpose: impl Into<Purpose>,
        turn: &mut Turn,
    ) {
        let (on, op) = (CopyView::Cut(copy), StoreOp::Read { extent });
        let copy_io = CopyIo { name: 0, on, volume, op };
        self.pass_on_copy(copy_io, read_as, purpose.into(), turn);
    }

    /// An operation on a copy, which only a layer has.
    fn pass_on_copy(
        &mut self,
        copy_io: CopyIo,
        read_as: ReadAs,
        purpose: Purpose,
        turn: &mut Turn,
    ) {
        let volume = copy_io.volume;
        let io = self.begin(UnderWay::new(purpose, Leg::whole(volume), What::OnCopy));
        if let StoreOp::Read { extent } = copy_io.op
            && read_as != ReadAs::Bytes
        {
            self.layered.looks.insert(io, (volume, extent, read_as));
        }
        self.layered.stack.begin_on_copy(CopyIo { name: io.0, ..copy_io }, turn.now());
        self.run_layers(turn);
    }

    /// A member ended an operation of a layer's.
    pub(crate) fn layer_ended(
        &mut self,
        (name, flushes): (u64, bool),
        outcome: StoreOutcome,
        turn: &mut Turn,
    ) {
        let outcome = match outcome {
            StoreOutcome::Done => Outcome::Done,
            StoreOutcome::Read { payload, .. } => Outcome::Read(payload),
            StoreOutcome::Empty(empty) => Outcome::Mapped { empty },
            StoreOutcome::Failed(fault) if flushes => Outcome::Unsure(fault),
            StoreOutcome::Failed(fault) => Outcome::Failed(fault),
            other => panic!("the host looked at bytes that a layer reads: {other:?}"),
        };
        self.layered.stack.member_ended(name, outcome);
        self.run_layers(turn);
    }

    /// The layers' time has come, maybe.
    pub(crate) fn tick_layers(&mut self, turn: &mut Turn) {
        self.begin_copy(turn);
        self.begin_asked(turn);
        if self.layered.stack.deadline() <= turn.now() {
            self.layered.stack.tick(turn.now());
            self.run_layers(turn);
        }
    }

    /// When [`Self::tick_layers`] has something to do.
    pub(crate) fn layers_deadline(&self) -> Moment {
        self.layered.deadline()
    }

    /// The host sets something of layers. `ends`: see [`Self::permit_layers`].
    pub(crate) fn set_layers(&mut self, setting: LayerSetting, ends: bool, turn: &mut Turn) {
        if let LayerSetting::Background(volumes) = setting {
            self.layered.permits.host = volumes;
            return self.permit_layers(ends, turn);
        }
        self.layered.stack.set(setting, turn.now());
        self.run_layers(turn);
    }

    /// Layers begin work that no operation waits for where the host permits it. `ends`: nowhere, since the node stops, or leaves
    /// the primary role, and waits for what changes its members. If a change waits for a hot extent and
    /// layers own all of them, they get [`LayerSetting::LetCool`].
    pub(crate) fn permit_layers(&mut self, ends: bool, turn: &mut Turn) {
        let Permits { host, layers } = self.layered.permits;
        let permitted = if ends { 0 } else { host };
        self.layered.permits = Permits { host, layers: permitted };
        let background = (permitted != layers).then_some(LayerSetting::Background(permitted));
        let let_cool = self.hot.waits_for_layers().then_some(LayerSetting::LetCool);
        for setting in background.into_iter().chain(let_cool) {
            self.layered.stack.set(setting, turn.now());
            self.run_layers(turn);
        }
    }

    /// The volumes in which layers have work that no operation waits for, a bit for each.
    pub(crate) fn background(&self, now: Moment) -> u64 {
        self.layered.stack.background(now)
    }

    /// Asks something of the group's copies; [`Self::take_copied`] tells how it ended. It begins once no change is under way
    /// beside the layers: those that come behind it pass them.
    pub(crate) fn copy(&mut self, user: CopyUser, op: CopyOp, turn: &mut Turn) {
        self.layered.copying.ask(user, op);
        self.begin_copy(turn);
    }

    /// Begins what is asked of the group's copies, if nothing is in its way.
    fn begin_copy(&mut self, turn: &mut Turn) {
        if self.layered.copying.may_begin()
            && !self.changes_beside_layers()
            && let Some(op) = self.layered.copying.begin()
        {
            self.layered.stack.copy(op, turn.now());
            self.run_layers(turn);
        }
    }

    /// Whose cut waits for its moment, once.
    pub(crate) const fn take_cut_ready(&mut self) -> Option<CopyUser> {
        self.layered.copying.take_ready()
    }

    /// This is the moment of the cut that is ready: what the volumes hold now is that image. None: there is no moment.
    pub(crate) fn cut(&mut self, image: Option<KeptImage>, turn: &mut Turn) {
        self.layered.stack.cut(image, turn.now());
        self.run_layers(turn);
    }

    /// How what was asked of the group's copies ended, once.
    pub(crate) fn take_copied(&mut self) -> Option<(CopyUser, CopyOutcome)> {
        self.layered.copying.take_ended()
    }

    /// The next copy that is over for want of room.
    pub(crate) fn take_over(&mut self) -> Option<Box<KeptCopy>> {
        self.layered.copying.take_over()
    }

    /// Why there is no room for what a copy needs.
    pub(crate) fn why_no_room(&self, config: &Config) -> String {
        match self.pool_failed() {
            true => self.pool_fault(config).0,
            false => String::from("there was no space for its before-images"),
        }
    }

    /// Why that copy is over, if [`Self::take_over`] will return it.
    pub(crate) fn why_over(&self, copy: CopyNumber, config: &Config) -> Option<String> {
        self.layered.copying.is_over(copy).then(|| self.why_no_room(config))
    }

    /// What the superblock is to say of copies, and is not on its way.
    pub(crate) const fn wanted_copy_record(&self) -> Option<CopyRecord> {
        self.layered.copying.wanted_record()
    }

    /// That is on its way, or it waits.
    pub(crate) const fn records_copies(&mut self, waits: Option<CopyRecord>) {
        self.layered.copying.records(waits);
    }

    /// A record of copies waits for marks.
    pub(crate) const fn wants_marks_kept(&self) -> bool {
        self.layered.copying.record_waits()
    }

    /// The superblock says so, or cannot be written.
    pub(crate) fn copies_recorded(&mut self, ok: bool, turn: &mut Turn) {
        if self.layered.copying.recorded() {
            self.layer_recorded(ok, turn);
        }
    }

    /// Where the volumes differ from a copy, as far as that is known.
    pub(crate) fn differing(&self, copy: CopyNumber) -> Vec<(VolumeIndex, Extent)> {
        self.layered.stack.differing(copy)
    }

    /// Where, in an extent that is not empty, a volume may have changed since a copy, if that is held.
    pub(crate) fn changed(
        &self,
        on: CopyView,
        within: (VolumeIndex, Extent),
    ) -> Option<Vec<Extent>> {
        self.layered.stack.changed(on, within)
    }

    /// The copies that are held, the oldest first.
    pub(crate) fn copies(&self) -> Vec<HeldCopy> {
        self.layered.stack.copies()
    }

    /// The same, without figures.
    pub(crate) fn held_copies(&self) -> Vec<KeptCopy> {
        self.layered.stack.held()
    }

    /// One of these.
    pub(crate) fn held_copy(&self, number: CopyNumber) -> Option<KeptCopy> {
        self.layered.stack.held_copy(number)
    }

    /// Those that operators named.
    pub(crate) fn named_copies(&self) -> Vec<(CopyName, KeptCopy)> {
        let named = |copy: KeptCopy| copy.name().map(|name| (name, copy));
        self.held_copies().into_iter().filter_map(named).collect()
    }

    /// The youngest copy of that name.
    pub(crate) fn copy_named(&self, name: &CopyName) -> Option<KeptCopy> {
        self.named_copies().into_iter().rfind(|(known, _)| known == name).map(|(_, held)| held)
    }

    /// The youngest copy that an operator named, or the one that is being cut: the pool may list it as held already.
    pub(crate) fn last_copy(&self) -> Option<CopyNumber> {
        let named = self.named_copies().last().map(|(_, copy)| copy.number);
        named.max(self.layered.stack.cutting())
    }

    /// The disk of a volume is given up, or is another one from now on: a copy that is being cut, and whose moment was, fails.
    pub(crate) fn fail_cut(&mut self, volume: VolumeIndex, fault: StoreFault, turn: &mut Turn) {
        let failed = MemberFault { volumes: 1 << volume.0, volume, fault };
        self.layered.stack.fail_cut(failed, turn.now());
        self.run_layers(turn);
    }

    /// A copy is of no use any more, and that may not be recorded: nothing waits for it.
    pub(crate) fn abandon_copy(&mut self, copy: CopyNumber, turn: &mut Turn) {
        self.layered.stack.abandon(copy, turn.now());
        self.run_layers(turn);
    }

    /// The next flush of a layer's own that failed on every member that holds all of the volume.
    pub(crate) fn take_failed_flush(&mut self) -> Option<(VolumeIndex, StoreFault)> {
        self.layered.failed_flushes.pop_front()
    }

    /// What was asked of the pool ended.
    pub(crate) fn pool_ended(&mut self, outcome: PoolOutcome, turn: &mut Turn) {
        self.layered.stack.pool_ended(outcome, turn.now());
        self.run_layers(turn);
    }

    /// Bytes of before-images.
    pub(crate) fn preserved(&self) -> Bytes {
        self.layered.stack.preserves().unwrap_or_default().preserved
    }

    /// A layer's record is durable, or cannot be written.
    pub(crate) fn layer_recorded(&mut self, ok: bool, turn: &mut Turn) {
        self.layered.stack.recorded(ok, turn.now());
        self.layered.look_at_doubt(ok);
        self.run_layers(turn);
    }

    /// Payloads were compared for a layer.
    pub(crate) fn layer_compared(&mut self, name: u64, equal: bool, turn: &mut Turn) {
        self.layered.stack.compared(name, equal, turn.now());
        self.run_layers(turn);
    }

    /// The host reports something of a member's disk.
    pub(super) fn member_event(&mut self, leg: Leg, event: MemberEvent, turn: &mut Turn) {
        self.layered.stack.member_event(leg, event, turn.now());
        self.run_layers(turn);
    }

    /// A rollback is under way: what members hold is not what the volumes hold.
    pub(crate) fn is_rolling_back(&self) -> bool {
        self.layered.stack.is_rolling_back()
    }

    /// How far it is, which takes time. Also of one whose beginning failed, if a restart may continue it: clients still read the members.
    pub(crate) fn rollback(&self) -> Option<RollbackStatus> {
        self.layered.stack.rollback()
    }

    /// Before-images can be preserved no more until the process starts again.
    pub(crate) fn pool_failed(&self) -> bool {
        self.layered.stack.preserves().is_some_and(|copy| copy.pool != PoolHealth::Works)
    }

    /// Why that is, and what an operator does about it.
    pub(crate) fn pool_fault(&self, config: &Config) -> (String, String) {
        let copy = self.layered.stack.preserves();
        let repair = |fault, disk: &str| match fault {
            StoreFault::Unrecorded => config.repair_metadata(),
            _ => format!("{disk}, then restart the daemon of {}", config.node),
        };
        if let Some(PoolHealth::Unread(failed)) = copy.map(|copy| copy.pool) {
            let (volume, fault) = (config.name_of(failed.volume), failed.fault);
            let what =
                format!("volume {volume} could not be read to preserve its content: {fault}");
            return (what, repair(fault, "repair its disk"));
        }
        if let Some(RollbackStatus { failed: Some(fault), .. }) = self.rollback()
            && self.is_rolling_back()
        {
            let what = format!("the rest of a restore cannot be written: {fault}");
            let disks = "repair the disks of the volumes and of the before-image file";
            return (what, repair(fault, disks));
        }
        let Some(PoolHealth::Failed(fault)) = copy.map(|copy| copy.pool) else {
            return (String::from("the before-image file failed"), String::new());
        };
        let what = format!("the before-image file failed: {fault}");
        let disk = match fault {
            StoreFault::Silent => "check its disk",
            _ => "repair its file system",
        };
        (what, repair(fault, disk))
    }

    /// The pool may take that many bytes from now on; none where nothing bounds it.
    pub(crate) fn bound_copies(&mut self, most: Option<Bytes>) {
        self.layered.stack.bound(most);
    }

    /// Does what the layers want done.
    pub(super) fn run_layers(&mut self, turn: &mut Turn) {
        while let Some(out) = self.layered.stack.next(turn.now()) {
            match out {
                Out::Member { name, leg, op } => {
                    self.ask_member(leg, op, Purpose::Layer { name, flushes: op.is_flush() }, turn);
                }
                Out::Ended { name, outcome } => self.passed(IoId(name), outcome, turn),
                // What is written uncovered is in no hot extent, and none turns cold any more.
                Out::Own { .. } | Out::LetCool { .. } if self.metadata_failed() => {}
                Out::Own { layer, volume, extent } => self.hot.own(volume, extent, layer),
                Out::LetCool { layer, volume, extent } => self.hot.let_cool(volume, extent, layer),
                Out::Pool(op) => turn.push(Effect::Pool(op)),
                Out::Copied(outcome) => self.layered.copying.ended(outcome),
                Out::CutReady => self.layered.copying.ready(),
                Out::Over(copy) => self.layered.copying.over(copy),
                // That is in the superblock, which is the engine's.
                Out::Record(LayerRecord::Copies(record)) => self.layered.copying.record(record),
                Out::Record(record) => turn.push(Effect::Record(record)),
                Out::Compare { name, pair } => turn.push(Effect::Compare { name, pair }),
                Out::GiveUp(leg) => self.give_up_member(leg, turn),
                Out::FlushFailed(volume, fault) => {
                    self.hot.distrust_flushes(volume);
                    self.layered.failed_flushes.push_back((volume, fault));
                }
                Out::Release(id) => turn.release(id),
            }
        }
    }

    /// An operation has passed the layers and is back.
    fn passed(&mut self, io: IoId, outcome: Outcome, turn: &mut Turn) {
        let looks = self.layered.looks.remove(&io);
        let outcome = match (outcome, looks) {
            (Outcome::Read(payload), Some((volume, extent, read_as))) => {
                return turn.push(Effect::Look { io, volume, extent, payload, read_as });
            }
            (Outcome::Read(payload), None) => StoreOutcome::Read { payload, zero: false },
            (Outcome::Done, _) => StoreOutcome::Done,
            (Outcome::Mapped { empty }, _) => StoreOutcome::Empty(empty),
            (Outcome::Failed(fault) | Outcome::Unsure(fault), _)
                if self.is_on_copy(io) && !planted(Plant::CopyIsDisk) =>
            {
                StoreOutcome::CopyFailed(fault)
            }
            (Outcome::Failed(fault) | Outcome::Unsure(fault), _) => StoreOutcome::Failed(fault),
            (Outcome::Refused(shortage), _) if self.applies_item(io) => {
                StoreOutcome::Refused(shortage)
            }
            // Where no item waits for room, the write fails as on a full disk: nothing was written.
            (Outcome::Refused(_), _) => StoreOutcome::Failed(StoreFault::NoSpace),
        };
        self.layered.ended.push_back((io, outcome));
    }
}
