// SPDX-License-Identifier: Apache-2.0
//! The directory of an exported snapshot.

use anyhow::{Result, anyhow, bail};
use helio_format::exported::{ExportError, ExportRecord, MAGIC};
use helio_link::checksum;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// What the record is called.
pub const RECORD: &str = "snapshot.helio";
/// A record that is not complete yet.
const NEW: &str = "snapshot.helio.new";

/// A directory that no other process uses as such.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Holds the lock, and is flushed when a name changes.
    folder: File,
    record: Option<ExportRecord>,
}

impl Folder {
    /// Locks the directory, and reads its record, if it has one.
    ///
    /// # Errors
    /// There is none, another process uses it, or its record cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        let shown = path.display();
        let folder = File::open(path).and_then(|folder| match folder.metadata()?.is_dir() {
            true => Ok(folder),
            false => Err(io::Error::from(ErrorKind::NotADirectory)),
        });
        let folder = folder.map_err(|why| {
            anyhow!("cannot open directory {shown}: {why}\n  hint: name a directory that exists")
        })?;
        match folder.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "another helio process uses {shown}\n  hint: wait until it ends; stop `helio snapshot import DIR` with Ctrl-C"
            ),
            Err(TryLockError::Error(why)) => {
                bail!("cannot lock directory {shown}: {why}\n  hint: use a local file system")
            }
        }
        let record = match fs::metadata(path.join(RECORD)) {
            Err(why) if why.kind() == ErrorKind::NotFound => None,
            _ => Some(read_record(&path.join(RECORD))?),
        };
        Ok(Self { path: path.to_path_buf(), folder, record })
    }

    /// As [`Self::open`], of a directory that is created if it is missing.
    ///
    /// # Errors
    /// As [`Self::open`], or it cannot be created.
    pub fn create(path: &Path) -> Result<Self> {
        if let Err(why) = fs::create_dir(path)
            && why.kind() != ErrorKind::AlreadyExists
        {
            let shown = path.display();
            bail!(
                "cannot create directory {shown}: {why}\n  hint: create the directory it is in first"
            );
        }
        Self::open(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The record, unless this is a new directory.
    #[must_use]
    pub const fn record(&self) -> Option<&ExportRecord> {
        self.record.as_ref()
    }

    /// Where the image of that volume is.
    #[must_use]
    pub fn image(&self, volume: &str) -> PathBuf {
        self.path.join(format!("{volume}.img"))
    }

    /// Replaces the record, durably. Returns its bytes.
    ///
    /// # Errors
    /// It cannot be written. The old one remains.
    pub fn keep(&mut self, record: ExportRecord) -> Result<Vec<u8>> {
        let bytes = record.encode(checksum);
        let new = self.path.join(NEW);
        let write = || {
            // A process that was killed left it, or it is a link of another user: nothing is written through it.
            match fs::remove_file(&new) {
                Err(why) if why.kind() != ErrorKind::NotFound => return Err(why),
                _ => {}
            }
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&new)?;
            if let Ok(old) = fs::symlink_metadata(self.path.join(RECORD)) {
                // Root keeps the owner of the old record. Other users are its owner already.
                let _given = fchown(&file, Some(old.uid()), Some(old.gid()));
            }
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&new, self.path.join(RECORD))?;
            self.folder.sync_all()
        };
        write().map_err(|why| {
            let path = self.path.join(RECORD);
            anyhow!(
                "cannot write {}: {why}\n  hint: free space on its disk, then repeat the command",
                path.display()
            )
        })?;
        self.record = Some(record);
        Ok(bytes)
    }
}

/// Reads a record.
///
/// # Errors
/// There is none, or it cannot be read.
pub fn read_record(path: &Path) -> Result<ExportRecord> {
    let shown = path.display();
    let hint = format!("name the {RECORD} of an exported snapshot");
    let bytes = regular(path).map_err(|why| match why.kind() {
        ErrorKind::PermissionDenied => {
            anyhow!("cannot read {shown}: {why}\n  hint: run the command as its owner, or as root")
        }
        _ => anyhow!("cannot read {shown}: {why}\n  hint: {hint}"),
    })?;
    let again = "if this was a record, remove it and export a snapshot to its directory again; that export compares everything";
    ExportRecord::decode(&bytes, checksum).map_err(|why| match why {
        ExportError::Foreign => anyhow!("{shown}: {why}\n  hint: {hint}; {again}"),
        ExportError::Version { .. } => {
            anyhow!("{shown}: {why}\n  hint: use the version of helio that wrote it")
        }
        ExportError::Damaged => anyhow!("{shown}: {why}\n  hint: {again}"),
    })
}

/// What a regular file holds: anything else may have no end.
fn regular(path: &Path) -> io::Result<Vec<u8>> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let mut file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    // Another kind of file can be large: its first bytes are enough for the error.
    Read::by_ref(&mut file).take(MAGIC.len() as u64).read_to_end(&mut bytes)?;
    if bytes == MAGIC {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
