// SPDX-License-Identifier: Apache-2.0
//! Extended headers: agreed on, and then used for everything.

use super::*;
use crate::codec::Context;

/// An extended request with these flags.
fn extended(flags: u16, command: u16, offset: u64, length: u64) -> Vec<u8> {
    RequestHeader { flags, ..header(command, 5, offset, length) }.encode_extended().to_vec()
}

const PAYLOAD: u16 = command_flag::PAYLOAD_LEN;

/// What these requests lead to if all contexts were chosen: steps, and the codes of refusals.
fn requested(requests: &[u8]) -> (Told, Vec<u32>) {
    let (_, before) = served(Form::Extended, &Context::ALL.map(Context::name));
    let silent = feed(&before).out.len();
    let mut told = feed(&[&before[..], requests].concat());
    let told_before = feed(&before).steps.len();
    told.steps.drain(..told_before);
    let mut out = &told.out[silent..];
    let mut codes = Vec::new();
    while let Some((first, rest)) = out.split_first_chunk::<32>() {
        assert_eq!(first[..8], [0x6e, 0x8a, 0x27, 0x8c, 0, 1, 0x80, 1], "no refusal");
        let header = ExtendedChunkHeader::decode_after_magic(first.last_chunk().unwrap());
        let (payload, rest) = rest.split_at(header.length as usize);
        codes.push(u32::from_be_bytes(*payload.first_chunk().unwrap()));
        out = rest;
    }
    (told, codes)
}

#[test]
fn extended_headers_are_more_than_chunks_and_need_go() {
    let chunks = sent_option(option::STRUCTURED_REPLY, &[]);
    let headers = sent_option(option::EXTENDED_HEADERS, &[]);
    let told = feed(&[hello(), chunks.clone(), headers.clone(), chunks].concat());
    assert_eq!(kinds(&told.out), [reply::ACK, reply::ACK, reply::ERR_EXT_HEADER_REQD]);
    let old = sent_option(option::EXPORT_NAME, b"db/data");
    let told = feed(&[hello(), headers, old].concat());
    let Some(SessionError::ExportRefused { reason }) = told.error else { panic!("was let in") };
    assert!(reason.contains("GO"));
}

#[test]
fn a_compact_request_is_a_stranger_where_headers_are_extended() {
    let (told, _) = requested(&[request(command::READ, 1, 0, 1), vec![0; 4]].concat());
    assert_eq!(told.error, Some(SessionError::RequestMagic { found: 0x2560_9513 }));
    let extended = extended(0, command::READ, 0, 1);
    let (told, _) = replies(true, &extended);
    assert_eq!(told.error, Some(SessionError::RequestMagic { found: 0x21e4_1c71 }));
}

#[test]
fn a_write_has_a_payload_whether_it_says_so_or_not() {
    // QEMU's client does not say so.
    for flags in [PAYLOAD, 0] {
        let write = [&extended(flags, command::WRITE, 4096, 5)[..], b"hello"].concat();
        let (told, codes) = requested(&[write, extended(0, command::READ, 0, 1)].concat());
        assert_eq!((told.payloads, codes), (vec![b"hello".to_vec()], vec![]));
        let [Step::Request(write), Step::Request(read)] = &told.steps[..] else { panic!("lost") };
        assert_eq!((write.command, write.extent), (Command::Write, Extent::new(4096, 5)));
        assert_eq!(read.command, Command::Read);
    }
}

#[test]
fn a_payload_nobody_asked_for_is_skipped_and_refused() {
    for number in [0, 3, 4, 5, 6, 8, 4711] {
        let stray = [extended(PAYLOAD, number, 0, 40), vec![0x21; 40]].concat();
        let (told, codes) = requested(&[stray, extended(0, command::READ, 0, 1)].concat());
        assert_eq!((told.error, codes), (None, vec![22]), "command {number}");
        assert_eq!(told.steps.len(), 1);
    }
    let leave = extended(PAYLOAD, command::DISC, 0, 40);
    assert_eq!(requested(&leave).0.steps, [Step::Disconnect]);
    let length = u64::from(MAX_ANSWERED_PAYLOAD) + 1;
    for length in [length, u64::MAX] {
        for number in [command::WRITE, command::TRIM] {
            let (told, _) = requested(&extended(PAYLOAD, number, 0, length));
            assert_eq!(told.error, Some(SessionError::PayloadTooLong { length }));
        }
    }
}

#[test]
fn lengths_have_64_bits() {
    for (number, code) in [(command::READ, 75), (command::TRIM, 22), (command::WRITE_ZEROES, 28)] {
        for length in [1 << 32, (1 << 32) + 512, u64::MAX] {
            assert_eq!(requested(&extended(0, number, 0, length)).1, [code]);
        }
    }
}

#[test]
fn a_refusal_names_the_requests_offset() {
    let (told, _) = requested(&extended(0, command::READ, 1 << 20, 1));
    let message = b"exceeds the end of the export";
    let wanted: [&[u8]; 8] = [
        &[0x6e, 0x8a, 0x27, 0x8c],
        &[0, 1, 0x80, 1],
        &[0, 0, 0, 0, 0, 0, 0, 5],
        &[0, 0, 0, 0, 0, 0x10, 0, 0],
        &[0, 0, 0, 0, 0, 0, 0, 35],
        &[0, 0, 0, 22],
        &[0, 29],
        message,
    ];
    assert!(told.out.ends_with(&wanted.concat()));
}

#[test]
fn success_and_data_are_these_bytes() {
    let (session, _) = served(Form::Extended, &[]);
    let mut out = Vec::new();
    session.reply_done(&asked(Command::Flush, 0, 0), &mut out);
    let front = b"\x6e\x8a\x27\x8c\0\x01\0\0\0\0\0\0\0\0\0\x05";
    assert_eq!(out, [&front[..], &[0; 16]].concat());
    out.clear();
    session.reply_read(&asked(Command::Read, 512, 4), &mut out);
    let front = b"\x6e\x8a\x27\x8c\0\x01\0\x01\0\0\0\0\0\0\0\x05";
    let offset = 512_u64.to_be_bytes();
    assert_eq!(out, [&front[..], &offset, &12_u64.to_be_bytes(), &offset].concat());
}

/// The payload of a filtered status.
fn filter(length: u64, numbers: &[u32]) -> Vec<u8> {
    [length.to_be_bytes().to_vec(), numbers.iter().flat_map(|n| n.to_be_bytes()).collect()].concat()
}

fn filtered(filter: &[u8]) -> Vec<u8> {
    let length = filter.len() as u64;
    [&extended(PAYLOAD, command::BLOCK_STATUS, 4096, length)[..], filter].concat()
}

#[test]
fn a_status_may_name_its_contexts() {
    for (numbers, count) in [(&[1][..], 1), (&[2], 1), (&[2, 1], 2), (&[3, 2, 1], 3)] {
        let (told, codes) = requested(&filtered(&filter(8192, numbers)));
        assert!(codes.is_empty());
        let Some(Step::Request(status)) = told.steps.last() else { panic!("no request") };
        assert_eq!((status.command, status.contexts.count()), (Command::BlockStatus, count));
        assert_eq!(status.extent, Extent::new(4096, 8192));
    }
    let (told, _) = requested(&extended(0, command::BLOCK_STATUS, 4096, 8192));
    let Some(Step::Request(status)) = told.steps.last() else { panic!("no request") };
    assert_eq!((status.contexts, status.extent), (Contexts::ALL, Extent::new(4096, 8192)));
}

#[test]
fn a_filter_that_makes_no_sense_is_consumed_and_refused() {
    for wrong in [
        Vec::new(),
        vec![0; 7],
        filter(8192, &[]),
        filter(8192, &[1, 1]),
        filter(8192, &[4]),
        filter(8192, &[1, 2, 4]),
        [filter(8192, &[1]), vec![0]].concat(),
        filter(0, &[1]),
        filter(2 << 20, &[1]),
        vec![0; 100_000],
    ] {
        let next = extended(0, command::READ, 0, 1);
        let (told, codes) = requested(&[filtered(&wrong), next].concat());
        assert_eq!((told.error, codes), (None, vec![22]), "{} bytes", wrong.len());
        assert!(matches!(&told.steps[..], [Step::Request(read)] if read.command == Command::Read));
    }
}

#[test]
fn filters_are_offered_where_contexts_were_chosen() {
    for (form, chosen, offered) in [
        (Form::Extended, &["base:allocation"][..], true),
        (Form::Extended, &[], false),
        (Form::Structured, &["base:allocation"], false),
    ] {
        let (_, stream) = served(form, chosen);
        let told = feed(&stream);
        let facts = answers(&told.out);
        let fact = facts.iter().find(|(_, kind, _)| *kind == reply::INFO).unwrap();
        let flags = TransmissionFlags(u16::from_be_bytes(*fact.2.last_chunk().unwrap()));
        assert_eq!(flags.has(TransmissionFlags::BLOCK_STATUS_PAYLOAD), offered);
    }
}
