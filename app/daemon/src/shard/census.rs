// SPDX-License-Identifier: Apache-2.0
//! What a shard holds: how many entries its tables have, its connections, and the memory that its pools have lent.
//!
//! The simulator compares it with what a shard without clients may hold, and with what it held before.

use super::Shard;
use helio_driver::{Driver, PoolUsage};
use helio_units::Bytes;

/// A table whose entries are used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Entries in use.
    pub in_use: usize,
    /// All entries: in use, or free for the next one.
    pub entries: usize,
    /// Entries that are neither in use nor free.
    pub lost: usize,
}

impl Table {
    /// A table in which each entry that is empty is free.
    pub(crate) fn of<T>(slots: &[Option<T>]) -> Self {
        let in_use = slots.iter().flatten().count();
        Self { in_use, entries: slots.len(), lost: 0 }
    }

    /// A table whose free entries are in a list.
    pub(crate) fn with_free<T>(slots: &[Option<T>], free: &[usize]) -> Self {
        let table = Self::of(slots);
        // An entry that is in the list twice is no less wrong than one that is missing there.
        Self { lost: (table.entries - table.in_use).abs_diff(free.len()), ..table }
    }

    fn add(self, other: Self) -> Self {
        Self {
            in_use: self.in_use + other.in_use,
            entries: self.entries + other.entries,
            lost: self.lost + other.lost,
        }
    }
}

/// What a shard holds at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// Requests of clients and devices.
    pub requests: Table,
    /// NBD connections.
    pub clients: Table,
    /// Those of them that have not chosen an export.
    pub guests: usize,
    /// Connections of peers that have not sent their first message.
    pub strangers: Table,
    /// Connections whose last message is being sent.
    pub parting: Table,
    /// Names of payloads, of all groups.
    pub payloads: Table,
    /// Operations on members, of all groups.
    pub operations: Table,
    /// Orders of an operator that have not ended, of all groups.
    pub commands: usize,
    /// Sockets: listeners, connections, and those to the kernel.
    pub sockets: usize,
    /// Memory of the pool `written` that devices hold for their next request.
    pub awaiting: Bytes,
    /// The pool for what clients write and disks read.
    pub written: PoolUsage,
    /// The pool for what peers send.
    pub received: PoolUsage,
}

impl<D: Driver> Shard<D> {
    /// What it holds now.
    pub(crate) fn census(&self) -> Census {
        let clients = self.clients.table();
        let strangers = self.strangers.table();
        let parting = Table::of(&self.leaving);
        let sum =
            |tables: &mut dyn Iterator<Item = Table>| tables.fold(Table::default(), Table::add);
        let links = self.groups.iter().filter(|group| group.link.has_socket()).count();
        let listeners = self.client_listeners.len() + usize::from(self.peer_listener.is_some());
        let connections = clients.in_use + strangers.in_use + parting.in_use + links;
        Census {
            requests: self.requests.table(),
            clients,
            guests: self.clients.guests(),
            strangers,
            parting,
            payloads: sum(&mut self.groups.iter().map(|group| group.payloads.table())),
            operations: sum(&mut self.groups.iter().map(|group| group.operations())),
            commands: self.groups.iter().map(|group| group.commands.len()).sum(),
            sockets: listeners + connections + self.attached.count(),
            awaiting: self.attached.awaiting(),
            written: self.pools.written.usage(),
            received: self.pools.received.usage(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_lost_if_it_is_neither_in_use_nor_free() {
        let slots = [Some(1), None, None];
        let lost = |free: &[usize]| Table::with_free(&slots, free).lost;
        assert_eq!([lost(&[1, 2]), lost(&[1]), lost(&[1, 2, 2])], [0, 1, 1]);
        let both = Table::of(&slots).add(Table::with_free(&slots, &[]));
        assert_eq!(both, Table { in_use: 2, entries: 6, lost: 2 });
    }
}
