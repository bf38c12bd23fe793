// SPDX-License-Identifier: Apache-2.0
//! Signals: for commands that have something to clear away first, and for those that wait for a daemon.

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;
use tokio::process::Child;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT, SIGTERM and SIGHUP, which no longer end the process by themselves.
pub(crate) struct Signals {
    runtime: Runtime,
    caught: Caught,
}

struct Caught {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

/// How work ended that was waited for.
pub(crate) enum Waited<T> {
    /// By itself.
    Ended(T),
    /// A signal of that number arrived first.
    Signal(i32),
    /// Not in time.
    Late,
}

impl Signals {
    /// Catches them from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn catch() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let guard = runtime.enter();
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        let hangup = signal(SignalKind::hangup())?;
        drop(guard);
        Ok(Self { runtime, caught: Caught { interrupt, terminate, hangup } })
    }

    /// Waits for the first of them, and returns its number.
    pub(crate) fn wait(&mut self) -> i32 {
        self.runtime.block_on(self.caught.next())
    }

    /// Starts a process whose end can be waited for in [`Self::within`].
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn spawn(&self, command: std::process::Command) -> io::Result<Child> {
        let _guard = self.runtime.enter();
        tokio::process::Command::from(command).spawn()
    }

    /// Waits until some work ends, but not beyond the next signal, nor longer than that.
    pub(crate) fn within<T>(
        &mut self,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Waited<T> {
        let Self { runtime, caught } = self;
        runtime.block_on(async {
            tokio::select! {
                biased;
                number = caught.next() => Waited::Signal(number),
                ended = tokio::time::timeout(limit, work) => ended.map_or(Waited::Late, Waited::Ended),
            }
        })
    }
}

impl Caught {
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
            _ = self.hangup.recv() => 1,
        }
    }
}

/// From now on a signal ends the process with this one line on standard error.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn end_with_line(line: String) -> Result<()> {
    let mut signals = Signals::catch()?;
    let end = move || {
        let number = signals.wait();
        let mut out = std::io::stderr();
        // A terminal shows `^C`, or a progress row.
        let lead = if out.is_terminal() { "\n" } else { "" };
        let _ = writeln!(out, "{lead}helio: {line}");
        std::process::exit(128 + number)
    };
    std::thread::Builder::new().name("helio-signals".into()).spawn(end)?;
    Ok(())
}

/// From now on the process ends when the reader of standard output closes its end of the pipe.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn end_with_reader() -> Result<()> {
    let end = || {
        let out = std::io::stdout();
        // Without requested events, poll returns only for an error or a hangup.
        let mut fds = [PollFd::new(&out, PollFlags::empty())];
        while poll(&mut fds, None).is_err() {}
        if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            std::process::exit(crate::verbs::CLOSED_PIPE);
        }
    };
    std::thread::Builder::new().name("helio-reader".into()).spawn(end)?;
    Ok(())
}
