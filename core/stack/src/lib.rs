// SPDX-License-Identifier: Apache-2.0
//! What stands between a group's engine and the members of its volumes: layers, one above the other, that share one narrow
//! contract.
//!
//! ```text
//!   engine ── operation ──> layer ──> layer ──> hot extents ──> members
//!          <── outcome ───        <──       <──             <──
//! ```
//! An operation reads, writes, makes zero, discards, flushes or maps a volume, and ends exactly once ([`Outcome`]). A layer
//! hands on as many operations of its own as it wants. Beside them stand the operations of the whole group ([`CopyOp`]), which
//! the first layer carries out that can.
//!
//! What every layer keeps to: a flush covers all that was reported done before it began, the layer's own writes included;
//! with FUA so is the operation, and what the layer wrote for it; what ends as [`Outcome::Refused`] touched nothing; and a
//! layer never waits for what its own parked operations hold.
//!
//! Pure: layers are given the time and return what is to be done. The host composes them; the engine knows operations and
//! outcomes, and not which layers there are. Where none is, or all rest, operations pass beside the stack at no cost.
#![no_std]

extern crate alloc;

mod contract;
mod faults;
mod layer;
mod pass;
mod set;
mod settled;
mod slots;
mod stack;

pub use contract::{
    CopyIo, CopyOp, CopyOutcome, CopyStatus, HeldCopy, Leg, MemberFault, Outcome, PoolHealth,
    PoolOp, PoolOutcome, RollbackStatus, Row, Shortage, StoreFault, StoreOp, lay_over,
};
pub use faults::{Faults, Odds};
pub use helio_format::before::{
    CopyClass, CopyNumber, CopyOwner, CopyView, KeptCopy, KeptImage, Slot,
};
pub use layer::{Io, Layer, Operation, Port, Tag};
pub use pass::Pass;
pub use set::{
    CopyRecord, Duty, LayerRecord, LayerSetting, MemberEvent, MemberStatus, MergeRecord, SetOp,
    SetRefusal, SetStatus,
};
pub use settled::Unsettled;
pub use stack::{Out, Stack};
