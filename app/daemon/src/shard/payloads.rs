// SPDX-License-Identifier: Apache-2.0
//! Which buffer a payload's name stands for.

use helio_driver::{Buffer, Shared};
use helio_units::{Bytes, Payload, PayloadId};

/// The buffers one engine knows by name. A buffer goes back to its pool once its name is released and the disk and
/// the sockets that still hold it have let go.
#[derive(Debug, Default)]
pub(crate) struct Payloads {
    slots: Vec<Option<Shared>>,
    free: Vec<usize>,
}

impl Payloads {
    /// Names a buffer.
    pub(crate) fn insert(&mut self, buffer: Buffer) -> Payload {
        self.share(buffer.into_shared())
    }

    /// Names a buffer that others may hold, too.
    pub(crate) fn share(&mut self, buffer: Shared) -> Payload {
        let length = buffer.len() as u32;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(buffer);
        Payload { id: PayloadId(slot as u64), length }
    }

    /// The buffer behind a name.
    pub(crate) fn get(&self, id: PayloadId) -> &Shared {
        match self.slots.get(id.0 as usize) {
            Some(Some(shared)) => shared,
            _ => panic!("payload {} was released before its last use", id.0),
        }
    }

    /// The name is used no more.
    pub(crate) fn release(&mut self, id: PayloadId) {
        let slot = id.0 as usize;
        assert!(
            self.slots.get_mut(slot).and_then(Option::take).is_some(),
            "payload {slot} was released twice"
        );
        self.free.push(slot);
    }
}

/// Payload that a shard may hold: what its queues may, the before-images of each group that are on their way to the file, what
/// is copied between its members, and what clients may have under way. Buffers come in powers of two, so all but the clients'
/// counts twice; that holds the pages of the records, too.
pub(super) fn payload_memory<'a>(configs: impl Iterator<Item = &'a helio_engine::Config>) -> Bytes {
    let queue = |c: &helio_engine::Config| c.queue.memory.unwrap_or(helio_engine::QUEUE_BYTES_MOST);
    let layers = helio_snapshot::BATCH_BYTES.0 + helio_shadow::BATCH_BYTES.0;
    let bounds = configs.map(|c| queue(c).0.saturating_add(layers));
    let held = bounds.fold(0, u64::saturating_add);
    Bytes(held.saturating_mul(2).saturating_add(super::CLIENT_MEMORY.0))
}
