// SPDX-License-Identifier: Apache-2.0
//! The transmission phase's numbers and headers, compact and extended.
//!
//! | compact request | bytes | | extended request | bytes |
//! |---|---|---|---|---|
//! | magic `0x25609513` | 0..4 | | magic `0x21e41c71` | 0..4 |
//! | flags | 4..6 | | flags | 4..6 |
//! | command | 6..8 | | command | 6..8 |
//! | cookie | 8..16 | | cookie | 8..16 |
//! | offset | 16..24 | | offset | 16..24 |
//! | length of effect, or of a write's data | 24..28 | | length of the payload of a write or where flags have `PAYLOAD_LEN`, else of effect | 24..32 |
//!
//! | structured chunk | bytes | | extended chunk | bytes |
//! |---|---|---|---|---|
//! | magic `0x668e33ef` | 0..4 | | magic `0x6e8a278c` | 0..4 |
//! | flags | 4..6 | | flags | 4..6 |
//! | type | 6..8 | | type | 6..8 |
//! | cookie | 8..16 | | cookie | 8..16 |
//! | | | | the request's offset | 16..24 |
//! | length of the payload | 16..20 | | length of the payload | 24..32 |

use super::{Layout, field};
use std::fmt;

/// The form in which replies travel, by what was agreed on in the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// Bare replies: an error number, and the data of a read.
    #[default]
    Simple,
    /// Chunks that describe themselves; requests are compact.
    Structured,
    /// Extended headers both ways, with 64-bit lengths.
    Extended,
}

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
    /// A request with an extended header.
    pub const EXTENDED_REQUEST: u32 = 0x21e4_1c71;
    /// A simple reply.
    pub const SIMPLE_REPLY: u32 = 0x6744_6698;
    /// A chunk of a structured reply.
    pub const CHUNK: u32 = 0x668e_33ef;
    /// A chunk with an extended header.
    pub const EXTENDED_CHUNK: u32 = 0x6e8a_278c;
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
    /// The bytes will be wanted soon.
    pub const CACHE: u16 = 5;
    /// Make the bytes zero.
    pub const WRITE_ZEROES: u16 = 6;
    /// Tell what the chosen contexts say of the bytes.
    pub const BLOCK_STATUS: u16 = 7;
    /// Change the export's size: an experiment of the protocol's.
    pub const RESIZE: u16 = 8;
}

/// Flags of a request.
pub mod command_flag {
    /// Durable before it is answered.
    pub const FUA: u16 = 1 << 0;
    /// Zeroes must stay allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// Answer a read in one chunk.
    pub const DF: u16 = 1 << 2;
    /// Tell of one stretch per context.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Fail at once where zeroes are no faster than data.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// The length is that of a payload behind the header. Only in extended headers.
    pub const PAYLOAD_LEN: u16 = 1 << 5;
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
    /// What a context says, in 32-bit lengths.
    pub const BLOCK_STATUS: u16 = 5;
    /// What a context says, in 64-bit lengths. Only with extended headers.
    pub const BLOCK_STATUS_EXT: u16 = 6;
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
    /// Bytes concerned, or bytes of payload.
    pub length: u64,
}

impl RequestHeader {
    /// Bytes of a compact header on the wire.
    pub const LENGTH: usize = 28;

    /// Bytes of an extended header on the wire.
    pub const EXTENDED_LENGTH: usize = 32;

    /// The bytes of a compact header, which has 32 bits for the length: the caller sees to it that it fits.
    #[must_use]
    pub fn encode(self) -> [u8; Self::LENGTH] {
        debug_assert!(u32::try_from(self.length).is_ok(), "{} bytes", self.length);
        self.front(magic::REQUEST).put((self.length as u32).to_be_bytes()).bytes
    }

    /// The bytes of an extended header.
    #[must_use]
    pub fn encode_extended(self) -> [u8; Self::EXTENDED_LENGTH] {
        self.front(magic::EXTENDED_REQUEST).put(self.length.to_be_bytes()).bytes
    }

    fn front<const N: usize>(self, magic: u32) -> Layout<N> {
        Layout::new()
            .put(magic.to_be_bytes())
            .put(self.flags.to_be_bytes())
            .put(self.command.to_be_bytes())
            .put(self.cookie.0.to_be_bytes())
            .put(self.offset.to_be_bytes())
    }

    /// The compact header in `bytes`.
    ///
    /// # Errors
    /// The magic number found, where it is not a compact request's.
    pub fn decode(bytes: &[u8; Self::LENGTH]) -> Result<Self, u32> {
        let length = u64::from(u32::from_be_bytes(field(bytes, 24)));
        Self::read(bytes, magic::REQUEST, length)
    }

    /// The extended header in `bytes`.
    ///
    /// # Errors
    /// The magic number found, where it is not an extended request's.
    pub fn decode_extended(bytes: &[u8; Self::EXTENDED_LENGTH]) -> Result<Self, u32> {
        let length = u64::from_be_bytes(field(bytes, 24));
        Self::read(bytes, magic::EXTENDED_REQUEST, length)
    }

    fn read<const N: usize>(bytes: &[u8; N], magic: u32, length: u64) -> Result<Self, u32> {
        match u32::from_be_bytes(field(bytes, 0)) {
            found if found == magic => Ok(Self {
                flags: u16::from_be_bytes(field(bytes, 4)),
                command: u16::from_be_bytes(field(bytes, 6)),
                cookie: Cookie(u64::from_be_bytes(field(bytes, 8))),
                offset: u64::from_be_bytes(field(bytes, 16)),
                length,
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

/// What precedes one chunk of a reply where extended headers were agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedChunkHeader {
    /// See [`chunk_flag`].
    pub flags: u16,
    /// See [`chunk`].
    pub kind: u16,
    /// Whose answer.
    pub cookie: Cookie,
    /// The request's offset, whatever the payload is about.
    pub offset: u64,
    /// Bytes of payload that follow.
    pub length: u64,
}

impl ExtendedChunkHeader {
    /// Bytes on the wire, the magic number included.
    pub const LENGTH: usize = 32;

    /// The bytes.
    #[must_use]
    pub fn encode(self) -> [u8; Self::LENGTH] {
        Layout::new()
            .put(magic::EXTENDED_CHUNK.to_be_bytes())
            .put(self.flags.to_be_bytes())
            .put(self.kind.to_be_bytes())
            .put(self.cookie.0.to_be_bytes())
            .put(self.offset.to_be_bytes())
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
            offset: u64::from_be_bytes(field(bytes, 12)),
            length: u64::from_be_bytes(field(bytes, 20)),
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
    fn an_extended_request_is_these_bytes() {
        let request = RequestHeader {
            flags: command_flag::PAYLOAD_LEN | command_flag::FUA,
            command: command::WRITE,
            cookie: Cookie(0x0102_0304_0506_0708),
            offset: 1 << 40,
            length: 0x11_2233_4455,
        };
        let bytes = request.encode_extended();
        let wanted: [&[u8]; 6] = [
            &[0x21, 0xe4, 0x1c, 0x71],
            &[0, 0x21],
            &[0, 1],
            &[1, 2, 3, 4, 5, 6, 7, 8],
            &[0, 0, 1, 0, 0, 0, 0, 0],
            &[0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55],
        ];
        assert_eq!(bytes, *wanted.concat());
        assert_eq!(RequestHeader::decode_extended(&bytes), Ok(request));
        assert_eq!(RequestHeader::decode(&field(&bytes, 0)), Err(magic::EXTENDED_REQUEST));
    }

    #[test]
    fn an_extended_chunk_is_these_bytes() {
        let header = ExtendedChunkHeader {
            flags: chunk_flag::DONE,
            kind: chunk::BLOCK_STATUS_EXT,
            cookie: Cookie(9),
            offset: 4096,
            length: 24,
        };
        let bytes = header.encode();
        let wanted: [&[u8]; 6] = [
            &[0x6e, 0x8a, 0x27, 0x8c],
            &[0, 1],
            &[0, 6],
            &[0, 0, 0, 0, 0, 0, 0, 9],
            &[0, 0, 0, 0, 0, 0, 0x10, 0],
            &[0, 0, 0, 0, 0, 0, 0, 24],
        ];
        assert_eq!(bytes, *wanted.concat());
        assert_eq!(ExtendedChunkHeader::decode_after_magic(&field(&bytes, 4)), header);
    }

    #[test]
    fn a_stray_word_is_named() {
        assert_eq!(RequestHeader::decode(&[0x47; 28]), Err(0x4747_4747));
    }
}
