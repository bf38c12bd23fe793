// SPDX-License-Identifier: Apache-2.0
//! The operator's verbs. Exit codes tell the truth: 0 done, 1 refused or failed, 2 usage (clap's), 3 no daemon that
//! could be asked, 4 needs confirmation, 5 asked, but no answer or no end came in time, 6 `advise` found something to change, 7 `status`
//! shows a group that is not served, 8 `demote` left the peer behind.

use crate::args::{At, OfGroup, Promote, Resync, Resyncing};
use crate::client::{Client, ClientError};
use crate::confirm::Consent;
use crate::offer::stake;
use crate::request::Request;
use crate::{roles, typed, wait, which};
use anyhow::{Result, anyhow};
use helio_api::{
    Accepted, ApiError, ApplyReply, ApplyRequest, GroupStatus, ModeRequest, PromoteRequest,
    RecorderDump, ResyncRequest, Status, code, paths,
};
use helio_units::Mode;
use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

pub(crate) const REFUSED: u8 = 1;
const NO_DAEMON: u8 = 3;
const UNCONFIRMED: u8 = 4;
const UNANSWERED: u8 = 5;
/// What `helio advise` ends with where something should be changed.
pub(crate) const TO_CHANGE: u8 = 6;
/// What `helio status` ends with where a group of the node is not served.
pub(crate) const NOT_SERVED: u8 = 7;
/// What a command ends with whose reader closed the pipe: as if by SIGPIPE.
pub(crate) const CLOSED_PIPE: i32 = 141;
/// What `helio demote` ends with where the peer lacks writes of this node.
const PEER_BEHIND: u8 = 8;

/// Prints why something was not done on standard error, and returns the exit code.
pub(crate) fn explain(error: &anyhow::Error, json: bool) -> ExitCode {
    report(&report_of(error), json);
    ExitCode::from(match error.downcast_ref::<ClientError>() {
        Some(
            ClientError::NoDaemon { .. }
            | ClientError::Denied { .. }
            | ClientError::Untrusted { .. },
        ) => NO_DAEMON,
        Some(ClientError::Lost { .. } | ClientError::Slow { .. } | ClientError::Over { .. }) => {
            UNANSWERED
        }
        Some(ClientError::Refused(error)) if error.code == code::NEEDS_CONFIRMATION => UNCONFIRMED,
        _ => REFUSED,
    })
}

/// The same object for errors of the daemon and of this program; each has a hint.
fn report_of(error: &anyhow::Error) -> ApiError {
    let mut report = match error.downcast_ref::<ClientError>() {
        Some(error) => error.report(),
        None => ApiError::read("failed", &format!("{error:#}")),
    };
    report.hint.get_or_insert_with(typed::help);
    report
}

/// Prints an error on standard error. Its commands run as printed.
pub(crate) fn report(error: &ApiError, json: bool) {
    let node = error.node.as_deref().unwrap_or_default();
    let hint = error.hint.as_deref().map(|hint| typed::runnable_on(hint, node));
    let error = ApiError { hint, ..error.clone() };
    let text = if json {
        serde_json::to_string(&error).unwrap_or_default()
    } else {
        format!("helio: {error}")
    };
    // A closed standard error changes nothing about the exit code.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Waits without a clock of its own: nobody ever sends.
pub(crate) fn pause(span: Duration) {
    let (_never_used, nothing_comes) = mpsc::sync_channel::<()>(0);
    let _timed_out = nothing_comes.recv_timeout(span);
}

/// Where status of one group, or of all, is asked.
pub(crate) fn status_path(group: Option<&str>) -> String {
    group.map_or_else(|| paths::STATUS.to_owned(), |group| paths::of_group(paths::GROUP, group))
}

/// Writes to standard output; a reader that went away is no failure of ours.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            std::process::exit(CLOSED_PIPE)
        }
        other => Ok(other?),
    }
}

/// Prints that something was accepted or done.
pub(crate) fn accepted(accepted: &Accepted, json: bool) -> Result<ExitCode> {
    if json {
        return printed(accepted);
    }
    for warning in &accepted.warnings {
        eprintln!("warning: {}", typed::runnable(warning));
    }
    print(&format!("{}\n", typed::runnable(&accepted.message)))?;
    Ok(ExitCode::SUCCESS)
}

/// As [`accepted`], of something that this program did itself.
pub(crate) fn done(message: String, warnings: Vec<String>, json: bool) -> Result<ExitCode> {
    accepted(&Accepted { message, warnings }, json)
}

/// Prints an object as JSON.
pub(crate) fn printed(object: &impl Serialize) -> Result<ExitCode> {
    print(&(serde_json::to_string_pretty(object)? + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a request that needs the name of a group and nothing else.
pub(crate) fn request(at: &At, request: &Request, of: OfGroup) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let group = which::group(&client, of.group)?;
    accepted(&request.post(&client, &group)?, of.json)
}

/// Runs a command that needs the name of a group and nothing else.
pub(crate) fn plain(at: &At, path: &str, of: OfGroup) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let group = which::group(&client, of.group)?;
    accepted(&client.post(&paths::of_group(path, &group), &())?, of.json)
}

/// Ends with a code of its own where the peer lacks writes of this node, which the daemon warns of.
pub(crate) fn demote(at: &At, of: OfGroup) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let group = which::group(&client, of.group)?;
    let done = Request::Demote.post(&client, &group)?;
    let code = accepted(&done, of.json)?;
    Ok(if done.warnings.is_empty() { code } else { ExitCode::from(PEER_BEHIND) })
}

/// As [`plain`], of a command that begins a resync.
pub(crate) fn plain_resync(at: &At, path: &str, wish: Resyncing) -> Result<ExitCode> {
    resyncing(at, wish, |client, group| client.post(&paths::of_group(path, group), &()))
}

/// As [`request`], of a request that begins a resync.
pub(crate) fn request_resync(at: &At, request: &Request, wish: Resyncing) -> Result<ExitCode> {
    resyncing(at, wish, |client, group| request.post(client, group))
}

fn resyncing(
    at: &At,
    wish: Resyncing,
    ask: impl FnOnce(&Client, &str) -> Result<Accepted, ClientError>,
) -> Result<ExitCode> {
    let Resyncing { of, wait } = wish;
    let client = Client::new(at)?;
    let group = which::group(&client, of.group)?;
    let done = ask(&client, &group)?;
    wait::finish(&client, at, &group, &done, (wait, of.json))
}

pub(crate) fn mode(at: &At, group: Option<String>, mode: Mode, json: bool) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let group = which::group(&client, group)?;
    accepted(&Request::Mode(ModeRequest { mode }).post(&client, &group)?, json)
}

pub(crate) fn resync(at: &At, wish: Resync) -> Result<ExitCode> {
    let Resync { of, full, reverse, save, last_copy, yes, .. } = wish;
    let Resyncing { of: OfGroup { group, json }, wait } = of;
    let client = Client::new(at)?;
    let group = which::group(&client, group)?;
    let consent = Consent { yes, json };
    let done = if reverse {
        roles::reverse(&client, &group, (full, last_copy), consent, save)?
    } else {
        let give_up_safe_copy = wish.give_up_safe_copy;
        // Without a peer nothing is at stake: the daemon refuses.
        let asks = full || give_up_safe_copy;
        let request = Request::Resync(ResyncRequest { full, give_up_safe_copy });
        let status = if asks { Some(one_group(&client, &group)?) } else { None };
        if let Some(g) = &status
            && let Some(peer) = &g.peer
        {
            let question = match full {
                true => format!("overwrite the differing data on {}?", peer.name),
                false => "resync without a safe copy?".to_owned(),
            };
            consent.get(&stake(&request, g, None), &question)?;
        }
        request.post(&client, &group)?
    };
    wait::finish(&client, at, &group, &done, (wait, json))
}

pub(crate) fn one_group(client: &Client, group: &str) -> Result<GroupStatus> {
    let status: Status = client.get(&status_path(Some(group)))?;
    if let Some(failed) = status.failed.first() {
        let text = format!("group {group} is not served: {}", failed.reason);
        return Err(anyhow!("{text}\n  hint: {}", failed.hint));
    }
    let shown = status.groups.into_iter().next();
    shown.ok_or_else(|| {
        anyhow!("the daemon does not show group {group}\n  hint: `helio status` lists its groups")
    })
}

pub(crate) fn promote(at: &At, wish: Promote) -> Result<ExitCode> {
    let Promote { of, force, restore, yes, fence } = wish;
    let Resyncing { of: OfGroup { group, json }, wait } = of;
    let client = Client::new(at)?;
    let group = which::group(&client, group)?;
    let wish = Request::Promote(PromoteRequest { force, confirmed: false, restore, fence });
    let done = Consent { yes, json }.request(&client, &group, &wish)?;
    wait::finish(&client, at, &group, &done, (wait, json))
}

pub(crate) fn apply(at: &At, dry_run: bool, json: bool) -> Result<ExitCode> {
    let reply: ApplyReply = Client::new(at)?.post(paths::APPLY, &ApplyRequest { dry_run })?;
    if json {
        return printed(&reply);
    }
    let verb = if dry_run { "would change" } else { "changed" };
    let mut text: String =
        reply.changes.iter().map(|change| format!("{verb}: {change}\n")).collect();
    text.extend(
        reply.restart_needed.iter().map(|line| format!("takes effect at restart: {line}\n")),
    );
    if text.is_empty() {
        text = "nothing to change\n".into();
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn debug_events(at: &At, of: OfGroup) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let group = which::group(&client, of.group)?;
    let dump: RecorderDump = client.get(&paths::of_group(paths::DEBUG_EVENTS, &group))?;
    if of.json {
        return printed(&dump);
    }
    let lines = dump.events.iter().map(|e| format!("{:.3} {}\n", e.at_ms, e.what));
    print(&lines.collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}
