// SPDX-License-Identifier: Apache-2.0
//! Clients that break rules, and what a server may do about each.

use super::handshake::{self, Agreed};
use super::reply::{self, Expected, Part, Sort};
use super::wire::Wire;
use crate::model::stamp::{Place, SECTOR, stamp};
use crate::model::{Action, ConnectionId, Model, Promise, Request, Violation};
use helio_nbd::codec::{
    GREETING_LENGTH, OptionHeader, OptionReplyHeader, RequestHeader, client_flag, command,
    command_flag, option,
};
use helio_nbd::{
    Cookie, ErrorCode, Form, MAX_ANSWERED_PAYLOAD, MAX_OPTION_LENGTH, MAX_OPTIONS, MAX_PAYLOAD,
};
use helio_units::Extent;

/// What a client does wrong. Those up to `Silent` never finish a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mischief {
    /// Sets flags that were not offered.
    GreetingFlags,
    /// Sends something other than an option.
    OptionMagic,
    /// Announces an option that is too long to be skipped.
    OptionTooLong,
    /// Sends options without end.
    EndlessOptions,
    /// Connects and sends nothing, until it resets the connection.
    Silent,
    /// Sends something other than a request.
    RequestMagic,
    /// Reads more than one request may.
    ReadTooLong,
    /// Announces a payload that is too long to be skipped.
    WriteTooLong,
    /// Writes behind the end of the export.
    BehindEnd,
    /// Sends a command that does not exist.
    UnknownCommand,
    /// Uses one cookie for two requests at once.
    SameCookie,
    /// Sends more payload than the header says.
    LongPayload,
    /// Makes requests and receives nothing, until it resets the connection.
    NeverReceives,
}

/// What a server does about a mischief.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// It ends the connection.
    End,
    /// It ends the connection, or the client resets it in time.
    Patience,
    /// It fails the request, or ends the connection.
    Error,
    /// It answers that many times, or ends the connection.
    Answers(u32),
}

impl Mischief {
    /// Every one.
    pub const ALL: [Self; 13] = [
        Self::GreetingFlags,
        Self::OptionMagic,
        Self::OptionTooLong,
        Self::EndlessOptions,
        Self::Silent,
        Self::RequestMagic,
        Self::ReadTooLong,
        Self::WriteTooLong,
        Self::BehindEnd,
        Self::UnknownCommand,
        Self::SameCookie,
        Self::LongPayload,
        Self::NeverReceives,
    ];

    /// Whether it needs a connection that is ready for requests.
    pub(super) fn after_handshake(self) -> bool {
        self > Self::Silent
    }

    /// Whether it lasts until the client has had enough.
    pub(super) fn lasts(self) -> bool {
        self.due() == Due::Patience
    }

    const fn due(self) -> Due {
        match self {
            Self::Silent | Self::NeverReceives => Due::Patience,
            Self::ReadTooLong | Self::BehindEnd | Self::UnknownCommand => Due::Error,
            Self::SameCookie => Due::Answers(2),
            _ => Due::End,
        }
    }
}

/// A client at its mischief.
#[derive(Debug)]
pub(super) struct Rogue {
    mischief: Mischief,
    begun: bool,
    answers: u32,
    agreed: Option<Agreed>,
}

const UNKNOWN_OPTION: u32 = 0x4711;

const COOKIE: Cookie = Cookie(0x00c0_071e);

impl Rogue {
    /// With what was agreed on if the mischief comes after the handshake.
    pub(super) const fn new(mischief: Mischief, agreed: Option<Agreed>) -> Self {
        Self { mischief, begun: false, answers: 0, agreed }
    }

    /// Goes on; whether the client has what it was due.
    pub(super) fn step(
        &mut self,
        wire: &mut Wire,
        (connection, volume): (ConnectionId, u16),
        model: &mut Model,
    ) -> Result<bool, Violation> {
        let Some(agreed) = self.agreed.clone() else {
            self.haggle(wire)?;
            return Ok(false);
        };
        if !self.begun {
            self.begun = true;
            self.ask(&agreed, wire, (connection, volume), model);
        }
        self.hear(&agreed, wire)
    }

    /// Before the handshake is over, nothing but its end is waited for.
    fn haggle(&mut self, wire: &mut Wire) -> Result<(), Violation> {
        let greeted = self.begun || wire.input.len() >= GREETING_LENGTH;
        if !greeted || self.mischief == Mischief::Silent {
            return Ok(());
        }
        let first = !std::mem::replace(&mut self.begun, true);
        if first {
            wire.input.drain(..GREETING_LENGTH);
        }
        let sound = client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES;
        match self.mischief {
            Mischief::GreetingFlags if first => wire.queue(&0xffff_0003_u32.to_be_bytes()),
            Mischief::OptionMagic if first => {
                wire.queue(&sound.to_be_bytes());
                wire.queue(b"GET / HTTP/1.1\r\n\r\n");
            }
            Mischief::OptionTooLong if first => {
                wire.queue(&sound.to_be_bytes());
                let header = OptionHeader { option: option::GO, length: MAX_OPTION_LENGTH + 1 };
                wire.queue(&header.encode());
            }
            Mischief::EndlessOptions => {
                if first {
                    wire.queue(&sound.to_be_bytes());
                }
                self.more_options(wire)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts the answers to an option that does not exist, and sends more.
    fn more_options(&mut self, wire: &mut Wire) -> Result<(), Violation> {
        while let Some(head) = wire.input.first_chunk::<{ OptionReplyHeader::LENGTH }>() {
            let header = OptionReplyHeader::decode(head).map_err(|found| {
                let detail = format!("the server sent {found:#018x} instead of a reply");
                Violation::new(Promise::Protocol, detail)
            })?;
            let end = OptionReplyHeader::LENGTH + header.length as usize;
            if wire.input.len() < end {
                break;
            }
            wire.input.drain(..end);
            self.answers += u32::from(header.option == UNKNOWN_OPTION);
        }
        if self.answers > MAX_OPTIONS {
            let detail = format!("the server answered {} options of one client", self.answers);
            return Err(Violation::new(Promise::Refuses, detail));
        }
        while wire.waiting() < 4096 {
            handshake::ask(wire, UNKNOWN_OPTION, &[]);
        }
        Ok(())
    }

    /// Queues the mischief after the handshake.
    fn ask(
        &self,
        agreed: &Agreed,
        wire: &mut Wire,
        (connection, volume): (ConnectionId, u16),
        model: &mut Model,
    ) {
        let block = agreed.block.max(SECTOR as u64);
        let (read, write) = (command::READ, command::WRITE);
        match self.mischief {
            Mischief::RequestMagic => wire.queue(&[0xee; 64]),
            Mischief::ReadTooLong => {
                put(agreed, wire, read, Extent::new(0, u64::from(MAX_PAYLOAD) + block));
            }
            Mischief::WriteTooLong => {
                put(agreed, wire, write, Extent::new(0, u64::from(MAX_ANSWERED_PAYLOAD) + block));
            }
            Mischief::BehindEnd => {
                put(agreed, wire, write, Extent::new(agreed.size, block));
                wire.queue(&vec![0xee; block as usize]);
            }
            Mischief::UnknownCommand => put(agreed, wire, 4711, Extent::new(0, block)),
            Mischief::SameCookie => {
                put(agreed, wire, read, Extent::new(0, block));
                put(agreed, wire, read, Extent::new(0, block));
            }
            Mischief::LongPayload => {
                // The write itself is sound, and may take effect.
                let extent = Extent::new(0, block);
                let action = Action::Write { extent, fua: false };
                let ticket = model.begin(Request { connection, volume, action });
                let mut payload = Vec::new();
                let sectors = block / SECTOR as u64;
                stamp(ticket.0, Place { volume, sector: 0 }, sectors, &mut payload);
                put(agreed, wire, write, extent);
                wire.queue(&payload);
                wire.queue(&[0xee; 64]);
            }
            _ => {
                for _ in 0..256 {
                    put(agreed, wire, read, Extent::new(0, agreed.size.min(block * 64)));
                }
            }
        }
    }

    /// Counts answers; whether the client has what it was due.
    fn hear(&mut self, agreed: &Agreed, wire: &mut Wire) -> Result<bool, Violation> {
        let due = self.mischief.due();
        if due == Due::Patience {
            return Ok(false);
        }
        let block = agreed.block.max(SECTOR as u64);
        let (sort, offset) = match self.mischief {
            Mischief::SameCookie => (Sort::Data, 0),
            Mischief::BehindEnd => (Sort::Nothing, agreed.size),
            _ => (Sort::Nothing, 0),
        };
        let expected = |cookie| {
            let extent = Extent::new(offset, block);
            (cookie == COOKIE).then_some(Expected { sort, extent })
        };
        while let Some((used, message)) = reply::next(&wire.input, agreed.form, &expected)? {
            wire.input.drain(..used);
            let failed = matches!(message.part, Part::Error(_));
            self.answers += u32::from(message.last);
            let right = match due {
                Due::Error => failed,
                // A disk may fail at that moment.
                Due::Answers(_) => !failed || matches!(message.part, Part::Error(ErrorCode::Io)),
                _ => self.mischief == Mischief::LongPayload && self.answers <= 1,
            };
            if !right {
                let detail = format!("the server answers {:?} with {message:?}", self.mischief);
                return Err(Violation::new(Promise::Refuses, detail));
            }
        }
        Ok(match due {
            Due::Error => self.answers >= 1,
            Due::Answers(count) => self.answers >= count,
            _ => false,
        })
    }
}

fn put(agreed: &Agreed, wire: &mut Wire, command: u16, extent: Extent) {
    let Extent { offset, length } = extent;
    let payload = if command == command::WRITE { command_flag::PAYLOAD_LEN } else { 0 };
    if agreed.form == Form::Extended {
        let header = RequestHeader { flags: payload, command, cookie: COOKIE, offset, length };
        wire.queue(&header.encode_extended());
    } else {
        let header = RequestHeader { flags: 0, command, cookie: COOKIE, offset, length };
        wire.queue(&header.encode());
    }
}
