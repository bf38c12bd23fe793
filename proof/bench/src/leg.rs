// SPDX-License-Identifier: Apache-2.0
//! The second leg's messages: 64 bytes and the block there, 64 bytes back.

use crate::intake::Header;
use crate::serve::{Ask, Operation};
use crate::wire::Outbox;
use std::io;

const MAGIC: u32 = 0x4c45_4721;

/// A header of 64 bytes. The answer is the same 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Whose operation.
    pub slot: usize,
    /// Where to write.
    pub offset: u64,
    /// Bytes that follow; none asks for a flush.
    pub length: u32,
}

impl Leg {
    /// The bytes: magic, length, offset, slot, zeroes.
    #[must_use]
    pub fn encode(self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&(self.slot as u64).to_le_bytes());
        bytes
    }
}

impl Header for Leg {
    const LENGTH: usize = 64;

    fn parse(bytes: &[u8]) -> io::Result<Self> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        if word(0) as u32 != MAGIC {
            return Err(io::Error::other("no message of the second leg"));
        }
        Ok(Self { length: (word(0) >> 32) as u32, offset: word(8), slot: word(16) as usize })
    }

    fn payload(&self) -> usize {
        self.length as usize
    }
}

impl Ask for Leg {
    fn operation(&self) -> io::Result<Operation> {
        let Self { offset, length, .. } = *self;
        Ok(if length == 0 { Operation::Flush } else { Operation::Write { offset } })
    }

    fn answer(&self, outcome: io::Result<&[u8]>, outbox: &mut Outbox) -> io::Result<()> {
        outcome?;
        outbox.put(&self.encode());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_as_it_went() {
        let leg = Leg { slot: 7, offset: 1 << 40, length: 4096 };
        assert_eq!(Leg::parse(&leg.encode()).expect("it is one"), leg);
        assert!(Leg::parse(&[0; 64]).is_err());
    }
}
