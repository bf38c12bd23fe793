// SPDX-License-Identifier: Apache-2.0
//! Conversations in memory: the two ends of a session, and whatever lies between.

mod certificates;
mod common;
mod keys;
mod noise;
mod versions;
