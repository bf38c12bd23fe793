// SPDX-License-Identifier: Apache-2.0
//! Saving the superblock so that a crash at any moment leaves the old one or the new one.
//!
//! ```text
//!            save                    written                 flushed
//!   Idle ───────────> Writing(slot) ─────────> Flushing(slot) ───────> Idle, slot is current
//!                        │ failed                  │ failed
//!                        └──────────> Poisoned <───┘
//! ```
//! The slot written is always the one the current superblock is not in. After a failed write or flush nobody
//! knows what the disk holds, so the store refuses further saves until it is opened again.

use alloc::vec::Vec;
use core::fmt;
use helio_format::Checksum;
use helio_format::superblock::{SLOT_BYTES, SLOTS, SlotError, Superblock};

/// Size of the metadata file's superblock area in bytes.
pub const METADATA_BYTES: usize = SLOT_BYTES * SLOTS;

/// What the owner of the metadata file must do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataEffect {
    /// Write these bytes at this byte offset, then call [`SuperblockStore::written`].
    Write {
        /// Byte offset in the metadata file.
        offset: u64,
        /// One slot.
        bytes: Vec<u8>,
    },
    /// Make the file durable, then call [`SuperblockStore::flushed`].
    Flush,
}

/// Why no superblock could be opened or saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperblockError {
    /// Both slots are unusable; what each one shows.
    Unreadable([SlotError; SLOTS]),
    /// An earlier save failed; what the disk holds is unknown until it is opened again.
    Poisoned,
}

impl fmt::Display for SuperblockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable([a, b]) => {
                write!(f, "neither superblock slot can be used: slot 0 {a}; slot 1 {b}")
            }
            Self::Poisoned => {
                f.write_str("an earlier save failed; the metadata must be opened again")
            }
        }
    }
}

impl core::error::Error for SuperblockError {}

/// What opening found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// Never written: a new node.
    Fresh,
    /// The newest whole superblock.
    Found(Superblock),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    Writing,
    Flushing,
    Poisoned,
}

/// The state machine drawn above.
#[derive(Debug)]
pub struct SuperblockStore {
    checksum: Checksum,
    stage: Stage,
    /// The slot the next save goes to.
    next_slot: usize,
    /// The highest save count seen or issued.
    saves: u64,
}

impl SuperblockStore {
    /// Reads both slots, as they stand at the start of the metadata file. The caller has flushed the file since it
    /// was last written: the newest slot may be the work of a process that died before its own flush, and the next
    /// save goes over the other one.
    ///
    /// # Errors
    /// Neither slot can be used although at least one was written.
    pub fn open(
        area: &[u8; METADATA_BYTES],
        checksum: Checksum,
    ) -> Result<(Self, Opened), SuperblockError> {
        let slot = |n: usize| {
            let mut bytes = [0; SLOT_BYTES];
            bytes.copy_from_slice(&area[n * SLOT_BYTES..(n + 1) * SLOT_BYTES]);
            Superblock::decode(&bytes, checksum)
        };
        let (current, found) = match (slot(0), slot(1)) {
            (Ok(a), Ok(b)) if a.saves > b.saves => (0, a),
            (_, Ok(b)) => (1, b),
            (Ok(a), Err(_)) => (0, a),
            (Err(SlotError::Empty), Err(SlotError::Empty)) => {
                let store = Self { checksum, stage: Stage::Idle, next_slot: 0, saves: 0 };
                return Ok((store, Opened::Fresh));
            }
            (Err(a), Err(b)) => return Err(SuperblockError::Unreadable([a, b])),
        };
        let store =
            Self { checksum, stage: Stage::Idle, next_slot: 1 - current, saves: found.saves };
        Ok((store, Opened::Found(found)))
    }

    /// Begins to save; `superblock.saves` is set to the count this save gets.
    ///
    /// # Errors
    /// An earlier save failed.
    ///
    /// # Panics
    /// On a save while another is under way, which is the caller's mistake.
    pub fn save(&mut self, superblock: &mut Superblock) -> Result<MetadataEffect, SuperblockError> {
        match self.stage {
            Stage::Idle => {}
            Stage::Poisoned => return Err(SuperblockError::Poisoned),
            Stage::Writing | Stage::Flushing => panic!("two superblock saves at once"),
        }
        self.saves += 1;
        superblock.saves = self.saves;
        self.stage = Stage::Writing;
        let offset = (self.next_slot * SLOT_BYTES) as u64;
        Ok(MetadataEffect::Write { offset, bytes: superblock.encode(self.checksum) })
    }

    /// The slot was written, or could not be.
    pub fn written(&mut self, ok: bool) -> Option<MetadataEffect> {
        assert_eq!(self.stage, Stage::Writing, "a slot was written that nobody asked for");
        self.stage = if ok { Stage::Flushing } else { Stage::Poisoned };
        ok.then_some(MetadataEffect::Flush)
    }

    /// The file was made durable, or could not be. Returns whether the save holds.
    pub fn flushed(&mut self, ok: bool) -> bool {
        assert_eq!(self.stage, Stage::Flushing, "a flush ended that nobody asked for");
        self.stage = if ok { Stage::Idle } else { Stage::Poisoned };
        if ok {
            self.next_slot = 1 - self.next_slot;
        }
        ok
    }

    /// Whether a save may begin.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_format::slow_crc32c;
    use helio_units::Sequence;

    type Area = [u8; METADATA_BYTES];

    fn superblock(head: u64) -> Superblock {
        let mut s = Superblock::new("db", "paris", [4096].into());
        s.head = Sequence(head);
        s
    }

    /// Saves with a crash after `sectors` sectors of the slot reached the disk.
    fn save(area: &mut Area, head: u64, sectors: usize) {
        let (mut store, _) = SuperblockStore::open(area, slow_crc32c).expect("opens");
        let Ok(MetadataEffect::Write { offset, bytes }) = store.save(&mut superblock(head)) else {
            panic!("no write");
        };
        let (at, n) = (offset as usize, sectors * 512);
        area[at..at + n].copy_from_slice(&bytes[..n]);
    }

    fn head(area: &Area) -> Option<u64> {
        match SuperblockStore::open(area, slow_crc32c).expect("opens").1 {
            Opened::Fresh => None,
            Opened::Found(s) => Some(s.head.0),
        }
    }

    #[test]
    fn a_crash_at_any_sector_of_a_save_leaves_the_old_or_the_new() {
        for sectors in 0..=8 {
            let mut area = [0; METADATA_BYTES];
            for n in 1..=3 {
                save(&mut area, n, 8);
                assert_eq!(head(&area), Some(n));
            }
            save(&mut area, 4, sectors);
            assert_eq!(head(&area), Some(if sectors == 8 { 4 } else { 3 }), "{sectors} sectors");
            save(&mut area, 5, 8);
            assert_eq!(head(&area), Some(5), "the save after the torn one");
        }
    }

    #[test]
    fn a_new_file_is_fresh_and_two_damaged_slots_are_not() {
        let mut area = [0; METADATA_BYTES];
        assert_eq!(head(&area), None);
        area[0] = 1;
        area[SLOT_BYTES] = 1;
        let opened = SuperblockStore::open(&area, slow_crc32c);
        assert_eq!(opened.map(|_| ()), Err(SuperblockError::Unreadable([SlotError::Damaged; 2])));
    }

    #[test]
    fn a_failed_flush_poisons_the_store() {
        let (mut store, _) =
            SuperblockStore::open(&[0; METADATA_BYTES], slow_crc32c).expect("opens");
        assert!(store.save(&mut superblock(1)).is_ok());
        assert_eq!(store.written(true), Some(MetadataEffect::Flush));
        assert!(!store.flushed(false));
        assert_eq!(store.save(&mut superblock(2)), Err(SuperblockError::Poisoned));
    }

    #[test]
    fn the_first_torn_save_of_all_is_a_damaged_file_not_a_fresh_one() {
        let mut area = [0; METADATA_BYTES];
        save(&mut area, 1, 3);
        // Slot 1 is still all zeros, so nothing was ever promised: but it must be said, not guessed.
        let opened = SuperblockStore::open(&area, slow_crc32c);
        assert!(matches!(
            opened,
            Err(SuperblockError::Unreadable([SlotError::Damaged, SlotError::Empty]))
        ));
    }
}
