// SPDX-License-Identifier: Apache-2.0
//! The reactor under a shard: operations go in with a token and own their buffers, completions come out
//! and give the buffers back.
//!
//! A shard is one thread that runs every request to completion, so nothing here calls back and nothing
//! blocks but [`Driver::wait`]. The shape is that of a completion ring: [`RingDriver`] is one, and where the kernel
//! offers none [`PollDriver`] makes it from worker threads (files) and ppoll (sockets).
//!
//! Absent on purpose: what to do about an error, any format, any timer but the one of `wait`.

mod any;
mod ask;
mod body;
mod buffer;
mod busy;
mod computation;
mod error;
mod file;
mod gather;
mod handle;
mod inline;
mod limits;
mod linux;
mod liveness;
mod machine;
mod memory;
mod op;
mod poll;
mod pool;
mod process;
mod ring;
mod service;
mod signal;
mod sockets;
mod spin;
mod workers;

pub use any::{AnyDriver, DriverChoice};
pub use body::{FileBody, SocketBody};
pub use buffer::{ALIGNMENT, Buffer, Shared};
pub use computation::{Answer, Computation};
pub use error::{Cause, OpError, Operation};
pub use gather::Piece;
pub use handle::{Address, File, Socket};
pub use linux::{Linux, listen_for_owner};
pub use liveness::end_the_vanished;
pub use machine::{Blocking, Facts, Host, Machine, Room};
pub use op::{
    Accepted, Completion, Driver, DriverOptions, MAP_RUNS, Op, Outcome, Reserved, Run, Token,
};
pub use poll::PollDriver;
pub use pool::{Pool, PoolUsage};
pub use process::process_of;
pub use ring::RingDriver;
pub use rustix::fs::{FallocateFlags, FileType, Mode, OFlags, SeekFrom};
pub use rustix::io::Errno;
pub use service::Service;
pub use signal::{Wake, Waker};
