// SPDX-License-Identifier: Apache-2.0
//! The contract: what is asked of a store and of the group's copies, and how that ends.

use alloc::vec::Vec;
use core::fmt;
use helio_format::before::{
    CHUNK_BYTES, CopyClass, CopyNumber, CopyOwner, CopyView, KeptCopy, Slot,
};
use helio_units::{Bytes, Extent, MemberIndex, Payload, VolumeIndex};

/// Where an operation goes: to a member of a volume. Where a layer keeps several members of a volume alike, the volume as a whole is
/// named above it by its member zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leg {
    /// The volume.
    pub volume: VolumeIndex,
    /// Its member.
    pub member: MemberIndex,
}

impl Leg {
    /// A volume as a whole, or the only member that it has.
    #[must_use]
    pub const fn whole(volume: VolumeIndex) -> Self {
        Self { volume, member: MemberIndex(0) }
    }
}

/// One operation on this node's store of a volume: all that a store can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOp {
    /// Read into a buffer that the host provides.
    Read {
        /// Where.
        extent: Extent,
    },
    /// Write the payload.
    Write {
        /// Where.
        extent: Extent,
        /// What.
        payload: Payload,
        /// The bytes must be durable when it is done.
        fua: bool,
    },
    /// Make the extent read as zero.
    Zero {
        /// Where.
        extent: Extent,
        /// Space may be freed.
        punch: bool,
        /// Durable when it is done.
        fua: bool,
    },
    /// Give the space back; it reads as zero afterwards.
    Discard {
        /// Where.
        extent: Extent,
        /// Durable when it is done.
        fua: bool,
    },
    /// Make everything that is done durable.
    Flush,
    /// Report what is allocated: whether nothing is, so that all of it reads as zero. What a store cannot report is allocated.
    Map {
        /// Where.
        extent: Extent,
    },
}

impl StoreOp {
    /// Whether its success says that bytes are durable: a flush, or FUA, which is a write and a flush on most disks.
    #[must_use]
    pub const fn is_flush(&self) -> bool {
        match self {
            Self::Flush => true,
            Self::Write { fua, .. } | Self::Zero { fua, .. } | Self::Discard { fua, .. } => *fua,
            _ => false,
        }
    }

    /// The bytes that it reads.
    #[must_use]
    pub const fn reads(&self) -> Option<Extent> {
        if let Self::Read { extent } = *self { Some(extent) } else { None }
    }

    /// The bytes that it changes.
    #[must_use]
    pub const fn changes(&self) -> Option<Extent> {
        match *self {
            Self::Write { extent, .. }
            | Self::Zero { extent, .. }
            | Self::Discard { extent, .. } => Some(extent),
            Self::Read { .. } | Self::Flush | Self::Map { .. } => None,
        }
    }

    /// The bytes that it changes, reads, or reports on.
    #[must_use]
    pub const fn touches(&self) -> Option<Extent> {
        match *self {
            Self::Read { extent } | Self::Map { extent } => Some(extent),
            _ => self.changes(),
        }
    }

    /// The bytes that it writes.
    #[must_use]
    pub const fn payload(&self) -> Option<Payload> {
        if let Self::Write { payload, .. } = *self { Some(payload) } else { None }
    }
}

/// How a store failed, as it reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// The device cannot read or write there (EIO).
    Io,
    /// The file system is full (ENOSPC).
    NoSpace,
    /// Fewer bytes were moved than asked for.
    Short,
    /// It did not complete the operation in time, and may still do so.
    Silent,
    /// No store failed: the metadata of this node cannot record what the operation needs on record.
    Unrecorded,
    /// No store failed: the operation waited for something that does not come, and was never issued.
    Unissued,
    /// Another error number.
    Other(i32),
}

impl StoreFault {
    /// Whether a store failed: otherwise the operation failed before it was issued to one.
    #[must_use]
    pub const fn is_of_store(self) -> bool {
        !matches!(self, Self::Unrecorded | Self::Unissued)
    }
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io => f.write_str("I/O error (EIO)"),
            Self::NoSpace => f.write_str("no space left on the disk (ENOSPC)"),
            Self::Short => f.write_str("the disk transferred fewer bytes than requested"),
            Self::Silent => f.write_str("the disk does not respond"),
            Self::Unrecorded => f.write_str("the metadata file cannot record it"),
            Self::Unissued => f.write_str("the operation was given up before it reached the disk"),
            Self::Other(errno) => write!(f, "error number {errno} from the disk"),
        }
    }
}

/// How an operation on a store ended. Each ends exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The bytes that were read; who gets them releases them.
    Read(Payload),
    /// Whether nothing is allocated there, so that all of it reads as zero.
    Mapped {
        /// Nothing is.
        empty: bool,
    },
    /// It failed: what it was to change holds the old bytes, the new ones, or a mixture.
    Failed(StoreFault),
    /// A flush failed, or an operation with FUA: what was done before it and not made durable may be lost.
    Unsure(StoreFault),
    /// Nothing was touched: there is no room for what must be preserved first.
    Refused(Shortage),
}

impl Outcome {
    /// How the operation failed, if it did; what was refused had no room.
    #[must_use]
    pub const fn fault(&self) -> Option<StoreFault> {
        match *self {
            Self::Failed(fault) | Self::Unsure(fault) => Some(fault),
            Self::Refused(_) => Some(StoreFault::NoSpace),
            Self::Done | Self::Read(_) | Self::Mapped { .. } => None,
        }
    }

    /// How an operation fails with that fault.
    #[must_use]
    pub const fn failed(op: &StoreOp, fault: StoreFault) -> Self {
        if op.is_flush() { Self::Unsure(fault) } else { Self::Failed(fault) }
    }
}

/// Room that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Bytes that it takes in all; zero where the pool failed.
    pub needed: Bytes,
    /// Bytes that there could be.
    pub free: Bytes,
}

impl Shortage {
    /// The pool failed: no room helps.
    pub const FAILED: Self = Self { needed: Bytes::ZERO, free: Bytes::ZERO };
}

/// What is asked of the copies of a group. One at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyOp {
    /// Preserve the group as it is at a moment, durably: everything done before it is made durable. Once the layer is ready
    /// ([`Out::CutReady`](crate::Out::CutReady)), [`Stack::cut`](crate::Stack::cut) says that this is the moment.
    Cut {
        /// What happens where there is no room for a before-image.
        class: CopyClass,
        /// Whom it is for; layers do not look at it.
        owner: CopyOwner,
        /// Bytes of the volumes that are about to be overwritten, as far as that is known: room for them is reserved from the
        /// start.
        overwritten: Bytes,
    },
    /// Make room for so many bytes that will be overwritten from now on.
    Reserve {
        /// As for a cut.
        overwritten: Bytes,
    },
    /// Make the volumes what they were when that copy was cut, durably. Nothing else is under way.
    Restore(CopyNumber),
    /// At a moment, as for a cut, the volumes hold what that copy holds, and are used on. What differs is put back in time.
    Rollback(CopyNumber),
    /// Preserve nothing for that copy any more, durably, and give the room back that no other one needs.
    Drop(CopyNumber),
}

/// Operations of a layer's own failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberFault {
    /// On which volumes: bit n where it was volume n. At least one.
    pub volumes: u64,
    /// On which volume the first one failed.
    pub volume: VolumeIndex,
    /// How that one failed.
    pub fault: StoreFault,
}

/// How that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyOutcome {
    /// It is done.
    Done,
    /// The copy of that number is cut, or the rollback of that number is durable.
    Cut(CopyNumber),
    /// There is no room; nothing has changed.
    NoRoom(Shortage),
    /// What is preserved is damaged; nothing was put back.
    Damaged,
    /// The list has no place for one more copy; nothing has changed.
    TooMany,
    /// There is no such copy: if it was expendable, it is over. Nothing was put back.
    Over,
    /// The pool failed. A restore may have put a part back.
    PoolFailed(StoreFault),
    /// Members failed where they were read or written.
    MemberFailed(MemberFault),
    /// Flushes of members failed.
    FlushFailed(MemberFault),
    /// A cut had no moment; nothing has changed.
    Cancelled,
    /// The ledger cannot say that a rollback is under way; nothing has changed.
    Unrecorded,
    /// No layer does that.
    Unsupported,
}

/// A copy that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldCopy {
    /// As the pool lists it.
    pub copy: KeptCopy,
    /// Bytes of the volumes that may differ from it.
    pub changed: Bytes,
    /// Of these, bytes that are preserved for this copy alone, or for older ones too.
    pub preserved: Bytes,
    /// Bytes of its branch.
    pub branch: Bytes,
}

/// How the copies are that are preserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyStatus {
    /// Bytes preserved for all copies.
    pub preserved: Bytes,
    /// Whether the pool works.
    pub pool: PoolHealth,
}

/// How far a rollback is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollbackStatus {
    /// To that copy.
    pub to: CopyNumber,
    /// Bytes that are to be put back still.
    pub left: Bytes,
    /// It cannot be continued before the process starts again.
    pub failed: Option<StoreFault>,
}

/// Whether before-images can be preserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolHealth {
    /// They can.
    #[default]
    Works,
    /// The pool failed like that; it is of no use until the process starts again.
    Failed(StoreFault),
    /// Members failed where they were read to be preserved. The copy preserves nothing more until the process starts again.
    Unread(MemberFault),
}

/// Neighbouring chunks of a volume, and what they held; or any part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Of this volume.
    pub volume: VolumeIndex,
    /// Where: in what is preserved whole chunks, but for the end of the volume.
    pub extent: Extent,
    /// Its bytes; released by who asked.
    pub payload: Payload,
}

impl Row {
    /// Its chunks, each with its part of `blocks`, which stand for `block` bytes each of what the row held.
    pub fn chunks<T>(
        self,
        blocks: &[T],
        block: Bytes,
    ) -> impl Iterator<Item = ((VolumeIndex, Extent), &[T])> {
        let parts = (0..).zip(blocks.chunks((CHUNK_BYTES / block.0) as usize));
        parts.map(move |(n, part)| {
            let offset = self.extent.offset + n * CHUNK_BYTES;
            let length = CHUNK_BYTES.min(self.extent.end() - offset);
            ((self.volume, Extent::new(offset, length)), part)
        })
    }
}

/// An operation on a copy: a read, or on its branch a write, zeros or a flush, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyIo {
    /// Its name.
    pub name: u64,
    /// On which copy.
    pub on: CopyView,
    /// On this volume, ...
    pub volume: VolumeIndex,
    /// ... this.
    pub op: StoreOp,
}

/// Lays the part of `from` that lies in `extent` over `onto`. `onto` is what that holds, and `from` what `chunk` holds, an element for
/// each `block` bytes.
///
/// # Panics
/// If one of them is shorter than its extent.
pub fn lay_over<T: Copy>(
    (extent, onto): (Extent, &mut [T]),
    (chunk, from): (Extent, &[T]),
    block: Bytes,
) {
    let (first, end) = (extent.offset.max(chunk.offset), extent.end().min(chunk.end()));
    if first < end {
        let range = |of: Extent| {
            ((first - of.offset) / block.0) as usize..((end - of.offset) / block.0) as usize
        };
        onto[range(extent)].copy_from_slice(&from[range(chunk)]);
    }
}

/// What is asked of the pool, where before-images lie. One at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolOp {
    /// Make room for so many records in all.
    Reserve {
        /// How many.
        records: u64,
    },
    /// These copies count from now on, durably; without copies all room is given back. The host fills in when each was cut.
    List {
        /// The copies, by number.
        copies: Vec<KeptCopy>,
        /// What the records add to the sum that count no more; see [`helio_format::before::fingerprint`].
        freed: u64,
    },
    /// Preserve these, durably.
    Append {
        /// For this copy, and for the older ones that lack them; or as what its branch begins with there. Then they may be amended.
        of: CopyView,
        /// What.
        rows: Vec<Row>,
        /// Where the record of each chunk goes, in the order of the rows.
        slots: Vec<Slot>,
    },
    /// Read these, and check them.
    Check {
        /// Where each lies, and what it preserves.
        records: Vec<(Slot, (VolumeIndex, Extent))>,
    },
    /// The same, and return what they preserve, in this order.
    Load {
        /// Where each lies, and what it preserves.
        records: Vec<(Slot, (VolumeIndex, Extent))>,
    },
    /// The same, and lay what they preserve over other bytes: return one row, as long as those.
    Overlay {
        /// These bytes, which stay as they are, ...
        base: Row,
        /// ... with the parts of these that lie in their extent.
        records: Vec<(Slot, (VolumeIndex, Extent))>,
    },
    /// Overwrite what records of a branch hold. A flush makes that durable.
    Amend {
        /// Where, ...
        extent: Extent,
        /// ... by these bytes, or by zeros, ...
        payload: Option<Payload>,
        /// ... in these, as far as they lie in it.
        records: Vec<(Slot, (VolumeIndex, Extent))>,
    },
    /// Make what was amended durable.
    Flush,
}

impl PoolOp {
    /// Whether it only reads the pool.
    #[must_use]
    pub const fn reads(&self) -> bool {
        matches!(self, Self::Check { .. } | Self::Load { .. } | Self::Overlay { .. })
    }
}

/// How that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolOutcome {
    /// It is done.
    Done,
    /// What was loaded: a row for each record, or the one that was laid over another. Who gets the payloads releases them.
    Loaded(Vec<Row>),
    /// There is no room; nothing has changed.
    NoRoom {
        /// Bytes that there could be.
        free: Bytes,
    },
    /// What is preserved is damaged.
    Damaged,
    /// It failed.
    Failed(StoreFault),
}
