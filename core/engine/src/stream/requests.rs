// SPDX-License-Identifier: Apache-2.0
//! Clients' requests on a primary: those under way, and what became of the others.

use crate::effect::Answer;
use crate::refusal::Denial;
use crate::stream::slots::{SlotId, Slots};
use crate::stream::times::{AnswerTimes, Answers};
use crate::turn::Turn;
use core::time::Duration;
use helio_format::message::ItemKind;
use helio_units::{RequestId, Sequence};

/// Clients' requests.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    slots: Slots,
    /// How long they took.
    times: Answers,
    /// The highest position answered.
    answered: Sequence,
}

impl Requests {
    /// None yet; everything up to `head` was answered before.
    pub(crate) fn starting_after(head: Sequence) -> Self {
        Self { slots: Slots::default(), times: Answers::default(), answered: head }
    }

    /// A request is to be answered once so many parts are.
    #[inline]
    pub(crate) fn open(
        &mut self,
        id: RequestId,
        kind: ItemKind,
        parts: u32,
        turn: &Turn,
    ) -> SlotId {
        self.slots.open(id, kind, parts, turn.now())
    }

    /// Whatever its parts come to, the request is denied.
    pub(crate) fn deny(&mut self, slot: SlotId, denial: Denial) {
        self.slots.deny(slot, denial);
    }

    /// The part at that position is answered, and the request with its last part: returns how long that took.
    #[inline]
    pub(crate) fn part_answered(
        &mut self,
        slot: SlotId,
        sequence: Sequence,
        answer: Answer,
        turn: &mut Turn,
    ) -> Option<Duration> {
        let slot = self.slots.part_ended(slot, sequence, None)?;
        self.answered = self.answered.max(slot.last);
        let took = turn.now() - slot.since;
        turn.took(took);
        let answer = slot.denied.map_or(answer, Answer::Denied);
        if matches!(answer, Answer::Done(_)) {
            self.times.add(slot.kind, took);
        }
        turn.reply(slot.request, answer);
        Some(took)
    }

    /// A part that never got a position is denied.
    pub(crate) fn part_denied(&mut self, slot: SlotId, denial: Denial, turn: &mut Turn) {
        if let Some(slot) = self.slots.part_ended(slot, Sequence::ZERO, Some(denial)) {
            turn.reply(slot.request, Answer::Denied(denial));
        }
    }

    /// The highest position answered.
    #[inline]
    pub(crate) const fn answered(&self) -> Sequence {
        self.answered
    }

    /// Every request is answered.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.under_way() == 0
    }

    /// How long they took.
    pub(crate) fn times(&self) -> AnswerTimes {
        self.times.status()
    }

    /// Forgets how long they took.
    pub(crate) fn forget_times(&mut self) {
        self.times.clear();
    }
}
