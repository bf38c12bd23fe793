// SPDX-License-Identifier: Apache-2.0
//! Reading keys and certificates from files, and making key files nobody else may read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Longest file read, in bytes: a chain of certificates is a few thousand.
const LONGEST: u64 = 1 << 20;

/// A file that cannot serve, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}\n  remedy: {remedy}", path.display())]
pub struct FileError {
    /// The culprit.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
    /// What to do.
    pub remedy: String,
}

impl FileError {
    pub(crate) fn new(path: &Path, why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.to_owned(), why: why.into(), remedy: remedy.into() }
    }
}

/// Reads a file that may be public.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let failed = |error: io::Error| {
        FileError::new(path, error.to_string(), "name a file this user may read")
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LONGEST {
        let why = format!("longer than {LONGEST} bytes");
        return Err(FileError::new(path, why, "name a PEM file"));
    }
    Ok(bytes)
}

/// Reads a file only its owner may read.
pub(crate) fn read_private(path: &Path) -> Result<Vec<u8>, FileError> {
    if let Ok(metadata) = path.metadata()
        && metadata.mode() & 0o077 != 0
    {
        let why = format!("others may read it (mode {:04o})", metadata.mode() & 0o7777);
        return Err(FileError::new(path, why, format!("chmod 600 {}", path.display())));
    }
    read(path)
}

/// Makes a file only its owner may read; it must not exist.
pub(crate) fn create_private(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let failed = |error: io::Error| {
        let remedy = match error.kind() {
            io::ErrorKind::AlreadyExists => {
                "keep it, or make the new one under another name and change over as docs/operate.md says"
            }
            io::ErrorKind::NotFound => "make its directory first",
            _ => "name a place this user may write to",
        };
        FileError::new(path, error.to_string(), remedy)
    };
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)
}
