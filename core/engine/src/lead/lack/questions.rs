// SPDX-License-Identifier: Apache-2.0
//! What a primary that lacks regions asks its peer to read: for its clients, and for the puller.

use crate::peer::read_server::{ASKED_BYTES_MAX, ASKED_MAX};
use alloc::collections::{BTreeMap, VecDeque};
use helio_copy::Claim;
use helio_format::message::Message;
use helio_format::reading::Reading;
use helio_units::{Bytes, Extent, RequestId, Sequence, VolumeIndex};

/// Bytes asked for at which the puller asks no more: the rest of what may be open is the clients'.
pub(super) const PULLING_MAX: Bytes = Bytes::mib(32);

/// Who wants to know what the peer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// A client reads.
    Client(RequestId),
    /// The puller.
    Pull(Claim),
}

/// A question to the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) goal: For,
    pub(crate) volume: VolumeIndex,
    pub(crate) extent: Extent,
    /// Everything up to here was accepted before it.
    pub(crate) after: Sequence,
}

/// The questions that are open, and those that wait for their turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Questions {
    /// Clients' reads that were not asked yet.
    waiting: VecDeque<Ask>,
    asked: BTreeMap<u64, Ask>,
    /// Bytes in them.
    open: Bytes,
    tickets: u64,
}

impl Questions {
    /// A client's read waits for its turn.
    pub(super) fn wait(&mut self, ask: Ask) {
        self.waiting.push_back(ask);
    }

    /// A client's read that got no answer is asked first.
    pub(super) fn wait_again(&mut self, ask: Ask) {
        self.waiting.push_front(ask);
    }

    /// The first client's read that waits, where the peer may be asked it now.
    pub(super) fn next_read(&mut self) -> Option<Ask> {
        let (count, open) = (self.asked.len(), self.open);
        self.waiting.pop_front_if(|ask| {
            let length = Bytes(ask.extent.length);
            count == 0 || (count < ASKED_MAX && open + length <= ASKED_BYTES_MAX)
        })
    }

    /// Whether the puller may claim a region of that size, with `more` questions to ask before.
    pub(super) fn admits_claim(&self, more: usize, grain: Bytes) -> bool {
        self.asked.len() + more < ASKED_MAX / 2 && self.open + grain <= PULLING_MAX
    }

    /// Whether the puller may ask for that much now: one piece always, however large.
    pub(super) fn admits_piece(&self, length: Bytes) -> bool {
        self.asked.len() < ASKED_MAX / 2
            && (self.open + length <= PULLING_MAX || self.asked.is_empty())
    }

    /// Asks the peer by this message.
    pub(super) fn ask(&mut self, ask: Ask) -> Message {
        let Ask { goal, volume, extent, after } = ask;
        let ticket = self.next_ticket();
        self.take_ticket(ticket);
        self.open += Bytes(extent.length);
        self.asked.insert(ticket, ask);
        let zeros = matches!(goal, For::Pull(_));
        Message::Reading(Reading::Wanted { ticket, after, volume, extent, zeros })
    }

    /// A number that no question and no claim had yet.
    pub(super) const fn next_ticket(&self) -> u64 {
        self.tickets + 1
    }

    /// That number is in use.
    pub(super) const fn take_ticket(&mut self, ticket: u64) {
        self.tickets = ticket;
    }

    /// The peer answers a question, if it was asked.
    pub(super) fn answered(&mut self, ticket: u64) -> Option<Ask> {
        let ask = self.asked.remove(&ticket)?;
        self.open -= Bytes(ask.extent.length);
        Some(ask)
    }

    /// Every question that is open is open no more.
    pub(super) fn take_asked(&mut self) -> impl DoubleEndedIterator<Item = Ask> + use<> {
        self.open = Bytes::ZERO;
        core::mem::take(&mut self.asked).into_values()
    }

    /// Clients' reads that were not asked yet wait no more.
    pub(super) fn take_waiting(&mut self) -> impl Iterator<Item = RequestId> + use<> {
        core::mem::take(&mut self.waiting).into_iter().filter_map(|ask| ask.client())
    }

    /// Every client's read.
    pub(super) fn reads(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.waiting.iter().chain(self.asked.values()).filter_map(Ask::client)
    }

    /// Nothing is asked.
    pub(super) fn none_open(&self) -> bool {
        self.asked.is_empty()
    }
}

impl Ask {
    const fn client(&self) -> Option<RequestId> {
        match self.goal {
            For::Client(id) => Some(id),
            For::Pull(_) => None,
        }
    }
}
