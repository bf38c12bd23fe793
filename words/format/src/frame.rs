// SPDX-License-Identifier: Apache-2.0
//! The frame that carries one message over a stream.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic `HLG1` |
//! | 4..6 | protocol version, little-endian |
//! | 6 | message kind |
//! | 7 | zero |
//! | 8..12 | body length |
//! | 12..16 | payload length |
//! | 16..20 | CRC-32C of the body |
//! | 20..24 | CRC-32C of the payload (zero without one) |
//! | 24..28 | zero |
//! | 28..32 | CRC-32C of bytes 0..28 |
//!
//! A header is valid if and only if its checksum matches, the magic and the zeros are there (a payload's checksum is
//! one where there is no payload), and the lengths are within [`BODY_BYTES_MAX`] and [`PAYLOAD_BYTES_MAX`]. The version is looked at after the checksum and before
//! anything else, so that a newer peer is named as such and not as corruption. Body follows header, payload
//! follows body. Lengths are believed only once the header's checksum matched: a flipped bit never makes us wait
//! for bytes that will not come.

use crate::Checksum;
use crate::message::{BODY_BYTES_MAX, Message, PAYLOAD_BYTES_MAX};
use alloc::vec::Vec;
use core::fmt;

/// The version this build speaks. It counts up with any change of a frame or a body (a test holds it to that).
pub const VERSION: u16 = 8;
/// Size of a header in bytes.
pub const HEADER_BYTES: usize = 32;
const MAGIC: [u8; 4] = *b"HLG1";

/// A header whose checksum matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Kind of the message.
    pub code: u8,
    /// Bytes of body that follow.
    pub body_length: u32,
    /// Bytes of payload behind the body.
    pub payload_length: u32,
    /// Checksum the body must have.
    pub body_crc: u32,
    /// Checksum the payload must have.
    pub payload_crc: u32,
}

/// Why a frame was refused. The connection ends; nothing of the frame was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The first four bytes are not ours: the peer is not a helio daemon.
    NotHeliograph,
    /// The header was damaged on its way.
    HeaderChecksum,
    /// The peer speaks another version.
    Version {
        /// Which one.
        theirs: u16,
    },
    /// A length is beyond its bound, or something stands where zeros belong.
    Length,
    /// The body was damaged on its way.
    BodyChecksum,
    /// The payload was damaged on its way.
    PayloadChecksum,
    /// The body does not decode as the kind it claims.
    Body {
        /// The kind byte.
        code: u8,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHeliograph => f.write_str("the peer does not speak the Heliograph protocol"),
            Self::HeaderChecksum => f.write_str("a frame header arrived damaged (checksum)"),
            Self::Version { theirs } => {
                write!(f, "the peer speaks protocol version {theirs}, this daemon speaks {VERSION}")
            }
            Self::Length => f.write_str("a frame announces more bytes than the protocol allows"),
            Self::BodyChecksum => f.write_str("a frame body arrived damaged (checksum)"),
            Self::PayloadChecksum => f.write_str("a payload arrived damaged (checksum)"),
            Self::Body { code } => write!(f, "a message of kind {code} cannot be decoded"),
        }
    }
}

impl core::error::Error for FrameError {}

/// Appends header and body of `message` to `out`; the caller sends the payload right behind.
pub fn encode(message: &Message, payload_crc: u32, checksum: Checksum, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + HEADER_BYTES, 0);
    message.encode(out);
    let body = &out[start + HEADER_BYTES..];
    let (body_length, body_crc) = (body.len(), checksum(body));
    assert!(body_length <= BODY_BYTES_MAX, "a body of {body_length} bytes");
    let header = &mut out[start..start + HEADER_BYTES];
    header[0..4].copy_from_slice(&MAGIC);
    header[4..6].copy_from_slice(&VERSION.to_le_bytes());
    header[6] = message.code();
    header[8..12].copy_from_slice(&(body_length as u32).to_le_bytes());
    header[12..16].copy_from_slice(&message.payload_length().to_le_bytes());
    header[16..20].copy_from_slice(&body_crc.to_le_bytes());
    header[20..24].copy_from_slice(&payload_crc.to_le_bytes());
    let crc = checksum(&header[..28]);
    header[28..32].copy_from_slice(&crc.to_le_bytes());
}

/// Reads a header.
///
/// # Errors
/// Names what is wrong with it.
pub fn decode_header(bytes: &[u8; HEADER_BYTES], checksum: Checksum) -> Result<Header, FrameError> {
    let word =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if bytes[0..4] != MAGIC {
        return Err(FrameError::NotHeliograph);
    }
    if word(28) != checksum(&bytes[..28]) {
        return Err(FrameError::HeaderChecksum);
    }
    let theirs = u16::from_le_bytes([bytes[4], bytes[5]]);
    if theirs != VERSION {
        return Err(FrameError::Version { theirs });
    }
    let header = Header {
        code: bytes[6],
        body_length: word(8),
        payload_length: word(12),
        body_crc: word(16),
        payload_crc: word(20),
    };
    let no_stray_crc = header.payload_length > 0 || header.payload_crc == 0;
    let zeros = bytes[7] == 0 && word(24) == 0 && no_stray_crc;
    if !zeros
        || header.body_length as usize > BODY_BYTES_MAX
        || header.payload_length > PAYLOAD_BYTES_MAX
    {
        return Err(FrameError::Length);
    }
    Ok(header)
}

/// Reads the body that followed `header`.
///
/// # Errors
/// The body was damaged or is none of its kind.
pub fn decode_body(
    header: &Header,
    body: &[u8],
    checksum: Checksum,
) -> Result<Message, FrameError> {
    if checksum(body) != header.body_crc {
        return Err(FrameError::BodyChecksum);
    }
    Message::decode(header.code, body, header.payload_length)
        .map_err(|bad| FrameError::Body { code: bad.code })
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
