// SPDX-License-Identifier: Apache-2.0
//! The handshake's numbers and headers.

use super::{Layout, field};

const NBDMAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
const IHAVEOPT: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;

/// Bytes of the server's greeting.
pub const GREETING_LENGTH: usize = 18;

/// Zeroes behind the answer to `EXPORT_NAME` for a client that did not ask to be spared them.
pub const EXPORT_NAME_ZEROES: usize = 124;

/// Flags of the server's greeting.
pub mod handshake_flag {
    /// The server answers every option.
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// The server can leave out the zeroes behind the answer to `EXPORT_NAME`.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Flags of the client's first word.
pub mod client_flag {
    /// The client understands answers to options.
    pub const FIXED_NEWSTYLE: u32 = 1 << 0;
    /// The client does not want the zeroes.
    pub const NO_ZEROES: u32 = 1 << 1;
}

/// Options a client may send.
pub mod option {
    /// Choose an export, without a way to be refused but the end of the connection.
    pub const EXPORT_NAME: u32 = 1;
    /// Leave.
    pub const ABORT: u32 = 2;
    /// List the exports.
    pub const LIST: u32 = 3;
    /// Encrypt from here on.
    pub const STARTTLS: u32 = 5;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and begin to use it.
    pub const GO: u32 = 7;
    /// Answer in self-describing chunks.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List the metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Use 64-bit lengths.
    pub const EXTENDED_HEADERS: u32 = 11;

    /// The option's name, for people.
    #[must_use]
    pub const fn name(option: u32) -> &'static str {
        match option {
            EXPORT_NAME => "EXPORT_NAME",
            ABORT => "ABORT",
            LIST => "LIST",
            STARTTLS => "STARTTLS",
            INFO => "INFO",
            GO => "GO",
            STRUCTURED_REPLY => "STRUCTURED_REPLY",
            LIST_META_CONTEXT => "LIST_META_CONTEXT",
            SET_META_CONTEXT => "SET_META_CONTEXT",
            EXTENDED_HEADERS => "EXTENDED_HEADERS",
            _ => "unknown",
        }
    }
}

/// Kinds of answers to an option. Errors have bit 31 set and may carry a message.
pub mod reply {
    /// Accepted, or the last of several answers.
    pub const ACK: u32 = 1;
    /// One export of a list.
    pub const SERVER: u32 = 2;
    /// One fact about an export.
    pub const INFO: u32 = 3;
    /// One metadata context: its number, then its name.
    pub const META_CONTEXT: u32 = 4;
    /// Set in every error.
    pub const ERROR_BIT: u32 = 1 << 31;
    /// The server does not know or offer the option.
    pub const ERR_UNSUP: u32 = ERROR_BIT | 1;
    /// The server's policy forbids it.
    pub const ERR_POLICY: u32 = ERROR_BIT | 2;
    /// The option's data makes no sense.
    pub const ERR_INVALID: u32 = ERROR_BIT | 3;
    /// The server's platform cannot do it.
    pub const ERR_PLATFORM: u32 = ERROR_BIT | 4;
    /// Only after STARTTLS.
    pub const ERR_TLS_REQD: u32 = ERROR_BIT | 5;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = ERROR_BIT | 6;
    /// The server is stopping.
    pub const ERR_SHUTDOWN: u32 = ERROR_BIT | 7;
    /// The client must ask for the block sizes first.
    pub const ERR_BLOCK_SIZE_REQD: u32 = ERROR_BIT | 8;
    /// The option or its answer is too large.
    pub const ERR_TOO_BIG: u32 = ERROR_BIT | 9;
    /// Only with extended headers.
    pub const ERR_EXT_HEADER_REQD: u32 = ERROR_BIT | 10;

    /// The error in words, for people.
    #[must_use]
    pub const fn meaning(reply: u32) -> &'static str {
        match reply {
            ERR_UNSUP => "not supported",
            ERR_POLICY => "forbidden by the server's policy",
            ERR_INVALID => "invalid",
            ERR_PLATFORM => "not possible on the server's platform",
            ERR_TLS_REQD => "requires TLS",
            ERR_UNKNOWN => "no such export",
            ERR_SHUTDOWN => "the server is stopping",
            ERR_BLOCK_SIZE_REQD => "requires that block sizes be asked for",
            ERR_TOO_BIG => "too large",
            ERR_EXT_HEADER_REQD => "requires extended headers",
            _ => "an error that is unknown to this client",
        }
    }
}

/// Kinds of facts about an export.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The export's canonical name.
    pub const NAME: u16 = 1;
    /// A line for people.
    pub const DESCRIPTION: u16 = 2;
    /// Minimum and preferred block, maximum payload.
    pub const BLOCK_SIZE: u16 = 3;
}

/// The server's first words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// See [`handshake_flag`].
    pub flags: u16,
}

impl Greeting {
    /// The bytes.
    #[must_use]
    pub fn encode(self) -> [u8; GREETING_LENGTH] {
        Layout::new()
            .put(NBDMAGIC.to_be_bytes())
            .put(IHAVEOPT.to_be_bytes())
            .put(self.flags.to_be_bytes())
            .bytes
    }

    /// The greeting in `bytes`, `None` where this is no newstyle server.
    #[must_use]
    pub fn decode(bytes: &[u8; GREETING_LENGTH]) -> Option<Self> {
        let newstyle = u64::from_be_bytes(field(bytes, 0)) == NBDMAGIC
            && u64::from_be_bytes(field(bytes, 8)) == IHAVEOPT;
        newstyle.then(|| Self { flags: u16::from_be_bytes(field(bytes, 16)) })
    }
}

/// What precedes an option's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// See [`option`].
    pub option: u32,
    /// Bytes of data that follow.
    pub length: u32,
}

impl OptionHeader {
    /// Bytes on the wire.
    pub const LENGTH: usize = 16;

    /// The bytes.
    #[must_use]
    pub fn encode(self) -> [u8; Self::LENGTH] {
        Layout::new()
            .put(IHAVEOPT.to_be_bytes())
            .put(self.option.to_be_bytes())
            .put(self.length.to_be_bytes())
            .bytes
    }

    /// The header in `bytes`.
    ///
    /// # Errors
    /// The magic number found, where it is not an option's.
    pub fn decode(bytes: &[u8; Self::LENGTH]) -> Result<Self, u64> {
        match u64::from_be_bytes(field(bytes, 0)) {
            IHAVEOPT => Ok(Self {
                option: u32::from_be_bytes(field(bytes, 8)),
                length: u32::from_be_bytes(field(bytes, 12)),
            }),
            magic => Err(magic),
        }
    }
}

/// What precedes the data of an answer to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionReplyHeader {
    /// The option answered.
    pub option: u32,
    /// See [`reply`].
    pub reply: u32,
    /// Bytes of data that follow.
    pub length: u32,
}

impl OptionReplyHeader {
    /// Bytes on the wire.
    pub const LENGTH: usize = 20;

    /// The bytes.
    #[must_use]
    pub fn encode(self) -> [u8; Self::LENGTH] {
        Layout::new()
            .put(OPTION_REPLY.to_be_bytes())
            .put(self.option.to_be_bytes())
            .put(self.reply.to_be_bytes())
            .put(self.length.to_be_bytes())
            .bytes
    }

    /// The header in `bytes`.
    ///
    /// # Errors
    /// The magic number found, where it is not an option reply's.
    pub fn decode(bytes: &[u8; Self::LENGTH]) -> Result<Self, u64> {
        match u64::from_be_bytes(field(bytes, 0)) {
            OPTION_REPLY => Ok(Self {
                option: u32::from_be_bytes(field(bytes, 8)),
                reply: u32::from_be_bytes(field(bytes, 12)),
                length: u32::from_be_bytes(field(bytes, 16)),
            }),
            magic => Err(magic),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_is_recognised_and_an_old_one_is_not() {
        let greeting = Greeting { flags: handshake_flag::FIXED_NEWSTYLE };
        let mut bytes = greeting.encode();
        assert_eq!(&bytes[..16], b"NBDMAGICIHAVEOPT");
        assert_eq!(Greeting::decode(&bytes), Some(greeting));
        bytes[8..16].copy_from_slice(&0x0000_4202_8186_1253_u64.to_be_bytes());
        assert_eq!(Greeting::decode(&bytes), None);
    }

    #[test]
    fn option_headers_come_back_as_they_went() {
        let header = OptionHeader { option: option::GO, length: 10 };
        assert_eq!(OptionHeader::decode(&header.encode()), Ok(header));
        let answer = OptionReplyHeader { option: option::GO, reply: reply::ACK, length: 0 };
        assert_eq!(OptionReplyHeader::decode(&answer.encode()), Ok(answer));
        assert_eq!(OptionHeader::decode(&[0; 16]), Err(0));
    }
}
