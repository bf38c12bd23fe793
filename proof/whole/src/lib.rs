// SPDX-License-Identifier: Apache-2.0
//! The whole daemon in a simulated world.
//!
//! A [`World`] has virtual time and machines. A [`SimMachine`] has a disk that loses what was not flushed, sockets over links that delay, lose
//! and stop, a kernel that makes devices of volumes, clocks, and chance. A [`Process`] on it is one boot of a daemon; its [`SimDriver`] performs operations as the driver of a
//! product does, and its [`Process::host`] is the machine as the daemon asks it. Everything comes from one seed: the same seed and the same
//! calls give the same event log.
//!
//! Absent on purpose: threads, descriptors, clocks, maps in an order of their own; what a daemon is.

pub mod cage;
pub mod client;
mod coverage;
pub mod model;
mod pair;
mod panics;
mod single;

pub use coverage::{Coverage, Line};
pub use helio_world::{
    DeviceIo, Done, Failure, FileFault, Held, MachineOptions, Manner, Odds, OpenDevice, Process,
    Readiness, Received, Response, SimDriver, SimListener, SimMachine, SimStream, SocketOptions,
    Stream, World, stream,
};
pub use model::Violation;
pub use pair::{Telling, Verdict, run, shrink, stock_runtimes};
pub use panics::note_panics;
pub use single::{Door, Shape, Single, Trouble};

#[cfg(test)]
mod tests;
