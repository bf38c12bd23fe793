// SPDX-License-Identifier: Apache-2.0
//! What a follower takes of its connection: the start that waits to be recorded, and the items behind it.

use alloc::collections::VecDeque;
use core::mem;
use helio_format::message::{Item, Start};
use helio_units::Sequence;

/// The start that is to be adopted.
#[derive(Clone, Copy, Debug)]
enum Starting {
    No,
    /// It waits until everything received is applied and durable.
    Waits(Start),
    /// A start is on its way into the superblock. This one is to hold once it is there: the same, a later one, or none
    /// since it was refused.
    Recording(Option<Start>),
}

/// What is taken of this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taking {
    /// No stream began on it: our cursors may belong to another line than the peer's.
    Nothing,
    /// The stream that began on it.
    Stream,
    /// Nothing: a start was refused. Its source begins again, if at all.
    StartRefused,
    /// Nothing: applying stopped within a stream that was taken up. What is let go is counted: until its source hears of that
    /// it may go on behind it, and in another generation it says so with a start.
    StreamRefused { next: Sequence },
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Intake {
    taking: Taking,
    starting: Starting,
    /// Items behind a start that is not adopted yet.
    held: VecDeque<Item>,
}

impl Intake {
    pub(super) const fn new() -> Self {
        Self { taking: Taking::Nothing, starting: Starting::No, held: VecDeque::new() }
    }

    /// The start that is to be adopted, recorded or not.
    pub(super) const fn starting(&self) -> Option<Start> {
        match self.starting {
            Starting::No => None,
            Starting::Waits(start) => Some(start),
            Starting::Recording(start) => start,
        }
    }

    /// The start that waits to be recorded.
    pub(super) const fn waiting(&self) -> Option<Start> {
        if let Starting::Waits(start) = self.starting { Some(start) } else { None }
    }

    pub(super) const fn is_recording(&self) -> bool {
        matches!(self.starting, Starting::Recording(_))
    }

    pub(super) fn is_begun(&self) -> bool {
        self.taking == Taking::Stream
    }

    /// Whether the stream of this connection is adopted, so that our cursors mean something to the primary.
    pub(super) fn is_adopted(&self) -> bool {
        self.is_begun() && self.starting().is_none()
    }

    pub(super) const fn is_deaf(&self) -> bool {
        matches!(self.taking, Taking::StartRefused | Taking::StreamRefused { .. })
    }

    pub(super) fn missed_before(&self, start: &Start) -> bool {
        self.taking == Taking::StreamRefused { next: start.from }
    }

    /// A stream begins on this connection.
    pub(super) fn begin(&mut self) {
        self.taking = Taking::Stream;
    }

    /// This start is to be adopted, in place of an earlier one.
    pub(super) fn adopt(&mut self, start: Start) {
        self.starting = match self.starting {
            Starting::No | Starting::Waits(_) => Starting::Waits(start),
            Starting::Recording(_) => Starting::Recording(Some(start)),
        };
    }

    /// The start that waits is being recorded.
    pub(super) fn record(&mut self) {
        self.starting = Starting::Recording(self.starting());
    }

    /// A start is recorded. Returns the items that were held behind it, unless another one is to follow.
    pub(super) fn recorded(&mut self, start: Start) -> VecDeque<Item> {
        let later = self.starting().filter(|later| *later != start);
        let held = if later.is_none() { mem::take(&mut self.held) } else { VecDeque::new() };
        self.starting = later.map_or(Starting::No, Starting::Waits);
        held
    }

    /// The start, or the stream, is not followed.
    pub(super) fn refuse(&mut self, received: Sequence) {
        if !self.is_deaf() {
            self.taking = if self.is_adopted() {
                Taking::StreamRefused { next: received.next() }
            } else {
                Taking::StartRefused
            };
        }
        self.starting = if self.is_recording() { Starting::Recording(None) } else { Starting::No };
    }

    /// The connection is gone. A start that is being recorded is adopted nevertheless.
    pub(super) fn disconnected(&mut self) {
        self.taking = Taking::Nothing;
        if !self.is_recording() {
            self.starting = Starting::No;
        }
    }

    /// The position of the item that comes next.
    pub(super) fn expected(&self, received: Sequence) -> Sequence {
        match (self.starting(), self.held.back()) {
            (_, Some(last)) => last.sequence.next(),
            (Some(start), None) => start.from,
            (None, None) => received.next(),
        }
    }

    /// Whether an item is let go, which is counted.
    pub(super) fn lets_go(&mut self, item: Sequence) -> bool {
        if let Taking::StreamRefused { next } = &mut self.taking
            && item == *next
        {
            *next = next.next();
        }
        self.is_deaf()
    }

    pub(super) fn hold(&mut self, item: Item) {
        self.held.push_back(item);
    }

    /// Items that are held.
    pub(super) fn holds(&self) -> usize {
        self.held.len()
    }

    /// Gives out what is held, to be let go.
    pub(super) fn forget_held(&mut self) -> VecDeque<Item> {
        mem::take(&mut self.held)
    }
}
