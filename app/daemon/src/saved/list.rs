// SPDX-License-Identifier: Apache-2.0
//! What was saved: listed from its folders, which are the only record of it, and deleted.

use super::{ABOUT, About, FOLDER, REGIONS, TURN};
use helio_api::{SavedCopy, SavedVolume};
use helio_driver::{Errno, FileType, Host};
use helio_units::{Bytes, WallTime};
use std::io;
use std::path::Path;
use std::sync::PoisonError;

/// What all volumes of it take on disk.
pub(crate) fn bytes_of(copy: &SavedCopy) -> Bytes {
    copy.volumes.iter().fold(Bytes::ZERO, |sum, volume| sum + volume.bytes)
}

/// Everything saved below a directory, the oldest first.
///
/// # Errors
/// A folder cannot be read.
pub(crate) fn list(host: &Host, dir: &Path) -> io::Result<Vec<SavedCopy>> {
    let folders = dir.join(FOLDER);
    let names = match host.list(&folders) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names?,
    };
    let mut found = Vec::new();
    for name in names {
        let folder = folders.join(&name);
        if host.facts(&folder, false)?.kind == FileType::Directory {
            found.push(look(host, &folder, name.to_string_lossy().into_owned())?);
        }
    }
    found.sort_by(|a, b| (a.at_ms, &a.name).cmp(&(b.at_ms, &b.name)));
    Ok(found)
}

fn look(host: &Host, folder: &Path, name: String) -> io::Result<SavedCopy> {
    let regions = host.facts(&folder.join(REGIONS), true);
    let complete = regions.is_ok();
    let at = regions.or_else(|_| host.facts(folder, false))?.modified;
    let at_ms = at.as_millis() as u64;
    let mut volumes = Vec::new();
    for file in host.list(folder)? {
        let path = folder.join(file);
        if path.extension().is_some_and(|kind| kind == "img") {
            let volume = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = host.facts(&path, true)?.held;
            volumes.push(SavedVolume { volume, bytes, path: path.display().to_string() });
        }
    }
    volumes.sort_by(|a, b| a.volume.cmp(&b.volume));
    let about = host.read(&folder.join(ABOUT)).ok();
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
pub(crate) fn delete(host: &Host, dir: &Path, shown: &SavedCopy) -> io::Result<()> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = dir.join(FOLDER).join(&shown.name);
    if !shown.complete && host.exists(&folder.join(REGIONS)) {
        let text = format!("{} was completed in the meantime, and is kept", shown.name);
        return Err(io::Error::other(text));
    }
    match host.remove(&folder.join(REGIONS)) {
        Ok(()) | Err(Errno::NOENT) => host.remove_tree(&folder),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{part, place};
    use super::super::{Place, SaveError, save};
    use super::*;
    use helio_driver::Linux;
    use helio_units::Extent;
    use std::fs;

    #[test]
    fn what_was_saved_is_listed_until_it_is_deleted() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(list(&Linux::host(), dir.path()).expect("nothing is there"), []);
        let part = part(dir.path(), vec![Extent::new(4 << 20, 1 << 20)]);
        save(&Linux::host(), &place(dir.path()), ("my-db", "discarded"), WallTime(0), &[part])
            .expect("room");
        let found = list(&Linux::host(), dir.path()).expect("it can be read");
        assert_eq!(found.len(), 1);
        let copy = &found[0];
        assert_eq!((&*copy.group, &*copy.why, copy.complete), ("my-db", "discarded", true));
        assert_eq!(copy.volumes[0].volume, "data");
        assert!(bytes_of(copy) >= Bytes::kib(4) && bytes_of(copy) <= Bytes::mib(1), "{copy:?}");
        // As an earlier version left it, and then as an interrupted one did.
        let folder = dir.path().join("saved").join(&copy.name);
        fs::remove_file(folder.join(ABOUT)).expect("it is there");
        assert_eq!(list(&Linux::host(), dir.path()).expect("it can be read")[0].group, "my-db");
        fs::remove_file(folder.join(REGIONS)).expect("it is there");
        assert!(!list(&Linux::host(), dir.path()).expect("it can be read")[0].complete);
        let incomplete = list(&Linux::host(), dir.path()).expect("it can be read").remove(0);
        fs::write(folder.join(REGIONS), "[]").expect("a save ends");
        delete(&Linux::host(), dir.path(), &incomplete).expect_err("it is complete now");
        fs::remove_file(folder.join(REGIONS)).expect("it is there");
        delete(&Linux::host(), dir.path(), &incomplete).expect("it can be deleted");
        assert_eq!(list(&Linux::host(), dir.path()).expect("it can be read"), []);
    }

    #[test]
    fn the_limit_counts_what_is_saved_already() {
        let dir = tempfile::tempdir().expect("a folder");
        let part = part(dir.path(), vec![Extent::new(4 << 20, 1 << 20)]);
        let limited = Place { limit: Some(Bytes::kib(6)), ..place(dir.path()) };
        let parts = std::slice::from_ref(&part);
        save(&Linux::host(), &limited, ("db", "discarded"), WallTime(0), parts).expect("it fits");
        let again = save(&Linux::host(), &limited, ("db", "discarded"), WallTime(5000), parts);
        assert!(matches!(again, Err(SaveError::Limit { .. })), "{again:?}");
        assert_eq!(list(&Linux::host(), dir.path()).expect("it can be read").len(), 1);
        // A directory that was named has no limit.
        save(&Linux::host(), &place(dir.path()), ("db", "discarded"), WallTime(5000), parts)
            .expect("it fits");
    }
}
