// SPDX-License-Identifier: Apache-2.0
//! The inputs that are kept in the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Why an input is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// It reaches code that others do not.
    Corpus,
    /// It once broke a promise.
    Regress,
}

impl Sort {
    /// The folder of a target's inputs of this sort. It may not exist.
    #[must_use]
    pub fn folder(self, target: &str) -> PathBuf {
        let name = match self {
            Self::Corpus => "corpus",
            Self::Regress => "regress",
        };
        Path::new(env!("CARGO_MANIFEST_DIR")).join(name).join(target)
    }
}

/// An input that is kept.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its file.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A target's inputs of one sort in the order of their names, so that a seed means the same everywhere. None where
/// there is no folder.
///
/// # Panics
/// Where a file cannot be read.
#[must_use]
pub fn kept(sort: Sort, target: &str) -> Vec<Kept> {
    let Ok(folder) = fs::read_dir(sort.folder(target)) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = folder.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        Kept { path, bytes }
    };
    paths.into_iter().map(read).collect()
}
