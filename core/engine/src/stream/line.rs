// SPDX-License-Identifier: Apache-2.0
//! The line of one generation: every item that was accepted and is still owed to somebody.
//!
//! Entries lie in a ring in their order; the place of one is found by subtraction. An entry leaves at the front,
//! once the local store is done with it, its client has its answer, and the peer has it durable or is owed marks
//! instead.

use crate::stream::ack::Leg;
use crate::stream::slots::SlotId;
use alloc::collections::VecDeque;
use helio_format::message::Item;
use helio_units::{Bytes, Moment, Sequence};

/// An item and who still needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) item: Item,
    /// The client's request it is part of.
    pub(crate) slot: Option<SlotId>,
    pub(crate) local: Leg,
    pub(crate) peer_completed: bool,
    pub(crate) answered: bool,
    /// What it was part of failed for its client, whatever became of it.
    pub(crate) denied: bool,
    /// Its regions are counted as pending.
    pub(crate) pended: bool,
    pub(crate) accepted_at: Moment,
    /// What it costs the queue.
    pub(crate) cost: Bytes,
}

/// The ring of entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    entries: VecDeque<Entry>,
    /// The last position given out.
    pub(crate) head: Sequence,
}

impl Line {
    pub(crate) fn starting_after(head: Sequence) -> Self {
        Self { entries: VecDeque::new(), head }
    }

    /// The first position still held, or the one behind the head.
    pub(crate) fn first(&self) -> Sequence {
        Sequence(self.head.0 + 1 - self.entries.len() as u64)
    }

    fn index(&self, at: Sequence) -> Option<usize> {
        at.0.checked_sub(self.first().0).map(|n| n as usize)
    }

    pub(crate) fn get(&self, at: Sequence) -> Option<&Entry> {
        self.index(at).and_then(|n| self.entries.get(n))
    }

    pub(crate) fn get_mut(&mut self, at: Sequence) -> Option<&mut Entry> {
        self.index(at).and_then(|n| self.entries.get_mut(n))
    }

    /// Puts an entry at the end; its item already carries the next position.
    pub(crate) fn push(&mut self, entry: Entry) {
        assert_eq!(entry.item.sequence, self.head.next(), "an item skipped a place on the line");
        self.head = entry.item.sequence;
        self.entries.push_back(entry);
    }

    pub(crate) fn front(&self) -> Option<&Entry> {
        self.entries.front()
    }

    pub(crate) fn pop(&mut self) -> Option<Entry> {
        self.entries.pop_front()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }
}
