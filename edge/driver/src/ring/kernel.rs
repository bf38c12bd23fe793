// SPDX-License-Identifier: Apache-2.0
//! The two rings shared with the kernel: entries in, results out. What an entry points at is kept in place by
//! [`super::slot`]; here is only the queue itself.
#![allow(unsafe_code)]

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue::Entry};
use rustix::io::Errno;
use std::io;
use std::time::Duration;

/// Entries that can be handed over in one call. More than fit are handed over in several.
const ENTRIES: u32 = 256;
/// Results the kernel can leave before it has to keep them aside itself, which it then does without loss.
const RESULTS: u32 = 4096;

/// So long an operation that does nothing may take.
const PROBED: Duration = Duration::from_secs(1);

/// A ring, disabled until its own thread begins to use it.
pub(super) struct Kernel {
    ring: IoUring,
    begun: bool,
}

impl Kernel {
    /// Sets the ring up as a reactor wants it: one thread submits, and the kernel's share of a completion runs on
    /// that thread when it asks, never by interrupting it.
    ///
    /// # Errors
    /// The kernel has no such ring (before 6.1), or does not let this process have or use one.
    pub(super) fn open() -> io::Result<Self> {
        // A ring belongs to the thread that begins it, which is another one: what this process may do is tried on a ring that is thrown away.
        Self::set_up()?.probe()?;
        Self::set_up()
    }

    /// Does all that a reactor asks of a ring, with an operation that does nothing.
    fn probe(mut self) -> io::Result<()> {
        self.begin()?;
        self.push(&opcode::Nop::new().build())?;
        self.submit_and_sleep(Some(PROBED))?;
        match self.next() {
            Some((_, 0)) => Ok(()),
            Some((_, result)) => Err(io::Error::from_raw_os_error(-result)),
            None => Err(Errno::TIMEDOUT.into()),
        }
    }

    fn set_up() -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_r_disabled()
            .setup_cqsize(RESULTS)
            .dontfork()
            .build(ENTRIES)?;
        let (nodrop, stable) =
            (ring.params().is_feature_nodrop(), ring.params().is_feature_submit_stable());
        if !(nodrop && stable && ring.params().is_feature_ext_arg()) {
            return Err(Errno::OPNOTSUPP.into());
        }
        Ok(Self { ring, begun: false })
    }

    /// The ring belongs to the thread that calls this first. Kernel workers stay on the CPUs that thread may use.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        if self.begun {
            return Ok(());
        }
        self.ring.submitter().register_enable_rings()?;
        self.begun = true;
        self.stay_near()
    }

    fn stay_near(&self) -> io::Result<()> {
        let mine = rustix::thread::sched_getaffinity(None)?;
        // SAFETY: a cpu_set_t is an array of integers, for which all zeroes is a value.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        for cpu in (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| mine.is_set(*cpu)) {
            // SAFETY: `cpu` is below the set's size.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        match self.ring.submitter().register_iowq_aff(&set) {
            // Before 5.14 there is no such call; a hint is all it is.
            Err(error) if error.raw_os_error() != Some(Errno::INVAL.raw_os_error()) => Err(error),
            _ => Ok(()),
        }
    }

    /// Puts an entry into the queue, handing the queue over first where it is full.
    ///
    /// Entries come from `Slot::entry`, or point at nothing.
    pub(super) fn push(&mut self, entry: &Entry) -> io::Result<()> {
        loop {
            // SAFETY: what an entry of a slot points at stays where it is until the slot's result is taken: the slot
            // owns it, on the heap, nobody else reaches it, and the driver's drop waits for all results.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.submit()?;
        }
    }

    /// Whether the kernel has something to hand over that a call would bring.
    pub(super) fn is_calling(&mut self) -> bool {
        let queue = self.ring.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    /// Hands the queue over and brings what has completed, without waiting; no call where there is neither.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() && !self.is_calling() {
            return Ok(());
        }
        self.begin()?;
        forgiven(self.ring.submitter().submit())
    }

    /// The same, and sleeps until a result is there or the time is over.
    pub(super) fn submit_and_sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.begin()?;
        let submitter = self.ring.submitter();
        match timeout {
            None => forgiven(submitter.submit_and_wait(1)),
            Some(span) => {
                let span = Timespec::from(span);
                let arguments = SubmitArgs::new().timespec(&span);
                forgiven(submitter.submit_with_args(1, &arguments))
            }
        }
    }

    /// Takes the next result: what its entry was marked with, and the kernel's answer.
    pub(super) fn next(&mut self) -> Option<(u64, i32)> {
        let entry = self.ring.completion().next()?;
        Some((entry.user_data(), entry.result()))
    }
}

/// A call that came back early is none that failed: the time was over, a signal came, or results must be taken first.
fn forgiven(called: io::Result<usize>) -> io::Result<()> {
    let Err(error) = called else { return Ok(()) };
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
        _ => Err(error),
    }
}
