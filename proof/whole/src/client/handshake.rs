// SPDX-License-Identifier: Apache-2.0
//! The handshake: the form of replies, metadata contexts, GO.

use super::wire::Wire;
use crate::model::{Promise, Violation};
use helio_nbd::codec::{
    Cursor, GREETING_LENGTH, Greeting, OptionHeader, OptionReplyHeader, client_flag,
    handshake_flag, info, option, reply,
};
use helio_nbd::{Context, Form, TransmissionFlags};

/// Longest reply to an option that an honest server sends, in bytes.
const LONGEST: u32 = 16 << 10;

/// What client and server agreed on.
#[derive(Clone, Debug)]
pub(super) struct Agreed {
    pub(super) form: Form,
    /// Size of the export in bytes.
    pub(super) size: u64,
    pub(super) flags: TransmissionFlags,
    /// Smallest unit of a request, in bytes.
    pub(super) block: u64,
    /// Contexts with the numbers that the server gave them.
    pub(super) contexts: Vec<(u32, Context)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Greeting,
    Form,
    Contexts,
    Go,
}

/// How the handshake goes on.
#[derive(Debug)]
pub(super) enum Progress {
    Waits,
    Agreed(Agreed),
    /// The server refused GO with this reply.
    Refused(u32),
}

/// A handshake under way.
#[derive(Debug)]
pub(super) struct Handshake {
    export: String,
    stage: Stage,
    wants_contexts: bool,
    agreed: Agreed,
}

impl Handshake {
    pub(super) fn new(export: &str, form: Form, wants_contexts: bool) -> Self {
        let agreed = Agreed {
            form,
            size: 0,
            flags: TransmissionFlags::default(),
            block: 1,
            contexts: Vec::new(),
        };
        Self {
            export: export.to_owned(),
            stage: Stage::Greeting,
            wants_contexts: wants_contexts && form != Form::Simple,
            agreed,
        }
    }

    /// Uses up what has arrived, as far as it is whole.
    pub(super) fn step(&mut self, wire: &mut Wire) -> Result<Progress, Violation> {
        if self.stage == Stage::Greeting && !self.greet(wire)? {
            return Ok(Progress::Waits);
        }
        loop {
            let Some(head) = wire.input.first_chunk::<{ OptionReplyHeader::LENGTH }>() else {
                return Ok(Progress::Waits);
            };
            let header = OptionReplyHeader::decode(head)
                .map_err(|found| broken(&format!("{found:#018x} instead of a reply")))?;
            if header.length > LONGEST {
                return Err(broken("a reply to an option that is too long"));
            }
            let end = OptionReplyHeader::LENGTH + header.length as usize;
            if wire.input.len() < end {
                return Ok(Progress::Waits);
            }
            let message: Vec<u8> = wire.input.drain(..end).collect();
            let data = &message[OptionReplyHeader::LENGTH..];
            if let Some(progress) = self.replied(header, data, wire)? {
                return Ok(progress);
            }
        }
    }

    fn greet(&mut self, wire: &mut Wire) -> Result<bool, Violation> {
        let Some(greeting) = wire.input.first_chunk::<GREETING_LENGTH>() else { return Ok(false) };
        let greeting = Greeting::decode(greeting).ok_or_else(|| broken("no greeting"))?;
        if greeting.flags & handshake_flag::FIXED_NEWSTYLE == 0 {
            return Err(broken("a greeting without fixed newstyle"));
        }
        wire.input.drain(..GREETING_LENGTH);
        let flags = client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES;
        wire.queue(&flags.to_be_bytes());
        self.stage = Stage::Form;
        match self.agreed.form {
            Form::Simple => self.ask_to_go(wire),
            Form::Structured => ask(wire, option::STRUCTURED_REPLY, &[]),
            Form::Extended => ask(wire, option::EXTENDED_HEADERS, &[]),
        }
        Ok(true)
    }

    const fn asked(&self) -> u32 {
        match (self.stage, self.agreed.form) {
            (Stage::Contexts, _) => option::SET_META_CONTEXT,
            (Stage::Go, _) => option::GO,
            (_, Form::Extended) => option::EXTENDED_HEADERS,
            _ => option::STRUCTURED_REPLY,
        }
    }

    fn replied(
        &mut self,
        header: OptionReplyHeader,
        data: &[u8],
        wire: &mut Wire,
    ) -> Result<Option<Progress>, Violation> {
        if header.option != self.asked() {
            return Err(broken("a reply to an option that was not sent"));
        }
        let failed = header.reply & reply::ERROR_BIT != 0;
        match (self.stage, header.reply) {
            (Stage::Go, reply::INFO) => {
                self.learn(data).ok_or_else(|| broken("a fact cut short"))?;
            }
            (Stage::Go, reply::ACK) if self.agreed.size == 0 => {
                return Err(broken("no size before the acknowledgement"));
            }
            (Stage::Go, reply::ACK) => return Ok(Some(Progress::Agreed(self.agreed.clone()))),
            (Stage::Contexts, reply::META_CONTEXT) => {
                let granted = context(data).ok_or_else(|| broken("an unknown context"))?;
                self.agreed.contexts.push(granted);
            }
            // An export that cannot be opened has no contexts, either: GO says why.
            (Stage::Contexts, _) if failed || header.reply == reply::ACK => self.ask_to_go(wire),
            (Stage::Form, reply::ACK) if self.wants_contexts => self.ask_contexts(wire),
            (Stage::Form, reply::ACK) => self.ask_to_go(wire),
            _ if failed => return Ok(Some(Progress::Refused(header.reply))),
            _ => return Err(broken("a reply that does not fit the option")),
        }
        Ok(None)
    }

    fn learn(&mut self, data: &[u8]) -> Option<()> {
        let mut cursor = Cursor::new(data);
        match cursor.u16()? {
            info::EXPORT => {
                self.agreed.size = cursor.u64()?;
                self.agreed.flags = TransmissionFlags(cursor.u16()?);
            }
            info::BLOCK_SIZE => self.agreed.block = u64::from(cursor.u32()?),
            _ => {}
        }
        Some(())
    }

    fn ask_contexts(&mut self, wire: &mut Wire) {
        self.stage = Stage::Contexts;
        let mut data = named(&self.export);
        data.extend_from_slice(&(Context::ALL.len() as u32).to_be_bytes());
        for context in Context::ALL {
            data.extend_from_slice(&named(context.name()));
        }
        ask(wire, option::SET_META_CONTEXT, &data);
    }

    fn ask_to_go(&mut self, wire: &mut Wire) {
        self.stage = Stage::Go;
        let mut data = named(&self.export);
        data.extend_from_slice(&1_u16.to_be_bytes());
        data.extend_from_slice(&info::BLOCK_SIZE.to_be_bytes());
        ask(wire, option::GO, &data);
    }
}

/// Queues an option.
pub(super) fn ask(wire: &mut Wire, option: u32, data: &[u8]) {
    wire.queue(&OptionHeader { option, length: data.len() as u32 }.encode());
    wire.queue(data);
}

fn context(data: &[u8]) -> Option<(u32, Context)> {
    let mut cursor = Cursor::new(data);
    let number = cursor.u32()?;
    Some((number, Context::of_name(std::str::from_utf8(cursor.rest()).ok()?)?))
}

/// A text behind its length.
fn named(text: &str) -> Vec<u8> {
    let mut data = (text.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(text.as_bytes());
    data
}

fn broken(what: &str) -> Violation {
    Violation::new(Promise::Protocol, format!("the server sent {what}"))
}
