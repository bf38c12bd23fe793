// SPDX-License-Identifier: Apache-2.0
//! `helio drill`: proves on a secondary that its copy can be used. Everything happens in a snapshot of this node alone, which is
//! deleted at the end, however the drill ends.

mod command;

use crate::args::{At, Drill};
use crate::client::{Client, ClientError};
use crate::render::seconds;
use crate::signals::{Signals, Waited};
use crate::verbs::{done, one_group, pause, print, printed};
use crate::which;
use anyhow::{Result, anyhow};
use command::Ended;
use helio_api::{
    Accepted, ApiError, AttachRequest, Attachment, Attachments, DetachRequest, DrillRequest,
    GroupStatus, SnapshotList, SnapshotRequest, paths,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The snapshot of a drill.
const NAME: &str = "drill";
/// Maximum time for a response, if `--timeout` gives none: what was written to a device is flushed before it is detached.
const RESPONSE: Duration = Duration::from_secs(300);
/// How long a request is repeated while another one is in progress, or a device is in use.
const PATIENCE: Duration = Duration::from_secs(10);
const TRY_EVERY: Duration = Duration::from_millis(200);
/// How much is read at each end of a device.
const SAMPLE_BYTES: u64 = 64 << 10;
/// A signal that has arrived is noticed within this.
const NOTICED_WITHIN: Duration = Duration::from_millis(1);

pub(crate) fn run(at: &At, wish: Drill) -> Result<ExitCode> {
    if at.remote.is_some() {
        return Err(anyhow!(
            "a drill uses block devices of the node, and the daemon is on another host\n  \
             hint: run the command on that host, without --host and HELIO_HOST"
        ));
    }
    let timeout = Some(at.timeout.unwrap_or(RESPONSE));
    let client = Client::new(&At { timeout, ..at.clone() })?;
    let group = which::group(&client, wish.group.clone())?;
    if wish.discard {
        return discard_left(&client, &group, wish.json);
    }
    let g = one_group(&client, &group)?;
    let mut signals = Signals::catch()?;
    let started = Instant::now();
    create(&client, &g)?;
    let mut report = DrillRequest::default();
    (report.generation, report.position) = place(&client, &group);
    let mut failures = Vec::new();
    match exercise(&client, &g, &wish, &mut signals) {
        Ok(status) => report.exit_status = status,
        Err((status, why)) => {
            report.exit_status = status;
            failures.push(why);
        }
    }
    failures.extend(discard_own(&client, &group));
    report.duration_seconds = started.elapsed();
    report.failure = (!failures.is_empty()).then(|| texts(&failures));
    if let Err(error) = client.post::<Accepted>(&paths::of_group(paths::DRILL, &group), &report) {
        let ApiError { error, hint, .. } = error.report();
        failures.push(failed(format!("its result is not recorded: {error}"), hint));
    }
    end(&g, &report, failures, wish.json)
}

/// Creates the snapshot. Nothing is left and nothing is recorded if that is refused.
fn create(client: &Client, g: &GroupStatus) -> Result<()> {
    let GroupStatus { name, node, .. } = g;
    let refused = |code: &str, text: String, hint: String| {
        anyhow::Error::from(ClientError::Refused(Box::new(
            ApiError::new(code, text, hint).by(node),
        )))
    };
    let Some(peer) = g.peer.as_ref().map(|peer| &peer.name) else {
        let text = format!("group {name} has only one node, and a drill needs a secondary");
        let hint = format!("examine a snapshot instead: `helio snapshot create {name}@test`");
        return Err(refused("no-peer", text, hint));
    };
    let path = paths::of_group(paths::SNAPSHOT_CREATE, name);
    let ask = || client.post::<Accepted>(&path, &snapshot());
    let error = match patiently(&["busy"], ask) {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    Err(match error.report().code.as_str() {
        "is-primary" => {
            let text = format!("{node} is primary for {name}, and a drill runs on the secondary");
            refused("is-primary", text, format!("run `helio drill {name}` on {peer}"))
        }
        "snapshot-exists" => {
            let text = format!(
                "{name} has a snapshot {NAME} on {node}: another drill is running, or one was interrupted"
            );
            let hint = format!(
                "wait for the end of the other drill; `helio drill {name} --discard` removes what an interrupted one left"
            );
            refused("snapshot-exists", text, hint)
        }
        _ => error.into(),
    })
}

fn snapshot() -> SnapshotRequest {
    SnapshotRequest { name: NAME.to_owned(), here: true, refresh: false }
}

/// The volume in the snapshot of the drill.
fn in_snapshot(volume: &str) -> String {
    format!("{volume}@{NAME}")
}

/// Repeats a request while it is refused with one of these codes.
fn patiently<T>(
    codes: &[&str],
    ask: impl Fn() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Err(ClientError::Refused(why))
                if codes.contains(&why.code.as_str()) && Instant::now() < until =>
            {
                pause(TRY_EVERY);
            }
            other => return other,
        }
    }
}

/// Generation and last item of the snapshot.
fn place(client: &Client, group: &str) -> (Option<String>, Option<u64>) {
    let list = client.get::<SnapshotList>(&paths::of_group(paths::SNAPSHOTS, group));
    let found = list.ok().and_then(|list| list.snapshots.into_iter().find(|it| it.name == NAME));
    found.map_or((None, None), |it| (Some(it.generation), Some(it.position)))
}

/// Attaches the volumes and runs the command, or reads the devices. Returns the exit status of the command, and why the
/// drill failed.
fn exercise(
    client: &Client,
    g: &GroupStatus,
    wish: &Drill,
    signals: &mut Signals,
) -> Result<Option<i32>, (Option<i32>, ApiError)> {
    let attach = |volume: &helio_api::VolumeStatus| {
        let wish = AttachRequest { volume: in_snapshot(&volume.name), ..AttachRequest::default() };
        let path = paths::of_group(paths::ATTACH, &g.name);
        patiently(&["busy"], || client.post::<Attachment>(&path, &wish)).map_err(|error| {
            let ApiError { error, hint, .. } = error.report();
            failed(format!("{}/{} was not attached: {error}", g.name, wish.volume), hint)
        })
    };
    let devices: Result<Vec<Attachment>, ApiError> = g.volumes.iter().map(attach).collect();
    let devices = devices.map_err(|why| (None, why))?;
    for reason in devices.iter().filter_map(|device| device.reason.as_ref()) {
        // A terminal that was closed is no reason to stop here.
        let _ = writeln!(io::stderr(), "no block device: {reason}");
    }
    if let Waited::Signal(signal) = signals.within(NOTICED_WITHIN, std::future::pending::<()>()) {
        return Err((None, unsuccessful(g, &Ended::Signal(signal))));
    }
    let Some(line) = &wish.run else {
        devices.iter().try_for_each(read).map_err(|why| (None, why))?;
        return Ok(None);
    };
    let paths = g.volumes.iter().map(|volume| volume.name.as_str());
    let paths: Vec<_> = paths.zip(devices.iter().map(|device| device.path.as_str())).collect();
    let variables = variables(&g.name, &g.node, &paths);
    match command::run((line, variables), (wish.limit, wish.json), signals) {
        Ok(ended) if ended.code() == Some(0) => Ok(Some(0)),
        Ok(ended) => Err((ended.code(), unsuccessful(g, &ended))),
        Err(error) => {
            let hint = "install `sh`, and make sure that more processes can be started";
            Err((
                None,
                failed(format!("the command cannot be started: {error}"), Some(hint.into())),
            ))
        }
    }
}

/// A command that did not succeed.
fn unsuccessful(g: &GroupStatus, ended: &Ended) -> ApiError {
    let group = &g.name;
    let hint = match ended {
        Ended::Exited(_) => {
            let volume = g.volumes.first().map_or("", |volume| &volume.name);
            format!(
                "read what the command printed; to examine a copy yourself: `helio snapshot create {group}@look --here`, then \
                 `helio attach {group}/{volume}@look`"
            )
        }
        Ended::Late(_) => String::from("allow more time with --limit, or make the command faster"),
        Ended::Signal(_) => format!("`helio drill {group}` starts another drill"),
    };
    failed(ended.to_string(), Some(hint))
}

/// What the command finds in its environment. If two volumes have the same variable, neither gets it.
fn variables(group: &str, node: &str, devices: &[(&str, &str)]) -> BTreeMap<String, String> {
    let all: Vec<&str> = devices.iter().map(|(_, path)| *path).collect();
    let fixed = [
        ("HELIO_GROUP", group),
        ("HELIO_NODE", node),
        ("HELIO_SNAPSHOT", NAME),
        ("HELIO_DEVICES", &all.join(" ")),
    ];
    let mut variables: BTreeMap<String, String> =
        fixed.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let named = |volume: &str| {
        let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        format!("HELIO_DEVICE_{}", volume.chars().map(upper).collect::<String>())
    };
    for (volume, path) in devices {
        let name = named(volume);
        if devices.iter().filter(|(other, _)| named(other) == name).count() == 1 {
            variables.insert(name, (*path).to_owned());
        }
    }
    variables
}

/// Reads the beginning and the end of a device.
fn read(device: &Attachment) -> Result<(), ApiError> {
    let size = device.size_bytes.map_or(0, |size| size.0);
    let length = size.min(SAMPLE_BYTES);
    let mut sample = vec![0; length as usize];
    let mut both = || {
        let file = File::open(&device.path)?;
        file.read_exact_at(&mut sample, 0)?;
        file.read_exact_at(&mut sample, size - length)
    };
    both().map_err(|error: io::Error| {
        let text = format!("{} cannot be read: {error}", device.path);
        failed(text, Some(format!("`helio status {}` shows the state of its disks", device.group)))
    })
}

/// What was removed.
#[derive(Debug, Default)]
struct Discarded {
    devices: usize,
    snapshot: bool,
}

/// Detaches every volume in the snapshot of a drill, and deletes the snapshot.
fn discard(client: &Client, group: &str) -> Result<Discarded, ClientError> {
    let mut discarded = Discarded::default();
    let attached: Attachments = client.get(paths::ATTACHMENTS)?;
    let path = paths::of_group(paths::DETACH, group);
    let ours = attached.attachments.into_iter().filter(|attached| attached.group == group);
    for Attachment { volume, .. } in ours.filter(|it| it.volume.ends_with(&in_snapshot(""))) {
        let detach = |force| {
            let wish = DetachRequest { volume: volume.clone(), force };
            patiently(&["busy", "in-use"], || client.post::<Accepted>(&path, &wish))
        };
        let detached = match detach(false) {
            // What was written and cannot be flushed is discarded anyway.
            Err(ClientError::Refused(why)) if why.code == "attach-failed" => detach(true),
            other => other,
        };
        match detached {
            Ok(_) => discarded.devices += 1,
            Err(ClientError::Refused(why)) if why.code == "not-attached" => {}
            Err(error) => return Err(error),
        }
    }
    let path = paths::of_group(paths::SNAPSHOT_DELETE, group);
    match patiently(&["busy"], || client.post::<Accepted>(&path, &snapshot())) {
        Ok(_) => discarded.snapshot = true,
        Err(ClientError::Refused(why)) if why.code == "unknown-snapshot" => {}
        Err(error) => return Err(error),
    }
    Ok(discarded)
}

/// Why something is left of a drill, and what to do about it.
fn left(group: &str, error: &ClientError) -> ApiError {
    let report = error.report();
    let again = format!("`helio drill {group} --discard`");
    let hint = match (report.code.as_str(), report.hint) {
        ("in-use", _) | (_, None) => format!("unmount it or end the processes, then {again}"),
        (_, Some(hint)) => format!("{hint}; then {again}"),
    };
    ApiError { hint: Some(hint), ..report }
}

/// Discards what this drill made. An error if something is left, or the snapshot was deleted before.
fn discard_own(client: &Client, group: &str) -> Option<ApiError> {
    match discard(client, group) {
        Ok(Discarded { snapshot: true, .. }) => None,
        Ok(_) => {
            let list = client.get::<SnapshotList>(&paths::of_group(paths::SNAPSHOTS, group));
            let missing = list.ok().and_then(|l| l.missing.into_iter().find(|it| it.name == NAME));
            let why = missing.map_or_else(String::new, |missing| format!(": {}", missing.reason));
            let hint = format!(
                "if there was no space for before-images, make room: `helio snapshot list {group}` shows what is preserved"
            );
            Some(failed(format!("its snapshot was deleted before its end{why}"), Some(hint)))
        }
        Err(error) => {
            let left = left(group, &error);
            let text = format!("its snapshot and devices are not all removed: {}", left.error);
            Some(failed(text, left.hint))
        }
    }
}

/// `--discard`.
fn discard_left(client: &Client, group: &str, json: bool) -> Result<ExitCode> {
    let Discarded { devices, snapshot } = discard(client, group)
        .map_err(|error| ClientError::Refused(Box::new(left(group, &error))))?;
    let message = match (devices, snapshot) {
        (0, false) => format!("nothing is left of a drill of {group}"),
        (0, true) => format!("the snapshot of a drill of {group} is deleted"),
        (_, false) => format!("{devices} device(s) of a drill of {group} were detached"),
        (_, true) => {
            format!(
                "{devices} device(s) of a drill of {group} were detached, and its snapshot is deleted"
            )
        }
    };
    done(message, Vec::new(), json)
}

fn failed(text: String, hint: Option<String>) -> ApiError {
    ApiError { hint, ..ApiError::new("drill-failed", text, "") }
}

fn texts(failures: &[ApiError]) -> String {
    failures.iter().map(|why| why.error.as_str()).collect::<Vec<_>>().join("; ")
}

/// Prints how the drill ended.
fn end(
    g: &GroupStatus,
    report: &DrillRequest,
    failures: Vec<ApiError>,
    json: bool,
) -> Result<ExitCode> {
    let GroupStatus { name, node, .. } = g;
    if json {
        printed(&json!({
            "group": name,
            "node": node,
            "succeeded": failures.is_empty(),
            "failure": (!failures.is_empty()).then(|| texts(&failures)),
            "exit_status": report.exit_status,
            "duration_seconds": report.duration_seconds.as_secs_f64(),
            "generation": report.generation,
            "position": report.position,
        }))?;
    }
    if failures.is_empty() {
        if !json {
            let place = report.generation.as_ref().zip(report.position);
            let place = place.map_or_else(String::new, |(generation, item)| {
                format!(", with item {item} of generation {generation}")
            });
            let time = seconds(report.duration_seconds);
            print(&format!("the drill of {name} on {node} succeeded in {time}{place}\n"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let text = format!("the drill of {name} on {node} failed: {}", texts(&failures));
    let hints: Vec<String> = failures.into_iter().filter_map(|why| why.hint).collect();
    let error = failed(text, Some(hints.join("; "))).by(node);
    Err(ClientError::Refused(Box::new(error)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_api::form;

    #[test]
    fn the_command_finds_its_devices_in_its_environment() {
        let devices =
            [("data", "/dev/a"), ("log-1", "/dev/b"), ("x.y", "/dev/c"), ("x_y", "/dev/d")];
        let found = variables("db", "lyon", &devices);
        let found: Vec<String> =
            found.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            found,
            [
                "HELIO_DEVICES=/dev/a /dev/b /dev/c /dev/d",
                "HELIO_DEVICE_DATA=/dev/a",
                "HELIO_DEVICE_LOG_1=/dev/b",
                "HELIO_GROUP=db",
                "HELIO_NODE=lyon",
                "HELIO_SNAPSHOT=drill",
            ]
        );
    }

    #[test]
    fn what_is_left_is_reported_with_what_to_do() {
        let in_use =
            ApiError::new("in-use", "db/data@drill is in use: mounted at /mnt", "detach it");
        let refused = |error: ApiError| ClientError::Refused(Box::new(error));
        let shown = left("db", &refused(in_use));
        let hint = "unmount it or end the processes, then `helio drill db --discard`";
        assert_eq!((shown.code.as_str(), shown.hint.as_deref()), ("in-use", Some(hint)));
        let other =
            left("db", &refused(ApiError::new("no-daemon", "no daemon responds", "start it")));
        assert_eq!(other.hint.as_deref(), Some("start it; then `helio drill db --discard`"));
    }

    #[test]
    fn a_command_that_did_not_succeed_has_a_hint() {
        use std::os::unix::process::ExitStatusExt;
        let sample: helio_api::Status = serde_json::from_str(include_str!("render_sample.json"))
            .expect("the sample is a status");
        let exited = Ended::Exited(std::process::ExitStatus::from_raw(3 << 8));
        for ended in [exited, Ended::Late(Duration::from_secs(1)), Ended::Signal(2)] {
            let error = unsuccessful(&sample.groups[0], &ended);
            assert_eq!(form::faults(&error), Vec::<String>::new(), "{error}");
        }
    }
}
