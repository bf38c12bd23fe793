// SPDX-License-Identifier: Apache-2.0
//! The driver that works on every kernel: worker threads for files, ppoll for sockets.

use crate::file::Job;
use crate::gather::Cursor;
use crate::inline::Inline;
use crate::op::{Completion, Driver, DriverOptions, Op, Outcome, Token};
use crate::signal::{Signal, Waker};
use crate::sockets::{Sockets, Want};
use crate::spin::Spin;
use crate::workers::{Task, Workers};
use crate::{Host, Linux, Socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A [`Driver`] of threads and ppoll.
///
/// Dropping it waits a few seconds for the operations on files that have begun; everything else pending is dropped.
pub struct PollDriver {
    host: Host,
    signal: Arc<Signal>,
    workers: Workers,
    inline: Inline,
    sockets: Sockets,
    /// Completed on the reactor's own thread, to be handed out by the next wait.
    ready: Vec<Completion>,
    /// [`Op::Wait`] operations pending.
    waits: Vec<Token>,
    spin: Spin,
    /// The poll set, empty between waits; kept for its memory.
    set: Vec<PollFd<'static>>,
}

impl PollDriver {
    /// Starts the worker threads. They inherit the affinity of the calling thread, so a shard that pins
    /// itself first keeps them near; hops within one CPU are the cheap ones.
    ///
    /// # Errors
    /// Where the process may have no more descriptors or threads.
    pub fn new(options: DriverOptions) -> io::Result<Self> {
        let signal = Arc::new(Signal::new()?);
        let workers = Workers::start(options.workers, &signal)?;
        Ok(Self {
            host: Linux::host(),
            signal,
            workers,
            inline: Inline::default(),
            sockets: Sockets::default(),
            ready: Vec::new(),
            waits: Vec::new(),
            spin: Spin::new(options.spin),
            set: Vec::new(),
        })
    }

    fn submit_job(&mut self, token: Token, job: Job) {
        match self.inline.perform(job) {
            Ok(outcome) => self.ready.push(Completion { token, outcome }),
            Err(job) => {
                self.inline.busy().began(job.file(), Instant::now());
                self.workers.submit(token, job);
            }
        }
    }

    /// Moves everything complete to `out`; says whether there was anything, or a wake-up.
    fn harvest(&mut self, out: &mut Vec<Completion>) -> bool {
        let before = out.len();
        out.append(&mut self.ready);
        let busy = self.inline.busy();
        self.workers.collect(out, |file| busy.ended(file, Instant::now()));
        let woken = self.signal.take_woken();
        if woken {
            let ended = self.waits.drain(..);
            out.extend(ended.map(|token| Completion { token, outcome: Outcome::Wait }));
        }
        woken || out.len() > before
    }

    /// Looks at the sockets, sleeping at most `timeout`, and lets go on what can.
    fn poll(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.and_then(|span| Timespec::try_from(span).ok());
        let mut set: Vec<PollFd<'_>> = recycled(std::mem::take(&mut self.set));
        let hot = self.sockets.take_hot();
        set.push(PollFd::from_borrowed_fd(self.signal.as_fd(), PollFlags::IN));
        self.sockets.watch(&mut set);
        let polled = poll(&mut set, timeout.as_ref());
        if !set[0].revents().is_empty() {
            self.signal.silence();
        }
        let hot = self.sockets.ready_keys(&set[1..], hot);
        self.set = recycled(set);
        self.sockets.drive(hot, &mut self.ready);
        match polled {
            // A signal is a reason to return early, and the caller may be its reason.
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// One look at the sockets without sleep, left out where there are none.
    fn glance(&mut self) -> io::Result<()> {
        if self.sockets.is_empty() { Ok(()) } else { self.poll(Some(Duration::ZERO)) }
    }

    /// Looks for work until some is found or `end` has come, and gives way at every look.
    fn spin(&mut self, end: Instant, out: &mut Vec<Completion>) -> io::Result<bool> {
        let mut last = Instant::now();
        while self.spin.looked(Instant::now(), last.elapsed()) && Instant::now() < end {
            last = Instant::now();
            self.glance()?;
            if self.harvest(out) {
                return Ok(true);
            }
            rustix::thread::sched_yield();
        }
        Ok(false)
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.signal.lie_down();
        // Whatever ended before the bell was up did not ring it.
        let work = self.workers.any_done() || self.signal.is_woken();
        let result = self.poll(if work { Some(Duration::ZERO) } else { timeout });
        self.signal.get_up();
        result
    }
}

impl Driver for PollDriver {
    fn submit(&mut self, token: Token, op: Op) {
        let (socket, want) = match op {
            Op::Accept { listener } => (listener, Want::Accept),
            Op::Connect { socket, address } => (socket, Want::Connect { address, begun: false }),
            Op::Recv { socket, buffer, range } => (socket, Want::Recv { buffer, range }),
            Op::Send { socket, pieces } => {
                (socket, Want::Send { pieces, cursor: Cursor::default() })
            }
            Op::Ready { socket } => (socket, Want::Ready),
            op => {
                return match Job::of(op) {
                    Ok(job) => self.submit_job(token, job),
                    // Any other one is on a socket.
                    Err(_) => self.waits.push(token),
                };
            }
        };
        self.sockets.submit(token, socket, want, &mut self.ready);
    }

    fn cancel(&mut self, socket: &Socket) {
        self.sockets.cancel(socket, &mut self.ready);
    }

    fn wait(&mut self, timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        if self.harvest(out) || timeout == Some(Duration::ZERO) {
            // Sockets get their turn however busy the stores are.
            self.glance()?;
            self.harvest(out);
            return Ok(());
        }
        let began = Instant::now();
        let found = match self.spin.until(began, timeout) {
            Some(until) => self.spin(until, out)?,
            None => false,
        };
        if !found {
            let left = timeout.map(|span| span.saturating_sub(began.elapsed()));
            self.sleep(left)?;
            self.harvest(out);
        }
        self.spin.waited(began.elapsed());
        Ok(())
    }

    fn host(&self) -> &Host {
        &self.host
    }

    fn waker(&self) -> Waker {
        Waker::new(Arc::<Signal>::clone(&self.signal))
    }
}

/// The same memory for a list of borrows of another lifetime; collecting an emptied vector of the same type
/// in place keeps its allocation.
fn recycled<'b>(mut set: Vec<PollFd<'_>>) -> Vec<PollFd<'b>> {
    set.clear();
    set.into_iter().map_while(|_| None).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recycled_set_keeps_its_memory() {
        let set: Vec<PollFd<'static>> = Vec::with_capacity(40);
        let address = set.as_ptr() as usize;
        let again: Vec<PollFd<'static>> = recycled(set);
        assert!(again.is_empty() && again.capacity() >= 40);
        assert_eq!(again.as_ptr() as usize, address);
    }
}
