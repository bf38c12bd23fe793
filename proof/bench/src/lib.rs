// SPDX-License-Identifier: Apache-2.0
//! What the bench's client and its ceilings share. The programs are in `src/bin`, what they measure against what
//! in `proof/bench/README.md`.
//!
//! * [`gauge`]: latencies and CPU time of a run, without an allocation per operation.
//! * [`load`], [`closed`]: which blocks are written, in which order, and the closed loop of the load makers.
//! * [`slots`], [`disk`]: aligned buffers, and a ring that moves them between memory and one file.
//! * [`wire`], [`intake`]: a stream socket that is tried and not waited for, and messages out of it.
//! * [`drive`]: the loop around them: try everything, spin for a while, sleep in the ring.
//! * [`leg`], [`serve`]: the second leg's messages, and the server of both ceilings.
//!
//! Absent on purpose: error recovery, several connections, anything that keeps data safe. A ceiling does as little
//! as possible.

pub mod closed;
pub mod disk;
pub mod drive;
pub mod gauge;
pub mod intake;
pub mod leg;
pub mod load;
pub mod replay;
pub mod serve;
pub mod slots;
pub mod wire;
