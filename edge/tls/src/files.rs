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
#[error("{}: {why}\n  hint: {hint}", path.display())]
pub struct FileError {
    /// The culprit.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
    /// What to do.
    pub hint: String,
}

impl FileError {
    pub(crate) fn new(path: &Path, why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { path: path.to_owned(), why: why.into(), hint: hint.into() }
    }
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> FileError + '_ {
    |error| FileError::new(path, error.to_string(), "name a file that this user can read")
}

/// Reads a file that may be public.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    read_all(path, File::open(path).map_err(unreadable(path))?)
}

fn read_all(path: &Path, file: File) -> Result<Vec<u8>, FileError> {
    let failed = unreadable(path);
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(&failed)?;
    if bytes.len() as u64 > LONGEST {
        let why = format!("longer than {LONGEST} bytes");
        return Err(FileError::new(path, why, "name a PEM file"));
    }
    Ok(bytes)
}

/// Reads a file only its owner may read.
pub(crate) fn read_private(path: &Path) -> Result<Vec<u8>, FileError> {
    let file = File::open(path).map_err(unreadable(path))?;
    // Asked of the open file: another may be at the path by then.
    let mode = file.metadata().map_err(unreadable(path))?.mode() & 0o7777;
    if mode & 0o077 != 0 {
        let why = format!("other users may read it (mode {mode:04o})");
        return Err(FileError::new(path, why, format!("chmod 600 {}", path.display())));
    }
    read_all(path, file)
}

/// Makes a file only its owner may read, and makes it durable; it must not exist.
pub(crate) fn create_private(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let failed = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::AlreadyExists => {
                "keep it, or create the new one under another name and change the key as docs/operate.md describes"
            }
            io::ErrorKind::NotFound => "create its directory first",
            _ => "name a path that this user can write",
        };
        FileError::new(path, error.to_string(), hint)
    };
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| File::open(folder.unwrap_or(Path::new(".")))?.sync_all());
    written.map_err(|error| {
        // Half a key would be in the way of the next attempt. Where it stays, reading it says what it is.
        let _stays = std::fs::remove_file(path);
        failed(error)
    })
}
