// SPDX-License-Identifier: Apache-2.0
//! What was saved: listed from its folders, which are the only record of it, and deleted.

use super::{ABOUT, About, FOLDER, REGIONS, TURN};
use helio_api::{SavedCopy, SavedVolume};
use helio_units::{Bytes, WallTime};
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::PoisonError;
use std::time::UNIX_EPOCH;

/// The unit of a file's blocks, whatever its file system.
const BLOCK: u64 = 512;

/// What all volumes of it take on disk.
pub(crate) fn bytes_of(copy: &SavedCopy) -> Bytes {
    copy.volumes.iter().fold(Bytes::ZERO, |sum, volume| sum + volume.bytes)
}

/// Everything saved below a directory, the oldest first.
///
/// # Errors
/// A folder cannot be read.
pub(crate) fn list(dir: &Path) -> io::Result<Vec<SavedCopy>> {
    let entries = match fs::read_dir(dir.join(FOLDER)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(look(&entry)?);
        }
    }
    found.sort_by(|a, b| (a.at_ms, &a.name).cmp(&(b.at_ms, &b.name)));
    Ok(found)
}

fn look(entry: &DirEntry) -> io::Result<SavedCopy> {
    let (folder, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
    let regions = fs::metadata(folder.join(REGIONS));
    let complete = regions.is_ok();
    let at = regions.or_else(|_| entry.metadata())?.modified()?;
    let at_ms = at.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as u64);
    let mut volumes = Vec::new();
    for file in fs::read_dir(&folder)? {
        let path = file?.path();
        if path.extension().is_some_and(|kind| kind == "img") {
            let volume = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = Bytes(fs::metadata(&path)?.blocks() * BLOCK);
            volumes.push(SavedVolume { volume, bytes, path: path.display().to_string() });
        }
    }
    volumes.sort_by(|a, b| a.volume.cmp(&b.volume));
    let about = fs::read(folder.join(ABOUT)).ok();
    let about = about.and_then(|text| serde_json::from_slice::<About>(&text).ok());
    // Folders of earlier versions say nothing of themselves but in their names, GROUP-TIME.
    let group = || name.rsplit_once('-').map_or(name.as_str(), |(group, _)| group).to_owned();
    let About { group, why } = about
        .unwrap_or_else(|| About { group: group(), why: "the reason was not recorded".to_owned() });
    Ok(SavedCopy { name, group, at_ms: WallTime(at_ms), why, complete, volumes })
}

/// Deletes what `list` showed. What was incomplete then and is complete now is kept: its save has just ended.
///
/// # Errors
/// It cannot be deleted, or not all of it; what is left is not listed as complete.
pub(crate) fn delete(dir: &Path, shown: &SavedCopy) -> io::Result<()> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = dir.join(FOLDER).join(&shown.name);
    if !shown.complete && folder.join(REGIONS).exists() {
        let text = format!("{} was completed in the meantime, and is kept", shown.name);
        return Err(io::Error::other(text));
    }
    match fs::remove_file(folder.join(REGIONS)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::remove_dir_all(&folder),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{part, place};
    use super::super::{Place, SaveError, save};
    use super::*;
    use helio_units::Extent;

    #[test]
    fn what_was_saved_is_listed_until_it_is_deleted() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(list(dir.path()).expect("nothing is there"), []);
        let part = part(dir.path(), vec![Extent::new(4 << 20, 1 << 20)]);
        save(&place(dir.path()), ("my-db", "discarded"), WallTime(0), &[part]).expect("room");
        let found = list(dir.path()).expect("it can be read");
        assert_eq!(found.len(), 1);
        let copy = &found[0];
        assert_eq!((&*copy.group, &*copy.why, copy.complete), ("my-db", "discarded", true));
        assert_eq!(copy.volumes[0].volume, "data");
        assert!(bytes_of(copy) >= Bytes::kib(4) && bytes_of(copy) <= Bytes::mib(1), "{copy:?}");
        // As an earlier version left it, and then as an interrupted one did.
        let folder = dir.path().join("saved").join(&copy.name);
        fs::remove_file(folder.join(ABOUT)).expect("it is there");
        assert_eq!(list(dir.path()).expect("it can be read")[0].group, "my-db");
        fs::remove_file(folder.join(REGIONS)).expect("it is there");
        assert!(!list(dir.path()).expect("it can be read")[0].complete);
        let incomplete = list(dir.path()).expect("it can be read").remove(0);
        fs::write(folder.join(REGIONS), "[]").expect("a save ends");
        delete(dir.path(), &incomplete).expect_err("it is complete now");
        fs::remove_file(folder.join(REGIONS)).expect("it is there");
        delete(dir.path(), &incomplete).expect("it can be deleted");
        assert_eq!(list(dir.path()).expect("it can be read"), []);
    }

    #[test]
    fn the_limit_counts_what_is_saved_already() {
        let dir = tempfile::tempdir().expect("a folder");
        let part = part(dir.path(), vec![Extent::new(4 << 20, 1 << 20)]);
        let limited = Place { limit: Some(Bytes::kib(6)), ..place(dir.path()) };
        let parts = std::slice::from_ref(&part);
        save(&limited, ("db", "discarded"), WallTime(0), parts).expect("it fits");
        let again = save(&limited, ("db", "discarded"), WallTime(5000), parts);
        assert!(matches!(again, Err(SaveError::Limit { .. })), "{again:?}");
        assert_eq!(list(dir.path()).expect("it can be read").len(), 1);
        // A directory that was named has no limit.
        save(&place(dir.path()), ("db", "discarded"), WallTime(5000), parts).expect("it fits");
    }
}
