// SPDX-License-Identifier: Apache-2.0
//! A group's metadata file, read and written by a process that is not its daemon.

use crate::open::StateDir;
use helio_driver::{File, Linux, Machine, Mode, OFlags};
use helio_format::files::{FileRecord, Standing};
use helio_format::superblock::Superblock;
use helio_ledger::files;
use helio_ledger::{Change, Ledger, MetadataEffect, MetadataFile, PAGE_BYTES};
use std::path::Path;

/// A metadata file that is read page by page.
#[derive(Debug)]
pub struct OnDisk {
    /// The file.
    pub file: File,
    /// How long it is.
    pub length: u64,
}

impl OnDisk {
    /// A file that is open.
    ///
    /// # Errors
    /// Its length cannot be read.
    pub fn of(file: File) -> std::io::Result<Self> {
        let length = file.body().facts()?.length.0;
        Ok(Self { file, length })
    }

    /// Opens a file of this machine, to be read.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        Self::of(Linux::default().open(path, OFlags::RDONLY, Mode::empty())?)
    }
}

impl MetadataFile for OnDisk {
    fn length(&self) -> u64 {
        self.length
    }

    fn page(&self, offset: u64, into: &mut [u8; PAGE_BYTES]) -> bool {
        self.file.read_exact_at(into, offset).is_ok()
    }
}

/// Opens a metadata file that exists, and locks it for as long as the file is open.
///
/// # Errors
/// It cannot be opened, or another process, such as the daemon that serves its group, has it locked.
pub fn locked(path: &Path) -> anyhow::Result<File> {
    crate::open::metadata::open(&Linux::host(), path, false)
}

/// Makes a state directory, with names that are durable.
///
/// # Errors
/// It cannot be made or flushed.
pub fn make_state(state: &Path) -> std::io::Result<()> {
    StateDir::make(&Linux::host(), state)
}

/// Locks a state directory against daemons for as long as the file is open. None if one uses it.
///
/// # Errors
/// The file cannot be made in it.
pub fn lock_state(state: &Path) -> std::io::Result<Option<File>> {
    let file = StateDir::lock_file(&Linux::host(), state)?;
    Ok(file.body().lock().unwrap_or(false).then_some(file))
}

/// Writes both copies of the superblock's page, each flushed before the next.
///
/// # Errors
/// The file cannot be written.
///
/// # Panics
/// Where the ledger was used before: a mistake of ours.
pub fn write_superblock(mut ledger: Ledger, new: Superblock, file: &File) -> std::io::Result<()> {
    let refused = ledger.keep(Change::Superblock(Box::new(new)));
    assert!(refused.is_none(), "a ledger just opened refuses a change");
    settle(&mut ledger, file)
}

/// The superblock of metadata that a start is about to change. It has the age from before the change, so that restarts do not make an
/// older file look as young as the one that the peer has on record.
pub(crate) fn with_age(ledger: &Ledger, found: &Superblock) -> Superblock {
    let mut superblock = found.clone();
    if !superblock.is_new() {
        superblock.reported = superblock.reported.or(Some(ledger.sequence()));
    }
    superblock
}

/// Writes everything that a ledger has queued.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn settle(ledger: &mut Ledger, file: &File) -> std::io::Result<()> {
    while !ledger.is_idle() {
        let mut effects = Vec::new();
        ledger.next(&mut effects);
        if effects.is_empty() {
            break;
        }
        for effect in effects {
            match effect {
                MetadataEffect::Write { offset, bytes } => {
                    file.write_all_at(&bytes, offset)?;
                    ledger.written(true);
                }
                MetadataEffect::Flush => {
                    file.sync_all()?;
                    ledger.flushed(true);
                }
            }
        }
    }
    Ok(())
}

/// Records that this file, which has this owner's mark, counts, and another one of the group does not. `found` is what the file
/// records until then.
///
/// # Errors
/// The file cannot be written.
pub fn count_alone(file: &File, found: FileRecord, owner: u32) -> std::io::Result<()> {
    if found.standing == Standing::Alone {
        return Ok(());
    }
    let record = FileRecord { standing: Standing::Alone, epoch: found.epoch + 1 };
    let page = files::record_page(record, owner, helio_link::checksum);
    for place in files::record_places() {
        file.write_all_at(&page, place)?;
        file.sync_all()?;
    }
    Ok(())
}
