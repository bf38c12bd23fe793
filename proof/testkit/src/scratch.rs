// SPDX-License-Identifier: Apache-2.0
//! Folders for one test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of its own, gone when it is dropped, also where the test fails; kept with `HELIO_KEEP=1`.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
    keep: bool,
}

impl TempDir {
    /// Makes one in the system's folder for such (`TMPDIR` moves it). The path is short, since a Unix
    /// socket's may have only 107 bytes.
    ///
    /// # Panics
    /// Where the folder cannot be made.
    #[must_use]
    pub fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let keep = std::env::var_os("HELIO_KEEP").is_some_and(|value| value == "1");
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("helio-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Self { path, keep },
                // Left by an earlier process of the same number.
                Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(why) => panic!("cannot make {}: {why}", path.display()),
            }
        }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path inside.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a text file inside.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, text)
            .unwrap_or_else(|why| panic!("cannot write {}: {why}", path.display()));
        path
    }

    /// Makes a file of `length` zero bytes inside, as a member to be.
    ///
    /// # Panics
    /// Where it cannot be made.
    pub fn file(&self, name: &str, length: helio_units::Bytes) -> PathBuf {
        let path = self.join(name);
        let made = std::fs::File::create_new(&path).and_then(|file| file.set_len(length.0));
        made.unwrap_or_else(|why| panic!("cannot make {}: {why}", path.display()));
        path
    }
}

impl Default for TempDir {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if self.keep {
            eprintln!("kept: {}", self.path.display());
        } else if let Err(why) = std::fs::remove_dir_all(&self.path) {
            // A test that fails for another reason must still tell that reason.
            eprintln!("cannot remove {}: {why}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_units::Bytes;

    #[test]
    fn a_folder_is_gone_with_its_owner_even_in_a_panic() {
        if std::env::var_os("HELIO_KEEP").is_some() {
            return;
        }
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let failed = std::thread::spawn(move || {
            let scratch = TempDir::new();
            let file = scratch.file("member", Bytes::kib(4));
            assert_eq!(std::fs::metadata(&file).expect("it was made").len(), 4096);
            tell.send(scratch.path().to_owned()).expect("somebody listens");
            panic!("the test fails here, as it should");
        });
        assert!(failed.join().is_err());
        assert!(!told.recv().expect("the path was told").exists());
    }

    #[test]
    fn two_folders_are_two() {
        assert_ne!(TempDir::new().path(), TempDir::new().path());
    }
}
