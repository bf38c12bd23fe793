// SPDX-License-Identifier: Apache-2.0
//! `helio attach` and `helio detach`: volumes as devices of the node's machine.

use crate::args::At;
use crate::client::{Client, ClientError};
use crate::render::line;
use crate::verbs::{accepted, pause, print};
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
    (group, volume): (String, String),
    read_only: bool,
    via: Via,
    wait: Duration,
) -> Result<ExitCode> {
    let wish = AttachRequest { volume, read_only, via };
    let path = paths::of_group(paths::ATTACH, &group);
    let (client, until) = (Client::new(at)?, Instant::now() + wait);
    let made: Attachment = loop {
        match client.post(&path, &wish) {
            Err(ClientError::Refused(why)) if why.retry && Instant::now() < until => {
                pause(TRY_EVERY);
            }
            other => break other?,
        }
    };
    if let Some(reason) = &made.reason {
        eprintln!("no block device: {reason}");
    }
    print(&format!("{}\n", made.path))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn list(at: &At, json: bool) -> Result<ExitCode> {
    let told: Attachments = Client::new(at)?.get(paths::ATTACHMENTS)?;
    let text = if json {
        serde_json::to_string_pretty(&told)? + "\n"
    } else if told.attachments.is_empty() {
        "nothing is attached\n".to_owned()
    } else {
        told.attachments.iter().map(text).collect()
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn detach(at: &At, (group, volume): (String, String), force: bool) -> Result<ExitCode> {
    let wish = DetachRequest { volume, force };
    let path = paths::of_group(paths::DETACH, &group);
    let done: Accepted = Client::new(at)?.post(&path, &wish)?;
    accepted(&done)
}

/// One fact a line.
fn text(attachment: &Attachment) -> String {
    let Attachment { group, volume, state, reason, read_only, path, device, file, .. } = attachment;
    let manner = if *read_only { ", to be read only" } else { "" };
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
