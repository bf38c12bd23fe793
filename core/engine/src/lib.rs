// SPDX-License-Identifier: Apache-2.0
//! The replication engine of one group, pure: event in, effects out.
//!
//! Absent on purpose: clocks (time is an argument), dice (a seed is given), I/O and threads (effects are returned),
//! and the bytes of writes (a [`helio_units::Payload`] says where the daemon keeps them). So the same engine runs in
//! the daemon, in the simulator and in the planner.
//!
//! The rooms: `write` one write's life, with `ack` deciding its answer; `gate`, `queue`, `line` what it
//! passes and leaves; `primary`, `stream`, `resync` (with `copier`, `digest`, `guess`, `pace`, `progress`) what a primary
//! owes its peer; `follower` the other side, `lack` (with `pull`, `compare`, and `peer_read` at the peer) a primary that lacks what its peer holds, `before` what it keeps of its last consistent image and `restore` the way
//! back to it; `session`
//! the conversation; `meet` asks the table of who is source; `role`, `promote`, `leave` and `save` changes of role,
//! durable first, `lease` the one that asks nobody;
//! `blocks` what requests keep to on either node; `verify` compares the copies; `seed` lets a shipped disk stand for the first copy; `ask` asks the operator's hook; `status`, `times`, `recorder`, `invariants` what is shown and checked. One engine has one peer and one member today:
//! several peers become a vector of what `primary` keeps per peer (cursors, marks, flow), several members a vector
//! of local legs in `line::Entry`, the disk queue and the logged secondary tiers behind `queue` and `follower`,
//! point-in-time copies another kind of item.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod ack;
mod alone;
mod ask;
mod before;
mod blocks;
mod compare;
mod config;
mod copier;
mod decided;
mod digest;
mod effect;
mod engine;
mod event;
mod fault;
mod flushes;
mod follower;
mod gate;
mod guess;
mod invalid;
mod invariants;
mod keep;
mod lack;
mod last_copy;
mod lease;
mod leave;
mod line;
mod lose;
mod meet;
mod members;
mod pace;
mod pause;
mod peer_read;
mod primary;
mod progress;
mod promote;
mod pull;
mod queue;
mod recorder;
mod refusal;
mod replace;
mod resolve;
mod restore;
mod resync;
mod role;
mod save;
mod seed;
mod session;
mod shared;
mod status;
#[cfg(test)]
mod stories;
mod stream;
mod survey;
mod suspect;
mod switch;
mod times;
mod verdict;
mod verified;
mod verify;
mod write;

pub use ack::AckProof;
pub use before::{BeforeOp, BeforeOutcome, SafeCopy};
pub use config::{
    Config, HOT_EXTENTS, ITEM_BYTES_MAX, OnError, QUEUE_BYTES_MOST, QUEUE_BYTES_SNDR,
    QUEUE_ITEMS_SNDR, QUEUE_PRODUCTS, QueueConfig, REGION, ResyncConfig, WhenFull, automatic_bound,
};
pub use digest::digest_piece;
pub use effect::{Answer, Done, Effect, Keep, Loudness, Note, StoreOp};
pub use engine::Engine;
pub use event::{Command, CommandId, Durable, Event, Kept, Operation, Request, Run, StoreOutcome};
pub use fault::Fault;
pub use lease::{HOLD_MAX, HOLD_MIN};
pub use members::MemberFound;
pub use primary::Lag;
pub use queue::BoundSource;
pub use recorder::{RECORDS, Record};
pub use refusal::{Denial, Refusal, StoreFault};
pub use resolve::Stake;
pub use shared::Counters;
pub use status::{
    CursorStatus, LinkStatus, QueueStatus, SafeCopyStatus, Status, SyncStatus, Words,
};
pub use times::{AnswerTimes, TimesStatus};
pub use verified::Verified;
pub use verify::{
    LISTED_MAX, RunStatus, VerifyMemory, VerifyPass, VerifyStatus, VerifyWish, VolumeVerify,
};
