// SPDX-License-Identifier: Apache-2.0
//! One session from greeting to end, and all that came of it. Every request is served at once.

use super::answers;
use super::shelf::{Disk, Shelf, status, worth_serving};
use crate::pieces::Cuts;
use helio_nbd::codec::{GREETING_LENGTH, Greeting};
use helio_nbd::{
    Command, Context, ErrorCode, ExportInfo, Form, MAX_NAME, MAX_OPTION_DATA, MAX_PAYLOAD,
    ReadPart, ReadPiece, Request, Session, SessionError, SessionOptions, Step, TlsPolicy,
    zero_runs,
};
use helio_units::Bytes;

/// The most a session ever holds: a partial option, and the name it chose contexts for.
const HELD_MAX: Bytes = Bytes(MAX_OPTION_DATA as u64 + MAX_NAME as u64);
/// The most one option is answered with, where exports are few and their descriptions short: two names that the
/// client sent, escaped.
const OPTION_ANSWER_MAX: usize = 8 << 10;
/// The longest header of a request, of which all but a byte may have come before.
const REQUEST_MAX: usize = 32;
/// Largest read that is answered with data here; a longer one is only begun.
const READ_MOST: u64 = 64 << 10;

/// What came of a stream. Chunks of a payload are joined, since where they are cut depends on the pieces.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) steps: Vec<Step>,
    payloads: Vec<Vec<u8>>,
    /// What was said until an export was entered.
    pub(super) haggled: Vec<u8>,
    /// What was said afterwards.
    served: Vec<u8>,
    pub(super) error: Option<SessionError>,
}

/// A session, its peer's export and what is under way.
struct Talk<'a> {
    session: Session,
    shelf: &'a Shelf,
    export: Option<ExportInfo>,
    disk: Disk,
    write: Option<(Request, Vec<u8>)>,
    told: Told,
}

/// Feeds both parts; TLS begins between them if it was promised by then.
pub(super) fn tell(policy: TlsPolicy, shelf: &Shelf, parts: [&[u8]; 2], cuts: Cuts) -> Told {
    let session = Session::with(SessionOptions { tls: policy });
    let mut greeting = Vec::new();
    session.greeting(&mut greeting);
    let greeting: [u8; GREETING_LENGTH] = greeting.try_into().expect("one greeting");
    assert!(Greeting::decode(&greeting).is_some());
    let (export, write, told) = (None, None, Told::default());
    let mut talk = Talk { session, shelf, export, disk: Disk::new(), write, told };
    'all: for part in parts {
        for piece in cuts.of(part) {
            if talk.hear(piece) {
                break 'all;
            }
        }
        if talk.told.steps.last() == Some(&Step::StartTls) {
            talk.session.secured();
        }
    }
    talk.told
}

impl Talk<'_> {
    /// Feeds one piece; whether the session is over.
    fn hear(&mut self, piece: &[u8]) -> bool {
        let mut rest = piece;
        loop {
            let mut out = Vec::new();
            let found = self.session.consume(rest, self.shelf, &mut out);
            self.heed(rest.len(), &out);
            let (used, step) = match found {
                Ok(found) => found,
                Err(error) => {
                    self.told.error = Some(error);
                    let after = self.session.consume(rest, self.shelf, &mut out);
                    assert_eq!(after, Err(SessionError::Ended), "it came back to life");
                    return true;
                }
            };
            let (taken, behind) = rest.split_at(used);
            match step {
                Step::NeedMore => {
                    assert!(behind.is_empty(), "a remainder was left behind");
                    return false;
                }
                Step::StartTls => {
                    assert!(behind.is_empty(), "plaintext was left behind");
                    self.told.steps.push(step);
                    return false;
                }
                Step::Disconnect => {
                    self.told.steps.push(step);
                    return true;
                }
                Step::Payload { chunk, last } => self.payload(&taken[chunk], last),
                Step::Ready { handle, ref name } => {
                    let export = self.shelf.export(handle);
                    assert_eq!(export.name, *name);
                    self.export = Some(export);
                    self.told.steps.push(step);
                }
                Step::Request(request) => {
                    self.told.steps.push(step);
                    self.request(request);
                }
                Step::Negotiating => self.told.steps.push(step),
            }
            rest = behind;
        }
    }

    /// What a call said and held is within its bounds, and is what a client can read.
    fn heed(&mut self, length: usize, out: &[u8]) {
        assert!(self.session.held() <= HELD_MAX, "it holds {}", self.session.held());
        if self.export.is_some() {
            assert!(out.len() <= 4 * (length + REQUEST_MAX), "{} bytes out", out.len());
            answers::refusals(self.session.form(), out);
            self.told.served.extend_from_slice(out);
        } else {
            assert!(out.len() <= OPTION_ANSWER_MAX, "{} bytes for one option", out.len());
            self.told.haggled.extend_from_slice(out);
        }
    }

    fn request(&mut self, request: Request) {
        let export = self.export.as_ref().expect("requests come behind an export");
        worth_serving(&request, export);
        assert!(self.write.is_none(), "a request within a payload");
        let left = self.session.payload_left();
        if request.command == Command::Write {
            assert_eq!(left.0, request.extent.length);
            // Nothing is set aside for what a client only announces.
            self.write = Some((request, Vec::new()));
        } else {
            assert_eq!(left, Bytes::ZERO);
            self.serve(&request, &[]);
        }
    }

    fn payload(&mut self, chunk: &[u8], last: bool) {
        assert!(!chunk.is_empty());
        let (request, payload) = self.write.as_mut().expect("a payload has its write");
        payload.extend_from_slice(chunk);
        let left = request.extent.length - payload.len() as u64;
        assert_eq!((self.session.payload_left().0, last), (left, left == 0));
        if let Some((request, payload)) = self.write.take_if(|_| last) {
            self.serve(&request, &payload);
            self.told.payloads.push(payload);
        }
    }

    /// Carries a request out, and reads the answer to it as its client would.
    fn serve(&mut self, request: &Request, payload: &[u8]) {
        let (session, form) = (&self.session, self.session.form());
        let mut out = Vec::new();
        if request.cookie.0 % 8 == 7 {
            let message = "é".repeat(request.cookie.0 as usize % 5000);
            session.reply_error(request, ErrorCode::Io, &message, &mut out);
            answers::failure(form, request, ErrorCode::Io, &out);
            self.told.served.extend(out);
            return;
        }
        let place = self.disk.place(request);
        match request.command {
            Command::Read => out = read(session, request, place),
            Command::BlockStatus => {
                let block = self.export.as_ref().map_or(1, |export| export.minimum_block);
                let said = status(request, block);
                let told = [(Context::Allocation, &said[..])];
                session.reply_block_status(request, &told, &mut out);
                answers::status(form, request, &said, &out);
            }
            _ => {
                session.reply_done(request, &mut out);
                answers::done(form, request, &out);
            }
        }
        match request.command {
            // What lies beyond the disk is forgotten.
            Command::Write => {
                let there = place.len();
                place.copy_from_slice(&payload[..there]);
            }
            Command::Trim | Command::WriteZeroes => place.fill(0),
            _ => {}
        }
        self.told.served.extend(out);
    }
}

/// Answers a read, holes left out.
fn read(session: &Session, request: &Request, place: &[u8]) -> Vec<u8> {
    let (form, length) = (session.form(), request.extent.length);
    let mut out = Vec::new();
    if length > READ_MOST || place.len() as u64 != length {
        session.reply_read(request, &mut out);
        assert!(length <= u64::from(MAX_PAYLOAD));
        answers::read_begun(form, request, &out);
        return out;
    }
    let parts = zero_runs(request.extent.offset, place, 512).map(ReadPart::from);
    session.reply_read_parts(request, parts, |piece| match piece {
        ReadPiece::Bytes(bytes) => out.extend_from_slice(bytes),
        ReadPiece::Payload(range) => out.extend_from_slice(&place[range]),
    });
    assert_eq!(answers::data(form, request, &out), place, "other data than there is");
    if form == Form::Simple {
        assert_eq!(out.len() as u64, 16 + length);
    }
    out
}
