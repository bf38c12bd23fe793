// SPDX-License-Identifier: Apache-2.0
//! Saving the regions of a side that is about to be given up: one sparse image per volume in which only those regions
//! are written, and a list of them. Runs on a thread of its own; the list is written last, so a folder with a list is
//! complete and on stable storage.

mod list;

pub(crate) use list::{bytes_of, delete, list};

use helio_driver::{Errno, File, Host, Mode, OFlags, SeekFrom};
use helio_units::{Bytes, Extent, WallTime};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Permissions of folders, of which the process leaves out some.
const FOLDERS: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);
/// What is read and written at a time.
const PIECE: usize = 1 << 20;
/// Room for the list of regions and the file system's own needs.
const MARGIN: Bytes = Bytes::mib(1);

/// The folder in a directory that holds all that was saved there.
const FOLDER: &str = "saved";
/// The list of the regions, written last.
const REGIONS: &str = "regions.json";
/// Of which group it is, and why it was saved.
const ABOUT: &str = "about.json";

/// Only one at a time saves or deletes, so that two do not fit below one limit and nothing half saved is deleted.
static TURN: Mutex<()> = Mutex::new(());

/// Where it is saved.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    /// Limit of all that is saved there.
    pub(crate) limit: Option<Bytes>,
}

/// A volume and what of it is saved.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) volume: String,
    pub(crate) member: PathBuf,
    pub(crate) size: Bytes,
    pub(crate) regions: Vec<Extent>,
}

/// What was saved.
#[derive(Debug)]
pub(crate) struct Saved {
    pub(crate) folder: PathBuf,
    pub(crate) bytes: Bytes,
}

/// Why it was not.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SaveError {
    #[error("{path}: {needed} are needed to save the data that is discarded, {free} are free")]
    NoRoom { path: String, needed: Bytes, free: Bytes },
    #[error(
        "{path}: {needed} are needed to save the data that is discarded, and {used} are already saved; the limit is \
         {limit}"
    )]
    Limit { path: String, needed: Bytes, used: Bytes, limit: Bytes },
    #[error("{path}: {error}")]
    Io { path: String, error: io::Error },
}

fn at<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> SaveError {
    let path = path.display().to_string();
    move |error| SaveError::Io { path, error: error.into() }
}

/// A line of the list.
#[derive(Serialize)]
struct Region<'a> {
    volume: &'a str,
    offset: u64,
    length: u64,
}

/// What the folder says of itself.
#[derive(Serialize, Deserialize)]
struct About {
    group: String,
    why: String,
}

/// Saves the parts in a folder named after the group and the time.
///
/// # Errors
/// There is no room, the limit is reached, or a file cannot be read or written; nothing is left behind then.
pub(crate) fn save(
    host: &Host,
    Place { dir, limit }: &Place,
    (group, why): (&str, &str),
    now: WallTime,
    parts: &[Part],
) -> Result<Saved, SaveError> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let below = dir.join(FOLDER);
    host.make_folders(&below, FOLDERS).map_err(at(&below))?;
    let needed = parts.iter().try_fold(MARGIN, |sum, part| Ok(sum + needed(host, part)?))?;
    let free = host.room(&below).map_err(at(&below))?.free;
    if needed > free {
        return Err(SaveError::NoRoom { path: below.display().to_string(), needed, free });
    }
    if let Some(limit) = *limit {
        let there = list(host, dir).map_err(at(&below))?;
        let used = there.iter().fold(Bytes::ZERO, |sum, copy| sum + bytes_of(copy));
        // The margin is room and not content.
        let needed = needed.saturating_sub(MARGIN);
        if used + needed > limit {
            return Err(SaveError::Limit {
                path: below.display().to_string(),
                needed,
                used,
                limit,
            });
        }
    }
    let time: String = now.to_string().replace(' ', "T").replace([':', '-'], "");
    let folder = new_folder(host, &below, &format!("{group}-{time}"))?;
    let about = About { group: group.to_owned(), why: why.to_owned() };
    match fill(host, &folder, &about, parts) {
        Ok(bytes) => Ok(Saved { folder, bytes }),
        Err(error) => {
            // Half a copy would be taken for a whole one; the error is what matters.
            let _ = host.remove_tree(&folder);
            Err(error)
        }
    }
}

/// Creates a new folder. If the name is taken, the new one ends in `-2`, `-3` and so on: an existing folder may be the only copy of discarded
/// data.
fn new_folder(host: &Host, below: &Path, name: &str) -> Result<PathBuf, SaveError> {
    let mut number = 1;
    loop {
        let folder = match number {
            1 => below.join(name),
            _ => below.join(format!("{name}-{number}")),
        };
        match host.make_folder(&folder, FOLDERS) {
            Err(Errno::EXIST) => number += 1,
            made => return made.map_err(at(&folder)).map(|()| folder),
        }
    }
}

fn fill(host: &Host, folder: &Path, about: &About, parts: &[Part]) -> Result<Bytes, SaveError> {
    let mut bytes = Bytes::ZERO;
    for part in parts {
        bytes += copy(host, part, &folder.join(format!("{}.img", part.volume)))?;
    }
    let list: Vec<Region<'_>> = parts
        .iter()
        .flat_map(|part| part.regions.iter().map(|r| (part.volume.as_str(), r)))
        .map(|(volume, r)| Region { volume, offset: r.offset, length: r.length })
        .collect();
    let path = folder.join(REGIONS);
    let write = || {
        write_json(host, &folder.join(ABOUT), about)?;
        write_json(host, &path, &list)?;
        host.sync_folder(folder)?;
        folder.parent().map_or(Ok(()), |parent| host.sync_folder(parent))
    };
    write().map_err(at(&path))?;
    Ok(bytes)
}

fn write_json(host: &Host, path: &Path, value: &impl Serialize) -> io::Result<()> {
    let file = create(host, path)?;
    file.write_all_at(&serde_json::to_vec_pretty(value)?, 0)?;
    file.sync_all()
}

/// A new file that only its owner reads: it holds what the volume held.
fn create(host: &Host, path: &Path) -> Result<File, Errno> {
    host.open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR)
}

/// A member, to be read.
fn open(host: &Host, member: &Path) -> Result<File, SaveError> {
    host.open(member, OFlags::RDONLY, Mode::empty()).map_err(at(member))
}

/// Copies the regions of a volume to the same places of a sparse image of its size. Returns the bytes written.
fn copy(host: &Host, part: &Part, to: &Path) -> Result<Bytes, SaveError> {
    let from = open(host, &part.member)?;
    let image = create(host, to).map_err(at(to))?;
    image.body().set_length(part.size.0).map_err(at(to))?;
    let mut piece = vec![0; PIECE];
    let mut written = Bytes::ZERO;
    for data in data_of(&from, part).map_err(at(&part.member))? {
        let mut offset = data.offset;
        while offset < data.end() {
            let length = (data.end() - offset).min(PIECE as u64) as usize;
            let bytes = &mut piece[..length];
            from.read_exact_at(bytes, offset).map_err(at(&part.member))?;
            if bytes.iter().any(|byte| *byte != 0) {
                image.write_all_at(bytes, offset).map_err(at(to))?;
                written += Bytes(length as u64);
            }
            offset += length as u64;
        }
    }
    image.sync_all().map_err(at(to))?;
    // Advice: the daemon reads and writes past the cache, which need not hold what was read here.
    let _ = from.body().drop_cache();
    Ok(written)
}

fn needed(host: &Host, part: &Part) -> Result<Bytes, SaveError> {
    let from = open(host, &part.member)?;
    let data = data_of(&from, part).map_err(at(&part.member))?;
    Ok(data.iter().fold(Bytes::ZERO, |sum, extent| sum + Bytes(extent.length)))
}

/// The parts of the regions that are not holes. A device has none.
fn data_of(from: &File, part: &Part) -> io::Result<Vec<Extent>> {
    let mut found = Vec::new();
    for region in &part.regions {
        let mut offset = region.offset;
        while offset < region.end() {
            let (start, end) = match from.body().seek(SeekFrom::Data(offset)) {
                Ok(start) => (start, from.body().seek(SeekFrom::Hole(start))?),
                Err(Errno::NXIO) => break,
                // Whoever cannot tell holes holds data everywhere.
                Err(_) => (offset, region.end()),
            };
            let (start, end) = (start.min(region.end()), end.min(region.end()));
            if start < end {
                found.push(Extent::new(start, end - start));
            }
            offset = end;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_driver::Linux;
    use std::fs;
    use std::os::unix::fs::FileExt;

    pub(super) fn part(dir: &Path, regions: Vec<Extent>) -> Part {
        let member = dir.join("member");
        let file = fs::File::create(&member).expect("a folder of our own");
        file.set_len(8 << 20).expect("sparse");
        file.write_all_at(&[7; 4096], 4 << 20).expect("room");
        file.write_all_at(&[9; 4096], 6 << 20).expect("room");
        Part { volume: "data".into(), member, size: Bytes::mib(8), regions }
    }

    pub(super) fn place(dir: &Path) -> Place {
        Place { dir: dir.to_path_buf(), limit: None }
    }

    #[test]
    fn only_the_regions_are_saved_and_the_list_names_them() {
        let dir = tempfile::tempdir().expect("a folder");
        let region = Extent::new(4 << 20, 1 << 20);
        let part = part(dir.path(), vec![region]);
        let saved =
            save(&Linux::host(), &place(dir.path()), ("db", "discarded"), WallTime(0), &[part])
                .expect("there is room");
        assert_eq!(saved.folder, dir.path().join("saved/db-19700101T000000Z"));
        let image = fs::read(saved.folder.join("data.img")).expect("it was written");
        assert_eq!((image.len(), image[4 << 20], image[6 << 20]), (8 << 20, 7, 0));
        let list = fs::read_to_string(saved.folder.join("regions.json")).expect("it was written");
        let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
        assert_eq!((&list[0]["volume"], &list[0]["offset"]), (&"data".into(), &(4 << 20).into()));
    }

    #[test]
    fn what_was_saved_before_is_never_written_over() {
        let dir = tempfile::tempdir().expect("a folder");
        let part = part(dir.path(), vec![Extent::new(0, 8 << 20)]);
        save(
            &Linux::host(),
            &place(dir.path()),
            ("db", "discarded"),
            WallTime(0),
            std::slice::from_ref(&part),
        )
        .expect("there is room");
        let again =
            save(&Linux::host(), &place(dir.path()), ("db", "discarded"), WallTime(0), &[part]);
        let again = again.expect("two may be saved within one second").folder;
        assert_eq!(again, dir.path().join("saved/db-19700101T000000Z-2"));
        assert!(again.join("regions.json").exists());
        assert!(dir.path().join("saved/db-19700101T000000Z/regions.json").exists());
    }

    #[test]
    fn a_member_that_cannot_be_read_leaves_nothing_half_saved() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut part = part(dir.path(), vec![Extent::new(0, 8 << 20)]);
        part.member = dir.path().join("gone");
        assert!(
            save(&Linux::host(), &place(dir.path()), ("db", "discarded"), WallTime(0), &[part])
                .is_err()
        );
        let left = fs::read_dir(dir.path().join("saved")).expect("the folder above").count();
        assert_eq!(left, 0);
    }
}
