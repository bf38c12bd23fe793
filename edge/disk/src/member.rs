// SPDX-License-Identifier: Apache-2.0
//! An open member: its facts, and requests turned into operations.

use crate::error::StoreError;
use crate::identity::MemberIdentity;
use crate::nameplate::{self, Claim};
use crate::open::Held;
use crate::prepare::Space;
use helio_driver::{Buffer, Errno, File, Op, Piece, Service, Shared};
use helio_units::{Bytes, Extent};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What kind of store a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreKind {
    /// A file in a file system.
    File,
    /// A block device.
    Device,
}

/// A store that is open, locked and fit for use. Dropping it, once no operation holds its file, gives it free.
///
/// The methods that make operations check the request against the store's size and blocks and touch nothing;
/// the driver does the work, and [`StoreError`] sorts what it reports.
#[derive(Debug)]
pub struct Member {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) kind: StoreKind,
    pub(crate) identity: MemberIdentity,
    pub(crate) nameplate: Option<String>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) stamp: Option<Vec<u8>>,
    pub(crate) size: Bytes,
    pub(crate) alignment: Bytes,
    pub(crate) memory_alignment: Bytes,
    pub(crate) space: Space,
    pub(crate) failed_flush: Option<Errno>,
    pub(crate) trims: bool,
    pub(crate) gives_back: bool,
}

impl Member {
    /// The same store, to be measured anew; the lock on it is shared.
    #[must_use]
    pub fn held(&self) -> Held {
        Held { path: self.path.clone(), file: self.file.clone() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// File or device.
    #[must_use]
    pub const fn kind(&self) -> StoreKind {
        self.kind
    }

    /// Which bytes it is, whatever its path.
    #[must_use]
    pub const fn identity(&self) -> MemberIdentity {
        self.identity
    }

    /// Which disk it is, whatever its path, in words that stay the same as long as it is that one; none where nothing
    /// tells.
    #[must_use]
    pub fn nameplate(&self) -> Option<&str> {
        self.nameplate.as_deref()
    }

    /// What tells its disk wherever it is reached from; nothing if nothing tells. At most two.
    #[must_use]
    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// The stamp that it had when it was opened, if it had one. A block device never has.
    #[must_use]
    pub fn stamp(&self) -> Option<&[u8]> {
        self.stamp.as_deref()
    }

    /// Where operations on it are performed.
    #[must_use]
    pub fn service(&self) -> Service {
        self.file.service()
    }

    /// Whether it is a file on a file system that keeps a stamp with it.
    #[must_use]
    pub fn keeps_stamp(&self) -> bool {
        self.nameplate().is_some_and(nameplate::keeps_stamp)
    }

    /// Gives a file a stamp, durably. Blocks: for a member that nothing was written to since it was opened.
    ///
    /// # Errors
    /// Its file system keeps none, or it fails.
    pub fn set_stamp(&self, stamp: &[u8]) -> std::io::Result<()> {
        Ok(nameplate::set_stamp(&self.file, stamp)?)
    }

    /// Gives a file a stamp, which [`Member::flush_all`] makes durable. None for a block device.
    #[must_use]
    pub fn stamping(&self, stamp: &[u8]) -> Option<Op> {
        let (file, value) = (self.file.clone(), stamp.to_vec());
        let is_file = self.kind == StoreKind::File;
        is_file.then_some(Op::SetAttribute { file, name: nameplate::STAMP, value })
    }

    /// The volume's size; a device may be larger.
    #[must_use]
    pub const fn size(&self) -> Bytes {
        self.size
    }

    /// The smallest block reads and writes must keep to, at least 512 bytes; to be advertised as the volume's
    /// minimum block.
    #[must_use]
    pub const fn alignment(&self) -> Bytes {
        self.alignment
    }

    /// How its space is held.
    #[must_use]
    pub const fn space(&self) -> Space {
        self.space
    }

    /// Why the flush of its opening failed, if it did: what was written to it before and was not durable may be lost, and no
    /// later flush tells. A block device is not flushed when it is opened: its first flush tells.
    #[must_use]
    pub const fn failed_flush(&self) -> Option<Errno> {
        self.failed_flush
    }

    /// Whether discards are worth offering: they read as zero afterwards, and take no time to speak of.
    /// [`Member::discard`] works and reads as zero in any case.
    #[must_use]
    pub const fn trims(&self) -> bool {
        self.trims
    }

    /// Reads `extent` into the front of `buffer`.
    ///
    /// # Errors
    /// Where the request does not fit the store; the buffer is dropped.
    pub fn read(&self, extent: Extent, buffer: Buffer) -> Result<Op, StoreError> {
        self.check_blocks(extent)?;
        if (buffer.len() as u64) < extent.length {
            return Err(self.unaligned(extent));
        }
        Ok(Op::Read { file: self.file.clone(), extent, buffer })
    }

    /// Writes `range` of `payload` over `extent`. With `fua` the write completes when it is stable.
    ///
    /// # Errors
    /// Where the request does not fit the store.
    pub fn write(
        &self,
        extent: Extent,
        payload: Shared,
        range: Range<usize>,
        fua: bool,
    ) -> Result<Op, StoreError> {
        self.check_blocks(extent)?;
        let fits = payload.get(range.clone()).is_some_and(|it| it.len() as u64 == extent.length);
        if !fits || !(range.start as u64).is_multiple_of(self.memory_alignment.0) {
            return Err(self.unaligned(extent));
        }
        let pieces = vec![Piece::Shared(payload, range)];
        Ok(Op::Write { file: self.file.clone(), extent, pieces, sync: fua })
    }

    /// Finds out where data lies; see [`Op::Map`].
    ///
    /// # Errors
    /// The extent leaves the volume.
    pub fn map(&self, extent: Extent) -> Result<Op, StoreError> {
        self.check_bounds(extent)?;
        Ok(Op::Map { file: self.file.clone(), extent })
    }

    /// Makes every write that has completed stable.
    #[must_use]
    pub fn flush(&self) -> Op {
        Op::SyncData { file: self.file.clone() }
    }

    /// As [`Member::flush`], and the stamp that it has is durable, too.
    #[must_use]
    pub fn flush_all(&self) -> Op {
        Op::SyncAll { file: self.file.clone() }
    }

    /// Discards `extent`, which then reads as zero. Space goes back to the file system where the store is
    /// sparse, to the device where that reads as zero; an allocated file stays allocated.
    ///
    /// # Errors
    /// Where the request does not fit the store.
    pub fn discard(&self, extent: Extent) -> Result<Op, StoreError> {
        self.zero(extent, true)
    }

    /// Makes `extent` read as zero. With `may_punch` its space may go back as in [`Member::discard`]. Where the
    /// store knows no quicker way, zeroes are written.
    ///
    /// # Errors
    /// Where the request does not fit the store. A file takes any extent, a device whole blocks.
    pub fn zero(&self, extent: Extent, may_punch: bool) -> Result<Op, StoreError> {
        match self.kind {
            StoreKind::File => self.check_bounds(extent)?,
            StoreKind::Device => self.check_blocks(extent)?,
        }
        let file = self.file.clone();
        Ok(if may_punch && self.gives_back {
            Op::Punch { file, extent }
        } else {
            Op::Zero { file, extent }
        })
    }

    fn check_bounds(&self, extent: Extent) -> Result<(), StoreError> {
        // `end` saturates: an overflowing extent ends at u64::MAX, where no store does.
        if extent.end() > self.size.0 {
            return Err(StoreError::OutOfBounds { extent, size: self.size });
        }
        Ok(())
    }

    fn check_blocks(&self, extent: Extent) -> Result<(), StoreError> {
        self.check_bounds(extent)?;
        let whole = |number: u64| number.is_multiple_of(self.alignment.0);
        if !whole(extent.offset) || !whole(extent.length) {
            return Err(self.unaligned(extent));
        }
        Ok(())
    }

    const fn unaligned(&self, extent: Extent) -> StoreError {
        StoreError::Unaligned { extent, alignment: self.alignment }
    }
}
