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

    /// Items up to here were offered to the gate.
    pub(super) const fn offered(self) -> Sequence {
        self.offered
    }

    /// An item is offered.
    pub(super) fn offer(&mut self, at: Sequence) {
        self.offered = at;
    }

    /// The next item is complete, which is that one.
    pub(super) fn complete(&mut self, at: Sequence) {
        self.completed = at;
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
