// SPDX-License-Identifier: Apache-2.0
//! Stories of the layer that keeps several members of a volume alike.
//!
//! A story draws volumes, members, a client whose reads may overlap its changes, an administrator who adds, removes and merges
//! members, members that fail, fall silent and are swapped for others, a ledger that may fail, and ends of the process and of the
//! power. Judged are, beside what the reference store says of every read and acknowledgement:
//! * at every crash, each member that the ledger calls full holds what was acknowledged; where nothing is hot, full members are
//!   equal but for what their bitmaps say, and what another member lacks is in its bitmap;
//! * blank members (nothing was ever written to the volume) hold something else each. Two reads of a block without a change between
//!   them return the same, whichever members are lost, unless the power is cut before a flush that began behind the first one: then the
//!   version of another member may count again, as if it had not been read;
//! * what a command asked to merge stays to be merged after a crash, once that is acknowledged;
//! * a member is given up only once it counts as full no more;
//! * no operation fails while a full member did not fail it;
//! * in the end every member that may return is full, and equal to the others but where a region is blank.

mod crash;
mod desk;
mod hot;
mod judge;
mod ledger;
mod trouble;

use std::fmt;

/// What stories of sets did.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetsWalk {
    /// Seeds walked.
    pub seeds: u64,
    /// Operations of clients.
    pub operations: u64,
    /// Volumes that were created blank.
    pub blank: u64,
    /// Full members that were removed.
    pub removals: u64,
    /// Members that became full.
    pub returns: u64,
    /// Of these, by a copy of everything, ...
    pub copies: u64,
    /// ... or of what the bitmap said.
    pub minicopies: u64,
    /// Times that everything unmerged was merged.
    pub merges: u64,
    /// Reads that another member served.
    pub repairs: u64,
    /// Members that were given up.
    pub silences: u64,
    /// Operations that were given up and landed later.
    pub late: u64,
    /// Disks that were swapped.
    pub swaps: u64,
    /// Ledgers that were restored from a backup.
    pub restored: u64,
    /// Ledgers that failed.
    pub unrecorded: u64,
    /// Power cuts and ends of the process.
    pub crashes: u64,
}

impl SetsWalk {
    /// Each count with its name.
    #[must_use]
    pub const fn counts(&self) -> [(&'static str, u64); 15] {
        [
            ("seeds", self.seeds),
            ("operations", self.operations),
            ("blank volumes", self.blank),
            ("removals", self.removals),
            ("returns", self.returns),
            ("copies", self.copies),
            ("minicopies", self.minicopies),
            ("merges", self.merges),
            ("repairs", self.repairs),
            ("silences", self.silences),
            ("late operations", self.late),
            ("swapped disks", self.swaps),
            ("restored ledgers", self.restored),
            ("failed ledgers", self.unrecorded),
            ("crashes", self.crashes),
        ]
    }

    pub(super) const fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.operations += other.operations;
        self.blank += other.blank;
        self.removals += other.removals;
        self.returns += other.returns;
        self.copies += other.copies;
        self.minicopies += other.minicopies;
        self.merges += other.merges;
        self.repairs += other.repairs;
        self.silences += other.silences;
        self.late += other.late;
        self.swaps += other.swaps;
        self.restored += other.restored;
        self.unrecorded += other.unrecorded;
        self.crashes += other.crashes;
    }
}

impl fmt::Display for SetsWalk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts().map(|(name, count)| format!("{count} {name}"));
        f.write_str(&counts.join(", "))
    }
}

/// Tells the story of a seed.
pub(super) fn tell(seed: u64) -> Result<SetsWalk, String> {
    desk::tell(seed)
}
