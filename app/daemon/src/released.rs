// SPDX-License-Identifier: Apache-2.0
//! Groups that were released on this node. A file beside their metadata says so, for as long as the configuration may
//! still name them: a daemon that began such a group anew would let the other node's copy overwrite a disk that was
//! given back.

use crate::config::{Config, ConfigError};
use crate::durable;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// How such a file ends; no group's metadata does.
const SUFFIX: &str = ".released";
/// What lies beside a group's metadata, and goes with it.
const COMPANIONS: [&str; 2] = ["meta", "verify"];

fn mark(state: &Path, group: &str) -> PathBuf {
    state.join("groups").join(format!("{group}{SUFFIX}"))
}

/// Reads the configuration without the groups that were released here. One that the file names no more is forgotten, so that
/// the name can be used again.
pub(crate) fn load(file: &Path, state: &Path) -> Result<Config, ConfigError> {
    let mut config = Config::load(file)?;
    for group in all(state) {
        if config.groups.remove(&group).is_some() {
            let shown = mark(state, &group);
            tracing::warn!(
                group,
                "was released on this node and is ignored\n  hint: remove it from {}; to mirror its volumes from this \
                 node again, `helio adopt`; to make this node the secondary with them, remove {}",
                file.display(),
                shown.display()
            );
        } else if let Err(error) = put_away(state, &group).and_then(|()| forget(state, &group)) {
            tracing::debug!(group, %error, "the record of the release stays");
        }
    }
    Ok(config)
}

/// The groups that were released.
pub(crate) fn all(state: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(state.join("groups")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(SUFFIX)?.to_owned()))
        .collect()
}

/// Records, durably, that a group is released.
pub(crate) fn note(state: &Path, group: &str) -> io::Result<()> {
    let text = b"released: this node no longer serves the group, until `helio adopt`\n";
    durable::replace(&mark(state, group), text)
}

/// Metadata that a release was stopped from clearing away does not come back with the group's name.
fn put_away(state: &Path, group: &str) -> io::Result<()> {
    let groups = state.join("groups");
    match fs::rename(groups.join(format!("{group}.meta")), free_name(&groups, group)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// It takes part again.
pub(crate) fn forget(state: &Path, group: &str) -> io::Result<()> {
    match fs::remove_file(mark(state, group)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Takes what was kept of a released group out of the way: removes it, or keeps it under another name, which is returned.
pub(crate) fn clear(
    state: &Path,
    group: &str,
    safe_copy: &Path,
    keep: bool,
) -> io::Result<Option<PathBuf>> {
    let groups = state.join("groups");
    let mut kept = None;
    let mut paths: Vec<PathBuf> = vec![safe_copy.join(format!("{group}.before"))];
    paths.extend(COMPANIONS.map(|kind| groups.join(format!("{group}.{kind}"))));
    for path in paths {
        let done = if keep && path.extension().is_some_and(|kind| kind == "meta") {
            let to = free_name(&groups, group);
            let done = fs::rename(&path, &to);
            kept = Some(to);
            done
        } else {
            fs::remove_file(&path)
        };
        match done {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    File::open(groups)?.sync_all()?;
    Ok(kept)
}

/// Removes the second file of a released group's metadata.
pub(crate) fn clear_mirror(folder: &Path, group: &str) -> io::Result<()> {
    match fs::remove_file(folder.join(format!("{group}.meta"))) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => File::open(folder)?.sync_all(),
    }
}

fn free_name(groups: &Path, group: &str) -> PathBuf {
    let named = |n: u32| groups.join(format!("{group}.meta.released-{n}"));
    (1..).map(named).find(|path| !path.exists()).unwrap_or_else(|| named(0))
}
