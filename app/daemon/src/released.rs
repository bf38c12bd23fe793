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
/// What stands in it before the path of the second metadata file.
const SECOND: &str = "second metadata file: ";
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
            tracing::warn!(
                group,
                %error,
                "was released, and its old metadata cannot be moved away; its name cannot be used again\n  hint: make the \
                 directories of its metadata files writable, or remove these files and {}",
                mark(state, &group).display()
            );
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

/// Records, durably, that a group is released, and where its second metadata file is.
pub(crate) fn note(state: &Path, group: &str, second: Option<&Path>) -> io::Result<()> {
    let text = "released: this node no longer serves the group, until `helio adopt`\n";
    let second = second.map_or_else(String::new, |path| format!("{SECOND}{}\n", path.display()));
    durable::replace(&mark(state, group), (text.to_owned() + &second).as_bytes())
}

/// Moves metadata away that an interrupted release left behind, so that a new group of the same name does not use it.
///
/// # Errors
/// A file cannot be moved, or the directory of the second one is missing.
fn put_away(state: &Path, group: &str) -> io::Result<()> {
    let text = fs::read_to_string(mark(state, group))?;
    let second =
        text.split_once(SECOND).map(|(_, path)| PathBuf::from(path.trim_end_matches('\n')));
    let first = state.join("groups").join(format!("{group}.meta"));
    [Some(first), second].into_iter().flatten().try_for_each(|path| {
        let folder = path.parent().unwrap_or(Path::new("/"));
        ended(fs::rename(&path, free_name(folder, group)))?;
        File::open(folder)?.sync_all()
    })
}

/// A file that is missing needs no removal.
fn ended(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// It takes part again.
pub(crate) fn forget(state: &Path, group: &str) -> io::Result<()> {
    ended(fs::remove_file(mark(state, group)))
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
        ended(done)?;
    }
    File::open(groups)?.sync_all()?;
    Ok(kept)
}

/// Removes the second file of a released group's metadata.
pub(crate) fn clear_second(path: &Path) -> io::Result<()> {
    ended(fs::remove_file(path))?;
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

fn free_name(folder: &Path, group: &str) -> PathBuf {
    let named = |n: u32| folder.join(format!("{group}.meta.released-{n}"));
    (1..).map(named).find(|path| !path.exists()).unwrap_or_else(|| named(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = r#"[node.paris]
address = "127.0.0.1:7121"
[node.lyon]
address = "127.0.0.1:7122"
"#;

    /// A node on which the release of db was cut off before its metadata was removed, and whose configuration no longer has db.
    struct CutOff {
        _scratch: tempfile::TempDir,
        config: PathBuf,
        state: PathBuf,
        /// The first metadata file, and the second one.
        files: [PathBuf; 2],
    }

    impl CutOff {
        fn new() -> Self {
            let scratch = tempfile::tempdir().expect("there is room");
            let at = |name: &str| scratch.path().join(name);
            let (config, state) = (at("helio.toml"), at("state"));
            let files = [state.join("groups/db.meta"), at("second/db.meta")];
            fs::write(&config, NODES).expect("there is room");
            for file in &files {
                fs::create_dir_all(file.parent().expect("it has one")).expect("there is room");
                fs::write(file, "metadata").expect("there is room");
            }
            note(&state, "db", Some(&files[1])).expect("there is room");
            Self { _scratch: scratch, config, state, files }
        }

        /// The daemon reads its configuration. Returns the groups that are released since.
        fn load(&self) -> BTreeSet<String> {
            load(&self.config, &self.state).expect("nothing is wrong with it");
            all(&self.state)
        }
    }

    #[test]
    fn metadata_that_an_interrupted_release_left_is_moved_away_before_the_name_is_used_again() {
        for left in [[true, true], [false, true], [false, false]] {
            let node = CutOff::new();
            for (file, _) in node.files.iter().zip(left).filter(|(_, left)| !left) {
                fs::remove_file(file).expect("it is there");
            }
            assert!(node.load().is_empty(), "the name can be used again");
            for (file, left) in node.files.iter().zip(left) {
                assert!(!file.exists(), "{}", file.display());
                assert_eq!(file.with_file_name("db.meta.released-1").exists(), left);
            }
        }
    }

    #[test]
    fn a_group_stays_released_while_its_second_file_cannot_be_moved_away() {
        let node = CutOff::new();
        let folder = node.files[1].parent().expect("it has one");
        let elsewhere = folder.with_file_name("elsewhere");
        fs::rename(folder, &elsewhere).expect("its disk is removed");
        assert_eq!(node.load(), BTreeSet::from(["db".to_owned()]));
        fs::rename(&elsewhere, folder).expect("its disk is back");
        assert!(node.load().is_empty());
        assert!(!node.files[1].exists());
    }
}
