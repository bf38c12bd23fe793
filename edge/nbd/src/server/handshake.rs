// SPDX-License-Identifier: Apache-2.0
//! The handshake: client flags, then options one behind the other.

use crate::codec::{OptionHeader, client_flag, option};
use crate::server::exports::Terms;
use crate::server::limits::{MAX_OPTION_DATA, MAX_OPTION_LENGTH, MAX_OPTIONS};
use crate::server::options::{Haggler, Outcome};
use crate::server::partial::Partial;
use crate::server::{ExportInfo, Exports, SessionError, Step, TlsPolicy};

#[derive(Clone, Copy)]
enum State {
    /// The client's first word.
    Flags,
    /// An option begins.
    Header,
    /// Its data, to be looked at.
    Data(OptionHeader),
    /// This much of a too large option is still to be skipped.
    Skip { option: u32, left: u32 },
    /// TLS was promised. Whatever comes before it is in place was not said under it.
    Securing,
}

/// What a message of the handshake led to.
pub(super) enum Turn {
    /// A step for the caller.
    Say(Step),
    /// The transmission phase.
    Enter { export: ExportInfo, terms: Terms },
}

pub(super) struct Handshake {
    state: State,
    partial: Partial,
    haggler: Haggler,
    options: u32,
}

impl Handshake {
    pub(super) fn new(tls: TlsPolicy) -> Self {
        Self {
            state: State::Flags,
            partial: Partial::default(),
            haggler: Haggler::new(tls),
            options: 0,
        }
    }

    /// TLS is in place. Means something only where it was promised.
    pub(super) fn secured(&mut self) {
        if matches!(self.state, State::Securing) {
            self.haggler.secured();
            self.state = State::Header;
        }
    }

    /// Goes on by one message at most, so that the caller can send each answer before the next is made.
    pub(super) fn consume(
        &mut self,
        input: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Turn), SessionError> {
        let mut at = 0;
        loop {
            match self.state {
                State::Flags => {
                    let (used, flags) = self.partial.header(input);
                    let Some(flags) = flags else { return Ok((used, Turn::Say(Step::NeedMore))) };
                    self.flags(u32::from_be_bytes(flags))?;
                    self.state = State::Header;
                    return Ok((used, Turn::Say(Step::Negotiating)));
                }
                State::Header => {
                    let (used, header) = self.partial.header(&input[at..]);
                    at += used;
                    let Some(header) = header else { return Ok((at, Turn::Say(Step::NeedMore))) };
                    let header = OptionHeader::decode(&header)
                        .map_err(|found| SessionError::OptionMagic { found })?;
                    self.state = self.begin(header)?;
                }
                State::Data(header) => {
                    let (used, data) = self.partial.data(&input[at..], header.length as usize);
                    at += used;
                    let Some(data) = data else { return Ok((at, Turn::Say(Step::NeedMore))) };
                    self.state = State::Header;
                    let before = out.len();
                    let outcome = self.haggler.answer(header.option, &data, exports, out)?;
                    if matches!(outcome, Outcome::StartTls) {
                        if at < input.len() {
                            // Nothing was promised then: the acknowledgement is taken back.
                            out.truncate(before);
                            return Err(SessionError::PlaintextBehindStartTls);
                        }
                        self.state = State::Securing;
                    }
                    return Ok((at, turn(outcome)));
                }
                State::Skip { option, left } => {
                    let there = (input.len() - at).min(left as usize);
                    at += there;
                    // `there` is at most `left`, so the cast is exact.
                    let left = left - there as u32;
                    if left > 0 {
                        self.state = State::Skip { option, left };
                        return Ok((at, Turn::Say(Step::NeedMore)));
                    }
                    self.state = State::Header;
                    self.haggler.answer_oversized(option, out)?;
                    return Ok((at, Turn::Say(Step::Negotiating)));
                }
                State::Securing if input.is_empty() => {
                    return Ok((at, Turn::Say(Step::NeedMore)));
                }
                State::Securing => return Err(SessionError::PlaintextBehindStartTls),
            }
        }
    }

    /// Only fixed newstyle, and no flag nobody offered.
    fn flags(&mut self, flags: u32) -> Result<(), SessionError> {
        if flags & !(client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES) != 0 {
            return Err(SessionError::ClientFlags { flags });
        }
        if flags & client_flag::FIXED_NEWSTYLE == 0 {
            return Err(SessionError::OldHandshake { flags });
        }
        self.haggler.no_zeroes = flags & client_flag::NO_ZEROES != 0;
        Ok(())
    }

    /// Whether the option's data is worth holding.
    fn begin(&mut self, header: OptionHeader) -> Result<State, SessionError> {
        let OptionHeader { option, length } = header;
        self.options += 1;
        if self.options > MAX_OPTIONS {
            return Err(SessionError::TooManyOptions);
        }
        if length <= MAX_OPTION_DATA {
            return Ok(State::Data(header));
        }
        // EXPORT_NAME has no error answer: too long a name is the end.
        if length > MAX_OPTION_LENGTH || option == option::EXPORT_NAME {
            return Err(SessionError::OptionTooLong { option, length });
        }
        Ok(State::Skip { option, left: length })
    }

    pub(super) fn held(&self) -> usize {
        self.partial.capacity() + self.haggler.held()
    }
}

fn turn(outcome: Outcome) -> Turn {
    match outcome {
        Outcome::Answered => Turn::Say(Step::Negotiating),
        Outcome::Leave => Turn::Say(Step::Disconnect),
        Outcome::Enter { export, terms } => Turn::Enter { export, terms },
        Outcome::StartTls => Turn::Say(Step::StartTls),
    }
}
