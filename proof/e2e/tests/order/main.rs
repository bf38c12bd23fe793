// SPDX-License-Identifier: Apache-2.0
//! Links and nodes that go away and come back: order is kept or its loss is said, and the copies become equal.

mod another_disk;
mod atomic;
mod dead_disk;
mod diverged;
mod full;
mod hand_over;
mod last_copy;
mod lease;
mod link;
mod lose;
mod metadata;
mod metadata_disk;
mod owners;
mod periodic;
mod queue;
mod renamed;
mod replace;
mod reports;
mod restart;
mod reverse;
mod safe;
mod saved;
mod set;
mod set_blank;
mod set_epoch;
mod set_one_node;
mod set_settings;
mod set_unchanged;
mod silent_disk;
mod snapshot;
mod snapshot_automatic;
mod snapshot_exported;
mod snapshot_frozen;
mod snapshot_restored;
mod whole;
