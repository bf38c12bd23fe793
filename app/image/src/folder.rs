// SPDX-License-Identifier: Apache-2.0
//! The directory of an exported snapshot.

use crate::crc32c;
use anyhow::{Result, anyhow, bail};
use helio_format::exported::{ExportError, ExportRecord};
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
                "another helio process uses {shown}\n  hint: wait for its end; a server that `helio snapshot import DIR` started ends with Ctrl-C"
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
        let bytes = record.encode(crc32c);
        let new = self.path.join(NEW);
        let write = || {
            // Whatever is there under this name, a process that was killed or somebody else left it.
            match fs::remove_file(&new) {
                Err(why) if why.kind() != ErrorKind::NotFound => return Err(why),
                _ => {}
            }
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&new)?;
            if let Ok(old) = fs::symlink_metadata(self.path.join(RECORD)) {
                // Only root may give it to its owner, and nobody else has to.
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
    let again = "if it was one, remove it, and export a snapshot to its directory again: everything is compared then";
    ExportRecord::decode(&bytes, crc32c).map_err(|why| match why {
        ExportError::Foreign => anyhow!("{shown}: {why}\n  hint: {hint}; {again}"),
        ExportError::Version { .. } => {
            anyhow!("{shown}: {why}\n  hint: use the helio that wrote it")
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
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_format::exported::{ChunkSet, ExportStage, Exported, ExportedVolume};
    use helio_units::{Bytes, Sequence, WallTime};

    fn record() -> ExportRecord {
        let of = Exported {
            group: "db".to_owned(),
            name: "now".to_owned(),
            generation: "1.0a".to_owned(),
            node: "paris".to_owned(),
            identity: "1.0a.3".to_owned(),
            position: Sequence(3),
            at: WallTime(0),
            consistent: true,
        };
        let size = Bytes::mib(1);
        let volume = ExportedVolume {
            name: "data".to_owned(),
            size,
            written: 0,
            image: String::new(),
            differs: ChunkSet::new(size),
        };
        ExportRecord { of, stage: ExportStage::Copying, volumes: vec![volume] }
    }

    #[test]
    fn a_directory_belongs_to_one_process_and_keeps_its_record() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("copy");
        let mut folder = Folder::create(&path).expect("it is created");
        assert_eq!(folder.record(), None);
        folder.keep(record()).expect("it is kept");
        let text = Folder::open(&path).expect_err("it is in use").to_string();
        assert!(text.starts_with("another helio process uses "), "{text}");
        drop(folder);
        let again = Folder::create(&path).expect("it is there");
        assert_eq!(again.record(), Some(&record()));
        assert_eq!(fs::read_dir(&path).expect("a directory").count(), 1, "and nothing beside it");
    }

    #[test]
    fn what_is_no_directory_or_no_record_is_refused_with_what_helps() {
        let dir = tempfile::tempdir().expect("a directory");
        let refused = |path: &Path| format!("{:#}", Folder::open(path).expect_err("refused"));
        assert!(refused(&dir.path().join("gone")).contains("hint: name a directory that exists"));
        let file = dir.path().join(RECORD);
        fs::write(&file, b"what is this").expect("it is written");
        assert!(refused(&file).contains("hint: name a directory"));
        assert!(refused(dir.path()).contains("it is not the record of an exported snapshot"));
        fs::write(&file, &record().encode(crc32c)[..40]).expect("it is written");
        assert!(refused(dir.path()).contains("it is damaged\n  hint: if it was one, remove it"));
    }
}
