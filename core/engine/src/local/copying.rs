// SPDX-License-Identifier: Apache-2.0
//! What is asked of the copies that a layer preserves: one thing at a time, for one of three users.
//!
//! ```text
//!   asked ──nothing beside the layers──> UnderWay ──a cut──> Ready ──told──> UnderWay ──> Ended ──told──> Nothing
//! ```

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::mem;
use helio_stack::{CopyNumber, CopyOp, CopyOutcome, CopyRecord, KeptCopy};
use helio_units::Moment;

/// Who asks. Each asks for one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyUser {
    /// A resync preserves the image that it overwrites.
    Resync,
    /// An operator.
    Operator,
    /// A primary in mode periodic.
    Shipping,
}

/// What is being done.
#[derive(Clone, Debug, Default)]
enum Doing {
    #[default]
    Nothing,
    UnderWay(CopyUser),
    /// A cut waits for its moment. The engine does not know it yet.
    Ready(CopyUser),
    /// It has ended. The engine does not know it yet.
    Ended(CopyUser, CopyOutcome),
}

/// What the superblock is to say of copies.
#[derive(Clone, Copy, Debug, Default)]
enum Records {
    #[default]
    Nothing,
    /// This. The engine does not know it yet.
    Wanted(CopyRecord),
    /// This. The engine waits for what must be durable before.
    Waits(CopyRecord),
    /// That is on its way.
    Asked,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Copying {
    asked: VecDeque<(CopyUser, CopyOp)>,
    doing: Doing,
    /// Copies that ended for want of room. The engine does not know it yet.
    over: VecDeque<Box<KeptCopy>>,
    records: Records,
}

impl Copying {
    pub(super) fn ask(&mut self, user: CopyUser, op: CopyOp) {
        self.asked.push_back((user, op));
    }

    /// Nothing was asked for that has not begun.
    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    /// Something was asked for, and may begin.
    pub(super) fn may_begin(&self) -> bool {
        matches!(self.doing, Doing::Nothing) && !self.asked.is_empty()
    }

    /// The next thing that was asked for begins.
    pub(super) fn begin(&mut self) -> Option<CopyOp> {
        let (user, op) = self.asked.pop_front()?;
        self.doing = Doing::UnderWay(user);
        Some(op)
    }

    /// When the engine is to be settled for it.
    pub(super) fn deadline(&self) -> Moment {
        let news = matches!(self.doing, Doing::Ready(_) | Doing::Ended(..));
        let records = matches!(self.records, Records::Wanted(_));
        if news || records || !self.over.is_empty() { Moment::ZERO } else { Moment::NEVER }
    }

    /// The layer is ready for the cut that is under way.
    pub(super) const fn ready(&mut self) {
        if let Doing::UnderWay(user) = self.doing {
            self.doing = Doing::Ready(user);
        }
    }

    /// Whose cut waits for its moment, once.
    pub(super) const fn take_ready(&mut self) -> Option<CopyUser> {
        let Doing::Ready(user) = self.doing else { return None };
        self.doing = Doing::UnderWay(user);
        Some(user)
    }

    pub(super) const fn ended(&mut self, outcome: CopyOutcome) {
        if let Doing::UnderWay(user) | Doing::Ready(user) = self.doing {
            self.doing = Doing::Ended(user, outcome);
        }
    }

    /// How what was under way ended, once.
    pub(super) fn take_ended(&mut self) -> Option<(CopyUser, CopyOutcome)> {
        let Doing::Ended(user, outcome) = self.doing else { return None };
        self.doing = Doing::Nothing;
        Some((user, outcome))
    }

    pub(super) fn over(&mut self, copy: Box<KeptCopy>) {
        self.over.push_back(copy);
    }

    /// Whether that one has ended so, and the engine does not know it yet.
    pub(super) fn is_over(&self, number: CopyNumber) -> bool {
        self.over.iter().any(|copy| copy.number == number)
    }

    pub(super) fn take_over(&mut self) -> Option<Box<KeptCopy>> {
        self.over.pop_front()
    }

    /// The superblock is to say that.
    pub(super) const fn record(&mut self, record: CopyRecord) {
        self.records = Records::Wanted(record);
    }

    /// What the superblock is to say.
    pub(super) const fn wanted_record(&self) -> Option<CopyRecord> {
        match self.records {
            Records::Wanted(record) | Records::Waits(record) => Some(record),
            Records::Nothing | Records::Asked => None,
        }
    }

    /// It waits for what must be durable before.
    pub(super) const fn record_waits(&self) -> bool {
        matches!(self.records, Records::Waits(_))
    }

    /// That is on its way, or it waits.
    pub(super) const fn records(&mut self, waits: Option<CopyRecord>) {
        self.records = match waits {
            Some(record) => Records::Waits(record),
            None => Records::Asked,
        };
    }

    /// The record says so, or cannot be written. Returns whether it was to.
    pub(super) fn recorded(&mut self) -> bool {
        !matches!(mem::take(&mut self.records), Records::Nothing)
    }
}
