// SPDX-License-Identifier: Apache-2.0
//! The datagrams of a recording. Integers are little-endian, times nanoseconds of the sender's own clock.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `HELIOREC` |
//! | 8 | 2 | version, 1 |
//! | 10 | 2 | kind |
//! | 12 | 4 | number |
//! | 16 | 8 | token |
//! | 24 | 8 | run |
//! | 32 | 8 | clock: when it was sent |
//! | 40 | 8 | first |
//! | 48 | 8 | second |
//! | 56 | 32 | map |
//! | 88 | 4 | 0 |
//! | 92 | 4 | CRC-32C of what stands before it |
//!
//! | kind | from | what | number | first | second |
//! |---|---|---|---|---|---|
//! | 1 | asker | *call*: who is there | | | |
//! | 2 | answerer | *welcome*: the token to use from now on | | | |
//! | 3 | answerer | *busy*: another run is under way | | | |
//! | 4 | asker | *probe* | of the probe, from 1 | | |
//! | 5 | answerer | *echo*, the answer to it | the same | when the probe came | the highest number that came; map: which of the 256 up to there came, the highest in bit 0 |
//! | 6 | both | *burst* | place in it, from 0 | which burst | datagrams in it |
//! | 7 | asker | *ask*: what came of a burst | | which burst | |
//! | 8 | answerer | *told*, the answer to it | datagrams that the line served | which burst | nanoseconds that took |
//! | 9 | asker | *want*: send a burst | | which burst | datagrams in it |
//! | 10 | asker | *bye*: nothing more comes | | | |
//!
//! A datagram has 96 bytes, that of a burst 1372 ([`BURST`]): the rest of it is 0 and not looked at. The run is chosen by
//! the asker. The token proves that whoever asks hears what is sent to its address: the answerer makes it of address and
//! run, sends nothing larger than what it heard without it, and keeps nothing. What has not the token of its address is
//! answered with a *welcome*, so that an answerer that was started anew is found again.

use crate::wire::{WireError, check, put, seal, u16_at, u32_at, u64_at};

const MAGIC: [u8; 8] = *b"HELIOREC";
const VERSION: u16 = 1;
/// Bytes of a datagram.
pub(crate) const SMALL: usize = 96;
/// Bytes of one of a burst: with IPv4's headers 1400, which every path takes that takes a mirror.
pub(crate) const BURST: usize = 1372;
/// The most datagrams in a burst: 717 kB.
pub(crate) const MOST_BURST: u32 = 512;
/// Probes that an echo tells of.
pub(crate) const MAPPED: u32 = 256;

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Call,
    Welcome,
    Busy,
    Probe,
    Echo,
    Burst,
    Ask,
    Told,
    Want,
    Bye,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Call,
        Self::Welcome,
        Self::Busy,
        Self::Probe,
        Self::Echo,
        Self::Burst,
        Self::Ask,
        Self::Told,
        Self::Want,
        Self::Bye,
    ];
}

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) kind: Kind,
    pub(crate) number: u32,
    pub(crate) token: u64,
    pub(crate) run: u64,
    pub(crate) clock: u64,
    pub(crate) first: u64,
    pub(crate) second: u64,
    pub(crate) map: Arrivals,
}

impl Datagram {
    /// One that says nothing but what it is.
    pub(crate) fn new(kind: Kind, token: u64, run: u64) -> Self {
        let map = Arrivals::default();
        Self { kind, number: 0, token, run, clock: 0, first: 0, second: 0, map }
    }

    pub(crate) fn encode(&self) -> [u8; SMALL] {
        let mut bytes = [0; SMALL];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, VERSION.to_le_bytes());
        put(&mut bytes, 10, (self.kind as u16 + 1).to_le_bytes());
        put(&mut bytes, 12, self.number.to_le_bytes());
        let words = [self.token, self.run, self.clock, self.first, self.second];
        let words = words.iter().chain(&self.map.0);
        words.enumerate().for_each(|(n, word)| put(&mut bytes, 16 + 8 * n, word.to_le_bytes()));
        seal(bytes)
    }

    /// All of it, as long as it is on its way.
    pub(crate) fn packed(&self) -> Vec<u8> {
        let mut bytes = self.encode().to_vec();
        bytes.resize(if self.kind == Kind::Burst { BURST } else { SMALL }, 0);
        bytes
    }

    /// What a datagram says, however long it is.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let Some((head, rest)) = bytes.split_first_chunk::<SMALL>() else {
            return Err(WireError::Magic);
        };
        if head[..8] != MAGIC {
            return Err(WireError::Magic);
        }
        match u16_at(head, 8) {
            VERSION => check(head)?,
            other => return Err(WireError::Version(other)),
        }
        let kind = usize::from(u16_at(head, 10)).checked_sub(1).and_then(|n| Kind::ALL.get(n));
        let kind = *kind.ok_or(WireError::Kind)?;
        let length = if kind == Kind::Burst { BURST } else { SMALL };
        if rest.len() + SMALL != length {
            return Err(WireError::Kind);
        }
        let word = |n: usize| u64_at(head, 16 + 8 * n);
        let datagram = Self {
            kind,
            number: u32_at(head, 12),
            token: word(0),
            run: word(1),
            clock: word(2),
            first: word(3),
            second: word(4),
            map: Arrivals([word(5), word(6), word(7), word(8)]),
        };
        let bursts = matches!(kind, Kind::Burst | Kind::Want);
        if bursts && !(1..=u64::from(MOST_BURST)).contains(&datagram.second) {
            return Err(WireError::Bound("a burst"));
        }
        Ok(datagram)
    }
}

/// Which of the last probes came: bit 0 of the first word is the highest number, the next bit the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrivals([u64; 4]);

impl Arrivals {
    /// Takes note of one; `top` is the highest so far and moves with it.
    pub(crate) fn add(&mut self, top: &mut u32, number: u32) {
        if let Some(ahead) = number.checked_sub(*top).filter(|ahead| *ahead > 0) {
            self.shift(ahead);
            *top = number;
        }
        let behind = *top - number;
        if behind < MAPPED {
            self.0[behind as usize / 64] |= 1 << (behind % 64);
        }
    }

    /// Makes room for so many more.
    fn shift(&mut self, by: u32) {
        let (words, bits) = (by as usize / 64, by % 64);
        let old = |n: Option<usize>| n.and_then(|n| self.0.get(n)).copied().unwrap_or(0);
        self.0 = std::array::from_fn(|n| {
            let (at, below) = (n.checked_sub(words), n.checked_sub(words + 1));
            // Shifting by all of a word is not defined.
            old(at) << bits | old(below).checked_shr(64 - bits).unwrap_or(0)
        });
    }

    /// The numbers up to `top` that came.
    pub(crate) fn numbers(self, top: u32) -> impl Iterator<Item = u32> {
        let came = move |behind: &u32| self.0[*behind as usize / 64] >> (behind % 64) & 1 == 1;
        (0..MAPPED).filter(came).filter_map(move |behind| top.checked_sub(behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_kind_is_read_as_it_was_written_and_nothing_else_is() {
        for kind in Kind::ALL {
            let map = Arrivals([1, 2, 3, u64::MAX]);
            let datagram = Datagram {
                number: 9,
                clock: 3,
                first: 4,
                second: 5,
                map,
                ..Datagram::new(kind, 1, 2)
            };
            let mut bytes = datagram.packed();
            assert_eq!(Datagram::decode(&bytes), Ok(datagram));
            for at in 0..SMALL {
                let mut damaged = bytes.clone();
                damaged[at] ^= 4;
                assert!(Datagram::decode(&damaged).is_err(), "{kind:?}, byte {at}");
            }
            bytes.push(0);
            assert_eq!(Datagram::decode(&bytes), Err(WireError::Kind));
            assert_eq!(Datagram::decode(&bytes[..SMALL - 1]), Err(WireError::Magic));
        }
        let large = Datagram { second: 513, ..Datagram::new(Kind::Want, 1, 2) };
        assert_eq!(Datagram::decode(&large.encode()), Err(WireError::Bound("a burst")));
    }

    proptest! {
        #[test]
        fn an_echo_tells_of_the_last_256(numbers in prop::collection::vec(1u32..700, 1..300)) {
            let (mut map, mut top) = (Arrivals::default(), 0);
            numbers.iter().for_each(|number| map.add(&mut top, *number));
            let highest = *numbers.iter().max().expect("at least one");
            prop_assert_eq!(top, highest);
            // One that came when it was far behind is told as well, if it is near enough now: it never is, since the
            // highest only grows.
            let mut expected: Vec<u32> = Vec::new();
            let mut top = 0;
            for number in &numbers {
                top = top.max(*number);
                if top - number < MAPPED {
                    expected.push(*number);
                }
            }
            expected.retain(|number| highest - number < MAPPED);
            expected.sort_unstable_by(|one, other| other.cmp(one));
            expected.dedup();
            prop_assert_eq!(map.numbers(top).collect::<Vec<u32>>(), expected);
        }
    }
}
