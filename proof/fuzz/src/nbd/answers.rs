// SPDX-License-Identifier: Apache-2.0
//! What a session says, read as a client reads it. Whatever does not read is a broken promise.

use super::talk::Told;
use helio_nbd::codec::{
    ChunkHeader, EXPORT_NAME_ZEROES, ExtendedChunkHeader, OptionReplyHeader, SimpleReply, chunk,
    chunk_flag, magic, reply,
};
use helio_nbd::{Cookie, ErrorCode, Form, MAX_STATUS_EXTENTS, Request, StatusExtent, Step};

/// One reply, or one chunk of one.
struct Piece<'a> {
    cookie: Cookie,
    done: bool,
    /// `None` for a simple reply.
    kind: Option<u16>,
    /// Of a simple reply or of a chunk that says so.
    error: u32,
    /// Behind a chunk's header.
    payload: &'a [u8],
}

fn split<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (front, rest) = bytes.split_at_checked(length).expect("an answer that ends too early");
    *bytes = rest;
    front
}

fn array<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    split(bytes, N).try_into().expect("that many")
}

/// Takes a reply or a chunk off the front.
fn piece<'a>(form: Form, bytes: &mut &'a [u8]) -> Piece<'a> {
    match (u32::from_be_bytes(array(bytes)), form) {
        (magic::SIMPLE_REPLY, Form::Simple | Form::Structured) => {
            let reply = SimpleReply::decode_after_magic(&array(bytes));
            let SimpleReply { error, cookie } = reply;
            Piece { cookie, done: true, kind: None, error, payload: &[] }
        }
        (magic::CHUNK, Form::Structured) => {
            let header = ChunkHeader::decode_after_magic(&array(bytes));
            chunk_of(header.flags, header.kind, header.cookie, header.length.into(), bytes)
        }
        (magic::EXTENDED_CHUNK, Form::Extended) => {
            let header = ExtendedChunkHeader::decode_after_magic(&array(bytes));
            chunk_of(header.flags, header.kind, header.cookie, header.length, bytes)
        }
        (other, form) => panic!("{other:#x} begins no answer of the form {form:?}"),
    }
}

fn chunk_of<'a>(
    flags: u16,
    kind: u16,
    cookie: Cookie,
    length: u64,
    bytes: &mut &'a [u8],
) -> Piece<'a> {
    assert_eq!(flags & !chunk_flag::DONE, 0, "flags {flags:#x}");
    let payload = split(bytes, usize::try_from(length).expect("fits"));
    let mut error = 0;
    if kind == chunk::ERROR {
        let mut rest = payload;
        error = u32::from_be_bytes(array(&mut rest));
        let length = u16::from_be_bytes(array(&mut rest));
        assert_eq!((rest.len(), error == 0), (usize::from(length), false));
        assert!(rest.len() <= 4096 && std::str::from_utf8(rest).is_ok(), "no text");
    }
    Piece { cookie, done: flags == chunk_flag::DONE, kind: Some(kind), error, payload }
}

/// Answers to requests that were not handed out: all of them errors.
pub(super) fn refusals(form: Form, mut out: &[u8]) {
    while !out.is_empty() {
        let found = piece(form, &mut out);
        assert!(found.done && found.error != 0, "a request was answered, and never handed out");
    }
}

/// The whole answer in one piece.
fn only(form: Form, request: &Request, mut out: &[u8]) -> u32 {
    let found = piece(form, &mut out);
    assert!(found.done && out.is_empty() && found.cookie == request.cookie);
    assert!(found.error != 0 || matches!(found.kind, None | Some(chunk::NONE)));
    found.error
}

/// The answer to what succeeded without data.
pub(super) fn done(form: Form, request: &Request, out: &[u8]) {
    assert_eq!(only(form, request, out), 0);
}

/// The answer to what failed.
pub(super) fn failure(form: Form, request: &Request, code: ErrorCode, out: &[u8]) {
    assert_eq!(only(form, request, out), code.to_wire());
}

/// The front of a read's answer whose data does not follow.
pub(super) fn read_begun(form: Form, request: &Request, out: &[u8]) {
    let mut rest = out;
    let length = match (u32::from_be_bytes(array(&mut rest)), form) {
        (magic::SIMPLE_REPLY, Form::Simple) => {
            let reply = SimpleReply::decode_after_magic(&array(&mut rest));
            assert_eq!((reply.error, reply.cookie), (0, request.cookie));
            return assert!(rest.is_empty());
        }
        (magic::CHUNK, Form::Structured) => {
            let header = ChunkHeader::decode_after_magic(&array(&mut rest));
            assert_eq!((header.kind, header.flags), (chunk::OFFSET_DATA, chunk_flag::DONE));
            u64::from(header.length)
        }
        (magic::EXTENDED_CHUNK, Form::Extended) => {
            let header = ExtendedChunkHeader::decode_after_magic(&array(&mut rest));
            assert_eq!((header.kind, header.flags), (chunk::OFFSET_DATA, chunk_flag::DONE));
            header.length
        }
        (other, form) => panic!("{other:#x} begins no answer of the form {form:?}"),
    };
    assert_eq!(length, request.extent.length + 8);
    assert_eq!(rest, request.extent.offset.to_be_bytes());
}

/// The data of a read, holes filled up.
pub(super) fn data(form: Form, request: &Request, mut out: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    if form == Form::Simple {
        let found = piece(form, &mut out);
        assert_eq!((found.error, found.cookie), (0, request.cookie));
        return out.to_vec();
    }
    let mut chunks = 0;
    loop {
        let Piece { cookie, done, kind, mut payload, .. } = piece(form, &mut out);
        chunks += 1;
        assert_eq!(cookie, request.cookie);
        // Chunks may come in any order; ours come in order, without a gap and without an overlap.
        let offset = u64::from_be_bytes(array(&mut payload));
        assert_eq!(offset, request.extent.offset + data.len() as u64);
        match kind {
            Some(chunk::OFFSET_DATA) => data.extend_from_slice(payload),
            Some(chunk::OFFSET_HOLE) => {
                let length = u32::from_be_bytes(array(&mut payload)) as usize;
                assert!(payload.is_empty() && length > 0);
                data.resize(data.len() + length, 0);
            }
            other => panic!("a chunk of type {other:?} in a read's answer"),
        }
        assert_eq!(done, out.is_empty(), "the last chunk and no other is marked");
        if done {
            assert!(chunks == 1 || !request.one, "{chunks} chunks, and one was asked for");
            return data;
        }
    }
}

/// The answer to a block status: a chunk for each context, of which the first was told of and the other was not.
pub(super) fn status(form: Form, request: &Request, said: &[StatusExtent], mut out: &[u8]) {
    let covered: u64 = said.iter().map(|extent| extent.length).sum();
    for (at, context) in request.contexts.iter().enumerate() {
        let Piece { cookie, done, kind, mut payload, .. } = piece(form, &mut out);
        assert_eq!((cookie, done), (request.cookie, at + 1 == request.contexts.count()));
        let extended = form == Form::Extended;
        let wanted = if extended { chunk::BLOCK_STATUS_EXT } else { chunk::BLOCK_STATUS };
        assert_eq!(kind, Some(wanted));
        let id = u32::from_be_bytes(array(&mut payload));
        assert!(id != 0);
        let count = extended.then(|| u32::from_be_bytes(array(&mut payload)) as usize);
        let extents = stretches(extended, payload);
        assert!(!extents.is_empty() && extents.len() <= MAX_STATUS_EXTENTS);
        assert_eq!(count.unwrap_or(extents.len()), extents.len());
        assert!(extents.len() == 1 || !request.one, "one stretch was asked for");
        assert!(extents.iter().all(|extent| extent.length > 0), "a stretch of nothing");
        let told: u64 = extents.iter().map(|extent| extent.length).sum();
        assert!(told <= request.extent.length, "more was told than was asked and known");
        let first = said.iter().find(|extent| extent.length > 0);
        match first.filter(|_| context == helio_nbd::Context::Allocation) {
            Some(first) => assert!(told <= covered && extents[0].flags == first.flags),
            None => assert_eq!(extents[0].flags, context.unknown()),
        }
    }
    assert!(out.is_empty(), "more than one chunk a context");
}

fn stretches(extended: bool, mut payload: &[u8]) -> Vec<StatusExtent> {
    let mut found = Vec::new();
    while !payload.is_empty() {
        let (length, flags) = if extended {
            (u64::from_be_bytes(array(&mut payload)), u64::from_be_bytes(array(&mut payload)))
        } else {
            let length = u32::from_be_bytes(array(&mut payload));
            (u64::from(length), u64::from(u32::from_be_bytes(array(&mut payload))))
        };
        found.push(StatusExtent { length, flags: u32::try_from(flags).expect("known flags") });
    }
    found
}

/// All that was said before an export was entered: answers to options, and behind them perhaps the one answer that
/// has no header.
pub(super) fn haggled(told: &Told) {
    let entered = told.steps.iter().any(|step| matches!(step, Step::Ready { .. }));
    let mut rest = &told.haggled[..];
    while let Some((header, behind)) = rest.split_first_chunk()
        && let Ok(header) = OptionReplyHeader::decode(header)
    {
        rest = behind;
        let data = split(&mut rest, header.length as usize);
        if header.reply & reply::ERROR_BIT != 0 {
            assert!(std::str::from_utf8(data).is_ok_and(|text| !text.is_empty()), "no text");
        }
        if header.reply == reply::ACK {
            assert!(data.is_empty());
        }
    }
    let bare = [10, 10 + EXPORT_NAME_ZEROES].contains(&rest.len()) && entered;
    assert!(rest.is_empty() || bare, "{} bytes that are no answer", rest.len());
}
