// SPDX-License-Identifier: Apache-2.0
//! The command of a drill: run as the operator, and ended with everything it started.

use crate::plan::span;
use crate::signals::{Signals, Waited};
use crate::verbs::pause;
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group, set_child_subreaper};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fmt, fs, io};

/// How long everything that a command started may take to end after SIGTERM, before it is killed.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// How long killed processes may take to end. One that waits for a device does not end before it gets an answer.
const KILLED_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself.
    Exited(ExitStatus),
    /// It was stopped after its time.
    Late(Duration),
    /// It was stopped because helio received that signal.
    Signal(i32),
}

impl Ended {
    /// Its exit status, if it ended by itself.
    pub(super) fn code(&self) -> Option<i32> {
        match self {
            Self::Exited(status) => status.code(),
            Self::Late(_) | Self::Signal(_) => None,
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => match (status.code(), status.signal()) {
                (Some(code), _) => write!(f, "the command ended with exit status {code}"),
                (None, signal) => {
                    write!(f, "the command was ended by signal {}", signal.unwrap_or_default())
                }
            },
            Self::Late(limit) => write!(f, "the command did not end within {}", span(*limit)),
            Self::Signal(signal) => write!(f, "helio was interrupted by signal {signal}"),
        }
    }
}

/// Runs a command of the shell with these variables added to its environment, until it ends, its time is over or a signal
/// arrives. Nothing that it started runs when this returns.
///
/// # Errors
/// It cannot be started.
pub(super) fn run(
    (line, variables): (&str, BTreeMap<String, String>),
    (limit, json): (Duration, bool),
    signals: &mut Signals,
) -> io::Result<Ended> {
    // Processes whose parents ended become children of this one, wherever they are, so that they are found.
    set_child_subreaper(Some(getpid()))?;
    let mut command = Command::new("sh");
    command.args([OsStr::new("-c"), OsStr::new(line)]).envs(variables).stdin(Stdio::null());
    if json {
        command.stdout(io::stderr().as_fd().try_clone_to_owned()?);
    }
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = signals.spawn(command)?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let ended = match signals.within(limit, child.wait()) {
        Waited::Ended(status) => status.map(Ended::Exited),
        Waited::Late => Ok(Ended::Late(limit)),
        Waited::Signal(signal) => Ok(Ended::Signal(signal)),
    };
    if let (Ok(Ended::Late(_) | Ended::Signal(_)), Some(group)) = (&ended, group) {
        // It can only fail for want of a receiver. A second signal ends the wait.
        let _ = kill_process_group(group, Signal::TERM);
        // The shell may end before the script that it started has cleared away.
        let _ = signals.within(ENDS_WITHIN, all_ended());
    }
    kill_rest();
    ended
}

/// Ends when nothing that the command started runs.
async fn all_ended() {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    while !running().is_empty() {
        looks.tick().await;
    }
}

/// What the command started and still runs.
fn running() -> Vec<u32> {
    descendants(std::process::id(), &processes())
}

/// Kills what a command left.
fn kill_rest() {
    let until = Instant::now() + KILLED_WITHIN;
    loop {
        let running = running();
        if running.is_empty() || Instant::now() > until {
            return;
        }
        for pid in running.into_iter().filter_map(|id| Pid::from_raw(id.cast_signed())) {
            // It can only fail for want of a receiver.
            let _ = kill_process(pid, Signal::KILL);
        }
        pause(LOOK_EVERY);
    }
}

/// A process: its number, its parent's, and whether it still runs.
type Process = (u32, u32, bool);

/// The processes of this machine.
fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        parsed(id, &stat)
    })
    .collect()
}

/// `ID (NAME) STATE PARENT …`; the name may contain anything.
fn parsed(id: u32, stat: &str) -> Option<Process> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    Some((id, fields.next()?.parse().ok()?, !matches!(state, "Z" | "X")))
}

/// Those of the processes that run and stem from `root`.
fn descendants(root: u32, processes: &[Process]) -> Vec<u32> {
    let (mut found, mut at) = (vec![root], 0);
    while let Some(parent) = found.get(at).copied() {
        let children = processes.iter().filter(|process| process.1 == parent);
        found.extend(children.map(|process| process.0));
        at += 1;
    }
    let runs = |id: &u32| processes.iter().any(|process| process.0 == *id && process.2);
    found.into_iter().skip(1).filter(runs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_found_through_parents_that_have_ended() {
        assert_eq!(parsed(7, "7 (a) b (c) S 3 7 7 0"), Some((7, 3, true)));
        assert_eq!(parsed(7, "7 (a) Z 3 7 7 0"), Some((7, 3, false)));
        assert_eq!(parsed(7, "7 (a) S"), None);
        let all = [(1, 0, true), (3, 1, true), (7, 3, false), (8, 7, true), (9, 1, true)];
        assert_eq!(descendants(3, &all), [8]);
        assert_eq!(descendants(9, &all), [0; 0]);
    }

    #[test]
    fn the_end_of_a_command_is_text() {
        let exited = |raw| Ended::Exited(ExitStatus::from_raw(raw));
        assert_eq!(exited(3 << 8).to_string(), "the command ended with exit status 3");
        assert_eq!(exited(9).to_string(), "the command was ended by signal 9");
        assert_eq!((exited(3 << 8).code(), exited(9).code()), (Some(3), None));
        let late = Ended::Late(Duration::from_secs(3600));
        assert_eq!(
            (late.to_string().as_str(), late.code()),
            ("the command did not end within 60 min", None)
        );
    }
}
