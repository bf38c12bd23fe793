// SPDX-License-Identifier: Apache-2.0
//! The packets on one way of the emulator, in the order in which they arrive: each is read from one device into its
//! place here and written to the other from there, so that it is never copied in between.

use helio_units::{Bytes, Items, Moment};
use std::collections::VecDeque;

/// Packets lie one behind the other in blocks of this many bytes.
const BLOCK: usize = 256 << 10;
/// The most one way holds: 256 MiB of blocks, a second at 2 Gbit/s.
const MOST_BLOCKS: usize = 1024;
/// And at most so many packets.
pub(crate) const MOST_PACKETS: usize = 1 << 18;
/// Blocks kept for the next packets when those in them are through.
const SPARE_BLOCKS: usize = 64;

/// Memory for some packets that follow each other.
struct Block {
    bytes: Box<[u8]>,
    used: usize,
    /// Packets in it that are still to be delivered.
    packets: usize,
}

/// Where a packet lies and when it arrives. It lies in the oldest block that has packets, when its turn comes.
struct Packet {
    at: Moment,
    start: usize,
    length: usize,
}

/// All packets on one way.
pub(crate) struct Belt {
    largest: usize,
    blocks: VecDeque<Block>,
    spare: Vec<Block>,
    packets: VecDeque<Packet>,
    held: Bytes,
}

impl Belt {
    /// An empty one, for packets of at most `largest` bytes.
    pub(crate) fn new(largest: usize) -> Self {
        assert!(largest <= BLOCK, "a packet lies in one block");
        let (blocks, packets) = (VecDeque::new(), VecDeque::new());
        Self { largest, blocks, spare: Vec::new(), packets, held: Bytes::ZERO }
    }

    /// Where the next packet is to be read to; `None` where no more are held. What is not [put](Belt::put) is
    /// forgotten.
    pub(crate) fn place(&mut self) -> Option<&mut [u8]> {
        if self.packets.len() >= MOST_PACKETS {
            return None;
        }
        if self.blocks.back().is_none_or(|block| block.used + self.largest > BLOCK) {
            if self.blocks.len() >= MOST_BLOCKS {
                return None;
            }
            let fresh = || Block { bytes: vec![0; BLOCK].into_boxed_slice(), used: 0, packets: 0 };
            self.blocks.push_back(self.spare.pop().unwrap_or_else(fresh));
        }
        let block = self.blocks.back_mut()?;
        Some(&mut block.bytes[block.used..block.used + self.largest])
    }

    /// Puts the packet of `length` bytes just read to its [place](Belt::place) on the belt; it arrives at `at`, not
    /// before those put there earlier.
    pub(crate) fn put(&mut self, at: Moment, length: usize) {
        let block = self.blocks.back_mut().expect("a place was given in it");
        self.packets.push_back(Packet { at, start: block.used, length });
        block.used += length;
        block.packets += 1;
        self.held += Bytes(length as u64);
    }

    /// When the next packet arrives.
    pub(crate) fn next_at(&self) -> Moment {
        self.packets.front().map_or(Moment::NEVER, |packet| packet.at)
    }

    /// The next packet.
    pub(crate) fn front(&self) -> Option<&[u8]> {
        let packet = self.packets.front()?;
        let block = self.blocks.front()?;
        Some(&block.bytes[packet.start..packet.start + packet.length])
    }

    /// Takes the next packet away.
    pub(crate) fn pop(&mut self) {
        let Some(packet) = self.packets.pop_front() else { return };
        self.held = self.held.saturating_sub(Bytes(packet.length as u64));
        let block = self.blocks.front_mut().expect("the packet lay in it");
        block.packets -= 1;
        if block.packets > 0 {
            return;
        }
        block.used = 0;
        // The last block stays: the next packet goes there.
        if self.blocks.len() > 1
            && let Some(block) = self.blocks.pop_front()
            && self.spare.len() < SPARE_BLOCKS
        {
            self.spare.push(block);
        }
    }

    /// When each packet arrives, to be changed, and its size.
    pub(crate) fn promises(&mut self) -> impl Iterator<Item = (&mut Moment, Bytes)> {
        self.packets.iter_mut().map(|packet| (&mut packet.at, Bytes(packet.length as u64)))
    }

    /// How many are on it, and how much together.
    pub(crate) fn held(&self) -> (Items, Bytes) {
        (Items(self.packets.len() as u64), self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_netmodel::Dice;

    #[test]
    fn packets_come_out_as_they_went_in_however_the_blocks_fall() {
        for seed in 0..20 {
            let (mut dice, mut belt) = (Dice::new(seed), Belt::new(9000));
            let (mut put, mut popped, mut held) = (0_u64, 0_u64, VecDeque::new());
            while popped < 2000 {
                if put < 2000 && dice.chance(3, 5) {
                    let length = 1 + dice.below(9000) as usize;
                    belt.place().expect("there is room")[..length].fill(put as u8);
                    belt.put(Moment(put), length);
                    held.push_back(length);
                    put += 1;
                } else if let Some(length) = held.pop_front() {
                    assert_eq!(belt.next_at(), Moment(popped), "seed {seed}");
                    assert_eq!(belt.front(), Some(&vec![popped as u8; length][..]), "seed {seed}");
                    belt.pop();
                    popped += 1;
                }
                let sum: usize = held.iter().sum();
                assert_eq!(belt.held(), (Items(held.len() as u64), Bytes(sum as u64)));
            }
            assert_eq!((belt.next_at(), belt.front()), (Moment::NEVER, None));
        }
    }

    #[test]
    fn it_is_bounded_in_packets_and_in_bytes_and_takes_more_once_some_are_through() {
        for (size, most) in [(1, MOST_PACKETS), (64 << 10, MOST_BLOCKS * 4)] {
            let mut belt = Belt::new(size);
            let mut taken = 0;
            while belt.place().is_some() {
                belt.put(Moment::ZERO, size);
                taken += 1;
            }
            assert_eq!(taken, most, "of {size} bytes");
            (0..4).for_each(|_| belt.pop());
            assert!(belt.place().is_some(), "of {size} bytes");
        }
    }
}
