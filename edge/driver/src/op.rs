// SPDX-License-Identifier: Apache-2.0
//! The shape every driver has: operations, completions, and the trait between.

use crate::{Address, Buffer, Computation, File, Host, OpError, Piece, Socket, Waker};
use helio_units::{Bytes, Extent};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

/// A driver that is dropped waits so long for the operations on files that have begun. Those that have not ended by then
/// keep their buffers and threads until the process ends.
pub(crate) const LAST_OPERATIONS_WITHIN: Duration = Duration::from_secs(5);

/// The submitter's name for an operation; comes back with its completion. The driver never looks inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// An operation. It owns what it works on until it completes.
///
/// Operations on files run in no order: a flush covers the writes that had *completed* when it was
/// submitted. On one socket, receives (and accepts) complete in the order submitted, and so do sends (and
/// connects).
#[derive(Debug)]
pub enum Op {
    /// Reads the whole extent into the front of the buffer.
    Read {
        /// From where.
        file: File,
        /// What to read; not longer than the buffer.
        extent: Extent,
        /// Where to; bytes behind the extent's length are left alone.
        buffer: Buffer,
    },
    /// Writes the pieces, one behind the other, over the whole extent.
    Write {
        /// To where.
        file: File,
        /// What to overwrite; exactly as long as the pieces together.
        extent: Extent,
        /// The bytes.
        pieces: Vec<Piece>,
        /// Whether it completes only when stable (FUA): this write alone, not those before it.
        sync: bool,
    },
    /// Makes every completed write stable, with what is needed to read it back.
    SyncData {
        /// Whose.
        file: File,
    },
    /// Makes everything of the file stable, its extended attributes included: as [`Op::SyncData`], and more.
    SyncAll {
        /// Whose.
        file: File,
    },
    /// Sets an extended attribute. A later [`Op::SyncAll`] makes it stable.
    SetAttribute {
        /// Of what.
        file: File,
        /// Its name.
        name: &'static str,
        /// Its bytes, in place of those before.
        value: Vec<u8>,
    },
    /// Gives the extent's space back where the store can, and in any case makes it read as zero. Never
    /// changes the file's size.
    Punch {
        /// In what.
        file: File,
        /// Where.
        extent: Extent,
    },
    /// Makes the extent read as zero and keeps its space. Never changes the file's size.
    Zero {
        /// In what.
        file: File,
        /// Where.
        extent: Extent,
    },
    /// Finds out which parts of the extent hold data.
    Map {
        /// Of what.
        file: File,
        /// Where.
        extent: Extent,
    },
    /// Makes the file at least so long, with room for all of it.
    Reserve {
        /// Which.
        file: File,
        /// How long.
        length: Bytes,
    },
    /// Changes the length of the file.
    SetLength {
        /// Of which.
        file: File,
        /// How long.
        length: Bytes,
    },
    /// Does work that would keep the calling thread too long. Its result is in the [`Answer`](crate::Answer) of the computation.
    Compute(Computation),
    /// Takes one connection.
    Accept {
        /// From this listener.
        listener: Socket,
    },
    /// Connects. TCP connections get `TCP_NODELAY`: every send is a whole batch already. Receive and send
    /// only after it completed.
    Connect {
        /// A socket made by [`Machine::stream_for`](crate::Machine::stream_for).
        socket: Socket,
        /// Where to.
        address: Address,
    },
    /// Receives what there is, once there is something.
    Recv {
        /// From where.
        socket: Socket,
        /// Where to.
        buffer: Buffer,
        /// The part of the buffer that may be written; not empty.
        range: Range<usize>,
    },
    /// Sends all pieces, one behind the other; completes when the kernel has taken every byte.
    Send {
        /// To where.
        socket: Socket,
        /// The bytes.
        pieces: Vec<Piece>,
    },
    /// Waits until there is something to read, and reads nothing: for descriptors that hand out whole messages and
    /// are read by their owner.
    Ready {
        /// On what; need not be a socket, if the kernel can poll it.
        socket: Socket,
    },
    /// Waits until a [`Waker`] of this driver is called (or was, since the last wake-up was reported).
    Wait,
}

/// Most runs one [`Op::Map`] tells of.
pub const MAP_RUNS: usize = 4096;

/// A stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Bytes it covers.
    pub length: u64,
    /// Whether it may hold data; what holds none reads as zero.
    pub data: bool,
}

/// How [`Op::Reserve`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// There is room. On a file system that cannot reserve, as much is free now.
    Done,
    /// There is not, and the file is as long as before.
    NoRoom {
        /// The longest that it could be.
        free: Bytes,
    },
}

/// A connection just accepted.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// The connection; TCP ones have `TCP_NODELAY`.
    pub socket: Socket,
    /// The other end's TCP address; `None` for Unix sockets, which have no name.
    pub peer: Option<SocketAddr>,
}

/// How an operation ended, with what it owned.
#[derive(Debug)]
pub enum Outcome {
    /// Of [`Op::Read`].
    Read {
        /// The buffer; after an error its bytes mean nothing.
        buffer: Buffer,
        /// All of it, or an error.
        result: Result<(), OpError>,
    },
    /// Of [`Op::Write`].
    Write {
        /// The pieces; the vector may be used again.
        pieces: Vec<Piece>,
        /// All of it, or an error after which any part of the extent may hold old or new bytes.
        result: Result<(), OpError>,
    },
    /// Of [`Op::SyncData`] and [`Op::SyncAll`]. After an error nothing is known about any write not yet flushed.
    SyncData(Result<(), OpError>),
    /// Of [`Op::SetAttribute`].
    SetAttribute(Result<(), OpError>),
    /// Of [`Op::Punch`].
    Punch(Result<(), OpError>),
    /// Of [`Op::Zero`].
    Zero(Result<(), OpError>),
    /// Of [`Op::Map`]: runs one behind the other from the extent's begin on, as many as [`MAP_RUNS`], so that they may
    /// end before it does. What cannot tell is data throughout.
    Map(Result<Vec<Run>, OpError>),
    /// Of [`Op::Reserve`].
    Reserve(Result<Reserved, OpError>),
    /// Of [`Op::SetLength`].
    SetLength(Result<(), OpError>),
    /// Of [`Op::Compute`]: it is done.
    Compute,
    /// Of [`Op::Accept`].
    Accept(Result<Accepted, OpError>),
    /// Of [`Op::Connect`].
    Connect(Result<(), OpError>),
    /// Of [`Op::Recv`].
    Recv {
        /// The buffer.
        buffer: Buffer,
        /// Bytes written from the start of the range on; 0 is the end of the stream.
        result: Result<usize, OpError>,
    },
    /// Of [`Op::Send`].
    Send {
        /// The pieces; the vector may be used again.
        pieces: Vec<Piece>,
        /// All of it, or an error after which the stream is of no more use: a part may have gone out.
        result: Result<(), OpError>,
    },
    /// Of [`Op::Ready`]: there is something to read, if only an error or the end.
    Ready(Result<(), OpError>),
    /// Of [`Op::Wait`].
    Wait,
}

impl Outcome {
    /// The error, where there was one.
    #[must_use]
    pub fn error(&self) -> Option<OpError> {
        match self {
            Self::Read { result, .. }
            | Self::Write { result, .. }
            | Self::Send { result, .. }
            | Self::SyncData(result)
            | Self::SetAttribute(result)
            | Self::Punch(result)
            | Self::Zero(result)
            | Self::SetLength(result)
            | Self::Connect(result)
            | Self::Ready(result) => result.err(),
            Self::Accept(result) => result.as_ref().err().copied(),
            Self::Map(result) => result.as_ref().err().copied(),
            Self::Reserve(result) => result.err(),
            Self::Recv { result, .. } => result.err(),
            Self::Compute | Self::Wait => None,
        }
    }
}

/// An operation that ended. Each one submitted ends exactly once.
#[derive(Debug)]
pub struct Completion {
    /// What it was submitted with.
    pub token: Token,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a driver is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverOptions {
    /// Threads for operations on files that would block: as many as the stores should have in flight where all of
    /// them run there. At least 1.
    pub workers: usize,
    /// The longest the driver looks for work before it sleeps, giving way to whoever else wants the CPU. Zero switches
    /// spinning off; it is only done while most waits are shorter than this.
    pub spin: Duration,
}

impl Default for DriverOptions {
    fn default() -> Self {
        Self { workers: 16, spin: Duration::ZERO }
    }
}

/// What a shard runs on. One thread owns it; the only part that crosses threads is the [`Waker`].
pub trait Driver {
    /// Hands in an operation. Never blocks and never fails: what cannot be done completes with its error.
    fn submit(&mut self, token: Token, op: Op);

    /// Ends every operation still pending on `socket` with `ECANCELED`; their completions follow as usual.
    /// Operations on files cannot be cancelled.
    fn cancel(&mut self, socket: &Socket);

    /// Appends to `out` what has completed. Sleeps only where nothing has, until something does, a waker is
    /// called or `timeout` is over (`None`: for ever). May return early with nothing.
    ///
    /// # Errors
    /// Only where the kernel refuses to wait at all; the driver is of no more use then.
    fn wait(&mut self, timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()>;

    /// The machine that it drives.
    fn host(&self) -> &Host;

    /// A handle with which any thread ends the current, or else the next, sleep in [`Driver::wait`].
    fn waker(&self) -> Waker;
}
