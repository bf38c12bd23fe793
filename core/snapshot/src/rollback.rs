// SPDX-License-Identifier: Apache-2.0
//! How far a rollback is.
//!
//! ```text
//!   owed ──loaded, written──> written ──all volumes are being flushed──> flushing ──> done
//!     ^────── a flush failed for somebody else ─┴────────────────────────────┘
//! ```
//! Nothing touches a chunk that is owed, written or flushing. What reads or changes it waits, and its chunks come first. Where the
//! rollback cannot go on, what waits for it fails, unissued: the fault is that of the pool, or of whichever disk it met, and says nothing
//! of the disk that the operation was for.

use alloc::collections::BTreeSet;
use core::mem;
use helio_format::before::CopyNumber;
use helio_stack::StoreFault;
use helio_units::VolumeIndex;

/// The rollback that is under way, if one is, and what bounds it.
#[derive(Clone, Debug)]
pub(crate) struct Rollbacks {
    now: Option<Rollback>,
    /// The one that may be under way by the ledger.
    recorded: Option<CopyNumber>,
    /// The volumes, a bit for each, in which it may do what no operation waits for.
    background: u64,
}

impl Rollbacks {
    pub(crate) const fn found(now: Option<Rollback>, recorded: Option<CopyNumber>) -> Self {
        Self { now, recorded, background: u64::MAX }
    }

    pub(crate) const fn now(&self) -> Option<&Rollback> {
        self.now.as_ref()
    }

    pub(crate) const fn now_mut(&mut self) -> Option<&mut Rollback> {
        self.now.as_mut()
    }

    pub(crate) fn begin(&mut self, rollback: Rollback) {
        self.now = Some(rollback);
    }

    /// It is over, if that says so.
    pub(crate) fn end_if(&mut self, is_over: impl FnOnce(&Rollback) -> bool) -> Option<Rollback> {
        self.now.take_if(|rollback| is_over(rollback))
    }

    pub(crate) const fn recorded(&self) -> Option<CopyNumber> {
        self.recorded
    }

    pub(crate) const fn record(&mut self, by: Option<CopyNumber>) {
        self.recorded = by;
    }

    pub(crate) const fn permit(&mut self, volumes: u64) {
        self.background = volumes;
    }

    pub(crate) const fn is_permitted(&self, volume: VolumeIndex) -> bool {
        self.background & (1 << volume.0) != 0
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Rollback {
    /// To that copy, ...
    to: CopyNumber,
    /// ... at the moment of that one.
    by: CopyNumber,
    /// Every chunk before that one is done; ...
    next: u64,
    /// ... and of the others these are.
    done: BTreeSet<u64>,
    written: BTreeSet<u64>,
    flushing: BTreeSet<u64>,
    course: Course,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    Goes,
    /// Changes lack room to be preserved. They wait for its end, and nothing more is tried for them.
    Short,
    /// It cannot go on before the process starts again.
    Failed(StoreFault),
}

impl Rollback {
    pub(crate) fn new(to: CopyNumber, by: CopyNumber) -> Self {
        let [done, written, flushing] = [(); 3].map(|()| BTreeSet::new());
        Self { to, by, next: 0, done, written, flushing, course: Course::Goes }
    }

    pub(crate) const fn to(&self) -> CopyNumber {
        self.to
    }

    pub(crate) const fn by(&self) -> CopyNumber {
        self.by
    }

    /// From which copy on, and before which one, lies what is to be put back.
    pub(crate) const fn span(&self) -> (CopyNumber, CopyNumber) {
        (self.to, self.by)
    }

    pub(crate) const fn failed(&self) -> Option<StoreFault> {
        if let Course::Failed(fault) = self.course { Some(fault) } else { None }
    }

    pub(crate) const fn fail(&mut self, fault: StoreFault) {
        self.course = Course::Failed(fault);
    }

    /// How what waits for it fails, if it cannot go on.
    pub(crate) const fn denies(&self) -> Option<StoreFault> {
        match self.course {
            Course::Failed(fault) if fault.is_of_store() => Some(StoreFault::Unissued),
            Course::Failed(fault) => Some(fault),
            Course::Goes | Course::Short => None,
        }
    }

    pub(crate) fn is_short(&self) -> bool {
        self.course == Course::Short
    }

    /// Changes lack room. Returns whether they may wait for the end of it.
    pub(crate) fn falls_short(&mut self) -> bool {
        if self.course == Course::Goes {
            self.course = Course::Short;
        }
        self.is_short()
    }

    /// Whether the chunk, if it is owed at all, is not done.
    pub(crate) fn lacks(&self, chunk: u64) -> bool {
        chunk >= self.next && !self.done.contains(&chunk)
    }

    /// Whether it is to be written still.
    pub(crate) fn is_unwritten(&self, chunk: u64) -> bool {
        self.lacks(chunk) && !self.written.contains(&chunk) && !self.flushing.contains(&chunk)
    }

    /// Everything before that chunk is done, or owed to nobody.
    pub(crate) fn reaches(&mut self, chunk: u64) {
        if self.written.is_empty() && self.flushing.is_empty() {
            self.next = chunk;
            self.done = self.done.split_off(&chunk);
        }
    }

    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// The chunks from the next one on that are done.
    pub(crate) fn done(&self) -> impl Iterator<Item = u64> {
        self.done.iter().copied()
    }

    pub(crate) fn written(&self) -> usize {
        self.written.len()
    }

    pub(crate) fn writes(&mut self, chunks: impl IntoIterator<Item = u64>) {
        self.written.extend(chunks);
    }

    /// All volumes are being flushed.
    pub(crate) fn flushes(&mut self) {
        self.flushing = mem::take(&mut self.written);
    }

    /// They are flushed.
    pub(crate) fn flushed(&mut self) {
        self.done.append(&mut self.flushing);
    }

    /// A flush failed: what is not durable is to be written again.
    pub(crate) fn doubt(&mut self) {
        self.written.clear();
        self.flushing.clear();
    }
}
