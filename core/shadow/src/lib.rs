// SPDX-License-Identifier: Apache-2.0
//! The shadow layer: it keeps up to six members of a volume alike.
//!
//! ```text
//!   change ──> gate ──> every member that is used ──> all ended ──> removals durable ──> ended
//!   read ──> settled? ──yes──> the full member with the least cost
//!              └── changing: the fixed member; unmerged: merged first
//!   piece ──> gate, alone ──> read, compare, write where it differs
//! ```
//! * A member is *full*, *copying* (it is written, and gets what its bitmap says that it lacks) or *removed* (its bitmap
//!   gets every region that is changed meanwhile). The ledger says which, and an operation ends only when no member that missed it counts as full there.
//! * A member that fails is removed where another one did not fail. An error that all full members give alike removes none: they
//!   may differ there then, and the region is *unmerged* until they are equal again.
//! * After a crash everything hot is unmerged. A merge compares what full members hold, and writes the version of the first one
//!   to those that differ. No region is read before it is merged.
//! * The bitmap of a full member says where it may differ from others after a restart, for a reason other than a crash: everything, once a
//!   command asked for a merge, until it is merged; and *blank* regions, in which nothing was ever written. Those are merged when an
//!   operation first touches them. They count as blank only as long as no member was missing that may lack what was written
//!   there since: a new member, or one that was removed before a restart, has them merged and copied like the rest.
//! * A copy ends with a flush, then a record; the member is read from then on.
//! * If the record is older than what happened to the members, one full member counts, and no bitmap.
//!
//! Pure: the host records what the ledger is to say, compares bytes, and tells which members are silent. It asks for nothing
//! that concerns members ([`helio_stack::SetOp`]) while a change is under way that does not pass this layer.
#![no_std]

extern crate alloc;

mod delay;
mod gate;
mod member;
mod op;
mod recent;
mod set;
mod shadow;
#[cfg(test)]
mod tests;
mod transfer;
mod unmerged;

pub use shadow::{Shadow, blank_pages};
pub use transfer::{TRANSFER_MAX, Transfer};

/// Bytes for which a bit of the bitmap of a member stands, where the host keeps to that.
pub const REGION: helio_units::Bytes = helio_units::Bytes(64 << 10);
