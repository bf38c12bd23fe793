// SPDX-License-Identifier: Apache-2.0
//! The protocol's bytes: constants, and headers to and from arrays. All integers are big-endian.
//!
//! | message | bytes | fields, in order |
//! |---|---|---|
//! | greeting (server) | 18 | `NBDMAGIC` u64, `IHAVEOPT` u64, handshake flags u16 |
//! | client flags | 4 | flags u32 |
//! | option (client) | 16 + length | `IHAVEOPT` u64, option u32, length u32, data |
//! | answer to `EXPORT_NAME` | 10 or 134 | size u64, transmission flags u16, 124 zeroes unless `NO_ZEROES` |
//! | option reply (server) | 20 + length | magic u64, option u32, reply u32, length u32, data |
//! | data of `GO` and `INFO` | 6 + ... | name length u32, name, count u16, that many info types u16 |
//! | data of `REP_SERVER` | 4 + ... | name length u32, name, description |
//! | data of `REP_INFO` export | 12 | type u16, size u64, transmission flags u16 |
//! | data of `REP_INFO` block size | 14 | type u16, minimum u32, preferred u32, maximum payload u32 |
//! | data of `REP_INFO` name, description | 2 + ... | type u16, text |
//! | data of `LIST_META_CONTEXT` and `SET_META_CONTEXT` | 8 + ... | name length u32, name, count u32, that many of: query length u32, query |
//! | data of `REP_META_CONTEXT` | 4 + ... | context's number u32 (0 in a list), context's name |
//! | request (client) | 28 (+ length) | magic u32, flags u16, command u16, cookie u64, offset u64, length u32, data of a write |
//! | extended request (client) | 32 (+ length) | magic u32, flags u16, command u16, cookie u64, offset u64, length u64, payload where flags have `PAYLOAD_LEN` |
//! | payload of a filtered block status | 8 + 4 each | length of effect u64, numbers of contexts u32 |
//! | simple reply | 16 (+ data) | magic u32, error u32, cookie u64, data of a read |
//! | structured chunk | 20 + length | magic u32, flags u16, type u16, cookie u64, length u32, payload |
//! | extended chunk | 32 + length | magic u32, flags u16, type u16, cookie u64, request's offset u64, length u64, payload |
//! | payload of offset-data | 8 + ... | offset u64, data |
//! | payload of offset-hole | 12 | offset u64, length u32 |
//! | payload of block status | 4 + 8 each | context's number u32, then: length u32, flags u32 |
//! | payload of extended block status | 8 + 16 each | context's number u32, count u32, then: length u64, flags u64 |
//! | payload of an error | 6 + ... | error u32, message length u16, message, more by type |

mod context;
mod cursor;
mod error_code;
mod flags;
mod handshake;
mod transmission;

pub use context::{Context, Contexts, StatusExtent, status};
pub use cursor::Cursor;
pub use error_code::ErrorCode;
pub use flags::TransmissionFlags;
pub use handshake::{
    EXPORT_NAME_ZEROES, GREETING_LENGTH, Greeting, OptionHeader, OptionReplyHeader, client_flag,
    handshake_flag, info, option, reply,
};
pub use transmission::{
    ChunkHeader, Cookie, ExtendedChunkHeader, Form, RequestHeader, SimpleReply, chunk, chunk_flag,
    command, command_flag, magic,
};

/// The longest string the protocol allows, in bytes: export names, descriptions, messages.
pub const MAX_STRING: usize = 4096;

/// As much of `text` as the protocol allows in a string, cut between characters.
#[must_use]
pub fn bounded(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_STRING)]
}

/// `N` bytes of a fixed header, from `at`. Private to this folder, whose offsets are all constants.
fn field<const N: usize, const M: usize>(header: &[u8; M], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&header[at..at + N]);
    value
}

/// Lays values into a fixed header, one behind the other.
struct Layout<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Layout<N> {
    const fn new() -> Self {
        Self { bytes: [0; N], at: 0 }
    }

    fn put<const M: usize>(mut self, value: [u8; M]) -> Self {
        self.bytes[self.at..self.at + M].copy_from_slice(&value);
        self.at += M;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        let text = "é".repeat(MAX_STRING);
        assert_eq!(bounded(&text).len(), MAX_STRING);
        let odd = format!("a{text}");
        assert_eq!(bounded(&odd).len(), MAX_STRING - 1);
        assert_eq!(bounded("short"), "short");
    }
}
