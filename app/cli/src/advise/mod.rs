// SPDX-License-Identifier: Apache-2.0
//! `helio advise`: looks at groups for a while, holds what it sees against rules and a forecast, and says what to change.
//! The rules are the advise floor's (`helio_plan::live`); here is where daemons and files are.

mod forecast;
mod look;
mod show;

pub(crate) use forecast::{Forecast, read};
pub(crate) use look::seen;

use crate::args::{Advise, At};
use crate::client::Client;
use crate::failure::{failed, unreadable};
use crate::verbs::{TO_CHANGE, pause, print, status_path};
use anyhow::{Result, bail};
use helio_api::Status;
use helio_plan::live::{Buffers, Judgement, Verdict, judge};
use std::path::Path;
use std::process::ExitCode;

/// How often a group is looked at.
const LOOKS: u32 = 5;
/// The most bytes of a file that is read: a forecast of a thousand runs has fewer.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// What is said of one group.
struct Told {
    group: String,
    /// The judgements, or why there are none.
    judged: Result<Vec<Judgement>, String>,
}

/// Looks, judges and tells. Exits with [`TO_CHANGE`] where something should be changed.
pub(crate) fn run(at: &At, wish: &Advise) -> Result<ExitCode> {
    // What is wrong with a file is said before anybody waits.
    let forecast = wish.forecast.as_deref().map(forecast::read).transpose()?;
    let client = Client::new(at)?;
    let path = status_path(wish.group.as_deref());
    let mut looks: Vec<Status> = vec![client.get(&path)?];
    let first = &looks[0];
    let there = match (&wish.peer_status, first.groups.first()) {
        (Some(file), Some(group)) => match &group.peer {
            Some(peer) => Some(peer_buffers(file, &group.name, &peer.name)?),
            None => bail!(
                "group {} has only one node\n  hint: repeat the command without --peer-status",
                group.name
            ),
        },
        _ => None,
    };
    let promise = match (&forecast, first.groups.first()) {
        (Some(forecast), Some(group)) => Some(forecast.promise(wish.cell, group.mode.requested)?),
        _ => None,
    };
    for _ in 1..LOOKS {
        pause(wish.over / (LOOKS - 1));
        looks.push(client.get(&path)?);
    }
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else {
        bail!("the daemon reported no status\n  hint: repeat the command")
    };
    let Some(span) = last.daemon_uptime_seconds.checked_sub(first.daemon_uptime_seconds) else {
        bail!(
            "the daemon was restarted during the measurement\n  hint: repeat the command\n  retry: may help after a while"
        );
    };
    let told: Vec<Told> = last
        .groups
        .iter()
        .map(|group| {
            let seen = look::seen(&last.node, &looks, &group.name, wish.work, there);
            let judged = seen.map(|seen| judge(&seen, promise.as_ref()));
            Told { group: group.name.clone(), judged }
        })
        .collect();
    let shown = if wish.json {
        serde_json::to_string_pretty(&show::json(&last.node, span, &told))? + "\n"
    } else {
        show::text(&last.node, span, &told)
    };
    print(&shown)?;
    let verdicts = told.iter().flat_map(|told| told.judged.iter().flatten());
    let change = verdicts.into_iter().any(|judged| judged.verdict == Verdict::Change);
    Ok(if change { ExitCode::from(TO_CHANGE) } else { ExitCode::SUCCESS })
}

/// A file that is no longer than any that makes sense.
fn text_of(file: &Path) -> Result<String> {
    let size = std::fs::metadata(file).map_err(unreadable(file))?.len();
    if size > FILE_BYTES_MAX {
        let file = file.display();
        bail!(
            "{file} has {size} bytes, more than any such file\n  hint: check that it is the right file"
        );
    }
    std::fs::read_to_string(file).map_err(unreadable(file))
}

/// The socket buffers of the other end, as its own status says.
fn peer_buffers(file: &Path, group: &str, peer: &str) -> Result<Buffers> {
    let name = file.display();
    let status: Status = serde_json::from_str(&text_of(file)?).map_err(failed(
        format!("{name} is not the output of `helio status --json`"),
        format!("write it with `helio status {group} --json` on {peer}"),
    ))?;
    if status.node != peer {
        bail!(
            "{name} is the status of {}\n  hint: write the status of {peer}: `helio status {group} --json` on {peer}",
            status.node
        );
    }
    let Some(there) = status.groups.iter().find(|of| of.name == group) else {
        bail!(
            "{name} has no group {group}\n  hint: write it with `helio status {group} --json` on {peer}"
        );
    };
    match there.peer.as_ref().and_then(|peer| peer.link.as_ref()) {
        Some(link) => Ok(look::buffers(link)),
        None => bail!(
            "{name}: {peer} was not connected at that time\n  hint: when it is connected: `helio status {group} --json` on {peer}"
        ),
    }
}
