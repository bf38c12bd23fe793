// SPDX-License-Identifier: Apache-2.0
//! Bytes to messages, whatever way the stream was cut.

use crate::checksum;
use helio_driver::{Buffer, Pool};
use helio_format::frame::{self, FrameError, HEADER_BYTES, Header};
use helio_format::message::Message;
use std::ops::Range;

/// Why a connection ends on this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The stream is damaged, or not ours, or of another version.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// A payload is larger than can ever be received.
    #[error("a payload of {length} bytes exceeds the receive memory of {bound} bytes")]
    Memory {
        /// Of the payload.
        length: u32,
        /// The bound of the pool.
        bound: u64,
    },
}

/// A message that arrived whole, with its payload.
#[derive(Debug)]
pub struct Arrived {
    /// What was said.
    pub message: Message,
    /// The payload, as long as the message announces; its checksum matched.
    pub payload: Option<Buffer>,
}

/// A payload of which so much is missing is received where it will be used from; what is shorter is copied there.
const DIRECT_BYTES: usize = 128 << 10;

#[derive(Debug)]
enum Stage {
    Header,
    Body(Header),
    Payload(Box<Arriving>),
}

/// A payload of which something is missing.
#[derive(Debug)]
struct Arriving {
    header: Header,
    message: Message,
    /// None while it is lent, or until there is one.
    buffer: Option<Buffer>,
    filled: usize,
    /// It was lent once, and will be again.
    direct: bool,
}

/// Reads one stream. Holds at most one frame: a header or a body in its own small buffer, a payload in the pool's.
#[derive(Debug)]
pub struct Incoming {
    stage: Stage,
    small: Vec<u8>,
}

impl Default for Incoming {
    fn default() -> Self {
        Self { stage: Stage::Header, small: Vec::with_capacity(HEADER_BYTES) }
    }
}

impl Incoming {
    /// Takes bytes from the front of `input` up to the end of the first message. Returns how many were taken and
    /// the message, if one became whole; without one, everything was taken, or its payload waits for a buffer
    /// ([`Incoming::find_room`]).
    ///
    /// # Errors
    /// The stream cannot be read any further; the connection must end. Nothing of the bad frame was used.
    pub fn consume(
        &mut self,
        input: &[u8],
        pool: &Pool,
    ) -> Result<(usize, Option<Arrived>), LinkError> {
        let mut taken = 0;
        loop {
            let rest = &input[taken..];
            match &mut self.stage {
                Stage::Header => {
                    taken += fill(&mut self.small, HEADER_BYTES, rest);
                    let Ok(bytes) = <&[u8; HEADER_BYTES]>::try_from(self.small.as_slice()) else {
                        return Ok((taken, None));
                    };
                    let header = frame::decode_header(bytes, checksum)?;
                    self.small.clear();
                    self.stage = Stage::Body(header);
                }
                Stage::Body(header) => {
                    let header = *header;
                    taken += fill(&mut self.small, header.body_length as usize, rest);
                    if self.small.len() < header.body_length as usize {
                        return Ok((taken, None));
                    }
                    let message = frame::decode_body(&header, &self.small, checksum)?;
                    self.small.clear();
                    if header.payload_length == 0 {
                        self.stage = Stage::Header;
                        return Ok((taken, Some(Arrived { message, payload: None })));
                    }
                    let bound = pool.usage().bound.0;
                    let length = header.payload_length;
                    if u64::from(length) > bound {
                        return Err(LinkError::Memory { length, bound });
                    }
                    let buffer = pool.take(header.payload_length as usize);
                    let arriving = Arriving { header, message, buffer, filled: 0, direct: false };
                    self.stage = Stage::Payload(Box::new(arriving));
                }
                Stage::Payload(arriving) => {
                    let Arriving { buffer, filled, direct, .. } = &mut **arriving;
                    let Some(buffer) = buffer else {
                        assert!(
                            !*direct,
                            "bytes arrived beside those that a lent buffer waits for"
                        );
                        return Ok((taken, None));
                    };
                    let n = rest.len().min(buffer.len() - *filled);
                    buffer[*filled..*filled + n].copy_from_slice(&rest[..n]);
                    *filled += n;
                    return self.finish_payload().map(|arrived| (taken + n, arrived));
                }
            }
        }
    }

    /// Gives the payload that is arriving a buffer, if it has none. Returns whether it has one, or needs none. `take` is called
    /// with the length of the payload.
    pub fn find_room(&mut self, take: impl FnOnce(usize) -> Option<Buffer>) -> bool {
        if self.lacks_room()
            && let Stage::Payload(arriving) = &mut self.stage
        {
            arriving.buffer = take(arriving.header.payload_length as usize);
        }
        !self.lacks_room()
    }

    /// Whether the payload that is arriving has no buffer yet.
    #[must_use]
    pub fn lacks_room(&self) -> bool {
        matches!(&self.stage, Stage::Payload(a) if a.buffer.is_none() && !a.direct)
    }

    /// Lends the buffer of a long payload, and says where in it the next bytes of the stream belong, so that they can be
    /// received there. It comes back by [`Incoming::landed`] before anything else is consumed.
    pub fn lend(&mut self) -> Option<(Buffer, Range<usize>)> {
        let Stage::Payload(arriving) = &mut self.stage else { return None };
        let range = arriving.filled..arriving.buffer.as_ref()?.len();
        if !arriving.direct && range.len() < DIRECT_BYTES {
            return None;
        }
        arriving.direct = true;
        arriving.buffer.take().map(|buffer| (buffer, range))
    }

    /// The buffer that was lent comes back with `count` more bytes. Returns the message, if it is whole now.
    ///
    /// # Errors
    /// As [`Incoming::consume`].
    pub fn landed(&mut self, buffer: Buffer, count: usize) -> Result<Option<Arrived>, LinkError> {
        if let Stage::Payload(arriving) = &mut self.stage {
            arriving.filled = (arriving.filled + count).min(buffer.len());
            arriving.buffer = Some(buffer);
        }
        self.finish_payload()
    }

    /// The message whose payload is whole, if it is.
    fn finish_payload(&mut self) -> Result<Option<Arrived>, LinkError> {
        let whole = |a: &Arriving| a.buffer.as_ref().is_some_and(|b| a.filled == b.len());
        if !matches!(&self.stage, Stage::Payload(arriving) if whole(arriving)) {
            return Ok(None);
        }
        let Stage::Payload(arriving) = std::mem::replace(&mut self.stage, Stage::Header) else {
            return Ok(None);
        };
        let Arriving { header, message, buffer: payload, .. } = *arriving;
        if payload.as_ref().is_some_and(|bytes| checksum(bytes) != header.payload_crc) {
            return Err(FrameError::PayloadChecksum.into());
        }
        Ok(Some(Arrived { message, payload }))
    }
}

/// Tops `small` up to `wanted` bytes; returns how many came from `rest`.
fn fill(small: &mut Vec<u8>, wanted: usize, rest: &[u8]) -> usize {
    let n = rest.len().min(wanted - small.len());
    small.extend_from_slice(&rest[..n]);
    n
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outgoing;
    use helio_driver::Piece;
    use helio_format::message::{Item, ItemKind, Ping};
    use helio_units::{Bytes, Extent, Payload, PayloadId, Sequence, VolumeIndex};
    use proptest::prelude::*;

    fn item(sequence: u64, length: u32) -> Message {
        Message::Item(Item {
            sequence: Sequence(sequence),
            after: Sequence(sequence - 1),
            kind: ItemKind::Write,
            fua: false,
            punch: false,
            resync: false,
            volume: VolumeIndex(0),
            extent: Extent::new(0, u64::from(length)),
            payload: Some(Payload { id: PayloadId(0), length }),
        })
    }

    /// A ping, a write of that many bytes and another ping, as bytes on the wire.
    fn stream(pool: &Pool, length: u32) -> (Vec<Message>, Vec<u8>) {
        let messages = vec![
            Message::Ping(Ping::default()),
            item(1, length),
            Message::Pong { token: 1, flushing: false, waits: false, short: false, metadata: 0 },
        ];
        let mut payload = pool.take(length as usize).expect("room");
        payload.iter_mut().enumerate().for_each(|(n, b)| *b = n as u8);
        let payload = payload.into_shared();
        let mut pieces = Vec::new();
        for message in &messages {
            let with = (message.payload_length() > 0).then_some(&payload);
            outgoing::frame(message, with, &mut pieces);
        }
        let mut bytes = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Bytes(b) => bytes.extend_from_slice(&b),
                Piece::Shared(s, range) => bytes.extend_from_slice(&s[range]),
            }
        }
        (messages, bytes)
    }

    /// What was said, and the payload with it.
    type Read = (Message, Option<Vec<u8>>);

    fn read(bytes: &[u8], cuts: &[usize], pool: &Pool) -> Result<Vec<Read>, LinkError> {
        let (mut incoming, mut got, mut at) = (Incoming::default(), Vec::new(), 0);
        let ends = cuts.iter().copied().chain([bytes.len()]);
        for end in ends {
            let end = end.clamp(at, bytes.len());
            while at < end {
                let (taken, arrived) = incoming.consume(&bytes[at..end], pool)?;
                at += taken;
                if let Some(Arrived { message, payload }) = arrived {
                    got.push((message, payload.map(|p| p.to_vec())));
                }
            }
        }
        Ok(got)
    }

    /// Reads as a link does that receives into lent buffers, `bite` bytes at a time.
    fn read_in_place(bytes: &[u8], bites: &[usize], pool: &Pool) -> Result<Vec<Read>, LinkError> {
        let (mut incoming, mut got, mut at) = (Incoming::default(), Vec::new(), 0);
        for bite in bites.iter().cycle() {
            if at == bytes.len() {
                break;
            }
            let rest = &bytes[at..bytes.len().min(at + bite)];
            let arrived = if let Some((mut buffer, range)) = incoming.lend() {
                let n = rest.len().min(range.len());
                buffer[range.start..range.start + n].copy_from_slice(&rest[..n]);
                at += n;
                incoming.landed(buffer, n)?
            } else {
                let (taken, arrived) = incoming.consume(rest, pool)?;
                at += taken;
                arrived
            };
            got.extend(arrived.map(|a| (a.message, a.payload.map(|p| p.to_vec()))));
        }
        Ok(got)
    }

    proptest! {
        #[test]
        fn what_is_received_in_place_is_what_is_copied(
            length in 100_000u32..400_000, bites in prop::collection::vec(1usize..200_000, 1..12)
        ) {
            let pool = Pool::new(Bytes::mib(4));
            let (_, bytes) = stream(&pool, length);
            let copied = read(&bytes, &[], &pool).expect("reads");
            prop_assert_eq!(read_in_place(&bytes, &bites, &pool).expect("reads"), copied);
        }

        #[test]
        fn messages_survive_any_cutting_of_the_stream(
            length in 1u32..20_000, mut cuts in prop::collection::vec(0usize..20_200, 0..12)
        ) {
            let pool = Pool::new(Bytes::mib(4));
            let (messages, bytes) = stream(&pool, length);
            cuts.sort_unstable();
            let got = read(&bytes, &cuts, &pool).expect("reads");
            prop_assert_eq!(got.iter().map(|g| g.0.clone()).collect::<Vec<_>>(), messages);
            let payload = got[1].1.as_ref().expect("payload");
            prop_assert!(payload.iter().enumerate().all(|(n, b)| *b == n as u8));
        }

        #[test]
        fn a_flipped_bit_anywhere_ends_the_connection_with_a_name(at in any::<prop::sample::Index>(), bit in 0..8u8) {
            let pool = Pool::new(Bytes::mib(4));
            let (_, mut bytes) = stream(&pool, 3000);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let error = read(&bytes, &[], &pool).expect_err("a flipped bit went unseen");
            prop_assert!(!error.to_string().is_empty());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _named_or_waiting = read(&bytes, &[], &Pool::new(Bytes::mib(1)));
        }
    }

    #[test]
    fn a_flipped_bit_is_seen_in_a_payload_received_in_place() {
        let pool = Pool::new(Bytes::mib(4));
        let (_, mut bytes) = stream(&pool, 1 << 20);
        bytes[1 << 19] ^= 1;
        let error = read_in_place(&bytes, &[100_000], &pool).expect_err("went unseen");
        assert_eq!(error, FrameError::PayloadChecksum.into());
    }

    #[test]
    fn a_payload_waits_until_a_buffer_comes_home() {
        let pool = Pool::new(Bytes::mib(2));
        let (messages, bytes) = stream(&pool, 1 << 20);
        let others = [pool.take(1 << 20).expect("room"), pool.take(1 << 20).expect("room")];
        let mut incoming = Incoming::default();
        let mut at = 0;
        let next = |at: &mut usize, incoming: &mut Incoming| {
            let (taken, arrived) = incoming.consume(&bytes[*at..], &pool).expect("it fits");
            *at += taken;
            arrived.map(|it| it.message)
        };
        assert_eq!(next(&mut at, &mut incoming).as_ref(), Some(&messages[0]));
        let head = at;
        assert_eq!(next(&mut at, &mut incoming), None);
        assert!(at > head && !incoming.find_room(|n| pool.take(n)), "its head was read");
        let payload = at;
        assert_eq!((next(&mut at, &mut incoming), at), (None, payload), "nothing more is taken");
        assert!(incoming.lend().is_none(), "there is nothing to lend");
        drop(others);
        assert!(incoming.find_room(|n| pool.take(n)) && !incoming.lacks_room());
        assert_eq!(next(&mut at, &mut incoming).as_ref(), Some(&messages[1]));
        assert_eq!(next(&mut at, &mut incoming).as_ref(), Some(&messages[2]));
    }

    #[test]
    fn a_payload_that_finds_no_buffer_is_received_into_another_pool() {
        let shared = Pool::new(Bytes::mib(1));
        let (messages, bytes) = stream(&shared, 1 << 20);
        let _others = shared.take(1 << 20).expect("room");
        let own = Pool::reserve(Bytes::kib(64));
        let (mut incoming, mut got, mut at) = (Incoming::default(), Vec::new(), 0);
        while at < bytes.len() {
            let take = |n| shared.take(n).or_else(|| own.take_alone(n));
            assert!(incoming.find_room(take), "nothing of its own is lent");
            let (taken, arrived) = incoming.consume(&bytes[at..], &shared).expect("it fits");
            at += taken;
            got.extend(arrived.map(|it| it.message));
        }
        assert_eq!(got, messages);
        assert_eq!(own.usage().high_water, Bytes::mib(1));
    }

    #[test]
    fn a_payload_beyond_the_memory_is_refused_and_not_waited_for() {
        let (_, bytes) = stream(&Pool::new(Bytes::mib(4)), 1 << 20);
        let error = read(&bytes, &[], &Pool::new(Bytes::kib(64))).expect_err("taken");
        assert_eq!(error, LinkError::Memory { length: 1 << 20, bound: 65_536 });
    }
}
