// SPDX-License-Identifier: Apache-2.0
//! What the ledger has of members: their states and epochs, which lie in one page, and which volumes the superblock calls suspect.

use alloc::vec;
use alloc::vec::Vec;
use helio_format::epochs::Epochs;
use helio_format::members::{self, CopyHealth, DiskMark, MEMBERS_MAX, MemberEntry, VolumeEntries};
use helio_format::page::BODY_BYTES;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Members {
    /// None in a file without a superblock.
    entries: Vec<VolumeEntries>,
    epochs: Epochs,
    /// Volumes of which all copies here are suspect, as the last superblock says: bit n volume n.
    suspect: u64,
}

impl Members {
    /// Of a new file.
    pub(crate) fn none(volumes: usize) -> Self {
        Self { entries: Vec::new(), epochs: Epochs::none(volumes), suspect: 0 }
    }

    /// As a file has them; where it has none, every volume has one member on a disk that nothing tells.
    pub(crate) fn found(
        found: Option<(Vec<VolumeEntries>, Epochs)>,
        (volumes, suspect): (usize, u64),
    ) -> Self {
        let none = || (one_member_each(volumes), Epochs::none(volumes));
        let (entries, epochs) = found.unwrap_or_else(none);
        Self { entries, epochs, suspect }
    }

    pub(crate) fn entries(&self) -> &[VolumeEntries] {
        &self.entries
    }

    pub(crate) const fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    pub(crate) fn set_entries(&mut self, entries: Vec<VolumeEntries>) {
        self.entries = entries;
        self.doubt();
    }

    pub(crate) fn set_epochs(&mut self, epochs: Epochs) {
        self.epochs = epochs;
    }

    /// The superblock calls these volumes suspect. Returns whether the page is to say something else.
    pub(crate) fn set_suspect(&mut self, suspect: u64, volumes: usize) -> bool {
        self.suspect = suspect;
        let is_new = self.entries.is_empty();
        if is_new {
            self.entries = one_member_each(volumes);
        }
        self.doubt() || is_new
    }

    /// Makes the good members of suspect volumes suspect, and those of other volumes good. Returns whether any changed.
    fn doubt(&mut self) -> bool {
        let mut changed = false;
        for (volume, members) in self.entries.iter_mut().enumerate() {
            let is_suspect = self.suspect & 1 << volume != 0;
            let is = if is_suspect { CopyHealth::Suspect } else { CopyHealth::Good };
            for member in members.iter_mut().flatten() {
                let stays_blank = member.health == CopyHealth::Blank && !is_suspect;
                if member.health.is_full() && !stays_blank {
                    changed |= member.health != is;
                    member.health = is;
                }
            }
        }
        changed
    }

    /// The body of their page.
    pub(crate) fn encode(&self) -> [u8; BODY_BYTES] {
        members::encode(&self.entries, &self.epochs)
    }
}

/// The members of a group whose volumes have one each, on a disk that nothing tells.
fn one_member_each(volumes: usize) -> Vec<VolumeEntries> {
    let mut only = [None; MEMBERS_MAX];
    only[0] = Some(MemberEntry { health: CopyHealth::Good, disk: DiskMark::UNKNOWN });
    vec![only; volumes]
}
