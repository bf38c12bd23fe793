// SPDX-License-Identifier: Apache-2.0
//! Groups that were released on this node. A file beside their metadata says so, for as long as the configuration may
//! still name them: a daemon that began such a group anew would let the other node's copy overwrite a disk that was
//! given back.

use crate::config::{Config, ConfigError};
use crate::durable;
use helio_driver::{Errno, Host, Mode, OFlags};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// How such a file ends; no group's metadata does.
const SUFFIX: &str = ".released";
/// What stands in it before the path of the second metadata file.
const SECOND: &str = "second metadata file: ";

/// The file that says that a group was released.
fn mark(state: &Path, group: &str) -> PathBuf {
    state.join("groups").join(format!("{group}{SUFFIX}"))
}

/// How a released group is served by this node again. For hints.
pub(crate) fn way_back(state: &Path, group: &str) -> String {
    format!(
        "to mirror the volumes of {group} from this node again, run `helio adopt`; to make this node a secondary with the same disks, remove {}",
        mark(state, group).display()
    )
}

/// Reads the configuration without the groups that were released here. One that the file names no more is forgotten, so that
/// the name can be used again.
pub(crate) fn load(host: &Host, file: &Path, state: &Path) -> Result<Config, ConfigError> {
    let mut config = Config::load(host, file)?;
    for group in all(host, state) {
        if config.groups.remove(&group).is_some() {
            tracing::warn!(
                group,
                "was released on this node and is ignored\n  hint: remove it from {}; {}",
                file.display(),
                way_back(state, &group)
            );
        } else if let Err(error) =
            put_away(host, state, &group).and_then(|()| forget(host, state, &group))
        {
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
pub(crate) fn all(host: &Host, state: &Path) -> BTreeSet<String> {
    let names = host.list(&state.join("groups")).unwrap_or_default();
    names.iter().filter_map(|name| Some(name.to_str()?.strip_suffix(SUFFIX)?.to_owned())).collect()
}

/// Records, durably, that a group is released, and where its second metadata file is. If that fails, the next start finds the group as it
/// was, unless the power fails before.
pub(crate) fn note(
    host: &Host,
    state: &Path,
    group: &str,
    second: Option<&Path>,
) -> io::Result<()> {
    let text = "released: this node no longer serves the group, until `helio adopt`\n";
    let second = second.map_or_else(String::new, |path| format!("{SECOND}{}\n", path.display()));
    let noted = durable::replace(host, &mark(state, group), (text.to_owned() + &second).as_bytes());
    if noted.is_err() {
        // It may be there, and only not durable.
        let _not_there = forget(host, state, group);
    }
    noted
}

/// Moves metadata away that an interrupted release left behind, so that a new group of the same name does not use it.
///
/// # Errors
/// A file cannot be moved, or the directory of the second one is missing.
fn put_away(host: &Host, state: &Path, group: &str) -> io::Result<()> {
    let text = host.read_text(&mark(state, group))?;
    let second =
        text.split_once(SECOND).map(|(_, path)| PathBuf::from(path.trim_end_matches('\n')));
    let first = state.join("groups").join(format!("{group}.meta"));
    [Some(first), second].into_iter().flatten().try_for_each(|path| {
        let folder = folder_of(&path);
        ended(free_name(host, folder, group).and_then(|free| host.rename(&path, &free)))?;
        host.sync_folder(folder)
    })
}

/// A file that is missing needs no removal.
fn ended(done: Result<(), Errno>) -> io::Result<()> {
    match done {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// It takes part again.
pub(crate) fn forget(host: &Host, state: &Path, group: &str) -> io::Result<()> {
    ended(host.remove(&mark(state, group)))
}

/// What is left of a released group on this node.
#[derive(Debug)]
pub(crate) struct Remains {
    /// The state directory.
    pub(crate) state: PathBuf,
    pub(crate) group: String,
    /// Where its before-images lie.
    pub(crate) safe_copy: PathBuf,
    /// Its second metadata file.
    pub(crate) second: Option<PathBuf>,
    /// Where its members lie.
    pub(crate) members: Vec<PathBuf>,
}

/// Steps of a release that failed.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    /// Why each failed, with its path.
    pub(crate) why: Vec<String>,
    /// Files that may still be there.
    pub(crate) files: Vec<PathBuf>,
    /// Members that still have their name.
    pub(crate) named: Vec<PathBuf>,
    /// Files that were renamed.
    pub(crate) kept: Vec<PathBuf>,
}

impl Unfinished {
    fn add(&mut self, path: &Path, error: &io::Error) {
        self.why.push(format!("{}: {error}", path.display()));
    }
}

impl Remains {
    /// Takes the names off its members, makes these durable, and removes its files. With `keep` the metadata files are renamed
    /// instead, and their new paths are returned. A step that fails keeps none of the others from being done.
    ///
    /// # Errors
    /// Every step that failed.
    pub(crate) fn clear(&self, host: &Host, keep: bool) -> Result<Vec<PathBuf>, Unfinished> {
        let groups = self.state.join("groups");
        let (mut kept, mut unfinished) = (Vec::new(), Unfinished::default());
        for member in &self.members {
            if let Err(error) = helio_disk::forget_name(host, member) {
                unfinished.add(member, &error);
                unfinished.named.push(member.clone());
            }
            let opened = host.open(member, OFlags::RDONLY, Mode::empty());
            if let Err(error) = opened.and_then(|file| file.body().sync_all()) {
                unfinished.add(member, &error.into());
            }
        }
        let metadata = groups.join(format!("{}.meta", self.group));
        let before = self.safe_copy.join(format!("{}.before", self.group));
        let results = ["verify", "drill"].map(|of| groups.join(format!("{}.{of}", self.group)));
        let metadata = [Some(&metadata), self.second.as_ref()].into_iter().flatten();
        let others = [&before].into_iter().chain(&results).map(|file| (file, false));
        for (file, keep) in metadata.map(|file| (file, keep)).chain(others) {
            let folder = folder_of(file);
            let cleared = if keep {
                free_name(host, folder, &self.group).and_then(|to| {
                    host.rename(file, &to)?;
                    kept.push(to);
                    Ok(())
                })
            } else {
                host.remove(file)
            };
            if let Err(error) = ended(cleared).and_then(|()| host.sync_folder(folder)) {
                unfinished.add(file, &error);
                unfinished.files.push(file.clone());
            }
        }
        if unfinished.why.is_empty() {
            return Ok(kept);
        }
        Err(Unfinished { kept, ..unfinished })
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn free_name(host: &Host, folder: &Path, group: &str) -> Result<PathBuf, Errno> {
    host.first_free(|n| folder.join(format!("{group}.meta.released-{n}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_driver::Linux;
    use std::fs;

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
            note(&Linux::host(), &state, "db", Some(&files[1])).expect("there is room");
            Self { _scratch: scratch, config, state, files }
        }

        fn remains(&self, members: Vec<PathBuf>) -> Remains {
            Remains {
                state: self.state.clone(),
                group: "db".to_owned(),
                safe_copy: self.state.join("groups"),
                second: Some(self.files[1].clone()),
                members,
            }
        }

        /// The daemon reads its configuration. Returns the groups that are released since.
        fn load(&self) -> BTreeSet<String> {
            load(&Linux::host(), &self.config, &self.state).expect("nothing is wrong with it");
            all(&Linux::host(), &self.state)
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

    #[test]
    fn a_second_file_that_cannot_be_removed_keeps_nothing_else_of_a_released_group() {
        let node = CutOff::new();
        let member = node.config.with_file_name("data.img");
        fs::write(&member, "data").expect("there is room");
        let named = rustix::fs::setxattr(
            &member,
            "user.heliograph",
            &[7; 16],
            rustix::fs::XattrFlags::empty(),
        );
        named.expect("the file system keeps attributes");
        // Such a file cannot be removed by whoever it is.
        let [first, second] = &node.files;
        fs::remove_file(second).expect("it is there");
        fs::create_dir(second).expect("there is room");
        let remains = node.remains(vec![member.clone()]);
        let Unfinished { why, files, .. } =
            remains.clear(&Linux::host(), false).expect_err("one step fails");
        assert!(why.len() == 1 && why[0].starts_with(&second.display().to_string()), "{why:?}");
        assert_eq!(files, std::slice::from_ref(second));
        assert!(!first.exists() && helio_disk::is_named(&Linux::host(), &member) == Ok(false));
    }

    #[test]
    fn a_release_keeps_each_metadata_file_that_there_is_and_names_no_other() {
        for left in [[true, true], [false, true], [true, false], [false, false]] {
            let node = CutOff::new();
            for (file, _) in node.files.iter().zip(left).filter(|(_, left)| !left) {
                fs::remove_file(file).expect("it is there");
            }
            let kept = node.remains(Vec::new()).clear(&Linux::host(), true).expect("nothing fails");
            let there = node.files.iter().zip(left).filter(|(_, left)| *left);
            let named = there.map(|(file, _)| file.with_file_name("db.meta.released-1"));
            assert_eq!(kept, named.collect::<Vec<_>>());
            assert!(kept.iter().all(|file| file.exists()));
            assert!(!node.files.iter().any(|file| file.exists()));
        }
    }

    #[test]
    fn every_file_that_a_release_could_not_remove_is_named_and_no_member() {
        let node = CutOff::new();
        let [first, second] = &node.files;
        let folder = second.parent().expect("it has one");
        fs::remove_dir_all(folder).expect("its disk is removed");
        let verify = first.with_file_name("db.verify");
        fs::create_dir(&verify).expect("there is room");
        let lost = node.config.with_file_name("lost.img");
        let Unfinished { why, files, .. } = node
            .remains(vec![lost.clone()])
            .clear(&Linux::host(), false)
            .expect_err("three steps fail");
        let named = [&lost, second, &verify].map(|path| path.display().to_string());
        assert_eq!(why.len(), 3, "{why:?}");
        assert!(why.iter().zip(&named).all(|(why, path)| why.starts_with(path)), "{why:?}");
        assert_eq!(files, [second.clone(), verify.clone()]);
    }
}
