// SPDX-License-Identifier: Apache-2.0
//! The pool of payloads of one node: what the engine names, this holds, until it is released exactly once.

use crate::{BLOCK, Stamp};
use helio_units::{Payload, PayloadId};

/// Bits of a payload's name that say where it lies; the rest tells its users apart.
const SLOT_BITS: u32 = 20;

#[derive(Clone, Debug)]
struct Held {
    id: PayloadId,
    stamps: Vec<Stamp>,
}

/// The payloads of a node.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    slots: Vec<Option<Held>>,
    free: Vec<usize>,
    taken: u64,
}

impl Pool {
    /// Takes blocks in and names them.
    pub fn take(&mut self, stamps: Vec<Stamp>) -> Payload {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.taken += 1;
        let id = PayloadId(self.taken << SLOT_BITS | slot as u64);
        let length = (stamps.len() as u64 * BLOCK.0) as u32;
        self.slots[slot] = Some(Held { id, stamps });
        Payload { id, length }
    }

    /// Takes digests in and names them: a stamp is its own digest, of 16 bytes.
    pub fn take_digests(&mut self, stamps: Vec<Stamp>) -> Payload {
        let length = stamps.len() as u32 * 16;
        Payload { length, ..self.take(stamps) }
    }

    fn slot(id: PayloadId) -> usize {
        (id.0 & ((1 << SLOT_BITS) - 1)) as usize
    }

    /// The blocks of a payload.
    ///
    /// # Panics
    /// If it was released already: the engine uses what it gave back.
    #[must_use]
    pub fn stamps(&self, payload: Payload) -> &[Stamp] {
        match self.slots.get(Self::slot(payload.id)) {
            Some(Some(held)) if held.id == payload.id => &held.stamps,
            _ => panic!("payload {} is used after its release", payload.id.0),
        }
    }

    /// Lets a payload go.
    ///
    /// # Panics
    /// If it was released before.
    pub fn release(&mut self, id: PayloadId) {
        let slot = Self::slot(id);
        match self.slots.get_mut(slot).and_then(Option::take) {
            Some(held) if held.id == id => self.free.push(slot),
            _ => panic!("payload {} was released twice", id.0),
        }
    }

    /// How many are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether some payload holds this stamp.
    #[must_use]
    pub fn holds(&self, stamp: Stamp) -> bool {
        self.slots.iter().flatten().any(|held| held.stamps.contains(&stamp))
    }

    /// The memory of the process is gone.
    pub fn forget(&mut self) {
        self.slots.clear();
        self.free.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "released twice")]
    fn a_second_release_is_noticed_even_when_the_slot_is_used_again() {
        let mut pool = Pool::default();
        let first = pool.take(vec![Stamp(1)]);
        pool.release(first.id);
        let second = pool.take(vec![Stamp(2)]);
        assert!(pool.holds(Stamp(2)) && pool.stamps(second) == [Stamp(2)]);
        pool.release(first.id);
    }
}
