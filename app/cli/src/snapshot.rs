// SPDX-License-Identifier: Apache-2.0
//! `helio snapshot`: creating, listing and deleting snapshots of a group, and restoring from one.

mod export;
mod images;
mod restore;

use crate::args::{At, Snapshot, SnapshotName};
use crate::client::{Client, ClientError};
use crate::confirm::Consent;
use crate::request::Request;
use crate::verbs::{accepted, one_group, print, printed};
use crate::wait::Wait;
use crate::which;
use anyhow::Result;
use helio_api::{Accepted, ApiError, SnapshotList, SnapshotRequest, SnapshotRestoreRequest, paths};
use helio_units::Bytes;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

/// How often the rest of a restore is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(crate) fn run(at: &At, verb: Snapshot) -> Result<ExitCode> {
    match verb {
        Snapshot::Import { dir, socket, json } => images::import(&dir, socket, json),
        Snapshot::Join { dir, record, json } => images::join(&dir, &record, json),
        Snapshot::Export(wish) => export::export(at, wish),
        Snapshot::Restore { snapshot, from: Some(dir), yes, json, .. } => {
            restore::restore(at, snapshot, &dir, Consent { yes, json })
        }
        asks => ask(&Client::new(at)?, at, asks),
    }
}

/// Runs a command that the daemon carries out.
fn ask(client: &Client, at: &At, verb: Snapshot) -> Result<ExitCode> {
    match verb {
        Snapshot::Create { snapshot: SnapshotName { group, name }, here, json } => {
            let group = which::group(client, group)?;
            let wish = SnapshotRequest { name, here, refresh: false };
            accepted(&Request::SnapshotCreate(wish).post(client, &group)?, json)
        }
        Snapshot::Refresh { snapshot: SnapshotName { group, name }, here, yes, json } => {
            let group = which::group(client, group)?;
            let stake = stake(client, &group, &name, here)?;
            Consent { yes, json }.get(&stake, "replace it by a new one?")?;
            let wish = SnapshotRequest { name, here, refresh: true };
            accepted(&Request::SnapshotCreate(wish).post(client, &group)?, json)
        }
        Snapshot::List { group, json } => {
            let group = which::group(client, group)?;
            let list: SnapshotList = client.get(&paths::of_group(paths::SNAPSHOTS, &group))?;
            if json {
                return printed(&list);
            }
            print(&text(&list))?;
            Ok(ExitCode::SUCCESS)
        }
        Snapshot::Restore { snapshot: SnapshotName { group, name }, wait, yes, json, .. } => {
            let group = which::group(client, group)?;
            let stake = overwritten(client, &group, &name)?;
            Consent { yes, json }.get(&stake, "restore the volumes?")?;
            let path = paths::of_group(paths::SNAPSHOT_RESTORE, &group);
            let done: Accepted = client.post(&path, &SnapshotRestoreRequest { name })?;
            if wait { written(client, at, &group, &done, json) } else { accepted(&done, json) }
        }
        Snapshot::Delete { snapshot: SnapshotName { group, name }, here, yes, json } => {
            let group = which::group(client, group)?;
            let stake = stake(client, &group, &name, here)?;
            Consent { yes, json }.get(&stake, "delete it?")?;
            let path = paths::of_group(paths::SNAPSHOT_DELETE, &group);
            accepted(&client.post(&path, &SnapshotRequest { name, here, refresh: false })?, json)
        }
        Snapshot::Import { .. } | Snapshot::Join { .. } | Snapshot::Export(_) => {
            unreachable!("`run` has every command that works on images")
        }
    }
}

/// Waits until what a restore has left is written.
fn written(client: &Client, at: &At, group: &str, done: &Accepted, json: bool) -> Result<ExitCode> {
    let waiting = Wait::begin(at, json, format!("the restore of {group}"), None)?;
    if !json {
        accepted(done, false)?;
    }
    while let Some(restoring) = one_group(client, group)?.restoring {
        if let Some(why) = restoring.failed {
            let text = format!("the restore of {group} cannot continue: {why}");
            let hint = "repair the cause, then restart the daemon: it continues";
            let error = ApiError::new("restore-failed", text, hint);
            return Err(ClientError::Refused(Box::new(error)).into());
        }
        waiting.pause(LOOK_EVERY)?;
    }
    if json {
        return accepted(done, true);
    }
    print(&format!("{group} is restored\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// What is lost with a snapshot.
fn stake(client: &Client, group: &str, name: &str, here: bool) -> Result<String> {
    let list: SnapshotList = client.get(&paths::of_group(paths::SNAPSHOTS, group))?;
    let written = list.snapshots.iter().find(|it| it.name == name).map(|it| it.written_bytes);
    let written = written.filter(|it| *it != Bytes::ZERO);
    let written = written.map_or_else(String::new, |it| format!(", and {it} written to it"));
    let peer =
        if here { "" } else { "; if the peer deletes its own, also what was written to that" };
    Ok(format!("the data of snapshot {name} of {group}{written} will be lost{peer}"))
}

/// What a restore discards.
fn overwritten(client: &Client, group: &str, name: &str) -> Result<String> {
    let list: SnapshotList = client.get(&paths::of_group(paths::SNAPSHOTS, group))?;
    let found = list.snapshots.iter().find(|it| it.name == name);
    let what = found.map_or_else(String::new, |it| {
        let (changed, whole) = (it.changed_bytes, list.volume_bytes);
        format!(" ({}; up to {changed}, {} of the volumes)", it.at_ms, percent(changed, whole))
    });
    Ok(format!("everything that was written to {group} since snapshot {name}{what} will be lost"))
}

/// How much of a whole, in percent, to one digit.
fn percent(part: Bytes, whole: Bytes) -> String {
    let tenths = (u128::from(part.0) * 1000).div_ceil(u128::from(whole.0.max(1)));
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// The list as it is printed.
pub(crate) fn text(list: &SnapshotList) -> String {
    let SnapshotList { node, group, volume_bytes, preserved_bytes, snapshots, missing } = list;
    let mut out = String::new();
    for snapshot in snapshots {
        let name = &snapshot.name;
        let consistent = if snapshot.consistent { "" } else { "  inconsistent" };
        let written = match snapshot.written_bytes {
            Bytes::ZERO => String::new(),
            bytes => format!("  written {bytes}"),
        };
        let _ = writeln!(
            out,
            "{name}  {}  item {}  changed {} ({})  preserved {}{written}{consistent}",
            snapshot.at_ms,
            snapshot.position,
            snapshot.changed_bytes,
            percent(snapshot.changed_bytes, *volume_bytes),
            snapshot.preserved_bytes,
        );
    }
    for missing in missing {
        let _ =
            writeln!(out, "{}  {}  missing: {}", missing.name, missing.since_ms, missing.reason);
    }
    let count = snapshots.iter().filter(|snapshot| !snapshot.safe_copy).count();
    let _ = writeln!(out, "{count} snapshots of {group} on {node}, {preserved_bytes} preserved");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_api::MissingSnapshot;
    use helio_units::WallTime;

    #[test]
    fn a_list_shows_when_where_how_much_changed_and_what_is_missing() {
        let snapshot = |name: &str, consistent| helio_api::Snapshot {
            name: name.to_owned(),
            safe_copy: name == "safe-copy",
            at_ms: WallTime(0),
            identity: String::from("2.77aa.31"),
            generation: String::from("2.77aa"),
            position: 31,
            consistent,
            changed_bytes: Bytes::kib(64),
            preserved_bytes: Bytes::kib(128),
            written_bytes: if consistent { Bytes::kib(64) } else { Bytes::ZERO },
        };
        let list = SnapshotList {
            node: String::from("lyon"),
            group: String::from("db"),
            volume_bytes: Bytes::mib(32),
            preserved_bytes: Bytes::kib(192),
            snapshots: vec![snapshot("one", true), snapshot("safe-copy", false)],
            missing: vec![MissingSnapshot {
                name: String::from("two"),
                since_ms: WallTime(1000),
                reason: String::from("the metadata was lost"),
            }],
        };
        assert_eq!(
            text(&list),
            "one  1970-01-01 00:00:00Z  item 31  changed 64 KiB (0.2 %)  preserved 128 KiB  written 64 KiB\n\
             safe-copy  1970-01-01 00:00:00Z  item 31  changed 64 KiB (0.2 %)  preserved 128 KiB  inconsistent\n\
             two  1970-01-01 00:00:01Z  missing: the metadata was lost\n\
             1 snapshots of db on lyon, 192 KiB preserved\n"
        );
        assert_eq!(
            percent(Bytes(1), Bytes::gib(1)),
            "0.1 %",
            "never nothing where there is something"
        );
    }
}
