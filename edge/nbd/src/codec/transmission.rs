// SPDX-License-Identifier: Apache-2.0
//! The transmission phase's numbers and headers.

use super::{Layout, field};
use std::fmt;

/// What a client calls its request; the reply carries it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cookie(pub u64);

impl fmt::Display for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// What each message begins with.
pub mod magic {
    /// A request.
    pub const REQUEST: u32 = 0x2560_9513;
    /// A simple reply.
    pub const SIMPLE_REPLY: u32 = 0x6744_6698;
    /// A chunk of a structured reply.
    pub const CHUNK: u32 = 0x668e_33ef;
}

/// Commands.
pub mod command {
    /// Read bytes.
    pub const READ: u16 = 0;
    /// Write the bytes that follow.
    pub const WRITE: u16 = 1;
    /// Leave.
    pub const DISC: u16 = 2;
    /// Make every answered write durable.
    pub const FLUSH: u16 = 3;
    /// The bytes are no longer needed.
    pub const TRIM: u16 = 4;
    /// Make the bytes zero.
    pub const WRITE_ZEROES: u16 = 6;
}

/// Flags of a request.
pub mod command_flag {
    /// Durable before it is answered.
    pub const FUA: u16 = 1 << 0;
    /// Zeroes must stay allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// Answer a read in one chunk.
    pub const DF: u16 = 1 << 2;
}

/// Flags of a chunk.
pub mod chunk_flag {
    /// The reply's last chunk.
    pub const DONE: u16 = 1 << 0;
}

/// Types of chunks.
pub mod chunk {
    /// Nothing more to say.
    pub const NONE: u16 = 0;
    /// Bytes read.
    pub const OFFSET_DATA: u16 = 1;
    /// Bytes that read as zero.
    pub const OFFSET_HOLE: u16 = 2;
    /// Set in every error.
    pub const ERROR_BIT: u16 = 1 << 15;
    /// The request failed.
    pub const ERROR: u16 = ERROR_BIT | 1;
}

/// What a client asks, before anybody judged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// See [`command_flag`].
    pub flags: u16,
    /// See [`command`].
    pub command: u16,
    /// Its name.
    pub cookie: Cookie,
    /// First byte concerned.
    pub offset: u64,
    /// Bytes concerned.
    pub length: u32,
}

impl RequestHeader {
    /// Bytes on the wire.
    pub const LENGTH: usize = 28;

    /// The bytes.
    #[must_use]
    pub fn encode(self) -> [u8; Self::LENGTH] {
        Layout::new()
            .put(magic::REQUEST.to_be_bytes())
            .put(self.flags.to_be_bytes())
            .put(self.command.to_be_bytes())
            .put(self.cookie.0.to_be_bytes())
            .put(self.offset.to_be_bytes())
            .put(self.length.to_be_bytes())
            .bytes
    }

    /// The header in `bytes`.
    ///
    /// # Errors
    /// The magic number found, where it is not a request's.
    pub fn decode(bytes: &[u8; Self::LENGTH]) -> Result<Self, u32> {
        match u32::from_be_bytes(field(bytes, 0)) {
            magic::REQUEST => Ok(Self {
                flags: u16::from_be_bytes(field(bytes, 4)),
                command: u16::from_be_bytes(field(bytes, 6)),
                cookie: Cookie(u64::from_be_bytes(field(bytes, 8))),
                offset: u64::from_be_bytes(field(bytes, 16)),
                length: u32::from_be_bytes(field(bytes, 24)),
            }),
            other => Err(other),
        }
    }
}

/// An answer without description; the bytes of a read follow it where `error` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimpleReply {
    /// 0, or an error's number.
    pub error: u32,
    /// Whose answer.
    pub cookie: Cookie,
}

impl SimpleReply {
    /// Bytes on the wire, the magic number included.
    pub const LENGTH: usize = 16;

    /// The bytes.
    #[must_use]
    pub fn encode(self) -> [u8; Self::LENGTH] {
        Layout::new()
            .put(magic::SIMPLE_REPLY.to_be_bytes())
            .put(self.error.to_be_bytes())
            .put(self.cookie.0.to_be_bytes())
            .bytes
    }

    /// The reply whose magic number has been read already: it decides which of the two forms follows.
    #[must_use]
    pub fn decode_after_magic(bytes: &[u8; Self::LENGTH - 4]) -> Self {
        Self {
            error: u32::from_be_bytes(field(bytes, 0)),
            cookie: Cookie(u64::from_be_bytes(field(bytes, 4))),
        }
    }
}

/// What precedes one chunk of a structured reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// See [`chunk_flag`].
    pub flags: u16,
    /// See [`chunk`].
    pub kind: u16,
    /// Whose answer.
    pub cookie: Cookie,
    /// Bytes of payload that follow.
    pub length: u32,
}

impl ChunkHeader {
    /// Bytes on the wire, the magic number included.
    pub const LENGTH: usize = 20;

    /// The bytes.
    #[must_use]
    pub fn encode(self) -> [u8; Self::LENGTH] {
        Layout::new()
            .put(magic::CHUNK.to_be_bytes())
            .put(self.flags.to_be_bytes())
            .put(self.kind.to_be_bytes())
            .put(self.cookie.0.to_be_bytes())
            .put(self.length.to_be_bytes())
            .bytes
    }

    /// The header whose magic number has been read already.
    #[must_use]
    pub fn decode_after_magic(bytes: &[u8; Self::LENGTH - 4]) -> Self {
        Self {
            flags: u16::from_be_bytes(field(bytes, 0)),
            kind: u16::from_be_bytes(field(bytes, 2)),
            cookie: Cookie(u64::from_be_bytes(field(bytes, 4))),
            length: u32::from_be_bytes(field(bytes, 12)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmission_headers_come_back_as_they_went() {
        let request = RequestHeader {
            flags: command_flag::FUA,
            command: command::WRITE,
            cookie: Cookie(0x0123_4567_89ab_cdef),
            offset: 1 << 40,
            length: 4096,
        };
        assert_eq!(RequestHeader::decode(&request.encode()), Ok(request));
        let reply = SimpleReply { error: 5, cookie: Cookie(7) };
        assert_eq!(SimpleReply::decode_after_magic(&field(&reply.encode(), 4)), reply);
        let chunk = ChunkHeader {
            flags: chunk_flag::DONE,
            kind: chunk::ERROR,
            cookie: Cookie(8),
            length: 6,
        };
        assert_eq!(ChunkHeader::decode_after_magic(&field(&chunk.encode(), 4)), chunk);
    }

    #[test]
    fn a_stray_word_is_named() {
        assert_eq!(RequestHeader::decode(&[0x47; 28]), Err(0x4747_4747));
    }
}
