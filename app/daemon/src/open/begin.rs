// SPDX-License-Identifier: Apache-2.0
//! The first record of a group on a node: at its first start, or since an operator discarded what the node holds.
//!
//! The record is durable before a member gets its identity. So a member that has one, beside a state directory without
//! metadata, took part before: the metadata is lost, and a start would take its copy for an empty one.

use crate::config::{Config, GroupView, VolumeConfig};
use crate::digest;
use crate::offline;
use crate::open::mirror::Places;
use crate::open::owners::Members;
use crate::open::{StateDir, allocate, before, metadata};
use anyhow::{Context, Result, bail};
use helio_driver::{Errno, File, Host};
use helio_format::files::Standing;
use helio_format::superblock::Superblock;
use helio_ledger::{Layout, Ledger, RollbackStanding, describe, files};
use helio_plant::{Plant, planted};
use helio_units::Generation;
use std::path::{Path, PathBuf};

/// What `helio metadata create` is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creation {
    /// The group.
    pub group: String,
    /// This node, as the configuration names it.
    pub node: String,
    /// The configuration file.
    pub config: PathBuf,
    /// The state directory of this node's daemon, which is stopped.
    pub state: PathBuf,
    /// A before-image file with a restore that is to be finished.
    pub restore: Option<PathBuf>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The new file.
    pub path: PathBuf,
    /// Where the files that could not be used were moved.
    pub kept: Vec<PathBuf>,
    /// The volumes of which nothing tells which member is complete, each with the one that counts.
    pub untold: Vec<(String, PathBuf)>,
}

/// Begins a metadata file that was never written.
pub(super) fn first(
    host: &Host,
    file: (&File, &Path),
    engine: &helio_engine::Config,
) -> Result<()> {
    write(host, file, blank(engine.volumes.iter().map(|v| v.0).collect(), engine))
}

/// Bytes of the metadata file of a new group.
pub(super) fn bytes(engine: &helio_engine::Config) -> u64 {
    Layout::of(&blank(engine.volumes.iter().map(|v| v.0).collect(), engine)).bytes()
}

fn blank(sizes: Vec<u64>, engine: &helio_engine::Config) -> Superblock {
    let mut new = Superblock::new(&engine.group, &engine.node, sizes);
    new.granularity = engine.granularity.0 as u32;
    new.hot_slots = engine.hot_extents;
    new.names = engine.names.iter().map(|name| digest::volume(name)).collect();
    new
}

fn write(host: &Host, (file, path): (&File, &Path), record: Superblock) -> Result<()> {
    let shown = || path.display().to_string();
    let layout = Layout::of(&record);
    let folder = path.parent().unwrap_or(Path::new("/"));
    let allocated = allocate::room(host, folder, layout.bytes())
        .and_then(|()| allocate::in_full(file, layout.bytes()));
    if let Err(error) = allocated {
        // Nothing lies in it: the next start begins with an empty one.
        file.body().set_length(0).with_context(shown)?;
        bail!(allocate::refusal(&shown(), layout.bytes(), &error));
    }
    let (group, node) = (record.group.clone(), record.node.clone());
    let ledger = Ledger::fresh(layout, (&group, &node), helio_link::checksum);
    offline::write_superblock(ledger, record, file).with_context(shown)?;
    if planted(Plant::CreateUndurable) {
        return Ok(());
    }
    host.sync_folder(folder).with_context(shown)
}

/// A first start came to nothing: neither its record nor the identities it gave stay.
pub(super) fn undo(places: &Places, members: &Members<'_>) {
    for path in places.all() {
        if let Err(error) = places.host.remove(path)
            && error != Errno::NOENT
        {
            tracing::debug!(path = %path.display(), %error, "a first record stays");
            return;
        }
    }
    members.named().for_each(|member| crate::adopt::forget_name(&places.host, member));
}

/// Writes metadata that says that what the node holds of the group counts for nothing.
///
/// # Errors
/// The group has metadata that can be used, a daemon runs, or the file cannot be written.
pub fn create(host: &Host, wish: &Creation) -> Result<Created> {
    let Creation { group, node, config, state, restore } = wish;
    let config = Config::load(host, config)?;
    let view = config.for_node(node)?;
    let groups = view.groups.iter().map(|view| view.name.to_owned()).collect();
    let Some(view) = view.groups.iter().find(|view| view.name == group) else {
        bail!("node {node} is not in {group}\n  hint: `--node`, or the group's name")
    };
    let held = StateDir::open(host, state)?;
    let places = Places::of(host, group, &held.path, view.node.second_metadata.as_deref());
    places.apart()?;
    Members::of(host, view, node, &groups).not_claimed(&places, group)?;
    let engine = super::engine_config(view, node);
    let old = places.all().map(|path| Old::found(host, path, group, engine.volumes.len()));
    let old = old.collect::<Result<Vec<_>>>()?;
    let suspect = old.iter().fold(0, |all, old| all | old.suspect);
    let sizes = engine.volumes.iter().map(|v| v.0).collect();
    let record = Superblock { discarded: true, suspect, ..blank(sizes, &engine) };
    let record = match restore {
        Some(path) => before::with_restore(host, path, record)?,
        None => {
            let folder = view.group.safe_copy_dir.as_deref();
            let place = before::place(host, group, &held.path, folder)?;
            without_restore(host, &place, record)?
        }
    };
    let (mut kept, mut record) = (Vec::new(), Some(record));
    for old in old {
        let (file, moved) = old.emptied(host, group)?;
        kept.extend(moved);
        // The second file stays empty: the first one counts from here on, and the next start makes the second one like it.
        if let Some(record) = record.take() {
            write(host, (&file, &places.first), record)?;
        }
    }
    Ok(Created { path: places.first, kept, untold: untold(host, view, node) })
}

/// The volumes of which no member of several has a stamp, each with the member that counts.
fn untold(host: &Host, view: &GroupView<'_>, node: &str) -> Vec<(String, PathBuf)> {
    let of = |(name, volume): (&String, &VolumeConfig)| {
        let [first, _, ..] = volume.members_on(node) else { return None };
        let members = volume.members_on(node);
        let is_told = members.iter().any(|path| helio_disk::is_stamped(host, path));
        (!is_told).then(|| (name.clone(), first.clone()))
    };
    view.group.volumes.iter().filter_map(of).collect()
}

/// The record of a node of which the rest of a restore is dropped: its volumes are a mixture, which only a peer can rewrite. One that can
/// be finished is not dropped.
fn without_restore(host: &Host, path: &Path, record: Superblock) -> Result<Superblock> {
    let (group, node) = (&record.group, &record.node);
    let found = before::found(host, path, &record)?;
    match found.standing(&record) {
        RollbackStanding::Unrecorded(by) if found.rollback(by).is_some() => {
            let shown = path.display();
            bail!(
                "{shown} has the rest of a restore of {group}, and parts of its volumes on {node} may hold what was before it\n  \
                 hint: finish it with --finish-restore {shown}. If that file is an older copy, or the peer has all data, move it away: \
                 then the volumes are used as they are"
            )
        }
        RollbackStanding::Unrecorded(_) | RollbackStanding::Lost => {
            let suspect = record.suspect | every(record.sizes.len());
            Ok(Superblock { suspect, copies_over: found.last, ..record })
        }
        _ => Ok(record),
    }
}

/// A bit for each of so many volumes.
fn every(volumes: usize) -> u64 {
    u64::MAX.checked_shr(64u32.saturating_sub(volumes as u32)).unwrap_or_default()
}

/// A metadata file that gives way to a new one.
struct Old {
    file: File,
    path: PathBuf,
    /// Whether it is kept under another name: it is neither empty nor the record of a group that never began.
    keep: bool,
    /// Which copies are suspect, a bit each. Other metadata does not make a cache forget what a failed flush left in it, and
    /// a record that cannot be read may have told of one.
    suspect: u64,
}

impl Old {
    /// Opens the file, which is locked. Metadata that a daemon would serve from is refused.
    fn found(host: &Host, path: &Path, group: &str, volumes: usize) -> Result<Self> {
        let file = metadata::open(host, path, true)?;
        let on_disk = offline::OnDisk::of(file.clone())?;
        let length = on_disk.length;
        let found = describe(&on_disk, helio_link::checksum);
        let standing = files::record(&on_disk, helio_link::checksum).map(|record| record.standing);
        let history =
            found.superblock.as_ref().is_some_and(|b| b.lineage.generation != Generation::NONE);
        if found.is_sound() && history && standing != Some(Standing::Stale) {
            let shown = path.display();
            let accept = match standing {
                Some(Standing::Both) => format!(
                    "; if it refuses this file because the other one is lost: `helio metadata accept {shown}`"
                ),
                _ => String::new(),
            };
            bail!(
                "{shown} has the history of {group}: nothing is lost\n  hint: start the daemon{accept}; to discard this \
                 node's copy: `helio resolve {group} --discard NODE`"
            );
        }
        let suspect = match (length, &found.superblock) {
            (0, _) => 0,
            (_, None) => every(volumes),
            (_, Some(record)) => record.suspect,
        };
        let keep = length > 0 && (!found.is_sound() || history);
        Ok(Self { file, path: path.to_owned(), keep, suspect })
    }

    /// Makes room for the new file: an empty one, which is locked. Returns it, and where the old one was moved.
    fn emptied(self, host: &Host, group: &str) -> Result<(File, Option<PathBuf>)> {
        let Self { file, path, keep, .. } = self;
        let shown = || path.display().to_string();
        if !keep {
            file.body().set_length(0).and_then(|()| file.body().sync_all()).with_context(shown)?;
            return Ok((file, None));
        }
        let named = |n: u32| path.with_file_name(format!("{group}.meta.damaged-{n}"));
        let kept = host.first_free(named).with_context(shown)?;
        host.rename(&path, &kept).with_context(shown)?;
        Ok((metadata::open(host, &path, true)?, Some(kept)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::metadata::tests::CONFIG;
    use helio_driver::{Linux, Mode, OFlags};
    use helio_format::files::FileRecord;
    use std::fs;

    #[test]
    fn a_file_that_another_process_writes_is_left_as_it_is() {
        let scratch = tempfile::tempdir().expect("there is room");
        let (config, state) = (scratch.path().join("helio.toml"), scratch.path().join("state"));
        fs::write(&config, CONFIG).expect("there is room");
        let wish =
            Creation { group: "db".into(), node: "paris".into(), config, state, restore: None };
        let groups = wish.state.join("groups");
        fs::create_dir_all(&groups).expect("there is room");
        let path = groups.join("db.meta");
        for content in [&[0xA5; 8192][..], &[]] {
            fs::write(&path, content).expect("there is room");
            let writer =
                Linux::host().open(&path, OFlags::WRONLY, Mode::empty()).expect("just made");
            assert!(writer.body().lock().expect("it can be locked"));
            let refused =
                create(&Linux::host(), &wish).expect_err("another process writes it").to_string();
            assert!(refused.contains("another process writes this file"), "{refused}");
            assert_eq!(fs::read(&path).expect("it is there"), content);
            assert_eq!(fs::read_dir(&groups).expect("it is there").count(), 1);
        }
        assert!(create(&Linux::host(), &wish).expect("no other process writes it").kept.is_empty());
        fs::write(&path, [0xA5; 8192]).expect("there is room");
        let kept = create(&Linux::host(), &wish).expect("no other process writes it").kept;
        assert_eq!(fs::read(&kept[0]).expect("it is there"), [0xA5; 8192]);
        let found = offline::OnDisk::open(&path).expect("just made");
        let found = describe(&found, helio_link::checksum);
        let record = found.superblock.expect("just written");
        assert_eq!(
            (record.discarded, record.suspect),
            (true, 1),
            "the old record may have said so"
        );
    }
    /// A node with two metadata files, each of which has this standing and history, or is damaged.
    fn with_two(
        first: Option<Standing>,
        second: Option<Standing>,
    ) -> (tempfile::TempDir, Creation) {
        let scratch = tempfile::tempdir().expect("there is room");
        let at = |name: &str| scratch.path().join(name);
        let (config, state) = (at("helio.toml"), at("state"));
        let line = format!("[node.paris]\nmetadata = [\"state\", {:?}]\n", at("second"));
        fs::write(&config, CONFIG.replace("[node.paris]\n", &line)).expect("there is room");
        let folders = [state.join("groups"), at("second")];
        for (folder, standing) in folders.iter().zip([first, second]) {
            fs::create_dir_all(folder).expect("there is room");
            let path = folder.join("db.meta");
            let Some(standing) = standing else {
                fs::write(&path, [0xA5; 8192]).expect("there is room");
                continue;
            };
            let mut record = Superblock::new("db", "paris", vec![1 << 20]);
            record.lineage.generation = Generation { number: 1, tag: 7 };
            let file = metadata::open(&Linux::host(), &path, true).expect("it is new");
            write(&Linux::host(), (&file, &path), record).expect("there is room");
            let record = FileRecord { standing, epoch: 3 };
            let mark = helio_format::page::owner("db", "paris", helio_link::checksum);
            let page = files::record_page(record, mark, helio_link::checksum);
            for place in files::record_places() {
                file.write_all_at(&page, place).expect("there is room");
            }
        }
        let wish =
            Creation { group: "db".into(), node: "paris".into(), config, state, restore: None };
        (scratch, wish)
    }

    #[test]
    fn new_metadata_replaces_both_files_and_only_the_first_one_counts() {
        for (first, second) in
            [(None, None), (None, Some(Standing::Stale)), (Some(Standing::Stale), None)]
        {
            let (scratch, wish) = with_two(first, second);
            let Created { path, kept, .. } =
                create(&Linux::host(), &wish).expect("neither can be used");
            assert_eq!(kept.len(), 2, "both are kept: {kept:?}");
            let second = scratch.path().join("second/db.meta");
            assert_eq!(fs::metadata(&second).expect("it is there").len(), 0);
            let found = offline::OnDisk::open(&path).expect("just made");
            let found = describe(&found, helio_link::checksum);
            assert!(found.superblock.expect("just written").discarded);
            // Neither has a history now: the same is possible again, and keeps nothing.
            assert!(create(&Linux::host(), &wish).expect("nothing is lost by it").kept.is_empty());
        }
    }

    #[test]
    fn new_metadata_is_refused_while_one_of_two_files_has_the_history_and_nothing_changes() {
        for standing in [Standing::Alone, Standing::Both] {
            for (first, second) in [(Some(standing), None), (None, Some(standing))] {
                let (scratch, wish) = with_two(first, second);
                let paths = ["state/groups", "second"].map(|folder| scratch.path().join(folder));
                let content = || paths.clone().map(|folder| fs::read(folder.join("db.meta")).ok());
                let before = content();
                let refused =
                    create(&Linux::host(), &wish).expect_err("one has the history").to_string();
                let path = paths[usize::from(second.is_some())].join("db.meta");
                let start = format!("{} has the history of db", path.display());
                assert!(refused.starts_with(&start), "{refused}");
                let accept = format!("helio metadata accept {}", path.display());
                assert_eq!(refused.contains(&accept), standing == Standing::Both, "{refused}");
                assert_eq!(content(), before);
            }
        }
    }
}
