// SPDX-License-Identifier: Apache-2.0
//! Our client against servers that are not quite right.

use crate::memory::Disk;
use helio_nbd::{
    Client, ClientError, ClientOptions, Command, Context, Contexts, Cookie, ErrorCode, Form,
    ReadPart, ReadPiece, Request, Session, SessionOptions, StatusExtent, Step,
};
use helio_units::{Bytes, Extent};
use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::thread;

/// What the client does with each server: open, read, flush, and ask for the status where it can.
fn visit(stream: UnixStream, form: Form) -> Result<Vec<u8>, ClientError> {
    let options = ClientOptions { form, contexts: Contexts::ALL };
    let mut client = Client::over_unix_with(stream, "db/data", options)?;
    let mut block = vec![0; 600];
    client.read(100, &mut block)?;
    client.flush()?;
    if !client.contexts().is_empty() {
        client.block_status(0, Bytes::mib(1), false)?;
    }
    Ok(block)
}

const FORMS: [Form; 3] = [Form::Simple, Form::Structured, Form::Extended];

/// All that an honest server says to such a visitor. It can be said in advance, since nothing in it
/// depends on when it is said: the client counts its cookies from 0.
fn honest(form: Form) -> &'static [u8] {
    static SAID: [OnceLock<Vec<u8>>; 3] = [const { OnceLock::new() }; 3];
    SAID[form as usize].get_or_init(|| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let visitor = thread::spawn(move || visit(ours, form));
        let disk = Disk::new(Bytes::mib(1));
        let (mut session, mut said) = (Session::with(SessionOptions::default()), Vec::new());
        session.greeting(&mut said);
        theirs.write_all(&said).unwrap();
        let mut input = [0; 4096];
        loop {
            let length = theirs.read(&mut input).unwrap();
            let (mut at, mut out) = (0, Vec::new());
            while at < length {
                let (used, step) = session.consume(&input[at..length], &disk, &mut out).unwrap();
                at += used;
                match step {
                    Step::Request(request) if request.command == Command::Read => {
                        // Data around a hole, where the form knows holes.
                        let parts = [(0..200, false), (200..300, true), (300..600, false)];
                        let parts = parts.map(ReadPart::from);
                        session.reply_read_parts(&request, parts, |piece| match piece {
                            ReadPiece::Bytes(bytes) => out.extend_from_slice(bytes),
                            ReadPiece::Payload(range) => {
                                out.extend(range.map(told_byte));
                            }
                        });
                    }
                    Step::Request(request) if request.command == Command::BlockStatus => {
                        let run = |length, flags| StatusExtent { length, flags };
                        let runs = [run(4096, 1), run(4096, 0), run(4096, 2)];
                        session.reply_block_status(
                            &request,
                            &[(Context::Allocation, &runs)],
                            &mut out,
                        );
                    }
                    Step::Request(request) => session.reply_done(&request, &mut out),
                    _ => {}
                }
            }
            if length == 0 {
                break;
            }
            theirs.write_all(&out).unwrap();
            said.extend_from_slice(&out);
        }
        assert_eq!(visitor.join().unwrap().unwrap(), told_data());
        said
    })
}

fn told_byte(at: usize) -> u8 {
    if (200..300).contains(&at) { 0 } else { 9 }
}

fn told_data() -> Vec<u8> {
    (0..600).map(told_byte).collect()
}

/// Lets the client visit a server that says `words` and hangs up.
fn visit_one_saying(words: &[u8], form: Form) -> Result<Vec<u8>, ClientError> {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(words).unwrap();
    theirs.shutdown(Shutdown::Write).unwrap();
    visit(ours, form)
}

#[test]
fn what_was_said_can_be_played_back() {
    for form in FORMS {
        assert_eq!(visit_one_saying(honest(form), form).unwrap(), told_data());
    }
}

#[test]
fn a_failed_read_brings_the_servers_words() {
    // All that precedes the answer to the read, and the session's own words for its failure.
    for form in [Form::Structured, Form::Extended] {
        let honest = honest(form);
        let mut session = Session::with(SessionOptions::default());
        let disk = Disk::new(Bytes::mib(1));
        let mut words = Vec::new();
        session.greeting(&mut words);
        let chunks = [&b"IHAVEOPT"[..], &[0, 0, 0, if form == Form::Extended { 11 } else { 8 }]];
        let choose = [
            &b"IHAVEOPT\0\0\0\x0a\0\0\0\x4c\0\0\0\x07db/data\0\0\0\x03"[..],
            b"\0\0\0\x0fbase:allocation\0\0\0\x10heliograph:marks\0\0\0\x12heliograph:changed",
        ];
        let enter = b"IHAVEOPT\0\0\0\x07\0\0\0\x0f\0\0\0\x07db/data\0\x01\0\x03";
        let agree = [&chunks.concat()[..], &[0; 4]].concat();
        for heard in [&3_u32.to_be_bytes()[..], &agree, &choose.concat(), enter] {
            session.consume(heard, &disk, &mut words).unwrap();
        }
        assert!(honest.starts_with(&words));
        let read = Request {
            cookie: Cookie(0),
            command: Command::Read,
            fua: false,
            no_hole: false,
            fast: false,
            one: false,
            contexts: Contexts::NONE,
            extent: Extent::new(100, 600),
        };
        session.reply_error(&read, ErrorCode::Io, "scratched", &mut words);
        let Err(ClientError::Failed { source, .. }) = visit_one_saying(&words, form) else {
            panic!("the error went unnoticed")
        };
        assert_eq!((source.code, source.message.as_str()), (ErrorCode::Io, "scratched"));
    }
}

#[test]
fn holes_of_nothing_and_data_twice_are_the_servers_fault() {
    let honest = honest(Form::Structured);
    let begin = honest.windows(4).position(|word| word == b"\x66\x8e\x33\xef").unwrap();
    let hole = |offset: u8, length: u8| {
        let front = b"\x66\x8e\x33\xef\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\x0c\0\0\0\0\0\0\0";
        [&front[..], &[offset, 0, 0, 0, length]].concat()
    };
    for (chunks, fault) in [
        (hole(100, 0), "a hole of no bytes"),
        (hole(100, 200).repeat(4), "two replies to a read"),
        (hole(99, 1), "data outside what was asked for"),
    ] {
        let words = [&honest[..begin], &chunks].concat();
        let error = visit_one_saying(&words, Form::Structured).unwrap_err().to_string();
        assert!(error.ends_with(fault), "{error}");
    }
}

fn any_form() -> impl Strategy<Value = Form> {
    prop_oneof![Just(Form::Simple), Just(Form::Structured), Just(Form::Extended)]
}

proptest! {
    #[test]
    fn a_server_cut_short_is_an_error(
        form in any_form(),
        length in any::<prop::sample::Index>(),
    ) {
        let words = &honest(form)[..length.index(honest(form).len())];
        prop_assert!(visit_one_saying(words, form).is_err());
    }

    #[test]
    fn flipped_bytes_are_survived(
        form in any_form(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..=255), 1..4),
    ) {
        let mut words = honest(form).to_vec();
        for (place, bits) in flips {
            let at = place.index(words.len());
            words[at] ^= bits;
        }
        // A flip inside the data goes unnoticed, as it must; anything else has a name.
        if let Err(error) = visit_one_saying(&words, form) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn noise_is_survived(
        form in any_form(),
        noise in prop::collection::vec(any::<u8>(), 0..2000),
        begun in any::<prop::sample::Index>(),
    ) {
        let begun = &honest(form)[..begun.index(honest(form).len())];
        // It may be that noise is the data of a read; whatever else it is, the client comes back.
        if let Err(error) = visit_one_saying(&[begun, &noise].concat(), form) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
