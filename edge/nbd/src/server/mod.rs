// SPDX-License-Identifier: Apache-2.0
//! The server's end of one connection: bytes in, steps and bytes out.
//!
//! Rooms: `handshake` (framing of options), `options` (what each is answered with), `transmission`
//! (framing of requests), `judge` (which requests are served), `answers` (replies), `limits`.

mod answers;
mod error;
mod exports;
mod handshake;
mod judge;
mod limits;
mod options;
mod partial;
mod transmission;

pub use error::SessionError;
pub use exports::{ExportInfo, Exports, OpenRefusal};
pub use limits::{
    MAX_ANSWERED_PAYLOAD, MAX_LIST_REPLY, MAX_NAME, MAX_OPTION_DATA, MAX_OPTION_LENGTH,
    MAX_OPTIONS, MAX_PAYLOAD,
};

use crate::codec::{Cookie, ErrorCode, Greeting, handshake_flag};
use handshake::{Handshake, Turn};
use helio_units::{Bytes, Extent};
use std::ops::Range;
use transmission::Transmission;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Read the extent.
    Read,
    /// Write the payload that follows to the extent.
    Write,
    /// Make everything answered so far durable. Its extent is empty.
    Flush,
    /// Forget the extent.
    Trim,
    /// Make the extent read as zero.
    WriteZeroes,
}

/// A request worth serving: in bounds, aligned, allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Names it in the reply.
    pub cookie: Cookie,
    /// What to do.
    pub command: Command,
    /// Whether it must be durable before it is answered. Only ever set for changes.
    pub fua: bool,
    /// Whether zeroes must stay allocated. Only ever set for `WriteZeroes`.
    pub no_hole: bool,
    /// Where. A read or write is at most [`MAX_PAYLOAD`] long, a trim or zeroes up to 4 GiB.
    pub extent: Extent,
}

/// What [`Session::consume`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// All input is used up; come back with more.
    NeedMore,
    /// The handshake went on by one message; there may be output to send before going on.
    Negotiating,
    /// The client chose an export; requests follow.
    Ready {
        /// From [`ExportInfo::handle`].
        handle: u64,
        /// The export's own name, which may not be the one the client used.
        name: String,
    },
    /// A request. After a `Write`, `Payload` steps follow until `last`.
    Request(Request),
    /// The next bytes of the last `Write`.
    Payload {
        /// Where in the input of this very call.
        chunk: Range<usize>,
        /// Whether the write is complete.
        last: bool,
    },
    /// The client leaves: answer what is outstanding, send it, close.
    Disconnect,
}

enum Phase {
    Haggling(Handshake),
    Serving(Transmission),
    Left,
    Broken,
}

/// One connection, from greeting to end. `tests/story/memory.rs` is a whole server around it.
pub struct Session {
    phase: Phase,
    /// Outlives the transmission phase: requests outstanding at DISC are still answered.
    structured: bool,
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// A connection just accepted.
    #[must_use]
    pub fn new() -> Self {
        Self { phase: Phase::Haggling(Handshake::default()), structured: false }
    }

    /// Appends the greeting to `out`: the server speaks first.
    pub fn greeting(&self, out: &mut Vec<u8>) {
        let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
        out.extend_from_slice(&Greeting { flags }.encode());
    }

    /// Reads `input` up to the next step, and says how much of it was used. What the session answers by
    /// itself (options, requests not worth serving) is appended to `out`: per call at most one option's
    /// answer ([`MAX_LIST_REPLY`] and a little), or some four times the input's length.
    ///
    /// Call again with the rest until the step is `NeedMore` (which always uses the input up, so the
    /// caller never keeps a remainder) or `Disconnect` (behind which everything is ignored).
    ///
    /// # Errors
    /// Says why the connection must end; every later call then fails with [`SessionError::Ended`].
    pub fn consume(
        &mut self,
        input: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Step), SessionError> {
        let found = match &mut self.phase {
            Phase::Haggling(handshake) => handshake.consume(input, exports, out),
            Phase::Serving(transmission) => {
                transmission.consume(input, out).map(|(used, step)| (used, Turn::Say(step)))
            }
            Phase::Left => return Ok((input.len(), Step::Disconnect)),
            Phase::Broken => return Err(SessionError::Ended),
        };
        match found {
            Ok((used, Turn::Say(step))) => {
                if step == Step::Disconnect {
                    self.phase = Phase::Left;
                }
                Ok((used, step))
            }
            Ok((used, Turn::Enter { export, structured })) => {
                self.structured = structured;
                self.phase = Phase::Serving(Transmission::new(&export, structured));
                Ok((used, Step::Ready { handle: export.handle, name: export.name }))
            }
            Err(error) => {
                self.phase = Phase::Broken;
                Err(error)
            }
        }
    }

    /// Bytes still to come of the write handed out last. Large payloads need no copy at all: receive up
    /// to this many bytes straight into the write's buffer and call [`Session::consume`] on them there.
    #[must_use]
    pub fn payload_left(&self) -> Bytes {
        match &self.phase {
            Phase::Serving(transmission) => transmission.payload_left(),
            _ => Bytes::ZERO,
        }
    }

    /// Answers a request other than a read: it is done.
    pub fn reply_done(&self, cookie: Cookie, out: &mut Vec<u8>) {
        answers::done(cookie, out);
    }

    /// Answers any request: it failed. The message reaches clients that asked for structured replies, cut
    /// to 4096 bytes.
    pub fn reply_error(&self, cookie: Cookie, code: ErrorCode, message: &str, out: &mut Vec<u8>) {
        answers::error(cookie, code, message, self.structured, out);
    }

    /// Begins the answer to a read; the caller sends exactly `length` bytes right behind it, with nothing
    /// between. `offset` and `length` are the request's.
    pub fn reply_read(&self, cookie: Cookie, offset: u64, length: u32, out: &mut Vec<u8>) {
        answers::read(cookie, offset, length, self.structured, out);
    }

    /// Bytes of memory this connection holds for partial messages.
    #[cfg(test)]
    fn held(&self) -> usize {
        match &self.phase {
            Phase::Haggling(handshake) => handshake.held(),
            Phase::Serving(transmission) => transmission.held(),
            Phase::Left | Phase::Broken => 0,
        }
    }
}

#[cfg(test)]
mod tests;
