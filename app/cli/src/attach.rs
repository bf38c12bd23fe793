// SPDX-License-Identifier: Apache-2.0
//! `helio attach` and `helio detach`: volumes as devices of the node's machine.

use crate::args::{At, Named};
use crate::client::{Client, ClientError};
use crate::confirm::Consent;
use crate::render::line;
use crate::verbs::{accepted, pause, print, printed};
use crate::{signals, which};
use anyhow::Result;
use helio_api::{
    Accepted, AttachRequest, AttachState, Attachment, Attachments, DetachRequest, Via, paths,
};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often an attach that may wait is tried.
const TRY_EVERY: Duration = Duration::from_millis(200);

/// Prints the path of the device, alone, so that scripts can use it.
pub(crate) fn attach(
    at: &At,
    named: Option<Named>,
    (read_only, via): (bool, Via),
    (wait, json): (bool, bool),
) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let (group, volume) = which::volume(&client, named)?;
    let path = paths::of_group(paths::ATTACH, &group);
    let name = format!("{group}/{volume}");
    if wait {
        signals::end_with_line(format!("{name} is not attached; nothing continues"))?;
    }
    let (wish, started) = (AttachRequest { volume, read_only, via }, Instant::now());
    let may_wait = || wait && at.timeout.is_none_or(|limit| started.elapsed() < limit);
    let made: Attachment = loop {
        match client.post(&path, &wish) {
            Err(ClientError::Refused(why)) if why.retry && may_wait() => pause(TRY_EVERY),
            other => break other?,
        }
    };
    if json {
        return printed(&made);
    }
    if let Some(reason) = &made.reason {
        eprintln!("no block device: {reason}");
    }
    print(&format!("{}\n", made.path))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn list(at: &At, json: bool) -> Result<ExitCode> {
    let told: Attachments = Client::new(at)?.get(paths::ATTACHMENTS)?;
    if json {
        return printed(&told);
    }
    let text = if told.attachments.is_empty() {
        "nothing is attached\n".to_owned()
    } else {
        told.attachments.iter().map(text).collect()
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn detach(
    at: &At,
    named: Option<Named>,
    force: bool,
    consent: Consent,
) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let (group, volume) = which::volume(&client, named)?;
    if force {
        let stake = format!("processes that use the device of {group}/{volume} get I/O errors");
        consent.get(&stake, &format!("detach {group}/{volume} nevertheless?"))?;
    }
    let wish = DetachRequest { volume, force };
    let path = paths::of_group(paths::DETACH, &group);
    accepted(&client.post::<Accepted>(&path, &wish)?, consent.json)
}

/// One fact a line.
fn text(attachment: &Attachment) -> String {
    let Attachment { group, volume, state, reason, read_only, path, device, file, .. } = attachment;
    let manner = if *read_only { ", read-only" } else { "" };
    let mut out = match state {
        AttachState::Attached => format!("{group}/{volume}: {path}{manner}\n"),
        AttachState::Waiting => format!("{group}/{volume}: not yet{manner}\n"),
    };
    if let Some(device) = device {
        line(&mut out, "device", device);
    }
    line(&mut out, "via", &attachment.via.to_string());
    if let Some(file) = file {
        line(&mut out, "file", file);
    }
    if let (Some(size), Some(block)) = (attachment.size_bytes, attachment.block_bytes) {
        line(&mut out, "size", &format!("{size}, in blocks of {block}"));
    }
    attachment.used_by.iter().for_each(|user| line(&mut out, "used", user));
    if let Some(reason) = reason {
        line(&mut out, "reason", reason);
    }
    out
}
