// SPDX-License-Identifier: Apache-2.0
//! What a front end can ask for, and what performs it.

use crate::shard::payloads::Payloads;
use crate::shard::requests::place::Target;
use crate::shard::requests::reply::{Failure, Reply};
use helio_driver::Buffer;
use helio_engine::{CopyView, Operation as EngineOp, StoreOp as CopyOp};
use helio_units::Extent;

/// The longest zero or discard given to the engine at once, in bytes: it opens all pieces of one at the same time.
pub(crate) const LONGEST_EFFECT: u64 = 4 << 30;

/// What a front end can ask for.
#[derive(Debug)]
pub(crate) enum Operation {
    /// Read the extent.
    Read(Extent),
    /// Store the payload, which is as long as the extent.
    Write { extent: Extent, payload: Buffer, fua: bool },
    /// Make the extent read as zero; its space may be freed if `punch`.
    Zero { extent: Extent, punch: bool, fua: bool },
    /// Free the extent's space.
    Discard { extent: Extent, fua: bool },
    /// Make durable what was acknowledged.
    Flush,
    /// Report which parts of the extent are allocated.
    Map(Extent),
}

impl Operation {
    /// Bytes of payload that it holds until it ends. What has none counts nothing.
    pub(crate) const fn bytes(&self) -> u64 {
        match self {
            Self::Read(extent) | Self::Write { extent, .. } => extent.length,
            Self::Zero { .. } | Self::Discard { .. } | Self::Flush | Self::Map(_) => 0,
        }
    }
}

/// What the store does without the engine: it changes nothing, so it has no place in the write order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreOp {
    Read(Extent),
    Map(Extent),
}

/// A zero or a discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LongEffect {
    extent: Extent,
    kind: EffectKind,
    fua: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EffectKind {
    Zero { punch: bool },
    Discard,
}

impl LongEffect {
    /// As much as the engine takes at once, and the rest.
    pub(super) fn cut(self) -> (EngineOp, Option<Self>) {
        let Self { extent, kind, fua } = self;
        let first = Extent::new(extent.offset, extent.length.min(LONGEST_EFFECT));
        let left = extent.length - first.length;
        let rest = (left > 0).then(|| Self { extent: Extent::new(first.end(), left), kind, fua });
        let first = match kind {
            EffectKind::Zero { punch } => EngineOp::Zero { extent: first, punch, fua },
            EffectKind::Discard => EngineOp::Discard { extent: first, fua },
        };
        (first, rest)
    }
}

/// What performs an operation.
#[derive(Debug)]
pub(super) enum Course {
    /// The group's engine, which gives it a place in the write order; behind it the rest of a long effect.
    Engine(EngineOp, Option<LongEffect>),
    /// The group's engine, which has a point-in-time copy read, or its branch written.
    OnCopy(CopyView, CopyOp),
    /// A point-in-time copy, if clients can use it: all of it is allocated.
    MapOnCopy(CopyView),
    /// The store of this node's copy.
    Store(StoreOp),
    /// There is nothing to perform.
    Ended(Reply),
}

impl Course {
    /// The course of an operation on a target. A payload gets its name if the engine is to store it.
    pub(super) fn of(operation: Operation, target: Target, payloads: &mut Payloads) -> Self {
        use Target::{Copy, Snapshot, Volume};
        let effect = |extent, kind, fua| {
            let (first, rest) = LongEffect { extent, kind, fua }.cut();
            Self::Engine(first, rest)
        };
        match (target, operation) {
            (Volume { .. }, Operation::Read(extent)) => Self::Engine(EngineOp::Read(extent), None),
            (Volume { .. }, Operation::Flush) => Self::Engine(EngineOp::Flush, None),
            (Volume { .. } | Copy, Operation::Map(extent)) => Self::Store(StoreOp::Map(extent)),
            (Volume { read_only: false }, Operation::Write { extent, payload, fua }) => {
                let payload = payloads.insert(payload);
                Self::Engine(EngineOp::Write { extent, payload, fua }, None)
            }
            (Volume { read_only: false }, Operation::Zero { extent, punch, fua }) => {
                effect(extent, EffectKind::Zero { punch }, fua)
            }
            (Volume { read_only: false }, Operation::Discard { extent, fua }) => {
                effect(extent, EffectKind::Discard, fua)
            }
            (Copy, Operation::Read(extent)) => Self::Store(StoreOp::Read(extent)),
            // Nothing of a copy is dirty on behalf of its reader.
            (Copy | Snapshot(CopyView::Cut(_)), Operation::Flush) => Self::Ended(Reply::Done),
            (Snapshot(on @ CopyView::Branch(_)), Operation::Zero { extent, punch, fua }) => {
                Self::OnCopy(on, CopyOp::Zero { extent, punch, fua })
            }
            (Snapshot(on), Operation::Flush) => Self::OnCopy(on, CopyOp::Flush),
            (Snapshot(on), Operation::Read(extent)) => Self::OnCopy(on, CopyOp::Read { extent }),
            (Snapshot(on @ CopyView::Branch(_)), Operation::Write { extent, payload, fua }) => {
                let payload = payloads.insert(payload);
                Self::OnCopy(on, CopyOp::Write { extent, payload, fua })
            }
            // What is preserved lies elsewhere than the volume.
            (Snapshot(on), Operation::Map(_)) => Self::MapOnCopy(on),
            (
                Volume { read_only: true } | Copy | Snapshot(_),
                Operation::Write { .. } | Operation::Zero { .. } | Operation::Discard { .. },
            ) => Self::Ended(Reply::Failed(Failure::ReadOnly)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_effect_is_cut_into_parts_that_follow_each_other_to_its_end() {
        for kind in [EffectKind::Zero { punch: false }, EffectKind::Discard] {
            let whole = Extent::new(4096, 2 * LONGEST_EFFECT + 512);
            let mut left = Some(LongEffect { extent: whole, kind, fua: true });
            let (mut at, mut lengths) = (whole.offset, Vec::new());
            while let Some(effect) = left {
                let (first, rest) = effect.cut();
                let extent = match first {
                    EngineOp::Zero { extent, punch: false, fua: true } => extent,
                    EngineOp::Discard { extent, fua: true } => extent,
                    other => panic!("a part of another kind: {other:?}"),
                };
                assert_eq!(extent.offset, at);
                (at, left) = (extent.end(), rest);
                lengths.push(extent.length);
            }
            assert_eq!(lengths, [LONGEST_EFFECT, LONGEST_EFFECT, 512]);
        }
    }
}
