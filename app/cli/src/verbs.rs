// SPDX-License-Identifier: Apache-2.0
//! The operator's verbs. Exit codes tell the truth: 0 done, 1 refused or failed, 2 usage (clap's), 3 no daemon that
//! could be asked, 4 needs confirmation, 5 asked, but no answer came, 6 `advise` found something to change, 7 `status`
//! shows a group that is not served.

use crate::args::At;
use crate::client::{Client, ClientError};
use crate::render::{self, Colour, Detail};
use crate::wait;
use anyhow::{Result, anyhow};
use helio_api::{
    Accepted, ApiError, ApplyReply, ApplyRequest, GroupStatus, ModeRequest, PromoteRequest,
    RecorderDump, Status, UpdateRequest, code, paths,
};
use helio_units::{Mode, Verdict};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

pub(crate) const REFUSED: u8 = 1;
const NO_DAEMON: u8 = 3;
pub(crate) const UNCONFIRMED: u8 = 4;
const UNANSWERED: u8 = 5;
/// What `helio advise` ends with where something should be changed.
pub(crate) const TO_CHANGE: u8 = 6;
/// What `helio status` ends with where a group of the node is not served.
const NOT_SERVED: u8 = 7;
/// What `helio demote` ends with where the peer lacks writes of this node.
const PEER_BEHIND: u8 = 8;

/// What is said of a file that cannot be read.
pub(crate) fn unreadable(file: &Path) -> impl FnOnce(io::Error) -> anyhow::Error {
    let shown = file.display().to_string();
    move |why| {
        anyhow!("cannot read {shown}: {why}\n  hint: name a file that is there and may be read")
    }
}

/// Tells why something was not done, on standard error, and with which code to end.
pub(crate) fn explain(error: &anyhow::Error) -> ExitCode {
    eprintln!("helio: {error:#}");
    ExitCode::from(match error.downcast_ref::<ClientError>() {
        Some(
            ClientError::NoDaemon { .. }
            | ClientError::Denied { .. }
            | ClientError::Untrusted { .. },
        ) => NO_DAEMON,
        Some(ClientError::Lost { .. } | ClientError::Slow { .. }) => UNANSWERED,
        Some(ClientError::Refused(error)) if error.code == code::NEEDS_CONFIRMATION => UNCONFIRMED,
        _ => REFUSED,
    })
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

/// What of a status is asked for, and how it is printed.
pub(crate) struct Look {
    pub(crate) group: Option<String>,
    pub(crate) json: bool,
    pub(crate) verbose: bool,
    pub(crate) check: bool,
    pub(crate) watch: Option<u64>,
}

pub(crate) fn status(at: &At, look: &Look) -> Result<ExitCode> {
    let shown = show_status(at, look);
    match shown {
        Err(error) if look.check => {
            eprintln!("helio: {error:#}");
            Ok(ExitCode::from(render::check_code(Verdict::Unknown)))
        }
        other => other,
    }
}

fn show_status(at: &At, look: &Look) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let terminal = std::io::stdout().is_terminal();
    let wants = std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let detail = match (look.verbose, &look.group) {
        (true, _) => Detail::All,
        (false, Some(_)) => Detail::Group,
        (false, None) => Detail::List,
    };
    loop {
        let status: Status = client.get(&status_path(look.group.as_deref()))?;
        let text = if look.json {
            serde_json::to_string_pretty(&status)? + "\n"
        } else {
            render::status(&status, detail, Colour(terminal && wants))
        };
        let clear = look.watch.is_some() && !look.json && terminal;
        print(&if clear { format!("\x1b[H\x1b[2J{text}") } else { text })?;
        let Some(seconds) = look.watch else { return Ok(status_code(&status, look.check)) };
        pause(Duration::from_secs(seconds));
    }
}

/// What `helio status` ends with; with `--check` as monitoring expects, by the worst group.
fn status_code(status: &Status, check: bool) -> ExitCode {
    ExitCode::from(match (check, status.failed.is_empty()) {
        (false, true) => return ExitCode::SUCCESS,
        (false, false) => NOT_SERVED,
        (true, false) => render::check_code(Verdict::NoPrimary),
        (true, true) => status
            .groups
            .iter()
            .map(|group| group.verdict.word)
            .min()
            .map_or(render::check_code(Verdict::Ok), render::check_code),
    })
}

/// Writes to standard output; a reader that went away is no failure of ours.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}

pub(crate) fn accepted(accepted: &Accepted) -> Result<ExitCode> {
    for warning in &accepted.warnings {
        eprintln!("warning: {warning}");
    }
    print(&format!("{}\n", accepted.message))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn log(at: &At, group: &str) -> Result<ExitCode> {
    accepted(&Client::new(at)?.post(&paths::of_group(paths::LOG, group), &())?)
}

/// Ends with a code of its own where the peer lacks writes of this node, which the daemon warns of.
pub(crate) fn demote(at: &At, group: &str) -> Result<ExitCode> {
    let done: Accepted = Client::new(at)?.post(&paths::of_group(paths::DEMOTE, group), &())?;
    let code = accepted(&done)?;
    Ok(if done.warnings.is_empty() { code } else { ExitCode::from(PEER_BEHIND) })
}

pub(crate) fn mode(at: &At, group: &str, mode: Mode) -> Result<ExitCode> {
    accepted(&Client::new(at)?.post(&paths::of_group(paths::MODE, group), &ModeRequest { mode })?)
}

pub(crate) fn update(at: &At, group: &str, wait: bool, wish: UpdateRequest) -> Result<ExitCode> {
    let client = Client::new(at)?;
    accepted(&client.post(&paths::of_group(paths::UPDATE, group), &wish)?)?;
    if wait { wait::level(&client, group) } else { Ok(ExitCode::SUCCESS) }
}

pub(crate) fn seed_begin(at: &At, group: &str) -> Result<ExitCode> {
    accepted(&Client::new(at)?.post(&paths::of_group(paths::SEED_BEGIN, group), &())?)
}

pub(crate) fn seed_end(at: &At, group: &str, wait: bool) -> Result<ExitCode> {
    let client = Client::new(at)?;
    accepted(&client.post(&paths::of_group(paths::SEED_END, group), &())?)?;
    if wait { wait::level(&client, group) } else { Ok(ExitCode::SUCCESS) }
}

/// Says first what it costs: while everything is compared, the other copy is no image of anything.
pub(crate) fn full(at: &At, group: &str, wait: bool, yes: bool) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let shown = one_group(&client, group)?;
    let peer = &shown.peer.name;
    if !yes {
        eprintln!(
            "until it is done, the copy of {group} on {peer} is not consistent and cannot take over"
        );
        if !std::io::stdin().is_terminal() {
            eprintln!("repeat with --yes if that may be so");
            return Ok(ExitCode::from(UNCONFIRMED));
        }
        eprint!("overwrite what differs on {peer}? [y/N] ");
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Ok(ExitCode::from(UNCONFIRMED));
        }
    }
    accepted(&client.post(&paths::of_group(paths::FULL, group), &())?)?;
    if wait { wait::level(&client, group) } else { Ok(ExitCode::SUCCESS) }
}

pub(crate) fn one_group(client: &Client, group: &str) -> Result<GroupStatus> {
    let status: Status = client.get(&status_path(Some(group)))?;
    if let Some(failed) = status.failed.first() {
        let text = format!("group {group} is not served: {}", failed.reason);
        return Err(anyhow!("{text}\n  hint: {}", failed.hint));
    }
    let shown = status.groups.into_iter().next();
    shown.ok_or_else(|| anyhow!("the daemon does not show group {group}"))
}

pub(crate) fn promote(at: &At, group: &str, wish: PromoteRequest) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let path = paths::of_group(paths::PROMOTE, group);
    let ask = |confirmed| client.post::<Accepted>(&path, &PromoteRequest { confirmed, ..wish });
    confirmed(&format!("promote {group} all the same?"), wish.confirmed, ask)
}

/// Does what may lose something: shows what is at stake, and asks where somebody is there to answer.
pub(crate) fn confirmed(
    question: &str,
    yes: bool,
    ask: impl Fn(bool) -> Result<Accepted, ClientError>,
) -> Result<ExitCode> {
    match ask(yes) {
        Ok(done) => accepted(&done),
        Err(ClientError::Refused(error))
            if error.code == code::NEEDS_CONFIRMATION && std::io::stdin().is_terminal() =>
        {
            show_stake(&error);
            eprint!("{question} [y/N] ");
            let mut answer = String::new();
            std::io::stdin().read_line(&mut answer)?;
            if matches!(answer.trim(), "y" | "Y" | "yes") {
                accepted(&ask(true)?)
            } else {
                Ok(ExitCode::from(UNCONFIRMED))
            }
        }
        Err(ClientError::Refused(error)) => {
            show_stake(&error);
            Err(ClientError::Refused(error).into())
        }
        Err(other) => Err(other.into()),
    }
}

fn show_stake(error: &ApiError) {
    if let Some(stake) = &error.at_stake {
        eprintln!("at stake: {}", stake.text);
    }
}

pub(crate) fn apply(at: &At, dry_run: bool, json: bool) -> Result<ExitCode> {
    let reply: ApplyReply = Client::new(at)?.post(paths::APPLY, &ApplyRequest { dry_run })?;
    if json {
        print(&(serde_json::to_string_pretty(&reply)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let verb = if dry_run { "would change" } else { "changed" };
    let mut text: String =
        reply.changes.iter().map(|change| format!("{verb}: {change}\n")).collect();
    text.extend(reply.restart_needed.iter().map(|line| format!("waits for a restart: {line}\n")));
    if text.is_empty() {
        text = "nothing to change\n".into();
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn recorder(at: &At, group: &str, json: bool) -> Result<ExitCode> {
    let dump: RecorderDump = Client::new(at)?.get(&paths::of_group(paths::RECORDER, group))?;
    if json {
        print(&(serde_json::to_string_pretty(&dump)? + "\n"))?;
    } else {
        let lines = dump.events.iter().map(|e| format!("{:.3} {}\n", e.at_ms, e.what));
        print(&lines.collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}
