// SPDX-License-Identifier: Apache-2.0
//! Reads answered in parts.

use super::*;
use proptest::prelude::*;

fn part(length: u32, hole: bool) -> ReadPart {
    ReadPart { length, hole }
}

/// The bytes of an answer, made of a buffer that holds the data.
fn answer(form: Form, request: &Request, parts: &[ReadPart], data: &[u8]) -> Vec<u8> {
    let (session, _) = served(form, &[]);
    let mut out = Vec::new();
    session.reply_read_parts(request, parts.iter().copied(), |piece| match piece {
        ReadPiece::Bytes(bytes) => out.extend_from_slice(bytes),
        ReadPiece::Payload(range) => out.extend_from_slice(&data[range]),
    });
    out
}

#[test]
fn data_and_holes_are_these_bytes() {
    let request = asked(Command::Read, 512, 6);
    let parts = [part(2, false), part(3, true), part(1, false)];
    let data = [b"ab\0\0\0c", &[][..]].concat();
    let wanted: [&[u8]; 8] = [
        b"\x66\x8e\x33\xef\0\0\0\x01\0\0\0\0\0\0\0\x05\0\0\0\x0a\0\0\0\0\0\0\x02\0",
        b"ab",
        b"\x66\x8e\x33\xef\0\0\0\x02\0\0\0\0\0\0\0\x05\0\0\0\x0c\0\0\0\0\0\0\x02\x02",
        b"\0\0\0\x03",
        b"\x66\x8e\x33\xef\0\x01\0\x01\0\0\0\0\0\0\0\x05\0\0\0\x09\0\0\0\0\0\0\x02\x05",
        b"c",
        b"",
        b"",
    ];
    assert_eq!(answer(Form::Structured, &request, &parts, &data), wanted.concat());
    let wanted: [&[u8]; 6] = [
        b"\x6e\x8a\x27\x8c\0\0\0\x01\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\x0a",
        b"\0\0\0\0\0\0\x02\0ab",
        b"\x6e\x8a\x27\x8c\0\0\0\x02\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\x0c",
        b"\0\0\0\0\0\0\x02\x02\0\0\0\x03",
        b"\x6e\x8a\x27\x8c\0\x01\0\x01\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\x09",
        b"\0\0\0\0\0\0\x02\x05c",
    ];
    assert_eq!(answer(Form::Extended, &request, &parts, &data), wanted.concat());
    let simple = b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x05ab\0\0\0c";
    assert_eq!(answer(Form::Simple, &request, &parts, &data), simple);
}

#[test]
fn one_part_of_data_is_what_a_plain_answer_is() {
    for form in [Form::Simple, Form::Structured, Form::Extended] {
        let request = asked(Command::Read, 512, 4);
        let (session, _) = served(form, &[]);
        let mut plain = Vec::new();
        session.reply_read(&request, &mut plain);
        plain.extend_from_slice(b"data");
        assert_eq!(answer(form, &request, &[part(4, false)], b"data"), plain);
        assert_eq!(answer(form, &request, &[], b"data"), plain);
    }
}

/// Takes a structured answer apart: begin, length and sort of each chunk, and the data put together.
fn taken_apart(mut out: &[u8], offset: u64, length: usize) -> (Vec<(u64, u64, bool)>, Vec<u8>) {
    let (mut chunks, mut data) = (Vec::new(), vec![0xff; length]);
    let mut done = false;
    while let Some((front, rest)) = out.split_first_chunk::<20>() {
        assert!(!done, "a chunk behind the last");
        let header = ChunkHeader::decode_after_magic(front.last_chunk().unwrap());
        let (payload, rest) = rest.split_at(header.length as usize);
        let (begin, content) = payload.split_first_chunk().unwrap();
        let begin = u64::from_be_bytes(*begin) - offset;
        let at = begin as usize;
        let length = if header.kind == chunk::OFFSET_HOLE {
            let length = u32::from_be_bytes(*content.first_chunk().unwrap()) as usize;
            data[at..at + length].fill(0);
            length
        } else {
            data[at..at + content.len()].copy_from_slice(content);
            content.len()
        };
        chunks.push((begin, length as u64, header.kind == chunk::OFFSET_HOLE));
        done = header.flags & 1 != 0;
        out = rest;
    }
    assert!(done && out.is_empty());
    (chunks, data)
}

#[test]
fn a_client_that_wants_one_chunk_gets_one() {
    let request = Request { one: true, ..asked(Command::Read, 0, 6) };
    for (parts, hole) in [
        (&[part(3, true), part(3, false)][..], false),
        (&[part(3, false), part(3, true)], false),
        (&[part(6, true)], true),
        (&[part(9, true)], true),
        (&[part(3, true)], false),
        (&[], false),
    ] {
        let out = answer(Form::Structured, &request, parts, &[0; 6]);
        assert_eq!(taken_apart(&out, 0, 6).0, [(0, 6, hole)], "{parts:?}");
    }
}

proptest! {
    #[test]
    fn whatever_the_parts_the_chunks_cover_the_read_once(
        parts in prop::collection::vec((0_u32..40, any::<bool>()), 0..12),
        length in 1_u64..200,
        offset in 0_u64..1000,
    ) {
        let parts: Vec<_> = parts.into_iter().map(|(length, hole)| part(length, hole)).collect();
        // Data that is zero exactly where the parts say so.
        let mut truth: Vec<u8> = Vec::new();
        for part in &parts {
            truth.resize(truth.len() + part.length as usize, if part.hole { 0 } else { 7 });
        }
        truth.resize(length as usize, 7);
        let request = asked(Command::Read, offset, length);
        let out = answer(Form::Structured, &request, &parts, &truth);
        let (chunks, data) = taken_apart(&out, offset, length as usize);
        prop_assert_eq!(data, truth);
        let mut at = 0;
        for (n, (begin, length, hole)) in chunks.iter().enumerate() {
            prop_assert_eq!(*begin, at);
            prop_assert!(*length > 0 && (n == 0 || chunks[n - 1].2 != *hole));
            at += length;
        }
    }
}
