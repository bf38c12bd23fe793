// SPDX-License-Identifier: Apache-2.0
//! What is shown of metadata that cannot be written, this node's or its peer's.

use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use helio_units::Generation;

impl View<'_> {
    /// Whether this node's record says that its peer's metadata is invalid.
    pub(crate) fn doubts_peer(&self) -> bool {
        self.record.superblock().peer_invalid != Generation::NONE
    }

    /// What is wrong with the metadata, if anything is.
    pub(crate) fn metadata_text(&self) -> Option<String> {
        let config = self.turn.config();
        let peer = &config.peer;
        let text = match (self.local.metadata_failed(), self.standing.primary()) {
            (false, _) => return None,
            (true, Some(_)) if self.local.keeps_any_several(config) => String::from(
                "bitmap failed: the metadata file cannot be written: writes to extents that are not hot, and operations that a \
                 member misses, fail",
            ),
            (true, Some(_)) if config.peer_name().is_none() => String::from(
                "bitmap failed: the metadata file cannot be written: writes to extents that are not hot fail",
            ),
            (true, Some(_)) if self.local.is_uncovered() => format!(
                "bitmap failed: the metadata file cannot be written; {peer} recorded that, and writes continue while \
                 it is connected"
            ),
            (true, Some(_)) => format!(
                "bitmap failed: the metadata file cannot be written, and {peer} did not record that: writes to extents \
                 that are not hot fail"
            ),
            (true, None) => String::from("bitmap failed: the metadata file cannot be written"),
        };
        Some(text)
    }
}
