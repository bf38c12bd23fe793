// SPDX-License-Identifier: Apache-2.0
//! The bench's client: one thread, a closed loop, no allocation in it.

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand, ValueEnum};
use helio_bench::closed::{Closed, Shape, Step, payload};
use helio_bench::disk::{self, Completion, Disk};
use helio_bench::slots::Slots;
use helio_bench::wire::{Gather, Wire, answered};
use helio_nbd::codec::{Cookie, RequestHeader, SimpleReply, command};
use rustix::event::{PollFd, PollFlags, poll};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Writes as fast as it is answered, and prints what it measured as JSON.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    target: Target,
}

#[derive(Subcommand)]
enum Target {
    /// An NBD server on a Unix socket.
    Nbd {
        /// Its socket.
        socket: PathBuf,
        /// The export.
        #[arg(long, default_value = "")]
        export: String,
        #[command(flatten)]
        shape: Shape,
    },
    /// A file, past the page cache.
    Raw {
        /// The file.
        file: PathBuf,
        /// How it is written.
        #[arg(long, value_enum, default_value_t = How::Ring)]
        engine: How,
        /// Write this file of the same size, too: an operation ends when both files did it.
        #[arg(long, conflicts_with = "engine")]
        mirror: Option<PathBuf>,
        #[command(flatten)]
        shape: Shape,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum How {
    /// Through io_uring.
    Ring,
    /// One pwrite after the other, whatever the depth.
    Pwrite,
}

fn main() -> Result<()> {
    match Arguments::parse().target {
        Target::Nbd { socket, export, shape } => {
            let (wire, size) = Wire::open(&socket, &export)?;
            Client::new(wire, &shape, size.0).run(&shape)
        }
        Target::Raw { file, engine, mirror, shape } => {
            let file = disk::open(&file, true).context("the file")?;
            let size = file.metadata()?.len();
            match (engine, mirror) {
                (How::Pwrite, _) => pwrite(&file, &shape, size),
                (How::Ring, None) => raw(Disk::new(file, payload(&shape))?, &shape, size),
                (How::Ring, Some(mirror)) => {
                    let mirror = disk::open(&mirror, true).context("the file to write, too")?;
                    let disk = Disk::mirrored(vec![file, mirror], payload(&shape))?;
                    raw(disk, &shape, size)
                }
            }
        }
    }
}

/// One NBD connection.
struct Client {
    wire: Wire,
    slots: Slots,
    block: usize,
    gather: Gather,
    headers: Vec<[u8; RequestHeader::LENGTH]>,
    flushing: Vec<bool>,
    closed: Closed,
}

impl Client {
    fn new(wire: Wire, shape: &Shape, size: u64) -> Self {
        let depth = shape.depth();
        Self {
            wire,
            slots: payload(shape),
            block: shape.block,
            gather: Gather::new(depth),
            headers: vec![[0; RequestHeader::LENGTH]; depth],
            flushing: vec![false; depth],
            closed: Closed::begin(shape, size),
        }
    }

    fn run(mut self, shape: &Shape) -> Result<()> {
        let now = Instant::now();
        for slot in 0..shape.depth() {
            let offset = self.closed.start(slot, now);
            self.step(slot, Step::Write(offset));
        }
        let mut replies = [0; 64 * SimpleReply::LENGTH];
        let mut filled = 0;
        while !self.closed.is_over() {
            self.flush()?;
            filled += self.receive(&mut replies[filled..], shape.spin())?;
            let now = Instant::now();
            let (whole, rest) = replies[..filled].as_chunks::<{ SimpleReply::LENGTH }>();
            for reply in whole {
                self.answered(reply, now)?;
            }
            let (taken, left) = (filled - rest.len(), rest.len());
            replies.copy_within(taken..filled, 0);
            filled = left;
        }
        self.closed.report();
        Ok(())
    }

    fn step(&mut self, slot: usize, step: Step) {
        let (command, offset, length) = match step {
            Step::Write(offset) => (command::WRITE, offset, self.block as u32),
            Step::Flush => (command::FLUSH, 0, 0),
            Step::Rest => return,
        };
        if command == command::WRITE {
            self.closed.stamp(&mut self.slots, slot);
        }
        self.flushing[slot] = command == command::FLUSH;
        let header = RequestHeader {
            flags: 0,
            command,
            cookie: Cookie(slot as u64),
            offset,
            length: length.into(),
        };
        self.headers[slot] = header.encode();
        self.gather.put(slot);
    }

    fn flush(&mut self) -> Result<()> {
        let (headers, flushing) = (&self.headers, &self.flushing);
        let (slots, block) = (&self.slots, self.block);
        self.gather.flush(&mut self.wire, |slot| {
            let payload = if flushing[slot] { 0 } else { block };
            (headers[slot].as_slice(), &slots.get(slot)[..payload])
        })?;
        Ok(())
    }

    /// Bytes of replies; none where the socket only has room again.
    fn receive(&mut self, into: &mut [u8], spin: Duration) -> Result<usize> {
        let hung_up = "the server hung up";
        if !spin.is_zero() {
            let began = Instant::now();
            while began.elapsed() < spin {
                let got = self.wire.receive(into).context(hung_up)?;
                if got > 0 {
                    return Ok(got);
                }
                rustix::thread::sched_yield();
                if !self.gather.is_empty() {
                    self.wire.blocked = false;
                    self.flush()?;
                }
            }
        }
        if self.gather.is_empty() {
            return self.wire.wait(into).context(hung_up);
        }
        let either = PollFlags::IN | PollFlags::OUT;
        let mut ready = [PollFd::from_borrowed_fd(self.wire.socket(), either)];
        poll(&mut ready, None)?;
        let readable = !ready[0].revents().difference(PollFlags::OUT).is_empty();
        self.wire.blocked = false;
        if readable { self.wire.receive(into).context(hung_up) } else { Ok(0) }
    }

    fn answered(&mut self, reply: &[u8; SimpleReply::LENGTH], now: Instant) -> Result<()> {
        let slot = answered(reply)?;
        let step = self.closed.ended(slot, now);
        self.step(slot, step);
        Ok(())
    }
}

/// The same loop on the file itself.
fn raw(mut disk: Disk, shape: &Shape, size: u64) -> Result<()> {
    let mut closed = Closed::begin(shape, size);
    let mut flushing = vec![false; shape.depth()];
    let step = |disk: &mut Disk, closed: &mut Closed, slot: usize, step: Step| match step {
        Step::Write(offset) => {
            closed.stamp(&mut disk.slots, slot);
            disk.write(slot, shape.block, offset);
        }
        Step::Flush => disk.flush(slot),
        Step::Rest => {}
    };
    let now = Instant::now();
    for slot in 0..shape.depth() {
        let offset = closed.start(slot, now);
        step(&mut disk, &mut closed, slot, Step::Write(offset));
    }
    while !closed.is_over() {
        let mut ended = false;
        while let Some(Completion::Slot(slot, outcome)) = disk.reap()? {
            ended = true;
            let wanted = if flushing[slot] { 0 } else { shape.block };
            if outcome? != wanted {
                bail!("an operation ended short");
            }
            let next = closed.ended(slot, Instant::now());
            flushing[slot] = next == Step::Flush;
            step(&mut disk, &mut closed, slot, next);
        }
        if !ended {
            wait(&mut disk, shape.spin())?;
        }
    }
    closed.report();
    Ok(())
}

/// Looks for completions for a while, then sleeps until there is one.
fn wait(disk: &mut Disk, spin: Duration) -> Result<()> {
    if !spin.is_zero() {
        disk.submit()?;
        let began = Instant::now();
        while began.elapsed() < spin {
            if disk.is_stirring() {
                return Ok(());
            }
            rustix::thread::sched_yield();
        }
    }
    Ok(disk.sleep()?)
}

/// One write after the other.
fn pwrite(file: &std::fs::File, shape: &Shape, size: u64) -> Result<()> {
    let mut slots = payload(shape);
    let mut closed = Closed::begin(shape, size);
    let mut step = Step::Write(closed.start(0, Instant::now()));
    loop {
        match step {
            Step::Write(offset) => {
                closed.stamp(&mut slots, 0);
                file.write_all_at(slots.get(0), offset)?;
            }
            Step::Flush => file.sync_data()?,
            Step::Rest => break,
        }
        step = closed.ended(0, Instant::now());
    }
    closed.report();
    Ok(())
}
