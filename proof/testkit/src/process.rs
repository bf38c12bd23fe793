// SPDX-License-Identifier: Apache-2.0
//! Processes that end with the test, and take along whatever they started.

use crate::wait;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

/// A process in a group of its own, killed with the whole group when it is dropped, and also when the
/// test's process ends in a way that drops nothing.
#[derive(Debug)]
pub struct Group {
    child: Child,
    number: Pid,
    ended: Option<ExitStatus>,
    leash: Child,
}

impl Group {
    /// Starts a command.
    ///
    /// # Errors
    /// Where it, or the shell that watches over it, cannot be started.
    pub fn spawn(command: &mut Command) -> std::io::Result<Self> {
        let mut child = command.process_group(0).spawn()?;
        match leash("kill -KILL -\"$1\"", child.id().to_string().as_ref()) {
            Ok(leash) => {
                let number = Pid::from_child(&child);
                Ok(Self { child, number, ended: None, leash })
            }
            Err(why) => {
                child.kill()?;
                child.wait()?;
                Err(why)
            }
        }
    }

    /// Its number, which is also its group's.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has. Whatever it had started is killed then.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            // A look that leaves the number taken: collected first, it could be somebody else's by the
            // time the rest of the group is killed.
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if let Ok(Some(_)) = waitid(WaitId::Pid(self.number), look) {
                return Some(self.kill());
            }
        }
        self.ended
    }

    /// Sends a signal to the whole group. Nothing happens where it has ended.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended.is_none() {
            // It can only fail for want of a receiver.
            let _ = kill_process_group(self.number, signal);
        }
    }

    /// Whether its first process has a handler for that signal. One that a shell started in the background ignores SIGINT until then.
    #[must_use]
    pub fn handles(&self, signal: Signal) -> bool {
        handles(self.id(), signal)
    }

    /// The pipes of its output, where the command asked for pipes and nobody took them before.
    pub fn take_output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// The pipe of its input, where the command asked for one and nobody took it before.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Waits for its end; `None` where it has not come within `limit`.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        wait::within(limit, || self.ended())
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// As SLOW if it does not come within `limit`: the message names `what` should end.
    #[track_caller]
    pub fn wait_end(&mut self, limit: Duration, what: &str) -> ExitStatus {
        wait::eventually(limit, &format!("the end of {what}"), || self.ended())
    }

    /// Kills the group with SIGKILL and collects the process: how it ended, if not by this.
    ///
    /// # Panics
    /// Where the process is not ours to wait for.
    pub fn kill(&mut self) -> ExitStatus {
        self.signal(Signal::KILL);
        let status = self.child.wait().expect("a child can be waited for, and again");
        self.ended = Some(status);
        status
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The leash goes first: behind the group's end it could kill a group that has its number by then.
        let _ = self.leash.kill();
        let _ = self.leash.wait();
        self.kill();
    }
}

/// Whether the process of that number has a handler for that signal.
#[must_use]
pub fn handles(process: u32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or_default();
    mask & 1 << (signal.as_raw() - 1) != 0
}

/// A shell that waits on a pipe only this process holds open, and runs a script when it closes: so a test that is itself
/// killed leaves nothing behind. It is in a group of its own, because who stops a test signals the test's whole group
/// (`timeout`, a terminal).
pub(crate) fn leash(script: &str, argument: &OsStr) -> std::io::Result<Child> {
    Command::new("sh")
        .args(["-c", &format!("read _; {script}"), "sh"])
        .arg(argument)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eventually;
    use std::io::{BufRead, BufReader};

    const LONG: Duration = Duration::from_secs(60);

    /// A shell with a child of its own, and that child's number.
    fn family(tail: &str) -> (Group, String) {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("sleep 600 & echo $!; {tail}")]).stdout(Stdio::piped());
        let mut group = Group::spawn(&mut command).expect("there is a shell");
        let output = group.child.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("the shell speaks");
        (group, line.trim().to_owned())
    }

    fn gone(number: &str) {
        eventually(LONG, "the end of the child's child", || {
            let stat = std::fs::read_to_string(format!("/proc/{number}/stat"));
            // Gone, or dead and not yet collected by init.
            stat.map_or(Some(()), |stat| stat.contains(") Z").then_some(()))
        });
    }

    #[test]
    fn a_dropped_group_takes_along_what_it_started() {
        let (group, grandchild) = family("wait");
        drop(group);
        gone(&grandchild);
    }

    #[test]
    fn a_process_that_ends_by_itself_takes_along_what_it_started() {
        let (mut group, grandchild) = family("exit 7");
        assert_eq!(group.wait_end(LONG, "the shell").code(), Some(7));
        gone(&grandchild);
        assert_eq!(group.kill().code(), Some(7), "it stays as it ended");
    }

    #[test]
    fn a_group_dies_when_the_pipe_of_its_leash_closes() {
        let (mut group, grandchild) = family("wait");
        drop(group.leash.stdin.take());
        gone(&grandchild);
        group.wait_end(LONG, "the shell");
    }

    #[test]
    fn waiting_has_an_end() {
        let (mut group, _) = family("wait");
        assert_eq!(group.wait(Duration::from_millis(20)), None);
    }
}
