// SPDX-License-Identifier: Apache-2.0
//! The transmission phase: a stream of requests, taken apart.

use crate::codec::{Cookie, RequestHeader, command};
use crate::server::judge::{Bounds, Refusal};
use crate::server::limits::MAX_ANSWERED_PAYLOAD;
use crate::server::partial::Partial;
use crate::server::{Command, ExportInfo, SessionError, Step, answers};
use helio_units::Bytes;

#[derive(Clone, Copy)]
enum State {
    /// A request begins.
    Header,
    /// This much of a write's payload is still to be handed out.
    Payload { left: u32 },
    /// This much of a refused write's payload is still to be skipped. It is answered only then: a client
    /// may not expect an answer to what it has not finished sending.
    Skip { left: u32, cookie: Cookie, refusal: Refusal },
}

pub(super) struct Transmission {
    bounds: Bounds,
    structured: bool,
    partial: Partial,
    state: State,
}

impl Transmission {
    pub(super) fn new(export: &ExportInfo, structured: bool) -> Self {
        Self {
            bounds: Bounds::new(export, structured),
            structured,
            partial: Partial::default(),
            state: State::Header,
        }
    }

    pub(super) const fn payload_left(&self) -> Bytes {
        match self.state {
            State::Payload { left } => Bytes(left as u64),
            _ => Bytes::ZERO,
        }
    }

    /// Goes on to the next step; refused requests are answered on the way.
    pub(super) fn consume(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Step), SessionError> {
        let mut at = 0;
        loop {
            match self.state {
                State::Header => {
                    let (used, header) = self.partial.header(&input[at..]);
                    at += used;
                    let Some(header) = header else { return Ok((at, Step::NeedMore)) };
                    let header = RequestHeader::decode(&header)
                        .map_err(|found| SessionError::RequestMagic { found })?;
                    if let Some(step) = self.begin(header, out)? {
                        return Ok((at, step));
                    }
                }
                State::Payload { left } => {
                    let (end, rest) = advance(at, input.len(), left);
                    if end == at {
                        return Ok((at, Step::NeedMore));
                    }
                    self.state =
                        if rest == 0 { State::Header } else { State::Payload { left: rest } };
                    return Ok((end, Step::Payload { chunk: at..end, last: rest == 0 }));
                }
                State::Skip { left, cookie, refusal } => {
                    let (end, rest) = advance(at, input.len(), left);
                    at = end;
                    if rest > 0 {
                        self.state = State::Skip { left: rest, cookie, refusal };
                        return Ok((at, Step::NeedMore));
                    }
                    self.state = State::Header;
                    self.refuse(cookie, refusal, out);
                }
            }
        }
    }

    /// Takes up one request; `None` where the session answers it by itself.
    fn begin(
        &mut self,
        header: RequestHeader,
        out: &mut Vec<u8>,
    ) -> Result<Option<Step>, SessionError> {
        if header.command == command::DISC {
            return Ok(Some(Step::Disconnect));
        }
        let payload = if header.command == command::WRITE { header.length } else { 0 };
        if payload > MAX_ANSWERED_PAYLOAD {
            return Err(SessionError::PayloadTooLong { length: payload });
        }
        match self.bounds.judge(header) {
            Ok(request) => {
                if request.command == Command::Write {
                    self.state = State::Payload { left: payload };
                }
                return Ok(Some(Step::Request(request)));
            }
            Err(refusal) if payload > 0 => {
                self.state = State::Skip { left: payload, cookie: header.cookie, refusal };
            }
            Err(refusal) => self.refuse(header.cookie, refusal, out),
        }
        Ok(None)
    }

    fn refuse(&self, cookie: Cookie, refusal: Refusal, out: &mut Vec<u8>) {
        answers::error(cookie, refusal.code, refusal.message, self.structured, out);
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.partial.capacity()
    }
}

/// Where `left` bytes from `at` end within an input of `length`, and how many of them are not in it.
fn advance(at: usize, length: usize, left: u32) -> (usize, u32) {
    let there = u32::try_from(length - at).unwrap_or(u32::MAX).min(left);
    (at + there as usize, left - there)
}
