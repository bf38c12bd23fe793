// SPDX-License-Identifier: Apache-2.0
//! The border to this node's store: nothing that changes bytes passes before its extents are hot, and each operation ends once.
//! Three pass without: what writes a copy again as it reads; what a layer writes by itself to a copy that the record calls suspect;
//! and every write of a node whose peer recorded that its metadata tells nothing.

use crate::effect::{Effect, Keep, ReadAs};
use crate::event::StoreOutcome;
use crate::local::{Local, Metadata};
use crate::purpose::{FollowerIo, Purpose};
use crate::turn::Turn;
use core::time::Duration;
use helio_bitmap::{Change, Parked};
use helio_plant::{Plant, planted};
use helio_stack::{Leg, StoreOp};
use helio_units::{Extent, IoId, Moment, Payload, VolumeIndex};

/// An operation on the store that was asked for and has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderWay {
    purpose: Purpose,
    leg: Leg,
    what: What,
    stage: Stage,
    flush: Flush,
    /// What it writes.
    payload: Option<Payload>,
}

/// Whether an operation is a flush, and its number among those of its member.
#[derive(Clone, Copy, Debug)]
enum Flush {
    /// It is none, or was not issued.
    No,
    OfVolume(u64),
    /// Of one of several members, which alone proves nothing of the volume.
    OfMember(u64),
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It waits for its extents, or passes the layers.
    Waiting,
    /// The disk has it since then.
    Issued(Moment),
    /// The disk ended it, and others hold it (`flushes.rs`).
    Ended,
    /// The disk has it and was given up: it fails for its caller.
    GivenUp,
    /// The same, and that is done: only its end on the disk is still to come (`silence.rs`).
    Late,
}

impl UnderWay {
    pub(super) const fn new(purpose: Purpose, leg: Leg, what: What) -> Self {
        Self { purpose, leg, what, stage: Stage::Waiting, flush: Flush::No, payload: None }
    }

    const fn writing(self, payload: Option<Payload>) -> Self {
        Self { payload, ..self }
    }

    pub(super) const fn leg(&self) -> Leg {
        self.leg
    }

    pub(super) const fn stage(&self) -> Stage {
        self.stage
    }

    /// Its number among the flushes, once it was issued.
    pub(super) const fn flush(&self) -> Option<u64> {
        match self.flush {
            Flush::No => None,
            Flush::OfVolume(number) | Flush::OfMember(number) => Some(number),
        }
    }

    /// So much of the time since it was issued does not count.
    pub(super) fn grow_younger(&mut self, by: Duration, now: Moment) {
        if let Stage::Issued(at) = &mut self.stage {
            *at = (*at + by).min(now);
        }
    }

    /// Whether the disk may still do it.
    pub(super) fn may_change_it(&self) -> bool {
        self.stage != Stage::Late || !planted(Plant::LateForgotten)
    }

    /// Its disk is given up. Returns the payload that the disk may still read.
    pub(super) const fn give_up(&mut self) -> Option<Payload> {
        self.stage = Stage::GivenUp;
        self.payload
    }

    /// It failed for its caller, and is late from now on. What it changes stays hot.
    fn late(self) -> Self {
        let what = match self.what {
            What::Changes(extent) => What::Changes(extent),
            What::Flushes(_) | What::Looks | What::Passes { .. } | What::OnCopy => What::Looks,
        };
        let purpose = Purpose::Late(self.payload.map(|payload| payload.id));
        Self { purpose, what, stage: Stage::Late, flush: Flush::No, ..self }
    }
}

/// What it means to the hot extents.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Changes(Extent),
    Flushes(u64),
    Looks,
    /// It passes the layers, whose own operations mean the rest.
    Passes {
        changes: Option<Extent>,
        flushes: bool,
        /// Its number among the flushes of its volume, where no flush of one member alone proves anything.
        covers: Option<u64>,
    },
    /// It is done on a copy, which only a layer has: no volume changes.
    OnCopy,
}

/// Whether the operation serves to write an accepted copy again as it reads: it changes no bytes that are read, so layers have nothing
/// to preserve, and it holds no extent. A layer that keeps several members writes each of them for it.
pub(super) const fn rewrites(purpose: Purpose) -> bool {
    matches!(purpose, Purpose::Accept(_))
}

impl Local {
    /// Asks for an operation on the store. What changes bytes waits until its extents are hot.
    pub(crate) fn store(
        &mut self,
        volume: VolumeIndex,
        op: StoreOp,
        purpose: impl Into<Purpose>,
        turn: &mut Turn,
    ) {
        let purpose = purpose.into();
        if self.layered.rests() || self.passes_beside(volume, purpose) {
            self.ask_member(Leg::whole(volume), op, purpose, turn);
        } else {
            self.pass_layers((volume, op), ReadAs::Bytes, purpose, turn);
        }
    }

    /// Whether an operation passes beside the layers: where one keeps several members, what writes a copy again writes all of them, and
    /// during a rollback it waits for what is put back.
    fn passes_beside(&self, volume: VolumeIndex, purpose: Purpose) -> bool {
        rewrites(purpose) && !self.keeps_several(volume) && !self.is_rolling_back()
    }

    /// Whether a change needs no hot extent, and must not wait for one: extents of a suspect copy do not cool, and what a layer
    /// does in one by itself, or for a rollback, it does again when a process begins. So the layer may own a cold extent there, which means nothing
    /// ([`HotExtents::own`](helio_bitmap::HotExtents::own)).
    fn is_spared(&self, volume: VolumeIndex, extent: Extent, purpose: Purpose) -> bool {
        matches!(purpose, Purpose::Layer { .. })
            && self.suspect.is(volume)
            && !self.suspect.is_unrecorded(volume)
            && (self.keeps_several(volume) || self.is_rolling_back())
            && !self.hot.is_held(volume, extent)
    }

    /// Asks the member for an operation.
    pub(super) fn ask_member(&mut self, leg: Leg, op: StoreOp, purpose: Purpose, turn: &mut Turn) {
        let volume = leg.volume;
        let what = match op {
            StoreOp::Write { extent, .. }
            | StoreOp::Zero { extent, .. }
            | StoreOp::Discard { extent, .. }
                if self.metadata != Metadata::Uncovered
                    && !rewrites(purpose)
                    && !self.is_spared(volume, extent, purpose) =>
            {
                What::Changes(extent)
            }
            StoreOp::Flush if !self.keeps_several(volume) => {
                What::Flushes(self.hot.flush_begins(volume))
            }
            _ => What::Looks,
        };
        let io = self.begin(UnderWay::new(purpose, leg, what).writing(op.payload()));
        if let What::Changes(extent) = what
            && !self.hot.enter(volume, extent, purpose.item())
            && !planted(Plant::CoverAfterIssue)
        {
            self.hot.park(io, volume, op, extent);
            return;
        }
        self.issue(io, op, turn);
    }

    /// Reads, and has the host report that of the bytes.
    pub(crate) fn read(
        &mut self,
        (volume, extent): (VolumeIndex, Extent),
        read_as: ReadAs,
        purpose: impl Into<Purpose>,
        turn: &mut Turn,
    ) {
        let purpose = purpose.into();
        if !self.layered.rests() && !self.passes_beside(volume, purpose) {
            return self.pass_layers((volume, StoreOp::Read { extent }), read_as, purpose, turn);
        }
        let io = self.begin(UnderWay::new(purpose, Leg::whole(volume), What::Looks));
        self.hand(io, StoreOp::Read { extent }, read_as, turn);
    }

    /// Names an operation.
    pub(super) fn begin(&mut self, under_way: UnderWay) -> IoId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.ios.push(None);
            (self.ios.len() - 1) as u32
        });
        self.ios[slot as usize] = Some(under_way);
        IoId(u64::from(slot))
    }

    /// Issues an operation whose extents are hot.
    pub(crate) fn issue(&mut self, io: IoId, op: StoreOp, turn: &mut Turn) {
        self.hand(io, op, ReadAs::Bytes, turn);
    }

    /// Hands an operation to the disk, unless that was given up.
    fn hand(&mut self, io: IoId, op: StoreOp, read_as: ReadAs, turn: &mut Turn) {
        let Some(under_way) = &mut self.ios[io.0 as usize] else {
            panic!("store operation {} is not named", io.0)
        };
        let leg = under_way.leg;
        if !self.silence.admits(io, leg, turn) {
            return;
        }
        if let Purpose::Layer { name, flushes: true } = under_way.purpose
            && op != StoreOp::Flush
        {
            self.layered.member_issued(name);
        }
        under_way.stage = Stage::Issued(turn.now());
        if op.is_flush() {
            let number = self.flushes.begin(leg);
            let several = self.layered.keeps_several(leg.volume);
            let flush = if several { Flush::OfMember } else { Flush::OfVolume };
            under_way.flush = flush(number);
        }
        turn.push(Effect::Store { io, leg, op, read_as });
    }

    /// The store reports the end of an operation. Returns it, unless it is a flush: those come from [`Self::next_ended`], in
    /// their order.
    #[inline]
    pub(crate) fn ended(
        &mut self,
        io: IoId,
        outcome: StoreOutcome,
    ) -> Option<(IoId, StoreOutcome)> {
        let under_way = self.ios.get_mut(io.0 as usize).and_then(Option::as_mut);
        let Some((under_way, flush)) =
            under_way.and_then(|under_way| under_way.flush().map(|flush| (under_way, flush)))
        else {
            return Some((io, outcome));
        };
        under_way.stage = Stage::Ended;
        self.flushes.end((under_way.leg, flush), io, outcome);
        None
    }

    /// The next flush that has ended, or operation that a layer ended, or that failed because its disk was given up.
    #[inline]
    pub(crate) fn next_ended(&mut self) -> Option<(IoId, StoreOutcome)> {
        let next = self.flushes.next_ended().or_else(|| self.layered.next_ended());
        next.or_else(|| self.silence.next_failed())
    }

    /// Asks the ledger for what the hot extents want, and returns what that was.
    pub(crate) fn keep_hot(&mut self, turn: &mut Turn) -> Option<Change> {
        let change = self.hot.change()?;
        let Change { ticket, add, remove } = &change;
        let keep = Keep::Hot { ticket: *ticket, add: add.clone(), remove: remove.clone() };
        turn.push(Effect::Keep(keep));
        Some(change)
    }

    /// A change of the hot extents is durable: what waited for it is issued.
    pub(crate) fn hot_kept(&mut self, change: &Change, turn: &mut Turn) {
        for Parked { io, op, .. } in self.hot.kept(change) {
            self.issue(io, op, turn);
        }
    }

    /// Why the operation that just ended was asked for. Each ends exactly once, and once more on its disk if that was given up.
    pub(crate) fn finish_io(&mut self, io: IoId, ok: bool) -> Purpose {
        let slot = io.0 as usize;
        let Some(under_way) = self.ios.get_mut(slot).and_then(Option::take) else {
            panic!("store operation {} ended twice or never began", io.0);
        };
        let UnderWay { purpose, leg: Leg { volume, .. }, what, flush, stage, .. } = under_way;
        if stage == Stage::GivenUp {
            self.ios[slot] = Some(under_way.late());
        } else {
            self.free.push(slot as u32);
        }
        if !ok && matches!(flush, Flush::OfVolume(_)) {
            self.hot.distrust_flushes(volume);
        }
        match what {
            // What is late may still change it.
            What::Changes(_) if stage == Stage::GivenUp => {}
            What::Changes(extent) => self.hot.leave(volume, extent),
            What::Flushes(number) => self.hot.flush_ended(volume, number, ok),
            What::Looks | What::OnCopy => {}
            What::Passes { changes, flushes, covers } => {
                if let Some(number) = covers {
                    self.hot.flush_ended(volume, number, ok);
                }
                // A layer may fail a flush that no member was asked for.
                if flushes && !ok {
                    self.hot.distrust_flushes(volume);
                }
                if let Some(extent) = changes {
                    self.hot.release(volume, extent);
                }
            }
        }
        purpose
    }

    fn named(&self, io: IoId) -> Option<&UnderWay> {
        self.ios.get(io.0 as usize).and_then(Option::as_ref)
    }

    /// Whether that operation applies an item of the peer's.
    pub(super) fn applies_item(&self, io: IoId) -> bool {
        let applies = |io: &UnderWay| matches!(io.purpose, Purpose::Follower(FollowerIo::Apply(_)));
        self.named(io).is_some_and(applies)
    }

    /// Whether that operation is done on a copy.
    pub(super) fn is_on_copy(&self, io: IoId) -> bool {
        self.named(io).is_some_and(|io| matches!(io.what, What::OnCopy))
    }

    /// Whether an operation that changes bytes of a volume is under way and passes no layer. What is late counts as well, unless a
    /// layer removed its member: then it changes no member that holds the volume.
    pub(super) fn changes_beside_layers(&self) -> bool {
        let layers = |io: &UnderWay| matches!(io.purpose, Purpose::Layer { .. });
        let removed = |io: &UnderWay| {
            io.stage == Stage::Late
                && !self.layered.full_members(io.leg.volume).any(|leg| leg == io.leg)
        };
        let changes = |io: &UnderWay| matches!(io.what, What::Changes(_));
        self.ios.iter().flatten().any(|io| changes(io) && !layers(io) && !removed(io))
    }

    /// Whether anything is under way on the store of that volume, or of any. What is late counts: it may still change the disk.
    pub(crate) fn works_on(&self, volume: Option<VolumeIndex>) -> bool {
        let on = |io: &UnderWay| volume.is_none_or(|volume| io.leg.volume == volume);
        self.ios.iter().flatten().any(|io| on(io) && io.may_change_it())
    }

    /// Whether work of a primary's own is under way, or of a follower's.
    pub(crate) fn works_for(&self, primary: bool) -> bool {
        self.ios.iter().flatten().any(|io| match io.purpose {
            Purpose::Primary(_) => primary,
            Purpose::Follower(_) => !primary,
            _ => false,
        })
    }

    /// Whether a client's read is under way here.
    pub(crate) fn reads_under_way(&self) -> bool {
        self.ios.iter().flatten().any(|io| matches!(io.purpose, Purpose::Read(_)))
    }
}
