// SPDX-License-Identifier: Apache-2.0
//! `helio snapshot import` and `join`: images of an exported snapshot, on any host.

use crate::failure::failed;
use crate::signals::Signals;
use crate::verbs::{done, print};
use anyhow::{Result, bail};
use helio_format::exported::{CHUNK_BYTES, ExportRecord, ExportStage};
use helio_image::{Access, Folder, Image, Server, read_record};
use helio_units::{Bytes, shell_word};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Serves the images until a signal comes.
pub(super) fn import(dir: &Path, socket: Option<PathBuf>, json: bool) -> Result<ExitCode> {
    let folder = Folder::open(dir)?;
    let mut record = complete(&folder)?;
    let mut images = Vec::new();
    for volume in &mut record.volumes {
        let image = Image::open(&folder.image(&volume.name), volume, Access::Write)?;
        if image.is_another_device(volume)? {
            volume.differs.add_all();
            eprintln!("warning: {}", another_device(&volume.name));
        }
        if image.was_written_since(volume)? {
            volume.differs.add_all();
            eprintln!("warning: {}", unrecorded(&volume.name));
        }
        images.push(image);
    }
    let name = format!("{}@{}", record.of.group, record.of.name);
    let socket = socket.unwrap_or_else(|| dir.join("nbd.sock"));
    let socket = std::path::absolute(&socket)
        .map_err(failed("no current directory", "name the directory with an absolute path"))?;
    let mut signals = Signals::catch()?;
    let server = Server::start(folder, record, images, &socket)?;
    let exports: Vec<String> = server.exports().map(str::to_owned).collect();
    let text = if json {
        serde_json::to_string_pretty(
            &json!({ "snapshot": name, "socket": socket, "exports": exports }),
        )? + "\n"
    } else {
        let urls =
            exports.iter().map(|it| format!("  nbd+unix:///{it}?socket={}\n", socket.display()));
        format!("{name} is served until this command is stopped:\n{}", urls.collect::<String>())
    };
    // The server does not depend on the reader of its output.
    let mut out = std::io::stdout();
    let _closed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    signals.wait();
    let differs = differing(&server.finish()?);
    if !json {
        print(&format!("{name}: up to {differs} may differ from the snapshot\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds what another host recorded.
pub(super) fn join(dir: &Path, other: &Path, json: bool) -> Result<ExitCode> {
    let mut folder = Folder::open(dir)?;
    let mut record = complete(&folder)?;
    let theirs = read_record(other)?;
    if theirs.stage == ExportStage::Imported {
        bail!(
            "{} is of a host that serves the images, or did until it was killed\n  hint: stop `helio snapshot import DIR` there (if it was killed, start and stop it once), then copy its record again",
            other.display()
        );
    }
    if theirs.stage == ExportStage::Copying
        || theirs.of != record.of
        || !theirs.shape().eq(record.shape())
    {
        let of = |it: &ExportRecord| format!("{}@{} of {}", it.of.group, it.of.name, it.of.at);
        bail!(
            "{} is not of the export in {}: it is of {}, and not of {}\n  hint: name the record that was copied with these images",
            other.display(),
            dir.display(),
            of(&theirs),
            of(&record)
        );
    }
    let mut warnings = Vec::new();
    for (volume, theirs) in record.volumes.iter_mut().zip(&theirs.volumes) {
        let image = Image::open(&folder.image(&volume.name), volume, Access::Write)?;
        // What the other host wrote, it has recorded, and nothing else wrote since it ended.
        let is_known = !image.was_written_since(volume)? || !image.was_written_since(theirs)?;
        volume.differs.add_set(&theirs.differs);
        if !is_known {
            volume.differs.add_all();
            warnings.push(unrecorded(&volume.name));
        }
        (volume.written, volume.image) = (image.written()?, image.named().to_owned());
    }
    let differs = differing(&record);
    let text = format!(
        "joined: up to {differs} of the images in {} may differ from {}@{}; the next export to this directory copies these chunks, and those that changed in the volumes",
        dir.display(),
        record.of.group,
        record.of.name
    );
    folder.keep(record)?;
    done(text, warnings, json)
}

/// The record of a directory whose images hold a snapshot.
pub(super) fn complete(folder: &Folder) -> Result<ExportRecord> {
    let shown = folder.path().display();
    let word = shell_word(&folder.path().to_string_lossy());
    let Some(record) = folder.record() else {
        bail!(
            "{shown} has no exported snapshot\n  hint: `helio snapshot list` on a node of a group shows which ones can be exported to it"
        );
    };
    if record.stage == ExportStage::Copying {
        let (group, name) = (&record.of.group, &record.of.name);
        bail!(
            "the export of {group}@{name} to {shown} is not complete\n  hint: `helio snapshot export {group}@{name} {word}` continues it; or export another snapshot to it"
        );
    }
    Ok(record.clone())
}

/// Up to how many bytes of the images differ from the snapshot.
pub(super) fn differing(record: &ExportRecord) -> Bytes {
    Bytes(record.differing() * CHUNK_BYTES)
}

/// What is said where a file has another time than it had.
pub(super) fn unrecorded(volume: &str) -> String {
    format!(
        "the image of {volume} was written, or copied without its time, outside helio; where it differs from the snapshot is not known, and all of it will be compared"
    )
}

/// What is said where another device is in the place of an image.
pub(super) fn another_device(volume: &str) -> String {
    format!("the image of {volume} is on another device than the one that was exported to")
}
