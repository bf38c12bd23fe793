// SPDX-License-Identifier: Apache-2.0
//! Going back to the kept image: a node whose copy is not consistent takes over with its last consistent one.
//!
//! ```text
//!   Wanted ──record: neither image──> Recording ──> Writing ──record: the kept image──> Ending ──> promotion goes on
//! ```
//! While chunks are put back the image is neither the source's nor the kept one, and what the source believes to have
//! copied is undone. So the record first says that this node's marks prove nothing, and says so until it has taken over
//! and kept marks of everything, or a copy of everything has begun: no stream goes on behind a cursor from before, and
//! nobody calls the two level. The lineage stays: before the end it is the followed one, which nobody leads from while
//! the image is not consistent; behind it that of the kept image, so that writes which it lacks are seen by the table.
//! A crash in the middle leaves the keeping whole: restoring again does the same.

use crate::config::Config;
use crate::follow::before::Keeper;
use crate::local::Local;
use crate::refusal::Refusal;
use alloc::format;
use helio_format::superblock::Superblock;

impl Keeper {
    /// Whether a promotion may restore, where the copy here is not consistent.
    pub(crate) fn may_restore(&self, config: &Config) -> Result<(), Refusal> {
        let group = &config.group;
        let text = match self.kept() {
            None => format!("this node preserves no consistent copy of {group}"),
            Some((_, false)) => {
                format!("the preserved copy of {group} on this node is damaged; see the log")
            }
            Some((_, true)) => return Ok(()),
        };
        let hint = match config.peer_name() {
            Some(peer) => format!("wait for the resync from {peer} to end"),
            None => {
                format!("add the node that has a complete copy, or restore {group} from a backup")
            }
        };
        Err(Refusal::new("no-safe-copy", text, hint))
    }

    /// This image is neither one: the record for the time of the restore.
    pub(crate) fn shape_restoring(b: &mut Superblock) {
        b.marks_void = true;
        (b.clean, b.equal) = (false, false);
    }

    /// This is the kept image again.
    pub(crate) fn shape_restored(&self, b: &mut Superblock) {
        let Some((image, _)) = self.kept() else {
            panic!("a copy was restored that is not preserved")
        };
        b.lineage = image.lineage;
        b.head = image.head;
        (b.consistent, b.clean) = (true, image.exact);
        (b.wrote, b.alone, b.equal) = (image.wrote, image.alone, false);
        // Who goes on from here does so with another image than before, whatever the role was.
        b.tenure = b.tenure.wrapping_add(1);
        // What was confirmed behind it is not in it.
        b.sure = false;
    }
}

impl Keeper {
    /// No preserved copy is left of the image that a primary is about to write to. Or its end cannot be recorded: then no restore
    /// uses it, since the superblock says that this node is consistent. No operation on copies is under way: a cut would delay the
    /// writes of clients, and preserve what they overwrite.
    pub(crate) fn is_over(&self, local: &Local) -> bool {
        self.is_idle() && (self.is_empty() || local.pool_failed())
    }
}
