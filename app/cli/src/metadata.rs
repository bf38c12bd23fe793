// SPDX-License-Identifier: Apache-2.0
//! A group's metadata file, offline: shown, checked, moved, told to take other disks. Nothing here asks a daemon, and
//! nothing is mended: the next start of the daemon writes a damaged page anew from its twin.

mod accept;
mod create;

pub(crate) use accept::accept;
pub(crate) use create::create;

use crate::failure::{failed, unreadable, unwritable};
use crate::verbs::{done, print, printed};
use anyhow::{Result, bail};
use helio_daemon::offline::{OnDisk, lock_state, locked};
use helio_format::files::Standing;
use helio_ledger::{Description, Ledger, Opened, PairState, describe, fields, files};
use helio_link::checksum;
use serde_json::json;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a move takes along beside the metadata itself: before-images, and what is known of verifies.
const COMPANIONS: [&str; 3] = ["meta", "before", "verify"];
/// The exit code where a file would not be served from as it is.
const UNSOUND: u8 = 1;

/// The file of a group in a state directory, or the file itself where the name is a path.
fn path_of(group: &str, state: &Path) -> PathBuf {
    if group.contains('/') {
        PathBuf::from(group)
    } else {
        state.join("groups").join(format!("{group}.meta"))
    }
}

fn look(path: &Path) -> Result<(OnDisk, Description)> {
    let hint = "name the group and its --state, or the file";
    let on_disk = OnDisk::open(path);
    let on_disk = on_disk.map_err(failed(format!("cannot read {}", path.display()), hint))?;
    let found = describe(&on_disk, checksum);
    Ok((on_disk, found))
}

/// Prints everything the file says.
pub(crate) fn inspect(group: &str, state: &Path, as_json: bool) -> Result<ExitCode> {
    let path = path_of(group, state);
    if crate::before::is_one(&path) {
        return crate::before::inspect(&path, as_json);
    }
    let (_, found) = look(&path)?;
    let text = if as_json { in_json(&path, &found)? } else { in_words(&path, &found) };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a daemon serves from a file.
enum Verdict {
    Sound(Standing),
    /// The next start repairs it.
    Damaged,
    /// For that reason no daemon does.
    Unusable(String),
}

impl Verdict {
    fn of(on_disk: &OnDisk, found: &Description) -> Self {
        let lost = found.pairs.iter().any(|line| line.state == PairState::Lost);
        if let Some(needed) = found.needed.filter(|needed| *needed > found.length) {
            return Self::Unusable(format!("the file ends at {} of {needed} bytes", found.length));
        }
        let Some(superblock) = found.superblock.as_ref().filter(|_| !lost) else {
            return Self::Unusable(String::from("lost"));
        };
        let owner = (superblock.group.as_str(), superblock.node.as_str());
        match Ledger::open(on_disk, owner, checksum) {
            Err(error) => return Self::Unusable(error.to_string()),
            Ok(Opened::Found(ledger)) => {
                if let Some(more) = ledger.0.beyond() {
                    let why = format!("it has {more}, which this version does not use");
                    return Self::Unusable(why);
                }
            }
            Ok(Opened::Fresh | Opened::Older(_)) => {}
        }
        if !found.is_sound() {
            return Self::Damaged;
        }
        Self::Sound(files::record(on_disk, checksum).map_or(Standing::Alone, |r| r.standing))
    }

    fn is_sound(&self) -> bool {
        matches!(self, Self::Sound(Standing::Alone | Standing::Both))
    }

    /// Of the file of the group with that name.
    fn text(&self, name: &str) -> String {
        let create = format!(
            "`helio metadata create {name} --node NAME` discards the copy of this node, and everything is compared"
        );
        match self {
            Self::Sound(Standing::Alone) => "sound\n".to_owned(),
            Self::Sound(Standing::Both) => {
                "sound; one of two files. The daemon needs both: it uses the newer one\n  hint: \
                 `helio check --node NAME` checks both files\n"
                    .to_owned()
            }
            Self::Sound(Standing::Stale) => format!(
                "stale: no daemon serves from it, because the other metadata file counts instead\n  hint: restore the other file: its \
                 disk, and its directory in `metadata`. If it is lost for good: {create}\n"
            ),
            Self::Damaged => {
                "damaged: the next start of the daemon repairs the damaged copies from the others\n"
                    .to_owned()
            }
            Self::Unusable(why) => format!(
                "{why}: no daemon serves from it\n  hint: if the peer has the data: {create}. If only this node has the data, save \
                 its member files first. Do not restore the file from a backup (docs/operate.md, \"When metadata is lost\")\n"
            ),
        }
    }
}

/// Says whether a daemon would serve from it.
pub(crate) fn check(group: &str, state: &Path, as_json: bool) -> Result<ExitCode> {
    let path = path_of(group, state);
    let (on_disk, found) = look(&path)?;
    let mut text = String::new();
    let bad = |state: PairState| matches!(state, PairState::Repairable | PairState::Lost);
    for line in found.pairs.iter().filter(|line| bad(line.state)) {
        writeln!(text, "{line}")?;
    }
    let verdict = Verdict::of(&on_disk, &found);
    text += &verdict.text(&path.file_stem().unwrap_or_default().to_string_lossy());
    let sound = verdict.is_sound();
    if as_json {
        let message = text.trim_end();
        printed(
            &json!({ "file": path.display().to_string(), "sound": sound, "message": message }),
        )?;
    } else {
        print(&text)?;
    }
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::from(UNSOUND) })
}

fn in_words(path: &Path, found: &Description) -> String {
    let version = found.version.map_or_else(|| "unknown".to_owned(), |version| version.to_string());
    let (length, sequence) = (found.length, found.sequence);
    let mut text = format!(
        "{}: {length} bytes, format version {version}, sequence {sequence}\n",
        path.display()
    );
    match &found.superblock {
        Some(superblock) => {
            for (name, value) in fields(superblock) {
                text += &format!("  {name:<12} {value}\n");
            }
        }
        None => text += "  no superblock can be read\n",
    }
    let written = found.pairs.iter().filter(|line| line.state != PairState::Empty);
    for line in written {
        text += &format!("{line}\n");
    }
    let empty = found.pairs.iter().filter(|line| line.state == PairState::Empty).count();
    text + &format!("{empty} more pages were never written\n")
}

fn in_json(path: &Path, found: &Description) -> Result<String> {
    let superblock = found.superblock.as_ref().map(|superblock| {
        let named = fields(superblock).into_iter();
        named
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect::<serde_json::Map<_, _>>()
    });
    let written = found.pairs.iter().filter(|line| line.state != PairState::Empty);
    let pages: Vec<_> = written
        .map(|line| {
            json!({
                "offset": line.offset,
                "kind": line.kind.map(|kind| kind.to_string()),
                "index": line.index,
                "owner": line.owner.map(|owner| owner.to_string()),
                "state": line.state.to_string(),
                "copies": line.copies.map(|copy| copy.to_string()),
                "content": line.content.to_string(),
            })
        })
        .collect();
    let all = json!({
        "file": path.display().to_string(),
        "length": found.length,
        "version": found.version,
        "needed": found.needed,
        "sequence": found.sequence,
        "sound": found.is_sound(),
        "superblock": superblock,
        "pages": pages,
    });
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}

/// Moves what a state directory holds of a group to another one. Both daemons are stopped. The old file goes only once
/// the new one is durable and reads as the old one did. A second metadata file lies elsewhere and stays: the two belong
/// together by what they record, wherever they are.
pub(crate) fn moved(group: &str, state: &Path, to: &Path, as_json: bool) -> Result<ExitCode> {
    let _held = hold(state)?;
    let groups = to.join("groups");
    helio_daemon::offline::make_state(to).map_err(unwritable(&groups))?;
    let _held_too = hold(to)?;
    let from = |kind: &str| state.join("groups").join(format!("{group}.{kind}"));
    let into = |kind: &str| to.join("groups").join(format!("{group}.{kind}"));
    let (_, old) = look(&from("meta"))?;
    if !old.is_sound() {
        bail!(
            "{} is not sound\n  hint: `helio metadata check {group}` shows what is damaged",
            from("meta").display()
        );
    }
    // A daemon of an earlier version locks its state directory in another way, and this file in the same one.
    let _no_daemon = locked(&from("meta"))?;
    let there: Vec<_> = COMPANIONS.into_iter().filter(|kind| from(kind).exists()).collect();
    for kind in &there {
        copy(&from(kind), &into(kind))?;
    }
    File::open(&groups).and_then(|file| file.sync_all()).map_err(unwritable(&groups))?;
    if old != look(&into("meta"))?.1 {
        bail!(
            "{} does not read as {} does; nothing was removed\n  hint: remove the copy, then move to another disk",
            into("meta").display(),
            from("meta").display()
        );
    }
    for kind in there.iter().rev() {
        fs::remove_file(from(kind)).map_err(unwritable(&from(kind)))?;
    }
    let left = state.join("groups");
    File::open(&left).and_then(|file| file.sync_all()).map_err(unwritable(&left))?;
    let second = if is_one_of_two(&into("meta"))? {
        "; its second metadata file stays where it is, and counts as before"
    } else {
        ""
    };
    let message =
        format!("moved {group} to {}; start its daemon with --state {0}{second}", to.display());
    done(message, Vec::new(), as_json)
}

/// Whether a metadata file records that a second one counts, too, or instead of it.
fn is_one_of_two(path: &Path) -> Result<bool> {
    let on_disk = OnDisk::open(path).map_err(unreadable(path))?;
    let record = files::record(&on_disk, checksum);
    Ok(record.is_some_and(|record| record.standing != Standing::Alone))
}

/// Holds a state directory against daemons for as long as the file lives.
fn hold(state: &Path) -> Result<helio_driver::File> {
    let what = format!("{} is not a state directory", state.display());
    let held = lock_state(state);
    let held = held.map_err(failed(what, "name the state directory of a node with --state"))?;
    let Some(held) = held else {
        bail!("a helio daemon uses {}\n  hint: stop the daemon first", state.display());
    };
    Ok(held)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut options = OpenOptions::new();
    let new = options.create_new(true).write(true).mode(0o600).open(to);
    let mut new = new.map_err(unwritable(to))?;
    let mut old = File::open(from).map_err(unreadable(from))?;
    std::io::copy(&mut old, &mut new).and_then(|_| new.sync_all()).map_err(unwritable(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_says_what_a_daemon_does_with_each_of_two_files() {
        for (standing, sound, word) in [
            (Standing::Alone, true, "sound\n"),
            (Standing::Both, true, "The daemon needs both"),
            (Standing::Stale, false, "stale: no daemon serves from it"),
        ] {
            let (_state, path) = accept::tests::with(standing);
            let (on_disk, found) = look(&path).expect("it is there");
            let verdict = Verdict::of(&on_disk, &found);
            assert_eq!(verdict.is_sound(), sound, "{standing:?}");
            assert!(verdict.text("db").contains(word), "{}", verdict.text("db"));
        }
    }

    #[test]
    fn a_file_that_is_cut_off_is_unusable_and_its_length_is_named() {
        let (_state, path) = accept::tests::with(Standing::Alone);
        let length = fs::metadata(&path).expect("it is there").len();
        let file = OpenOptions::new().write(true).open(&path).expect("it is there");
        file.set_len(length - 8192).expect("it can be cut");
        let (on_disk, found) = look(&path).expect("it is there");
        let text = Verdict::of(&on_disk, &found).text("db");
        let why = format!("the file ends at {} of {length} bytes: no daemon", length - 8192);
        assert!(text.starts_with(&why), "{text}");
    }
}
