// SPDX-License-Identifier: Apache-2.0
//! A group's metadata file: opened, read, and held against the configuration.

use super::{Places, allocate, private, take};
use crate::digest;
use anyhow::{Error, Result, anyhow, bail};
use helio_driver::{Errno, File, Host, OFlags};
use helio_format::superblock::Superblock;
use helio_ledger::files::WritableFile;
use helio_ledger::{Ledger, LedgerError, MetadataFile, Opened, PAGE_BYTES};
use helio_units::Bytes;
use std::fmt;
use std::path::Path;

/// Opens it for reading and writing, and locks it; makes an empty one if asked to. The lock excludes a daemon that reaches the
/// file by another path, and the last operations of a killed daemon.
pub(crate) fn open(host: &Host, path: &Path, make: bool) -> Result<File> {
    let mut flags = OFlags::RDWR;
    flags.set(OFlags::CREATE, make);
    let file = private(host, path, flags).map_err(|error| {
        let folder = path.parent().unwrap_or(path).display();
        let hint = match error {
            Errno::NOENT if make => {
                format!("mount the disk of {folder}. If the group is new, create {folder}")
            }
            Errno::NOENT => format!("check the path, and mount the disk of {folder}"),
            _ => format!("let the daemon's user read and write this file and {folder}"),
        };
        anyhow!("the metadata file {} cannot be opened: {error}\n  hint: {hint}", path.display())
    })?;
    take(host, &file, &path.display().to_string())?;
    Ok(file)
}

/// Gives the metadata files of a group that length while it is served from them. Blocks.
///
/// # Errors
/// A file cannot be opened, or there is no room for it.
pub(crate) fn lengthen(places: &Places, length: u64) -> Result<()> {
    for path in places.all() {
        let shown = path.display().to_string();
        let file = private(&places.host, path, OFlags::WRONLY).map_err(|error| {
            anyhow!("{shown}: {error}\n  hint: repair its file system, then restart the daemon")
        })?;
        allocate::longer(&file, length)
            .map_err(|error| anyhow!(allocate::refusal(&shown, length, &error)))?;
    }
    Ok(())
}

/// A metadata file that is read page by page.
pub(super) struct OnDisk<'a> {
    pub(super) file: &'a File,
    pub(super) length: u64,
    pub(super) shown: &'a str,
    /// Why the file is not written: there is no room for it.
    pub(super) fails: Option<std::io::Error>,
}

impl WritableFile for OnDisk<'_> {
    type Error = std::io::Error;

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Self::Error> {
        if let Some(error) = self.fails.take() {
            return Err(error);
        }
        self.file.write_all_at(bytes, offset)
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        self.file.sync_all()
    }
}

impl MetadataFile for OnDisk<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    fn page(&self, offset: u64, into: &mut [u8; PAGE_BYTES]) -> bool {
        let read = self.file.read_exact_at(into, offset);
        if let Err(error) = &read {
            tracing::warn!(file = self.shown, offset, %error, "a page of the metadata cannot be read");
        }
        read.is_ok()
    }
}

/// A file is of another group or node, or of one that has another name now.
#[derive(Debug)]
pub(super) struct OtherOwner(String);

impl fmt::Display for OtherOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OtherOwner {}

/// Reads it. It must belong to this group and node, and have nothing that this version would ignore.
pub(super) fn read(file: &File, shown: &str, engine: &helio_engine::Config) -> Result<Opened> {
    let owner = (engine.group.as_str(), engine.node.as_str());
    let on_disk = OnDisk { file, length: file.body().facts()?.length.0, shown, fails: None };
    let opened = Ledger::open(&on_disk, owner, helio_link::checksum).map_err(|error| {
        let hint = error.hint(owner);
        match error {
            LedgerError::Owner { .. } => Error::new(OtherOwner(format!(
                "{shown}: {error}, not to {} on {}\n  hint: {hint}",
                owner.0, owner.1
            ))),
            _ => anyhow!("{shown}: {error}\n  hint: {hint}"),
        }
    })?;
    if let Opened::Found(found) = &opened
        && let Some(more) = found.0.beyond()
    {
        bail!(
            "{shown} has {more}, which this version does not use\n  hint: run the build that wrote it, or a later one"
        );
    }
    Ok(opened)
}

/// It must be about the volumes that the configuration names.
pub(super) fn fits(found: &Superblock, engine: &helio_engine::Config, shown: &str) -> Result<()> {
    fits_sizes(found, engine, shown)?;
    let known = found.names.iter().zip(&engine.names).filter(|(known, _)| **known != 0);
    let mut others = known.filter(|(known, name)| **known != digest::volume(name));
    let Some((_, name)) = others.next() else { return Ok(()) };
    let (group, node) = (&engine.group, &engine.node);
    bail!(
        "volume {name} of group {group} has another name in {shown}. Nothing was changed\n  hint: if it was renamed: `helio rename volume \
         {group}/OLD {name} --node {node}`, with its old name. If not: restore the names of the volumes in the file"
    )
}

/// It must have the sizes and the granularity of the configuration.
pub(super) fn fits_sizes(
    found: &Superblock,
    engine: &helio_engine::Config,
    shown: &str,
) -> Result<()> {
    let sizes: Vec<u64> = engine.volumes.iter().map(|v| v.0).collect();
    if found.sizes != sizes {
        bail!(
            "the volumes of group {} have sizes {sizes:?} bytes in the configuration and {:?} in {shown}\n  \
             hint: restore the sizes and the order of the volumes in the file",
            engine.group,
            found.sizes
        );
    }
    if u64::from(found.granularity) != engine.granularity.0 {
        bail!(
            "dirty regions of group {} are {} each in the configuration and {} in {shown}\n  hint: restore \
             `granularity` in the file",
            engine.group,
            engine.granularity,
            Bytes(u64::from(found.granularity))
        );
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::Config;
    use crate::offline;
    use crate::open::{begin, engine_config};
    use helio_driver::Linux;
    use helio_format::directory::MapOwner;
    use helio_ledger::Change;

    pub(in crate::open) const CONFIG: &str = r#"[node.paris]
address = "127.0.0.1:7121"
[node.lyon]
address = "127.0.0.1:7122"
[group.db]
nodes = ["paris", "lyon"]
[group.db.volume.data]
size = "1MiB"
members.paris = ["/nowhere/paris"]
members.lyon = ["/nowhere/lyon"]
"#;

    /// Of db on paris.
    pub(in crate::open) fn engine() -> helio_engine::Config {
        let config = Config::parse(CONFIG, "helio.toml").expect("it is whole");
        let view = config.for_node("paris").expect("it is there");
        engine_config(&view.groups[0], "paris")
    }

    #[test]
    fn a_file_with_a_bitmap_of_a_second_member_is_refused() {
        let engine = engine();
        let scratch = tempfile::tempdir().expect("there is room");
        let path = scratch.path().join("db.meta");
        let file = open(&Linux::host(), &path, true).expect("it is new");
        begin::first(&Linux::host(), (&file, &path), &engine).expect("there is room");
        let read = || read(&file, "db.meta", &engine);
        let Ok(Opened::Found(found)) = read() else { panic!("it was written") };
        let (mut ledger, owner) = (found.0, MapOwner::Copy(1));
        let length = ledger.length_with(&[(owner, 65536)]).expect("there is room");
        file.body().set_length(length).expect("there is room");
        assert_eq!(ledger.keep(Change::Make { owner, unit: 65536 }), None);
        offline::settle(&mut ledger, &file).expect("there is room");
        let refused = read().expect_err("it would be ignored").to_string();
        assert!(refused.contains("a bitmap of copy 1"), "{refused}");
    }

    #[test]
    fn a_missing_directory_is_named_with_what_to_do() {
        let scratch = tempfile::tempdir().expect("there is room");
        let folder = scratch.path().join("not-mounted");
        let refused = open(&Linux::host(), &folder.join("db.meta"), true)
            .expect_err("it is missing")
            .to_string();
        let hint = format!("mount the disk of {}. If the group is new, create", folder.display());
        assert!(refused.contains(&hint), "{refused}");
    }
}
