// SPDX-License-Identifier: Apache-2.0
//! The FUSE protocol's structures, byte by byte, in the machine's own order, as far as one file needs them.
//!
//! Every message from the kernel begins with a [`Header`] and is followed by what its operation takes; every answer
//! begins with 16 bytes: length u32, negated error i32, the request's unique number u64.

pub(crate) mod bytes;
mod reply;
mod request;

pub(crate) use reply::{Attributes, Greeting, Opened, Statistics, answer, error};
pub(crate) use request::{Fallocate, Header, Introduction, Transfer, opcode};

/// Longest payload of one write or read: what the kernel carries unless a limit of it is raised.
pub const MAX_WRITE: u32 = 1 << 20;

/// The protocol's version: major must be equal, of minor the lesser counts.
pub(crate) const MAJOR: u32 = 7;
/// The newest minor version whose structures these are.
pub(crate) const MINOR: u32 = 36;
/// The oldest that has what we use: requests of many pages came with it.
pub(crate) const MINOR_LEAST: u32 = 28;
