// SPDX-License-Identifier: Apache-2.0
//! What is asked of the copies that a layer preserves: one thing at a time, for one of two users.
//!
//! ```text
//!   asked ──nothing beside the layers──> under way ──> ready (a cut) ──the moment──> under way ──> ended
//! ```

use crate::local::Local;
use crate::turn::Turn;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;
use helio_format::before::CopyOwner;
use helio_stack::{CopyNumber, CopyOp, CopyOutcome, HeldCopy, KeptCopy, KeptImage};
use helio_units::{CopyName, Moment};

/// Who asks. Each asks for one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyUser {
    /// A resync preserves the image that it overwrites.
    Resync,
    /// An operator.
    Operator,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Copying {
    asked: VecDeque<(CopyUser, CopyOp)>,
    under_way: Option<CopyUser>,
    /// A cut waits for its moment.
    ready: bool,
    /// How what was under way ended, until [`Local::take_copied`] returns it.
    ended: Option<(CopyUser, CopyOutcome)>,
    /// Copies that are over for want of room, until [`Local::take_over`] returns them.
    over: VecDeque<Box<KeptCopy>>,
    records: Records,
}

/// Whether the record is to say that expendable copies are over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Records {
    #[default]
    Nothing,
    /// Up to this one; nobody has heard of it.
    Wanted(CopyNumber),
    /// That is on its way.
    Asked,
}

impl Copying {
    /// Nothing was asked for that has not begun.
    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    /// When the engine is to be settled for it.
    pub(super) fn deadline(&self) -> Moment {
        let news = self.ended.is_some() || self.ready || !self.over.is_empty();
        let records = matches!(self.records, Records::Wanted(_));
        if news || records { Moment::ZERO } else { Moment::NEVER }
    }

    /// The layer is ready for the cut that is under way.
    pub(super) const fn is_ready(&mut self) {
        self.ready = true;
    }

    pub(super) fn ended(&mut self, outcome: CopyOutcome) {
        self.ready = false;
        self.ended = self.under_way.take().map(|user| (user, outcome));
    }

    pub(super) fn over(&mut self, copy: Box<KeptCopy>) {
        self.over.push_back(copy);
    }

    pub(super) const fn record_over(&mut self, last: CopyNumber) {
        self.records = Records::Wanted(last);
    }
}

impl Local {
    /// Asks something of the group's copies; [`Self::take_copied`] tells how it ended. It begins once no change is under way
    /// beside the layers: those that come behind it pass them.
    pub(crate) fn copy(&mut self, user: CopyUser, op: CopyOp, turn: &mut Turn) {
        self.layered.copying.asked.push_back((user, op));
        self.begin_copy(turn);
    }

    /// Begins what is asked of the group's copies, if nothing is in its way.
    pub(super) fn begin_copy(&mut self, turn: &mut Turn) {
        let copying = &self.layered.copying;
        let busy = copying.under_way.is_some() || copying.ended.is_some();
        if copying.asked.is_empty() || busy || self.changes_beside_layers() {
            return;
        }
        if let Some((user, op)) = self.layered.copying.asked.pop_front() {
            self.layered.copying.under_way = Some(user);
            self.layered.stack.copy(op, turn.now());
            self.run_layers(turn);
        }
    }

    /// Whose cut waits for its moment, once.
    pub(crate) fn take_cut_ready(&mut self) -> Option<CopyUser> {
        let copying = &mut self.layered.copying;
        mem::take(&mut copying.ready).then_some(copying.under_way).flatten()
    }

    /// This is the moment of the cut that is ready: what the volumes hold now is that image. None: there is no moment.
    pub(crate) fn cut(&mut self, image: Option<KeptImage>, turn: &mut Turn) {
        self.layered.stack.cut(image, turn.now());
        self.run_layers(turn);
    }

    /// How what was asked of the group's copies ended, once.
    pub(crate) const fn take_copied(&mut self) -> Option<(CopyUser, CopyOutcome)> {
        self.layered.copying.ended.take()
    }

    /// The next copy that is over for want of room.
    pub(crate) fn take_over(&mut self) -> Option<Box<KeptCopy>> {
        self.layered.copying.over.pop_front()
    }

    /// Up to which copy the record is to say that expendable ones are over, once.
    pub(crate) const fn take_copies_over(&mut self) -> Option<CopyNumber> {
        let Records::Wanted(last) = self.layered.copying.records else { return None };
        self.layered.copying.records = Records::Asked;
        Some(last)
    }

    /// The record says so, or cannot be written.
    pub(crate) fn copies_over_recorded(&mut self, ok: bool, turn: &mut Turn) {
        if mem::take(&mut self.layered.copying.records) == Records::Asked {
            self.layer_recorded(ok, turn);
        }
    }

    /// The copies that operators named, the oldest first.
    pub(crate) fn named_copies(&self) -> Vec<(CopyName, HeldCopy)> {
        let named = |held: HeldCopy| match held.copy.owner {
            CopyOwner::Operator(name) => Some((name, held)),
            CopyOwner::Resync => None,
        };
        self.layered.stack.copies().into_iter().filter_map(named).collect()
    }

    /// The copy of that name.
    pub(crate) fn copy_named(&self, name: &CopyName) -> Option<HeldCopy> {
        self.named_copies().into_iter().find(|(known, _)| known == name).map(|(_, held)| held)
    }

    /// A copy is of no use any more, and that may not be recorded: nothing waits for it.
    pub(crate) fn abandon_copy(&mut self, copy: CopyNumber, turn: &mut Turn) {
        self.layered.stack.abandon(copy, turn.now());
        self.run_layers(turn);
    }
}
