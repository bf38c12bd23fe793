// SPDX-License-Identifier: Apache-2.0
//! A simulated world that real daemons run in.
//!
//! A [`World`] has virtual time and machines. A [`SimMachine`] has a disk that loses what was not flushed, sockets over links that delay, lose
//! and stop, a kernel that makes devices of volumes, clocks, and chance. A [`Process`] on it is one boot of a daemon; its [`SimDriver`] performs operations as the driver of a
//! product does, and its [`Process::platform`] is the machine as the daemon asks it. A [`SimDaemon`] is the daemon of the product in such a
//! process. Everything comes from one seed: the same seed and the same calls give the same event log.
//!
//! `proof/whole` judges daemons in it; `app/play` lets people use them.
//!
//! Absent on purpose: threads, descriptors, clocks, maps in an order of their own; what is promised of a daemon.

mod body;
mod daemon;
mod disk;
mod driver;
mod faults;
mod kernel;
mod machine;
mod net;
mod story;
pub mod stream;
mod world;

pub use daemon::{PausedRuntime, Response, SimDaemon};
pub use driver::SimDriver;
pub use faults::{FileFault, Odds};
pub use kernel::{DeviceIo, Done, Failure, Manner, OpenDevice, Readiness, Upset};
pub use machine::{Held, MachineOptions, Process, SimMachine};
pub use net::{SimListener, SimStream, SocketOptions};
pub use stream::{Received, Stream};
pub use world::World;
