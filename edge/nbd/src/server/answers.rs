// SPDX-License-Identifier: Apache-2.0
//! Replies to requests, in each of the three forms. A read's payload is never touched here.

use crate::codec::{
    ChunkHeader, ErrorCode, ExtendedChunkHeader, Form, RequestHeader, SimpleReply, bounded, chunk,
    chunk_flag,
};
use crate::server::Request;
use helio_units::Extent;
use std::ops::Range;

/// A stretch of a read, as its answer is to present it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPart {
    /// Bytes it covers.
    pub length: u32,
    /// Whether it is zero throughout, so that its bytes need not travel.
    pub hole: bool,
}

impl From<(Range<usize>, bool)> for ReadPart {
    /// A run as [`zero_runs`](crate::zero_runs) finds them in the data of one read.
    fn from((run, hole): (Range<usize>, bool)) -> Self {
        Self { length: u32::try_from(run.len()).unwrap_or(u32::MAX), hole }
    }
}

/// What to send next of the answer to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadPiece<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// These bytes of the read's data, counted from the request's offset.
    Payload(Range<usize>),
}

/// Whom a reply is for.
#[derive(Clone, Copy)]
pub(super) struct Whom {
    cookie: crate::Cookie,
    offset: u64,
}

impl From<&Request> for Whom {
    fn from(request: &Request) -> Self {
        Self { cookie: request.cookie, offset: request.extent.offset }
    }
}

impl From<&RequestHeader> for Whom {
    fn from(header: &RequestHeader) -> Self {
        Self { cookie: header.cookie, offset: header.offset }
    }
}

/// The front of one chunk: its header, and fixed fields of its payload. Lives on the stack.
struct Front {
    bytes: [u8; Self::ROOM],
    used: usize,
}

impl Front {
    /// An extended header and the payload of a hole.
    const ROOM: usize = ExtendedChunkHeader::LENGTH + 12;

    /// A chunk's header in the form agreed on; `length` counts the payload behind it.
    fn chunk(form: Form, whom: Whom, flags: u16, kind: u16, length: u32) -> Self {
        let Whom { cookie, offset } = whom;
        let front = Self { bytes: [0; Self::ROOM], used: 0 };
        if form == Form::Extended {
            let length = u64::from(length);
            front.put(&ExtendedChunkHeader { flags, kind, cookie, offset, length }.encode())
        } else {
            front.put(&ChunkHeader { flags, kind, cookie, length }.encode())
        }
    }

    fn put(mut self, more: &[u8]) -> Self {
        self.bytes[self.used..self.used + more.len()].copy_from_slice(more);
        self.used += more.len();
        self
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

/// Appends a chunk's header.
pub(super) fn chunk_header(
    form: Form,
    whom: Whom,
    flags: u16,
    kind: u16,
    length: u32,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(Front::chunk(form, whom, flags, kind, length).bytes());
}

/// Success without data. Beside structured replies simple ones stay legal except for reads, and are
/// shorter; beside extended ones they are not.
pub(super) fn done(form: Form, whom: Whom, out: &mut Vec<u8>) {
    if form == Form::Extended {
        return chunk_header(form, whom, chunk_flag::DONE, chunk::NONE, 0, out);
    }
    out.extend_from_slice(&SimpleReply { error: 0, cookie: whom.cookie }.encode());
}

/// Failure, with the message where the client can take one.
pub(super) fn error(form: Form, whom: Whom, code: ErrorCode, message: &str, out: &mut Vec<u8>) {
    if form == Form::Simple {
        let reply = SimpleReply { error: code.to_wire(), cookie: whom.cookie };
        out.extend_from_slice(&reply.encode());
        return;
    }
    let message = bounded(message);
    // At most 4096, so the cast is exact.
    let length = message.len() as u16;
    chunk_header(form, whom, chunk_flag::DONE, chunk::ERROR, u32::from(length) + 6, out);
    out.extend_from_slice(&code.to_wire().to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(message.as_bytes());
}

/// The front of a read's data in one piece.
pub(super) fn read(form: Form, request: &Request, out: &mut Vec<u8>) {
    if form == Form::Simple {
        return done(form, request.into(), out);
    }
    out.extend_from_slice(content(form, request, request.extent, false, true).bytes());
}

/// A read's answer, one chunk per run of parts of the same sort. `parts` that do not cover the request
/// are filled up with data; what they cover beyond it is left out.
pub(super) fn read_parts(
    form: Form,
    request: &Request,
    parts: impl IntoIterator<Item = ReadPart>,
    mut each: impl FnMut(ReadPiece<'_>),
) {
    let Extent { offset, length } = request.extent;
    if form == Form::Simple {
        each(ReadPiece::Bytes(&SimpleReply { error: 0, cookie: request.cookie }.encode()));
        // A read is at most MAX_PAYLOAD long, so this cast and those below are exact.
        return each(ReadPiece::Payload(0..length as usize));
    }
    let mut chunk = |begin: u64, end: u64, hole: bool| {
        let extent = Extent::new(offset + begin, end - begin);
        let front = content(form, request, extent, hole, end == length);
        each(ReadPiece::Bytes(front.bytes()));
        if !hole {
            each(ReadPiece::Payload(begin as usize..end as usize));
        }
    };
    // The run that is open: where it began, where it ends so far, and its sort.
    let (mut begin, mut end, mut hole) = (0, 0, false);
    for part in parts {
        let part_end = (end + u64::from(part.length)).min(length);
        if part_end == end {
            continue;
        }
        // One chunk only: zeroes travel as data, unless there is nothing else.
        let part_hole = part.hole && (!request.one || (end == 0 && part_end == length));
        if part_hole != hole && end > begin {
            chunk(begin, end, hole);
            begin = end;
        }
        (end, hole) = (part_end, part_hole);
    }
    if end < length && hole {
        chunk(begin, end, hole);
        (begin, hole) = (end, false);
    }
    chunk(begin, length, hole);
}

/// The front of a chunk about `extent`. The last is marked as such: whoever answers has the data in
/// hand, so nothing can fail any more.
fn content(form: Form, request: &Request, extent: Extent, hole: bool, last: bool) -> Front {
    let flags = if last { chunk_flag::DONE } else { 0 };
    // A read is at most MAX_PAYLOAD long.
    let length = extent.length as u32;
    let offset = extent.offset.to_be_bytes();
    if hole {
        Front::chunk(form, request.into(), flags, chunk::OFFSET_HOLE, 12)
            .put(&offset)
            .put(&length.to_be_bytes())
    } else {
        Front::chunk(form, request.into(), flags, chunk::OFFSET_DATA, length.saturating_add(8))
            .put(&offset)
    }
}
