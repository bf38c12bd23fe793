// SPDX-License-Identifier: Apache-2.0
//! The ceiling of a synchronous mirror: each write goes past the page cache to a file here and over TCP to
//! `bare-receiver` in parallel, and has ended when both did. No NBD, no order, no memory of what was sent.

use anyhow::{Context, Result};
use clap::Parser;
use helio_bench::closed::{Closed, Shape, Step, payload};
use helio_bench::disk::{self, Disk};
use helio_bench::drive::{self, Program, Turn};
use helio_bench::intake::{Header, Intake};
use helio_bench::leg::Leg;
use helio_bench::slots::Slots;
use helio_bench::wire::{Gather, Wire};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Instant;

/// Writes here and there in parallel, and prints what it measured as JSON.
#[derive(Parser)]
struct Arguments {
    /// The file to write here.
    file: PathBuf,
    /// Where `bare-receiver` listens.
    receiver: SocketAddr,
    #[command(flatten)]
    shape: Shape,
}

fn main() -> Result<()> {
    let Arguments { file, receiver, shape } = Arguments::parse();
    let file = disk::open(&file, true).context("the file to write here")?;
    let size = file.metadata()?.len();
    let stream = TcpStream::connect(receiver).context("the receiver")?;
    stream.set_nodelay(true)?;
    let mut writer = Writer {
        disk: Disk::new(file, payload(&shape))?,
        wire: Wire::new(stream.into()),
        gather: Gather::new(shape.depth()),
        answers: Intake::new(),
        nothing: Slots::new(1, 4096),
        free: vec![0],
        headers: vec![[0; Leg::LENGTH]; shape.depth()],
        flushing: vec![false; shape.depth()],
        legs: vec![0; shape.depth()],
        block: shape.block,
        closed: Closed::begin(&shape, size),
    };
    let now = Instant::now();
    for slot in 0..shape.depth() {
        let offset = writer.closed.start(slot, now);
        writer.step(slot, Step::Write(offset));
    }
    drive::run(&mut writer, shape.spin())?;
    writer.closed.report();
    Ok(())
}

struct Writer {
    disk: Disk,
    wire: Wire,
    gather: Gather,
    answers: Intake<Answer>,
    /// The slot of answers, which have no payload.
    nothing: Slots,
    free: Vec<usize>,
    headers: Vec<[u8; Leg::LENGTH]>,
    flushing: Vec<bool>,
    legs: Vec<u8>,
    block: usize,
    closed: Closed,
}

/// An answer: the header sent there, without what followed it.
#[derive(Clone, Copy)]
struct Answer {
    slot: usize,
}

impl Header for Answer {
    const LENGTH: usize = Leg::LENGTH;

    fn parse(bytes: &[u8]) -> io::Result<Self> {
        Ok(Self { slot: Leg::parse(bytes)?.slot })
    }

    fn payload(&self) -> usize {
        0
    }
}

impl Writer {
    /// Begins both legs of a step.
    fn step(&mut self, slot: usize, step: Step) {
        let leg = match step {
            Step::Write(offset) => {
                self.closed.stamp(&mut self.disk.slots, slot);
                self.disk.write(slot, self.block, offset);
                Leg { slot, offset, length: self.block as u32 }
            }
            Step::Flush => {
                self.disk.flush(slot);
                Leg { slot, offset: 0, length: 0 }
            }
            Step::Rest => return,
        };
        self.flushing[slot] = step == Step::Flush;
        self.headers[slot] = leg.encode();
        self.legs[slot] = 2;
        self.gather.put(slot);
    }

    /// One leg of a step ended.
    fn leg_ended(&mut self, slot: usize, now: Instant) {
        self.legs[slot] -= 1;
        if self.legs[slot] == 0 {
            let step = self.closed.ended(slot, now);
            self.step(slot, step);
        }
    }
}

impl Program for Writer {
    fn disk(&mut self) -> &mut Disk {
        &mut self.disk
    }

    fn parts(&mut self) -> (&mut Disk, Option<&mut Wire>) {
        (&mut self.disk, Some(&mut self.wire))
    }

    fn completed(&mut self, slot: usize, outcome: io::Result<usize>) -> io::Result<()> {
        let wanted = if self.flushing[slot] { 0 } else { self.block };
        if outcome? != wanted {
            return Err(io::Error::other("a write ended short"));
        }
        self.leg_ended(slot, Instant::now());
        Ok(())
    }

    fn turn(&mut self) -> io::Result<Turn> {
        let mut turn = Turn::Idle;
        if self.wire.readable && self.answers.fill(&mut self.wire, &mut self.nothing, false)? {
            let now = Instant::now();
            while let Some((answer, nothing)) =
                self.answers.next(&mut self.nothing, &mut self.free)?
            {
                self.free.push(nothing);
                self.leg_ended(answer.slot, now);
            }
            turn = Turn::Moved;
        }
        let (disk, block) = (&self.disk, self.block);
        let (headers, flushing) = (&self.headers, &self.flushing);
        self.gather.flush(&mut self.wire, |slot| {
            let payload = if flushing[slot] { 0 } else { block };
            (headers[slot].as_slice(), &disk.slots.get(slot)[..payload])
        })?;
        Ok(if self.closed.is_over() { Turn::Done } else { turn })
    }
}
