// SPDX-License-Identifier: Apache-2.0
//! An operator says that the disks that the members are on now are true copies of the recorded ones, or that one of two metadata
//! files counts although the other one may be newer. The record forgets which disks those were, and with it everything that
//! only their own bytes could prove: dirty regions, a clean stop, being in sync. The operator decides which node leads then.

use super::{checksum, hold, path_of};
use crate::confirm::Consent;
use crate::failure::{failed, unreadable};
use crate::verbs::done;
use anyhow::{Result, anyhow, bail};
use helio_daemon::offline::{OnDisk, count_alone, locked, write_superblock};
use helio_daemon::{Platform, with_restore};
use helio_format::files::{FileRecord, Standing};
use helio_ledger::{Found, Ledger, Opened, describe, files};
use helio_units::Role;
use std::path::Path;
use std::process::ExitCode;

/// See the module's words. The daemon is stopped.
pub(crate) fn accept(
    group: &str,
    restore: Option<&Path>,
    state: &Path,
    consent: Consent,
) -> Result<ExitCode> {
    let _held = hold(state)?;
    let path = path_of(group, state);
    let shown = path.display();
    let check = || format!("see `helio metadata check {group}`");
    let file = locked(&path)?;
    let on_disk = OnDisk::of(file.clone()).map_err(unreadable(&path))?;
    let Some(superblock) = describe(&on_disk, checksum).superblock else {
        bail!("{shown} has no superblock that can be read\n  hint: {}", check());
    };
    let (owner, mark) =
        ((superblock.group.as_str(), superblock.node.as_str()), superblock.owner(checksum));
    let opened = Ledger::open(&on_disk, owner, checksum)
        .map_err(|error| anyhow!("{shown}: {error}\n  hint: {}", check()))?;
    let found = match opened {
        Opened::Found(found) => found,
        Opened::Fresh => bail!("{shown} is empty\n  hint: {}", check()),
        Opened::Older(_) => bail!(
            "{shown} has the format of an older version\n  hint: start the daemon, which converts the file, stop it, and repeat \
             this command"
        ),
    };
    let Some(record) = files::record(&on_disk, checksum) else {
        bail!("the file record of {shown} cannot be read\n  hint: {}", check());
    };
    may_count(record, &path, group.contains('/'), owner)?;
    let mut words = Words::of(record.standing, &path, owner.0);
    let (ledger, Found { mut superblock, .. }) = *found;
    if let Some(file) = restore {
        superblock = with_restore(&Platform::this().host, file, superblock)?;
        words.stake += &older_file(file);
    }
    consent.get(&words.stake, &words.question)?;
    superblock.members.fill(0);
    superblock.verified.fill(0);
    superblock.marks_void = true;
    (superblock.clean, superblock.equal, superblock.sure) = (false, false, false);
    superblock.role = Role::Secondary;
    write_superblock(ledger, superblock, &file)
        .and_then(|()| count_alone(&file, record, mark))
        .map_err(failed(format!("cannot write {shown}"), check()))?;
    done(words.message, Vec::new(), consent.json)
}

/// What is lost if what is left of a restore is in an older file.
pub(super) fn older_file(restore: &Path) -> String {
    format!(
        "; and if {} is an older copy of that file, writes since then are overwritten by the restore",
        restore.display()
    )
}

/// Refuses a file that does not count, and one of two that the operator did not name.
fn may_count(
    record: FileRecord,
    path: &Path,
    is_named: bool,
    (group, node): (&str, &str),
) -> Result<()> {
    let shown = path.display();
    match record.standing {
        Standing::Stale => bail!(
            "{shown} does not count: it is older than the other metadata file of {group}\n  hint: `helio metadata accept FILE` with \
             the other file. If that is lost for good: `helio metadata create {group} --node {node}` discards the copy of {node}"
        ),
        Standing::Both if !is_named => bail!(
            "{group} has two metadata files on {node}, and the other one may be newer than {shown}\n  hint: name the file to accept. If \
             the other one is lost: `helio metadata accept {shown}`. If it is not: `helio inspect FILE` of both shows the epoch and \
             the sequence; accept the file with the higher epoch, or with the higher sequence if the epochs are equal"
        ),
        Standing::Both | Standing::Alone => Ok(()),
    }
}

/// What the operator reads before and after.
struct Words {
    stake: String,
    question: String,
    message: String,
}

impl Words {
    fn of(standing: Standing, path: &Path, group: &str) -> Self {
        let shown = path.display();
        let disks = format!("if a disk of {group} holds older data, acknowledged writes are lost");
        let next = format!(
            "uses the members of {group} as they are, as a secondary. Then `helio promote {group}` on the node that has the newest data; \
             if there is another one, all data is compared"
        );
        match standing {
            Standing::Both => Self {
                stake: format!(
                    "if the other metadata file of {group} is newer than {shown}, writes that only it recorded may be lost; {disks}"
                ),
                question: format!("accept {shown}, and the disks of {group} as they are?"),
                message: format!(
                    "{shown} counts alone now; the next start of the daemon makes the other metadata file like it, {next}"
                ),
            },
            Standing::Alone | Standing::Stale => Self {
                stake: disks,
                question: format!("accept the disks of {group} as they are?"),
                message: format!("the next start of the daemon {next}"),
            },
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use helio_format::superblock::Superblock;
    use helio_ledger::Layout;
    use std::fs::{self, File};
    use std::path::PathBuf;

    const OWNER: (&str, &str) = ("db", "paris");

    /// A state directory with a metadata file that says this of itself.
    pub(in crate::metadata) fn with(standing: Standing) -> (tempfile::TempDir, PathBuf) {
        let state = tempfile::tempdir().expect("there is room");
        let path = state.path().join("groups/db.meta");
        fs::create_dir(state.path().join("groups")).expect("there is room");
        let record = Superblock::new(OWNER.0, OWNER.1, vec![1 << 20]);
        let layout = Layout::of(&record);
        let file = File::create_new(&path).expect("there is room");
        file.set_len(layout.bytes()).expect("there is room");
        let file = helio_driver::File::new(file).expect("it is open");
        write_superblock(Ledger::fresh(layout, OWNER, checksum), record, &file)
            .expect("there is room");
        let mark = helio_format::page::owner(OWNER.0, OWNER.1, checksum);
        let page = files::record_page(FileRecord { standing, epoch: 4 }, mark, checksum);
        for place in files::record_places() {
            file.write_all_at(&page, place).expect("there is room");
        }
        (state, path)
    }

    fn run(name: &str, state: &Path) -> Result<ExitCode> {
        accept(name, None, state, Consent { yes: true, json: false })
    }

    fn record(path: &Path) -> Option<FileRecord> {
        files::record(&OnDisk::open(path).expect("it is there"), checksum)
    }

    #[test]
    fn a_file_that_a_daemon_uses_is_refused_and_stays_as_it_is() {
        let (state, path) = with(Standing::Both);
        let before = fs::read(&path).expect("it is there");
        let daemon = locked(&path).expect("no other process uses it");
        let other = tempfile::tempdir().expect("there is room");
        let refused = run(&path.display().to_string(), other.path()).expect_err("it is in use");
        let refused = refused.to_string();
        assert!(refused.contains("another process writes this file"), "{refused}");
        assert!(refused.contains("\n  hint: stop it"), "{refused}");
        assert_eq!(fs::read(&path).expect("it is there"), before);
        drop(daemon);
        run(&path.display().to_string(), state.path()).expect("no daemon uses it");
        let accepted = FileRecord { standing: Standing::Alone, epoch: 5 };
        assert_eq!(record(&path), Some(accepted));
    }

    #[test]
    fn one_of_two_files_is_accepted_by_its_name_only_and_a_stale_one_never() {
        for standing in [Standing::Both, Standing::Stale, Standing::Alone] {
            let (state, path) = with(standing);
            let before = fs::read(&path).expect("it is there");
            let by_group = run("db", state.path());
            assert_eq!(by_group.is_ok(), standing == Standing::Alone, "{by_group:?}");
            if let Err(error) = by_group {
                let text = error.to_string();
                assert!(
                    text.contains(&path.display().to_string()) && text.contains("\n  hint: "),
                    "{text}"
                );
                assert_eq!(fs::read(&path).expect("it is there"), before);
            }
            let by_name = run(&path.display().to_string(), state.path());
            assert_eq!(by_name.is_ok(), standing != Standing::Stale, "{by_name:?}");
        }
    }
}
