// SPDX-License-Identifier: Apache-2.0
//! What operations cost the thread that gives them to a driver of the product: a fixed list, again and again, on this machine.
//!
//! The list has only operations whose cost does not depend on how fast the machine is, for a row that is not stable guards nothing:
//! * Sends and receives of sockets: a send between two ends on this machine has arrived when the call returns.
//! * Reads of a file that is in the page cache. Both drivers perform them at once.
//! * Reads and writes of a file past the cache, one at a time, which a ring passes to the kernel. If several are under way, each wait brings
//!   as many as the disk has ended by then.
//!
//! So there are no operations for worker threads (writes and flushes of files under a poll driver, flushes of cached files), because
//! the thread that waits sometimes finds them ended and sometimes sleeps. And there are no writes to the page cache: if one takes longer than
//! a millisecond, the drivers give the next ones to a worker thread.

use crate::figures::Figures;
use crate::{allocations, boundary};
use helio_driver::{
    AnyDriver, Buffer, Completion, DriverChoice, File, Op, Outcome, Piece, Shared, Socket, Token,
};
use helio_units::Extent;
use rustix::fs::OFlags;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Bytes of an operation.
const BLOCK: usize = 4096;
/// Blocks of the file.
const BLOCKS: u64 = 256;
/// Operations of each kind: so many that the system calls of the start, which callgrind counts too, do not matter.
const CACHED: u64 = 16_384;
const DIRECT: u64 = 4096;

/// What the list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// For each of so many connections a receive, a send and a read of a cached file, all under way at once.
    Cached(u64),
    /// A write and a read past the page cache, one after the other.
    Direct,
}

/// Why a row cannot be measured here.
pub(crate) struct Missing(pub(crate) String);

struct Desk {
    driver: AnyDriver,
    file: File,
    payload: Shared,
    /// Both ends of connections.
    pairs: Vec<[Socket; 2]>,
    buffers: Vec<Buffer>,
    completions: Vec<Completion>,
    block: u64,
}

/// Measures a list of operations of a driver.
///
/// # Errors
/// An operation fails.
///
/// Returns what is missing if this machine has no such driver, or no file past the cache.
pub(crate) fn measure(
    choice: DriverChoice,
    list: List,
) -> Result<Result<Figures, Missing>, String> {
    let mut desk = match Desk::new(choice, list) {
        Ok(desk) => desk,
        Err(why) => return Ok(Err(Missing(why.to_string()))),
    };
    let (rounds, operations) = match list {
        List::Cached(depth) => (CACHED / depth, CACHED * 3),
        List::Direct => (DIRECT, DIRECT * 2),
    };
    (0..rounds).try_for_each(|_| desk.perform(list))?;
    Ok(Ok(Figures { operations, allocations: allocations::counted(), calls: None }))
}

impl Desk {
    fn new(choice: DriverChoice, list: List) -> std::io::Result<Self> {
        let (driver, _) = AnyDriver::open(choice, Duration::ZERO)?;
        let named = tempfile::NamedTempFile::new()?;
        named.as_file().set_len(BLOCKS * BLOCK as u64)?;
        // Blocks that were written before are overwritten from then on.
        std::fs::write(named.path(), vec![1; BLOCKS as usize * BLOCK])?;
        let mut options = std::fs::File::options();
        options.read(true).write(true);
        let mut pairs = Vec::new();
        match list {
            List::Cached(depth) => {
                for _ in 0..depth {
                    let (one, other) = UnixStream::pair()?;
                    one.set_nonblocking(true)?;
                    other.set_nonblocking(true)?;
                    pairs.push([Socket::new(one), Socket::new(other)]);
                }
            }
            List::Direct => {
                named.as_file().sync_all()?;
                options.custom_flags(OFlags::DIRECT.bits() as i32);
            }
        }
        Ok(Self {
            driver,
            file: File::new(options.open(named.path())?)?,
            payload: Buffer::zeroed(BLOCK).into_shared(),
            pairs,
            buffers: Vec::new(),
            completions: Vec::new(),
            block: 0,
        })
    }

    /// Performs the list once.
    fn perform(&mut self, list: List) -> Result<(), String> {
        if list == List::Direct {
            let extent = self.extent();
            let (file, pieces) = (self.file.clone(), self.pieces());
            self.submit(Op::Write { file, extent, pieces, sync: false });
            self.finish(1)?;
            self.read();
            return self.finish(1);
        }
        for at in 0..self.pairs.len() {
            let buffer = self.buffer();
            let socket = self.pairs[at][0].clone();
            self.submit(Op::Recv { socket, buffer, range: 0..BLOCK });
        }
        for at in 0..self.pairs.len() {
            let (socket, pieces) = (self.pairs[at][1].clone(), self.pieces());
            self.submit(Op::Send { socket, pieces });
            self.read();
        }
        self.finish(self.pairs.len() * 3)
    }

    fn read(&mut self) {
        let (file, extent, buffer) = (self.file.clone(), self.extent(), self.buffer());
        self.submit(Op::Read { file, extent, buffer });
    }

    fn extent(&mut self) -> Extent {
        self.block = (self.block + 1) % BLOCKS;
        Extent::new(self.block * BLOCK as u64, BLOCK as u64)
    }

    fn pieces(&self) -> Vec<Piece> {
        vec![Piece::Shared(self.payload.clone(), 0..BLOCK)]
    }

    fn buffer(&mut self) -> Buffer {
        self.buffers.pop().unwrap_or_else(|| Buffer::zeroed(BLOCK))
    }

    fn submit(&mut self, op: Op) {
        boundary::submit(&mut self.driver, Token(0), op);
    }

    /// Waits for so many operations.
    fn finish(&mut self, mut count: usize) -> Result<(), String> {
        while count > 0 {
            let waited = boundary::wait(&mut self.driver, &mut self.completions);
            waited.map_err(|error| error.to_string())?;
            for completion in self.completions.drain(..) {
                count -= 1;
                if let Some(error) = completion.outcome.error() {
                    return Err(error.to_string());
                }
                match completion.outcome {
                    Outcome::Read { buffer, .. } | Outcome::Recv { buffer, .. } => {
                        self.buffers.push(buffer);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}
