// SPDX-License-Identifier: Apache-2.0
//! The line of one generation: every item that was accepted and is still owed to somebody.
//!
//! Entries lie in a ring in their order; the place of one is found by subtraction. An entry leaves at the front,
//! once the local store is done with it, its client has its answer, and the peer has it durable or is owed marks
//! instead.

use crate::stream::ack::Leg;
use crate::stream::slots::{ITEM_COST, SlotId};
use alloc::collections::VecDeque;
use helio_format::message::{Item, ItemKind};
use helio_units::{Bytes, Moment, Payload, Sequence, VolumeIndex};

/// An item and who still needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    item: Item,
    /// The client's request it is part of.
    slot: Option<SlotId>,
    local: Leg,
    peer_completed: bool,
    answer: Answer,
    /// Its regions are counted as pending.
    pended: bool,
    accepted_at: Moment,
    /// What it costs the queue.
    cost: Bytes,
}

/// How its client's request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Owed,
    /// As the item ended, or nothing was owed.
    Given,
    /// It failed, whatever becomes of the item.
    Denied,
}

impl Entry {
    /// An item that was accepted: a client's, or one of this node's own, which is complete here and owes no answer.
    #[inline]
    pub(crate) const fn new(
        item: Item,
        slot: Option<SlotId>,
        pended: bool,
        accepted_at: Moment,
        cost: Bytes,
    ) -> Self {
        let (local, answer) = match slot {
            Some(_) => (Leg::Pending, Answer::Owed),
            None => (Leg::Done, Answer::Given),
        };
        Self { item, slot, local, peer_completed: false, answer, pended, accepted_at, cost }
    }

    #[inline]
    pub(crate) const fn item(&self) -> &Item {
        &self.item
    }

    #[inline]
    pub(crate) const fn slot(&self) -> Option<SlotId> {
        self.slot
    }

    #[inline]
    pub(crate) const fn local(&self) -> Leg {
        self.local
    }

    #[inline]
    pub(crate) const fn cost(&self) -> Bytes {
        self.cost
    }

    pub(crate) const fn accepted_at(&self) -> Moment {
        self.accepted_at
    }

    /// The local store is done with it.
    #[inline]
    pub(crate) fn has_ended_here(&self) -> bool {
        self.local != Leg::Pending
    }

    /// The local store is done with it, in this way.
    #[inline]
    pub(crate) const fn end_here(&mut self, local: Leg) {
        self.local = local;
    }

    #[inline]
    pub(crate) const fn has_peer_completed(&self) -> bool {
        self.peer_completed
    }

    /// The peer completed it, or owes no word about it.
    #[inline]
    pub(crate) const fn peer_completes(&mut self) {
        self.peer_completed = true;
    }

    /// The peer lost its memory, and this item was not durable there. `in_part`: items behind it may be in the peer's image
    /// in part, so a marker from before covers too little.
    pub(crate) fn peer_forgets(&mut self, in_part: bool) {
        self.peer_completed = false;
        if in_part && self.item.kind == ItemKind::Consistent {
            self.item.kind = ItemKind::Flush;
        }
    }

    /// Its client has its answer.
    #[inline]
    pub(crate) fn is_answered(&self) -> bool {
        self.answer != Answer::Owed
    }

    /// Its client has its answer, and the item decided it.
    pub(crate) fn is_answered_for_itself(&self) -> bool {
        self.answer == Answer::Given
    }

    #[inline]
    pub(crate) const fn answer(&mut self) {
        self.answer = Answer::Given;
    }

    /// What it is part of fails for its client, whatever becomes of it.
    pub(crate) const fn deny(&mut self) {
        self.answer = Answer::Denied;
    }

    /// Its regions are counted as pending.
    #[inline]
    pub(crate) const fn is_pended(&self) -> bool {
        self.pended
    }

    /// They are counted no more. Returns whether they were.
    #[inline]
    pub(crate) const fn unpend(&mut self) -> bool {
        core::mem::replace(&mut self.pended, false)
    }

    /// Its payload leaves the queue before the item does. Returns the payload and what the item cost until now.
    pub(crate) fn shed(&mut self) -> Option<(Payload, Bytes)> {
        let payload = self.item.payload.take()?;
        Some((payload, core::mem::replace(&mut self.cost, ITEM_COST)))
    }

    /// A comparison means nothing any more. Returns its payload.
    pub(crate) const fn compare_nothing(&mut self) -> Option<Payload> {
        self.item.kind = ItemKind::Same;
        self.item.payload.take()
    }
}

/// The ring of entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    entries: VecDeque<Entry>,
    /// The last position given out.
    head: Sequence,
}

impl Line {
    pub(crate) fn starting_after(head: Sequence) -> Self {
        Self { entries: VecDeque::new(), head }
    }

    /// The last position given out.
    #[inline]
    pub(crate) const fn head(&self) -> Sequence {
        self.head
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

    /// The entries behind a position.
    pub(crate) fn behind(&self, at: Sequence) -> impl Iterator<Item = &Entry> {
        let before = at.next().0.saturating_sub(self.first().0) as usize;
        self.entries.range(before.min(self.entries.len())..)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }
    /// Flushes of a volume that failed here are the peer's to answer: they count as done.
    pub(crate) fn leave_flushes_to_peer(&mut self, volume: VolumeIndex) {
        let failed = self.entries.iter_mut().filter(|entry| {
            entry.item.volume == volume
                && entry.local == Leg::Failed
                && !entry.item.kind.changes_data()
        });
        failed.for_each(|entry| entry.local = Leg::Done);
    }

    /// Since when regions are pending.
    pub(crate) fn pended_since(&self) -> Option<Moment> {
        self.iter().filter(|entry| entry.pended).map(|entry| entry.accepted_at).min()
    }
}
