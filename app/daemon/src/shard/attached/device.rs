// SPDX-License-Identifier: Apache-2.0
//! One attached volume: the kernel's end, and what is under way on it.

use super::line::Line;
use crate::shard::requests::{Load, Place};
use tokio::sync::oneshot;

/// Bytes one device may have under way: more would only hold memory that a machine short of it needs.
const BYTES_MAX: u64 = 16 << 20;

/// One attached volume.
pub(super) struct Device {
    pub(super) epoch: u32,
    pub(super) group: String,
    pub(super) volume: String,
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) line: Line,
    pub(super) load: Load,
    /// The driver tells when there is a message.
    pub(super) waiting: bool,
    pub(super) ended: bool,
    pub(super) gone: Option<oneshot::Sender<String>>,
}

impl Device {
    /// Whether some of what it has under way must be answered first.
    pub(super) fn is_full(&self) -> bool {
        self.load.is_full() || self.load.bytes() >= BYTES_MAX
    }
}
