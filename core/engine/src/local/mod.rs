// SPDX-License-Identifier: Apache-2.0
//! This node's copy: its disks, what a failed operation means, and how it is rebuilt.

pub(crate) mod compare;
pub(crate) mod failure;
pub(crate) mod lack;
pub(crate) mod lose;
pub(crate) mod members;
pub(crate) mod pull;
pub(crate) mod pulling;
pub(crate) mod questions;
pub(crate) mod replace;
pub(crate) mod suspect;
