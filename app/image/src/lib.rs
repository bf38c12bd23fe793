// SPDX-License-Identifier: Apache-2.0
//! Exported snapshots: a directory with an image of each volume, and the record that says of which snapshot, and where an image may
//! differ from it ([`helio_format::exported`]).
//!
//! * [`Folder`]: the directory and its record.
//! * [`Image`]: the file or device that holds a volume.
//! * [`copy()`]: copies chunks from one [`Store`] to another, where they differ.
//! * [`Server`]: serves the images to NBD clients, and records where they change.
//!
//! Absent on purpose: daemons and groups. What is copied, and from where, is the caller's.

mod copy;
mod folder;
mod image;
mod recorder;
mod serve;
mod store;

pub use copy::{Copied, CopyPlan, Done, Target, copy};
pub use folder::{Folder, RECORD, read_record};
pub use image::{Access, Image};
pub use serve::Server;
pub use store::Store;
