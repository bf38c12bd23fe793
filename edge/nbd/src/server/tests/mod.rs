// SPDX-License-Identifier: Apache-2.0
//! The session spoken to in raw bytes.

use super::*;
use crate::codec::{
    ChunkHeader, Contexts, Cookie, ExtendedChunkHeader, OptionHeader, OptionReplyHeader,
    RequestHeader, SimpleReply, TransmissionFlags, chunk, client_flag, command, command_flag,
    option, reply,
};
use helio_units::Extent;

mod contexts;
mod extended;
mod haggling;
mod holes;
mod requests;
mod securing;
mod streams;

/// Two exports, a door that is shut, and one that nobody should have configured.
struct Shelf;

fn volume(name: &str, handle: u64) -> ExportInfo {
    ExportInfo {
        name: name.into(),
        description: "a test volume".into(),
        size: Bytes::mib(1),
        read_only: false,
        volatile: false,
        trim: true,
        fast_zero: true,
        longest_effect: Bytes(u64::MAX),
        contexts: Contexts::ALL,
        minimum_block: 1,
        preferred_block: 4096,
        handle,
    }
}

impl Exports for Shelf {
    fn list(&self, each: &mut dyn FnMut(&ExportInfo)) {
        each(&volume("db/data", 7));
        each(&volume("db/log", 8));
    }

    fn open(&self, name: &str) -> Result<ExportInfo, OpenRefusal> {
        match name {
            "db/data" => Ok(volume(name, 7)),
            "plain" => Ok(ExportInfo { contexts: Contexts::NONE, ..volume(name, 10) }),
            "copy" => Ok(ExportInfo { read_only: true, volatile: true, ..volume(name, 11) }),
            "torn" => Ok(ExportInfo { volatile: true, ..volume(name, 12) }),
            "odd" => Ok(ExportInfo { minimum_block: 3, ..volume(name, 9) }),
            "shut" => Err(OpenRefusal::Policy("secondary here; promote it first".into())),
            _ => Err(OpenRefusal::Unknown),
        }
    }
}

/// More exports than a list may hold.
struct Warehouse;

impl Exports for Warehouse {
    fn list(&self, each: &mut dyn FnMut(&ExportInfo)) {
        for n in 0..100_000 {
            each(&volume(&format!("group/volume-{n}"), n));
        }
    }

    fn open(&self, _: &str) -> Result<ExportInfo, OpenRefusal> {
        Err(OpenRefusal::Unknown)
    }
}

const FLAGS: u32 = client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES;

fn sent_option(option: u32, data: &[u8]) -> Vec<u8> {
    let header = OptionHeader { option, length: u32::try_from(data.len()).unwrap() };
    [&header.encode()[..], data].concat()
}

fn go(name: &str, infos: &[u16]) -> Vec<u8> {
    let mut data = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&u16::try_from(infos.len()).unwrap().to_be_bytes());
    data.extend(infos.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

fn hello() -> Vec<u8> {
    FLAGS.to_be_bytes().to_vec()
}

fn header(command: u16, cookie: u64, offset: u64, length: u64) -> RequestHeader {
    RequestHeader { flags: 0, command, cookie: Cookie(cookie), offset, length }
}

fn request(command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    header(command, cookie, offset, length.into()).encode().to_vec()
}

/// The data of the options about contexts.
fn queries(export: &str, queries: &[&str]) -> Vec<u8> {
    let string =
        |text: &str| [&u32::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat();
    let count = u32::try_from(queries.len()).unwrap().to_be_bytes().to_vec();
    let all: Vec<u8> = queries.iter().flat_map(|query| string(query)).collect();
    [string(export), count, all].concat()
}

/// Feeds everything, in pieces of the given sizes over and over, and tells what came of it. Chunks of one
/// payload are joined, since where they are cut depends on the pieces.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    steps: Vec<Step>,
    payloads: Vec<Vec<u8>>,
    out: Vec<u8>,
    error: Option<SessionError>,
    held: usize,
}

fn feed_to(exports: &dyn Exports, bytes: &[u8], pieces: &[usize]) -> Told {
    feed_with(TlsPolicy::Off, exports, bytes, pieces)
}

fn feed_with(tls: TlsPolicy, exports: &dyn Exports, bytes: &[u8], pieces: &[usize]) -> Told {
    feed_in(tls, exports, &[bytes], pieces)
}

/// As `feed_to`, in parts whose ends are always cuts, so that TLS can begin there.
fn feed_in(tls: TlsPolicy, exports: &dyn Exports, parts: &[&[u8]], pieces: &[usize]) -> Told {
    let mut session = Session::with(SessionOptions { tls });
    let mut told =
        Told { steps: Vec::new(), payloads: Vec::new(), out: Vec::new(), error: None, held: 0 };
    let mut sizes = pieces.iter().cycle();
    let mut open = false;
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            let (piece, later) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
            rest = later;
            if told.feed_piece(&mut session, exports, piece, &mut open) {
                return told;
            }
        }
    }
    told
}

impl Told {
    /// Feeds one piece; whether the session is over. `open` is whether a payload is.
    fn feed_piece(
        &mut self,
        session: &mut Session,
        exports: &dyn Exports,
        piece: &[u8],
        open: &mut bool,
    ) -> bool {
        let mut at = 0;
        loop {
            let (used, step) = match session.consume(&piece[at..], exports, &mut self.out) {
                Ok(found) => found,
                Err(error) => {
                    self.error = Some(error);
                    return true;
                }
            };
            self.held = self.held.max(session.held());
            assert!(used <= piece.len() - at, "used more than there was");
            match step {
                Step::NeedMore => {
                    assert_eq!(at + used, piece.len(), "a remainder was left behind");
                    return false;
                }
                Step::StartTls => {
                    assert_eq!(at + used, piece.len(), "plaintext was left behind");
                    self.steps.push(step);
                    session.secured();
                    return false;
                }
                Step::Disconnect => {
                    self.steps.push(step);
                    return true;
                }
                Step::Payload { chunk, last } => {
                    assert!(!chunk.is_empty() && chunk.end <= used);
                    if !*open {
                        self.payloads.push(Vec::new());
                    }
                    self.payloads.last_mut().unwrap().extend_from_slice(&piece[at..][chunk]);
                    *open = !last;
                }
                other => self.steps.push(other),
            }
            at += used;
        }
    }
}

fn feed(bytes: &[u8]) -> Told {
    feed_to(&Shelf, bytes, &[usize::MAX])
}

/// The answers to options in `out`: option, kind, data.
fn answers(mut out: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some((header, rest)) = out.split_first_chunk() {
        let header = OptionReplyHeader::decode(header).unwrap();
        let (data, rest) = rest.split_at(header.length as usize);
        found.push((header.option, header.reply, data.to_vec()));
        out = rest;
    }
    found
}

fn kinds(out: &[u8]) -> Vec<u32> {
    answers(out).into_iter().map(|(_, kind, _)| kind).collect()
}

/// Everything up to the transmission phase.
fn serving(structured: bool) -> Vec<u8> {
    let chunks = if structured { sent_option(option::STRUCTURED_REPLY, &[]) } else { Vec::new() };
    [hello(), chunks, sent_option(option::EXPORT_NAME, b"db/data")].concat()
}

/// A session that serves on these terms, and the bytes it was brought there with.
fn served(form: Form, chosen: &[&str]) -> (Session, Vec<u8>) {
    let agree = match form {
        Form::Simple => Vec::new(),
        Form::Structured => sent_option(option::STRUCTURED_REPLY, &[]),
        Form::Extended => sent_option(option::EXTENDED_HEADERS, &[]),
    };
    let choose = match chosen {
        [] => Vec::new(),
        chosen => sent_option(option::SET_META_CONTEXT, &queries("db/data", chosen)),
    };
    let enter = sent_option(option::GO, &go("db/data", &[]));
    let stream = [hello(), agree, choose, enter].concat();
    let (mut session, mut out) = (Session::with(SessionOptions::default()), Vec::new());
    let mut at = 0;
    while at < stream.len() {
        at += session.consume(&stream[at..], &Shelf, &mut out).unwrap().0;
    }
    assert_eq!(session.form(), form);
    (session, stream)
}

/// A request a client could have sent.
fn asked(command: Command, offset: u64, length: u64) -> Request {
    Request {
        cookie: Cookie(5),
        command,
        fua: false,
        no_hole: false,
        fast: false,
        one: false,
        contexts: Contexts::NONE,
        extent: Extent::new(offset, length),
    }
}

/// What the session answers to requests alone.
fn replies(structured: bool, requests: &[u8]) -> (Told, Vec<u8>) {
    let before = feed(&serving(structured)).out.len();
    let told = feed(&[&serving(structured)[..], requests].concat());
    let out = told.out[before..].to_vec();
    (told, out)
}
