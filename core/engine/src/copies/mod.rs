// SPDX-License-Identifier: Apache-2.0
//! Point-in-time copies that operators name: one is cut or dropped at a time.
//!
//! ```text
//!   Idle ──> Cut: Coming ──the layer is ready──> Ready ──the moment──> Ending ──> Idle
//!    │              └── what asked for it was taken back: Cancelled ──────────────^
//!    └─────> Drop ────────────────────────────────────────────────────────────────^
//! ```
//! `Rollback` goes through the same stages as `Cut`, and then through `RolledBack`. From its moment on the volumes hold what the copy holds, and the peer does not have what
//! differs: marks say so, durably, before the rollback is.
//!
//! A primary cuts at the end of its line, as soon as the layer is ready. The peer does it at the same place of the line: it makes the
//! layer ready when the item arrives, and the moment is the item's turn. A secondary's operator can create a copy on that node
//! alone. The follower then issues no further items, and the moment comes when all issued items are applied. A refresh drops the copy that it
//! replaces, behind that. An item whose copy cannot be cut passes all the same, and
//! the copy is *missing*: it is shown with the reason until the process ends.

mod follow;
mod ship;

use crate::event::CommandId;
use crate::local::Local;
use crate::local::copying::CopyUser;
use crate::refusal::{HELD_BACK, Refusal};
use crate::turn::Turn;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use core::mem;
use helio_format::before::{CopyClass, CopyId, CopyOwner, CopyStage, EXPENDABLE_MOST};
use helio_format::snapshot::SnapshotAct;
use helio_format::superblock::Superblock;
use helio_ledger::BeforeFound;
use helio_stack::{CopyNumber, CopyOp, CopyOutcome, KeptImage, Shortage};
use helio_units::{Bytes, CopyName, Sequence, WallTime};
use ship::Shipped;

/// Most missing copies that are remembered; the oldest is forgotten first.
const MISSING_MOST: usize = EXPENDABLE_MOST;

/// What happened to a name.
const CREATED: &str = "created";
const DELETED: &str = "deleted";
const REFRESHED: &str = "refreshed";
const RESTORED: &str = "restored";

/// Who waits for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// A primary's operator.
    Command(CommandId),
    /// A secondary's operator, who wants it on this node alone.
    Here(CommandId),
    /// An item of the peer's line.
    Item(Sequence),
    /// What asked for it was taken back.
    Abandoned,
}

/// How far a cut is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The layer prepares it.
    Coming,
    /// Its moment may come.
    Ready,
    /// Its moment was.
    Ending,
    /// It is to have no moment.
    Cancelled,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Idle,
    /// Once it is held, it replaces that one of the same name.
    Cut {
        name: CopyName,
        id: CopyId,
        by: By,
        stage: Stage,
        replaces: Option<CopyNumber>,
    },
    /// The volumes go back to that copy.
    Rollback {
        name: CopyName,
        command: CommandId,
        stage: Stage,
        to: CopyNumber,
    },
    /// They did: the peer is to be resynced.
    RolledBack,
    /// What is said of the name then.
    Drop {
        name: CopyName,
        by: By,
        verb: &'static str,
    },
}

/// What a moment is for, when the layer is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// An item at the end of a primary's line, with a cut.
    Item(SnapshotAct, CopyId),
    /// A rollback to that copy.
    Rollback(CopyNumber),
}

/// A copy that is not here although it was to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingCopy {
    /// Its name.
    pub name: CopyName,
    /// Which one of that name it is.
    pub id: CopyId,
    /// Since when.
    pub since: WallTime,
    /// Why.
    pub why: String,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Copies {
    task: Task,
    /// The copy of that item could not be cut.
    failed_at: Option<Sequence>,
    missing: VecDeque<MissingCopy>,
    /// Copies up to this one were over when the process began. Every record says so from then on.
    over: CopyNumber,
    shipped: Shipped,
}

impl Copies {
    pub(crate) const fn new() -> Self {
        let (over, shipped) = (CopyNumber(0), Shipped::Nothing);
        Self { task: Task::Idle, failed_at: None, missing: VecDeque::new(), over, shipped }
    }

    /// Copies that are not here although they were to be, the oldest first.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &MissingCopy> {
        self.missing.iter()
    }

    /// Copies up to this one were over when the process began.
    pub(crate) const fn over_since_start(&self) -> CopyNumber {
        self.over
    }

    /// The volumes are about to go back to a copy: what differs is marked, or will be.
    pub(crate) const fn restore_begins(&self) -> bool {
        matches!(self.task, Task::Rollback { .. })
    }

    /// Whether something is being done.
    pub(crate) fn is_idle(&self) -> bool {
        self.task == Task::Idle
    }

    /// What lay in the pool when the process began. The layer drops operators' copies that are of no use.
    pub(crate) fn found(&mut self, found: &BeforeFound, record: &Superblock, turn: &mut Turn) {
        let over = record.copies_over(found.last);
        (self.over, self.shipped) = (over, Shipped::found(found));
        let why = match found.damaged {
            true => "the before-image file was damaged, or is an older one",
            false if over > record.copies_over => "the metadata was lost",
            false => "it had ended",
        };
        let held = found.copies.iter().filter(|copy| copy.stage == CopyStage::Held);
        for copy in held.filter(|copy| found.damaged || copy.number <= over) {
            if let CopyOwner::Operator(name, id) = copy.owner {
                self.miss((name, id), String::from(why), turn);
            }
        }
    }

    /// An operator wants a copy, by one of the acts that cut one. `drawn`: a number for a new one.
    pub(crate) fn create(
        &mut self,
        by: By,
        (act, drawn): (SnapshotAct, u64),
        local: &mut Local,
        turn: &mut Turn,
    ) -> Result<(), Refusal> {
        let replaces = self.may_create(act, local, turn)?;
        // What this node alone replaces is no longer what its peer has.
        let id = match (by, replaces) {
            (By::Command(_), Some((_, id))) => id,
            _ => CopyId::of(drawn),
        };
        self.begin_cut((act.name(), id), by, replaces.map(|(number, _)| number), local, turn);
        Ok(())
    }

    /// Whether such a copy can be cut now. Returns the copy that it replaces, and its id.
    pub(crate) fn may_create(
        &self,
        act: SnapshotAct,
        local: &Local,
        turn: &Turn,
    ) -> Result<Option<(CopyNumber, CopyId)>, Refusal> {
        let name = act.name();
        let group = &turn.config().group;
        if !self.is_idle() {
            return Err(busy(group));
        }
        if local.is_rolling_back() {
            return Err(restoring(group));
        }
        if local.suspect().any() {
            return Err(local.suspect().refusal(turn.config()));
        }
        let replaces = match (act, local.copy_named(&name)) {
            (SnapshotAct::Refresh(_), None) => return Err(unknown(group, &name)),
            (SnapshotAct::Refresh(_), Some(held)) => {
                Some((held.number, held.id().unwrap_or_default()))
            }
            (_, Some(_)) => {
                let text = format!("{group} has a snapshot {name} already");
                let hint = format!(
                    "choose another name, or replace it: `helio snapshot refresh {group}@{name}`"
                );
                return Err(Refusal::new("snapshot-exists", text, hint));
            }
            (_, None) => None,
        };
        if local.named_copies().len() >= EXPENDABLE_MOST {
            return Err(too_many(group));
        }
        Ok(replaces)
    }

    /// Prepares a cut.
    fn begin_cut(
        &mut self,
        (name, id): (CopyName, CopyId),
        by: By,
        replaces: Option<CopyNumber>,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        self.task = Task::Cut { name, id, by, stage: Stage::Coming, replaces };
        let (class, owner) = (CopyClass::Expendable, CopyOwner::Operator(name, id));
        let op = CopyOp::Cut { class, owner, overwritten: Bytes::ZERO };
        local.copy(CopyUser::Operator, op, turn);
    }

    /// Which copy is meant by that name: the one that is held, or else the one that is missing.
    pub(crate) fn id_of(&self, name: &CopyName, local: &Local) -> Option<CopyId> {
        let missing = || self.missing.iter().find(|it| it.name == *name).map(|it| it.id);
        local.copy_named(name).and_then(|held| held.id()).or_else(missing)
    }

    /// An operator wants a copy to go. Returns what there is to say, if nothing is to be waited for.
    pub(crate) fn delete(
        &mut self,
        id: CommandId,
        name: CopyName,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Result<Option<String>, Refusal> {
        let group = &turn.config().group;
        if !self.is_idle() {
            return Err(busy(group));
        }
        if let Some(held) = local.copy_named(&name) {
            self.begin_drop((name, held.number, DELETED), By::Command(id), local, turn);
            return Ok(None);
        }
        let before = self.missing.len();
        self.missing.retain(|missing| missing.name != name);
        if self.missing.len() < before {
            return Ok(Some(format!(
                "{name} was removed from the list of missing snapshots of {group}"
            )));
        }
        Err(unknown(group, &name))
    }

    /// An operator wants the volumes to hold what a copy holds.
    pub(crate) fn roll_back(
        &mut self,
        command: CommandId,
        name: CopyName,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Result<(), Refusal> {
        let group = &turn.config().group;
        if !self.is_idle() {
            return Err(busy(group));
        }
        if local.is_rolling_back() {
            return Err(restoring(group));
        }
        let Some(held) = local.copy_named(&name) else { return Err(unknown(group, &name)) };
        if !held.image.consistent {
            let text = format!("snapshot {name} of {group} is not consistent");
            let hint = "restore another snapshot; read this one as a volume";
            return Err(Refusal::new("not-consistent", text, hint));
        }
        let (to, stage) = (held.number, Stage::Coming);
        self.task = Task::Rollback { name, command, stage, to };
        local.copy(CopyUser::Operator, CopyOp::Rollback(to), turn);
        Ok(())
    }

    fn begin_drop(
        &mut self,
        (name, number, verb): (CopyName, CopyNumber, &'static str),
        by: By,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        self.task = Task::Drop { name, by, verb };
        local.copy(CopyUser::Operator, CopyOp::Drop(number), turn);
    }

    /// The layer is ready for the cut. Returns what is to be done if a primary's operator waits for it: then this is the moment.
    pub(crate) fn ready(&mut self, local: &mut Local, turn: &mut Turn) -> Option<Moment> {
        if let Task::Rollback { to, .. } = self.task {
            return Some(Moment::Rollback(to));
        }
        let Task::Cut { name, id, by, stage, replaces } = &mut self.task else { return None };
        match (by, &stage) {
            (By::Command(_), Stage::Coming) => {
                let act = match replaces {
                    Some(_) => SnapshotAct::Refresh(*name),
                    None => SnapshotAct::Create(*name),
                };
                return Some(Moment::Item(act, *id));
            }
            (By::Item(_) | By::Here(_), Stage::Coming) => *stage = Stage::Ready,
            _ => local.cut(None, turn),
        }
        None
    }

    /// This is the moment, or none is to come.
    pub(crate) fn moment(&mut self, image: Option<KeptImage>, local: &mut Local, turn: &mut Turn) {
        if let Task::Cut { stage, .. } | Task::Rollback { stage, .. } = &mut self.task {
            *stage = if image.is_some() { Stage::Ending } else { Stage::Cancelled };
            local.cut(image, turn);
        }
    }

    /// Whether what is being cut replaces a copy that is consistent: that may be the only one.
    pub(crate) fn replaces_consistent(&self, local: &Local) -> bool {
        let Task::Cut { replaces: Some(old), .. } = &self.task else { return false };
        local.named_copies().iter().any(|(_, held)| held.number == *old && held.image.consistent)
    }

    /// This is not the moment that the operator's command waits for, and none is to come: it is refused.
    pub(crate) fn refuse_moment(&mut self, refusal: Refusal, local: &mut Local, turn: &mut Turn) {
        let group = &turn.config().group;
        let (name, command, what) = match self.task {
            Task::Rollback { name, command, .. } => {
                (name, command, format!("{group} was not restored from snapshot {name}"))
            }
            Task::Cut { name, by: By::Command(command), .. } => {
                (name, command, format!("snapshot {name} of {group} was not refreshed"))
            }
            _ => return,
        };
        let text = format!("{what}: {}", refusal.text);
        turn.done(command, Err(Refusal { text, ..refusal }));
        let (id, by, stage, replaces) = (CopyId::default(), By::Abandoned, Stage::Coming, None);
        self.task = Task::Cut { name, id, by, stage, replaces };
        self.moment(None, local, turn);
    }

    /// What was asked of the layer ended.
    pub(crate) fn done(&mut self, outcome: CopyOutcome, local: &mut Local, turn: &mut Turn) {
        let group = turn.config().group.clone();
        let task = mem::replace(&mut self.task, Task::Idle);
        let (by, text) = match (task, outcome) {
            (Task::Cut { name, by, replaces, .. }, CopyOutcome::Cut(_)) => {
                self.missing.retain(|missing| missing.name != name);
                if let Some(old) = replaces {
                    return self.begin_drop((name, old, REFRESHED), by, local, turn);
                }
                (by, format!("snapshot {name} of {group} was created"))
            }
            (Task::Rollback { name, command, .. }, CopyOutcome::Cut(_)) => {
                self.task = Task::RolledBack;
                (By::Command(command), format!("{group} was restored from snapshot {name}"))
            }
            (Task::Drop { name, by, verb }, CopyOutcome::Done) => {
                (by, format!("snapshot {name} of {group} was {verb}"))
            }
            (task, outcome) => return self.failed(task, outcome, local, turn),
        };
        match by {
            By::Command(id) | By::Here(id) => turn.done(id, Ok(text)),
            By::Item(_) | By::Abandoned => turn.info(text),
        }
    }

    /// What was asked of the layer failed.
    fn failed(&mut self, task: Task, outcome: CopyOutcome, local: &Local, turn: &mut Turn) {
        let (name, by, verb) = match task {
            Task::Cut { name, by, replaces: Some(_), .. } => (name, by, REFRESHED),
            Task::Cut { name, by, .. } => (name, by, CREATED),
            Task::Rollback { name, command, .. } => (name, By::Command(command), RESTORED),
            Task::Drop { name, by, verb } => (name, by, verb),
            Task::Idle | Task::RolledBack => {
                panic!("copies ended as {outcome:?}, and nothing was asked")
            }
        };
        let refusal = reason(by, outcome, local, turn);
        let cut = if let Task::Cut { id, .. } = task { Some(id) } else { None };
        let (group, why) = (&turn.config().group, &refusal.text);
        let text = match verb {
            RESTORED => format!("{group} was not restored from snapshot {name}: {why}"),
            _ => format!("snapshot {name} of {group} was not {verb}: {why}"),
        };
        match by {
            By::Command(id) | By::Here(id) => turn.done(id, Err(Refusal { text, ..refusal })),
            By::Item(at) if let Some(id) = cut => {
                self.failed_at = Some(at);
                let why = match verb {
                    REFRESHED => format!("it was not refreshed: {why}"),
                    _ => why.clone(),
                };
                self.miss((name, id), why, turn);
            }
            _ if outcome == CopyOutcome::Cancelled => {}
            By::Item(_) | By::Abandoned => turn.warn(text),
        }
    }

    /// Whether the volumes were rolled back since the last call: then the peer is to be resynced.
    pub(crate) fn take_rolled_back(&mut self) -> bool {
        let rolled_back = self.task == Task::RolledBack;
        if rolled_back {
            self.task = Task::Idle;
        }
        rolled_back
    }

    /// Takes note of copies that are over for want of room. Returns why the one that is shipped is, if it is.
    pub(crate) fn note_over(&mut self, local: &mut Local, turn: &mut Turn) -> Option<String> {
        let mut ships = None;
        while let Some(copy) = local.take_over() {
            let why = local.why_no_room(turn.config());
            if let CopyOwner::Operator(name, id) = copy.owner {
                self.miss((name, id), why, turn);
            } else if self.ship_over(copy.number) {
                ships = Some(why);
            }
        }
        ships
    }

    /// The record says that copies up to that one are over, because of another disk.
    pub(crate) fn lost(&mut self, last: CopyNumber, local: &mut Local, turn: &mut Turn) {
        for (name, copy) in local.named_copies() {
            if copy.number <= last {
                let id = copy.id().unwrap_or_default();
                self.miss((name, id), String::from("the disk of a volume was replaced"), turn);
                local.abandon_copy(copy.number, turn);
            }
        }
    }

    /// A copy is not here although it was to be.
    fn miss(&mut self, (name, id): (CopyName, CopyId), why: String, turn: &mut Turn) {
        let group = &turn.config().group;
        turn.warn(format!("snapshot {name} of {group} is missing on this node: {why}"));
        self.missing.retain(|missing| missing.name != name);
        if self.missing.len() >= MISSING_MOST {
            self.missing.pop_front();
        }
        let since = WallTime(turn.calendar().at(turn.now()));
        self.missing.push_back(MissingCopy { name, id, since, why });
    }
}

/// What this node's volumes hold once everything up to `head` is in them, and nothing else is. None: as the record says.
pub(crate) fn image(
    record: &Superblock,
    (head, consistent): (Option<Sequence>, bool),
    turn: &Turn,
) -> KeptImage {
    KeptImage {
        lineage: record.lineage,
        head: head.unwrap_or(record.head),
        exact: head.is_some() || record.clean,
        wrote: record.wrote,
        alone: record.alone,
        consistent,
        at: WallTime(turn.calendar().at(turn.now())),
    }
}

/// Why no copy can be cut of this node's volumes: a flush of one failed, so no later one proves that all of it is durable.
fn suspect(local: &Local, turn: &Turn) -> Option<String> {
    let config = turn.config();
    let volume = config.indices().find(|volume| local.suspect().is(*volume))?;
    let (name, group, node) = (config.name_of(volume), &config.group, &config.node);
    Some(format!(
        "the copy of volume {name} of {group} on {node} is suspect, because a flush failed"
    ))
}

fn unknown(group: &str, name: &CopyName) -> Refusal {
    let text = format!("{group} has no snapshot {name} on this node");
    let hint = format!("`helio snapshot list {group}` lists the snapshots");
    Refusal::new("unknown-snapshot", text, hint)
}

fn busy(group: &str) -> Refusal {
    Refusal::later(
        "busy",
        format!("another snapshot of {group} is being created or deleted"),
        "repeat the command in a moment",
    )
}

/// The rest of a restore is written first.
fn restoring(group: &str) -> Refusal {
    let text = format!("{group} was restored from a snapshot, and the rest is still being written");
    let hint =
        format!("wait until `helio status {group}` shows no restore, then repeat; {HELD_BACK}");
    Refusal::later("busy", text, hint)
}

fn too_many(group: &str) -> Refusal {
    Refusal::new(
        "too-many-snapshots",
        format!("{group} has {EXPENDABLE_MOST} snapshots, and can have no more"),
        format!("`helio snapshot delete {group}@NAME` for one that is not needed"),
    )
}

/// Why a copy that is to be shipped was not cut: a clause.
fn why_not_cut(outcome: CopyOutcome, local: &Local, turn: &Turn) -> String {
    match outcome {
        CopyOutcome::Unsupported => String::from("this node preserves no before-images"),
        CopyOutcome::Over => String::from("this node has no space for before-images"),
        CopyOutcome::Done | CopyOutcome::Cut(_) | CopyOutcome::Damaged => {
            format!("it ended as {outcome:?}")
        }
        outcome => reason(By::Abandoned, outcome, local, turn).text,
    }
}

/// Why a copy was not cut, or not dropped: the text is a clause.
fn reason(by: By, outcome: CopyOutcome, local: &Local, turn: &Turn) -> Refusal {
    let config = turn.config();
    let group = &config.group;
    let status = format!("`helio status {group}` shows the cause");
    match outcome {
        CopyOutcome::TooMany => too_many(group),
        CopyOutcome::NoRoom(Shortage { needed, free }) => Refusal::new(
            "no-snapshot-space",
            format!("its before-images need {needed}, and there is space for {free}"),
            format!(
                "`helio snapshot delete {group}@NAME` for a snapshot that is not needed, or make space on the disk of the \
                 before-image file"
            ),
        ),
        CopyOutcome::PoolFailed(fault) => Refusal::new(
            "before-failed",
            format!("the before-image file failed: {fault}"),
            format!("repair its file system, then restart the daemon of {}", config.node),
        ),
        CopyOutcome::MemberFailed(failed) | CopyOutcome::FlushFailed(failed) => Refusal::new(
            "volume-failed",
            format!("volume {} failed: {}", config.name_of(failed.volume), failed.fault),
            status,
        ),
        CopyOutcome::Cancelled => match (suspect(local, turn), by) {
            (Some(why), _) => Refusal::new("suspect", why, status),
            (None, By::Here(_)) => {
                Refusal::later("busy", "this node no longer applies writes", status)
            }
            (None, _) => Refusal::new(
                "not-primary",
                "this node is no longer primary",
                "repeat the command on the primary",
            ),
        },
        CopyOutcome::Damaged => Refusal::new(
            "snapshot-damaged",
            "its before-images are damaged; nothing was restored",
            format!("restore another snapshot: `helio snapshot list {group}`"),
        ),
        CopyOutcome::Over => Refusal::new(
            "unknown-snapshot",
            "it has ended, because there was no space for its before-images",
            format!("restore another snapshot: `helio snapshot list {group}`"),
        ),
        CopyOutcome::Unrecorded if local.metadata_failed() => turn.metadata_refusal(),
        CopyOutcome::Unrecorded => Refusal::new(
            "not-primary",
            "this node is no longer primary",
            "repeat the command on the primary",
        ),
        CopyOutcome::Done | CopyOutcome::Cut(_) | CopyOutcome::Unsupported => {
            panic!("a copy was cut or dropped as {outcome:?}")
        }
    }
}
