// SPDX-License-Identifier: Apache-2.0
//! Reading keys and certificates from files, and making key files nobody else may read.

use helio_driver::{Errno, File, Host, Mode, OFlags};
use std::io;
use std::path::{Path, PathBuf};

/// Longest file read, in bytes: a chain of certificates is a few thousand.
const LONGEST: usize = 1 << 20;

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

fn unreadable(path: &Path) -> impl Fn(Errno) -> FileError + '_ {
    |error| FileError::new(path, error.to_string(), "name a file that this user can read")
}

/// Reads a file that may be public.
pub(crate) fn read(host: &Host, path: &Path) -> Result<Vec<u8>, FileError> {
    read_all(path, &open(host, path)?)
}

fn open(host: &Host, path: &Path) -> Result<File, FileError> {
    host.open(path, OFlags::RDONLY, Mode::empty()).map_err(unreadable(path))
}

fn read_all(path: &Path, file: &File) -> Result<Vec<u8>, FileError> {
    let (mut bytes, mut filled) = (vec![0; LONGEST + 1], 0);
    while filled < bytes.len() {
        match file.body().read_at(&mut bytes[filled..], filled as u64).map_err(unreadable(path))? {
            0 => {
                bytes.truncate(filled);
                return Ok(bytes);
            }
            count => filled += count,
        }
    }
    let why = format!("longer than {LONGEST} bytes");
    Err(FileError::new(path, why, "name a PEM file"))
}

/// Reads a file only its owner may read.
pub(crate) fn read_private(host: &Host, path: &Path) -> Result<Vec<u8>, FileError> {
    let file = open(host, path)?;
    // Asked of the open file: another may be at the path by then.
    let mode = file.body().facts().map_err(unreadable(path))?.mode;
    if mode.intersects(Mode::RWXG | Mode::RWXO) {
        let mode = mode.as_raw_mode();
        let why = format!("other users may read it (mode {mode:04o})");
        return Err(FileError::new(path, why, format!("chmod 600 {}", path.display())));
    }
    read_all(path, &file)
}

/// Makes a file only its owner may read, and makes it durable; it must not exist.
pub(crate) fn create_private(host: &Host, path: &Path, bytes: &[u8]) -> Result<(), FileError> {
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
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let made = host.open(path, flags, Mode::RUSR | Mode::WUSR);
    let file = made.map_err(|errno| failed(errno.into()))?;
    let written = file
        .write_all_at(bytes, 0)
        .and_then(|()| file.sync_all())
        .and_then(|()| host.sync_folder(path.parent().unwrap_or(Path::new(""))));
    written.map_err(|error| {
        // Half a key would be in the way of the next attempt. Where it stays, reading it says what it is.
        let _stays = host.remove(path);
        failed(error)
    })
}
