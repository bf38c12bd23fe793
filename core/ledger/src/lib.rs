// SPDX-License-Identifier: Apache-2.0
//! The durable structures of a node, as pure state machines that say what to read, write and flush.
//!
//! Write order lives here and nowhere else: the daemon performs these effects on the metadata file, and the
//! simulator performs the very same ones on a disk that tears and forgets. Today there are two
//! structures, the superblock and the before-image store; mark pages, the hot-extent log, the disk-queue ring and the
//! secondary's log get rooms beside them.
//!
//! Absent on purpose: I/O, clocks, randomness.
#![no_std]

extern crate alloc;

mod before;
mod superblock;

pub use before::{BEFORE_HEADER_BYTES, BeforeError, BeforeStore, BeforeWrite, Chunk, Kept, ReadAt};
pub use superblock::{METADATA_BYTES, MetadataEffect, Opened, SuperblockError, SuperblockStore};
