// SPDX-License-Identifier: Apache-2.0
//! As much of generic netlink as one family takes that is asked one thing at a time: numbers and layouts of
//! `linux/netlink.h`, `linux/genetlink.h` and `linux/nbd-netlink.h`.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 4 | length of the whole message |
//! | 4 | 2 | family; 2 is the end of an answer, with a negated error number behind the header |
//! | 6 | 2 | flags: 1 is a request, 4 wants to be told of its end |
//! | 8 | 8 | sequence, port |
//! | 16 | 1 | command |
//! | 17 | 1 | version |
//! | 18 | 2 | nothing |
//! | 20 | | attributes: length u16 without padding, kind u16, value, padding to four bytes |

use crate::wire::bytes::{Reader, Writer};
use attribute::Attributes;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use std::io;
use std::os::fd::OwnedFd;

const HEADER: usize = 16;
/// An answer's end.
const ENDED: u16 = 2;
/// The family that knows the others, what asks it for one, and how one is named and answered.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_NUMBER: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// Longer answers than any asked for here.
const ANSWER_BYTES: usize = 8192;

/// What the family does.
pub(super) mod command {
    pub(in crate::nbd) const CONNECT: u8 = 1;
    pub(in crate::nbd) const DISCONNECT: u8 = 2;
    pub(in crate::nbd) const RECONFIGURE: u8 = 3;
}

/// What is said of a device.
pub(super) mod attribute {
    use super::Writer;

    pub(in crate::nbd) const INDEX: u16 = 1;
    pub(in crate::nbd) const SIZE: u16 = 2;
    pub(in crate::nbd) const BLOCK: u16 = 3;
    pub(in crate::nbd) const FLAGS: u16 = 5;
    const SOCKETS: u16 = 7;
    pub(in crate::nbd) const DEAD_CONNECTION_TIMEOUT: u16 = 8;
    pub(in crate::nbd) const BACKEND: u16 = 10;
    const SOCKET: u16 = 1;
    const SOCKET_NUMBER: u16 = 1;
    /// The value is attributes itself.
    const NESTED: u16 = 1 << 15;

    /// Attributes, one behind the other.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(in crate::nbd) struct Attributes(pub(super) Vec<u8>);

    impl Attributes {
        /// With others behind them.
        pub(in crate::nbd) fn and(mut self, others: Self) -> Self {
            self.0.extend(others.0);
            self
        }
    }

    fn one(kind: u16, value: &[u8]) -> Attributes {
        let mut bytes = Writer::default().u16(4 + value.len() as u16).u16(kind).0;
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        Attributes(bytes)
    }

    pub(in crate::nbd) fn u32(kind: u16, value: u32) -> Attributes {
        one(kind, &value.to_ne_bytes())
    }

    pub(in crate::nbd) fn u64(kind: u16, value: u64) -> Attributes {
        one(kind, &value.to_ne_bytes())
    }

    /// With the zero that ends it.
    pub(in crate::nbd) fn text(kind: u16, value: &str) -> Attributes {
        one(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// A list of one descriptor.
    pub(in crate::nbd) fn connection(number: u32) -> Attributes {
        let socket = one(SOCKET | NESTED, &u32(SOCKET_NUMBER, number).0);
        one(SOCKETS | NESTED, &socket.0)
    }
}

/// What the kernel told, attribute by attribute.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer(Vec<(u16, Vec<u8>)>);

impl Answer {
    /// The number told as one kind of attribute.
    pub(super) fn number(&self, kind: u16) -> Option<u32> {
        let (_, value) = self.0.iter().find(|(told, _)| *told == kind)?;
        match value.len() {
            2 => Some(u32::from(u16::from_ne_bytes(value[..].try_into().ok()?))),
            _ => Some(u32::from_ne_bytes(*value.first_chunk()?)),
        }
    }

    fn read(mut bytes: &[u8]) -> Self {
        let mut told = Vec::new();
        while let Some(head) = bytes.first_chunk::<4>() {
            let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
            let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
            let Some(value) = bytes.get(4..length) else { break };
            told.push((kind, value.to_vec()));
            bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Self(told)
    }
}

/// A conversation with the NBD client.
pub(super) struct Family {
    socket: OwnedFd,
    number: u16,
}

impl Family {
    /// # Errors
    /// `ENOENT`: the kernel has no such client.
    pub(super) fn open() -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::GENERIC),
        )?;
        let mut family = Self { socket, number: CONTROLLER };
        let told = family.call(GET_FAMILY, attribute::text(FAMILY_NAME, "nbd"))?;
        let number = told.number(FAMILY_NUMBER).and_then(|number| u16::try_from(number).ok());
        family.number = number.ok_or_else(|| io::Error::other("a family without a number"))?;
        Ok(family)
    }

    /// Asks one thing, and waits for the answer's end.
    pub(super) fn call(&mut self, command: u8, wish: Attributes) -> io::Result<Answer> {
        send(&self.socket, &request(self.number, command, &wish), SendFlags::empty())?;
        let mut answer = Answer::default();
        let mut buffer = vec![0; ANSWER_BYTES];
        loop {
            let (_, count) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
            let mut rest = &buffer[..count];
            while let Some((kind, body)) = next(&mut rest) {
                if kind == self.number {
                    answer = Answer::read(body.get(4..).unwrap_or_default());
                } else if kind == ENDED {
                    let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                    return match code {
                        0 => Ok(answer),
                        _ => Err(io::Error::from_raw_os_error(-code)),
                    };
                }
            }
        }
    }
}

fn request(family: u16, command: u8, wish: &Attributes) -> Vec<u8> {
    let length = HEADER + 4 + wish.0.len();
    // A request that wants to be told of its end; the version is 1.
    let out = Writer::default().u32(length as u32).u16(family).u16(1 | 4).zeroes(8);
    let mut bytes = out.u16(u16::from_ne_bytes([command, 1])).u16(0).0;
    bytes.extend_from_slice(&wish.0);
    bytes
}

/// The next message's kind and what follows its header.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let mut r = Reader(rest);
    let (length, kinds) = (r.u32()? as usize, r.u32()?);
    let [a, b, ..] = kinds.to_ne_bytes();
    let body = rest.get(HEADER..length)?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((u16::from_ne_bytes([a, b]), body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_lies_where_the_kernel_looks_for_it() {
        let wish =
            attribute::u32(attribute::INDEX, 7).and(attribute::text(attribute::BACKEND, "ab"));
        let bytes = request(27, command::RECONFIGURE, &wish);
        assert_eq!(bytes[..4], (bytes.len() as u32).to_ne_bytes());
        assert_eq!(
            (&bytes[4..6], &bytes[6..8]),
            (&27u16.to_ne_bytes()[..], &5u16.to_ne_bytes()[..])
        );
        assert_eq!(bytes[16..20], [3, 1, 0, 0]);
        assert_eq!(bytes[20..28], [8, 0, 1, 0, 7, 0, 0, 0]);
        assert_eq!(bytes[28..], [7, 0, 10, 0, b'a', b'b', 0, 0]);
    }

    #[test]
    fn a_connection_is_a_list_of_one() {
        let bytes = attribute::connection(9).0;
        let inner = [8, 0, 1, 0, 9, 0, 0, 0];
        assert_eq!(bytes, [&[16, 0, 7, 128, 12, 0, 1, 128][..], &inner].concat());
    }

    #[test]
    fn an_answer_is_read_and_its_end_found() {
        let wish = attribute::u32(attribute::INDEX, 3);
        let mut stream = request(27, 1, &wish);
        stream.extend(Writer::default().u32(20).u16(ENDED).u16(0).zeroes(8).u32(0).0);
        let mut rest = &stream[..];
        let (kind, body) = next(&mut rest).expect("a message");
        assert_eq!((kind, Answer::read(&body[4..]).number(attribute::INDEX)), (27, Some(3)));
        assert_eq!(next(&mut rest), Some((ENDED, &[0; 4][..])));
        assert_eq!(next(&mut rest), None);
    }

    proptest! {
        #[test]
        fn no_answer_makes_us_fall_over(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut rest = &bytes[..];
            while let Some((_, body)) = next(&mut rest) {
                let _told = Answer::read(body).number(1);
            }
        }
    }
}
