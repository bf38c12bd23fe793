// SPDX-License-Identifier: Apache-2.0
//! One volume on several members: which of them does what, and what is under way.

mod ask;
mod change;
mod copy;
mod doubt;
mod flush;
mod merge;
mod piece;
mod read;
mod record;

pub(crate) use piece::MOST_PIECES;

use crate::gate::{Gate, Pass};
use crate::member::{Copying, Lacks, Member, ONE, Response, State};
use crate::op::{Op, Step, bit, members};
use crate::recent::Recent;
use crate::transfer::Transfer;
use crate::unmerged::{Unmerged, hot_extent};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;
use helio_bitmap::{Bitmap, EXTENT};
use helio_format::copying::PageBits;
use helio_format::members::{CopyHealth, MEMBERS_MAX, VolumeMembers};
use helio_format::message::VOLUMES_MAX;
use helio_stack::{
    Leg, MergeRecord, Operation, Outcome, Port, SetStatus, StoreFault, StoreOp, Tag,
};
use helio_units::{Bytes, Extent, MemberIndex, Moment, VolumeIndex};

/// Of which volume an operation of its own is, its number, and its member.
pub(crate) const fn untag(Tag(tag): Tag) -> (usize, u64, usize) {
    let (volume, rest) = (tag % VOLUMES_MAX as u64, tag / VOLUMES_MAX as u64);
    (volume as usize, rest / MEMBERS_MAX as u64, (rest % MEMBERS_MAX as u64) as usize)
}

/// Where the volume is among those of its group, how large it is, and the size of its regions.
#[derive(Clone, Copy, Debug)]
struct Place {
    volume: VolumeIndex,
    size: Bytes,
    region: Bytes,
}

/// When copies go on, and how much of them at a time.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Not before.
    again: Moment,
    /// When everything was begun that could be, last.
    looked: Option<Moment>,
    transfer: Transfer,
}

impl Pace {
    /// Something can begin from then on. Returns that time, unless it has come and gone.
    fn due(self, at: Moment) -> Option<Moment> {
        self.looked.is_none_or(|looked| looked < at).then_some(at)
    }
}

/// What the ledger says, beside the states of members.
#[derive(Clone, Copy, Debug)]
struct Records {
    /// A command merges everything, and full members have that in their bitmaps as of this tick, which is not durable.
    asked_at: Option<u64>,
    /// The full member whose bitmap page is saved next.
    turn: usize,
    /// Nothing can be recorded any more: operations that need it fail like that.
    failed: Option<StoreFault>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    place: Place,
    members: Vec<Option<Member>>,
    gate: Gate,
    recent: Recent,
    unmerged: Unmerged,
    ops: BTreeMap<u64, Op>,
    /// Names operations, and counts ticks of bitmaps.
    counted: u64,
    /// Operations whose legs have ended, and that wait for a record or for flushes.
    ended: BTreeSet<u64>,
    /// Reads that wait for a change or a merge.
    parked: Vec<u64>,
    /// Pieces under way.
    pieces: usize,
    pace: Pace,
    records: Records,
}

/// Whether regions may be blank. Where one is blank no more, its bit is cleared some time later. So it proves nothing if a member may lack
/// what was written there.
fn is_blank(found: &VolumeMembers) -> bool {
    found.iter().flatten().all(|health| *health == CopyHealth::Blank)
}

/// A member as the ledger has it; `suspect`: it may differ from the others anywhere.
fn found_member(found: CopyHealth, (size, region): (Bytes, Bytes), suspect: bool) -> Member {
    let none = Bitmap::new(&[size], region);
    let mut lacks = none.clone();
    if suspect {
        lacks.set_all();
    }
    let (state, found) = match found {
        CopyHealth::Good | CopyHealth::Suspect => (State::Full(none), CopyHealth::Good),
        CopyHealth::Blank => (State::Full(none), found),
        CopyHealth::Copying => (State::Copying(Copying::known(lacks)), found),
        CopyHealth::Removed | CopyHealth::Withdrawn => {
            let withdrawn = found == CopyHealth::Withdrawn;
            (State::Removed(Lacks::Known { lacks, withdrawn }), found)
        }
        CopyHealth::Unproven => (State::Removed(Lacks::Unknown), found),
        CopyHealth::Failed => (State::Removed(Lacks::Failed), found),
    };
    Member::new(state, Some(found))
}

impl Set {
    /// With the members that the ledger names.
    pub(crate) fn new(
        volume: VolumeIndex,
        size: Bytes,
        region: Bytes,
        found: &VolumeMembers,
    ) -> Self {
        // What a failed flush left reads as written, maybe, until the power goes: then full members differ anywhere, and another one
        // holds what none of them does.
        let suspect = found.contains(&Some(CopyHealth::Suspect));
        let mut members: Vec<_> = found
            .iter()
            .map(|found| found.map(|found| found_member(found, (size, region), suspect)))
            .collect();
        if !is_blank(found) {
            members.iter_mut().flatten().for_each(Member::forget_blank);
        }
        let mut unmerged = Unmerged::new(size, region);
        let full = members.iter().flatten().filter(|member| member.is_full()).count();
        if full > 1 && suspect {
            unmerged.set_all();
        }
        Self {
            place: Place { volume, size, region },
            members,
            gate: Gate::default(),
            recent: Recent::new(),
            unmerged,
            ops: BTreeMap::new(),
            counted: 0,
            ended: BTreeSet::new(),
            parked: Vec::new(),
            pieces: 0,
            pace: Pace { again: Moment::ZERO, looked: None, transfer: Transfer::Auto },
            records: Records { asked_at: None, turn: 0, failed: None },
        }
    }

    /// A page of the bitmap of a member, as the ledger has it.
    pub(crate) fn load(&mut self, member: usize, page: u32, bits: &PageBits) {
        let size = self.place.size;
        if let Some(Some(member)) = self.members.get(member)
            && member.is_full()
        {
            self.unmerged.load(page, bits, member.is_blank());
        }
        let bitmap = self.member(member).and_then(Member::bitmap);
        // Where all is set, the ledger does not say so.
        if let Some(bitmap) = bitmap.filter(|bitmap| bitmap.dirty_bytes() < size) {
            bitmap.load(page, bits);
        }
    }

    /// Another disk lies there, or nothing proves what it holds. Returns false, and changes nothing, for the last full member.
    pub(crate) fn distrust(&mut self, member: usize) -> bool {
        let others = self.full() & !bit(member);
        if let Some(member) = self.member(member).filter(|_| others != 0) {
            // What it was written before it was removed may not be durable, even if it is the same disk.
            let lacks = if member.is_full() { Lacks::Unknown } else { Lacks::Failed };
            *member.state_mut() = State::Removed(lacks);
        }
        others != 0
    }

    /// The disk of a member that is removed is not as it was then.
    pub(crate) fn distrust_removed(&mut self, member: usize) {
        if self.members[member].as_ref().is_some_and(Member::is_removed) {
            self.distrust(member);
        }
    }

    /// Its disk is not there.
    pub(crate) fn absent(&mut self, member: usize) {
        if self.full() & !bit(member) != 0 {
            self.remove(member);
        }
    }

    pub(crate) const fn set_transfer(&mut self, transfer: Transfer) {
        self.pace.transfer = transfer;
    }

    pub(crate) const fn set_merge_delay(&mut self, factor: u32) {
        self.unmerged.delay().set_factor(factor);
    }

    pub(crate) fn hurry_owned(&mut self, now: Moment) {
        self.unmerged.hurry_owned(now);
    }

    pub(crate) fn set_cost(&mut self, member: usize, cost: u32) {
        if let Some(member) = self.member(member) {
            member.set_cost(cost);
        }
    }

    /// Full members must be made equal in what a crash left hot.
    pub(crate) fn has_several(&self) -> bool {
        self.full().count_ones() > 1
    }

    /// A crash left this hot extent. Returns whether it stays hot until the set lets it cool.
    pub(crate) fn found_hot(&mut self, extent: Extent) -> bool {
        for member in self.members.iter_mut().flatten() {
            member.set(extent);
        }
        self.touch(extent);
        if !self.is_alone() {
            self.recent.add(extent);
        }
        let owned = self.has_several();
        if owned {
            self.unmerged.own(extent.offset / EXTENT.0);
            self.unmerged.set(extent);
        }
        owned
    }

    /// Every operation may pass beside it: it would hand each on to the first member as it is.
    pub(crate) fn rests(&self) -> bool {
        let rests =
            |member: &Member| member.response() == Response::Responds && !member.is_unrecorded();
        self.is_single()
            && self.ops.is_empty()
            && self.gate.is_idle()
            && self.unmerged.regions().none_dirty()
            && self.members.iter().flatten().all(rests)
    }

    /// The members that hold all of the volume, a bit for each; none where the first member alone is the volume.
    pub(crate) fn full_members(&self) -> Option<u8> {
        (!self.is_single()).then(|| self.full())
    }

    /// The first member alone is the volume.
    fn is_single(&self) -> bool {
        self.is_alone() && self.full() == bit(0)
    }

    /// One member is used, and nothing is kept for another.
    fn is_alone(&self) -> bool {
        let used = |member: &&Member| {
            !matches!(member.state(), State::Removed(Lacks::Unknown | Lacks::Failed))
        };
        self.members.iter().flatten().filter(used).count() < 2
    }

    fn member(&mut self, member: usize) -> Option<&mut Member> {
        self.members.get_mut(member).and_then(Option::as_mut)
    }

    fn which(&self, which: impl Fn(&Member) -> bool) -> u8 {
        let members = self.members.iter().enumerate();
        members.filter(|(_, it)| it.as_ref().is_some_and(&which)).fold(0, |m, (n, _)| m | bit(n))
    }

    fn full(&self) -> u8 {
        self.which(Member::is_full)
    }

    fn copying(&self) -> u8 {
        self.which(|member| matches!(member.state(), State::Copying(_)))
    }

    /// Reads that overlap a change go to this member.
    fn fixed(&self) -> Option<usize> {
        members(self.full()).next()
    }

    fn leg(&self, member: usize) -> Leg {
        Leg { volume: self.place.volume, member: MemberIndex(member as u8) }
    }

    fn tag(&self, id: u64, member: usize) -> Tag {
        let leg = id * MEMBERS_MAX as u64 + member as u64;
        Tag(leg * VOLUMES_MAX as u64 + u64::from(self.place.volume.0))
    }

    fn count(&mut self) -> u64 {
        self.counted += 1;
        self.counted
    }

    fn issue(&mut self, id: u64, member: usize, op: StoreOp, port: &mut Port<'_>) {
        let (leg, tag) = (self.leg(member), self.tag(id, member));
        if let Some(member) = self.member(member) {
            member.begin();
        }
        port.issue(leg, op, tag);
    }

    /// An operation on the volume begins.
    pub(crate) fn begin(&mut self, Operation { io, op, .. }: Operation, port: &mut Port<'_>) {
        match op {
            StoreOp::Read { .. } | StoreOp::Map { .. } => self.begin_read(io, op, port),
            StoreOp::Flush => _ = self.begin_flush(Some(io), port),
            StoreOp::Write { extent, .. }
            | StoreOp::Zero { extent, .. }
            | StoreOp::Discard { extent, .. } => self.begin_change(io, op, extent, port),
        }
    }

    /// A leg ended.
    pub(crate) fn leg_ended(
        &mut self,
        id: u64,
        member: usize,
        outcome: Outcome,
        port: &mut Port<'_>,
    ) {
        if let Some(member) = self.member(member) {
            member.end();
        }
        let Some(op) = self.ops.get_mut(&id) else { panic!("operation {id} is not under way") };
        let changes = matches!(op, Op::Change(..));
        match op {
            Op::Read(_) => self.read_ended(id, member, outcome, port),
            Op::Change(_, legs) | Op::Flush(_, legs) => {
                let failed = outcome.fault().is_some();
                match (legs.end(member, outcome), changes) {
                    (false, _) => {}
                    (true, true) => self.change_done(id, port),
                    (true, false) => self.flush_done(id, port),
                }
                if failed || self.recent.doubted() != 0 {
                    self.doubt();
                }
            }
            Op::Piece(piece, legs) => {
                if let Outcome::Read(payload) = outcome {
                    piece.hold(member, payload);
                }
                let over = legs.end(member, outcome);
                self.piece_leg_ended(id, member, over, port);
            }
        }
    }

    /// A leg has ended: which members are doubted now.
    fn doubt(&mut self) {
        let doubted = self.ops.values().map(Op::doubts).fold(0, |all, failed| all | failed);
        self.recent.set_doubted(doubted);
    }

    /// The full members that may not be read for now. Where that is all of them, the error is the volume's, and none is.
    fn unread(&self) -> u8 {
        let doubted = self.recent.doubted();
        if self.full() & !doubted == 0 { 0 } else { doubted }
    }

    /// What is being written now, and may fail.
    fn writing(&self) -> Vec<Extent> {
        let piece = |op: &Op| match op {
            Op::Piece(piece, _) if piece.step() == Step::Writes => Some(piece.extent()),
            _ => None,
        };
        self.gate.changes().chain(self.ops.values().filter_map(piece)).collect()
    }

    /// What may not be durable on a member that failed: everything since the last flush that proves something.
    fn unproven(&self) -> Vec<Extent> {
        let mut extents = self.writing();
        extents.extend(self.recent.runs(self.place.size.0));
        extents
    }

    /// An operation comes there: nothing in it is blank any more.
    fn touch(&mut self, extent: Extent) {
        if self.unmerged.touch(extent) {
            self.members.iter_mut().flatten().for_each(Member::copy_again);
        }
    }

    /// Nothing is blank any more.
    fn touch_all(&mut self) {
        if !self.unmerged.blank().none_dirty() {
            self.unmerged.touch_all();
            self.members.iter_mut().flatten().for_each(Member::copy_again);
        }
    }

    /// A change is under way where something is blank. A member that was added meanwhile was not given it.
    fn fills_blank(&self) -> bool {
        let blank = self.unmerged.blank();
        self.gate.changes().any(|extent| blank.any_dirty(ONE, extent))
    }

    /// A change is done on these members, among them all full ones: blank regions that it covers are equal there. What was blank in the
    /// others it touched is to be merged.
    fn fill(&mut self, extent: Extent, done: u8) {
        if let Some(whole) = self.unmerged.whole_blank(extent) {
            let blank = Some(self.unmerged.blank());
            for (n, member) in self.members.iter_mut().enumerate() {
                member.iter_mut().for_each(|it| it.equal(whole, blank, done & bit(n) != 0));
            }
            self.unmerged.equal(whole);
        }
        self.touch(extent);
    }

    /// Something was written to several members.
    fn wrote(&mut self, extent: Extent) {
        if !self.is_alone() {
            self.recent.add(extent);
        }
    }

    /// A member is used no more; what it may lack is kept. The last full one is never removed.
    fn remove(&mut self, member: usize) {
        let (unproven, full) = (self.unproven(), self.full());
        let Some(Some(it)) = self.members.get_mut(member) else { return };
        let mut lacks = match mem::replace(it.state_mut(), State::Removed(Lacks::Failed)) {
            State::Full(mut differs) => {
                differs.join_all(self.unmerged.regions());
                differs
            }
            // Its bitmap is not durable, so the member lacks everything.
            State::Copying(copying) if copying.is_marking() => return,
            State::Copying(copying) => copying.stop(),
            State::Removed(lacks) => {
                *it.state_mut() = State::Removed(lacks);
                return;
            }
        };
        unproven.into_iter().for_each(|extent| lacks.set(ONE, extent));
        *it.state_mut() = State::Removed(Lacks::Known { lacks, withdrawn: false });
        debug_assert!(full & !bit(member) != 0, "the last full member is removed");
    }

    /// No crash brings back a member that was removed, and with it another version of what is unmerged.
    fn is_settled(&self) -> bool {
        !self.owes() || self.records.failed.is_some()
    }

    /// One full member is left, and the ledger calls no other one full: it differs from none.
    fn merge_alone(&mut self, port: &mut Port<'_>) {
        if self.has_several() || !self.is_settled() {
            return;
        }
        if self.is_alone() {
            self.touch_all();
        }
        if !self.unmerged.is_empty() {
            let owned = self.unmerged.clear();
            let blank = self.unmerged.blank();
            self.members.iter_mut().flatten().for_each(|member| member.only(blank));
            self.let_cool(owned, port);
        }
    }

    fn let_cool(&self, numbers: impl IntoIterator<Item = u64>, port: &mut Port<'_>) {
        for number in numbers {
            port.let_cool(self.place.volume, hot_extent(number, self.place.size.0));
        }
    }

    /// What was written there failed on every full member: each may hold something else.
    fn mark_unmerged(&mut self, extent: Extent, port: &mut Port<'_>) {
        self.members.iter_mut().flatten().for_each(|member| member.set(extent));
        self.touch(extent);
        if !self.has_several() {
            return;
        }
        self.unmerged.set(extent);
        for number in extent.offset / EXTENT.0..extent.end().div_ceil(EXTENT.0) {
            if self.unmerged.own(number) {
                port.own(self.place.volume, hot_extent(number, self.place.size.0));
            }
        }
    }

    /// An operation leaves the gate.
    fn leave(&mut self, id: u64, port: &mut Port<'_>) {
        for (id, pass) in self.gate.leave(id) {
            match pass {
                Pass::Shared => self.issue_change(id, port),
                Pass::Alone => self.issue_piece(id, port),
            }
        }
    }

    /// Does what can be done now, but for pieces: those begin behind it ([`Self::begin_piece`]).
    pub(crate) fn go_on(&mut self, port: &mut Port<'_>) {
        self.pace.looked = Some(port.now());
        self.judge_silence(port);
        self.merge_alone(port);
        self.step_record();
        self.settle(port);
        self.step_copies(port);
        self.judge_silence(port);
        self.members.iter_mut().flatten().for_each(Member::step_by_pages);
        self.resume_reads(port);
    }

    /// When it has something to do by itself.
    pub(crate) fn deadline(&self) -> Moment {
        if self.unread() != 0 {
            return Moment::NEVER;
        }
        let merges = self.has_several() && self.is_settled() && !self.unmerged.is_empty();
        let merges = self.pace.due(self.unmerged.again()).filter(|_| merges);
        let copies = self.pace.due(self.pace.again).filter(|_| self.has_to_copy());
        merges.into_iter().chain(copies).min().unwrap_or(Moment::NEVER)
    }

    /// Ends the operations that wait for nothing any more.
    fn settle(&mut self, port: &mut Port<'_>) {
        loop {
            let mut waiting = self.ended.iter().copied();
            let next = waiting.find_map(|id| Some((id, self.verdict(id)?)));
            let Some((id, ends_well)) = next else { return };
            self.ended.remove(&id);
            match self.ops.remove(&id) {
                Some(Op::Change(change, _)) => self.end_change(id, &change, ends_well, port),
                Some(Op::Flush(flush, legs)) => self.end_flush(id, flush, legs, ends_well, port),
                other => panic!("operation {id} does not wait: {other:?}"),
            }
        }
    }

    /// `unnamed`: a bit for each member that the configuration names no more.
    pub(crate) fn status(&self, unnamed: u8) -> SetStatus {
        let (size, blank) = (self.place.size, self.unmerged.blank().dirty_bytes());
        let status = |member: &Option<Member>| member.as_ref().map(|it| it.status(size, blank));
        let unmerged = self.unmerged.bytes().min(size);
        SetStatus {
            members: self.members.iter().map(status).collect(),
            unnamed,
            unmerged,
            blank: blank.min(size),
            merge: match (self.records.asked_at, self.records.failed) {
                (None, _) => MergeRecord::Durable,
                (Some(_), None) => MergeRecord::UnderWay,
                (Some(_), Some(_)) => MergeRecord::Failed,
            },
        }
    }
}
