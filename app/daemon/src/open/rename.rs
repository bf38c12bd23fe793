// SPDX-License-Identifier: Apache-2.0
//! Another name for a group, a volume or a node, in what a node has on record. Its daemon is stopped, and its configuration has the new
//! name already.
//!
//! ```text
//!  record each metadata file ──> move the other files of the group ──> move each metadata file
//! ```
//! From the first step to the last one no daemon serves the group under either name: under the old one the metadata is of another
//! group or node, and under the new one it is missing, while a file beside its place is of this group. Each step is durable before
//! the next, and one that is done already is left out: an interrupted command is repeated.

use super::metadata;
use super::{Places, StateDir, engine_config};
use crate::attach;
use crate::config::{Config, GroupView};
use crate::digest;
use crate::offline;
use crate::{drills, released, verified};
use anyhow::{Context, Result, bail};
use helio_driver::{Errno, File, Host, Mode, OFlags};
use helio_format::files::Standing;
use helio_format::superblock::Superblock;
use helio_ledger::{Found, Ledger, Opened, describe, files};
use std::path::{Path, PathBuf};

/// What gets another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// A group.
    Group,
    /// A volume of this group.
    Volume(String),
    /// This node.
    Node,
}

/// What `helio rename` is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renaming {
    /// What gets the name.
    pub what: Name,
    /// Its name until now.
    pub old: String,
    /// Its name in the configuration.
    pub new: String,
    /// This node, as the configuration names it.
    pub node: String,
    /// The configuration file.
    pub config: PathBuf,
    /// The state directory of this node's daemon, which is stopped.
    pub state: PathBuf,
}

/// Records the new name wherever this node has the old one. Returns the groups of which something changed.
///
/// # Errors
/// The configuration or the metadata does not fit the names, a daemon runs, or a file cannot be written. The command can be repeated.
pub fn rename(host: &Host, wish: &Renaming) -> Result<Vec<String>> {
    let config = Config::load(host, &wish.config)?;
    let view = config.for_node(&wish.node)?;
    is_configured(wish, &config)?;
    let held = StateDir::open(host, &wish.state)?;
    if wish.what == Name::Group && released::all(host, &held.path).contains(&wish.new) {
        bail!(
            "group {0} was released on this node, which ignores a group of that name. Nothing was changed\n  hint: use another \
             name. {1}",
            wish.new,
            released::way_back(&held.path, &wish.new)
        );
    }
    let is_meant = |view: &&GroupView<'_>| match &wish.what {
        Name::Group => view.name == wish.new,
        Name::Volume(group) => view.name == group,
        Name::Node => true,
    };
    let mut meant = view.groups.iter().filter(is_meant).peekable();
    if meant.peek().is_none() {
        let (file, node) = (wish.config.display(), &wish.node);
        bail!("{file} names no such group of node {node}\n  hint: check --node and the name");
    }
    let steps_of = |view| {
        let job = Job::of(host, wish, view, &held.path)?;
        Ok((view.name.to_owned(), job.steps()?))
    };
    // All of them are judged before the first one changes.
    let jobs = meant.map(steps_of).collect::<Result<Vec<_>>>()?;
    let mut renamed = Vec::new();
    for (group, steps) in jobs.into_iter().filter(|(_, steps)| !steps.is_empty()) {
        steps.into_iter().try_for_each(|step| step.perform(host))?;
        renamed.push(group);
    }
    Ok(renamed)
}

/// The configuration has the new name, and not the old one.
fn is_configured(wish: &Renaming, config: &Config) -> Result<()> {
    let Renaming { what, old, new, .. } = wish;
    let (kind, has): (_, &dyn Fn(&str) -> bool) = match what {
        Name::Group => ("group", &|name| config.groups.contains_key(name)),
        Name::Node => ("node", &|name| config.nodes.contains_key(name)),
        Name::Volume(group) => ("volume", &|name| {
            config.groups.get(group).is_some_and(|group| group.volumes.contains_key(name))
        }),
    };
    let file = wish.config.display();
    let why = match (has(old), has(new)) {
        (false, true) => return Ok(()),
        (true, true) => format!("{file} names both {kind} {old} and {kind} {new}"),
        (_, false) => format!("{file} does not name {kind} {new}"),
    };
    bail!("{why}\n  hint: give {kind} {old} its new name in this file, on both nodes, then repeat")
}

/// One group.
struct Job<'a> {
    host: &'a Host,
    wish: &'a Renaming,
    view: &'a GroupView<'a>,
    /// Where each file of the group is, and where it is to be. The metadata files are the last ones.
    moves: Vec<(PathBuf, PathBuf)>,
    /// The metadata files, the one that counts first.
    records: Vec<Record>,
    state: PathBuf,
}

/// A metadata file, locked.
struct Record {
    file: File,
    shown: String,
    ledger: Ledger,
    found: Superblock,
    standing: Standing,
}

/// Something that is durable once it is done.
enum Step {
    /// The metadata gets another superblock.
    Record(Box<Record>, Superblock),
    /// The results of verifies get the new name of their volume.
    Verify(PathBuf, (String, String)),
    /// A file gets another path.
    Move(PathBuf, PathBuf),
}

impl<'a> Job<'a> {
    /// Judges what there is of the group, and changes nothing.
    fn of(
        host: &'a Host,
        wish: &'a Renaming,
        view: &'a GroupView<'a>,
        state: &Path,
    ) -> Result<Self> {
        let (old, new) = match wish.what {
            Name::Group => (wish.old.as_str(), wish.new.as_str()),
            Name::Volume(_) | Name::Node => (view.name, view.name),
        };
        let second = view.node.second_metadata.as_deref();
        let places = |group: &str| -> Vec<PathBuf> {
            let mut places: Vec<_> =
                Places::of(host, group, state, second).all().cloned().collect();
            places.reverse();
            places
        };
        let groups = state.join("groups");
        let before = view.group.safe_copy_dir.as_ref().unwrap_or(&groups);
        let others = |group: &str| -> Vec<PathBuf> {
            let frozen = groups.join(format!("{group}.frozen"));
            let results = [verified::path(state, group), drills::path(state, group), frozen];
            [before.join(format!("{group}.before"))].into_iter().chain(results).collect()
        };
        let all = |group: &str| [others(group), places(group)].concat();
        let moves: Vec<_> = all(old).into_iter().zip(all(new)).collect();
        let mut job =
            Self { host, wish, view, moves, records: Vec::new(), state: state.to_owned() };
        job.is_free()?;
        job.is_detached()?;
        for (old, new) in places(old).iter().zip(&places(new)) {
            let there = [old, new].into_iter().find(|path| !is_blank(host, path));
            let record = there.map(|path| Record::of(host, path)).transpose()?.flatten();
            job.records.extend(record);
        }
        let is_blank = |path: &PathBuf| is_blank(host, path);
        if wish.what == Name::Node && places(old).iter().all(is_blank) {
            // A group that never was served here.
            return Ok(job);
        }
        let is_two = job.records.iter().any(|record| record.standing == Standing::Both);
        if is_two && job.records.len() < places(old).len() {
            bail!(
                "one of the two metadata files of {old} is missing, or cannot be read. Nothing was changed\n  hint: mount its disk \
                 and repeat; if it is lost, remove it from `metadata` of the node in the configuration first"
            );
        }
        if job.records.is_empty() {
            bail!(
                "{} has no metadata of {old} that can be read\n  hint: check the name and --state; `helio metadata check {old}` \
                 shows what is damaged",
                groups.display()
            );
        }
        job.records.sort_by_key(|record| record.standing == Standing::Stale);
        Ok(job)
    }

    /// No file of another group has the place of one of this one.
    fn is_free(&self) -> Result<()> {
        let is_taken = |(old, new): &&(PathBuf, PathBuf)| {
            old != new && !is_blank(self.host, old) && !is_blank(self.host, new)
        };
        let Some((old, new)) = self.moves.iter().find(is_taken) else { return Ok(()) };
        bail!(
            "{} and {} exist: the name {} is in use on this node. Nothing was changed\n  hint: use another name; or, if the \
             second file is no longer needed, move it away",
            old.display(),
            new.display(),
            self.wish.new
        )
    }

    /// No attached device has the old name.
    fn is_detached(&self) -> Result<()> {
        let Renaming { what, old, .. } = self.wish;
        let (group, volume) = match what {
            Name::Group => (old, None),
            Name::Volume(group) => (group, Some(format!("{group}/{old}"))),
            Name::Node => return Ok(()),
        };
        let mut attached = attach::recorded(self.host, &self.state, group)?;
        attached.retain(|it| volume.as_ref().is_none_or(|volume| it == volume));
        let Some(volume) = attached.first() else { return Ok(()) };
        bail!(
            "{} is attached, or will be when the daemon starts. Nothing was changed\n  hint: give the old name back in the configuration, start the \
             daemon, `helio detach {volume}`, stop it, and repeat",
            attached.join(", ")
        )
    }

    /// What is to be done, in order.
    fn steps(mut self) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        for record in std::mem::take(&mut self.records) {
            if let Some(new) = self.named(&record)? {
                steps.push(Step::Record(Box::new(record), new));
            }
        }
        let Renaming { what, old, new, .. } = self.wish;
        let path = verified::path(&self.state, self.view.name);
        if matches!(what, Name::Volume(_)) && verified::names(self.host, &path, old) {
            steps.push(Step::Verify(path, (old.clone(), new.clone())));
        }
        let host = self.host;
        let there = self.moves.into_iter().filter(|(old, new)| old != new && !is_blank(host, old));
        steps.extend(there.map(|(old, new)| Step::Move(old, new)));
        Ok(steps)
    }

    /// The superblock with the new name; none if it has it.
    fn named(&self, record: &Record) -> Result<Option<Superblock>> {
        let Record { found, shown, .. } = record;
        let (old, new) = (&self.wish.old, &self.wish.new);
        metadata::fits_sizes(found, &engine_config(self.view, &self.wish.node), shown)?;
        let (mut group, mut node) = (found.group.clone(), found.node.clone());
        let (kind, has) = match self.wish.what {
            Name::Group => ("group", &mut group),
            Name::Node => ("node", &mut node),
            Name::Volume(_) => return self.volume_named(record),
        };
        if has == new {
            return Ok(None);
        }
        if has != old {
            bail!(
                "{shown} is of {kind} {has}, not of {kind} {old}. Nothing was changed\n  hint: check the names and --state"
            );
        }
        has.clone_from(new);
        Ok(Some(found.clone().renamed(&group, &node, helio_link::checksum)))
    }

    /// The same for a volume, which keeps its place among those of its group.
    fn volume_named(&self, Record { found, shown, .. }: &Record) -> Result<Option<Superblock>> {
        let Renaming { old, new, .. } = self.wish;
        let names = || self.view.group.volumes.keys();
        let at = names().position(|name| name == new).unwrap_or_default();
        let was_at = names().filter(|name| *name != new && *name < old).count();
        let [was, is] = [old, new].map(|name| digest::volume(name));
        match found.names[at] {
            known if known == is => Ok(None),
            // Metadata of an earlier build has no names: the order tells the place.
            known if known == was || (known == 0 && was_at == at) => {
                // Another volume that has another name in the configuration is renamed by itself.
                let mut named = found.clone();
                named.names[at] = is;
                Ok(Some(named))
            }
            known if known == 0 || found.names.contains(&was) => bail!(
                "{new} would not have the place of {old} in the order of the names of the volumes, which cannot change. Nothing was \
                 changed\n  hint: choose a name with the same place in this order"
            ),
            _ => bail!(
                "{shown} has no volume {old}. Nothing was changed\n  hint: check the old name and --node"
            ),
        }
    }
}

/// A file that is missing or empty has nothing of a group: a daemon makes an empty one before it finds out that it must not serve.
fn is_blank(host: &Host, path: &Path) -> bool {
    match host.facts(path, true) {
        Ok(facts) => facts.length.0 == 0,
        Err(error) => error == Errno::NOENT,
    }
}

impl Record {
    /// Opens and locks a file. None if its superblock cannot be read: no daemon serves from it, under whatever name.
    fn of(host: &Host, path: &Path) -> Result<Option<Self>> {
        let shown = path.display().to_string();
        let file = metadata::open(host, path, false)?;
        // The newest copy of a page may be the work of a process that died before its own flush.
        file.sync_all().with_context(|| shown.clone())?;
        let on_disk = offline::OnDisk::of(file.clone())?;
        let record = files::record(&on_disk, helio_link::checksum);
        let standing = record.map_or(Standing::Stale, |record| record.standing);
        let Some(found) = describe(&on_disk, helio_link::checksum).superblock else {
            return Ok(None);
        };
        let owner = (found.group.as_str(), found.node.as_str());
        match Ledger::open(&on_disk, owner, helio_link::checksum) {
            Ok(Opened::Found(opened)) => {
                let (ledger, Found { superblock: found, .. }) = *opened;
                Ok(Some(Self { file, shown, ledger, found, standing }))
            }
            Ok(Opened::Fresh) => Ok(None),
            Ok(Opened::Older(_)) => bail!(
                "{shown} has the format of an older version\n  hint: start the daemon with the old name, which converts the file, stop \
                 it, and repeat"
            ),
            Err(error) => bail!("{shown}: {error}\n  hint: {}", error.hint(owner)),
        }
    }

    /// Writes the superblock.
    fn write(self, new: Superblock) -> Result<()> {
        let Self { file, shown, mut ledger, found, .. } = self;
        let reported = offline::with_age(&ledger, &found).reported;
        ledger.rename((&new.group, &new.node));
        let new = Superblock { reported, ..new };
        offline::write_superblock(ledger, new, &file).with_context(|| shown)
    }
}

impl Step {
    fn perform(self, host: &Host) -> Result<()> {
        match self {
            Self::Record(record, new) => record.write(new),
            Self::Verify(path, (old, new)) => verified::rename(host, &path, (&old, &new))
                .with_context(|| path.display().to_string()),
            Self::Move(old, new) => {
                let folder = |path: &Path| path.parent().unwrap_or(Path::new("/")).to_owned();
                host.rename(&old, &new)
                    .map_err(Into::into)
                    .and_then(|()| host.sync_folder(&folder(&new)))
                    .with_context(|| {
                        format!("{} cannot be moved to {}", old.display(), new.display())
                    })
            }
        }
    }
}

/// Refuses a group without metadata beside a file of it that has the place of another one: it is being renamed.
pub(super) fn is_done(places: &Places, engine: &helio_engine::Config) -> Result<()> {
    let found = places.neighbours().into_iter().find(|path| {
        let opened = places.host.open(path, OFlags::RDONLY, Mode::empty());
        let on_disk = opened.ok().and_then(|file| offline::OnDisk::of(file).ok());
        let found = on_disk.and_then(|on_disk| describe(&on_disk, helio_link::checksum).superblock);
        found.is_some_and(|found| found.group == engine.group)
    });
    let Some(path) = found else { return Ok(()) };
    let (shown, group, node) = (path.display(), &engine.group, &engine.node);
    let old = path.file_stem().unwrap_or_default().to_string_lossy();
    bail!(
        "{shown} is of group {group}: {old} is being renamed to {group}, and not all of its files were. Nothing was changed\n  hint: \
         repeat `helio rename group {old} {group} --node {node}`. If this file is a copy, move it away"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::metadata::tests::{CONFIG, engine};
    use crate::open::{begin, look};
    use helio_driver::Linux;
    use helio_format::files::FileRecord;
    use std::collections::BTreeSet;
    use std::fs;

    /// The node paris of db, which has two metadata files, a file of each other kind, and a configuration that names pg.
    fn renamed() -> (tempfile::TempDir, Renaming) {
        let scratch = tempfile::tempdir().expect("there is room");
        let at = |name: &str| scratch.path().join(name);
        let line = format!("[node.paris]\nmetadata = [\"state\", {:?}]\n", at("second"));
        let old = CONFIG.replace("[node.paris]\n", &line);
        fs::write(at("old.toml"), &old).expect("there is room");
        fs::write(at("new.toml"), old.replace("group.db", "group.pg")).expect("there is room");
        for folder in ["state/groups", "second"] {
            let path = at(folder).join("db.meta");
            fs::create_dir_all(at(folder)).expect("there is room");
            let file = metadata::open(&Linux::host(), &path, true).expect("it is new");
            begin::first(&Linux::host(), (&file, &path), &engine()).expect("there is room");
            let record = FileRecord { standing: Standing::Both, epoch: 3 };
            let mark = helio_format::page::owner("db", "paris", helio_link::checksum);
            let page = files::record_page(record, mark, helio_link::checksum);
            for place in files::record_places() {
                file.write_all_at(&page, place).expect("there is room");
            }
        }
        for kind in ["before", "verify", "drill", "frozen"] {
            fs::write(at("state/groups").join(format!("db.{kind}")), kind).expect("there is room");
        }
        let wish = Renaming {
            what: Name::Group,
            old: "db".into(),
            new: "pg".into(),
            node: "paris".into(),
            config: at("new.toml"),
            state: at("state"),
        };
        (scratch, wish)
    }

    /// What a daemon says of the metadata with that configuration.
    fn opened(wish: &Renaming, config: &str) -> Result<helio_units::Bytes> {
        let config = Config::load(&Linux::host(), &wish.config.with_file_name(config))?;
        let view = config.for_node(&wish.node)?;
        let groups: BTreeSet<String> = config.groups.keys().cloned().collect();
        look::metadata(&Linux::host(), &view.groups[0], (&wish.node, &groups), &wish.state)
    }

    #[test]
    fn a_rename_that_is_cut_off_is_served_under_neither_name_and_can_be_repeated() {
        let host = Linux::host();
        for done in 0.. {
            let (scratch, wish) = renamed();
            let config = Config::load(&host, &wish.config).expect("it is whole");
            let view = config.for_node(&wish.node).expect("it is there");
            let job = Job::of(&host, &wish, &view.groups[0], &wish.state).expect("it fits");
            let steps = job.steps().expect("it fits");
            let all = steps.len();
            let cut_off = steps.into_iter().take(done);
            cut_off.for_each(|step| step.perform(&host).expect("there is room"));
            if done > 0 && done < all {
                for config in ["old.toml", "new.toml"] {
                    let refused = opened(&wish, config).expect_err("it is cut off").to_string();
                    let way = "`helio rename group db pg --node paris`";
                    let back = "`helio rename group pg db --node paris`";
                    assert!(refused.contains(way) || refused.contains(back), "{done}: {refused}");
                }
            }
            // A daemon makes an empty file in a place where it misses one.
            for folder in ["state/groups", "second"] {
                for group in ["db", "pg"] {
                    let path = scratch.path().join(folder).join(format!("{group}.meta"));
                    let open = fs::OpenOptions::new().create(true).append(true).open(path);
                    drop(open.expect("there is room"));
                }
            }
            let groups = rename(&host, &wish).expect("it is repeated");
            assert_eq!(groups.is_empty(), done >= all, "{groups:?}");
            assert_eq!(opened(&wish, "new.toml").expect("it is served").0, 0, "nothing is made");
            for kind in ["meta", "before", "verify", "drill", "frozen"] {
                let path = |group: &str| wish.state.join(format!("groups/{group}.{kind}"));
                assert!(!is_blank(&host, &path("pg")) && is_blank(&host, &path("db")), "{kind}");
            }
            assert!(is_blank(&host, &scratch.path().join("second/db.meta")));
            if done > all {
                assert_eq!(all, 8, "two records, six files");
                break;
            }
        }
    }

    #[test]
    fn a_second_metadata_file_that_is_not_there_is_no_file_that_was_renamed() {
        let (scratch, wish) = renamed();
        fs::remove_file(scratch.path().join("second/db.meta")).expect("it was there");
        let refused = rename(&Linux::host(), &wish).expect_err("it is not mounted").to_string();
        assert!(refused.contains("hint: mount its disk"), "{refused}");
        assert!(scratch.path().join("state/groups/db.meta").exists(), "nothing was changed");
    }

    #[test]
    fn a_volume_gets_only_a_name_that_keeps_its_place_and_no_other_volume_gets_one() {
        const MORE: &str = "[group.db.volume.more]\nsize = \"1MiB\"\nmembers.paris = [\"/nowhere/more\"]\nmembers.lyon = [\"/nowhere/m\"]\n";
        let host = Linux::host();
        let scratch = tempfile::tempdir().expect("there is room");
        let config = scratch.path().join("helio.toml");
        let (two, state) = (format!("{CONFIG}{MORE}"), scratch.path().join("state"));
        fs::create_dir_all(state.join("groups")).expect("there is room");
        let path = state.join("groups/db.meta");
        let parsed = Config::parse(&two, "helio.toml").expect("it is whole");
        let engine =
            engine_config(&parsed.for_node("paris").expect("it is there").groups[0], "paris");
        let file = metadata::open(&host, &path, true).expect("it is new");
        begin::first(&host, (&file, &path), &engine).expect("there is room");
        drop(file);
        let (what, old, node) = (Name::Volume("db".into()), "data".into(), "paris".into());
        let wish = Renaming { what, old, new: String::new(), node, config, state };
        let names = || {
            let record = Record::of(&host, &path).expect("it can be read").expect("it has one");
            record.found.names
        };
        // The other volume has another name in the file, too, and is renamed by itself.
        for (new, other, fits) in
            [("zeros", "more", false), ("zeros", "n", false), ("d", "n", true)]
        {
            let text = two.replace("volume.data", &format!("volume.{new}"));
            let text = text.replace("volume.more", &format!("volume.{other}"));
            fs::write(&wish.config, text).expect("there is room");
            let wish = Renaming { new: new.into(), ..wish.clone() };
            assert_eq!(rename(&host, &wish).is_ok(), fits, "{new}, {other}");
            let data = if fits { new } else { "data" };
            assert_eq!(names(), [data, "more"].map(digest::volume));
        }
        let both =
            two.replace("volume.data", "volume.pgdata").replace("volume.more", "volume.pgmore");
        fs::write(&wish.config, both).expect("there is room");
        for (old, new) in [("d", "pgdata"), ("more", "pgmore")] {
            let wish = Renaming { old: old.into(), new: new.into(), ..wish.clone() };
            rename(&host, &wish).expect("it keeps its place");
        }
        assert_eq!(names(), ["pgdata", "pgmore"].map(digest::volume));
    }
}
