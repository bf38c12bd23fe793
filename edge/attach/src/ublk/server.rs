// SPDX-License-Identifier: Apache-2.0
//! A device, as who serves it sees it: requests come out of a ring, payload is copied, answers go into the ring.
#![allow(unsafe_code)]

use super::wire::{Commit, DEPTH_MOST, Descriptor, Info, io as code, operation, payload_at};
use crate::{Fault, Shape, Work};
use helio_driver::Socket;
use helio_units::Extent;
use io_uring::{IoUring, opcode, types};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;

/// A request, and what it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Names it in the answer.
    pub unique: u64,
    /// What is to be done; a write's payload is fetched with [`Server::fetch`].
    pub work: Work,
}

/// One device's requests. Begins and goes on with the thread that calls [`Server::begin`]; nothing waits here: who wants
/// to know when there is a request asks the driver for the socket.
pub struct Server {
    ring: IoUring,
    socket: Socket,
    device: File,
    queues: Vec<Descriptors>,
    shape: Shape,
    depth: u16,
    /// Answers that wait for room in the ring's queue.
    waiting: VecDeque<(u32, Commit)>,
    over: bool,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Server {
    pub(super) fn open(info: &Info, shape: Shape) -> io::Result<Self> {
        let path = format!("/dev/ublkc{}", info.device);
        let device = File::options().read(true).write(true).open(path)?;
        let queues = (0..info.queues).map(|queue| Descriptors::map(&device, queue, info.depth));
        let queues = queues.collect::<io::Result<_>>()?;
        // The kernel hands requests out on our thread when it next calls or sleeps, never by interrupting it.
        let entries = u32::from(info.queues) * u32::from(info.depth);
        let ring = IoUring::builder().setup_coop_taskrun().dontfork().build(entries)?;
        // SAFETY: the ring outlives this borrow of its descriptor, which ends with the statement.
        let own = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) }.try_clone_to_owned()?;
        let (depth, waiting) = (info.depth, VecDeque::new());
        Ok(Self {
            ring,
            socket: Socket::new(own),
            device,
            queues,
            shape,
            depth,
            waiting,
            over: false,
        })
    }

    /// What to wait on.
    #[must_use]
    pub const fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Asks for the first request of every tag. The kernel serves the device through this thread from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn begin(&mut self) -> io::Result<()> {
        for queue in 0..self.queues.len() as u16 {
            for tag in 0..self.depth {
                self.waiting.push_back((code::FETCH, Commit { queue, tag, result: -1 }));
            }
        }
        self.hand_over()
    }

    /// The next request, if there is one. Those that make no sense are answered here.
    pub fn take(&mut self) -> Option<Order> {
        loop {
            let done = self.ring.completion().next()?;
            let (queue, tag) = ((done.user_data() >> 16) as u16, done.user_data() as u16);
            if done.result() != 0 {
                // The kernel takes the device away, or a fetch of ours made no sense to it.
                self.over = true;
                continue;
            }
            let unique = done.user_data();
            match self.queues[usize::from(queue)].read(tag).and_then(|told| self.work(told)) {
                Some(work) => return Some(Order { unique, work }),
                None => self.failed(unique, Fault::Invalid),
            }
        }
    }

    /// Whether there will never be one again.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.over
    }

    fn work(&self, told: Descriptor) -> Option<Work> {
        // It has no place, and the kernel writes any.
        if told.operation == operation::FLUSH {
            return Some(Work::Flush);
        }
        let extent = Extent::new(told.first.checked_mul(512)?, u64::from(told.sectors) * 512);
        let within = extent.offset.checked_add(extent.length)? <= self.shape.size.0;
        let blocks = u64::from(self.shape.block);
        let whole = extent.offset.is_multiple_of(blocks) && extent.length.is_multiple_of(blocks);
        let changes = told.operation != operation::READ;
        if !within || !whole || extent.length == 0 || (changes && self.shape.read_only) {
            return None;
        }
        let length = extent.length as usize;
        match told.operation {
            operation::READ => Some(Work::Read { extent, skip: 0, length }),
            operation::WRITE => Some(Work::Write { extent, durable: told.fua }),
            operation::DISCARD => Some(Work::Zero { extent, punch: true }),
            operation::ZERO => Some(Work::Zero { extent, punch: !told.keeps }),
            _ => None,
        }
    }

    /// Copies a write's payload.
    ///
    /// # Errors
    /// The kernel has it no more.
    pub fn fetch(&self, unique: u64, payload: &mut [u8]) -> io::Result<()> {
        self.device.read_exact_at(payload, place(unique))
    }

    /// Answers a request that was done; what a read found is copied to who asked.
    pub fn done(&mut self, unique: u64, work: &Work, found: &[u8]) {
        let result = match work {
            Work::Read { .. } => match self.device.write_all_at(found, place(unique)) {
                Ok(()) => found.len() as i32,
                Err(_) => -libc::EIO,
            },
            Work::Write { extent, .. } => extent.length as i32,
            Work::Flush | Work::Zero { .. } => 0,
        };
        self.answer(unique, result);
    }

    /// Answers a request that failed.
    pub fn failed(&mut self, unique: u64, fault: Fault) {
        self.answer(unique, -fault.errno());
    }

    fn answer(&mut self, unique: u64, result: i32) {
        let commit = Commit { queue: (unique >> 16) as u16, tag: unique as u16, result };
        self.waiting.push_back((code::COMMIT_AND_FETCH, commit));
    }

    /// Hands all answers to the kernel, in one call.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn hand_over(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() {
            let mut room = self.ring.submission();
            while let Some((code, commit)) = self.waiting.front().filter(|_| !room.is_full()) {
                let fd = types::Fd(self.device.as_raw_fd());
                let entry = opcode::UringCmd16::new(fd, *code).cmd(commit.bytes()).build();
                let name = u64::from(commit.queue) << 16 | u64::from(commit.tag);
                let entry = entry.user_data(name);
                // SAFETY: the entry points at nothing, and its descriptor is open as long as the ring.
                if unsafe { room.push(&entry) }.is_err() {
                    break;
                }
                self.waiting.pop_front();
            }
            drop(room);
            match self.ring.submit() {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Where a request's payload lies on the device's descriptor.
const fn place(unique: u64) -> u64 {
    payload_at((unique >> 16) as u16, unique as u16)
}

/// What the kernel writes of each request of one queue, mapped to be read.
struct Descriptors {
    begin: *mut c_void,
    length: usize,
    depth: u16,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is only read.
unsafe impl Send for Descriptors {}

impl Descriptors {
    fn map(device: &File, queue: u16, depth: u16) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let length = (usize::from(depth) * Descriptor::BYTES).next_multiple_of(page);
        let at = u64::from(queue) * (DEPTH_MOST * Descriptor::BYTES) as u64;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at a place the kernel chooses replaces nothing.
        let begin =
            unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, flags, device, at) }?;
        Ok(Self { begin, length, depth })
    }

    /// The request of a tag the kernel has just handed out; it does not change until it is answered.
    fn read(&self, tag: u16) -> Option<Descriptor> {
        if tag >= self.depth {
            return None;
        }
        let mut bytes = [0u8; Descriptor::BYTES];
        // SAFETY: the mapping holds `depth` descriptors, and `tag` is below that.
        unsafe {
            let from = self.begin.cast::<u8>().add(usize::from(tag) * Descriptor::BYTES);
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), Descriptor::BYTES);
        }
        Descriptor::read(&bytes)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that was made, and nobody has a reference into it.
        let _nothing_to_do = unsafe { munmap(self.begin, self.length) };
    }
}
