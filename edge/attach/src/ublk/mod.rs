// SPDX-License-Identifier: Apache-2.0
//! Block devices of the kernel's `ublk_drv`: the kernel hands requests out through io_uring, without a file in between,
//! and keeps the device and who waits on it while its server is away.
//!
//! ```text
//!   file system ── /dev/ublkbN ── kernel ── /dev/ublkcN ── Server ── Order ── the shard's work
//!                                              Disk: made, started, taken over, taken away through /dev/ublk-control
//! ```
//! Payload is copied in and out with plain reads and writes on the device's own descriptor, when there is memory for
//! it: every leg of a mirror must send the same bytes, so nothing is served from pages that a writer may still change.

mod control;
mod disk;
mod server;
mod wire;

pub use disk::{Disk, available, is_there};
pub use server::{Order, Server};
