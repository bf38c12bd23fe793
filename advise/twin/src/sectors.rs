// SPDX-License-Identifier: Apache-2.0
//! A file on a disk that writes sectors of 512 bytes whole or not at all, and whose cache a power cut empties.

use core::convert::Infallible;
use helio_netmodel::Dice;
use std::collections::BTreeSet;

/// What a disk writes whole or not at all.
const SECTOR: usize = helio_units::SECTOR as usize;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Sectors {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors that were written and not flushed.
    dirty: BTreeSet<usize>,
}

impl Sectors {
    /// A file that holds these bytes, durably.
    #[must_use]
    pub fn holding(bytes: Vec<u8>) -> Self {
        Self { durable: bytes.clone(), live: bytes, dirty: BTreeSet::new() }
    }

    /// What it holds, as far as it was written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.live
    }

    /// Reads; behind the end of the file lie zeros.
    ///
    /// # Errors
    /// None.
    pub fn read(&self, at: u64, buffer: &mut [u8]) -> Result<(), Infallible> {
        let at = (at as usize).min(self.live.len());
        let end = (at + buffer.len()).min(self.live.len());
        buffer.fill(0);
        buffer[..end - at].copy_from_slice(&self.live[at..end]);
        Ok(())
    }

    /// Writes, which is not durable before a flush.
    pub fn put(&mut self, at: u64, bytes: &[u8]) {
        let at = at as usize;
        if self.live.len() < at + bytes.len() {
            self.live.resize((at + bytes.len()).next_multiple_of(SECTOR), 0);
        }
        self.live[at..at + bytes.len()].copy_from_slice(bytes);
        self.dirty.extend(at / SECTOR..(at + bytes.len()).div_ceil(SECTOR));
    }

    /// Makes durable what was written.
    pub fn flush(&mut self) {
        self.settle(|| true);
    }

    /// The power goes: each sector that was not flushed is the new one or the old one.
    pub fn tear(&mut self, dice: &mut Dice) {
        self.settle(|| !dice.chance(1, 2));
    }

    /// Cuts the file off, durably.
    pub fn truncate(&mut self, length: u64) {
        let length = (length as usize).min(self.live.len());
        self.live.truncate(length);
        self.durable.truncate(length);
    }

    /// Each sector that was not flushed is kept or goes back.
    fn settle(&mut self, mut keeps: impl FnMut() -> bool) {
        self.durable.resize(self.live.len(), 0);
        for sector in core::mem::take(&mut self.dirty) {
            let range = sector * SECTOR..(sector + 1) * SECTOR;
            let (from, to) = match keeps() {
                true => (&self.live, &mut self.durable),
                false => (&self.durable, &mut self.live),
            };
            to[range.clone()].copy_from_slice(&from[range]);
        }
    }
}
