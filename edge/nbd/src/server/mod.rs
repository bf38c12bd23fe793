// SPDX-License-Identifier: Apache-2.0
//! The server's end of one connection: bytes in, steps and bytes out.
//!
//! Rooms: `handshake` (framing of options), `options` and `meta` (what each is answered with),
//! `transmission` (framing of requests), `judge` (which requests are served), `answers` and `status`
//! (replies), `zeroes` (holes in data that was read), `limits`.

mod answers;
mod error;
mod exports;
mod handshake;
mod judge;
mod limits;
mod meta;
mod options;
mod partial;
mod request;
mod status;
mod transmission;
mod zeroes;

pub use answers::{ReadPart, ReadPiece};
pub use error::SessionError;
pub use exports::{ExportInfo, Exports, OpenRefusal};
pub use limits::{
    MAX_ANSWERED_PAYLOAD, MAX_LIST_REPLY, MAX_NAME, MAX_OPTION_DATA, MAX_OPTION_LENGTH,
    MAX_OPTIONS, MAX_PAYLOAD, MAX_QUERIES, MAX_STATUS_EXTENTS,
};
pub use request::{Command, Request, Step};
pub use zeroes::zero_runs;

use crate::codec::{Context, ErrorCode, Form, Greeting, StatusExtent, handshake_flag};
use handshake::{Handshake, Turn};
use helio_units::Bytes;
use transmission::Transmission;

/// What a session does about TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsPolicy {
    /// A client that asks for it is told there is none.
    #[default]
    Off,
    /// A client may have it.
    Offered,
    /// A client is let in with it only: before, it can do nothing but ask for it or leave.
    Required,
    /// It protects the connection already.
    Active,
}

/// How a session is to behave. The default is a session without TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// What it does about TLS.
    pub tls: TlsPolicy,
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
    form: Form,
}

impl Session {
    /// A connection just accepted.
    #[must_use]
    pub fn with(options: SessionOptions) -> Self {
        Self { phase: Phase::Haggling(Handshake::new(options.tls)), form: Form::Simple }
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
    /// caller never keeps a remainder), `StartTls` (which uses it up too) or `Disconnect` (behind which
    /// everything is ignored).
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
            Ok((used, Turn::Enter { export, terms })) => {
                self.form = terms.form;
                self.phase = Phase::Serving(Transmission::new(&export, terms));
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

    /// After [`Step::StartTls`]: TLS protects the connection, and what comes now came under it. All that
    /// was agreed on before is forgotten. At any other time this means nothing.
    pub fn secured(&mut self) {
        if let Phase::Haggling(handshake) = &mut self.phase {
            handshake.secured();
        }
    }

    /// The export in use has this size from now on: requests not handed out yet are judged by it. The
    /// protocol has no way to tell the client, which finds out elsewhere or on its next connection. Means
    /// nothing before [`Step::Ready`].
    pub fn resized(&mut self, size: Bytes) {
        if let Phase::Serving(transmission) = &mut self.phase {
            transmission.resized(size);
        }
    }

    /// The form replies take, known from [`Step::Ready`] on.
    #[must_use]
    pub const fn form(&self) -> Form {
        self.form
    }

    /// Answers a request other than a read or a block status: it is done.
    pub fn reply_done(&self, request: &Request, out: &mut Vec<u8>) {
        answers::done(self.form, request.into(), out);
    }

    /// Answers any request: it failed. The message reaches clients whose replies are not simple, cut to
    /// 4096 bytes.
    pub fn reply_error(
        &self,
        request: &Request,
        code: ErrorCode,
        message: &str,
        out: &mut Vec<u8>,
    ) {
        answers::error(self.form, request.into(), code, message, out);
    }

    /// Begins the answer to a read; the caller sends exactly the extent's bytes right behind it, with
    /// nothing between.
    pub fn reply_read(&self, request: &Request, out: &mut Vec<u8>) {
        answers::read(self.form, request, out);
    }

    /// Answers a read whose data is at hand, leaving out what is zero where the client can take that.
    /// `parts` lie one behind the other from the extent's begin; what they do not cover counts as data.
    /// `each` is given, in order, what to send with nothing between: bytes made here, and ranges of the
    /// data, which is neither touched nor copied. Simple replies ask for all of the data, so holes must be
    /// zeroes in it. A client that wants one chunk gets one.
    ///
    /// [`zero_runs`] finds parts: `zero_runs(offset, data, 65_536).map(ReadPart::from)`.
    pub fn reply_read_parts(
        &self,
        request: &Request,
        parts: impl IntoIterator<Item = ReadPart>,
        each: impl FnMut(ReadPiece<'_>),
    ) {
        answers::read_parts(self.form, request, parts, each);
    }

    /// Answers a block status: for each context, stretches one behind the other from the extent's begin.
    /// They may end before the extent does, as the client asks again, and the last may reach beyond it,
    /// but not beyond the export. At most [`MAX_STATUS_EXTENTS`] are sent, neighbours of the same flags
    /// joined; where one is asked for, the first, no longer than asked. A context of the request that
    /// nothing is said of is answered with [`Context::unknown`], one that was not asked is left out.
    pub fn reply_block_status(
        &self,
        request: &Request,
        told: &[(Context, &[StatusExtent])],
        out: &mut Vec<u8>,
    ) {
        status::answer(self.form, request, told, out);
    }

    /// Memory this connection holds for what came in part: at most [`MAX_OPTION_DATA`] and [`MAX_NAME`],
    /// whatever a client sends.
    #[must_use]
    pub fn held(&self) -> Bytes {
        let bytes = match &self.phase {
            Phase::Haggling(handshake) => handshake.held(),
            Phase::Serving(transmission) => transmission.held(),
            Phase::Left | Phase::Broken => 0,
        };
        Bytes(bytes as u64)
    }
}

#[cfg(test)]
mod tests;
