// SPDX-License-Identifier: Apache-2.0
//! Our client against servers that are not quite right.

use crate::memory::Disk;
use helio_nbd::{
    Client, ClientError, Command, Contexts, Cookie, ErrorCode, Request, Session, SessionOptions,
    Step,
};
use helio_units::{Bytes, Extent};
use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::thread;

/// What the client does with each server: open, read, flush.
fn visit(stream: UnixStream) -> Result<Vec<u8>, ClientError> {
    let mut client = Client::over_unix(stream, "db/data")?;
    let mut block = vec![0; 600];
    client.read(100, &mut block)?;
    client.flush()?;
    Ok(block)
}

/// All that an honest server says to such a visitor. It can be said in advance, since nothing in it
/// depends on when it is said: the client counts its cookies from 0.
fn honest() -> &'static [u8] {
    static SAID: OnceLock<Vec<u8>> = OnceLock::new();
    SAID.get_or_init(|| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let visitor = thread::spawn(move || visit(ours));
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
                        session.reply_read(&request, &mut out);
                        out.extend_from_slice(&[9; 600]);
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
        assert_eq!(visitor.join().unwrap().unwrap(), [9; 600]);
        said
    })
}

/// Lets the client visit a server that says `words` and hangs up.
fn visit_one_saying(words: &[u8]) -> Result<Vec<u8>, ClientError> {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(words).unwrap();
    theirs.shutdown(Shutdown::Write).unwrap();
    visit(ours)
}

#[test]
fn what_was_said_can_be_played_back() {
    assert_eq!(visit_one_saying(honest()).unwrap(), [9; 600]);
}

#[test]
fn a_failed_read_brings_the_servers_words() {
    // The session's own words for it: a failed read, then the flush.
    let mut session = Session::with(SessionOptions::default());
    let (disk, mut words) = (Disk::new(Bytes::mib(1)), Vec::new());
    let flags = 3_u32.to_be_bytes();
    let chunks = [&b"IHAVEOPT"[..], &[0, 0, 0, 8, 0, 0, 0, 0]].concat();
    let enter = [&b"IHAVEOPT"[..], &[0, 0, 0, 7, 0, 0, 0, 6], &[0; 6]].concat();
    session.greeting(&mut words);
    for heard in [&flags[..], &chunks, &enter] {
        session.consume(heard, &disk, &mut words).unwrap();
    }
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
    let Err(ClientError::Failed { source, .. }) = visit_one_saying(&words) else {
        panic!("the error went unnoticed")
    };
    assert_eq!((source.code, source.message.as_str()), (ErrorCode::Io, "scratched"));
}

proptest! {
    #[test]
    fn a_server_cut_short_is_an_error(length in any::<prop::sample::Index>()) {
        let words = &honest()[..length.index(honest().len())];
        prop_assert!(visit_one_saying(words).is_err());
    }

    #[test]
    fn flipped_bytes_are_survived(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..=255), 1..4),
    ) {
        let mut words = honest().to_vec();
        for (place, bits) in flips {
            let at = place.index(words.len());
            words[at] ^= bits;
        }
        // A flip inside the data goes unnoticed, as it must; anything else has a name.
        if let Err(error) = visit_one_saying(&words) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn noise_is_survived(noise in prop::collection::vec(any::<u8>(), 0..2000), greeted: bool) {
        let greeting = if greeted { &honest()[..18] } else { &[] };
        prop_assert!(visit_one_saying(&[greeting, &noise].concat()).is_err());
    }
}
