// SPDX-License-Identifier: Apache-2.0
//! A line below TCP between two network namespaces of its own, by `helio lab wan`.

use crate::process::Group;
use crate::program::helio_binary;
use crate::timely::received;
use crate::wait::slow;
use rustix::process::Signal;
use rustix::thread::{CapabilitySet, LinkNameSpaceType, capabilities, move_into_link_name_space};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// How long an answer or the end may take; far longer than either should.
const PATIENCE: Duration = Duration::from_secs(30);
/// Lines that may wait to be read.
const MOST_LINES: usize = 64;

/// An end of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The left.
    Left,
    /// The right.
    Right,
}

/// The line. When it is dropped it ends, and takes its namespaces along.
#[derive(Debug)]
pub struct Wan {
    group: Group,
    orders: ChildStdin,
    answers: Receiver<String>,
    introduction: Vec<String>,
    ends: [(String, Ipv4Addr); 2],
}

impl Wan {
    /// What this machine lacks for it, if anything: root's capabilities, or TUN devices.
    #[must_use]
    pub fn lacking() -> Option<&'static str> {
        let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN;
        let has = capabilities(None).is_ok_and(|sets| sets.effective.contains(needed));
        match (has, Path::new("/dev/net/tun").exists()) {
            (false, _) => Some("root, to make network namespaces"),
            (_, false) => Some("/dev/net/tun"),
            _ => None,
        }
    }

    /// Starts `helio lab wan` with these arguments, and waits until it takes orders.
    ///
    /// # Panics
    /// Where it does not come so far.
    #[track_caller]
    #[must_use]
    pub fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(helio_binary());
        command.args(["lab", "wan"]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut group = match Group::spawn(&mut command) {
            Ok(group) => group,
            Err(why) => panic!("cannot start {command:?}: {why}"),
        };
        let orders = group.take_input().expect("it is piped");
        let output = group.take_output().0.expect("it is piped");
        let (lines, answers) = sync_channel(MOST_LINES);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        let mut introduction: Vec<String> = Vec::new();
        while introduction.last().is_none_or(|line| !line.starts_with("commands: ")) {
            match answers.recv_timeout(PATIENCE) {
                Ok(line) => introduction.push(line),
                Err(RecvTimeoutError::Timeout) => {
                    slow(format_args!("{command:?} said {introduction:?} and then nothing"))
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("{command:?} said {introduction:?} and ended")
                }
            }
        }
        let end = |side: &str| end(&introduction, side);
        let ends = [end("left: "), end("right: ")];
        Self { group, orders, answers, introduction, ends }
    }

    /// What it said before it took orders.
    #[must_use]
    pub fn introduction(&self) -> &[String] {
        &self.introduction
    }

    /// Gives an order, and returns the answer: the order has taken effect.
    ///
    /// # Panics
    /// Where there is none.
    #[track_caller]
    pub fn tell(&mut self, order: &str) -> String {
        if let Err(why) = writeln!(self.orders, "{order}") {
            panic!("helio lab wan does not read {order}: {why}");
        }
        self.next(&format!("an answer to {order}"))
    }

    /// What it says next by itself.
    ///
    /// # Panics
    /// Where it says nothing.
    #[track_caller]
    pub fn hear(&mut self) -> String {
        self.next("what it says by itself")
    }

    #[track_caller]
    fn next(&self, what: &str) -> String {
        received(&self.answers, PATIENCE, &format!("{what} of helio lab wan"))
    }

    /// The address of an end.
    #[must_use]
    pub fn address(&self, side: Side) -> Ipv4Addr {
        self.ends[side as usize].1
    }

    /// The file that names the network namespace of an end.
    #[must_use]
    pub fn namespace(&self, side: Side) -> PathBuf {
        Path::new("/run/netns").join(&self.ends[side as usize].0)
    }

    /// A program at one end: with this, a daemon or a client runs there as it does elsewhere.
    #[must_use]
    pub fn command(&self, side: Side, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        let mut place = std::ffi::OsString::from("--net=");
        place.push(self.namespace(side));
        command.arg(place).arg("--").arg(program);
        command
    }

    /// Runs `work` at one end, on a thread of its own. A socket made there stays there, wherever it is used.
    ///
    /// # Panics
    /// Where there is no such place, or the work panics.
    #[track_caller]
    pub fn inside<T: Send>(&self, side: Side, work: impl FnOnce() -> T + Send) -> T {
        match File::open(self.namespace(side)) {
            Ok(namespace) => in_namespace(&namespace, work),
            Err(why) => panic!("cannot open {}: {why}", self.namespace(side).display()),
        }
    }

    /// Tells it to quit, and waits until it has.
    ///
    /// # Panics
    /// Where it does not.
    #[track_caller]
    pub fn quit(&mut self) -> ExitStatus {
        writeln!(self.orders, "quit").expect("it reads orders");
        self.wait_end()
    }

    /// Ends it with SIGTERM.
    ///
    /// # Panics
    /// Where it does not end.
    #[track_caller]
    pub fn terminate(&mut self) -> ExitStatus {
        self.end(Signal::TERM)
    }

    /// Kills it with SIGKILL, so that it clears nothing away.
    ///
    /// # Panics
    /// Where it does not end.
    #[track_caller]
    pub fn kill9(&mut self) -> ExitStatus {
        self.end(Signal::KILL)
    }

    #[track_caller]
    fn end(&mut self, signal: Signal) -> ExitStatus {
        self.group.signal(signal);
        self.wait_end()
    }

    #[track_caller]
    fn wait_end(&mut self) -> ExitStatus {
        self.group.wait_end(PATIENCE, "helio lab wan")
    }
}

impl Drop for Wan {
    fn drop(&mut self) {
        // Asked first, since a group that is killed leaves its namespaces to the next line to sweep.
        self.group.signal(Signal::TERM);
        let _ = self.group.wait(PATIENCE);
    }
}

/// Runs `work` in a network namespace, on a thread of its own.
///
/// # Panics
/// Where the namespace cannot be entered, or the work panics.
#[track_caller]
pub fn in_namespace<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> T {
    let done = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root may enter a network namespace");
            work()
        });
        thread.join()
    });
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// `left: network namespace NAME (new), DEVICE, ADDRESS`
fn end(introduction: &[String], side: &str) -> (String, Ipv4Addr) {
    let line = introduction.iter().find_map(|line| line.strip_prefix(side)).unwrap_or_default();
    let name = line.split(' ').nth(2).map(str::to_owned);
    let address = line.rsplit(", ").next().and_then(|address| address.parse().ok());
    match (name, address) {
        (Some(name), Some(address)) => (name, address),
        _ => panic!("this names no end: {introduction:?}"),
    }
}
