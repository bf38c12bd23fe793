// SPDX-License-Identifier: Apache-2.0
//! What is to be attached, kept over restarts.

use crate::durable;
use crate::shard::{export_of, is_in_copy};
use anyhow::{Context, Result};
use helio_api::Via;
use helio_driver::Host;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// One volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) group: String,
    pub(super) volume: String,
    pub(super) read_only: bool,
    /// Never `auto`. Records of before there was a choice have none.
    #[serde(default = "fuse")]
    pub(super) via: Via,
}

const fn fuse() -> Via {
    Via::Fuse
}

impl Record {
    pub(super) fn name(&self) -> (String, String) {
        (self.group.clone(), self.volume.clone())
    }

    /// What it is called among exports.
    pub(super) fn export(&self) -> String {
        export_of(&self.group, &self.volume, self.read_only)
    }

    /// Whether the device can change the volume: a read-only one and a branch cannot.
    pub(super) fn writes_volume(&self) -> bool {
        !self.read_only && !is_in_copy(&self.volume)
    }

    pub(super) fn title(&self) -> String {
        format!("{}/{}", self.group, self.volume)
    }
}

/// The file of records: a JSON list, replaced as a whole.
#[derive(Debug)]
pub(super) struct Book {
    host: Host,
    path: PathBuf,
}

impl Book {
    /// Reads it; where there is none, nothing is to be attached.
    pub(super) fn open(host: &Host, path: &Path) -> Result<(Self, Vec<Record>)> {
        let book = Self { host: Host::clone(host), path: path.to_owned() };
        let text = match host.read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((book, Vec::new())),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let records = serde_json::from_slice(&text).with_context(|| {
            format!(
                "{} cannot be read\n  hint: remove it, and attach the volumes again",
                path.display()
            )
        })?;
        Ok((book, records))
    }

    /// Writes it durably.
    pub(super) fn save<'a>(&self, records: impl Iterator<Item = &'a Record>) -> io::Result<()> {
        let records: Vec<&Record> = records.collect();
        durable::replace(&self.host, &self.path, &serde_json::to_vec_pretty(&records)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_driver::Linux;
    use std::fs;

    #[test]
    fn only_a_volume_that_is_attached_to_be_written_is_written_and_exports_have_their_names() {
        for (volume, read_only, export, writes) in [
            ("data", false, "db/data", true),
            ("data", true, "db/data:ro", false),
            ("data@daily", false, "db/data@daily:rw", false),
            ("data@daily", true, "db/data@daily", false),
        ] {
            let (group, volume) = ("db".into(), volume.into());
            let record = Record { group, volume, read_only, via: Via::Nbd };
            assert_eq!((record.export().as_str(), record.writes_volume()), (export, writes));
        }
    }

    #[test]
    fn what_was_saved_is_read_again_and_damage_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("attach.json");
        let (book, none) = Book::open(&Linux::host(), &path).expect("nothing yet");
        assert_eq!(none, []);
        let record =
            Record { group: "db".into(), volume: "data".into(), read_only: true, via: Via::Ublk };
        book.save(std::iter::once(&record)).expect("room");
        assert_eq!(
            Book::open(&Linux::host(), &path).expect("it is whole").1,
            std::slice::from_ref(&record)
        );
        fs::write(&path, r#"[{ "group": "db", "volume": "data", "read_only": true }]"#)
            .expect("room");
        let old = Record { via: Via::Fuse, ..record };
        assert_eq!(Book::open(&Linux::host(), &path).expect("of the release before").1, [old]);
        fs::write(&path, "[{").expect("room");
        let told = format!("{:#}", Book::open(&Linux::host(), &path).expect_err("it is damaged"));
        assert!(told.contains("attach.json cannot be read\n  hint: remove it"), "{told}");
    }
}
