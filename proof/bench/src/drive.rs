// SPDX-License-Identifier: Apache-2.0
//! The loop of every program with a ring: try everything until nothing moves, look again for a while if told to,
//! then sleep in the ring until a completion or a socket wakes it.

use crate::disk::{Completion, Disk};
use crate::wire::Wire;
use rustix::thread::sched_yield;
use std::io;
use std::time::{Duration, Instant};

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Something moved.
    Moved,
    /// Nothing did.
    Idle,
    /// The program is done.
    Done,
}

/// A program: one file, at most one socket.
pub trait Program {
    /// Its ring.
    fn disk(&mut self) -> &mut Disk;

    /// Its ring and its socket.
    fn parts(&mut self) -> (&mut Disk, Option<&mut Wire>);

    /// The operation on a slot ended.
    ///
    /// # Errors
    /// End the program.
    fn completed(&mut self, slot: usize, outcome: io::Result<usize>) -> io::Result<()>;

    /// Does what can be done now without waiting. `Wire::readable` says whether a receive may find something.
    ///
    /// # Errors
    /// End the program.
    fn turn(&mut self) -> io::Result<Turn>;
}

const IN: usize = 0;
const OUT: usize = 1;

/// Runs a program to its end. It looks for work for `spin` after the last it found before it sleeps, and gives the
/// CPU to whoever else wants it between two looks.
///
/// # Errors
/// The program's.
pub fn run(program: &mut impl Program, spin: Duration) -> io::Result<()> {
    let mut armed = [false; 2];
    let mut last = Instant::now();
    loop {
        let mut moved = false;
        while let Some(completion) = program.disk().reap()? {
            moved = true;
            match completion {
                Completion::Slot(slot, outcome) => program.completed(slot, outcome)?,
                Completion::Ready(index) => {
                    armed[index] = false;
                    if let (_, Some(wire)) = program.parts() {
                        if index == IN { wire.readable = true } else { wire.blocked = false }
                    }
                }
            }
        }
        match program.turn()? {
            Turn::Done => return Ok(()),
            Turn::Moved => moved = true,
            Turn::Idle => {}
        }
        if !spin.is_zero() {
            program.disk().submit()?;
            if moved {
                last = Instant::now();
                continue;
            }
            if last.elapsed() < spin {
                look(program);
                continue;
            }
        } else if moved {
            continue;
        }
        arm(program, &mut armed);
        program.disk().sleep()?;
        if !spin.is_zero() {
            last = Instant::now();
        }
    }
}

/// Another look: the socket is tried whatever it said.
fn look(program: &mut impl Program) {
    let (disk, wire) = program.parts();
    if disk.is_stirring() {
        return;
    }
    sched_yield();
    if let Some(wire) = wire {
        wire.readable = true;
        wire.blocked = false;
    }
}

/// Asks to be woken by the socket.
fn arm(program: &mut impl Program, armed: &mut [bool; 2]) {
    let (disk, wire) = program.parts();
    let Some(wire) = wire else { return };
    if !armed[IN] {
        disk.arm(IN, wire.socket(), false);
        armed[IN] = true;
    }
    if wire.blocked && !armed[OUT] {
        disk.arm(OUT, wire.socket(), true);
        armed[OUT] = true;
    }
}
