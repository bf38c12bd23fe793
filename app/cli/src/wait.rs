// SPDX-License-Identifier: Apache-2.0
//! Waiting until the copies of a group are equal, and telling meanwhile how far they are: on a terminal in one line
//! that is drawn again, elsewhere in a line every few seconds.

use crate::args::At;
use crate::client::{Client, ClientError};
use crate::render::seconds;
use crate::verbs::{self, accepted, one_group, print};
use crate::{progress, signals, typed};
use anyhow::Result;
use helio_api::{Accepted, ApiError, Connection, GroupStatus};
use helio_units::State;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often an update that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often that is told where it is kept: in a file, say.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// How long an update that was accepted may take to begin while the connection is being made.
const BEGINS_WITHIN: Duration = Duration::from_secs(10);

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
    let connection = g.peer.as_ref().map_or(Connection::None, |peer| peer.connection);
    let on_its_way = matches!(connection, Connection::Connected | Connection::Connecting);
    match g.state {
        State::Replicating | State::Periodic => Look::Level,
        State::Syncing | State::CatchingUp if g.fault.is_none() => Look::Wait,
        // Just after a promotion, a switch or a cut the connection is still being made.
        State::Logging | State::Queuing
            if g.fault.is_none() && !begun && on_its_way && waited < BEGINS_WITHIN =>
        {
            Look::Wait
        }
        state => {
            let text = format!("{} is {state}: {}", g.name, g.state_reason);
            // A peer that is away may come back; anything else wants the operator first.
            let retry = connection == Connection::Connecting;
            let error = ApiError::new("not-level", text, g.next.clone()).by(&g.node);
            Look::Over(ApiError { retry, ..error })
        }
    }
}

/// A command that waits for work of the daemon, until the work ends, `--timeout` is over or a signal comes.
pub(crate) struct Wait {
    /// The work: "the resync of db".
    what: String,
    /// The command that stops the work, if there is one.
    stop: Option<String>,
    started: Instant,
    limit: Option<Duration>,
    json: bool,
}

impl Wait {
    /// From now on a signal ends this command and says that the work continues.
    pub(crate) fn begin(at: &At, json: bool, what: String, stop: Option<String>) -> Result<Self> {
        let hint = stop.as_ref().map_or_else(String::new, |stop| format!("; `{stop}` stops it"));
        let line = format!("{what} continues on the daemon{hint}");
        signals::end_with_line(typed::runnable(&line))?;
        signals::end_with_reader()?;
        Ok(Self { what, stop, started: Instant::now(), limit: at.timeout, json })
    }

    /// Waits before the next look. An error if `--timeout` is over.
    pub(crate) fn pause(&self, span: Duration) -> Result<()> {
        let left = self.limit.map(|limit| limit.saturating_sub(self.started.elapsed()));
        if left == Some(Duration::ZERO) {
            let hint = match &self.stop {
                Some(stop) => format!("`helio status` shows the progress; `{stop}` stops it"),
                None => "`helio status` shows the progress".to_owned(),
            };
            let (what, within) = (self.what.clone(), self.limit.unwrap_or_default());
            return Err(ClientError::Over { what, within, hint }.into());
        }
        verbs::pause(left.map_or(span, |left| span.min(left)));
        Ok(())
    }
}

/// Prints that a command was accepted. With `--wait`, first waits until the copies are in sync.
pub(crate) fn finish(
    client: &Client,
    at: &At,
    group: &str,
    done: &Accepted,
    (wait, json): (bool, bool),
) -> Result<ExitCode> {
    if !wait {
        return accepted(done, json);
    }
    let stop = Some(format!("helio pause {group}"));
    let waiting = Wait::begin(at, json, format!("the resync of {group}"), stop)?;
    if json {
        level(client, group, &waiting)?;
        return accepted(done, true);
    }
    accepted(done, false)?;
    level(client, group, &waiting)?;
    print(&format!("{group} is replicating\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Waits until the copies are equal. While the peer is away there is no end to wait for.
fn level(client: &Client, group: &str, waiting: &Wait) -> Result<()> {
    let terminal = std::io::stderr().is_terminal() && !waiting.json;
    let (mut begun, mut told) = (false, waiting.started);
    loop {
        let g = one_group(client, group)?;
        let seen = look(&g, begun, waiting.started.elapsed());
        if terminal {
            // Back to the line's start and clear it, so that nothing of the progress is left behind the end.
            eprint!("\r\x1b[K");
        }
        match seen {
            Look::Level => return Ok(()),
            Look::Over(error) => return Err(ClientError::Refused(Box::new(error)).into()),
            Look::Wait => begun |= !matches!(g.state, State::Logging | State::Queuing),
        }
        if terminal {
            eprint!("{}", describe(&g, progress::bar));
        } else if !waiting.json && told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            eprintln!("{group}: {}", describe(&g, progress::text));
        }
        waiting.pause(LOOK_EVERY)?;
    }
}

/// How far a group is that is not level yet.
fn describe(g: &GroupStatus, copy: fn(&helio_api::SyncStatus) -> String) -> String {
    match &g.sync {
        Some(sync) => copy(sync),
        None => format!("{}, {} and {} behind", g.state, g.lag.bytes, seconds(g.lag.seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_api::Status;

    fn group(state: State, connection: Connection) -> GroupStatus {
        let sample: Status = serde_json::from_str(include_str!("render_sample.json"))
            .expect("the sample is a status");
        let mut group = sample.groups.into_iter().next().expect("the sample has a group");
        group.peer.as_mut().expect("the sample has one").connection = connection;
        (group.state, group.fault) = (state, None);
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
        assert_eq!(says(&queuing, false, Duration::ZERO), "wait", "a switch has just ended");
        assert!(says(&queuing, false, BEGINS_WITHIN).starts_with("db is queuing: "));
        assert!(says(&queuing, true, Duration::ZERO).starts_with("db is queuing: "));
    }

    #[test]
    fn what_is_told_meanwhile_is_the_copy_or_else_what_is_behind() {
        let mut g = group(State::CatchingUp, Connection::Connected);
        g.sync = None;
        let told = describe(&g, progress::text);
        assert_eq!(told, "catching-up, 12 MiB and 75.2 s behind");
        g.sync = Some(helio_api::SyncStatus::default());
        assert!(describe(&g, progress::bar).starts_with("[---"));
    }
}
