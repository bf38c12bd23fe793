// SPDX-License-Identifier: Apache-2.0
//! The snapshot layer: it preserves before-images of a group, serves copies and their branches to clients, and restores the
//! group as it was at a cut.
//!
//! ```text
//!   change ──> chunks all preserved? ──yes──> below
//!                 │ no                          ^
//!                 └──> parked ──> a batch: read, append, durable ──┘
//!                                        └── no room ──> an expendable copy goes, or Refused, untouched
//! ```
//! A cut stops no change. Its copy is listed as coming; at its moment the changes that are on their way are older than it, and every
//! later one is preserved for it. A chunk that an older change touches is preserved once that has ended. When all older changes have
//! ended, all volumes are flushed, and the copy is listed as held. From its moment on, no chunk of 64 KiB is overwritten before its
//! bytes are durable in the pool. If all of the volumes will be overwritten, chunks are preserved ahead of the changes. A restore
//! checks everything that a copy needs, writes it back, and flushes; what it overwrites is preserved for younger copies first.
//!
//! The owner of a copy knows what it is for; this layer does not read its label. Pure: the host stores the before-images (the
//! *pool*).
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod ahead;
mod changes;
mod chunks;
mod clients;
mod copies;
mod preserved;
mod rollback;
mod room;
mod snapshot;
#[cfg(test)]
mod tests;
mod work;

pub use snapshot::Snapshot;
