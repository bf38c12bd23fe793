// SPDX-License-Identifier: Apache-2.0
//! A member: a local file or block device that holds a whole volume.
//!
//! Opening one makes sure that nobody else writes to it and that it can do what a mirror needs; after that it
//! only turns requests into operations for the driver. What an error means for the group is not decided here.

mod error;
mod identity;
mod latency;
mod member;
mod nameplate;
mod open;
mod prepare;
mod refusal;
mod sets;
mod surroundings;

pub use error::{Permanence, StoreError};
pub use identity::{DeviceNumber, MemberIdentity};
pub use latency::read_latency;
pub use member::{Member, StoreKind};
pub use nameplate::{Claim, STAMP, forget_name, is_named, is_stamped, nameplate_at};
pub use open::{Held, Io, Look, OpenOptions, look, open};
pub use prepare::Space;
pub use refusal::{OpenError, Refusal};
pub use sets::{DiskSet, Reading, SetKind, sets};
pub use surroundings::OtherUsers;
