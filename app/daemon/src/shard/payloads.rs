// SPDX-License-Identifier: Apache-2.0
//! Which buffer a payload's name stands for.

use helio_driver::{Buffer, Pool, Shared};
use helio_engine::Config;
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

/// What clients may have under way, and the bytes of answers.
const CLIENT_MEMORY: Bytes = Bytes::mib(256);
/// What a group may hold of what it received: what the engine lets lie unapplied (64 MiB), the item that passed it (32 MiB), the
/// next one arriving (32 MiB), doubled since buffers come in powers of two.
const RECEIVED_BYTES: Bytes = Bytes::mib(256);

/// The buffers of a shard's groups: one pool for what clients write and the queues hold, one for what peers send, so that neither
/// waits for the other. Who finds none waits.
#[derive(Debug)]
pub(super) struct Pools {
    pub(super) written: Pool,
    pub(super) received: Pool,
    /// The most that each of the two may hold, whatever the groups' bounds add up to.
    most: Bytes,
}

impl Pools {
    /// No group has any yet. `most` bounds the two together.
    pub(super) fn new(most: Bytes) -> Self {
        let empty = || Pool::new(Bytes::ZERO);
        Self { written: empty(), received: empty(), most: Bytes(most.0 / 2) }
    }

    /// The node has these groups now, with these bounds.
    pub(super) fn fit<'a>(&self, configs: impl Iterator<Item = &'a Config> + Clone) {
        let received = configs.clone().count() as u64 * RECEIVED_BYTES.0;
        self.received.resize(Bytes(received).min(self.most));
        self.written.resize(written_memory(configs, self.most));
    }
}

/// What its queues may hold, the before-images of each group that are on their way to the file, what is copied between its members,
/// and what clients may have under way. Buffers come in powers of two, so all but the clients' counts twice; that holds the pages of
/// the records, too. Queues whose bound follows their link share what is left of `most`; a bound from the file is kept room for.
fn written_memory<'a>(configs: impl Iterator<Item = &'a Config> + Clone, most: Bytes) -> Bytes {
    let layers = helio_snapshot::BATCH_BYTES.0 + helio_shadow::BATCH_BYTES.0;
    let held = |bounds: &dyn Fn(&Config) -> u64| {
        let sum = configs.clone().map(bounds).fold(0, u64::saturating_add);
        Bytes(sum.saturating_mul(2).saturating_add(CLIENT_MEMORY.0))
    };
    let largest = |c: &Config| c.queue.memory.unwrap_or(helio_engine::QUEUE_BYTES_MOST);
    let all = held(&|c| largest(c).0.saturating_add(layers));
    let fixed = held(&|c| c.queue.memory.unwrap_or(Bytes::ZERO).0);
    all.min(most.max(fixed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(memory: Option<Bytes>) -> Config {
        let mut config = Config::new("db", "paris", "lyon", vec![Bytes::mib(1)]);
        config.queue.memory = memory;
        config
    }

    #[test]
    fn many_groups_share_what_one_would_have_for_itself_alone() {
        let of = |groups: &[Config]| written_memory(groups.iter(), Bytes::gib(2));
        let one = of(&[group(None)]);
        assert!(one > Bytes::mib(2 * 256) && one < Bytes::gib(1), "{one}");
        assert_eq!(of(&vec![group(None); 10_000]), Bytes::gib(2));
        let fixed = [group(Some(Bytes::gib(3))), group(None)];
        assert_eq!(of(&fixed), Bytes(2 * Bytes::gib(3).0 + CLIENT_MEMORY.0), "the file says so");
    }

    #[test]
    fn what_peers_send_is_bounded_over_all_groups() {
        let pools = Pools::new(Bytes::gib(2));
        let groups = vec![group(None); 10_000];
        pools.fit(groups[..1].iter());
        assert_eq!(pools.received.usage().bound, RECEIVED_BYTES);
        pools.fit(groups.iter());
        assert_eq!(pools.received.usage().bound, Bytes::gib(1));
    }
}
