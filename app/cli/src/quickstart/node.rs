// SPDX-License-Identifier: Apache-2.0
//! One node of the pair, reached by the very verbs the reader will use: each is a process of our own program.

use super::plan::{CONFIG, GROUP, Volume};
use super::screen::Screen;
use super::stage::{Stage, Told};
use anyhow::{Context, Result, anyhow, bail};
use helio_api::{GroupStatus, Status};
use helio_nbd::Client;
use rustix::process::Pid;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Between two looks at a status; a look costs a process.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// How long anything may take that should take a moment. Nothing is measured by it.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// One node.
pub(super) struct Node<'a> {
    name: &'static str,
    program: PathBuf,
    stage: &'a Stage,
    screen: &'a Screen,
    daemon: Option<Pid>,
}

impl<'a> Node<'a> {
    /// A node without a daemon as yet.
    pub(super) fn new(name: &'static str, stage: &'a Stage, screen: &'a Screen) -> Result<Self> {
        let program =
            std::env::current_exe().context("the program file of helio cannot be found")?;
        Ok(Self { name, program, stage, screen, daemon: None })
    }

    /// Its name, which is also its state folder's.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// The file its daemon logs to, in the stage's folder.
    pub(super) fn log(&self) -> String {
        format!("{}.log", self.name)
    }

    /// Starts its daemon, showing the command, and waits until it answers.
    pub(super) fn start(&mut self) -> Result<()> {
        let words = ["daemon", "--node", self.name, "--config", CONFIG, "--state", self.name];
        self.screen.command(&[&["helio"], &words[..], &["&"]].concat())?;
        let pid = self.stage.start(Command::new(&self.program).args(words), &self.log())?;
        self.daemon = Some(pid);
        self.wait("its daemon to respond", |_| true).map(drop)
    }

    /// Kills its daemon with SIGKILL, and tells how it ended.
    pub(super) fn kill(&mut self) -> Result<ExitStatus> {
        let pid = self.daemon.take().ok_or_else(|| anyhow!("{} has no daemon", self.name))?;
        self.stage.kill(pid)
    }

    /// The number of its daemon's process.
    pub(super) fn process(&self) -> Option<i32> {
        self.daemon.map(Pid::as_raw_pid)
    }

    /// Runs a verb, showing the command and what it said.
    pub(super) fn show(&self, words: &[&str]) -> Result<Told> {
        self.screen.command(&[&["helio"], words, &["--state", self.name]].concat())?;
        let told = self.verb(words)?;
        self.screen.output(&told.text)?;
        Ok(told)
    }

    /// Runs a verb that must succeed, showing the command and what it said.
    pub(super) fn order(&self, words: &[&str]) -> Result<()> {
        let told = self.show(words)?;
        if !told.status.success() {
            bail!("`helio {}` on {} ended with {}", words.join(" "), self.name, told.status);
        }
        Ok(())
    }

    /// What it knows of the group now.
    pub(super) fn status(&self) -> Result<GroupStatus> {
        let told = self.verb(&["status", GROUP, "--json"])?;
        if !told.status.success() {
            bail!("`helio status` on {} ended with {}:\n{}", self.name, told.status, told.text);
        }
        let status: Status = serde_json::from_str(&told.text).with_context(|| {
            format!("`helio status --json` on {} printed {}", self.name, told.text)
        })?;
        let group = status.groups.into_iter().find(|group| group.name == GROUP);
        group.ok_or_else(|| anyhow!("{} has no group {GROUP}", self.name))
    }

    /// Looks until the group is as wanted.
    pub(super) fn wait(
        &self,
        what: &str,
        wanted: impl Fn(&GroupStatus) -> bool,
    ) -> Result<GroupStatus> {
        self.watch(PATIENCE, what, |status| Ok(wanted(status)))
    }

    /// Looks until `see` has seen enough. Errors before the daemon's first answer are part of its start.
    pub(super) fn watch(
        &self,
        limit: Duration,
        what: &str,
        mut see: impl FnMut(&GroupStatus) -> Result<bool>,
    ) -> Result<GroupStatus> {
        let deadline = Instant::now() + limit;
        loop {
            self.alive()?;
            let late = Instant::now() >= deadline;
            match self.status() {
                Ok(status) if see(&status)? => return Ok(status),
                Ok(status) if late => bail!(
                    "waited {} s without success for {what} on {}; it is {} because {}",
                    limit.as_secs(),
                    self.name,
                    status.state,
                    status.state_reason
                ),
                Err(why) if late => {
                    return Err(why)
                        .context(format!("waited without success for {what} on {}", self.name));
                }
                _ => std::thread::park_timeout(BETWEEN_LOOKS),
            }
        }
    }

    /// Opens a volume as any NBD client would. A daemon that stops answering ends the story instead of
    /// holding it up for ever.
    pub(super) fn open(&self, volume: Volume) -> Result<Client> {
        let socket = self.stage.folder().join(self.name).join("nbd.sock");
        let stream = UnixStream::connect(&socket)
            .with_context(|| format!("cannot connect to {}", socket.display()))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let client = Client::over_unix(stream, &volume.export());
        client.with_context(|| format!("cannot open {} on {}", volume.export(), self.name))
    }

    fn verb(&self, words: &[&str]) -> Result<Told> {
        let mut command = Command::new(&self.program);
        command.args(words).args(["--state", self.name]);
        self.stage.run(command)
    }

    /// A daemon that ended by itself is told at once.
    fn alive(&self) -> Result<()> {
        if let Some(pid) = self.daemon
            && let Some(status) = self.stage.ended(pid)?
        {
            bail!("the daemon of {} ended by itself: {status}", self.name);
        }
        Ok(())
    }
}
