// SPDX-License-Identifier: Apache-2.0
//! A ring that moves slots between memory and one file, or several that are written alike, and that a program sleeps in:
//! sockets wake it too.
//!
//! Completions are worked off by this thread when it asks (deferred task running): no interrupt lands in the middle
//! of other work, and a spinning thread sees from memory alone whether there is any.

use crate::slots::Slots;
use io_uring::{IoUring, opcode, squeue, types};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Entries of the ring; more operations than slots never fly.
const ENTRIES: u32 = 256;
const WAKE: u64 = u64::MAX;

/// What a completion tells.
#[derive(Debug)]
pub enum Completion {
    /// The operation on this slot ended; the error is the system's.
    Slot(usize, io::Result<usize>),
    /// A socket that was armed under this index is ready, or gone.
    Ready(usize),
}

/// The legs of an operation, one for each file that it goes to.
#[derive(Clone, Copy, Debug)]
struct Legs {
    under_way: usize,
    /// The least result of those that ended: an error of the system is below zero.
    least: i32,
}

/// The files, the slots moved to and from them, and the ring.
pub struct Disk {
    // Dropped first, so that it is closed before its buffers go.
    ring: IoUring,
    files: Vec<File>,
    legs: Vec<Legs>,
    /// The buffers. One under way is not to be written.
    pub slots: Slots,
    queued: usize,
}

/// Opens a store for reading and writing, past the page cache where `direct`.
///
/// # Errors
/// The system's.
pub fn open(path: &Path, direct: bool) -> io::Result<File> {
    let flags = if direct { rustix::fs::OFlags::DIRECT.bits().cast_signed() } else { 0 };
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

impl Disk {
    /// A ring over `file`.
    ///
    /// # Errors
    /// Where the kernel grants no ring, or an older one than 6.1 that lacks deferred task running.
    pub fn new(file: File, slots: Slots) -> io::Result<Self> {
        Self::mirrored(vec![file], slots)
    }

    /// A ring over files that are written and flushed alike. An operation ends when all of them did it; reads go to the
    /// first.
    ///
    /// # Errors
    /// As for [`Disk::new`].
    pub fn mirrored(files: Vec<File>, slots: Slots) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(ENTRIES)?;
        let legs = vec![Legs { under_way: 0, least: i32::MAX }; slots.count()];
        Ok(Self { ring, files, legs, slots, queued: 0 })
    }

    /// Queues a write of the first `length` bytes of a slot; it goes out at the next submission.
    pub fn write(&mut self, slot: usize, length: usize, offset: u64) {
        let at = self.slots.get(slot)[..length].as_ptr();
        self.begin(slot, self.files.len());
        for file in 0..self.files.len() {
            let entry = opcode::Write::new(self.fd(file), at, length as u32).offset(offset);
            self.push(entry.build().user_data(slot as u64));
        }
    }

    /// Queues a read into the first `length` bytes of a slot.
    pub fn read(&mut self, slot: usize, length: usize, offset: u64) {
        let at = self.slots.get_mut(slot)[..length].as_mut_ptr();
        self.begin(slot, 1);
        let entry = opcode::Read::new(self.fd(0), at, length as u32).offset(offset);
        self.push(entry.build().user_data(slot as u64));
    }

    /// Queues a flush of the files' data in the name of a slot.
    pub fn flush(&mut self, slot: usize) {
        self.begin(slot, self.files.len());
        for file in 0..self.files.len() {
            let entry = opcode::Fsync::new(self.fd(file)).flags(types::FsyncFlags::DATASYNC);
            self.push(entry.build().user_data(slot as u64));
        }
    }

    fn begin(&mut self, slot: usize, legs: usize) {
        self.legs[slot] = Legs { under_way: legs, least: i32::MAX };
    }

    /// One leg of an operation ended; how the operation did, if it was the last.
    fn leg_ended(&mut self, slot: usize, result: i32) -> Option<io::Result<usize>> {
        let legs = &mut self.legs[slot];
        legs.under_way -= 1;
        legs.least = legs.least.min(result);
        let least = legs.least;
        (legs.under_way == 0)
            .then(|| usize::try_from(least).map_err(|_| io::Error::from_raw_os_error(-least)))
    }

    /// Queues one wake-up, [`Completion::Ready`] with this index, for when the socket is readable or, where `out`,
    /// writable.
    pub fn arm(&mut self, index: usize, socket: BorrowedFd<'_>, out: bool) {
        let events = if out { rustix::event::PollFlags::OUT } else { rustix::event::PollFlags::IN };
        let entry = opcode::PollAdd::new(types::Fd(socket.as_raw_fd()), events.bits().into());
        self.push(entry.build().user_data(WAKE - index as u64));
    }

    fn fd(&self, file: usize) -> types::Fd {
        types::Fd(self.files[file].as_raw_fd())
    }

    #[allow(unsafe_code)]
    fn push(&mut self, entry: squeue::Entry) {
        self.queued += 1;
        // SAFETY: the entry points into `slots`, which live as long as the ring and never move, or into nothing.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("no more operations than slots and sockets, fewer than the ring's entries");
    }

    /// Submits what is queued, if anything.
    ///
    /// # Errors
    /// The system's.
    pub fn submit(&mut self) -> io::Result<()> {
        if self.queued > 0 {
            self.ring.submit()?;
            self.queued = 0;
        }
        Ok(())
    }

    /// Whether completions wait, or work that may lead to some.
    pub fn is_stirring(&mut self) -> bool {
        self.ring.submission().taskrun() || !self.ring.completion().is_empty()
    }

    /// Submits what is queued and sleeps until there is a completion.
    ///
    /// # Errors
    /// The system's.
    pub fn sleep(&mut self) -> io::Result<()> {
        self.queued = 0;
        match self.ring.submit_and_wait(1) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// The next completion, if there is one now.
    ///
    /// # Errors
    /// The system's.
    pub fn reap(&mut self) -> io::Result<Option<Completion>> {
        if self.ring.completion().is_empty() && self.ring.submission().taskrun() {
            self.queued = 0;
            // Also runs the work that was deferred to this thread.
            self.ring.submit()?;
        }
        loop {
            let Some(entry) = self.ring.completion().next() else {
                return Ok(None);
            };
            if entry.user_data() > WAKE - 16 {
                return Ok(Some(Completion::Ready((WAKE - entry.user_data()) as usize)));
            }
            let slot = entry.user_data() as usize;
            if let Some(outcome) = self.leg_ended(slot, entry.result()) {
                return Ok(Some(Completion::Slot(slot, outcome)));
            }
        }
    }
}
