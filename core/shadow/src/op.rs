// SPDX-License-Identifier: Apache-2.0
//! What is under way in a set.

use crate::recent::Until;
use alloc::vec::Vec;
use helio_stack::{Io, Outcome, StoreFault, StoreOp};
use helio_units::{Extent, Payload};

/// The bit of a member.
pub(crate) const fn bit(member: usize) -> u8 {
    1 << member
}

/// A bit for each of so many sets.
pub(crate) const fn bits(sets: usize) -> u64 {
    if sets == 0 { 0 } else { u64::MAX >> (u64::BITS as usize - sets) }
}

/// The members of a set of bits.
pub(crate) fn members(bits: u8) -> impl Iterator<Item = usize> {
    (0..8).filter(move |member| bits & bit(*member) != 0)
}

/// The legs of an operation: one on each of several members.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Legs {
    pending: u8,
    done: u8,
    failed: u8,
    without_space: u8,
    fault: Option<StoreFault>,
}

impl Legs {
    /// On those members.
    pub(crate) const fn on(members: u8) -> Self {
        Self { pending: members, done: 0, failed: 0, without_space: 0, fault: None }
    }

    /// One more.
    pub(crate) const fn add(&mut self, member: usize) {
        self.pending |= bit(member);
    }

    /// One ended. Returns whether none is left.
    pub(crate) const fn end(&mut self, member: usize, outcome: Outcome) -> bool {
        let bit = bit(member);
        self.pending &= !bit;
        match outcome {
            Outcome::Failed(fault) | Outcome::Unsure(fault) => {
                self.failed |= bit;
                if let StoreFault::NoSpace = fault {
                    self.without_space |= bit;
                }
                // What was never issued to one member, or found no space there, does not hide that the disk of another one failed.
                match (self.fault, fault) {
                    (Some(_), StoreFault::Unrecorded) => {}
                    (Some(StoreFault::Unrecorded) | None, _) => self.fault = Some(fault),
                    (Some(_), StoreFault::NoSpace) => {}
                    (Some(_), _) => self.fault = Some(fault),
                }
            }
            Outcome::Refused(_) => self.failed |= bit,
            Outcome::Done | Outcome::Read(_) | Outcome::Mapped { .. } => self.done |= bit,
        }
        self.pending == 0
    }

    pub(crate) const fn done(&self) -> u8 {
        self.done
    }

    pub(crate) const fn failed(&self) -> u8 {
        self.failed
    }

    /// Those that failed for want of space: their disks did not.
    pub(crate) const fn without_space(&self) -> u8 {
        self.without_space
    }

    /// How one failed.
    pub(crate) fn fault(&self) -> StoreFault {
        self.fault.unwrap_or(StoreFault::Io)
    }
}

/// A change that a client or a layer above asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    io: Io,
    op: StoreOp,
    /// Reads that overlap it go to this member.
    fixed: Option<usize>,
    /// With FUA, once a member was given it: its number among the flushes.
    number: Option<u64>,
    /// All legs have ended, and it waits for these flushes.
    until: Option<Until>,
    /// How it failed on all full members.
    failed: Option<StoreFault>,
}

impl Change {
    pub(crate) const fn new(io: Io, op: StoreOp) -> Self {
        Self { io, op, fixed: None, number: None, until: None, failed: None }
    }

    /// It passed the gate.
    pub(crate) const fn begin(&mut self, fixed: Option<usize>) {
        self.fixed = fixed;
    }

    /// A member was given it.
    pub(crate) fn issued(&mut self, number: impl FnOnce() -> u64) {
        self.number.get_or_insert_with(number);
    }

    pub(crate) const fn wait(&mut self, until: Option<Until>) {
        self.until = until;
    }

    pub(crate) const fn fail(&mut self, fault: StoreFault) {
        self.failed = Some(fault);
    }

    pub(crate) const fn failed(&self) -> Option<StoreFault> {
        self.failed
    }

    pub(crate) const fn io(&self) -> Io {
        self.io
    }

    pub(crate) const fn op(&self) -> StoreOp {
        self.op
    }

    pub(crate) const fn fixed(&self) -> Option<usize> {
        self.fixed
    }

    pub(crate) const fn number(&self) -> Option<u64> {
        self.number
    }

    pub(crate) const fn until(&self) -> Option<Until> {
        self.until
    }
}

/// A read, or the question what is allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    io: Io,
    op: StoreOp,
    /// Members that failed it.
    tried: u8,
    fault: StoreFault,
}

impl Read {
    pub(crate) const fn new(io: Io, op: StoreOp) -> Self {
        Self { io, op, tried: 0, fault: StoreFault::Io }
    }

    pub(crate) const fn io(&self) -> Io {
        self.io
    }

    pub(crate) const fn op(&self) -> StoreOp {
        self.op
    }

    pub(crate) const fn tried(&self) -> u8 {
        self.tried
    }

    pub(crate) const fn fault(&self) -> StoreFault {
        self.fault
    }

    /// A member failed it.
    pub(crate) const fn failed(&mut self, member: usize, fault: StoreFault) {
        self.tried |= bit(member);
        self.fault = fault;
    }
}

/// A flush.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flush {
    /// None where the set asks for it by itself.
    io: Option<Io>,
    number: u64,
    /// All legs have ended; bitmaps as of this tick are to be durable, and these flushes ended.
    waits: Option<(u64, Until)>,
}

impl Flush {
    pub(crate) const fn new(io: Option<Io>, number: u64) -> Self {
        Self { io, number, waits: None }
    }

    pub(crate) const fn wait(&mut self, tick: u64, until: Until) {
        self.waits = Some((tick, until));
    }

    pub(crate) const fn io(&self) -> Option<Io> {
        self.io
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    pub(crate) const fn waits(&self) -> Option<(u64, Until)> {
        self.waits
    }
}

/// What a piece is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Full members are made equal in it.
    Merge,
    /// This member gets it.
    Copy(usize),
}

/// How far a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Waits,
    Reads,
    Compares,
    Writes,
}

/// An extent that is being copied or merged.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    job: Job,
    extent: Extent,
    step: Step,
    /// What members hold there; released at its end.
    held: Vec<(usize, Payload)>,
    /// Of a copy: sources that could not be read. Of a merge: members that are compared.
    tried: u8,
    /// Members that are to be written.
    differs: u8,
    /// Of a merge: the member whose version is written, whatever becomes of it since.
    base: Option<usize>,
}

impl Piece {
    pub(crate) const fn new(job: Job, extent: Extent) -> Self {
        Self { job, extent, step: Step::Waits, held: Vec::new(), tried: 0, differs: 0, base: None }
    }

    pub(crate) const fn job(&self) -> Job {
        self.job
    }

    pub(crate) const fn extent(&self) -> Extent {
        self.extent
    }

    pub(crate) const fn step(&self) -> Step {
        self.step
    }

    pub(crate) const fn go(&mut self, step: Step) {
        self.step = step;
    }

    pub(crate) const fn tried(&self) -> u8 {
        self.tried
    }

    pub(crate) const fn add_tried(&mut self, members: u8) {
        self.tried |= members;
    }

    pub(crate) const fn differs(&self) -> u8 {
        self.differs
    }

    pub(crate) const fn add_differs(&mut self, members: u8) {
        self.differs |= members;
    }

    pub(crate) const fn found(&mut self, base: usize) {
        self.base = Some(base);
    }

    /// The version that is written, and whose it is.
    pub(crate) fn base(&self) -> Option<(usize, Payload)> {
        let base = self.base?;
        Some((base, self.held_of(base)?))
    }

    pub(crate) fn hold(&mut self, member: usize, payload: Payload) {
        self.held.push((member, payload));
        self.held.sort_unstable_by_key(|(member, _)| *member);
    }

    pub(crate) fn held(&self) -> &[(usize, Payload)] {
        &self.held
    }

    pub(crate) fn held_of(&self, member: usize) -> Option<Payload> {
        self.held.iter().find(|(of, _)| *of == member).map(|(_, payload)| *payload)
    }
}

/// Everything that a set has under way, with its legs.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Change(Change, Legs),
    Read(Read),
    Flush(Flush, Legs),
    Piece(Piece, Legs),
}

impl Op {
    /// A client, or a layer above, waits for it.
    pub(crate) const fn is_asked_for(&self) -> bool {
        match self {
            Self::Change(..) | Self::Read(_) => true,
            Self::Flush(flush, _) => flush.io().is_some(),
            Self::Piece(..) => false,
        }
    }

    const fn is_flush(&self) -> bool {
        match self {
            Self::Change(change, _) => change.op().is_flush(),
            Self::Flush(..) => true,
            Self::Read(_) | Self::Piece(..) => false,
        }
    }

    /// Members that failed it.
    pub(crate) const fn failed(&self) -> u8 {
        match self {
            Self::Change(_, legs) | Self::Flush(_, legs) | Self::Piece(_, legs) => legs.failed,
            Self::Read(read) => read.tried,
        }
    }

    /// Members that failed a flush, or a change with FUA, which others have not ended.
    pub(crate) const fn doubts(&self) -> u8 {
        match self {
            Self::Change(_, legs) | Self::Flush(_, legs)
                if self.is_flush() && legs.pending != 0 =>
            {
                legs.failed
            }
            _ => 0,
        }
    }
}
