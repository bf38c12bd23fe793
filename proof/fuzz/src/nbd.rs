// SPDX-License-Identifier: Apache-2.0
//! An NBD client's bytes.
//!
//! Input: how the session goes about TLS, what its exports are like, two bytes that cut the stream, the length in two
//! bytes of what comes before TLS, then the stream.
//!
//! Rooms: `shelf` (the exports, and what they must be asked), `talk` (one session, fed), `answers` (what it says,
//! read again as a client would).

mod answers;
mod shelf;
mod talk;

use crate::pieces::{Cuts, byte, word};
use helio_nbd::codec::{OptionHeader, RequestHeader, client_flag, command, command_flag, option};
use helio_nbd::{Cookie, SessionError, Step, TlsPolicy};
use shelf::Shelf;
use talk::Told;

const POLICIES: [TlsPolicy; 4] =
    [TlsPolicy::Off, TlsPolicy::Offered, TlsPolicy::Required, TlsPolicy::Active];

pub(crate) fn run(mut data: &[u8]) {
    let policy = POLICIES[usize::from(byte(&mut data) % 4)];
    let shelf = Shelf::of(byte(&mut data));
    let cuts = Cuts::take(&mut data);
    let plain = word(&mut data).min(data.len());
    let parts = data.split_at(plain);
    let parts = [parts.0, parts.1];
    let mut whole = talk::tell(policy, &shelf, parts, Cuts::WHOLE);
    let mut cut = talk::tell(policy, &shelf, parts, cuts);
    for told in [&mut whole, &mut cut] {
        forget_broken_promise(told);
        answers::haggled(told);
        if let Some(error) = &told.error {
            assert!(error.to_string().starts_with("client "), "{error}");
        }
    }
    assert_eq!(whole, cut, "the cut makes a difference");
}

/// Plaintext behind STARTTLS ends a session whether or not it came in one piece with it; only in pieces had TLS been
/// promised by then.
fn forget_broken_promise(told: &mut Told) {
    if told.error == Some(SessionError::PlaintextBehindStartTls)
        && told.steps.last() == Some(&Step::StartTls)
    {
        told.steps.pop();
        // The acknowledgement: a header without data.
        told.haggled.truncate(told.haggled.len().saturating_sub(20));
    }
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let simple = [hello(), sent(option::EXPORT_NAME, b"data"), compact(0)].concat();
    let structured = [
        hello(),
        sent(option::LIST, b""),
        sent(option::STRUCTURED_REPLY, b""),
        sent(option::LIST_META_CONTEXT, &queries("data", &["base:"])),
        sent(option::SET_META_CONTEXT, &queries("data", &["base:allocation", "heliograph:marks"])),
        sent(option::INFO, &go("data", &[1, 2, 3])),
        sent(option::GO, &go("data", &[3])),
        compact(command_flag::DF),
    ];
    let extended = [
        hello(),
        sent(option::EXTENDED_HEADERS, b""),
        sent(
            option::SET_META_CONTEXT,
            &queries("vast", &["base:allocation", "heliograph:changed"]),
        ),
        sent(option::GO, &go("vast", &[0])),
        extended_requests(),
    ];
    let plain = [hello(), sent(option::STARTTLS, b"")].concat();
    let refused = [
        hello(),
        sent(option::GO, &go("shut", &[])),
        sent(option::GO, &go("nowhere", &[])),
        sent(option::INFO, &go("odd", &[])),
        sent(99, &[1; 9000]),
        sent(option::ABORT, b""),
    ];
    let secret = structured[1..].concat();
    let whole = |policy: u8, plain: &[u8], stream: &[u8]| {
        let length = (plain.len() as u16).to_le_bytes();
        [&[policy, 0b0000_1100, 40, 7], &length[..], plain, stream].concat()
    };
    vec![
        ("simple", whole(0, b"", &simple)),
        ("structured", whole(0, b"", &structured.concat())),
        ("extended", whole(0, b"", &extended.concat())),
        ("under-tls", whole(2, &plain, &secret)),
        ("before-tls", whole(1, &[&plain[..], b"more"].concat(), &secret)),
        ("refused", whole(3, b"", &refused.concat())),
    ]
}

pub(crate) fn hello() -> Vec<u8> {
    (client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES).to_be_bytes().to_vec()
}

pub(crate) fn sent(option: u32, data: &[u8]) -> Vec<u8> {
    [&OptionHeader { option, length: data.len() as u32 }.encode()[..], data].concat()
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

pub(crate) fn go(name: &str, infos: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((infos.len() as u16).to_be_bytes());
    data.extend(infos.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

pub(crate) fn queries(export: &str, queries: &[&str]) -> Vec<u8> {
    let count = (queries.len() as u32).to_be_bytes().to_vec();
    let all: Vec<u8> = queries.iter().flat_map(|query| string(query)).collect();
    [string(export), count, all].concat()
}

/// A request of every sort, flags that mean something with it, its offset and its length.
fn requests(read_flags: u16) -> Vec<RequestHeader> {
    let all = [
        (command::WRITE, command_flag::FUA, 4096, 512),
        (command::READ, read_flags, 4000, 1024),
        (command::READ, 0, 0, 0),
        (command::WRITE_ZEROES, command_flag::NO_HOLE, 4096, 4096),
        (command::WRITE_ZEROES, command_flag::FAST_ZERO, 0, 512),
        (command::TRIM, 0, 0, 1024),
        (command::CACHE, 0, 512, 512),
        (command::BLOCK_STATUS, 0, 0, 8192),
        (command::BLOCK_STATUS, command_flag::REQ_ONE, 512, 512),
        (command::FLUSH, 0, 0, 0),
        (command::WRITE, 0, u64::MAX - 100, 300),
    ];
    all.into_iter()
        .zip(1..)
        .map(|((command, flags, offset, length), cookie)| RequestHeader {
            flags,
            command,
            cookie: Cookie(cookie),
            offset,
            length,
        })
        .collect()
}

fn payload(header: &RequestHeader) -> Vec<u8> {
    let length = if header.command == command::WRITE { header.length as usize } else { 0 };
    (0..length).map(|n| n as u8).collect()
}

const LEAVE: RequestHeader =
    RequestHeader { flags: 0, command: command::DISC, cookie: Cookie(0), offset: 0, length: 0 };

pub(crate) fn compact(read_flags: u16) -> Vec<u8> {
    let each = |header: &RequestHeader| [&header.encode()[..], &payload(header)].concat();
    let mut stream: Vec<u8> = requests(read_flags).iter().flat_map(each).collect();
    stream.extend(LEAVE.encode());
    stream
}

fn extended_requests() -> Vec<u8> {
    let mut stream = Vec::new();
    for mut header in requests(0) {
        let payload = payload(&header);
        if !payload.is_empty() {
            header.flags |= command_flag::PAYLOAD_LEN;
        }
        stream.extend(header.encode_extended());
        stream.extend(payload);
    }
    // A block status about one context, named in a payload.
    let filter = [&4096_u64.to_be_bytes()[..], &2_u32.to_be_bytes()].concat();
    let header = RequestHeader {
        flags: command_flag::PAYLOAD_LEN,
        command: command::BLOCK_STATUS,
        cookie: Cookie(77),
        offset: 512,
        length: filter.len() as u64,
    };
    stream.extend(header.encode_extended());
    stream.extend(filter);
    stream.extend(LEAVE.encode_extended());
    stream
}
