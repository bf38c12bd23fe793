// SPDX-License-Identifier: Apache-2.0
//! A planned change of roles, without loss, from either side.
//!
//! ```text
//!   old primary                                              new primary
//!       │ <──────────────── SwitchWanted ──────────────────────── │   only where the command was given there
//!       │ clients are let go, everything is delivered, flushed,   │
//!       │ and the record says secondary                           │
//!       │ ───────────────────── Invite ─────────────────────────> │
//!       │                                                         │ everything is durable: the record says primary
//!       │ <───────────── connects anew, hello: it serves ──────── │
//! ```
//! Until the record says secondary the old primary just goes on if anything is in the way. From the invitation on,
//! only the peer's next hello tells what became of it: a peer whose generation is still ours surely did not take over,
//! for it says hello in a settled role, and an invitation dies with its connection; and it answers a ping, so that the
//! hello is not one of before. Where no hello comes in time the
//! old primary stays secondary, since a primary too many is worse than none, and says so.

use core::time::Duration;

/// How long the queue may take to drain; writers wait for that long at most.
pub(crate) const SWITCH_PATIENCE: Duration = Duration::from_secs(10);
/// How long the peer may take to say that it serves.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// How long the side that asked waits for the whole of it.
pub(crate) const ASKED_PATIENCE: Duration = Duration::from_secs(25);
