// SPDX-License-Identifier: Apache-2.0
//! How far a follower's items are: `received ≥ offered` and `received ≥ completed ≥ durable`.

use helio_units::Sequence;

/// See the head of this file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursors {
    received: Sequence,
    /// Items up to here were offered to the gate.
    offered: Sequence,
    completed: Sequence,
    durable: Sequence,
}

impl Cursors {
    pub(super) const fn all_at(head: Sequence) -> Self {
        Self { received: head, offered: head, completed: head, durable: head }
    }

    pub(super) const fn received(self) -> Sequence {
        self.received
    }

    pub(super) const fn completed(self) -> Sequence {
        self.completed
    }

    pub(super) const fn durable(self) -> Sequence {
        self.durable
    }

    /// An item arrived.
    pub(super) fn receive(&mut self, at: Sequence) {
        self.received = at;
    }

    /// The item that is to be offered next, if it was received.
    pub(super) fn to_offer(self) -> Option<Sequence> {
        (self.offered < self.received).then(|| self.next_to_offer())
    }

    /// The same, whether it was received or not.
    pub(super) const fn next_to_offer(self) -> Sequence {
        self.offered.next()
    }

    /// An item is offered.
    pub(super) fn offer(&mut self, at: Sequence) {
        self.offered = at;
    }

    /// The next item is complete.
    pub(super) fn complete(&mut self) {
        self.completed = self.completed.next();
    }

    /// Items up to there are durable. Returns whether that is news: what was durable stays so.
    pub(super) fn harden(&mut self, upto: Sequence) -> bool {
        let news = upto > self.durable;
        self.durable = self.durable.max(upto);
        news
    }

    /// Something is complete and not durable.
    pub(super) fn are_apart(self) -> bool {
        self.completed > self.durable
    }
}
