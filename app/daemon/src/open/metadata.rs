// SPDX-License-Identifier: Apache-2.0
//! A group's metadata file: opened, read, and held against the configuration.

use super::private;
use anyhow::{Result, anyhow, bail};
use helio_format::superblock::Superblock;
use helio_ledger::files::WritableFile;
use helio_ledger::{Ledger, LedgerError, MetadataFile, Opened, PAGE_BYTES};
use helio_units::Bytes;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Opens it for reading and writing; makes an empty one if asked to.
pub(super) fn open(path: &Path, make: bool) -> Result<File> {
    let opened = private().read(true).write(true).create(make).truncate(false).open(path);
    opened.map_err(|error| {
        anyhow!(
            "the metadata {} cannot be opened: {error}\n  hint: let the daemon's user read and write this file, or give \
             the daemon another --state",
            path.display()
        )
    })
}

/// A metadata file that is read page by page.
pub(super) struct OnDisk<'a> {
    pub(super) file: &'a File,
    pub(super) length: u64,
    pub(super) shown: &'a str,
    /// Why the file is not written: there is no room for it.
    pub(super) fails: Option<std::io::Error>,
}

impl WritableFile for OnDisk<'_> {
    type Error = std::io::Error;

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Self::Error> {
        if let Some(error) = self.fails.take() {
            return Err(error);
        }
        self.file.write_all_at(bytes, offset)
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        self.file.sync_all()
    }
}

impl MetadataFile for OnDisk<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    fn page(&self, offset: u64, into: &mut [u8; PAGE_BYTES]) -> bool {
        let read = self.file.read_exact_at(into, offset);
        if let Err(error) = &read {
            tracing::warn!(file = self.shown, offset, %error, "a page of the metadata cannot be read");
        }
        read.is_ok()
    }
}

/// Reads it. It must belong to this group and node.
pub(super) fn read(file: &File, shown: &str, engine: &helio_engine::Config) -> Result<Opened> {
    let owner = (engine.group.as_str(), engine.node.as_str());
    let on_disk = OnDisk { file, length: file.metadata()?.len(), shown, fails: None };
    Ledger::open(&on_disk, owner, helio_link::checksum).map_err(|error| {
        let not = match error {
            LedgerError::Owner { .. } => format!(", not to {} on {}", owner.0, owner.1),
            _ => String::new(),
        };
        anyhow!("{shown}: {error}{not}\n  hint: {}", error.hint(owner))
    })
}

/// It must be about the volumes that the configuration names.
pub(super) fn fits(found: &Superblock, engine: &helio_engine::Config, shown: &str) -> Result<()> {
    let sizes: Vec<u64> = engine.volumes.iter().map(|v| v.0).collect();
    if found.sizes != sizes {
        bail!(
            "the volumes of group {} have sizes {sizes:?} bytes in the configuration and {:?} in {shown}\n  \
             hint: restore the sizes and the order of the volumes in the file",
            engine.group,
            found.sizes
        );
    }
    if u64::from(found.granularity) != engine.granularity.0 {
        bail!(
            "dirty regions of group {} are {} each in the configuration and {} in {shown}\n  hint: restore \
             `granularity` in the file",
            engine.group,
            engine.granularity,
            Bytes(u64::from(found.granularity))
        );
    }
    Ok(())
}
