// SPDX-License-Identifier: Apache-2.0
//! Where verifies are, kept beside the metadata in `groups/GROUP.verify`: how far the next comparison is, which differences
//! nobody mended. A small JSON file, replaced as a whole. When each volume was verified last is in the metadata itself.
//!
//! Nothing depends on it but a verify's place and what status tells, so one that cannot be read is set aside with a
//! word in the log.

use crate::blocking::blocking;
use crate::durable;
use crate::failed;
use helio_driver::Host;
use helio_engine::{VerifyMemory, VerifyStatus, VerifyWish, VolumeVerify};
use helio_units::{Bytes, Extent, Rate, VolumeIndex};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;

/// Between two records of one group.
const PAUSE: Duration = Duration::from_millis(500);

/// Everything in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// By volume.
    volumes: BTreeMap<String, Volume>,
    /// One was under way.
    #[serde(default)]
    run: Option<Run>,
    /// Differences that were not listed.
    #[serde(default)]
    beyond: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Volume {
    /// Compared so far, in the pass that was begun.
    #[serde(default)]
    place: u64,
    #[serde(default)]
    differed_bytes: u64,
    /// Differences that nobody mended: offset and length.
    #[serde(default)]
    differing: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    volume: Option<String>,
    repair: bool,
    rate_bytes_per_second: Option<u64>,
}

impl Record {
    /// What the engine is to know of it. `names` are the volumes, in the engine's order.
    pub(crate) fn memory(&self, names: &[&str]) -> VerifyMemory {
        let none = Volume::default();
        let volumes = || names.iter().map(|name| self.volumes.get(*name).unwrap_or(&none));
        let listed = volumes().zip(0..).flat_map(|(volume, n)| {
            let extent =
                move |(at, length): &(u64, u64)| (VolumeIndex(n), Extent::new(*at, *length));
            volume.differing.iter().map(extent)
        });
        VerifyMemory {
            run: self.run.as_ref().and_then(|run| run.wish(names)),
            places: volumes().map(|v| (v.place, Bytes(v.differed_bytes))).collect(),
            listed: listed.collect(),
            beyond: self.beyond,
        }
    }

    /// What is to be kept now.
    pub(crate) fn of(names: &[&str], status: &VerifyStatus) -> Self {
        let volume = |(name, (now, n)): (&&str, (&VolumeVerify, u16))| {
            let mine = status.listed.iter().filter(|(v, _)| *v == VolumeIndex(n));
            let volume = Volume {
                place: now.place,
                differed_bytes: now.differed.0,
                differing: mine.map(|(_, extent)| (extent.offset, extent.length)).collect(),
            };
            ((*name).to_owned(), volume)
        };
        let name = |v: VolumeIndex| names.get(usize::from(v.0)).map(|name| (*name).to_owned());
        Self {
            volumes: names.iter().zip(status.volumes.iter().zip(0..)).map(volume).collect(),
            run: status.run.map(|run| Run {
                volume: run.wish.volume.and_then(name),
                repair: run.wish.repair,
                rate_bytes_per_second: run.wish.rate.map(|rate| rate.0),
            }),
            beyond: status.beyond,
        }
    }
}

impl Run {
    /// None where its volume is not there any more.
    fn wish(&self, names: &[&str]) -> Option<VerifyWish> {
        let volume = match &self.volume {
            None => None,
            Some(name) => Some(VolumeIndex(names.iter().position(|known| known == name)? as u16)),
        };
        let rate = self.rate_bytes_per_second.map(Rate);
        Some(VerifyWish { volume, repair: self.repair, rate, restart: false })
    }
}

/// Where a group's record is kept.
pub(crate) fn path(state: &Path, group: &str) -> PathBuf {
    state.join("groups").join(format!("{group}.verify"))
}

/// Reads what an earlier start kept.
pub(crate) fn load(host: &Host, path: &Path) -> Record {
    durable::load(host, path, "the results of verifies").unwrap_or_default()
}

/// Whether a record has something of a volume.
pub(crate) fn names(host: &Host, path: &Path, volume: &str) -> bool {
    host.exists(path) && load(host, path).volumes.contains_key(volume)
}

/// Gives a volume another name in a record.
///
/// # Errors
/// The file system refuses.
pub(crate) fn rename(host: &Host, path: &Path, (old, new): (&str, &str)) -> std::io::Result<()> {
    let mut record = load(host, path);
    if let Some(volume) = record.volumes.remove(old) {
        record.volumes.insert(new.to_owned(), volume);
    }
    let run = record.run.as_mut().and_then(|run| run.volume.as_mut());
    if let Some(volume) = run.filter(|volume| *volume == old) {
        new.clone_into(volume);
    }
    durable::keep(host, path, &record)
}

/// Keeps the newest record on disk, until there will be none. A file that is written a little late costs a verify that
/// much of its place.
pub(crate) async fn keep_up(host: Host, path: PathBuf, mut records: watch::Receiver<Record>) {
    let mut turns = tokio::time::interval(PAUSE);
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while records.changed().await.is_ok() {
        turns.tick().await;
        let record = records.borrow_and_update().clone();
        let (machine, file) = (Host::clone(&host), path.clone());
        let kept = blocking(&host, move || durable::keep(&machine, &file, &record)).await;
        let kept = kept.unwrap_or_else(|panic| Err(std::io::Error::other(failed::words(&*panic))));
        if let Err(error) = kept {
            tracing::warn!(file = %path.display(), %error, "the results of verifies cannot be stored");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_driver::Linux;
    use std::fs;

    #[test]
    fn what_is_kept_is_what_the_engine_is_told_at_the_next_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("db.verify");
        assert_eq!(load(&Linux::host(), &file), Record::default());
        let under_way = VolumeVerify { place: 65_536, differed: Bytes(8192), last: None };
        let differing = (VolumeIndex(1), Extent::new(4096, 8192));
        let status = VerifyStatus {
            volumes: vec![VolumeVerify::default(), under_way],
            listed: vec![differing],
            ..VerifyStatus::default()
        };
        let names = ["a", "b"];
        let record = Record::of(&names, &status);
        durable::keep(&Linux::host(), &file, &record).expect("it is kept");
        let found = load(&Linux::host(), &file);
        assert_eq!(found, record);
        let memory = found.memory(&names);
        assert_eq!(memory.places, [(0, Bytes(0)), (65_536, Bytes(8192))]);
        assert_eq!(memory.listed, [differing]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("db.verify");
        fs::write(&file, "{").expect("it is written");
        assert_eq!(load(&Linux::host(), &file), Record::default());
    }
}
