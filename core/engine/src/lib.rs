// SPDX-License-Identifier: Apache-2.0
//! The replication engine of one group, pure: event in, effects out.
//!
//! Absent on purpose: clocks (time is an argument), dice (a seed is given), I/O and threads (effects are returned),
//! and the bytes of writes (a [`helio_units::Payload`] says where the daemon keeps them). So the same engine runs in
//! the daemon, in the simulator and in the planner.
//!
//! The rooms, each a folder: `stream` (items in order, the gate, the queue, requests, the decision to acknowledge), `local`
//! (this node's store), `record` (what is durable before what), `peer` (the conversation, leases), `resync` (what copying,
//! comparing and seeding keep), `follow` (the receiving side), `lead` (the sending side: one write's life, what is kept for
//! the peer), `role` (every change of role), `show` (what is shown and checked). `engine` composes them.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod calendar;
mod config;
mod copies;
mod dice;
mod effect;
mod engine;
mod event;
mod follow;
mod lead;
mod local;
mod peer;
mod purpose;
mod record;
mod refusal;
mod resync;
mod role;
mod show;
mod stream;
mod turn;

pub use config::{
    Config, HOT_EXTENTS, ITEM_BYTES_MAX, OnError, PERIOD, QUEUE_BYTES_MOST, QUEUE_BYTES_SNDR,
    QUEUE_ITEMS_SNDR, QUEUE_PRODUCTS, QueueConfig, REGION, SafeCopy, WhenFull, automatic_bound,
};
pub use copies::MissingCopy;
pub use effect::{Answer, Done, Effect, Keep, Loudness, Note, ReadAs};
pub use engine::Engine;
pub use event::{
    Command, CommandId, Durable, Event, HookQuestion, Kept, MemberFound, Operation, OwnDisk,
    Request, Reversal, Run, StoreOutcome, VerifyMemory, VerifyWish,
};
pub use helio_copy::ResyncConfig;
pub use helio_stack::{
    CopyIo, CopyNumber, CopyOwner, CopyView, Duty, HeldCopy, KeptCopy, KeptImage, LayerRecord,
    LayerSetting, Leg, MemberStatus, MergeRecord, PoolOp, PoolOutcome, RollbackStatus, Row, SetOp,
    SetRefusal, SetStatus, Stack, StoreFault, StoreOp, lay_over,
};
pub use lead::Lag;
pub use lead::status::SyncStatus;
pub use peer::attempts::{Attempts, Unsteady};
pub use peer::lease::{HOLD_MAX, HOLD_MIN};
pub use refusal::{Denial, Refusal, until_complete};
pub use resync::digest::digest_piece;
pub use resync::verified::Verified;
pub use resync::verify::{LISTED_MAX, RunStatus, VerifyPass, VerifyStatus, VolumeVerify};
pub use role::leave::STOP_PATIENCE;
pub use role::resolve::{Stake, Unknown};
pub use show::copies::CopiesStatus;
pub use show::fault::Fault;
pub use show::recorder::{RECORDS, Record};
pub use show::status::{
    CursorStatus, LinkState, LinkStatus, QueueStatus, SafeCopyStatus, Status, Words,
};
pub use show::view::View;
pub use show::whole::NotWhole;
pub use stream::ack::AckProof;
pub use stream::queue::BoundSource;
pub use stream::times::{AnswerTimes, TimesStatus};
pub use turn::Counters;
