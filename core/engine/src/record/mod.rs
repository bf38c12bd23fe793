// SPDX-License-Identifier: Apache-2.0
//! What is durable before what: the superblock, pages of the bitmap, hot extents.

pub(crate) mod ages;
pub(crate) mod keep;
pub(crate) mod save;
