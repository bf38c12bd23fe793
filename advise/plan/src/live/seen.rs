// SPDX-License-Identifier: Apache-2.0
//! What a group showed while it was looked at.

use crate::Work;
use core::time::Duration;
use helio_units::{Bytes, Mode, Rate};

/// A group on its primary, looked at several times.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Its name.
    pub group: String,
    /// This node's name.
    pub node: String,
    /// The other node's.
    pub peer: String,
    /// From the first look to the last; more than nothing.
    pub span: Duration,
    /// The mode asked for.
    pub mode: Mode,
    /// What writes.
    pub work: Work,
    /// The queue.
    pub queue: QueueSeen,
    /// What clients wrote meanwhile.
    pub written: Rate,
    /// What the socket took meanwhile, frames and all.
    pub sent: Rate,
    /// The least the peer was behind at any look.
    pub lag: Bytes,
    /// The least age of what it lacked at any look.
    pub behind: Duration,
    /// How long answers took, or why that is not known.
    pub answers: Result<AnswersSeen, String>,
    /// The connection, or why nothing can be said of it.
    pub link: Result<LinkSeen, String>,
}

/// A queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSeen {
    /// Bytes in it at the last look.
    pub held: Bytes,
    /// At every look something waited for the socket, or it was half full.
    pub pressed: bool,
    /// Most bytes allowed; more than nothing.
    pub bound: Bytes,
    /// Most bytes held.
    pub high: Bytes,
    /// Most items allowed; more than none.
    pub bound_items: u64,
    /// Most items held.
    pub high_items: u64,
    /// The bound follows the link.
    pub automatic: bool,
    /// Writes that waited for room.
    pub waited: Counted,
    /// How long they waited meanwhile, added up.
    pub wait_time: Duration,
    /// Writes that failed for want of room.
    pub refused: Counted,
    /// How often it was dropped for want of room.
    pub dropped: Counted,
}

/// How often something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Between the first look and the last.
    pub meanwhile: u64,
    /// Before the first, since the queue was reset, or the node became primary.
    pub before: u64,
}

/// How long answers took since the queue was reset, or the node became primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswersSeen {
    /// Of writes, zeroes and discards.
    pub writes: Times,
    /// Of flushes.
    pub flushes: Times,
}

/// Times by their distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// How many there are.
    pub count: u64,
    /// What half of them do not exceed.
    pub median: Duration,
    /// What 99 of 100 do not exceed.
    pub p99: Duration,
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSeen {
    /// The least round trip, all the way.
    pub round_trip: Duration,
    /// TCP's own, which ends where a relay does.
    pub tcp_round_trip: Duration,
    /// How long there was something to send meanwhile.
    pub busy: Duration,
    /// How much of that the peer's receive buffer was the limit.
    pub limited_by_peer: Duration,
    /// How much of it this end's send buffer was.
    pub limited_here: Duration,
    /// This end's buffers.
    pub here: Buffers,
    /// The other end's, where they are known.
    pub there: Option<Buffers>,
}

/// The socket buffers of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// For sending.
    pub send: BufferSeen,
    /// For receiving.
    pub receive: BufferSeen,
}

/// A socket buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferSeen {
    /// What was asked for; none leaves it to the kernel.
    pub requested: Option<Bytes>,
    /// What there is.
    pub actual: Bytes,
}
