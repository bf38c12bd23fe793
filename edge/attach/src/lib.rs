// SPDX-License-Identifier: Apache-2.0
//! A volume as a block device of this machine: one file in a FUSE mount of its own, and a loop device on that file.
//!
//! Knows the FUSE protocol as far as one file of a fixed size needs it, how such a file is mounted, how a loop device
//! is made of it, and who uses either. Knows nothing of groups, roles or engines: [`Session`] turns the kernel's
//! messages into [`Work`] and finished work into answers, and whoever owns the [`Channel`] does the work.
//!
//! ```text
//!   file system ── /dev/loopN ── the file ── kernel ── /dev/fuse ── Channel ── Session ── Work
//! ```
//! Where the kernel has them, [`ublk`] and [`nbd`] are other ways, with neither file nor loop device.

pub mod apart;
mod beneath;
mod channel;
mod error;
mod kernel;
mod loopdev;
mod memory;
mod mount;
mod names;
pub mod nbd;
pub mod node;
mod session;
pub mod ublk;
mod users;
mod wire;

pub use beneath::{Ground, beneath};
pub use channel::{Arrival, Channel, HEAD_BYTES, MESSAGE_BYTES};
pub use error::AttachError;
pub use kernel::{Kernel, Settling, ThisKernel};
pub use loopdev::{LoopDevice, backing_file};
pub use memory::{be_flusher, lock_memory};
pub use mount::Mount;
pub use names::{Behind, refusal};
pub use session::{Fault, Session, Shape, Step, Work};
pub use users::{Used, User, program, users_of};
pub use wire::MAX_WRITE;
