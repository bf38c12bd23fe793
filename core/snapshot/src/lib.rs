// SPDX-License-Identifier: Apache-2.0
//! The snapshot layer: it preserves before-images of a group, so that the group can be restored as it was at a cut.
//!
//! ```text
//!   change ──> chunks all preserved? ──yes──> below
//!                 │ no                          ^
//!                 └──> parked ──> a batch: read, append, durable ──┘
//!                                        └── no room ──> Refused, untouched
//! ```
//! A cut waits until the changes under way have ended, reserves room, flushes all volumes, and writes the header of the copy to the
//! pool. Changes that arrive during the cut are parked. After the cut, no chunk of 64 KiB is overwritten before its bytes are durable
//! in the pool. If all of the volumes will be overwritten, chunks are preserved ahead of the changes. A restore checks everything
//! that is preserved, writes it back, and flushes.
//!
//! The owner of a copy knows what it is for; this layer does not read its label. Pure: the host stores the before-images (the
//! *pool*).
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
