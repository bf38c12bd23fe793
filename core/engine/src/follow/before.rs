// SPDX-License-Identifier: Apache-2.0
//! Keeping a secondary's last consistent image while an update overwrites it: when a copy of it is cut, and when it ends.
//!
//! Before a start makes a consistent image inconsistent, a copy of it is cut, with room for the before-images of everything that
//! will be copied; without room nothing is adopted (rule 10). From then on the store stack lets nothing be overwritten that is
//! not preserved (`core/snapshot`), and refuses what it has no room for. An image that is inconsistent already keeps what is kept
//! of it; one that never was consistent keeps nothing. The keeping ends once the record says consistent, and not before: what was
//! refused for want of room then is offered again behind the end.
//!
//! The [`Keeper`] decides by facts and asks the stack; `role/keeping.rs` does what must follow elsewhere.

use crate::local::Local;
use crate::local::copying::CopyUser;
use crate::turn::Turn;
use alloc::boxed::Box;
use core::mem;
use helio_format::before::{CopyClass, CopyNumber, CopyOwner, CopyStage, KeptImage};
use helio_format::message::Start;
use helio_format::superblock::Superblock;
use helio_ledger::{BeforeFound, BeforeRecord};
use helio_plant::{Plant, planted};
use helio_stack::{CopyOp, CopyOutcome, Shortage};
use helio_units::{Bytes, Generation, Sequence};

/// How far a restore is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restore {
    No,
    /// The promotion under way is to restore first.
    Wanted,
    /// The record is on its way that says this image is neither one.
    Recording,
    /// What is kept is being put back.
    Writing,
    /// The record is on its way that says it is the kept image.
    Ending,
}

/// What the stack was asked to do.
#[derive(Clone, Debug)]
enum Asked {
    Nothing,
    Cut(Box<KeptImage>),
    Reserve,
    Restore,
    Drop,
}

/// What is kept.
#[derive(Clone, Debug)]
enum Held {
    Nothing,
    Sound(CopyNumber, KeptImage),
    /// It cannot be restored.
    Damaged(CopyNumber, KeptImage),
    /// It is of no use, and the pool may list it all the same: what was overwritten since is not preserved. Its number, if that is
    /// known.
    Abandoned(Option<CopyNumber>),
}

/// What a start depends on.
pub(crate) struct Facts<'a> {
    /// The record.
    pub(crate) record: &'a Superblock,
    /// The image is consistent.
    pub(crate) consistent: bool,
    /// A volume lies on another disk than the record names.
    pub(crate) foreign: bool,
    /// The start that waits to be adopted.
    pub(crate) start: Option<Start>,
    /// Everything received is applied and durable.
    pub(crate) drained: bool,
    /// The last item in the image, if this incarnation knows it.
    pub(crate) completed: Option<Sequence>,
}

impl Facts<'_> {
    fn image(&self) -> KeptImage {
        KeptImage {
            lineage: self.record.lineage,
            head: self.completed.unwrap_or(self.record.head),
            exact: self.completed.is_some() || self.record.clean,
            wrote: self.record.wrote,
            alone: self.record.alone,
            consistent: true,
            ..KeptImage::default()
        }
    }
}

/// What the engine must do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Nothing,
    /// Items that were refused are offered again.
    OfferAgain,
    /// The start is not adopted.
    RefuseStart(Shortage),
    /// Items wait for room that is not there: applying stops.
    StopApplying(Shortage),
    /// The file failed earlier: what cannot go on without it stops.
    StopForFailure,
    /// The file failed just now, which is also logged.
    FileFailed,
    /// The image is the kept one, and is to be recorded.
    Restored,
    RestoreFailed(CopyOutcome),
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    kept: Held,
    asked: Asked,
    /// The start that may be adopted, and whether the image was consistent when that was settled.
    ready: Option<(Start, bool)>,
    /// An item was refused for want of that room.
    short: Option<Shortage>,
    restore: Restore,
}

impl Keeper {
    pub(crate) const fn new() -> Self {
        Self {
            kept: Held::Nothing,
            asked: Asked::Nothing,
            ready: None,
            short: None,
            restore: Restore::No,
        }
    }

    /// What lay in the pool when the daemon started, of volumes of these sizes. Told before anything else.
    pub(crate) fn found(&mut self, found: &BeforeFound, sizes: &[Bytes]) {
        let fits = |BeforeRecord { chunk: (volume, extent), .. }: &BeforeRecord| {
            sizes.get(usize::from(volume.0)).is_some_and(|size| extent.end() <= size.0)
        };
        let sound = !found.damaged && found.records.iter().all(fits);
        let mut ours = found.copies.iter().filter(|copy| copy.is_safe_copy());
        if let Some(copy) = ours.rfind(|copy| copy.stage == CopyStage::Held) {
            let held = if sound { Held::Sound } else { Held::Damaged };
            self.kept = held(copy.number, copy.image);
        }
    }

    /// What a cut that was asked for is to hold.
    pub(crate) fn image(&self) -> Option<KeptImage> {
        if let Asked::Cut(image) = &self.asked { Some(**image) } else { None }
    }

    /// The image that is kept, and whether it can be restored.
    pub(crate) const fn kept(&self) -> Option<(&KeptImage, bool)> {
        match &self.kept {
            Held::Nothing | Held::Abandoned(_) => None,
            Held::Sound(_, image) => Some((image, true)),
            Held::Damaged(_, image) => Some((image, false)),
        }
    }

    /// Whether that copy is the one that is kept, and can be restored.
    pub(crate) fn has_sound(&self, number: CopyNumber) -> bool {
        matches!(self.kept, Held::Sound(kept, _) if kept == number)
    }

    /// The number of the copy that the pool has.
    const fn number(&self) -> Option<CopyNumber> {
        match self.kept {
            Held::Nothing => None,
            Held::Sound(number, _) | Held::Damaged(number, _) => Some(number),
            Held::Abandoned(number) => number,
        }
    }

    const fn keeps(&self) -> bool {
        self.kept().is_some()
    }

    /// The pool holds nothing that the next process would find.
    pub(crate) const fn is_empty(&self) -> bool {
        matches!(self.kept, Held::Nothing)
    }

    /// An item was refused for want of room, or because the pool failed.
    pub(crate) const fn is_short(&self) -> bool {
        self.short.is_some()
    }

    /// The stack was asked for nothing that has not ended.
    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self.asked, Asked::Nothing)
    }

    /// The start that the follower may adopt.
    pub(crate) fn ready(&self) -> Option<&Start> {
        self.ready.as_ref().map(|(ready, _)| ready)
    }

    /// The stack refused an item for want of that room.
    pub(crate) const fn refused(&mut self, shortage: Shortage) -> Next {
        match (self.short, shortage) {
            (Some(_), _) => Next::Nothing,
            (None, Shortage::FAILED) => Next::FileFailed,
            (None, shortage) => {
                self.short = Some(shortage);
                Next::StopApplying(shortage)
            }
        }
    }

    /// Items that were refused are not offered any more.
    pub(crate) const fn forget_refused(&mut self) {
        self.short = None;
    }

    /// The pool failed: items that need it are not applied, as if there were no room.
    pub(crate) const fn stop_for_failure(&mut self) {
        self.short = Some(Shortage::FAILED);
    }

    /// The preserved copy is not needed, and its end cannot be recorded. It delays no write, and no restore uses it.
    pub(crate) fn abandon(&mut self, local: &mut Local, turn: &mut Turn) {
        if let Some(number) = self.number().filter(|_| self.keeps()) {
            (self.kept, self.short) = (Held::Abandoned(Some(number)), None);
            local.abandon_copy(number, turn);
        }
    }

    /// What is kept is of no use any more.
    pub(crate) fn end(&mut self, local: &mut Local, turn: &mut Turn) {
        self.ready = None;
        if let Some(number) = self.number() {
            self.ask(Asked::Drop, CopyOp::Drop(number), local, turn);
        }
    }

    /// What the simulator must find: the keeping ends while the record still says that the image is not consistent.
    pub(crate) fn end_early(&mut self, local: &mut Local, turn: &mut Turn) {
        if planted(Plant::EndKeepingEarly) && self.keeps() && self.is_idle() {
            self.end(local, turn);
        }
    }

    /// Nothing is kept, and no start may be adopted: without a start there is nothing to do.
    pub(crate) fn rests(&self) -> bool {
        !self.keeps() && self.ready.is_none()
    }

    /// Settles what a start needs before it may be adopted, and ends a keeping that nothing needs. The stack was asked for
    /// nothing that has not ended.
    pub(crate) fn arrange(
        &mut self,
        facts: &Facts<'_>,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Next {
        let consistent = facts.consistent;
        self.ready.take_if(|(_, then)| *then != consistent);
        let (held, failed) = (self.keeps(), local.pool_failed());
        if facts.start.is_some() && self.ready() == facts.start.as_ref() {
            return Next::Nothing;
        }
        // If this node's copy is suspect as well: an earlier process may have failed to end the preserved copy. Then that lacks what
        // was overwritten since.
        let over = facts.record.consistent && held;
        if over && failed {
            self.abandon(local, turn);
            return Next::OfferAgain;
        }
        if over {
            self.end(local, turn);
            return Next::Nothing;
        }
        let Some(start) = facts.start else { return Next::Nothing };
        // What waits for room stands in the way of everything behind it.
        let settled = facts.drained || self.is_short();
        let known = facts.record.lineage.generation != Generation::NONE;
        let overwritten = Bytes(start.to_copy);
        match (start.consistent, consistent) {
            (true, _) => self.ready = Some((start, consistent)),
            _ if !settled => {}
            // What is kept was overwritten on another disk.
            _ if facts.foreign && held && !failed => self.end(local, turn),
            (_, true) if failed && known && start.keep => return Next::StopForFailure,
            _ if failed && !self.is_empty() => return Next::StopForFailure,
            (_, false) if held && start.keep => {
                self.ask(Asked::Reserve, CopyOp::Reserve { overwritten }, local, turn);
            }
            (_, true) if known && start.keep => {
                let (class, owner) = (CopyClass::Required, CopyOwner::Resync);
                let op = CopyOp::Cut { class, owner, overwritten };
                self.ask(Asked::Cut(Box::new(facts.image())), op, local, turn);
            }
            _ if held => self.end(local, turn),
            _ => self.ready = Some((start, consistent)),
        }
        Next::Nothing
    }

    fn ask(&mut self, asked: Asked, op: CopyOp, local: &mut Local, turn: &mut Turn) {
        self.asked = asked;
        local.copy(CopyUser::Resync, op, turn);
    }

    /// What the stack was asked for ended. `start`: the one that waits to be adopted now.
    pub(crate) fn done(
        &mut self,
        outcome: CopyOutcome,
        start: Option<Start>,
        consistent: bool,
    ) -> Next {
        let asked = mem::replace(&mut self.asked, Asked::Nothing);
        match (asked, outcome) {
            (Asked::Cut(image), CopyOutcome::Cut(number)) => {
                self.ready = start.map(|start| (start, consistent));
                (self.kept, self.short) = (Held::Sound(number, *image), None);
                Next::OfferAgain
            }
            (asked, CopyOutcome::Done) => {
                self.succeeded(asked, start.map(|start| (start, consistent)))
            }
            // Its header may have reached the file.
            (Asked::Cut(_), CopyOutcome::PoolFailed(_)) => {
                self.kept = Held::Abandoned(None);
                Next::FileFailed
            }
            (Asked::Cut(_), CopyOutcome::Cancelled) => Next::Nothing,
            (Asked::Restore, _) if !self.is_restoring() => Next::Nothing,
            (Asked::Restore, outcome) => Next::RestoreFailed(outcome),
            // What those stores hold is suspect, or on another disk, which is known already.
            (_, CopyOutcome::FlushFailed(_)) | (Asked::Cut(_), CopyOutcome::MemberFailed(_)) => {
                Next::Nothing
            }
            (_, CopyOutcome::NoRoom(shortage)) if start.is_some() => Next::RefuseStart(shortage),
            (_, CopyOutcome::NoRoom(_)) => Next::Nothing,
            (
                _,
                CopyOutcome::Damaged
                | CopyOutcome::Over
                | CopyOutcome::PoolFailed(_)
                | CopyOutcome::MemberFailed(_)
                | CopyOutcome::Cut(_)
                | CopyOutcome::TooMany
                | CopyOutcome::Cancelled
                | CopyOutcome::Unrecorded
                | CopyOutcome::Unsupported,
            ) => Next::FileFailed,
        }
    }

    fn succeeded(&mut self, asked: Asked, ready: Option<(Start, bool)>) -> Next {
        match asked {
            Asked::Reserve => (self.ready, self.short) = (ready, None),
            Asked::Drop => (self.kept, self.short) = (Held::Nothing, None),
            Asked::Restore if self.is_restoring() => {
                self.restore = Restore::Ending;
                return Next::Restored;
            }
            // The promotion that it was for has ended: by the record the image is neither one.
            Asked::Restore => return Next::Nothing,
            Asked::Nothing | Asked::Cut(_) => panic!("the stack ended what was not asked for"),
        }
        Next::OfferAgain
    }

    /// Whether the promotion that begins is to restore first.
    pub(crate) fn want_restore(&mut self, wanted: bool) {
        self.restore = if wanted { Restore::Wanted } else { Restore::No };
    }

    /// The image that a promotion would restore.
    pub(crate) fn restores(&self) -> Option<&KeptImage> {
        self.kept().filter(|_| self.restore != Restore::No).map(|(image, _)| image)
    }

    /// A restore is under way.
    pub(crate) const fn is_restoring(&self) -> bool {
        matches!(self.restore, Restore::Recording | Restore::Writing | Restore::Ending)
    }

    /// Begins the restore that is wanted, if what is kept is sound: its record comes first. Returns whether it does.
    pub(crate) fn begin_restore(&mut self) -> bool {
        let begins = self.restore == Restore::Wanted && matches!(self.kept, Held::Sound(..));
        if begins {
            self.restore = Restore::Recording;
        }
        begins
    }

    /// The record says so: the chunks are put back.
    pub(crate) fn put_back(&mut self, local: &mut Local, turn: &mut Turn) {
        self.restore = Restore::Writing;
        let Some(number) = self.number() else { panic!("nothing is preserved to be restored") };
        self.ask(Asked::Restore, CopyOp::Restore(number), local, turn);
    }

    /// What is kept is still being put back for a promotion that has ended.
    pub(crate) fn gave_restore_up(&self) -> bool {
        matches!(self.asked, Asked::Restore) && !self.is_restoring()
    }

    /// No restore is under way or wanted any more.
    pub(crate) fn end_restore(&mut self) {
        self.restore = Restore::No;
    }
}
