// SPDX-License-Identifier: Apache-2.0
//! A command with a time limit, read line by line while it runs, and stopped with all it started. Its two outputs are read as one, in the
//! order in which they are written: cargo names each program of tests on one of them, and the program prints to the other.

use std::io::{BufRead, BufReader, PipeReader, pipe};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Lines read and not yet printed; the reader waits beyond.
const LINES: usize = 256;
/// How long after its end a command's descendants may hold its output open.
const DRAIN: Duration = Duration::from_secs(5);

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Success,
    /// It never started, or ended by itself otherwise than well.
    Failure(String),
    OverBudget,
}

enum Event {
    Line(String),
    /// No more output.
    Silence,
    Exit(std::io::Result<ExitStatus>),
}

/// Runs a command for at most `budget`. Its output passes through to ours; `read` sees every line of it.
pub(crate) fn run(mut command: Command, budget: Duration, read: impl FnMut(&str)) -> Ending {
    // A group of its own, so that a stop reaches the compilers and tests it started.
    command.process_group(0).stdin(Stdio::null());
    let deadline = Instant::now() + budget;
    let name = command.get_program().to_string_lossy().into_owned();
    let (mut child, output) = match spawn(command) {
        Ok(spawned) => spawned,
        Err(why) => return Ending::Failure(format!("cannot start {name}: {why}")),
    };
    let group = child.id();
    let leash = Leash::tie(group);
    let (tell, told) = sync_channel(LINES);
    let listener = tell.clone();
    thread::spawn(move || listen(BufReader::new(output), &listener));
    thread::spawn(move || tell.send(Event::Exit(child.wait())));
    let ending = follow(&told, deadline, read);
    // What a test left running goes too, however the command itself ended.
    kill(group);
    drop(leash);
    ending
}

/// The command is gone when this returns, and with it our copies of the end that it writes to.
fn spawn(mut command: Command) -> std::io::Result<(Child, PipeReader)> {
    let (output, both) = pipe()?;
    command.stdout(both.try_clone()?).stderr(both);
    Ok((command.spawn()?, output))
}

fn listen(output: impl BufRead, tell: &SyncSender<Event>) {
    for line in output.split(b'\n') {
        let Ok(line) = line else { break };
        if tell.send(Event::Line(String::from_utf8_lossy(&line).into_owned())).is_err() {
            return;
        }
    }
    // Nobody listens any more once the command was stopped; there is nothing left to tell then.
    let _ = tell.send(Event::Silence);
}

/// Prints lines until the command has ended and its output with it, or the deadline is past.
fn follow(told: &Receiver<Event>, deadline: Instant, mut read: impl FnMut(&str)) -> Ending {
    let mut ending = None;
    let mut silent = false;
    let mut until = deadline;
    while ending.is_none() || !silent {
        match told.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Event::Line(line)) => {
                println!("{line}");
                read(&line);
            }
            Ok(Event::Silence) => silent = true,
            Ok(Event::Exit(status)) => {
                ending = Some(match status {
                    Ok(status) if status.success() => Ending::Success,
                    Ok(status) => Ending::Failure(status.to_string()),
                    Err(why) => Ending::Failure(why.to_string()),
                });
                until = Instant::now() + DRAIN;
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    ending.unwrap_or(Ending::OverBudget)
}

fn kill(group: u32) {
    // Failing means that nobody of the group is left, which is what was wanted.
    let _ = Command::new("sh")
        .args(["-c", "kill -KILL -\"$1\"", "sh", &group.to_string()])
        .stderr(Stdio::null())
        .status();
}

/// Ends a group when *we* end, however that comes: a key press reaches only the terminal's own group, and
/// nothing runs in a killed process. A shell waits on a pipe that only our end can close.
struct Leash(Option<Child>);

impl Leash {
    fn tie(group: u32) -> Self {
        let shell = Command::new("sh")
            .args(["-c", "read _; kill -KILL -\"$1\"", "sh", &group.to_string()])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(shell.ok())
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        if let Some(shell) = &mut self.0 {
            // It must be gone before its pipe closes, lest it kill a group that has our number by then.
            let _ = shell.kill();
            let _ = shell.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, budget: Duration) -> (Ending, Vec<String>) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut lines = Vec::new();
        let ending = run(command, budget, |line| lines.push(line.to_owned()));
        (ending, lines)
    }

    #[test]
    fn a_command_is_read_to_its_end() {
        let (ending, lines) = sh("echo one; printf two", Duration::from_secs(20));
        assert_eq!(ending, Ending::Success);
        assert_eq!(lines, ["one", "two"]);
        let (_, lines) = sh("echo one >&2; echo two; echo three >&2", Duration::from_secs(20));
        assert_eq!(lines, ["one", "two", "three"], "as they were written");
        assert!(
            matches!(sh("exit 3", Duration::from_secs(20)).0, Ending::Failure(how) if how.contains('3'))
        );
    }

    #[test]
    fn a_command_over_its_budget_is_stopped_with_all_it_started() {
        let begun = Instant::now();
        let (ending, lines) = sh("sleep 600 & echo $!; wait", Duration::from_millis(300));
        assert_eq!(ending, Ending::OverBudget);
        assert!(begun.elapsed() < Duration::from_secs(60));
        let stat = format!("/proc/{}/stat", lines[0]);
        // Killed: gone once a processor had time for it, or not yet collected by init.
        let dead = || match std::fs::read_to_string(&stat) {
            Ok(state) => state.contains(") Z") || state.contains(") X"),
            Err(_) => true,
        };
        while !dead() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{stat} still runs");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_a_failure_with_its_name() {
        let ending = run(Command::new("no-such-program"), Duration::from_secs(20), |_| ());
        assert!(matches!(ending, Ending::Failure(why) if why.contains("no-such-program")));
    }
}
