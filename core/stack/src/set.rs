// SPDX-License-Identifier: Apache-2.0
//! What layers record, and what concerns the members of a volume that a layer keeps alike: what is asked and told of them.

use crate::contract::Leg;
use alloc::vec::Vec;
use helio_format::before::CopyNumber;
use helio_format::copying::PageBits;
use helio_format::members::VolumeMembers;
use helio_units::{Bytes, VolumeIndex};

/// What a layer makes durable in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerRecord {
    /// What every member of every volume is worth, volume by volume.
    Members(Vec<VolumeMembers>),
    /// A page of the bitmap of what a member lacks.
    Page {
        /// Whose.
        leg: Leg,
        /// Which page of it.
        page: u32,
        /// Its bits.
        bits: PageBits,
    },
    /// What the superblock says of copies.
    Copies(CopyRecord),
}

/// What the superblock is to say of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyRecord {
    /// The pool failed: expendable copies up to that number are over, whatever it lists.
    Over(CopyNumber),
    /// A rollback of that number may be under way, for which marks are durable; or there is none.
    Rollback(Option<CopyNumber>),
}

/// What the host reports of a member's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberEvent {
    /// An operation on it has been under way for as long as the member timeout.
    Silent,
    /// It is silent no more: every operation from before the silence has ended, or every one that was given up. It may be used
    /// again.
    Ended,
}

/// What the host sets of layers, at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerSetting {
    /// What a read of a member costs, as many operations under way on it as that.
    ReadCost {
        /// Which member.
        leg: Leg,
        /// How much.
        cost: u32,
    },
    /// How much merges that no operation waits for yield to applications: one that takes longer than so many hundredths of the
    /// least time that one took lately is followed by a pause. From 100,000 on there is none.
    MergeDelay(u32),
    /// The volumes, a bit for each, in which a layer may begin work that no operation waits for; at first it may in all. What is
    /// under way goes on to its end.
    Background(u64),
    /// The disk of a member that is not used is not as it was when the member was removed: its bitmap does not count.
    Distrust(Leg),
    /// The configuration names a member no more: it should not return, and counts for nothing once it is not used.
    Unnamed(Leg),
    /// An operation waits for a hot extent, and layers own all of them: what lets one cool is done first, without a pause, and also
    /// where nothing is permitted in the background.
    LetCool,
}

/// What an administrator, or the host, asks of the members of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOp {
    /// A member is to be used: it gets what it lacks, and is full then.
    Add {
        /// Which.
        leg: Leg,
        /// Refuse the member if its bitmap is not known.
        by_bitmap: bool,
    },
    /// A member is to be used no more until a command returns it. What it lacks from then on is recorded.
    Remove {
        /// Which.
        leg: Leg,
        /// Also if it does not end its operations.
        force: bool,
    },
    /// The full members are to be compared, and made equal where they differ.
    Merge(VolumeIndex),
}

/// Why that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetRefusal {
    /// No layer keeps several members of that volume, or only one holds all of it and there is none to merge it with.
    Unsupported,
    /// The volume has no such member.
    NoMember,
    /// It is used already.
    Used,
    /// It is not used.
    Unused,
    /// Nothing else holds all of the volume.
    Last,
    /// Operations on it that were given up have not ended.
    Late,
    /// What it lacks is not known.
    NoBitmap,
    /// The ledger cannot be written.
    NoRecord,
}

/// What a member of a set does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// It holds all of the volume, and is read.
    Full,
    /// It gets what it lacks.
    Copying {
        /// So much is left.
        left: Bytes,
    },
    /// It is not used.
    Removed {
        /// What it lacks, where that is known.
        lacks: Option<Bytes>,
        /// An administrator removed it: only a command returns it.
        withdrawn: bool,
    },
}

/// How a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// What it does.
    pub duty: Duty,
    /// Operations under way on it.
    pub depth: u32,
    /// Reads that it completed for what lies above, while the set had another member to take care of.
    pub reads: u64,
    /// Reads of it that failed and were repaired.
    pub repaired: u64,
}

/// How the members of a volume are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetStatus {
    /// Its members, by their numbers.
    pub members: Vec<Option<MemberStatus>>,
    /// A bit for each that the configuration names no more.
    pub unnamed: u8,
    /// Bytes in which full members may differ, and that are compared before anyone reads them.
    pub unmerged: Bytes,
    /// Further bytes in which nothing was ever written: they are compared when an operation first reads them, or writes a part.
    pub blank: Bytes,
    /// How far the last command to merge is recorded.
    pub merge: MergeRecord,
}

/// Whether a command to merge outlives the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeRecord {
    /// It does, as far as it is not done; or there was none.
    Durable,
    /// Not yet.
    UnderWay,
    /// It cannot be recorded.
    Failed,
}
