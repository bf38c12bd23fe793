// SPDX-License-Identifier: Apache-2.0
//! The metadata files of a group: one in the state directory, and a second one if the node has a `metadata-mirror`. Which of
//! the two counts, [`helio_ledger::files`] says; here the files are opened, judged, and the other one is made like it.

use super::{allocate, begin, convert, metadata, take};
use crate::failed;
use anyhow::{Context, Error, Result, anyhow};
use helio_ledger::files::{self, Choice, Distrust, Joined, Seen};
use helio_ledger::{Ledger, Mirror, Opened};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Where a node's files of a group lie.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// In the state directory.
    pub(super) first: PathBuf,
    /// In the directory of `metadata-mirror`.
    pub(super) second: Option<PathBuf>,
}

impl Places {
    pub(super) fn of(group: &str, state: &Path, mirror: Option<&Path>) -> Self {
        let name = format!("{group}.meta");
        let second = mirror.map(|folder| folder.join(&name));
        Self { first: state.join("groups").join(name), second }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.first].into_iter().chain(&self.second)
    }
}

/// A file that was opened, and what it says.
pub(super) struct Side {
    pub(super) file: File,
    pub(super) shown: String,
    pub(super) opened: Opened,
}

impl Side {
    /// Opens and locks a file, converts one of the version before, and reads it.
    fn open(path: &Path, engine: &helio_engine::Config) -> Result<Self> {
        let shown = path.display().to_string();
        let file = metadata::open(path, true)?;
        take(&file, &shown)?;
        // What a process before wrote may not be durable yet, and what is built on it must not outlive it. Where a flush
        // failed for it, the page cache may show what the disk never got: the disk is read.
        file.sync_all().with_context(|| shown.clone())?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        match metadata::read(&file, &shown, engine)? {
            Opened::Older(older) => {
                metadata::fits(&older.1.superblock, engine, &shown)?;
                let file = convert::convert(path, older.0)?;
                tracing::info!(group = %engine.group, file = %shown, "metadata of format version 2 is converted to version 3");
                let opened = metadata::read(&file, &shown, engine)?;
                Ok(Self { file, shown, opened })
            }
            opened => {
                if matches!(opened, Opened::Found(_)) {
                    allocate::older(&file, &shown, &engine.group)?;
                }
                Ok(Self { file, shown, opened })
            }
        }
    }

    fn seen(&self) -> Result<Seen> {
        let Opened::Found(found) = &self.opened else { return Ok(Seen::Blank) };
        let record = files::record(&self.on_disk()?, helio_link::checksum);
        let sequence = found.0.sequence();
        Ok(record.map_or(Seen::Unreadable, |record| Seen::There { record, sequence }))
    }

    fn on_disk(&self) -> Result<metadata::OnDisk<'_>> {
        let length = self.file.metadata()?.len();
        Ok(metadata::OnDisk { file: &self.file, length, shown: &self.shown, fails: None })
    }
}

/// The file that counts, and the other one: opened, or why it cannot be. None if the node has one file.
pub(super) struct Sides {
    pub(super) counts: Side,
    pub(super) other: Option<Result<Side>>,
}

/// Opens the files and decides which of them counts. The file of a new group is begun.
pub(super) fn open(
    places: &Places,
    engine: &helio_engine::Config,
    named: &[&Path],
) -> Result<Sides> {
    let mut first = Side::open(&places.first, engine);
    let second = places.second.as_ref().map(|path| Side::open(path, engine));
    let Some(second) = second else {
        let mut counts = first?;
        let seen = counts.seen()?;
        if seen == Seen::Blank {
            begin_first(&mut counts, places, engine, named)?;
        } else if let Choice::Refuse(why) = files::choose([seen, Seen::Unreadable]) {
            return Err(distrusted(places, engine, why, None));
        }
        return Ok(Sides { counts, other: None });
    };
    let seen = |side: &Result<Side>| side.as_ref().map_or(Ok(Seen::Unreadable), Side::seen);
    match files::choose([seen(&first)?, seen(&second)?]) {
        Choice::New => {
            if let Ok(first) = &mut first {
                begin_first(first, places, engine, named)?;
            }
            Ok(Sides { counts: first?, other: Some(second) })
        }
        Choice::Use(0) => Ok(Sides { counts: first?, other: Some(second) }),
        Choice::Use(_) => Ok(Sides { counts: second?, other: Some(first) }),
        Choice::Refuse(why) => {
            let error = first.err().or(second.err());
            Err(distrusted(places, engine, why, error.as_ref()))
        }
    }
}

fn begin_first(
    side: &mut Side,
    places: &Places,
    engine: &helio_engine::Config,
    named: &[&Path],
) -> Result<()> {
    begin::first(&side.file, &places.first, engine, named)?;
    side.opened = metadata::read(&side.file, &side.shown, engine)?;
    Ok(())
}

/// Why no file is used, and what to do.
fn distrusted(
    places: &Places,
    engine: &helio_engine::Config,
    why: Distrust,
    error: Option<&Error>,
) -> Error {
    let shown: Vec<String> = places.all().map(|path| path.display().to_string()).collect();
    let because = error.map(|error| format!("{error:#}"));
    let because = because.as_deref().map(failed::in_parts);
    let because = because.map_or_else(String::new, |(reason, _)| format!(" ({reason})"));
    let hint = match why {
        Distrust::MayBeOld(which) => format!(
            "make both files readable: the disk of the other one, and `metadata-mirror`. If the other file is lost for good: \
             `helio metadata accept {}`; then all data is compared, and writes that only the lost file recorded may be lost",
            shown.get(which).unwrap_or(&shown[0])
        ),
        Distrust::BothAlone => {
            "move the file with the older data away, and start the daemon".to_owned()
        }
        Distrust::NoneCounts => format!(
            "make both files readable. If that is impossible: `helio metadata create {} --node {}` discards the copy of this \
             node",
            engine.group, engine.node
        ),
    };
    anyhow!("{}: {why}{because}. Nothing was changed\n  hint: {hint}", shown.join(" and "))
}

/// What the ledger is kept on, and what failed.
pub(super) struct Kept {
    pub(super) files: Vec<(File, String)>,
    pub(super) mirror: Mirror,
    pub(super) fault: Option<String>,
}

/// Makes the other file like the one that counts, and puts the ledger over both. If that fails, the group is served from
/// one file, and the fault says so.
pub(super) fn keep(
    counts: Side,
    other: Option<Result<Side>>,
    ledger: Ledger,
    engine: &helio_engine::Config,
) -> Result<Kept> {
    let (owner, checksum) = ((engine.group.as_str(), engine.node.as_str()), helio_link::checksum);
    let why = match other {
        None => None,
        Some(Err(error)) => Some(format!("{error:#}")),
        Some(Ok(other)) => match join(&counts, &other, owner)? {
            Ok(epoch) => {
                let mirror = Mirror::two(ledger, epoch, owner, checksum);
                let files = vec![(counts.file, counts.shown), (other.file, other.shown)];
                return Ok(Kept { files, mirror, fault: None });
            }
            Err(error) => Some(format!("{}: {error}", other.shown)),
        },
    };
    let fault = why.map(|why| {
        let (reason, _) = failed::in_parts(&why);
        format!("metadata file {reason}; only {} is used", counts.shown)
    });
    if let Some(fault) = &fault {
        tracing::error!(group = %engine.group, "{fault}");
    }
    let mirror = Mirror::one(ledger, 0, owner, checksum);
    Ok(Kept { files: vec![(counts.file, counts.shown)], mirror, fault })
}

/// Makes a file like the one that counts. Returns the epoch that both record, or why the other one is given up.
///
/// # Errors
/// The one that counts cannot be read or written.
fn join(
    counts: &Side,
    other: &Side,
    owner: (&str, &str),
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
