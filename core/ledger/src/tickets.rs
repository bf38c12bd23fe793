// SPDX-License-Identifier: Apache-2.0
//! Changes of hot extents that are not yet told as kept, and the pages that each of them waits for.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

/// Each change by the caller's name for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tickets {
    /// The name, and how many pages are not durable yet.
    waiting: BTreeMap<u64, (u64, usize)>,
    next_key: u64,
    /// Changes that were durable already when they were asked for.
    loose: Vec<u64>,
}

impl Tickets {
    /// The key of the change that is added next.
    pub(crate) const fn next_key(&self) -> u64 {
        self.next_key
    }

    /// Adds a change that waits for so many pages.
    pub(crate) fn add(&mut self, ticket: u64, pages: usize) {
        if pages == 0 {
            self.loose.push(ticket);
        } else {
            self.waiting.insert(self.next_key, (ticket, pages));
            self.next_key += 1;
        }
    }

    /// One of the pages that a change waits for is durable. Returns the change if it was the last one.
    pub(crate) fn count_durable(&mut self, key: u64) -> Option<u64> {
        let (_, pages) = self.waiting.get_mut(&key)?;
        *pages -= 1;
        if *pages > 0 {
            return None;
        }
        self.waiting.remove(&key).map(|(ticket, _)| ticket)
    }

    /// Whether a change waits for no page, and only to be told.
    pub(crate) fn has_loose(&self) -> bool {
        !self.loose.is_empty()
    }

    /// Removes and returns the changes that wait for no page.
    pub(crate) fn take_loose(&mut self) -> Vec<u64> {
        mem::take(&mut self.loose)
    }

    /// Removes and returns the changes that wait for a page, in the order in which they were added.
    pub(crate) fn take_waiting(&mut self) -> impl Iterator<Item = u64> + use<> {
        mem::take(&mut self.waiting).into_values().map(|(ticket, _)| ticket)
    }
}
