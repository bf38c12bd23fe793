// SPDX-License-Identifier: Apache-2.0
//! The transmission phase, told request by request.

use super::*;

#[test]
fn a_write_is_handed_out_in_place() {
    let (told, out) = replies(
        false,
        &[request(command::WRITE, 1, 4096, 5), b"hello".to_vec(), request(2, 0, 0, 0)].concat(),
    );
    assert!(out.is_empty());
    assert_eq!(told.payloads, [b"hello"]);
    let Step::Request(write) = &told.steps[told.steps.len() - 2] else { panic!("no request") };
    assert_eq!((write.command, write.extent), (Command::Write, Extent::new(4096, 5)));
    assert_eq!(told.steps.last(), Some(&Step::Disconnect));
}

#[test]
fn the_payload_left_is_known_so_that_it_can_be_received_in_place() {
    let mut session = Session::with(SessionOptions::default());
    let mut out = Vec::new();
    let stream = [serving(false), request(command::WRITE, 1, 0, 100)].concat();
    let mut at = 0;
    while at < stream.len() {
        at += session.consume(&stream[at..], &Shelf, &mut out).unwrap().0;
    }
    assert_eq!(session.payload_left(), Bytes(100));
    let (used, step) = session.consume(&[1; 60], &Shelf, &mut out).unwrap();
    assert_eq!((used, step), (60, Step::Payload { chunk: 0..60, last: false }));
    assert_eq!(session.payload_left(), Bytes(40));
    let (used, step) = session.consume(&[1; 60], &Shelf, &mut out).unwrap();
    assert_eq!((used, step), (40, Step::Payload { chunk: 0..40, last: true }));
    assert_eq!(session.payload_left(), Bytes::ZERO);
}

#[test]
fn a_refused_write_is_skipped_and_then_answered() {
    let beyond = [request(command::WRITE, 5, 1 << 20, 3), b"abc".to_vec()].concat();
    let (told, out) = replies(false, &[beyond.clone(), request(command::READ, 6, 0, 1)].concat());
    let enospc = SimpleReply { error: ErrorCode::NoSpace.to_wire(), cookie: Cookie(5) };
    assert_eq!(out, enospc.encode());
    assert!(matches!(told.steps.last(), Some(Step::Request(read)) if read.cookie == Cookie(6)));
    // Not before its last byte.
    assert!(replies(false, &beyond[..beyond.len() - 1]).1.is_empty());
}

#[test]
fn a_structured_refusal_says_why() {
    let (_, out) = replies(true, &request(command::READ, 5, 1 << 20, 1));
    let message = b"exceeds the end of the export";
    let length = u32::try_from(message.len()).unwrap() + 6;
    let header = ChunkHeader { flags: 1, kind: chunk::ERROR, cookie: Cookie(5), length };
    assert_eq!(out, [&header.encode()[..], &[0, 0, 0, 22, 0, 29], message].concat());
}

#[test]
fn an_oversize_write_is_answered_and_an_absurd_one_ends_it() {
    let length = MAX_PAYLOAD + 1;
    let oversize = [request(command::WRITE, 5, 0, length), vec![0; length as usize]].concat();
    let (told, out) = replies(false, &oversize);
    assert!(told.payloads.is_empty() && told.error.is_none());
    let invalid = SimpleReply { error: ErrorCode::Invalid.to_wire(), cookie: Cookie(5) };
    assert_eq!(out, invalid.encode());
    let length = MAX_ANSWERED_PAYLOAD + 1;
    let (told, _) = replies(false, &request(command::WRITE, 5, 0, length));
    assert_eq!(told.error, Some(SessionError::PayloadTooLong { length: length.into() }));
}

#[test]
fn replies_take_the_form_agreed_on() {
    for (form, read, error, done) in [
        (Form::Simple, 16, 16, 16),
        (Form::Structured, 28, 26 + 4096, 16),
        (Form::Extended, 40, 38 + 4096, 32),
    ] {
        let (session, _) = served(form, &[]);
        let request = asked(Command::Read, 512, 4);
        let mut out = Vec::new();
        session.reply_read(&request, &mut out);
        assert_eq!(out.len(), read);
        out.clear();
        session.reply_error(&request, ErrorCode::Io, &"x".repeat(10_000), &mut out);
        assert_eq!(out.len(), error);
        out.clear();
        session.reply_done(&asked(Command::Trim, 512, 4), &mut out);
        assert_eq!(out.len(), done);
    }
}

#[test]
fn the_one_chunk_flag_is_offered_only_with_chunks() {
    for structured in [false, true] {
        let out = feed(&serving(structured)).out;
        let flags = TransmissionFlags(u16::from_be_bytes(*out.last_chunk().unwrap()));
        assert_eq!(flags.has(TransmissionFlags::SEND_DF), structured);
    }
}

#[test]
fn fua_reaches_the_caller() {
    let header = RequestHeader { flags: command_flag::FUA, ..header(command::WRITE, 1, 0, 1) };
    let (told, _) = replies(false, &[&header.encode()[..], &[1]].concat());
    assert!(matches!(told.steps.last(), Some(Step::Request(write)) if write.fua));
}

#[test]
fn a_session_told_of_growth_serves_the_grown_part() {
    for form in [Form::Simple, Form::Structured, Form::Extended] {
        let (mut session, _) = served(form, &[]);
        let read = header(command::READ, 1, 1 << 20, 512);
        let bytes = match form {
            Form::Extended => read.encode_extended().to_vec(),
            _ => read.encode().to_vec(),
        };
        let mut out = Vec::new();
        assert_eq!(session.consume(&bytes, &Shelf, &mut out).unwrap().1, Step::NeedMore);
        assert!(!out.is_empty(), "the refusal");
        session.resized(Bytes::mib(2));
        let (_, step) = session.consume(&bytes, &Shelf, &mut out).unwrap();
        assert!(matches!(step, Step::Request(request) if request.extent.offset == 1 << 20));
    }
}

#[test]
fn a_client_that_would_resize_is_told_whose_business_that_is() {
    let (_, out) = replies(true, &request(command::RESIZE, 1, 0, 512));
    assert!(out.ends_with(b"a volume cannot be resized by clients"));
    assert_eq!(out[20..24], [0, 0, 0, 22]);
}

#[test]
fn outstanding_requests_are_answered_in_the_form_agreed_on_after_the_client_left() {
    let (mut session, _) = served(Form::Extended, &[]);
    let mut out = Vec::new();
    let leave = header(command::DISC, 0, 0, 0).encode_extended();
    assert_eq!(session.consume(&leave, &Shelf, &mut out).unwrap().1, Step::Disconnect);
    session.reply_done(&asked(Command::Flush, 0, 0), &mut out);
    assert_eq!(out.len(), 32);
}
