// SPDX-License-Identifier: Apache-2.0
//! The session spoken to in raw bytes.

use super::*;
use crate::codec::{
    ChunkHeader, OptionHeader, OptionReplyHeader, RequestHeader, SimpleReply, TransmissionFlags,
    chunk, client_flag, command, command_flag, option, reply,
};

mod haggling;
mod requests;
mod streams;

/// Two exports, a door that is shut, and one that nobody should have configured.
struct Shelf;

fn volume(name: &str, handle: u64) -> ExportInfo {
    ExportInfo {
        name: name.into(),
        description: "a test volume".into(),
        size: Bytes::mib(1),
        read_only: false,
        trim: true,
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

fn request(command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    RequestHeader { flags: 0, command, cookie: Cookie(cookie), offset, length }.encode().to_vec()
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
    let mut session = Session::new();
    let (mut steps, mut payloads, mut out) = (Vec::new(), Vec::<Vec<u8>>::new(), Vec::new());
    let (mut held, mut open) = (0, false);
    let mut rest = bytes;
    let mut sizes = pieces.iter().cycle();
    while !rest.is_empty() {
        let (piece, later) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
        rest = later;
        let mut at = 0;
        loop {
            let (used, step) = match session.consume(&piece[at..], exports, &mut out) {
                Ok(told) => told,
                Err(error) => return Told { steps, payloads, out, error: Some(error), held },
            };
            held = held.max(session.held());
            assert!(used <= piece.len() - at, "used more than there was");
            match step {
                Step::NeedMore => {
                    assert_eq!(at + used, piece.len(), "a remainder was left behind");
                    break;
                }
                Step::Disconnect => {
                    steps.push(Step::Disconnect);
                    return Told { steps, payloads, out, error: None, held };
                }
                Step::Payload { chunk, last } => {
                    assert!(!chunk.is_empty() && chunk.end <= used);
                    if !open {
                        payloads.push(Vec::new());
                    }
                    payloads.last_mut().unwrap().extend_from_slice(&piece[at..][chunk]);
                    open = !last;
                }
                other => steps.push(other),
            }
            at += used;
        }
    }
    Told { steps, payloads, out, error: None, held }
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

/// What the session answers to requests alone.
fn replies(structured: bool, requests: &[u8]) -> (Told, Vec<u8>) {
    let before = feed(&serving(structured)).out.len();
    let told = feed(&[&serving(structured)[..], requests].concat());
    let out = told.out[before..].to_vec();
    (told, out)
}
