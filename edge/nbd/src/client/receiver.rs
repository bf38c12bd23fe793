// SPDX-License-Identifier: Apache-2.0
//! The half that receives replies, of either form and in any order.

use super::sender::{Expected, Pending, Sort};
use super::wire::Wire;
use super::{Chosen, ClientError, ServerError};
use crate::codec::{
    ChunkHeader, Context, Cookie, Cursor, ErrorCode, ExtendedChunkHeader, Form, MAX_STRING,
    SimpleReply, StatusExtent, chunk, chunk_flag, magic,
};
use helio_units::Extent;
use std::collections::HashMap;
use std::io::{BufReader, Read};

const RECEIVING: &str = "receiving a reply";

/// Longest error chunk that is believed, in bytes: a longest message and what may surround it.
const LONGEST_ERROR: u32 = MAX_STRING as u32 + 64;

/// Longest status chunk that is believed, in bytes: the most stretches the protocol wants in one.
const LONGEST_STATUS: u32 = 8 + (16 << 20);

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whose answer.
    pub cookie: Cookie,
    /// The data of a read, nothing for other commands, or why it failed.
    pub result: Result<Vec<u8>, ServerError>,
    /// The parts of a read that came as holes, where they lie on the export.
    pub holes: Vec<Extent>,
    /// What each context says, for a block status.
    pub status: Vec<(Context, Vec<StatusExtent>)>,
}

/// A structured reply of which chunks are still to come.
#[derive(Default)]
struct Assembly {
    data: Vec<u8>,
    covered: u64,
    holes: Vec<Extent>,
    status: Vec<(Context, Vec<StatusExtent>)>,
    error: Option<ServerError>,
}

/// A chunk's header without what only its form needs.
#[derive(Clone, Copy)]
struct Chunk {
    flags: u16,
    kind: u16,
    cookie: Cookie,
    length: u32,
    expected: Expected,
}

/// Receives replies as they come. It must be used for as long as the sender is: replies nobody takes
/// fill the socket and stop the server.
pub struct ClientReceiver {
    reader: BufReader<Wire>,
    pending: Pending,
    form: Form,
    chosen: Chosen,
    assemblies: HashMap<Cookie, Assembly>,
}

impl ClientReceiver {
    pub(super) fn new(
        reader: BufReader<Wire>,
        pending: Pending,
        form: Form,
        chosen: Chosen,
    ) -> Self {
        Self { reader, pending, form, chosen, assemblies: HashMap::new() }
    }

    /// Waits for the next complete reply.
    ///
    /// # Errors
    /// What became of the connection, or how the server broke the protocol. A request that failed is
    /// no error here but in [`Reply::result`].
    pub fn receive(&mut self) -> Result<Reply, ClientError> {
        loop {
            let chunk = match (u32::from_be_bytes(self.array()?), self.form) {
                (magic::SIMPLE_REPLY, Form::Simple | Form::Structured) => return self.simple(),
                (magic::CHUNK, Form::Structured) => self.structured()?,
                (magic::EXTENDED_CHUNK, Form::Extended) => self.extended()?,
                (magic::SIMPLE_REPLY | magic::CHUNK | magic::EXTENDED_CHUNK, _) => {
                    return Err(ClientError::protocol("a reply in a form that was not negotiated"));
                }
                (found, _) => {
                    return Err(ClientError::protocol(format!(
                        "{found:#010x} where a reply begins"
                    )));
                }
            };
            if let Some(reply) = self.chunk(chunk)? {
                return Ok(reply);
            }
        }
    }

    fn structured(&mut self) -> Result<Chunk, ClientError> {
        let ChunkHeader { flags, kind, cookie, length } =
            ChunkHeader::decode_after_magic(&self.array()?);
        Ok(Chunk { flags, kind, cookie, length, expected: self.expected(cookie)? })
    }

    fn extended(&mut self) -> Result<Chunk, ClientError> {
        let ExtendedChunkHeader { flags, kind, cookie, offset, length } =
            ExtendedChunkHeader::decode_after_magic(&self.array()?);
        let expected = self.expected(cookie)?;
        if offset != expected.extent.offset {
            return Err(ClientError::protocol(format!("a reply to {cookie} at another offset")));
        }
        let length = u32::try_from(length)
            .map_err(|_| ClientError::protocol(format!("a chunk of {length} bytes")))?;
        Ok(Chunk { flags, kind, cookie, length, expected })
    }

    fn simple(&mut self) -> Result<Reply, ClientError> {
        let SimpleReply { error, cookie } = SimpleReply::decode_after_magic(&self.array()?);
        let expected = self.expected(cookie)?;
        let reads = expected.sort == Sort::Data;
        if self.form == Form::Structured && (reads || error == 0 && expected.sort != Sort::Nothing)
        {
            return Err(ClientError::protocol("a simple reply to a read, against the agreement"));
        }
        let mut data = Vec::new();
        if error == 0 && reads {
            data = vec![0; expected.extent.length as usize];
            self.fill(&mut data)?;
        }
        self.pending.remove(cookie);
        self.assemblies.remove(&cookie);
        let result = match error {
            0 => Ok(data),
            number => {
                Err(ServerError { code: ErrorCode::from_wire(number), message: String::new() })
            }
        };
        Ok(Reply { cookie, result, holes: Vec::new(), status: Vec::new() })
    }

    /// Takes in one chunk; the reply where it was the last.
    fn chunk(&mut self, header: Chunk) -> Result<Option<Reply>, ClientError> {
        let Chunk { cookie, expected, .. } = header;
        let mut assembly = self.assemblies.remove(&cookie).unwrap_or_default();
        match header.kind {
            chunk::NONE if header.length == 0 => {}
            chunk::OFFSET_DATA | chunk::OFFSET_HOLE if expected.sort == Sort::Data => {
                self.content(header, &mut assembly)?;
            }
            chunk::BLOCK_STATUS | chunk::BLOCK_STATUS_EXT => {
                self.status(header, &mut assembly)?;
            }
            kind if kind & chunk::ERROR_BIT != 0 => {
                let error = self.error(header)?;
                assembly.error.get_or_insert(error);
            }
            kind => {
                return Err(ClientError::protocol(format!("an unexpected chunk of type {kind}")));
            }
        }
        if header.flags & chunk_flag::DONE == 0 {
            self.assemblies.insert(cookie, assembly);
            return Ok(None);
        }
        self.pending.remove(cookie);
        let Assembly { data, covered, holes, status, error } = assembly;
        let result = match (error, expected.sort) {
            (Some(error), _) => Err(error),
            (None, Sort::Data) if covered != expected.extent.length => {
                return Err(ClientError::protocol("an incomplete reply to a read"));
            }
            (None, Sort::Status(contexts)) if contexts.count() != status.len() => {
                return Err(ClientError::protocol("a status that lacks a context"));
            }
            (None, _) => Ok(data),
        };
        Ok(Some(Reply { cookie, result, holes, status }))
    }

    /// Takes in data or a hole. Memory is what was asked for, never what the server claims.
    fn content(&mut self, header: Chunk, assembly: &mut Assembly) -> Result<(), ClientError> {
        let expected = header.expected;
        let outside = || ClientError::protocol("data outside what was asked for");
        let offset = u64::from_be_bytes(self.array()?);
        let length = match (header.kind, header.length) {
            (chunk::OFFSET_DATA, length @ 9..) => u64::from(length - 8),
            (chunk::OFFSET_HOLE, 12) => match u32::from_be_bytes(self.array()?) {
                0 => return Err(ClientError::protocol("a hole of no bytes")),
                length => u64::from(length),
            },
            _ => return Err(ClientError::protocol("a chunk of a wrong length")),
        };
        let begin = offset.checked_sub(expected.extent.offset).ok_or_else(outside)?;
        let end = begin.checked_add(length).ok_or_else(outside)?;
        if end > expected.extent.length {
            return Err(outside());
        }
        assembly.covered += length;
        // Also what keeps chunks from coming without end.
        if assembly.covered > expected.extent.length {
            return Err(ClientError::protocol("two replies to a read"));
        }
        assembly.data.resize(expected.extent.length as usize, 0);
        if header.kind == chunk::OFFSET_DATA {
            self.fill(&mut assembly.data[begin as usize..end as usize])?;
        } else {
            assembly.holes.push(Extent::new(offset, length));
        }
        Ok(())
    }

    /// Takes in what one context says.
    fn status(&mut self, header: Chunk, assembly: &mut Assembly) -> Result<(), ClientError> {
        let broken = || ClientError::protocol("a status that makes no sense");
        let kind = match self.form {
            Form::Extended => chunk::BLOCK_STATUS_EXT,
            _ => chunk::BLOCK_STATUS,
        };
        let Sort::Status(wanted) = header.expected.sort else { return Err(broken()) };
        if header.kind != kind || header.length > LONGEST_STATUS {
            return Err(broken());
        }
        let mut payload = vec![0; header.length as usize];
        self.fill(&mut payload)?;
        let (number, extents) = extents(&payload, self.form).ok_or_else(broken)?;
        let context = self.chosen.context(number).ok_or_else(broken)?;
        let told = assembly.status.iter().any(|(told, _)| *told == context);
        if told || !wanted.has(context) {
            return Err(broken());
        }
        assembly.status.push((context, extents));
        Ok(())
    }

    fn error(&mut self, header: Chunk) -> Result<ServerError, ClientError> {
        if header.length > LONGEST_ERROR {
            return Err(ClientError::protocol(format!("an error of {} bytes", header.length)));
        }
        let mut payload = vec![0; header.length as usize];
        self.fill(&mut payload)?;
        let mut cursor = Cursor::new(&payload);
        let mut parse = || {
            let code = cursor.u32()?;
            let length = cursor.u16()?;
            Some((code, cursor.take(usize::from(length))?))
        };
        let (code, message) = parse().ok_or_else(|| ClientError::protocol("an error cut short"))?;
        let message = String::from_utf8_lossy(message).into_owned();
        Ok(ServerError { code: ErrorCode::from_wire(code), message })
    }

    fn expected(&self, cookie: Cookie) -> Result<Expected, ClientError> {
        self.pending.get(cookie).ok_or_else(|| {
            ClientError::protocol(format!("a reply to {cookie}, which was not sent"))
        })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ClientError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), ClientError> {
        self.reader.read_exact(buffer).map_err(ClientError::io(RECEIVING))
    }
}

/// The context's number and what it says; `None` where the payload is no status.
fn extents(payload: &[u8], form: Form) -> Option<(u32, Vec<StatusExtent>)> {
    let mut cursor = Cursor::new(payload);
    let number = cursor.u32()?;
    let count = if form == Form::Extended { Some(cursor.u32()?) } else { None };
    let mut extents = Vec::new();
    while !cursor.rest().is_empty() {
        let (length, flags) = match form {
            // No context known here has more than 32 flags.
            Form::Extended => (cursor.u64()?, u32::try_from(cursor.u64()?).ok()?),
            _ => (u64::from(cursor.u32()?), cursor.u32()?),
        };
        extents.push(StatusExtent { length, flags });
    }
    let sound = !extents.is_empty() && extents.iter().all(|extent| extent.length > 0);
    let counted = count.is_none_or(|count| count as usize == extents.len());
    (sound && counted).then_some((number, extents))
}
