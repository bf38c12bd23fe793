// SPDX-License-Identifier: Apache-2.0
//! The metadata files of a group: one in the state directory, and a second one if `metadata` of the node names its directory.
//! Which of the two counts, [`helio_ledger::files`] says; here the files are opened, judged, and the other one is made like it.

use super::metadata::OtherOwner;
use super::owners::Members;
use super::{allocate, begin, convert, metadata, rename};
use crate::failed;
use anyhow::{Context, Error, Result, anyhow, bail};
use helio_driver::{File, Host};
use helio_engine::Fault;
use helio_format::files::FileRecord;
use helio_ledger::files::{self, Choice, Distrust, Joined, Seen};
use helio_ledger::{Ledger, Mirror, Opened};
use helio_plant::{Plant, planted};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where a node's files of a group lie.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// On which machine.
    pub(crate) host: Host,
    /// In the state directory.
    pub(crate) first: PathBuf,
    /// In the other directory that `metadata` names.
    pub(crate) second: Option<PathBuf>,
}

/// The metadata files in a directory.
pub(super) fn metadata_in(host: &Host, folder: &Path) -> impl Iterator<Item = PathBuf> {
    let names = host.list(folder).unwrap_or_default();
    let files: Vec<PathBuf> = names.into_iter().map(|name| folder.join(name)).collect();
    files.into_iter().filter(|file| file.extension().is_some_and(|it| it == "meta"))
}

impl Places {
    pub(crate) fn of(host: &Host, group: &str, state: &Path, second: Option<&Path>) -> Self {
        let name = format!("{group}.meta");
        let second = second.map(|folder| folder.join(&name));
        Self { host: Host::clone(host), first: state.join("groups").join(name), second }
    }

    /// Each of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.first].into_iter().chain(&self.second)
    }

    /// The other metadata files in their directories.
    pub(super) fn neighbours(&self) -> Vec<PathBuf> {
        let folders: BTreeSet<&Path> = self.all().filter_map(|path| path.parent()).collect();
        let files = folders.into_iter().flat_map(|folder| metadata_in(&self.host, folder));
        files.filter(|file| !self.all().any(|own| own == file)).collect()
    }

    /// Refuses one directory for both files.
    pub(super) fn apart(&self) -> Result<()> {
        let folder =
            |path: &Path| path.parent().and_then(|folder| self.host.real_path(folder).ok());
        if let Some(second) = &self.second
            && let Some(same) = folder(second)
            && Some(&same) == folder(&self.first).as_ref()
        {
            bail!(
                "both metadata files would lie in {}\n  hint: name a directory on another disk as the second one of \
                 `metadata`",
                same.display()
            );
        }
        Ok(())
    }
}

/// A file that was read, and what it says. It stays open, or `F` is nothing.
pub(super) struct Side<F = File> {
    pub(super) file: F,
    pub(super) shown: String,
    pub(super) opened: Opened,
    /// Whether it counts, by its own record; none if that cannot be read, or in a file without that page.
    record: Option<FileRecord>,
}

impl Side {
    /// Opens, locks and reads a file. An empty one is made if there is none.
    fn open(host: &Host, path: &Path, engine: &helio_engine::Config) -> Result<Self> {
        let shown = path.display().to_string();
        let file = metadata::open(host, path, true)?;
        // What a process before wrote may not be durable yet, and what is built on it must not outlive it. Where a flush
        // failed for it, the page cache may show what the disk never got: the disk is read.
        file.sync_all().with_context(|| shown.clone())?;
        file.body().drop_cache()?;
        let opened = metadata::read(&file, &shown, engine)?;
        if matches!(opened, Opened::Fresh) && !planted(Plant::CreateUndurable) {
            // The record of the other file names this one before anything else makes its name durable.
            let folder = path.parent().unwrap_or(Path::new("/"));
            host.sync_folder(folder).with_context(|| shown.clone())?;
        }
        Self::read(file, shown, opened)
    }

    /// Makes the file that counts one that the daemon writes to: a new file is begun, and one of the version before converted.
    fn ready(
        self,
        path: &Path,
        engine: &helio_engine::Config,
        (places, members): (&Places, &Members<'_>),
    ) -> Result<Self> {
        let Self { file, shown, opened, record } = self;
        let file = match opened {
            Opened::Found(_) => {
                allocate::older(&file, &shown, &engine.group)?;
                return Ok(Self { file, shown, opened, record });
            }
            Opened::Fresh => {
                members.not_lost(places, engine)?;
                begin::first(&places.host, (&file, path), engine)?;
                file
            }
            Opened::Older(older) => {
                metadata::fits(&older.1.superblock, engine, &shown)?;
                let file = convert::convert(&places.host, path, older.0)?;
                tracing::info!(group = %engine.group, file = %shown, "metadata of format version 2 is converted to version 3");
                file
            }
        };
        let opened = metadata::read(&file, &shown, engine)?;
        Self::read(file, shown, opened)
    }

    fn read(file: File, shown: String, opened: Opened) -> Result<Self> {
        let mut side = Self { file, shown, opened, record: None };
        if matches!(side.opened, Opened::Found(_)) {
            side.record = files::record(&side.on_disk()?, helio_link::checksum);
        }
        Ok(side)
    }

    fn on_disk(&self) -> Result<metadata::OnDisk<'_>> {
        let length = self.file.body().facts()?.length.0;
        Ok(metadata::OnDisk { file: &self.file, length, shown: &self.shown, fails: None })
    }
}

impl<F> Side<F> {
    fn seen(&self) -> Seen {
        match (&self.opened, self.record) {
            (Opened::Fresh, _) => Seen::Blank,
            (Opened::Older(_), _) => Seen::There { record: FileRecord::SINGLE, sequence: 0 },
            (Opened::Found(_), None) => Seen::Unreadable,
            (Opened::Found(found), Some(record)) => {
                Seen::There { record, sequence: found.0.sequence() }
            }
        }
    }
}

impl Side<()> {
    /// Reads a file as [`Side::open`] does, and makes and changes nothing.
    fn look(host: &Host, path: &Path, engine: &helio_engine::Config) -> Result<Self> {
        let shown = path.display().to_string();
        if !host.is_named(path) {
            return Ok(Self { file: (), shown, opened: Opened::Fresh, record: None });
        }
        let file = metadata::open(host, path, false)?;
        let opened = metadata::read(&file, &shown, engine)?;
        let Side { shown, opened, record, .. } = Side::read(file, shown, opened)?;
        Ok(Self { file: (), shown, opened, record })
    }
}

/// The file that counts, and the other one: opened, or why it cannot be. None if the node has one file.
pub(super) struct Sides<F = File> {
    pub(super) counts: Side<F>,
    pub(super) other: Option<Result<Side<F>>>,
}

/// Decides which file counts, of those that `read` returns. For a new group it is the first one, which is empty.
fn decide<F>(
    places: &Places,
    engine: &helio_engine::Config,
    read: impl Fn(&Host, &Path, &helio_engine::Config) -> Result<Side<F>>,
) -> Result<(Sides<F>, usize)> {
    places.apart()?;
    let read = |path: &Path| read(&places.host, path, engine);
    let mut first = read(&places.first);
    let second = places.second.as_deref().map(read);
    if second.is_none() {
        // What is wrong with the only file is all that there is to say.
        first = Ok(first?);
    }
    let seen = |side: &Result<Side<F>>| side.as_ref().map_or(Seen::Unreadable, Side::seen);
    if [Some(&first), second.as_ref()].into_iter().flatten().any(|side| seen(side) == Seen::Blank) {
        rename::is_done(places, engine)?;
    }
    match files::choose([seen(&first), second.as_ref().map_or(Seen::None, seen)]) {
        Choice::New | Choice::Use(0) => Ok((Sides { counts: first?, other: second }, 0)),
        Choice::Use(_) => {
            let counts = second.expect("what counts was seen")?;
            Ok((Sides { counts, other: Some(first) }, 1))
        }
        Choice::Refuse(why) => {
            let errors = [first.err(), second.and_then(Result::err)].into_iter().flatten();
            let mut errors: Vec<Error> = errors.collect();
            if let Some(at) = errors.iter().position(|error| error.is::<OtherOwner>()) {
                return Err(errors.swap_remove(at));
            }
            Err(distrusted(places, engine, why, errors.first()))
        }
    }
}

/// The file that counts, as [`open`] would find it. Nothing is made or changed.
pub(super) fn look(places: &Places, engine: &helio_engine::Config) -> Result<Side<()>> {
    decide(places, engine, Side::look).map(|(sides, _)| sides.counts)
}

/// Opens the files and decides which of them counts. The file of a new group is begun.
pub(super) fn open(
    places: &Places,
    engine: &helio_engine::Config,
    members: &Members<'_>,
) -> Result<Sides> {
    let (Sides { counts, other }, which) = decide(places, engine, Side::open)?;
    let path = places.all().nth(which).expect("what counts has a place");
    Ok(Sides { counts: counts.ready(path, engine, (places, members))?, other })
}

/// Why no file is used, and what to do.
fn distrusted(
    places: &Places,
    engine: &helio_engine::Config,
    why: Distrust,
    error: Option<&Error>,
) -> Error {
    let shown: Vec<String> = places.all().map(|path| path.display().to_string()).collect();
    let of = |which: usize| shown.get(which).map_or("the file in its directory", String::as_str);
    let because = error.map(|error| format!("{error:#}"));
    let because = because.as_deref().map(failed::in_parts);
    let because = because.map_or_else(String::new, |(reason, _)| format!(" ({reason})"));
    let create = format!(
        "`helio metadata create {} --node {}` discards the copy of this node",
        engine.group, engine.node
    );
    let hint = match why {
        Distrust::MayBeOld(which) => format!(
            "make both files readable: the disk of the other one, and its directory in `metadata`. If the other file is lost for good: \
             `helio metadata accept {}`; then all data is compared, and writes that only the lost file recorded may be lost",
            of(which)
        ),
        Distrust::MayExist(which) => format!(
            "make {} readable: mount its disk. If the group is new, create its directory{}",
            of(which),
            match which {
                0 => "",
                _ => ". If the second directory is lost, remove it from `metadata`",
            }
        ),
        Distrust::BothAlone => format!(
            "`helio inspect {}` and `helio inspect {}` show what each file records. Move the file with the older data away, then start the \
             daemon",
            of(0),
            of(1)
        ),
        Distrust::NoneCounts if shown.len() == 1 => format!(
            "if `metadata` named a second directory before, name it again, and make its file readable. If that is impossible: {create}"
        ),
        Distrust::NoneCounts => {
            format!("make both files readable. If that is impossible: {create}")
        }
    };
    anyhow!("{}: {why}{because}. Nothing was changed\n  hint: {hint}", shown.join(" and "))
}

/// What the ledger is kept on, and what failed.
pub(super) struct Kept {
    pub(super) files: Vec<(File, String)>,
    pub(super) mirror: Mirror,
    pub(super) fault: Option<Fault>,
}

/// Makes the other file like the one that counts, and puts the ledger over both. If that fails, the group is served from
/// one file, and the fault says so.
pub(super) fn keep(
    counts: Side,
    other: Option<Result<Side>>,
    ledger: Ledger,
    (engine, places): (&helio_engine::Config, &Places),
) -> Result<Kept> {
    let why = match other {
        None => None,
        Some(Err(error)) => Some(format!("{error:#}")),
        Some(Ok(other)) => match join(&counts, &other, ledger.owner())? {
            Ok(epoch) => {
                let mirror = Mirror::two(ledger, epoch);
                let files = vec![(counts.file, counts.shown), (other.file, other.shown)];
                return Ok(Kept { files, mirror, fault: None });
            }
            Err(error) => Some(format!("{}: {error}", other.shown)),
        },
    };
    let fault = why.map(|why| {
        let mut shown = places.all().map(|path| path.display().to_string());
        let other = shown.find(|path| *path != counts.shown).expect("there is another file");
        let (reason, _) = failed::in_parts(&why);
        let fault = unused(reason, &other, (&counts.shown, &engine.node));
        tracing::error!(group = %engine.group, hint = fault.hint, "{}", fault.what);
        fault
    });
    let mirror = Mirror::one(ledger, 0);
    Ok(Kept { files: vec![(counts.file, counts.shown)], mirror, fault })
}

/// One of two files, `other`, is not used since the start, for that reason.
fn unused(reason: &str, other: &str, (used, node): (&str, &str)) -> Fault {
    Fault {
        what: format!("one of two metadata files failed: {reason}; only {used} is used"),
        hint: format!(
            "make {other} readable and writable, or move it away if it is damaged. Then restart the daemon of {node}: it creates \
             the file again"
        ),
    }
}

/// Makes a file like the one that counts. Returns the epoch that both record, or why the other one is given up.
///
/// # Errors
/// The one that counts cannot be read or written.
fn join(
    counts: &Side,
    other: &Side,
    owner: u32,
) -> Result<std::result::Result<u64, std::io::Error>> {
    let checksum = helio_link::checksum;
    let mut from = counts.on_disk()?;
    let epoch_of = |file: &metadata::OnDisk<'_>| files::record(file, checksum).map(|r| r.epoch);
    let epoch = epoch_of(&from).max(epoch_of(&other.on_disk()?)).unwrap_or(0);
    // Room is made before the record of the other one changes. Without room it is given up as if it failed.
    let made = allocate::in_full(&other.file, from.length);
    let mut to = metadata::OnDisk { fails: made.err(), ..other.on_disk()? };
    let joined = files::join(&mut from, &mut to, epoch, owner, checksum);
    let (record, joined) = joined.with_context(|| counts.shown.clone())?;
    Ok(match joined {
        Joined::Both => Ok(record.epoch),
        Joined::GivenUp(error) => Err(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::metadata::tests::engine;
    use helio_driver::Linux;
    use std::fs;

    /// A file of version 2: [`helio_ledger`] says where it comes from.
    const VERSION_2: &[u8] = include_bytes!("../../../../core/ledger/fixtures/version-2.meta");

    fn places(folder: &Path) -> Places {
        fs::create_dir(folder.join("groups")).expect("there is room");
        Places::of(&Linux::host(), "db", folder, Some(&folder.join("second")))
    }

    fn refused(places: &Places) -> String {
        let error =
            open(places, &engine(), &Members::none(&Linux::host())).err().expect("neither counts");
        format!("{error:#}")
    }

    #[test]
    fn two_files_that_count_alone_are_both_named_and_left_as_they_are() {
        let scratch = tempfile::tempdir().expect("there is room");
        let places = places(scratch.path());
        let second = places.second.clone().expect("it is configured");
        fs::create_dir(scratch.path().join("second")).expect("there is room");
        fs::write(&places.first, VERSION_2).expect("there is room");
        let file = metadata::open(&Linux::host(), &second, true).expect("it is new");
        begin::first(&Linux::host(), (&file, &second), &engine()).expect("there is room");
        drop(file);
        let text = refused(&places);
        for path in places.all() {
            assert!(text.contains(&format!("`helio inspect {}`", path.display())), "{text}");
        }
        assert!(text.contains("Nothing was changed"), "{text}");
        assert_eq!(fs::read(&places.first).expect("it is there"), VERSION_2, "not converted");
    }

    #[test]
    fn a_new_group_whose_second_directory_is_missing_is_told_to_create_it() {
        let scratch = tempfile::tempdir().expect("there is room");
        let text = refused(&places(scratch.path()));
        assert!(text.contains("If the group is new, create its directory"), "{text}");
        assert!(text.contains("remove it from `metadata`"), "{text}");
        assert!(!text.contains("metadata create"), "{text}");
    }

    #[test]
    fn a_missing_state_directory_is_not_to_be_removed_from_the_configuration() {
        let scratch = tempfile::tempdir().expect("there is room");
        let second = scratch.path().join("second");
        fs::create_dir(&second).expect("there is room");
        let text = refused(&Places::of(
            &Linux::host(),
            "db",
            &scratch.path().join("state"),
            Some(&second),
        ));
        assert!(text.contains("If the group is new, create its directory"), "{text}");
        assert!(!text.contains("remove it"), "{text}");
    }

    #[test]
    fn a_damaged_second_file_beside_one_that_counts_alone_is_to_be_moved_away() {
        let scratch = tempfile::tempdir().expect("there is room");
        let (places, engine) = (places(scratch.path()), engine());
        let second = places.second.clone().expect("it is configured");
        fs::create_dir(scratch.path().join("second")).expect("there is room");
        let file = metadata::open(&Linux::host(), &places.first, true).expect("it is new");
        begin::first(&Linux::host(), (&file, &places.first), &engine).expect("there is room");
        drop(file);
        fs::write(&second, [0xA5; 65536]).expect("there is room");
        let fault = || {
            let Sides { mut counts, other } =
                open(&places, &engine, &Members::none(&Linux::host())).expect("the first counts");
            let opened = std::mem::replace(&mut counts.opened, Opened::Fresh);
            let Opened::Found(found) = opened else { panic!("it was written") };
            keep(counts, other, found.0, (&engine, &places)).expect("it can be written").fault
        };
        let Fault { what, hint } = fault().expect("the second file is damaged");
        let [used, other] = [&places.first, &second].map(|path| path.display().to_string());
        assert!(what.contains(&other) && what.contains(&format!("only {used} is used")), "{what}");
        assert!(hint.contains(&format!("make {other} readable")), "{hint}");
        assert!(!hint.contains("metadata create"), "{hint}");
        fs::remove_file(&second).expect("it is there");
        assert_eq!(fault(), None, "it is created again");
    }
}
