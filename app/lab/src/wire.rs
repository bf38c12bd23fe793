// SPDX-License-Identifier: Apache-2.0
//! What the two ends of a measurement say to each other. Integers are little-endian; every frame ends with, and every
//! flush's head carries, a CRC-32C of what stands before it.
//!
//! The standby calls, and says first who it is. All sizes are bytes, all times nanoseconds unless said otherwise.
//!
//! **Hello**, standby to primary, 64 bytes:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `HELIOLAB` |
//! | 8 | 2 | version, 1 |
//! | 10 | 2 | kind, 1 |
//! | 12 | 4 | which stream this is, from 0 |
//! | 16 | 8 | the run it belongs to; 0 on a standby's first connection, which begins one |
//! | 24 | 8 | send buffer asked for, 0 for none |
//! | 32 | 8 | send buffer in force |
//! | 40 | 8 | receive buffer asked for, 0 for none |
//! | 48 | 8 | receive buffer in force |
//! | 56 | 4 | 0 |
//! | 60 | 4 | CRC-32C |
//!
//! **Plan**, the answer on every connection, 64 bytes:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `HELIOLAB` |
//! | 8 | 2 | version, 1 |
//! | 10 | 2 | kind, 2 |
//! | 12 | 1 | mode: 1 sync, 2 nearsync, 3 async, 4 superasync |
//! | 13 | 1 | 1 where flushes are compressed |
//! | 14 | 2 | streams of the run |
//! | 16 | 8 | the run, not 0 |
//! | 24 | 8 | bytes of a flush |
//! | 32 | 8 | when its first connection came, milliseconds since 1970 |
//! | 40 | 20 | 0 |
//! | 60 | 4 | CRC-32C |
//!
//! **Flush**, primary to standby: a head of 32 bytes and what follows it. Without compression a flush is as long as the
//! plan says, head included, so that what is sent is what was asked for. What follows the head is not checked: it means
//! nothing.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | `HLfl` |
//! | 4 | 4 | bytes of this frame, head included |
//! | 8 | 4 | bytes of the flush before compression, head included |
//! | 12 | 4 | 0 |
//! | 16 | 8 | number of the flush on its stream, from 1 |
//! | 24 | 4 | 0 |
//! | 28 | 4 | CRC-32C |
//!
//! **Acknowledgement**, standby to primary, 48 bytes, one for each flush:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | `HLak` |
//! | 4 | 4 | 0 |
//! | 8 | 8 | number of the flush |
//! | 16 | 8 | bytes of flushes so far |
//! | 24 | 8 | bytes received and not applied yet |
//! | 32 | 12 | 0 |
//! | 44 | 4 | CRC-32C |
//!
//! **End**, primary to standby, 48 bytes: nothing more comes.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | `HLen` |
//! | 4 | 4 | 1 where another run follows |
//! | 8 | 8 | flushes of this stream |
//! | 16 | 8 | socket buffers to ask for in the next run, 0 for none |
//! | 24 | 20 | 0 |
//! | 44 | 4 | CRC-32C |
//!
//! **Report**, standby to primary, the answer to it, 128 bytes:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | `HLre` |
//! | 4 | 4 | 1 where window scaling is in force |
//! | 8 | 8 | flushes |
//! | 16 | 8 | bytes of flushes |
//! | 24 | 8 | time from the first bytes that came behind the handshake to the last flush |
//! | 32 | 8 | bytes of flushes in the later half of it |
//! | 40 | 8 | the length of that half |
//! | 48 | 8 | send buffer in force |
//! | 56 | 8 | receive buffer in force |
//! | 64 | 8 | receive calls |
//! | 72 | 8 | time in which nothing was received since too much waited to be applied |
//! | 80 | 8 | most bytes that waited to be applied |
//! | 88 | 36 | 0 |
//! | 124 | 4 | CRC-32C |

use helio_link::checksum;
use std::time::Duration;

const MAGIC: [u8; 8] = *b"HELIOLAB";
const VERSION: u16 = 1;
const HELLO: u16 = 1;
const PLAN: u16 = 2;

/// Bytes of a hello, and of a plan.
pub(crate) const GREETING: usize = 64;
/// Bytes of a flush's head.
pub(crate) const HEAD: usize = 32;
/// Bytes of an acknowledgement, and of an end.
pub(crate) const ACK: usize = 48;
/// Bytes of a report.
pub(crate) const REPORT: usize = 128;
/// The largest flush; what an end asks another to hold is bounded by it.
pub const MOST_FLUSH: u64 = 64 << 20;
/// The smallest flush: its head, and something.
pub const LEAST_FLUSH: u64 = 64;
/// The most connections between a primary and one standby.
pub const MOST_STREAMS: u16 = 64;

/// When a flush is over, in HADR's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Written here, then sent, written there, acknowledged.
    Sync,
    /// Written here while it is sent; acknowledged when received.
    #[default]
    NearSync,
    /// Written here, and handed to TCP.
    Async,
    /// As fast as the link takes it: remote catch-up.
    SuperAsync,
}

impl Mode {
    const ALL: [Self; 4] = [Self::Sync, Self::NearSync, Self::Async, Self::SuperAsync];

    /// The word on the command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::NearSync => "nearsync",
            Self::Async => "async",
            Self::SuperAsync => "superasync",
        }
    }

    /// The mode of that name, however it is written.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.word().eq_ignore_ascii_case(word))
    }

    /// Whether the next flush waits for the acknowledgement.
    pub(crate) const fn waits(self) -> bool {
        matches!(self, Self::Sync | Self::NearSync)
    }

    fn number(self) -> u8 {
        1 + Self::ALL.iter().position(|mode| *mode == self).unwrap_or_default() as u8
    }
}

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Somebody else speaks here.
    #[error("it does not use this protocol, or only one end uses TLS")]
    Magic,
    /// A newer or older one of us.
    #[error("it uses version {0} of the lab's protocol, this end version {VERSION}")]
    Version(u16),
    /// Not what comes next.
    #[error("it sends an unexpected message: one end must be primary, the other standby")]
    Kind,
    /// The check digits do not match.
    #[error("a frame arrived damaged")]
    Damaged,
    /// A size or count beyond the bound.
    #[error("it asks for {0} beyond the limit: use smaller flushes or fewer streams")]
    Bound(&'static str),
    /// A part of another run.
    #[error("it belongs to another run")]
    OtherRun,
}

/// A standby's first words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) stream: u32,
    pub(crate) run: u64,
    pub(crate) send: Granted,
    pub(crate) receive: Granted,
}

/// A socket buffer as it was asked for and as it is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Granted {
    /// Asked for; 0 where nothing was.
    pub asked: u64,
    /// In force.
    pub actual: u64,
}

/// The primary's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) mode: Mode,
    pub(crate) compressed: bool,
    pub(crate) streams: u16,
    pub(crate) run: u64,
    pub(crate) flush: u64,
    pub(crate) began_ms: u64,
}

/// What stands before a flush's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) stored: u32,
    pub(crate) raw: u32,
    pub(crate) number: u64,
}

/// A flush arrived, or was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) waiting: u64,
}

/// Nothing more comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) flushes: u64,
    pub(crate) again: Option<Again>,
}

/// Another run follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Again {
    /// Socket buffers to ask for; 0 for none.
    pub(crate) buffer: u64,
}

/// What a standby says of one stream at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) scaling: bool,
    pub(crate) flushes: u64,
    pub(crate) bytes: u64,
    pub(crate) span: Duration,
    pub(crate) late_bytes: u64,
    pub(crate) late_span: Duration,
    pub(crate) send: u64,
    pub(crate) receive: u64,
    pub(crate) calls: u64,
    pub(crate) blocked: Duration,
    pub(crate) most_waiting: u64,
}

/// One frame behind the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Flush(Head),
    Ack(Ack),
    End(End),
    Report(Report),
}

pub(crate) fn seal<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    let crc = checksum(&bytes[..N - 4]);
    bytes[N - 4..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

pub(crate) fn check(bytes: &[u8]) -> Result<(), WireError> {
    let (body, crc) = bytes.split_at(bytes.len() - 4);
    if crc == checksum(body).to_le_bytes() { Ok(()) } else { Err(WireError::Damaged) }
}

pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

fn greeting(kind: u16) -> [u8; GREETING] {
    let mut bytes = [0; GREETING];
    put(&mut bytes, 0, MAGIC);
    put(&mut bytes, 8, VERSION.to_le_bytes());
    put(&mut bytes, 10, kind.to_le_bytes());
    bytes
}

fn greeted(bytes: &[u8; GREETING], kind: u16) -> Result<(), WireError> {
    if bytes[..8] != MAGIC {
        return Err(WireError::Magic);
    }
    // Before the check digits: where another version keeps them is not known.
    match u16_at(bytes, 8) {
        VERSION => check(bytes)?,
        other => return Err(WireError::Version(other)),
    }
    if u16_at(bytes, 10) == kind { Ok(()) } else { Err(WireError::Kind) }
}

impl Hello {
    pub(crate) fn encode(&self) -> [u8; GREETING] {
        let mut bytes = greeting(HELLO);
        put(&mut bytes, 12, self.stream.to_le_bytes());
        let words =
            [self.run, self.send.asked, self.send.actual, self.receive.asked, self.receive.actual];
        words.iter().enumerate().for_each(|(n, w)| put(&mut bytes, 16 + 8 * n, w.to_le_bytes()));
        seal(bytes)
    }

    pub(crate) fn decode(bytes: &[u8; GREETING]) -> Result<Self, WireError> {
        greeted(bytes, HELLO)?;
        let granted = |at| Granted { asked: u64_at(bytes, at), actual: u64_at(bytes, at + 8) };
        let stream = u32_at(bytes, 12);
        if stream >= u32::from(MOST_STREAMS) {
            return Err(WireError::Bound("streams"));
        }
        Ok(Self { stream, run: u64_at(bytes, 16), send: granted(24), receive: granted(40) })
    }
}

impl Plan {
    pub(crate) fn encode(&self) -> [u8; GREETING] {
        let mut bytes = greeting(PLAN);
        bytes[12] = self.mode.number();
        bytes[13] = u8::from(self.compressed);
        put(&mut bytes, 14, self.streams.to_le_bytes());
        put(&mut bytes, 16, self.run.to_le_bytes());
        put(&mut bytes, 24, self.flush.to_le_bytes());
        put(&mut bytes, 32, self.began_ms.to_le_bytes());
        seal(bytes)
    }

    pub(crate) fn decode(bytes: &[u8; GREETING]) -> Result<Self, WireError> {
        greeted(bytes, PLAN)?;
        let mode = Mode::ALL.into_iter().find(|mode| mode.number() == bytes[12]);
        let plan = Self {
            mode: mode.ok_or(WireError::Bound("a mode"))?,
            compressed: bytes[13] == 1,
            streams: u16_at(bytes, 14),
            run: u64_at(bytes, 16),
            flush: u64_at(bytes, 24),
            began_ms: u64_at(bytes, 32),
        };
        if !(LEAST_FLUSH..=MOST_FLUSH).contains(&plan.flush) {
            return Err(WireError::Bound("flushes"));
        }
        if !(1..=MOST_STREAMS).contains(&plan.streams) {
            return Err(WireError::Bound("streams"));
        }
        Ok(plan)
    }
}

impl Frame {
    /// The frame at the front of `bytes` and how many bytes its head or all of it takes; none while more must come.
    /// `flush` is what the plan says of a flush.
    pub(crate) fn read(bytes: &[u8], flush: u64) -> Result<Option<Self>, WireError> {
        let Some(kind) = bytes.first_chunk::<4>() else { return Ok(None) };
        let length = match kind {
            b"HLfl" => HEAD,
            b"HLak" | b"HLen" => ACK,
            b"HLre" => REPORT,
            _ => return Err(WireError::Kind),
        };
        let Some(bytes) = bytes.get(..length) else { return Ok(None) };
        check(bytes)?;
        let word = |n: usize| u64_at(bytes, 8 + 8 * n);
        let time = |n: usize| Duration::from_nanos(word(n));
        Ok(Some(match kind {
            b"HLfl" => {
                let (stored, raw) = (u32_at(bytes, 4), u32_at(bytes, 8));
                let fits = u64::from(raw) == flush && stored as usize > HEAD;
                if !fits || u64::from(stored) > longest(flush) {
                    return Err(WireError::Bound("a flush"));
                }
                Self::Flush(Head { stored, raw, number: word(1) })
            }
            b"HLak" => Self::Ack(Ack { number: word(0), bytes: word(1), waiting: word(2) }),
            b"HLen" => {
                let again = (u32_at(bytes, 4) == 1).then(|| Again { buffer: word(1) });
                Self::End(End { flushes: word(0), again })
            }
            _ => Self::Report(Report {
                scaling: u32_at(bytes, 4) == 1,
                flushes: word(0),
                bytes: word(1),
                span: time(2),
                late_bytes: word(3),
                late_span: time(4),
                send: word(5),
                receive: word(6),
                calls: word(7),
                blocked: time(8),
                most_waiting: word(9),
            }),
        }))
    }
}

/// The most bytes a flush may take on the wire: LZ4's worst case is 1/255 more, and a few.
pub(crate) const fn longest(flush: u64) -> u64 {
    flush + flush / 128 + 64
}

impl Head {
    pub(crate) fn encode(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        put(&mut bytes, 0, *b"HLfl");
        put(&mut bytes, 4, self.stored.to_le_bytes());
        put(&mut bytes, 8, self.raw.to_le_bytes());
        put(&mut bytes, 16, self.number.to_le_bytes());
        seal(bytes)
    }
}

impl Ack {
    pub(crate) fn encode(&self) -> [u8; ACK] {
        let mut bytes = [0; ACK];
        put(&mut bytes, 0, *b"HLak");
        put(&mut bytes, 8, self.number.to_le_bytes());
        put(&mut bytes, 16, self.bytes.to_le_bytes());
        put(&mut bytes, 24, self.waiting.to_le_bytes());
        seal(bytes)
    }
}

impl End {
    pub(crate) fn encode(&self) -> [u8; ACK] {
        let mut bytes = [0; ACK];
        put(&mut bytes, 0, *b"HLen");
        put(&mut bytes, 4, u32::from(self.again.is_some()).to_le_bytes());
        put(&mut bytes, 8, self.flushes.to_le_bytes());
        put(&mut bytes, 16, self.again.unwrap_or_default().buffer.to_le_bytes());
        seal(bytes)
    }
}

impl Report {
    pub(crate) fn encode(&self) -> [u8; REPORT] {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let mut bytes = [0; REPORT];
        put(&mut bytes, 0, *b"HLre");
        put(&mut bytes, 4, u32::from(self.scaling).to_le_bytes());
        let words = [
            self.flushes,
            self.bytes,
            nanos(self.span),
            self.late_bytes,
            nanos(self.late_span),
            self.send,
            self.receive,
            self.calls,
            nanos(self.blocked),
            self.most_waiting,
        ];
        words.iter().enumerate().for_each(|(n, w)| put(&mut bytes, 8 + 8 * n, w.to_le_bytes()));
        seal(bytes)
    }
}

#[cfg(test)]
mod tests;
