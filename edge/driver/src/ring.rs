// SPDX-License-Identifier: Apache-2.0
//! The driver on io_uring: one call hands over everything submitted since the last and brings what has completed.
//!
//! Files opened for direct I/O and all sockets go through the ring, but for files whose file system might keep the caller waiting
//! (see [`crate::service`]): these go to worker threads. Files behind the page cache do not: ext4 passes
//! their writes to kernel workers, which costs more than a plain call (see [`crate::inline`]), and what must not be
//! done in place goes to the same worker threads the other driver has. So do discards and zeroing, which need more
//! than one kind of call.

mod kernel;
mod lanes;
mod slot;

use crate::file::Job;
use crate::gather::Cursor;
use crate::inline::Inline;
use crate::op::{Completion, Driver, DriverOptions, LAST_OPERATIONS_WITHIN, Op, Outcome, Token};
use crate::service::LONGEST_CALL;
use crate::signal::{Signal, Waker};
use crate::spin::Spin;
use crate::workers::{Task, Workers};
use crate::{File, Host, Linux, Socket};
use io_uring::squeue::Entry;
use io_uring::{opcode, types};
use kernel::Kernel;
use lanes::{Lanes, Way};
use slot::{Next, Slot, Work};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Flushes of one file that the ring has at once. The rest goes to the workers, which keep to their own share.
const FLUSHES_MAX: usize = 2;
/// For so long each operation on a file is handed in alone, behind a call that took long.
const SUSPICION: Duration = Duration::from_secs(10);
/// Marks of entries that are no operation of the shard's.
const BELL: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;

/// A [`Driver`] of io_uring.
///
/// Dropping it cancels what waits for sockets, and waits a few seconds for the rest. Buffers that the kernel has not let go of
/// by then are never used again.
pub struct RingDriver {
    host: Host,
    kernel: Kernel,
    slots: Vec<Slot>,
    free: Vec<usize>,
    lanes: Lanes,
    /// Slots with the kernel, and how many of them are operations on files.
    flying: usize,
    on_files: usize,
    signal: Arc<Signal>,
    /// Whether the kernel watches the bell.
    listening: bool,
    workers: Workers,
    inline: Inline,
    /// Completed without the kernel, to be handed out by the next wait.
    ready: Vec<Completion>,
    /// [`Op::Wait`] operations pending.
    waits: Vec<Token>,
    /// Waits with operations on files under way, and waits for sockets alone: a store and a peer have little in common.
    spins: [Spin; 2],
    /// Until then each operation on a file is handed in by a call of its own.
    suspicion: Option<Instant>,
    /// Set when the kernel refused an entry: the driver is of no more use.
    broken: Option<io::Error>,
}

impl RingDriver {
    /// Sets up the ring and starts the worker threads, which inherit the affinity of the calling thread. The ring
    /// belongs to the thread that first waits on it.
    ///
    /// # Errors
    /// The kernel has no io_uring or an old one, or forbids it to this process (as containers do); or the process may
    /// have no more descriptors or threads.
    pub fn new(options: DriverOptions) -> io::Result<Self> {
        let kernel = Kernel::open()?;
        let signal = Arc::new(Signal::new()?);
        Ok(Self {
            host: Linux::host(),
            kernel,
            slots: Vec::new(),
            free: Vec::new(),
            lanes: Lanes::default(),
            flying: 0,
            on_files: 0,
            workers: Workers::start(options.workers, &signal)?,
            signal,
            listening: false,
            inline: Inline::default(),
            ready: Vec::new(),
            waits: Vec::new(),
            spins: [Spin::new(options.spin), Spin::new(options.spin)],
            suspicion: None,
            broken: None,
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

    /// Finds an operation a slot.
    fn place(&mut self, token: Token, work: Work) -> usize {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::empty());
            self.slots.len() - 1
        });
        self.slots[at].token = token;
        self.slots[at].work = Some(work);
        self.slots[at].unwanted = false;
        at
    }

    fn submit_on_file(&mut self, token: Token, work: Work) {
        let at = self.place(token, work);
        self.launch(at);
    }

    fn submit_on_socket(&mut self, token: Token, socket: &Socket, way: Way, work: Work) {
        let number = socket.number();
        let at = self.place(token, work);
        if self.lanes.enter(number, way, at) {
            self.launch(at);
        }
    }

    /// Gives what a slot has left to do to the kernel.
    fn launch(&mut self, at: usize) {
        let lane = self.slots[at].lane();
        match self.slots[at].entry() {
            Ok(entry) => {
                if self.push(&entry.user_data(at as u64)) {
                    self.flying += 1;
                    if lane.is_none() {
                        self.on_files += 1;
                        if let Some(until) = self.suspicion {
                            self.hand_in_alone(at, until);
                        }
                    }
                } else {
                    let outcome = self.slots[at].cancelled();
                    self.settle(at, outcome, lane);
                }
            }
            Err(outcome) => self.settle(at, outcome, lane),
        }
    }

    /// Hands in alone what a slot just gave, and tells its file how long that took.
    #[cold]
    #[inline(never)]
    fn hand_in_alone(&mut self, at: usize, until: Instant) {
        let (began, file) = (Instant::now(), self.slots[at].file().cloned());
        if began > until {
            self.suspicion = None;
        }
        if let Err(error) = self.kernel.submit() {
            self.broken = Some(error);
        }
        file.inspect(|file| file.called(began.elapsed()));
    }

    /// Hands an entry to the kernel; where that cannot be done the next wait says why.
    fn push(&mut self, entry: &Entry) -> bool {
        // What the entry points at stays in its slot, on the heap, until its result is taken; `Drop` waits for that.
        match self.kernel.push(entry) {
            Ok(()) => true,
            Err(error) => {
                self.broken = Some(error);
                false
            }
        }
    }

    /// An operation ended: its slot is free, its outcome is handed out, the next on its socket begins.
    fn settle(&mut self, at: usize, outcome: Outcome, lane: Option<(i32, Way)>) {
        let token = self.slots[at].token;
        if let Some(file) = self.slots[at].flushed.take() {
            self.inline.busy().ended(file, Instant::now());
        }
        self.free.push(at);
        self.ready.push(Completion { token, outcome });
        if let Some((number, way)) = lane
            && let Some(next) = self.lanes.leave(number, way)
        {
            self.launch(next);
        }
    }

    /// The kernel answered for a slot.
    fn answered(&mut self, at: usize, result: i32) {
        let lane = self.slots[at].lane();
        self.flying -= 1;
        self.on_files -= usize::from(lane.is_none());
        match self.slots[at].advance(result) {
            Next::Again => self.launch(at),
            Next::Ended(outcome) => self.settle(at, outcome, lane),
        }
    }

    /// Moves everything complete to `out`; says whether there was anything, or a wake-up.
    fn harvest(&mut self, out: &mut Vec<Completion>) -> bool {
        let before = out.len();
        while let Some((mark, result)) = self.kernel.next() {
            match mark {
                BELL => {
                    self.signal.silence();
                    self.listening = false;
                }
                CANCEL => {}
                at => self.answered(at as usize, result),
            }
        }
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

    /// Looks for work until some is found or `end` has come.
    ///
    /// Who spins gives way at every look: on a CPU shared with the very process whose bytes are waited for, that
    /// process runs, and what would have been a sleep and a wake-up is one switch.
    fn spin(&mut self, kind: usize, end: Instant, out: &mut Vec<Completion>) -> io::Result<bool> {
        self.kernel.submit()?;
        let mut last = Instant::now();
        loop {
            if self.harvest(out) {
                return Ok(true);
            }
            let now = Instant::now();
            let go_on = self.spins[kind].looked(now, now - last) && now < end;
            last = now;
            if self.kernel.is_calling() {
                self.kernel.submit()?;
            } else if go_on {
                rustix::thread::sched_yield();
            } else {
                return Ok(false);
            }
        }
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if !self.listening {
            self.listening = true;
            let bell = types::Fd(self.signal.as_fd().as_raw_fd());
            self.push(&opcode::PollAdd::new(bell, libc::POLLIN as u32).build().user_data(BELL));
        }
        self.signal.lie_down();
        // Whatever ended before the bell was up did not ring it.
        let work = self.workers.any_done() || self.signal.is_woken();
        let result =
            if work { self.kernel.submit() } else { self.kernel.submit_and_sleep(timeout) };
        self.signal.get_up();
        result
    }

    /// Spins where that pays, then sleeps. Results that are no operation's end (the bell, half a write) are no
    /// reason to return.
    fn wait_for_something(
        &mut self,
        timeout: Option<Duration>,
        out: &mut Vec<Completion>,
    ) -> io::Result<()> {
        let began = Instant::now();
        let end = timeout.and_then(|span| began.checked_add(span));
        let kind = usize::from(self.on_files == 0);
        let spinning = self.spins[kind].until(began, timeout);
        let mut found = match spinning {
            Some(until) => self.spin(kind, until, out)?,
            None => false,
        };
        while !found {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            self.sleep(left)?;
            found = self.harvest(out);
            if !found && left.is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
        }
        let waited = began.elapsed();
        if kind == 0 && waited > LONGEST_CALL && self.suspicion.is_none() {
            // The kernel takes operations in and waits for their ends in one call: one of the two took long.
            self.suspicion = Some(began + waited + SUSPICION);
        }
        self.spins[kind].waited(waited);
        Ok(())
    }

    /// What the ring does not carry.
    #[inline(never)]
    fn submit_other(&mut self, token: Token, op: Op) {
        match Job::of(op) {
            Ok(job) => self.submit_job(token, job),
            // Any other one is on a socket.
            Err(_) => self.waits.push(token),
        }
    }

    fn cancel_slot(&mut self, at: usize) {
        self.slots[at].unwanted = true;
        self.push(&opcode::AsyncCancel::new(at as u64).build().user_data(CANCEL));
    }

    /// The kernel flushes on threads of its own, of which it has few for each ring: one file gets no more than a few of them.
    fn submit_flush(&mut self, token: Token, file: File) {
        let number = file.as_fd().as_raw_fd();
        if self.inline.busy().count(number) >= FLUSHES_MAX {
            return self.submit_job(token, Job::SyncData { file });
        }
        self.inline.busy().began(number, Instant::now());
        let at = self.place(token, Work::SyncData { file });
        self.slots[at].flushed = Some(number);
        self.launch(at);
    }
}

impl Driver for RingDriver {
    fn submit(&mut self, token: Token, op: Op) {
        match op {
            Op::Read { file, extent, buffer } if file.is_direct_here() => {
                self.submit_on_file(token, Work::Read { file, extent, buffer, done: 0 });
            }
            Op::Write { file, extent, pieces, sync } if file.is_direct_here() => {
                let cursor = Cursor::default();
                let work = Work::Write { file, extent, pieces, sync, cursor, done: 0 };
                self.submit_on_file(token, work);
            }
            Op::SyncData { file } if file.is_here() => self.submit_flush(token, file),
            Op::Accept { listener } => {
                let socket = listener.clone();
                self.submit_on_socket(token, &socket, Way::In, Work::Accept { listener });
            }
            Op::Connect { socket, address } => {
                let work = Work::Connect { socket: socket.clone(), address, name: None };
                self.submit_on_socket(token, &socket, Way::Out, work);
            }
            Op::Recv { socket, buffer, range } => {
                let work = Work::Recv { socket: socket.clone(), buffer, range };
                self.submit_on_socket(token, &socket, Way::In, work);
            }
            Op::Send { socket, pieces } => {
                let work = Work::Send { socket: socket.clone(), pieces, cursor: Cursor::default() };
                self.submit_on_socket(token, &socket, Way::Out, work);
            }
            Op::Ready { socket } => {
                let work = Work::Ready { socket: socket.clone() };
                self.submit_on_socket(token, &socket, Way::In, work);
            }
            op => self.submit_other(token, op),
        }
    }

    fn cancel(&mut self, socket: &Socket) {
        let (waiting, flying) = self.lanes.clear(socket.number());
        for at in waiting {
            let outcome = self.slots[at].cancelled();
            self.settle(at, outcome, None);
        }
        for at in flying {
            self.cancel_slot(at);
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        if self.harvest(out) || timeout == Some(Duration::ZERO) {
            self.kernel.submit()?;
            self.harvest(out);
        } else {
            self.wait_for_something(timeout, out)?;
        }
        self.broken.take().map_or(Ok(()), Err)
    }

    fn host(&self) -> &Host {
        &self.host
    }

    fn waker(&self) -> Waker {
        Waker::new(Arc::<Signal>::clone(&self.signal))
    }
}

impl Drop for RingDriver {
    fn drop(&mut self) {
        for at in 0..self.slots.len() {
            if self.slots[at].lane().is_some() {
                self.cancel_slot(at);
            }
        }
        let (mut left, until) = (Vec::new(), Instant::now() + LAST_OPERATIONS_WITHIN);
        while self.flying > 0 {
            let span = until.saturating_duration_since(Instant::now());
            if span.is_zero() || self.kernel.submit_and_sleep(Some(span)).is_err() {
                // The kernel may still use these: better lost than given to something else.
                std::mem::forget(std::mem::take(&mut self.slots));
                return;
            }
            // Nothing new begins on the way out: what waits in a lane is dropped where it is.
            self.lanes = Lanes::default();
            self.harvest(&mut left);
        }
    }
}
