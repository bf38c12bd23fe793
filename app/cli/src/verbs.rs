// SPDX-License-Identifier: Apache-2.0
//! The operator's verbs. Exit codes tell the truth: 0 done, 1 refused or failed, 2 usage (clap's), 3 no daemon that
//! could be asked, 4 needs confirmation, 5 asked, but no answer came.

use crate::args::At;
use crate::client::{Client, ClientError};
use crate::render;
use anyhow::Result;
use helio_api::{
    Accepted, ApiError, ApplyReply, ApplyRequest, Connection, GroupStatus, ModeRequest,
    PromoteRequest, RecorderDump, Status, code, paths,
};
use helio_units::{Mode, State};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

const REFUSED: u8 = 1;
const NO_DAEMON: u8 = 3;
const UNCONFIRMED: u8 = 4;
const UNANSWERED: u8 = 5;
/// How often an update that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long an update that was accepted may take to begin while the connection is being made.
const BEGINS_WITHIN: Duration = Duration::from_secs(10);

/// Tells why something was not done, on standard error, and with which code to end.
pub(crate) fn explain(error: &anyhow::Error) -> ExitCode {
    eprintln!("helio: {error:#}");
    ExitCode::from(match error.downcast_ref::<ClientError>() {
        Some(ClientError::NoDaemon { .. } | ClientError::Denied { .. }) => NO_DAEMON,
        Some(ClientError::Lost { .. } | ClientError::Slow { .. }) => UNANSWERED,
        Some(ClientError::Refused(error)) if error.code == code::NEEDS_CONFIRMATION => UNCONFIRMED,
        _ => REFUSED,
    })
}

/// Waits without a clock of its own: nobody ever sends.
fn pause(span: Duration) {
    let (_never_used, nothing_comes) = mpsc::sync_channel::<()>(0);
    let _timed_out = nothing_comes.recv_timeout(span);
}

/// Where status of one group, or of all, is asked.
fn status_path(group: Option<&str>) -> String {
    group.map_or_else(|| paths::STATUS.to_owned(), |group| paths::of_group(paths::GROUP, group))
}

pub(crate) fn status(
    at: &At,
    group: Option<&str>,
    json: bool,
    watch: Option<u64>,
) -> Result<ExitCode> {
    let client = Client::new(at)?;
    loop {
        let status: Status = client.get(&status_path(group))?;
        let text = if json {
            serde_json::to_string_pretty(&status)? + "\n"
        } else {
            render::status(&status)
        };
        let clear = watch.is_some() && !json && std::io::stdout().is_terminal();
        print(&if clear { format!("\x1b[H\x1b[2J{text}") } else { text })?;
        let Some(seconds) = watch else { return Ok(ExitCode::SUCCESS) };
        pause(Duration::from_secs(seconds));
    }
}

/// Writes to standard output; a reader that went away is no failure of ours.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}

fn accepted(accepted: &Accepted) -> Result<ExitCode> {
    for warning in &accepted.warnings {
        eprintln!("warning: {warning}");
    }
    print(&format!("{}\n", accepted.message))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn log(at: &At, group: &str) -> Result<ExitCode> {
    accepted(&Client::new(at)?.post(&paths::of_group(paths::LOG, group), &())?)
}

pub(crate) fn demote(at: &At, group: &str) -> Result<ExitCode> {
    accepted(&Client::new(at)?.post(&paths::of_group(paths::DEMOTE, group), &())?)
}

pub(crate) fn mode(at: &At, group: &str, mode: Mode) -> Result<ExitCode> {
    accepted(&Client::new(at)?.post(&paths::of_group(paths::MODE, group), &ModeRequest { mode })?)
}

pub(crate) fn update(at: &At, group: &str, wait: bool) -> Result<ExitCode> {
    let client = Client::new(at)?;
    accepted(&client.post(&paths::of_group(paths::UPDATE, group), &())?)?;
    if wait { wait_level(&client, group) } else { Ok(ExitCode::SUCCESS) }
}

fn one_group(client: &Client, group: &str) -> Result<GroupStatus> {
    let status: Status = client.get(&status_path(Some(group)))?;
    status
        .groups
        .into_iter()
        .next()
        .ok_or_else(|| anyhow::anyhow!("the daemon does not show group {group}"))
}

/// What one look at a group that is waited for says.
enum Look {
    /// The copies are equal.
    Level,
    /// Look again.
    Wait,
    /// It will not come to that by itself.
    Over(ApiError),
}

/// `begun`: the update was seen at work before; `waited`: since it was accepted.
fn look(g: &GroupStatus, begun: bool, waited: Duration) -> Look {
    let on_its_way = matches!(g.peer.connection, Connection::Connected | Connection::Connecting);
    match g.state {
        State::Replicating => Look::Level,
        State::Syncing | State::CatchingUp if g.fault.is_none() => Look::Wait,
        // Just after a promotion or a cut the connection is still being made.
        State::Logging if g.fault.is_none() && !begun && on_its_way && waited < BEGINS_WITHIN => {
            Look::Wait
        }
        state => {
            let text = format!("{} is {state}: {}", g.name, g.state_reason);
            // A peer that is away may come back; anything else wants the operator first.
            let retry = g.peer.connection == Connection::Connecting;
            Look::Over(ApiError { retry, ..ApiError::new("not-level", text, g.next.clone()) })
        }
    }
}

/// Waits until the copies are equal. While the peer is away there is no end to wait for.
fn wait_level(client: &Client, group: &str) -> Result<ExitCode> {
    let shown = std::io::stderr().is_terminal();
    let (mut begun, mut waited) = (false, Duration::ZERO);
    loop {
        let g = one_group(client, group)?;
        let seen = look(&g, begun, waited);
        if shown {
            // Back to the line's start and clear it, so that nothing of the progress is left behind the end.
            eprint!("\r\x1b[K");
        }
        match seen {
            Look::Level => {
                print(&format!("{group} is replicating\n"))?;
                return Ok(ExitCode::SUCCESS);
            }
            Look::Over(error) => return Err(ClientError::Refused(Box::new(error)).into()),
            Look::Wait => begun |= g.state != State::Logging,
        }
        if let (true, Some(sync)) = (shown, &g.sync) {
            eprint!(
                "{} copied, {} marked, {}",
                sync.copied_bytes, sync.marked_bytes, sync.rate_bytes_per_second
            );
        }
        pause(LOOK_EVERY);
        waited += LOOK_EVERY;
    }
}

pub(crate) fn promote(at: &At, group: &str, force: bool, yes: bool) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let path = paths::of_group(paths::PROMOTE, group);
    let ask = |confirmed| client.post::<Accepted>(&path, &PromoteRequest { force, confirmed });
    match ask(yes) {
        Ok(done) => accepted(&done),
        Err(ClientError::Refused(error))
            if error.code == code::NEEDS_CONFIRMATION && std::io::stdin().is_terminal() =>
        {
            show_stake(&error);
            eprint!("promote {group} all the same? [y/N] ");
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
        let lines =
            dump.events.iter().map(|e| format!("{}.{:03} {}\n", e.at_ms, e.at_ms.0 % 1000, e.what));
        print(&lines.collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(state: State, connection: Connection) -> GroupStatus {
        let sample: Status = serde_json::from_str(include_str!("render_sample.json"))
            .expect("the sample is a status");
        let mut group = sample.groups.into_iter().next().expect("the sample has a group");
        (group.state, group.peer.connection, group.fault) = (state, connection, None);
        group
    }

    /// What a look says, as one word or the error.
    fn says(g: &GroupStatus, begun: bool, waited: Duration) -> String {
        match look(g, begun, waited) {
            Look::Level => "level".to_owned(),
            Look::Wait => "wait".to_owned(),
            Look::Over(error) => error.error,
        }
    }

    #[test]
    fn an_update_may_begin_late_while_the_connection_is_being_made() {
        let early = group(State::Logging, Connection::Connecting);
        assert_eq!(says(&early, false, Duration::ZERO), "wait");
        assert!(says(&early, false, BEGINS_WITHIN).starts_with("db is logging: "));
        let refused = group(State::Logging, Connection::Refused);
        assert!(says(&refused, false, Duration::ZERO).starts_with("db is logging: "));
    }

    #[test]
    fn an_update_ends_level_or_with_the_state_it_fell_into() {
        let mut g = group(State::Syncing, Connection::Connected);
        assert_eq!(says(&g, true, Duration::from_secs(3600)), "wait");
        g.fault = Some("volume 0 failed".to_owned());
        assert!(says(&g, true, Duration::ZERO).starts_with("db is syncing: "));
        let level = group(State::Replicating, Connection::Connected);
        assert_eq!(says(&level, true, Duration::ZERO), "level");
        let fell = group(State::Logging, Connection::Connecting);
        assert!(says(&fell, true, Duration::ZERO).starts_with("db is logging: "));
        let queuing = group(State::Queuing, Connection::Connecting);
        assert!(says(&queuing, false, Duration::ZERO).starts_with("db is queuing: "));
    }
}
