// SPDX-License-Identifier: Apache-2.0
//! One `helio daemon` under a test's hand.

use crate::process::Group;
use crate::program::{Told, helio_binary, run};
use rustix::process::Signal;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// How long a daemon may take to answer, and to end when asked; far longer than it should.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running daemon. Dropped, it is killed with all it started; where the test fails, its log is printed.
#[derive(Debug)]
pub struct Daemon {
    node: String,
    state: PathBuf,
    log: PathBuf,
    group: Group,
}

impl Daemon {
    /// Starts `helio daemon` for a node. It logs to `DIR.log` beside its state folder, behind what an
    /// earlier daemon of the node wrote there. It may not be ready yet: see `wait_ready`.
    ///
    /// # Panics
    /// Where it cannot be started.
    #[must_use]
    pub fn start(node: &str, config: &Path, state: &Path) -> Self {
        Self::start_program(&helio_binary(), node, config, state)
    }

    /// The same, of another program than the one under test.
    ///
    /// # Panics
    /// Where it cannot be started.
    #[must_use]
    pub fn start_program(program: &Path, node: &str, config: &Path, state: &Path) -> Self {
        let mut command = Command::new(program);
        command.args(["daemon", "--node", node, "--config"]).arg(config).arg("--state").arg(state);
        Self::start_command(node, state, &mut command)
    }

    fn start_command(node: &str, state: &Path, command: &mut Command) -> Self {
        let log = state.with_extension("log");
        let opened = File::options().create(true).append(true).open(&log);
        let output = opened.and_then(|file| Ok((file.try_clone()?, file)));
        let started = output.and_then(|(stdout, stderr)| {
            Group::spawn(command.stdin(Stdio::null()).stdout(stdout).stderr(stderr))
        });
        match started {
            Ok(group) => Self { node: node.to_owned(), state: state.to_owned(), log, group },
            Err(why) => panic!("cannot start the daemon of {node}: {why}"),
        }
    }

    /// Waits until the daemon answers on its control socket.
    ///
    /// # Panics
    /// Where it ends instead; as SLOW if it takes longer than half a minute.
    #[track_caller]
    pub fn wait_ready(&mut self) {
        let socket = self.state.join("control.sock");
        let what = format!("the daemon of {} to be ready", self.node);
        crate::wait::eventually_from(PATIENCE, &what, || {
            if let Some(status) = self.group.ended() {
                panic!("the daemon of {} ended before it was ready: {status}", self.node);
            }
            if !socket.exists() {
                return Err("no control socket".to_owned());
            }
            let told = self.helio(&["status", "--json"]);
            if told.shows_status() { Ok(()) } else { Err(told.to_string()) }
        });
    }

    /// Runs a verb of `helio` against this daemon: `helio(&["status", "--json"])`.
    ///
    /// # Panics
    /// Where it cannot be run, or takes too long.
    #[track_caller]
    pub fn helio(&self, arguments: &[&str]) -> Told {
        run(Command::new(helio_binary()).args(arguments).env("HELIO_STATE_DIR", &self.state))
    }

    /// Its process number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.group.id()
    }

    /// Its state folder.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Everything it has logged, and its earlier lives with it.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills it with SIGKILL: nothing of it runs any more when this returns.
    pub fn kill9(&mut self) {
        self.group.kill();
    }

    /// Asks it to end with SIGTERM, and waits until it has.
    ///
    /// # Panics
    /// As SLOW if it takes longer than half a minute.
    #[track_caller]
    pub fn terminate(&mut self) -> ExitStatus {
        self.group.signal(Signal::TERM);
        self.wait_exit(PATIENCE)
    }

    /// Waits for its end, whoever brings that about.
    ///
    /// # Panics
    /// As SLOW if it does not come within `limit`.
    #[track_caller]
    pub fn wait_exit(&mut self, limit: Duration) -> ExitStatus {
        self.group.wait_end(limit, &format!("the daemon of {}", self.node))
    }

    /// Freezes it with SIGSTOP: its connections stay open and nothing answers.
    pub fn freeze(&mut self) {
        self.group.signal(Signal::STOP);
    }

    /// Lets a frozen daemon go on.
    pub fn thaw(&mut self) {
        self.group.signal(Signal::CONT);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.group.kill();
        if std::thread::panicking() {
            eprintln!("-- the daemon of {} logged:\n{}-- end of its log", self.node, self.log());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TempDir, eventually};

    /// A program in a daemon's place: it logs, and does what the script says of SIGTERM.
    fn stand_in(scratch: &TempDir, script: &str) -> Daemon {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            &format!("{script}; echo ready >&2; while :; do sleep 600 & wait $!; done"),
        ]);
        let daemon = Daemon::start_command("paris", &scratch.join("paris"), &mut command);
        eventually(PATIENCE, "the stand-in's log", || daemon.log().contains("ready").then_some(()));
        daemon
    }

    #[test]
    fn a_daemon_that_is_asked_to_end_ends_as_it_likes() {
        let scratch = TempDir::new();
        let mut daemon = stand_in(&scratch, "trap 'exit 5' TERM");
        assert_eq!(daemon.terminate().code(), Some(5));
        assert!(daemon.log().contains("ready"));
    }

    #[test]
    fn a_killed_daemon_has_no_say() {
        let scratch = TempDir::new();
        let mut daemon = stand_in(&scratch, "trap '' TERM");
        daemon.kill9();
        assert_eq!(daemon.wait_exit(PATIENCE).code(), None);
        let restarted = stand_in(&scratch, ":");
        eventually(PATIENCE, "a log that goes on", || {
            (restarted.log().matches("ready").count() == 2).then_some(())
        });
    }

    #[test]
    fn a_frozen_daemon_does_nothing_until_it_thaws() {
        let scratch = TempDir::new();
        let mut daemon = stand_in(&scratch, "trap 'exit 5' TERM");
        daemon.freeze();
        let stat = format!("/proc/{}/stat", daemon.id());
        eventually(PATIENCE, "the frozen state", || {
            std::fs::read_to_string(&stat).ok()?.contains(") T").then_some(())
        });
        daemon.group.signal(Signal::TERM);
        assert_eq!(daemon.group.wait(Duration::from_millis(50)), None);
        daemon.thaw();
        assert_eq!(daemon.wait_exit(PATIENCE).code(), Some(5));
    }

    #[test]
    #[should_panic(expected = "ended before it was ready")]
    fn a_daemon_that_refuses_to_start_is_told_at_once() {
        let scratch = TempDir::new();
        let mut command = Command::new("sh");
        let refuse = command.args(["-c", "echo no such node >&2; exit 2"]);
        Daemon::start_command("paris", &scratch.join("paris"), refuse).wait_ready();
    }
}
