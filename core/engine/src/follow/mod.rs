// SPDX-License-Identifier: Apache-2.0
//! Receiving: applying in order, flushing, and the last consistent copy below a resync.

pub(crate) mod before;
pub(crate) mod follower;
mod restore;
