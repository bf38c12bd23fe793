// SPDX-License-Identifier: Apache-2.0
//! Another disk takes the place of one that is lost, while this node runs.
//!
//! ```text
//!   the store failed ──> nothing is issued to it ──> another disk is put there ──> Replaced, recorded ──> filled
//! ```
//! That record says which disk it is and, in the same breath, that nothing on it counts. Before it is durable nothing is
//! issued to the new disk; a start that finds it there and the old record finds a disk that is another one (`members.rs`).
//!
//! * A primary serves from its peer meanwhile (`lead/lack/lose.rs`): that the whole volume is lacking was durable before. Behind the
//!   record its store is used again, and the puller fills it (`lead/lack/pull.rs`).
//! * Where the very disk that was lost lies in its place again, and a flush of it had failed, its copy stays suspect: all of
//!   it is written again, whatever it reads as (`suspect.rs`).
//! * A secondary's marks prove nothing from then on, and its image is not consistent: everything is compared. What it
//!   kept of its last consistent image (`follow/before.rs`) was about the disk that is gone, and ends first.

use crate::event::CommandId;
use helio_units::VolumeIndex;

/// A secondary's disk that is being replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replacing {
    pub(crate) command: CommandId,
    pub(crate) volume: VolumeIndex,
}
