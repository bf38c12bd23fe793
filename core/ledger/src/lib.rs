// SPDX-License-Identifier: Apache-2.0
//! The durable structures of a node, as pure state machines that say what to read, write and flush.
//!
//! Write order lives here and nowhere else: the daemon performs these effects on the metadata file, and the
//! simulator performs the very same ones on a disk that tears and forgets. Today there is one structure, the
//! superblock; mark pages, the hot-extent log, the disk-queue ring, the secondary's log and the before-image
//! store get rooms beside it.
//!
//! Absent on purpose: I/O, clocks, randomness.
#![no_std]

extern crate alloc;

mod superblock;

pub use superblock::{METADATA_BYTES, MetadataEffect, Opened, SuperblockError, SuperblockStore};
