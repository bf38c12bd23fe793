// SPDX-License-Identifier: Apache-2.0
//! The client's side of the handshake.

use super::wire::Wire;
use super::{Chosen, ClientError};
use crate::codec::{
    Context, Contexts, Cursor, Form, GREETING_LENGTH, Greeting, OptionHeader, OptionReplyHeader,
    TransmissionFlags, client_flag, handshake_flag, info, option, reply,
};
use helio_units::Bytes;
use std::io::{BufReader, Read};

/// What a server that says nothing promises, in bytes.
const DEFAULT_MAXIMUM: u32 = 32 << 20;

/// Longest answer to an option that is believed, in bytes: two longest strings and their lengths.
const LONGEST_ANSWER: u32 = 16 << 10;

/// Answers to one option before the server counts as mad.
const MOST_ANSWERS: usize = 100_000;

/// What the server tells about the export in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportShape {
    /// Its size.
    pub size: Bytes,
    /// What it offers.
    pub flags: TransmissionFlags,
    /// Smallest unit of a request, in bytes.
    pub minimum_block: u32,
    /// The unit requests are fastest in, in bytes.
    pub preferred_block: u32,
    /// Most bytes one read or write moves.
    pub maximum_payload: u32,
}

/// One export of a server's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedExport {
    /// The name to open it by.
    pub name: String,
    /// A line for people; may be empty.
    pub description: String,
}

/// One answer to an option.
struct Answer {
    reply: u32,
    data: Vec<u8>,
}

pub(super) struct Negotiation {
    wire: Wire,
    reader: BufReader<Wire>,
}

impl Negotiation {
    /// Exchanges greetings.
    pub(super) fn begin(wire: Wire) -> Result<Self, ClientError> {
        let twin = wire.twin().map_err(ClientError::io("connecting"))?;
        let mut this = Self { wire, reader: BufReader::with_capacity(64 << 10, twin) };
        let greeting = this.array::<GREETING_LENGTH>("waiting for the greeting")?;
        let greeting = Greeting::decode(&greeting).ok_or(ClientError::NotNewstyle)?;
        if greeting.flags & handshake_flag::FIXED_NEWSTYLE == 0 {
            return Err(ClientError::NotNewstyle);
        }
        let mut flags = client_flag::FIXED_NEWSTYLE;
        if greeting.flags & handshake_flag::NO_ZEROES != 0 {
            flags |= client_flag::NO_ZEROES;
        }
        let greeted = this.wire.send(&flags.to_be_bytes(), &[]);
        greeted.map_err(ClientError::io("answering the greeting"))?;
        Ok(this)
    }

    /// Asks for the form of replies wanted, then for lesser ones; what the server grants. All but simple
    /// ones carry the server's words.
    pub(super) fn form(&mut self, wanted: Form) -> Result<Form, ClientError> {
        for (form, option) in [
            (Form::Extended, option::EXTENDED_HEADERS),
            (Form::Structured, option::STRUCTURED_REPLY),
        ] {
            if form <= wanted {
                self.ask(option, &[])?;
                if self.answer(option)?.reply == reply::ACK {
                    return Ok(form);
                }
            }
        }
        Ok(Form::Simple)
    }

    /// Chooses contexts of an export; which of them the server grants.
    pub(super) fn choose(
        &mut self,
        export: &str,
        contexts: Contexts,
    ) -> Result<Chosen, ClientError> {
        let queries = contexts.iter().map(Context::name);
        let mut chosen = Chosen::default();
        for (number, name) in self.meta(option::SET_META_CONTEXT, export, queries)? {
            let context = Context::of_name(&name).filter(|context| contexts.has(*context));
            let context = context.ok_or_else(|| broken("a context that was not asked"))?;
            if chosen.number(context).is_some() || chosen.context(number).is_some() {
                return Err(broken("a context granted twice"));
            }
            chosen.add(context, number);
        }
        Ok(chosen)
    }

    /// The names of the contexts an export offers.
    pub(super) fn offered(&mut self, export: &str) -> Result<Vec<String>, ClientError> {
        let found = self.meta(option::LIST_META_CONTEXT, export, std::iter::empty())?;
        Ok(found.into_iter().map(|(_, name)| name).collect())
    }

    /// Sends either of the options about contexts; numbers and names the server answers with.
    fn meta(
        &mut self,
        option: u32,
        export: &str,
        queries: impl Iterator<Item = &'static str>,
    ) -> Result<Vec<(u32, String)>, ClientError> {
        let mut data = named(export)?;
        let mut count = 0_u32;
        let mut listed = Vec::new();
        for query in queries {
            count += 1;
            // The names of contexts are a few bytes long.
            listed.extend_from_slice(&(query.len() as u32).to_be_bytes());
            listed.extend_from_slice(query.as_bytes());
        }
        data.extend_from_slice(&count.to_be_bytes());
        data.extend_from_slice(&listed);
        self.ask(option, &data)?;
        let mut found = Vec::new();
        while found.len() < MOST_ANSWERS {
            let answer = self.answer(option)?;
            match answer.reply {
                reply::META_CONTEXT => {
                    let mut cursor = Cursor::new(&answer.data);
                    let number = cursor.u32().ok_or_else(|| broken("a context cut short"))?;
                    found.push((number, text(cursor.rest())));
                }
                reply::ACK => return Ok(found),
                _ => return Err(refused(option, &answer)),
            }
        }
        Err(broken("contexts without end"))
    }

    /// Begins to use an export.
    pub(super) fn go(&mut self, export: &str) -> Result<ExportShape, ClientError> {
        let mut data = named(export)?;
        data.extend_from_slice(&1_u16.to_be_bytes());
        data.extend_from_slice(&info::BLOCK_SIZE.to_be_bytes());
        self.ask(option::GO, &data)?;
        let mut told = Told::default();
        for _ in 0..MOST_ANSWERS {
            let answer = self.answer(option::GO)?;
            match answer.reply {
                reply::INFO => {
                    told.learn(&answer.data).ok_or_else(|| broken("a fact cut short"))?
                }
                reply::ACK => return told.shape(),
                _ => return Err(refused(option::GO, &answer)),
            }
        }
        Err(broken("facts without end"))
    }

    /// Asks for the list of exports.
    pub(super) fn list(&mut self) -> Result<Vec<ListedExport>, ClientError> {
        self.ask(option::LIST, &[])?;
        let mut exports = Vec::new();
        while exports.len() < MOST_ANSWERS {
            let answer = self.answer(option::LIST)?;
            match answer.reply {
                reply::SERVER => {
                    exports.push(listed(&answer.data).ok_or_else(|| broken("a name cut short"))?);
                }
                reply::ACK => return Ok(exports),
                _ => return Err(refused(option::LIST, &answer)),
            }
        }
        Err(broken("a list without end"))
    }

    /// Takes leave. The server may be gone already, so nothing is waited for.
    pub(super) fn abort(mut self) {
        let _ = self.ask(option::ABORT, &[]);
    }

    /// The connection, ready for requests.
    pub(super) fn finish(self) -> (Wire, BufReader<Wire>) {
        (self.wire, self.reader)
    }

    fn ask(&mut self, option: u32, data: &[u8]) -> Result<(), ClientError> {
        // The longest data is a name, which is bounded, and a few words.
        let header = OptionHeader { option, length: data.len() as u32 };
        self.wire.send(&header.encode(), data).map_err(ClientError::io("negotiating"))
    }

    fn answer(&mut self, option: u32) -> Result<Answer, ClientError> {
        let header = self.array::<{ OptionReplyHeader::LENGTH }>("negotiating")?;
        let header = OptionReplyHeader::decode(&header)
            .map_err(|found| broken(&format!("{found:#018x} instead of a reply")))?;
        if header.option != option {
            return Err(broken("a reply to an option that was not sent"));
        }
        if header.length > LONGEST_ANSWER {
            return Err(broken(&format!("a reply of {} bytes", header.length)));
        }
        let mut data = vec![0; header.length as usize];
        self.reader.read_exact(&mut data).map_err(ClientError::io("negotiating"))?;
        Ok(Answer { reply: header.reply, data })
    }

    fn array<const N: usize>(&mut self, doing: &'static str) -> Result<[u8; N], ClientError> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).map_err(ClientError::io(doing))?;
        Ok(bytes)
    }
}

/// An export's name behind its length.
fn named(export: &str) -> Result<Vec<u8>, ClientError> {
    let length = u32::try_from(export.len())
        .ok()
        .filter(|length| *length <= crate::MAX_NAME as u32)
        .ok_or(ClientError::Unsendable("an export name of more than 4096 bytes"))?;
    let mut data = length.to_be_bytes().to_vec();
    data.extend_from_slice(export.as_bytes());
    Ok(data)
}

/// Facts gathered until the acknowledgement.
#[derive(Default)]
struct Told {
    export: Option<(u64, u16)>,
    blocks: Option<(u32, u32, u32)>,
}

impl Told {
    /// Takes in one fact; kinds not known are none of our business. `None` where it is cut short.
    fn learn(&mut self, data: &[u8]) -> Option<()> {
        let mut cursor = Cursor::new(data);
        match cursor.u16()? {
            info::EXPORT => self.export = Some((cursor.u64()?, cursor.u16()?)),
            info::BLOCK_SIZE => self.blocks = Some((cursor.u32()?, cursor.u32()?, cursor.u32()?)),
            _ => {}
        }
        Some(())
    }

    fn shape(&self) -> Result<ExportShape, ClientError> {
        let (size, flags) =
            self.export.ok_or_else(|| broken("no size before the acknowledgement"))?;
        let (minimum, preferred, maximum) = self.blocks.unwrap_or((1, 4096, DEFAULT_MAXIMUM));
        Ok(ExportShape {
            size: Bytes(size),
            flags: TransmissionFlags(flags),
            minimum_block: minimum,
            preferred_block: preferred,
            // Some servers announce no bound at all; ours keeps one request's memory sane, and a zero
            // would never get anywhere.
            maximum_payload: if maximum == 0 {
                DEFAULT_MAXIMUM
            } else {
                maximum.min(DEFAULT_MAXIMUM)
            },
        })
    }
}

/// One entry of a list; `None` where it is cut short.
fn listed(data: &[u8]) -> Option<ListedExport> {
    let mut cursor = Cursor::new(data);
    let length = cursor.u32()?;
    let name = cursor.take(length as usize)?;
    Some(ListedExport { name: text(name), description: text(cursor.rest()) })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn refused(option: u32, answer: &Answer) -> ClientError {
    if answer.reply & reply::ERROR_BIT == 0 {
        return broken("a reply that does not fit the option");
    }
    ClientError::Refused {
        asked: option::name(option),
        reason: reply::meaning(answer.reply),
        message: text(&answer.data),
    }
}

fn broken(what: &str) -> ClientError {
    ClientError::protocol(what)
}
