// SPDX-License-Identifier: Apache-2.0
//! A fixed number of buffers of one size, aligned for direct I/O.

/// What direct I/O asks of memory, in bytes.
const ALIGNMENT: usize = 4096;

/// Buffers of one size. Memory is not touched before its buffer is used.
#[derive(Debug)]
pub struct Slots {
    memory: Vec<u8>,
    begin: usize,
    size: usize,
}

impl Slots {
    /// `count` buffers of `size` bytes, a multiple of 4096.
    #[must_use]
    pub fn new(count: usize, size: usize) -> Self {
        assert!(size.is_multiple_of(ALIGNMENT), "slots of {size} bytes are not aligned");
        let memory = vec![0; count * size + ALIGNMENT];
        let begin = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, begin, size }
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        (self.memory.len() - ALIGNMENT) / self.size
    }

    /// Bytes in each.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// One buffer.
    #[must_use]
    pub fn get(&self, slot: usize) -> &[u8] {
        &self.memory[self.begin + slot * self.size..][..self.size]
    }

    /// One buffer, to be filled.
    pub fn get_mut(&mut self, slot: usize) -> &mut [u8] {
        &mut self.memory[self.begin + slot * self.size..][..self.size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_aligned_and_no_two_share_a_byte() {
        let mut slots = Slots::new(3, 8192);
        assert_eq!(slots.count(), 3);
        for n in 0..3 {
            assert_eq!(slots.get(n).as_ptr() as usize % ALIGNMENT, 0);
            slots.get_mut(n).fill(n as u8 + 1);
        }
        for n in 0..3 {
            assert!(slots.get(n).iter().all(|byte| *byte == n as u8 + 1));
        }
    }
}
