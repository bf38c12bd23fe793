// SPDX-License-Identifier: Apache-2.0
//! The server of both ceilings: what arrives on one socket is done to one file and answered, in the order in which
//! it ends.

use crate::disk::{self, Disk};
use crate::drive::{self, Program, Turn};
use crate::intake::{Header, Intake};
use crate::slots::Slots;
use crate::wire::{Outbox, Wire};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Operations under way at most.
const SLOTS: usize = 64;
/// Largest operation, in bytes.
const LARGEST: usize = 1 << 20;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Write the payload.
    Write {
        /// First byte.
        offset: u64,
    },
    /// Answer with bytes of the file.
    Read {
        /// First byte.
        offset: u64,
        /// How many.
        length: usize,
    },
    /// Make the file's data durable.
    Flush,
    /// Hang up.
    Leave,
}

/// A message that asks for an operation.
pub trait Ask: Header {
    /// What it asks for.
    ///
    /// # Errors
    /// Where this server does not do it.
    fn operation(&self) -> io::Result<Operation>;

    /// Answers: the bytes read, none after other operations.
    ///
    /// # Errors
    /// Where a failure cannot be told the other end.
    fn answer(&self, outcome: io::Result<&[u8]>, outbox: &mut Outbox) -> io::Result<()>;
}

/// How a file is served.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Through the page cache, with pwrite; otherwise past it, through a ring.
    pub buffered: bool,
    /// How long to look for work before sleeping.
    pub spin: Duration,
}

/// Serves one connection until the other end leaves.
///
/// # Errors
/// The system's, and messages that cannot be understood.
pub fn serve<A: Ask>(path: &Path, socket: OwnedFd, how: How) -> io::Result<()> {
    let file = disk::open(path, !how.buffered)?;
    let slots = Slots::new(SLOTS, LARGEST);
    let wire = Wire::new(socket);
    let served = if how.buffered {
        serve_buffered::<A>(&file, slots, wire, how.spin)
    } else {
        let mut server = Server::<A> {
            disk: Disk::new(file, slots)?,
            wire,
            intake: Intake::new(),
            outbox: Outbox::default(),
            asks: vec![None; SLOTS],
            free: (0..SLOTS).collect(),
        };
        drive::run(&mut server, how.spin)
    };
    match served {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        other => other,
    }
}

struct Server<A> {
    disk: Disk,
    wire: Wire,
    intake: Intake<A>,
    outbox: Outbox,
    asks: Vec<Option<(A, usize)>>,
    free: Vec<usize>,
}

impl<A: Ask> Server<A> {
    /// Begins what has arrived whole.
    fn begin(&mut self) -> io::Result<Turn> {
        let mut turn = Turn::Idle;
        while let Some((ask, slot)) = self.intake.next(&mut self.disk.slots, &mut self.free)? {
            turn = Turn::Moved;
            let mut length = ask.payload();
            match ask.operation()? {
                Operation::Write { offset } => self.disk.write(slot, length, offset),
                Operation::Read { offset, length: wanted } => {
                    length = wanted;
                    self.disk.read(slot, length, offset);
                }
                Operation::Flush => {
                    length = 0;
                    self.disk.flush(slot);
                }
                Operation::Leave => return Ok(Turn::Done),
            }
            self.asks[slot] = Some((ask, length));
        }
        Ok(turn)
    }
}

impl<A: Ask> Program for Server<A> {
    fn disk(&mut self) -> &mut Disk {
        &mut self.disk
    }

    fn parts(&mut self) -> (&mut Disk, Option<&mut Wire>) {
        (&mut self.disk, Some(&mut self.wire))
    }

    fn completed(&mut self, slot: usize, outcome: io::Result<usize>) -> io::Result<()> {
        let (ask, length) = self.asks[slot].take().expect("every operation was asked for");
        let outcome = outcome.and_then(|done| match done == length {
            true => Ok(()),
            false => Err(io::Error::other(format!("{done} of {length} bytes moved"))),
        });
        let read = matches!(ask.operation()?, Operation::Read { .. });
        let data = if read { &self.disk.slots.get(slot)[..length] } else { &[] };
        ask.answer(outcome.map(|()| data), &mut self.outbox)?;
        self.free.push(slot);
        Ok(())
    }

    fn turn(&mut self) -> io::Result<Turn> {
        self.outbox.flush(&mut self.wire)?;
        let mut turn = Turn::Idle;
        // What is left in the intake may have waited for a slot, so it is looked at first.
        loop {
            match self.begin()? {
                Turn::Idle => {}
                Turn::Moved => turn = Turn::Moved,
                Turn::Done => return Ok(Turn::Done),
            }
            let room = self.wire.readable && self.intake.has_room(&self.free);
            if !room || !self.intake.fill(&mut self.wire, &mut self.disk.slots, false)? {
                return Ok(turn);
            }
        }
    }
}

/// The loop without a ring: whatever has arrived is done at once, then answered in one send.
fn serve_buffered<A: Ask>(
    file: &File,
    mut slots: Slots,
    mut wire: Wire,
    spin: Duration,
) -> io::Result<()> {
    let mut intake = Intake::<A>::new();
    let mut outbox = Outbox::default();
    let mut free = vec![0];
    loop {
        while let Some((ask, slot)) = intake.next(&mut slots, &mut free)? {
            let data = slots.get_mut(slot);
            let mut read = 0;
            let outcome = match ask.operation()? {
                Operation::Write { offset } => file.write_all_at(&data[..ask.payload()], offset),
                Operation::Read { offset, length } => {
                    read = length;
                    file.read_exact_at(&mut data[..length], offset)
                }
                Operation::Flush => file.sync_data(),
                Operation::Leave => return Ok(()),
            };
            ask.answer(outcome.map(|()| &data[..read]), &mut outbox)?;
            free.push(slot);
        }
        while !outbox.is_empty() {
            // A full socket is waited for by trying: the client takes its answers as they come.
            wire.blocked = false;
            outbox.flush(&mut wire)?;
        }
        let last = Instant::now();
        let mut wait = spin.is_zero();
        while !intake.fill(&mut wire, &mut slots, wait)? {
            rustix::thread::sched_yield();
            wait = last.elapsed() >= spin;
        }
    }
}
