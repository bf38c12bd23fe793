// SPDX-License-Identifier: Apache-2.0
//! The conversation with the peer: greeting, keeping alive, noticing its loss.
//!
//! ```text
//!   Down ──connected──> Waiting ──role settled, hello sent──> Greeting ──the peer's hello──> Up
//!    ^                     │                                     │                           │
//!    └──── hung up ────────┴──────── another peer, lost ─────────┴── refused, lost, parted ──┘
//! ```
//! The link is up before the recovery table is asked: a refusal is told on it.
//! A peer is lost when none of its cursors moved for T while something sent is unacknowledged; while it says that
//! it is flushing, for the flush limit instead. A long item on its way adds the time it may take. With nothing outstanding, hearing nothing for T is loss (rule 8).

use alloc::format;
use alloc::string::String;
use helio_format::message::Message;

pub(crate) fn out_of_turn(message: &Message) -> String {
    format!("an unexpected message of kind {}", message.code())
}
