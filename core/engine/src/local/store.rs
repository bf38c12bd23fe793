// SPDX-License-Identifier: Apache-2.0
//! The border to this node's store: nothing that changes bytes passes before its extents are hot, and each operation ends once.
//! Two pass without: what writes a copy again as it reads, and every write of a node whose peer recorded that its metadata
//! tells nothing.

use crate::effect::{Effect, Keep, ReadAs};
use crate::event::StoreOutcome;
use crate::local::{Local, Metadata};
use crate::purpose::Purpose;
use crate::turn::Turn;
use helio_bitmap::{Change, Parked};
use helio_plant::{Plant, planted};
use helio_stack::StoreOp;
use helio_units::{Extent, IoId, VolumeIndex};

/// An operation on the store that was asked for and has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderWay {
    purpose: Purpose,
    volume: VolumeIndex,
    what: What,
    /// Its number among the flushes, once it was issued.
    flush: Option<u64>,
}

impl UnderWay {
    pub(super) const fn new(purpose: Purpose, volume: VolumeIndex, what: What) -> Self {
        Self { purpose, volume, what, flush: None }
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
    },
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
        if self.layered.rests() {
            self.ask_member(volume, op, purpose, turn);
        } else {
            self.pass_layers((volume, op), ReadAs::Bytes, purpose, turn);
        }
    }

    /// Asks the member for an operation.
    pub(super) fn ask_member(
        &mut self,
        volume: VolumeIndex,
        op: StoreOp,
        purpose: Purpose,
        turn: &mut Turn,
    ) {
        let what = match op {
            StoreOp::Write { extent, .. }
            | StoreOp::Zero { extent, .. }
            | StoreOp::Discard { extent, .. }
                if self.metadata != Metadata::Uncovered && !self.rewrites(purpose) =>
            {
                What::Changes(extent)
            }
            StoreOp::Flush => What::Flushes(self.hot.flush_begins(volume)),
            _ => What::Looks,
        };
        let io = self.begin(UnderWay::new(purpose, volume, what));
        if let What::Changes(extent) = what
            && !self.hot.enter(volume, extent, purpose.item())
            && !planted(Plant::CoverAfterIssue)
        {
            self.hot.park(io, volume, op, extent);
            return;
        }
        self.issue(io, volume, op, turn);
    }

    /// Whether what is written is what was read: by an accepted copy, or by a layer while one is written again, which
    /// happens alone.
    fn rewrites(&self, purpose: Purpose) -> bool {
        match purpose {
            Purpose::Accept(_) => true,
            Purpose::Layer { .. } => self.layered.rewrites(),
            _ => false,
        }
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
        if !self.layered.rests() {
            return self.pass_layers((volume, StoreOp::Read { extent }), read_as, purpose, turn);
        }
        let io = self.begin(UnderWay::new(purpose, volume, What::Looks));
        turn.push(Effect::Store { io, volume, op: StoreOp::Read { extent }, read_as });
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

    /// Hands an operation to the store.
    pub(crate) fn issue(&mut self, io: IoId, volume: VolumeIndex, op: StoreOp, turn: &mut Turn) {
        if op.is_flush()
            && let Some(under_way) = &mut self.ios[io.0 as usize]
        {
            under_way.flush = Some(self.flushes.begin(volume));
        }
        turn.push(Effect::Store { io, volume, op, read_as: ReadAs::Bytes });
    }

    /// The store reports the end of an operation. Returns it, unless it is a flush: those come from [`Self::next_ended`], in
    /// their order.
    #[inline]
    pub(crate) fn ended(
        &mut self,
        io: IoId,
        outcome: StoreOutcome,
    ) -> Option<(IoId, StoreOutcome)> {
        let under_way = self.ios.get(io.0 as usize).and_then(Option::as_ref);
        match under_way.and_then(|under_way| Some((under_way.volume, under_way.flush?))) {
            Some(flush) => {
                self.flushes.end(flush, io, outcome);
                None
            }
            None => Some((io, outcome)),
        }
    }

    /// The next flush that has ended, or operation that a layer ended.
    #[inline]
    pub(crate) fn next_ended(&mut self) -> Option<(IoId, StoreOutcome)> {
        self.flushes.next_ended().or_else(|| self.layered.next_ended())
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
        for Parked { io, volume, op, .. } in self.hot.kept(change) {
            self.issue(io, volume, op, turn);
        }
    }

    /// Why the operation that just ended was asked for. Each ends exactly once.
    pub(crate) fn finish_io(&mut self, io: IoId, ok: bool) -> Purpose {
        let slot = io.0 as usize;
        let Some(under_way) = self.ios.get_mut(slot).and_then(Option::take) else {
            panic!("store operation {} ended twice or never began", io.0);
        };
        self.free.push(slot as u32);
        let UnderWay { purpose, volume, what, flush } = under_way;
        if !ok && flush.is_some() {
            self.hot.distrust_flushes(volume);
        }
        match what {
            What::Changes(extent) => self.hot.leave(volume, extent),
            What::Flushes(number) => self.hot.flush_ended(volume, number, ok),
            What::Looks => {}
            What::Passes { changes, flushes } => {
                self.layered.passed(purpose);
                // A layer may fail a flush that no member was asked for.
                if flushes && !ok {
                    self.hot.distrust_flushes(volume);
                }
                if let Some(extent) = changes {
                    self.hot.leave(volume, extent);
                }
            }
        }
        purpose
    }

    /// Whether anything is under way on the store of that volume, or of any.
    pub(crate) fn works_on(&self, volume: Option<VolumeIndex>) -> bool {
        self.ios.iter().flatten().any(|io| volume.is_none_or(|volume| io.volume == volume))
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
