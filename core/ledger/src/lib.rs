// SPDX-License-Identifier: Apache-2.0
//! The durable structures of a node, as pure state machines that say what to read, write and flush.
//!
//! Write order lives here and nowhere else: the daemon performs these effects on the metadata file, and the
//! simulator performs the very same ones on a disk that tears and forgets. [`Ledger`] keeps a group's metadata file:
//! superblock, member states, a directory, and the maps that it names. [`open`](Ledger::open) judges what a crash left of it,
//! [`Layout`] has its measures, [`describe()`] shows it to people. [`Mirror`] keeps two files of it, and
//! [`files`] says which of them counts. [`BeforeStore`] keeps what an update overwrites of a
//! secondary's image.
//!
//! Absent on purpose: I/O, clocks, randomness.
#![no_std]

extern crate alloc;

mod before;
mod describe;
mod directory;
mod error;
pub mod files;
mod hot;
mod layout;
mod ledger;
mod members;
mod mirror;
mod open;
mod tickets;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod map_tests;
#[cfg(test)]
mod older_tests;
#[cfg(test)]
mod paper;

pub use before::{
    BeforeError, BeforeFound, BeforeRecord, BeforeStore, BeforeWrite, Chunk, ReadAt,
    RollbackStanding,
};
pub use describe::{Content, CopyState, Description, PairLine, PairState, describe, fields};
pub use error::{LedgerError, PageName, renamed};
pub use helio_format::directory::MapOwner;
pub use helio_format::hot::{EXTENT_BYTES, SLOTS_PER_PAGE};
pub use helio_format::marks::REGIONS_PER_PAGE;
pub use helio_format::page::{BODY_WORDS, PAGE_BYTES, Words};
pub use layout::Layout;
pub use ledger::{Change, Kept, Ledger, MetadataEffect};
pub use mirror::{FileEffect, Mirror, Task};
pub use open::{Found, MetadataFile, Opened};
