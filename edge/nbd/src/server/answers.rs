// SPDX-License-Identifier: Apache-2.0
//! Replies to requests.

use crate::codec::{ChunkHeader, Cookie, ErrorCode, SimpleReply, bounded, chunk, chunk_flag};

/// Success without data. Simple replies stay legal beside structured ones except for reads, and are shorter.
pub(super) fn done(cookie: Cookie, out: &mut Vec<u8>) {
    out.extend_from_slice(&SimpleReply { error: 0, cookie }.encode());
}

/// The header of a read's data.
pub(super) fn read(cookie: Cookie, offset: u64, length: u32, structured: bool, out: &mut Vec<u8>) {
    if !structured {
        return done(cookie, out);
    }
    // One chunk, marked as the last: the caller has the data in hand, so nothing can fail any more.
    let header = ChunkHeader {
        flags: chunk_flag::DONE,
        kind: chunk::OFFSET_DATA,
        cookie,
        // A read is at most MAX_PAYLOAD long.
        length: length.saturating_add(8),
    };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(&offset.to_be_bytes());
}

/// Failure, with the message where the client can take one.
pub(super) fn error(
    cookie: Cookie,
    code: ErrorCode,
    message: &str,
    structured: bool,
    out: &mut Vec<u8>,
) {
    if !structured {
        out.extend_from_slice(&SimpleReply { error: code.to_wire(), cookie }.encode());
        return;
    }
    let message = bounded(message);
    // At most 4096, so both casts are exact.
    let length = message.len() as u16;
    let header = ChunkHeader {
        flags: chunk_flag::DONE,
        kind: chunk::ERROR,
        cookie,
        length: u32::from(length) + 6,
    };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(&code.to_wire().to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(message.as_bytes());
}
