// SPDX-License-Identifier: Apache-2.0
//! The kernel's messages about an attached volume's file. The kernel is no stranger, but what a program asks of the file
//! comes through it, and a message that was taken for another would write in the wrong place.
//!
//! Input: a byte for the file's shape, one for how long the message claims to be beyond its head (0: as its own write
//! says), then the head.

use crate::pieces::byte;
use helio_attach::{HEAD_BYTES, MAX_WRITE, Session, Shape, Step, Work};
use helio_units::{Bytes, Extent};

const SIZE: Bytes = Bytes::mib(8);
/// The kernel's own lengths of a request's head, and of it with a transfer's.
const HEAD: usize = 40;
const TRANSFER: usize = 80;

pub(crate) fn run(mut data: &[u8]) {
    let (shape, beyond) = (byte(&mut data), byte(&mut data));
    let shape = Shape {
        size: if shape & 8 != 0 { Bytes(SIZE.0 - 512) } else { SIZE },
        block: if shape & 1 != 0 || shape & 8 != 0 { 512 } else { 4096 },
        read_only: shape & 2 != 0,
        trims: shape & 4 != 0,
    };
    let head = &data[..data.len().min(HEAD_BYTES)];
    let size =
        head.get(56..60).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes);
    let length = match beyond {
        0 => TRANSFER.saturating_add(size as usize),
        more => head.len() + usize::from(more) - 1,
    };
    let session = Session::new(shape);
    let unique = head.get(8..16).and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes);
    match session.consume(head, length) {
        Step::Silent => {}
        Step::Answer(answer) => is_answer(&answer, unique, 0),
        Step::Work { unique: named, work } => {
            assert_eq!(Some(named), unique, "it would be answered as another");
            keeps_to(&shape, &work, length);
            let found = if let Work::Read { length, .. } = work { length } else { 0 };
            is_answer(&Session::done(named, &work), unique, found);
        }
    }
}

/// An answer says how long it is, with what follows it, and to what it is one.
fn is_answer(answer: &[u8], unique: Option<u64>, follows: usize) {
    assert!(answer.len() >= 16, "an answer without a head");
    let said = u32::from_ne_bytes([answer[0], answer[1], answer[2], answer[3]]);
    assert_eq!(said as usize, answer.len() + follows);
    let named = answer[8..16].try_into().map(u64::from_ne_bytes);
    assert_eq!(named.ok(), unique);
}

/// Whatever is asked for, what is done keeps to the file and its blocks.
fn keeps_to(shape: &Shape, work: &Work, message: usize) {
    let block = u64::from(shape.block);
    let inside = |extent: &Extent| {
        let end = extent.offset.checked_add(extent.length).expect("it does not run over");
        assert!(end <= shape.size.0 && extent.length > 0, "{extent} is not in the file");
        assert!(extent.offset.is_multiple_of(block) && extent.length.is_multiple_of(block));
    };
    match work {
        Work::Read { extent, skip, length } => {
            inside(extent);
            assert!(skip + length <= extent.length as usize, "bytes that are not read");
            assert!(*length <= MAX_WRITE as usize && *length > 0);
        }
        Work::Write { extent, .. } => {
            inside(extent);
            assert!(!shape.read_only && extent.length <= u64::from(MAX_WRITE));
            assert_eq!(extent.length as usize, message - TRANSFER, "payload of another length");
        }
        Work::Zero { extent, punch } => {
            inside(extent);
            assert!(!shape.read_only && (shape.trims || !punch));
        }
        Work::Flush => assert!(!shape.read_only),
    }
}

fn message(opcode: u32, unique: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![4, 1];
    bytes.extend(((HEAD + body.len()) as u32).to_ne_bytes());
    bytes.extend(opcode.to_ne_bytes());
    bytes.extend(unique.to_ne_bytes());
    bytes.resize(2 + HEAD, 0);
    bytes.extend(body);
    bytes
}

fn transfer(opcode: u32, offset: u64, size: u32) -> Vec<u8> {
    let mut body = 0_u64.to_ne_bytes().to_vec();
    body.extend(offset.to_ne_bytes());
    body.extend(size.to_ne_bytes());
    body.resize(TRANSFER - HEAD, 0);
    let mut bytes = message(opcode, 7, &body);
    bytes[1] = 0;
    bytes
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    const FSYNC: u32 = 20;
    const INIT: u32 = 26;
    const FALLOCATE: u32 = 43;
    let hello = [7_u32, 36, 131_072, u32::MAX].map(u32::to_ne_bytes).concat();
    let mut zero = 0_u64.to_ne_bytes().to_vec();
    zero.extend([8192_u64, 65_536].map(u64::to_ne_bytes).concat());
    zero.extend([3_u32, 0].map(u32::to_ne_bytes).concat());
    vec![
        ("init", message(INIT, 1, &hello)),
        ("read", transfer(15, 4096, 65_536)),
        ("read-at-the-end", transfer(15, SIZE.0 - 100, 65_536)),
        ("write", transfer(16, 8192, 4096)),
        ("write-beyond", transfer(16, u64::MAX - 4095, 4096)),
        ("fsync", message(FSYNC, 3, &[0; 16])),
        ("punch", message(FALLOCATE, 4, &zero)),
        ("getattr", message(3, 5, &[0; 16])),
        ("forget", message(2, 6, &[0; 8])),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_reach_what_they_are_named_for() {
        let shape = Shape { size: SIZE, block: 4096, read_only: false, trims: true };
        let work = |name: &str| {
            let (_, seed) = seeds().into_iter().find(|(of, _)| *of == name).expect("a seed");
            let head = &seed[2..];
            let length = if name == "write" { TRANSFER + 4096 } else { head.len() };
            Session::new(shape).consume(head, length)
        };
        for name in ["read", "write", "fsync", "punch"] {
            assert!(matches!(work(name), Step::Work { .. }), "{name}");
        }
        assert!(matches!(work("init"), Step::Answer(_)));
    }
}
