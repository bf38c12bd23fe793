// SPDX-License-Identifier: Apache-2.0
//! Which buffer a payload's name stands for.

use crate::shard::census::Table;
use helio_driver::{Buffer, Pool, Shared};
use helio_engine::{Config, QUEUE_BYTES_MOST};
use helio_plant::{Plant, planted};
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

    /// The names, in use and free.
    pub(crate) fn table(&self) -> Table {
        Table::with_free(&self.slots, &self.free)
    }

    /// The name is used no more.
    pub(crate) fn release(&mut self, id: PayloadId) {
        let slot = id.0 as usize;
        let released = self.slots.get_mut(slot).and_then(Option::take);
        assert!(released.is_some(), "payload {slot} was released twice");
        if planted(Plant::BufferLeaked) {
            std::mem::forget(released);
        }
        self.free.push(slot);
        if planted(Plant::PayloadFreedTwice) {
            self.free.push(slot);
        }
    }
}

/// What clients may have in progress, and the bytes of answers; and under a low bound for all buffers: twice the largest write.
const CLIENT_MEMORY: Bytes = Bytes::mib(256);
const CLIENT_MEMORY_LEAST: Bytes = Bytes::mib(64);
/// What a group may hold of what it received: what the engine lets lie unapplied (64 MiB), the item that passed it (32 MiB), the
/// next one arriving (32 MiB), doubled since buffers come in powers of two.
const RECEIVED_BYTES: Bytes = Bytes::mib(256);
/// The least that an automatic queue may hold, however many there are.
const AUTOMATIC_LEAST: Bytes = Bytes::kib(512);

/// The buffers of a shard's groups: one pool for what clients write and the queues hold, one for what peers send, so that neither
/// waits for the other. A client for which there is no buffer waits; a connection to a peer has some of its own.
#[derive(Debug)]
pub(super) struct Pools {
    pub(super) written: Pool,
    pub(super) received: Pool,
    /// What each of the two may hold: automatic queues share it, and so do the connections to peers.
    half: Bytes,
}

impl Pools {
    /// No group has any yet. `memory` is for the two together.
    pub(super) fn new(memory: Bytes) -> Self {
        let empty = || Pool::new(Bytes::ZERO);
        Self { written: empty(), received: empty(), half: Bytes(memory.0 / 2) }
    }

    /// The node has these groups now. Returns the largest bound that each automatic queue among them may have.
    pub(super) fn fit<'a>(&self, groups: impl Iterator<Item = &'a Config>) -> Bytes {
        let (mut count, mut automatic, mut fixed) = (0, 0, 0_u64);
        // A group of one node queues nothing and receives nothing.
        for group in groups.filter(|group| group.peer_name().is_some()) {
            count += 1;
            match group.queue.memory {
                Some(bound) => fixed = fixed.saturating_add(bound.0),
                None => automatic += 1,
            }
        }
        let clients = clients_memory(Bytes(2 * self.half.0));
        let most = automatic_most(Bytes(self.half.0 - clients.0), automatic, Bytes(fixed));
        let queues = fixed.saturating_add(most.0 * automatic);
        self.written.resize(written_memory(Bytes(queues), clients));
        self.received.resize(Bytes(RECEIVED_BYTES.0 * count).min(self.half));
        most
    }
}

/// What clients may have in progress under a bound for all buffers: on a small host a quarter, so that queues have room, too.
pub(super) fn clients_memory(buffers: Bytes) -> Bytes {
    CLIENT_MEMORY.min(Bytes(buffers.0 / 4).max(CLIENT_MEMORY_LEAST))
}

/// The largest bound of each automatic queue: they share what fixed queues leave of this memory.
fn automatic_most(memory: Bytes, queues: u64, fixed: Bytes) -> Bytes {
    let left = memory.0.saturating_sub(fixed.0.saturating_mul(2));
    Bytes(left / 2 / queues.max(1)).max(AUTOMATIC_LEAST).min(QUEUE_BYTES_MOST)
}

/// The bound of the pool that clients write to: all that queues with these bounds may hold together, and what clients may have in
/// progress. So a queue is full before the pool is, and its policy decides what happens. The queues count twice, since buffers come
/// in powers of two; that has room for the pages of records, too. What the layers below read (before-images, copies between
/// members) does not count: reads take no more than half of the pool, and go beyond it otherwise (`read_buffer`).
fn written_memory(queues: Bytes, clients: Bytes) -> Bytes {
    Bytes(queues.0.saturating_mul(2).saturating_add(clients.0))
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
    fn a_group_of_one_node_takes_no_share() {
        let mut alone = vec![group(None); 99];
        alone.iter_mut().for_each(|group| group.peer.clear());
        let with = |groups: Vec<Config>| fitted(Bytes::gib(1), &groups);
        alone.push(group(None));
        assert_eq!(with(alone), with(vec![group(None)]));
    }

    /// The largest automatic bound, and the bound of the pool of what is written.
    fn fitted(memory: Bytes, groups: &[Config]) -> (Bytes, Bytes) {
        let pools = Pools::new(memory);
        let most = pools.fit(groups.iter());
        (most, pools.written.usage().bound)
    }

    #[test]
    fn automatic_queues_share_the_memory() {
        let of = |groups| fitted(Bytes::gib(4), &vec![group(None); groups]);
        assert_eq!(of(1), (QUEUE_BYTES_MOST, Bytes::mib(768)));
        let (share, written) = of(100);
        assert_eq!(share, Bytes((1792 << 20) / 200));
        assert!(written <= Bytes::gib(2) && written > Bytes::mib(2047), "{written}");
        assert_eq!(of(10_000).0, Bytes::kib(512));
    }

    #[test]
    fn the_pool_holds_all_queues_and_the_requests_of_clients() {
        for (memory, groups) in [(512, 1), (512, 40), (512, 10_000), (8192, 1), (8192, 300)] {
            let mut groups = vec![group(None); groups];
            groups.push(group(Some(Bytes::mib(5))));
            let (share, written) = fitted(Bytes::mib(memory), &groups);
            let queues = share.0 * (groups.len() as u64 - 1) + Bytes::mib(5).0;
            assert_eq!(written, Bytes(2 * queues + CLIENT_MEMORY.0.min(memory << 18)));
        }
    }

    #[test]
    fn the_buffers_of_automatic_queues_and_of_peers_stay_within_the_memory() {
        for (mib, groups) in [(512, 1), (512, 100), (1024, 7), (8192, 300)] {
            let pools = Pools::new(Bytes::mib(mib));
            pools.fit(vec![group(None); groups].iter());
            let [written, received] = [&pools.written, &pools.received].map(|it| it.usage().bound);
            assert!(written.0 + received.0 <= mib << 20, "{mib} MiB, {groups} groups: {written}");
        }
    }

    #[test]
    fn fixed_queues_leave_less_to_automatic_ones() {
        let [fixed, large] = [8, 3000].map(|mib| group(Some(Bytes::mib(mib))));
        let of = |groups: &[Config]| fitted(Bytes::mib(512), groups).0;
        assert_eq!(of(&[group(None)]), Bytes::mib(64));
        assert_eq!(of(&[group(None), fixed]), Bytes::mib(56));
        assert_eq!(of(&[group(None), large]), Bytes::kib(512), "it has a queue all the same");
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
