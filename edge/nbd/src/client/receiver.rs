// SPDX-License-Identifier: Apache-2.0
//! The half that receives replies, of either form and in any order.

use super::sender::{Expected, Pending};
use super::wire::Wire;
use super::{ClientError, ServerError};
use crate::codec::{
    ChunkHeader, Cookie, Cursor, ErrorCode, MAX_STRING, SimpleReply, chunk, chunk_flag, magic,
};
use std::collections::HashMap;
use std::io::{BufReader, Read};

const RECEIVING: &str = "receiving a reply";

/// Longest error chunk that is believed, in bytes: a longest message and what may surround it.
const LONGEST_ERROR: u32 = MAX_STRING as u32 + 64;

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whose answer.
    pub cookie: Cookie,
    /// The data of a read, nothing for other commands, or why it failed.
    pub result: Result<Vec<u8>, ServerError>,
}

/// A structured reply of which chunks are still to come.
#[derive(Default)]
struct Assembly {
    data: Vec<u8>,
    covered: u64,
    error: Option<ServerError>,
}

/// Receives replies as they come. It must be used for as long as the sender is: replies nobody takes
/// fill the socket and stop the server.
pub struct ClientReceiver {
    reader: BufReader<Wire>,
    pending: Pending,
    structured: bool,
    assemblies: HashMap<Cookie, Assembly>,
}

impl ClientReceiver {
    pub(super) fn new(reader: BufReader<Wire>, pending: Pending, structured: bool) -> Self {
        Self { reader, pending, structured, assemblies: HashMap::new() }
    }

    /// Waits for the next complete reply.
    ///
    /// # Errors
    /// What became of the connection, or how the server broke the protocol. A request that failed is
    /// no error here but in [`Reply::result`].
    pub fn receive(&mut self) -> Result<Reply, ClientError> {
        loop {
            match u32::from_be_bytes(self.array()?) {
                magic::SIMPLE_REPLY => return self.simple(),
                magic::CHUNK if self.structured => {
                    if let Some(reply) = self.chunk()? {
                        return Ok(reply);
                    }
                }
                magic::CHUNK => return Err(ClientError::protocol("a chunk nobody agreed on")),
                found => {
                    return Err(ClientError::protocol(format!(
                        "{found:#010x} where a reply begins"
                    )));
                }
            }
        }
    }

    fn simple(&mut self) -> Result<Reply, ClientError> {
        let SimpleReply { error, cookie } = SimpleReply::decode_after_magic(&self.array()?);
        let expected = self.expected(cookie)?;
        if self.structured && expected.reads {
            return Err(ClientError::protocol("a simple reply to a read, against the agreement"));
        }
        let mut data = Vec::new();
        if error == 0 && expected.reads {
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
        Ok(Reply { cookie, result })
    }

    /// Takes in one chunk; the reply where it was the last.
    fn chunk(&mut self) -> Result<Option<Reply>, ClientError> {
        let header = ChunkHeader::decode_after_magic(&self.array()?);
        let cookie = header.cookie;
        let expected = self.expected(cookie)?;
        let mut assembly = self.assemblies.remove(&cookie).unwrap_or_default();
        match header.kind {
            chunk::NONE if header.length == 0 => {}
            chunk::OFFSET_DATA | chunk::OFFSET_HOLE if expected.reads => {
                self.content(header, expected, &mut assembly)?;
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
        let result = match assembly.error {
            Some(error) => Err(error),
            None if expected.reads && assembly.covered != expected.extent.length => {
                return Err(ClientError::protocol("a read answered in part"));
            }
            None => Ok(assembly.data),
        };
        Ok(Some(Reply { cookie, result }))
    }

    /// Takes in data or a hole. Memory is what was asked for, never what the server claims.
    fn content(
        &mut self,
        header: ChunkHeader,
        expected: Expected,
        assembly: &mut Assembly,
    ) -> Result<(), ClientError> {
        let outside = || ClientError::protocol("data outside what was asked for");
        let offset = u64::from_be_bytes(self.array()?);
        let length = match (header.kind, header.length) {
            (chunk::OFFSET_DATA, length @ 9..) => u64::from(length - 8),
            (chunk::OFFSET_HOLE, 12) => u64::from(u32::from_be_bytes(self.array()?)),
            _ => return Err(ClientError::protocol("a chunk of a wrong length")),
        };
        let begin = offset.checked_sub(expected.extent.offset).ok_or_else(outside)?;
        let end = begin.checked_add(length).ok_or_else(outside)?;
        if end > expected.extent.length {
            return Err(outside());
        }
        assembly.covered += length;
        assembly.data.resize(expected.extent.length as usize, 0);
        if header.kind == chunk::OFFSET_DATA {
            self.fill(&mut assembly.data[begin as usize..end as usize])?;
        }
        Ok(())
    }

    fn error(&mut self, header: ChunkHeader) -> Result<ServerError, ClientError> {
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
            ClientError::protocol(format!("a reply to {cookie}, which nobody asked"))
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
