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
//! | request (client) | 28 (+ length) | magic u32, flags u16, command u16, cookie u64, offset u64, length u32, data of a write |
//! | simple reply | 16 (+ data) | magic u32, error u32, cookie u64, data of a read |
//! | structured chunk | 20 + length | magic u32, flags u16, type u16, cookie u64, length u32, payload |
//! | payload of offset-data | 8 + ... | offset u64, data |
//! | payload of offset-hole | 12 | offset u64, length u32 |
//! | payload of an error | 6 + ... | error u32, message length u16, message, more by type |

mod cursor;
mod error_code;
mod flags;
mod handshake;
mod transmission;

pub(crate) use cursor::Cursor;
pub use error_code::ErrorCode;
pub use flags::TransmissionFlags;
pub use handshake::{
    EXPORT_NAME_ZEROES, GREETING_LENGTH, Greeting, OptionHeader, OptionReplyHeader, client_flag,
    handshake_flag, info, option, reply,
};
pub use transmission::{
    ChunkHeader, Cookie, RequestHeader, SimpleReply, chunk, chunk_flag, command, command_flag,
    magic,
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
