// SPDX-License-Identifier: Apache-2.0
//! The transmission phase: a stream of requests, taken apart.

use crate::codec::{Form, RequestHeader, command};
use crate::server::exports::Terms;
use crate::server::judge::{Behind, Bounds, Refusal};
use crate::server::limits::MAX_ANSWERED_PAYLOAD;
use crate::server::partial::Partial;
use crate::server::{ExportInfo, SessionError, Step, answers};
use helio_units::Bytes;

#[derive(Clone, Copy)]
enum State {
    /// A request begins.
    Header,
    /// This much of a write's payload is still to be handed out.
    Payload { left: u32 },
    /// The contexts this block status is about are still to come, in this many bytes.
    Filter { header: RequestHeader, length: usize },
    /// This much of a refused request's payload is still to be skipped. It is answered only then: a client
    /// may not expect an answer to what it has not finished sending.
    Skip { left: u32, header: RequestHeader, refusal: Refusal },
}

pub(super) struct Transmission {
    bounds: Bounds,
    form: Form,
    partial: Partial,
    state: State,
}

impl Transmission {
    pub(super) fn new(export: &ExportInfo, terms: Terms) -> Self {
        Self {
            bounds: Bounds::new(export, terms),
            form: terms.form,
            partial: Partial::default(),
            state: State::Header,
        }
    }

    pub(super) const fn resized(&mut self, size: Bytes) {
        self.bounds.resized(size);
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
                    let (used, header) = self.header(&input[at..])?;
                    at += used;
                    let Some(header) = header else { return Ok((at, Step::NeedMore)) };
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
                State::Filter { header, length } => {
                    let (used, filter) = self.partial.data(&input[at..], length);
                    at += used;
                    let Some(filter) = filter else { return Ok((at, Step::NeedMore)) };
                    self.state = State::Header;
                    match self.bounds.judge_filtered(header, &filter) {
                        Ok(request) => return Ok((at, Step::Request(request))),
                        Err(refusal) => self.refuse(&header, refusal, out),
                    }
                }
                State::Skip { left, header, refusal } => {
                    let (end, rest) = advance(at, input.len(), left);
                    at = end;
                    if rest > 0 {
                        self.state = State::Skip { left: rest, header, refusal };
                        return Ok((at, Step::NeedMore));
                    }
                    self.state = State::Header;
                    self.refuse(&header, refusal, out);
                }
            }
        }
    }

    /// How much of `input` was used, and the next request's header once it is complete.
    fn header(&mut self, input: &[u8]) -> Result<(usize, Option<RequestHeader>), SessionError> {
        let (used, header) = if self.form == Form::Extended {
            let (used, bytes) = self.partial.header(input);
            (used, bytes.map(|bytes| RequestHeader::decode_extended(&bytes)))
        } else {
            let (used, bytes) = self.partial.header(input);
            (used, bytes.map(|bytes| RequestHeader::decode(&bytes)))
        };
        match header.transpose() {
            Ok(header) => Ok((used, header)),
            Err(found) => Err(SessionError::RequestMagic { found }),
        }
    }

    /// Takes up one request; `None` where the session answers it by itself, now or after its payload.
    fn begin(
        &mut self,
        header: RequestHeader,
        out: &mut Vec<u8>,
    ) -> Result<Option<Step>, SessionError> {
        if header.command == command::DISC {
            return Ok(Some(Step::Disconnect));
        }
        let left = match self.bounds.behind(&header) {
            Behind::Nothing => 0,
            Behind::Filter(length) => {
                self.state = State::Filter { header, length };
                return Ok(None);
            }
            Behind::Payload(length) => match u32::try_from(length) {
                Ok(left) if left <= MAX_ANSWERED_PAYLOAD => left,
                _ => return Err(SessionError::PayloadTooLong { length }),
            },
        };
        match self.bounds.judge(header) {
            Ok(request) => {
                // Only a write with a payload passes with one.
                if left > 0 {
                    self.state = State::Payload { left };
                }
                return Ok(Some(Step::Request(request)));
            }
            Err(refusal) if left > 0 => self.state = State::Skip { left, header, refusal },
            Err(refusal) => self.refuse(&header, refusal, out),
        }
        Ok(None)
    }

    fn refuse(&self, header: &RequestHeader, refusal: Refusal, out: &mut Vec<u8>) {
        answers::error(self.form, header.into(), refusal.code, refusal.message, out);
    }

    pub(super) fn held(&self) -> usize {
        self.partial.capacity()
    }
}

/// Where `left` bytes from `at` end within an input of `length`, and how many of them are not in it.
fn advance(at: usize, length: usize, left: u32) -> (usize, u32) {
    let there = u32::try_from(length - at).unwrap_or(u32::MAX).min(left);
    (at + there as usize, left - there)
}
