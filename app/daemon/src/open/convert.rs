// SPDX-License-Identifier: Apache-2.0
//! Metadata of the version before, converted when its group is opened: a new file is written beside the old one, made
//! durable and locked, and takes its name. A crash leaves the old file or the new one under that name.

use super::{allocate, private, take};
use crate::offline;
use anyhow::{Context, Result, bail};
use helio_driver::{File, Host, OFlags};
use helio_ledger::Ledger;
use std::path::Path;

/// Writes what a ledger has queued to a new file in the place of `path`, and returns that file.
///
/// # Errors
/// The new file cannot be allocated or written. The old file is unchanged.
pub(super) fn convert(host: &Host, path: &Path, mut ledger: Ledger) -> Result<File> {
    let shown = path.display().to_string();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let bytes = ledger.layout().bytes();
    let folder = path.parent().unwrap_or(Path::new("/"));
    let opened = private(host, &new, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC);
    let file = opened.with_context(|| new.display().to_string())?;
    take(host, &file, &shown)?;
    let allocated =
        allocate::room(host, folder, bytes).and_then(|()| allocate::in_full(&file, bytes));
    if let Err(error) = allocated {
        host.remove(&new).with_context(|| new.display().to_string())?;
        bail!(allocate::refusal(&shown, bytes, &error));
    }
    offline::settle(&mut ledger, &file)
        .and_then(|()| file.sync_all())
        .and_then(|()| Ok(host.rename(&new, path)?))
        .and_then(|()| host.sync_folder(folder))
        .with_context(|| format!("{shown} cannot be converted to the format of this build"))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_driver::Linux;
    use helio_ledger::{Found, Opened};
    use std::fs;

    /// A file of version 2: [`helio_ledger`] says where it comes from.
    const VERSION_2: &[u8] = include_bytes!("../../../../core/ledger/fixtures/version-2.meta");

    fn read(path: &Path) -> Opened {
        let bytes = fs::read(path).expect("it is there");
        Ledger::open(&bytes[..], ("db", "paris"), helio_link::checksum).expect("it is whole")
    }

    fn older(path: &Path) -> (Ledger, Found) {
        let Opened::Older(older) = read(path) else { panic!("of version 2") };
        *older
    }

    #[test]
    fn a_file_of_version_two_opens_as_version_three_with_the_same_content() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("db.meta");
        fs::write(&path, VERSION_2).expect("there is room");
        // What a conversion that was cut off left.
        fs::write(folder.path().join("db.meta.new"), [7; 9000]).expect("there is room");
        let (ledger, before) = older(&path);
        convert(&Linux::host(), &path, ledger).expect("there is room");
        let Opened::Found(found) = read(&path) else { panic!("of this version") };
        assert_eq!(found.1, before);
        assert!(!before.hot.is_empty() && !before.marks.is_empty());
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 1);
    }

    #[test]
    fn a_conversion_that_fails_leaves_the_old_file() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("db.meta");
        fs::write(&path, VERSION_2).expect("there is room");
        fs::create_dir(folder.path().join("db.meta.new")).expect("there is room");
        let (ledger, _) = older(&path);
        convert(&Linux::host(), &path, ledger)
            .expect_err("a directory has the name of the new file");
        assert_eq!(fs::read(&path).expect("it is there"), VERSION_2);
    }
}
