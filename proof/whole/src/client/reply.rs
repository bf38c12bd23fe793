// SPDX-License-Identifier: Apache-2.0
//! Replies taken apart, from bytes that arrive in pieces of any size.

use crate::model::{Promise, Violation};
use helio_nbd::codec::{
    ChunkHeader, Cursor, ExtendedChunkHeader, MAX_STRING, SimpleReply, chunk, chunk_flag, magic,
};
use helio_nbd::{Cookie, ErrorCode, Form, MAX_PAYLOAD, MAX_STATUS_EXTENTS};
use helio_units::Extent;

/// What a reply may carry, as the request allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Data,
    Status,
    Nothing,
}

/// The request that a reply belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) sort: Sort,
    pub(super) extent: Extent,
}

/// What one chunk, or a simple reply, carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Nothing,
    Data {
        offset: u64,
        bytes: Vec<u8>,
    },
    Hole(Extent),
    /// Of the context of this number: length and flags of each stretch.
    Status {
        context: u32,
        stretches: Vec<(u64, u64)>,
    },
    Error(ErrorCode),
}

/// One chunk, or a simple reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) cookie: Cookie,
    pub(super) part: Part,
    /// The reply is complete.
    pub(super) last: bool,
}

/// The message at the front of `input`, and its length in bytes; `None` while it is not whole.
pub(super) fn next(
    input: &[u8],
    form: Form,
    expected: &dyn Fn(Cookie) -> Option<Expected>,
) -> Result<Option<(usize, Message)>, Violation> {
    let Some(word) = Cursor::new(input).u32() else { return Ok(None) };
    match (word, form) {
        (magic::SIMPLE_REPLY, Form::Simple | Form::Structured) => simple(input, form, expected),
        (magic::CHUNK, Form::Structured) => {
            let Some((head, rest)) = split::<{ ChunkHeader::LENGTH - 4 }>(input) else {
                return Ok(None);
            };
            let ChunkHeader { flags, kind, cookie, length } = ChunkHeader::decode_after_magic(head);
            let found = find(expected, cookie)?;
            let head = Head { flags, kind, cookie, length: length.into(), expected: found };
            Ok(chunk(head, form, rest)?
                .map(|(used, message)| (ChunkHeader::LENGTH + used, message)))
        }
        (magic::EXTENDED_CHUNK, Form::Extended) => {
            let Some((head, rest)) = split::<{ ExtendedChunkHeader::LENGTH - 4 }>(input) else {
                return Ok(None);
            };
            let ExtendedChunkHeader { flags, kind, cookie, offset, length } =
                ExtendedChunkHeader::decode_after_magic(head);
            let found = find(expected, cookie)?;
            if offset != found.extent.offset {
                return Err(broken(format!("a reply to {cookie} with offset {offset}")));
            }
            let head = Head { flags, kind, cookie, length, expected: found };
            let parsed = chunk(head, form, rest)?;
            Ok(parsed.map(|(used, message)| (ExtendedChunkHeader::LENGTH + used, message)))
        }
        _ => Err(broken(format!("{word:#010x} where a reply begins"))),
    }
}

struct Head {
    flags: u16,
    kind: u16,
    cookie: Cookie,
    length: u64,
    expected: Expected,
}

fn simple(
    input: &[u8],
    form: Form,
    expected: &dyn Fn(Cookie) -> Option<Expected>,
) -> Result<Option<(usize, Message)>, Violation> {
    let Some((head, rest)) = split::<{ SimpleReply::LENGTH - 4 }>(input) else { return Ok(None) };
    let SimpleReply { error, cookie } = SimpleReply::decode_after_magic(head);
    let Expected { sort, extent } = find(expected, cookie)?;
    let bare = sort == Sort::Nothing || sort == Sort::Status && error != 0;
    if form == Form::Structured && !bare {
        return Err(broken(format!("a simple reply to {cookie} where chunks were agreed on")));
    }
    let (used, part) = match (error, sort) {
        (0, Sort::Data) => {
            let Some(bytes) = rest.get(..extent.length as usize) else { return Ok(None) };
            (bytes.len(), Part::Data { offset: extent.offset, bytes: bytes.to_vec() })
        }
        (0, _) => (0, Part::Nothing),
        (number, _) => (0, Part::Error(ErrorCode::from_wire(number))),
    };
    Ok(Some((SimpleReply::LENGTH + used, Message { cookie, part, last: true })))
}

/// The chunk's payload at the front of `rest`.
fn chunk(head: Head, form: Form, rest: &[u8]) -> Result<Option<(usize, Message)>, Violation> {
    let Head { flags, kind, cookie, length, expected } = head;
    let longest = match expected.sort {
        Sort::Data => u64::from(MAX_PAYLOAD) + 8,
        Sort::Status => 8 + 16 * MAX_STATUS_EXTENTS as u64,
        Sort::Nothing => MAX_STRING as u64 + 64,
    };
    if length > longest.max(MAX_STRING as u64 + 64) {
        return Err(broken(format!("a chunk of {length} bytes for {cookie}")));
    }
    let Some(payload) = rest.get(..length as usize) else { return Ok(None) };
    let part = match (kind, expected.sort) {
        (chunk::NONE, _) => payload.is_empty().then_some(Part::Nothing),
        (chunk::OFFSET_DATA, Sort::Data) => data(payload),
        (chunk::OFFSET_HOLE, Sort::Data) => hole(payload),
        (chunk::BLOCK_STATUS, Sort::Status) if form == Form::Structured => status(payload, form),
        (chunk::BLOCK_STATUS_EXT, Sort::Status) if form == Form::Extended => status(payload, form),
        (kind, _) if kind & chunk::ERROR_BIT != 0 => error(payload),
        _ => None,
    };
    let part = part.ok_or_else(|| broken(format!("a chunk of type {kind} for {cookie}")))?;
    let last = flags & chunk_flag::DONE != 0;
    Ok(Some((payload.len(), Message { cookie, part, last })))
}

fn data(payload: &[u8]) -> Option<Part> {
    let mut cursor = Cursor::new(payload);
    let offset = cursor.u64()?;
    (!cursor.rest().is_empty()).then(|| Part::Data { offset, bytes: cursor.rest().to_vec() })
}

fn hole(payload: &[u8]) -> Option<Part> {
    let mut cursor = Cursor::new(payload);
    let extent = Extent::new(cursor.u64()?, u64::from(cursor.u32()?));
    (cursor.rest().is_empty() && extent.length > 0).then_some(Part::Hole(extent))
}

fn status(payload: &[u8], form: Form) -> Option<Part> {
    let mut cursor = Cursor::new(payload);
    let context = cursor.u32()?;
    let count = if form == Form::Extended { Some(cursor.u32()?) } else { None };
    let mut stretches = Vec::new();
    while !cursor.rest().is_empty() {
        stretches.push(match form {
            Form::Extended => (cursor.u64()?, cursor.u64()?),
            _ => (u64::from(cursor.u32()?), u64::from(cursor.u32()?)),
        });
    }
    let counted = count.is_none_or(|count| count as usize == stretches.len());
    let sound = !stretches.is_empty() && stretches.iter().all(|(length, _)| *length > 0);
    (counted && sound).then_some(Part::Status { context, stretches })
}

fn error(payload: &[u8]) -> Option<Part> {
    let mut cursor = Cursor::new(payload);
    let code = cursor.u32()?;
    let length = cursor.u16()?;
    cursor.take(usize::from(length))?;
    (code != 0).then(|| Part::Error(ErrorCode::from_wire(code)))
}

/// A header of `N` bytes behind the magic number, and what follows it.
fn split<const N: usize>(input: &[u8]) -> Option<(&[u8; N], &[u8])> {
    input.get(4..)?.split_first_chunk::<N>()
}

fn find(
    expected: &dyn Fn(Cookie) -> Option<Expected>,
    cookie: Cookie,
) -> Result<Expected, Violation> {
    expected(cookie).ok_or_else(|| {
        let detail = format!("a reply to {cookie}, which waits for none");
        Violation::new(Promise::AnsweredOnce, detail)
    })
}

fn broken(what: String) -> Violation {
    Violation::new(Promise::Protocol, format!("the server sent {what}"))
}
