// SPDX-License-Identifier: Apache-2.0
//! The layer that preserves a group as it was, while it is being overwritten.
//!
//! ```text
//!   change ──> chunks all preserved? ──yes──> below
//!                 │ no                          ^
//!                 └──> parked ──> a batch: read, append, durable ──┘
//!                                        └── no room ──> Refused, untouched
//! ```
//! A cut waits until the changes under way have ended, makes room, flushes all volumes, and begins a preserving in the pool; what
//! comes meanwhile is parked. From then on no chunk of 64 KiB is overwritten before its bytes are durable in the pool. Where all
//! of the volumes will be overwritten, that goes on ahead of the changes. A restore checks everything that is preserved, writes it
//! back, and flushes.
//!
//! What a copy is for is its owner's: its label is opaque here. Pure: where before-images lie is the host's (the *pool*).
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod ahead;
mod chunks;
mod room;
mod snapshot;
#[cfg(test)]
mod tests;
mod work;

pub use snapshot::Snapshot;
pub use work::BATCH_BYTES;
