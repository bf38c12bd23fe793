// SPDX-License-Identifier: Apache-2.0
//! What a secondary does about copies at an item of its primary's line.

use super::{By, Copies, DELETED, Stage, Task, image, suspect};
use crate::config::Config;
use crate::local::Local;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_format::before::{CopyId, KeptCopy};
use helio_format::snapshot::SnapshotAct;
use helio_format::superblock::Superblock;
use helio_stack::KeptImage;
use helio_units::{CopyName, Generation, Sequence};

impl Copies {
    /// The next snapshot item of the line is that one; `is_due`: it is its turn. Returns whether it passes.
    pub(crate) fn follow(
        &mut self,
        (at, (act, id), is_due): (Sequence, (SnapshotAct, CopyId), bool),
        record: &Superblock,
        local: &mut Local,
        turn: &mut Turn,
    ) -> bool {
        match (act, self.task) {
            (SnapshotAct::Create(_) | SnapshotAct::Refresh(_), _) if self.failed_at == Some(at) => {
                self.failed_at = self.failed_at.filter(|_| !is_due);
                is_due
            }
            (SnapshotAct::Create(name) | SnapshotAct::Refresh(name), Task::Idle) => {
                let consistent = local.is_consistent(record);
                let wanted = image(record, (Some(at), consistent), turn);
                let held = local.copy_named(&name);
                let creates = matches!(act, SnapshotAct::Create(_));
                match held {
                    // Its item comes again, perhaps in a later generation.
                    Some(held)
                        if held.id() == Some(id) && (creates || is_done(&held.image, &wanted)) =>
                    {
                        return is_due;
                    }
                    Some(held) if held.id() != Some(id) => {
                        if is_due {
                            let why = another(&name, &held, turn.config());
                            self.miss((name, id), why, turn);
                        }
                        return is_due;
                    }
                    // It may be the only consistent copy of this node.
                    Some(held) if held.image.consistent && !consistent => {
                        if is_due {
                            let why = format!(
                                "the volumes of this node were not consistent; snapshot {name} from before was not replaced"
                            );
                            self.miss((name, id), why, turn);
                        }
                        return is_due;
                    }
                    _ => {}
                }
                if let Some(why) = suspect(local, turn) {
                    self.failed_at = Some(at).filter(|_| !is_due);
                    self.miss((name, id), why, turn);
                    return is_due;
                }
                let replaces = held.map(|held| held.number);
                self.begin_cut((name, id), By::Item(at), replaces, local, turn);
                false
            }
            (
                SnapshotAct::Create(_) | SnapshotAct::Refresh(_),
                Task::Cut { by: By::Item(item), stage: Stage::Ready, .. },
            ) if item == at && is_due => self.quiet(Some(at), record, local, turn),
            (SnapshotAct::Create(_) | SnapshotAct::Refresh(_), _) => false,
            (SnapshotAct::Delete(name), Task::Idle) if is_due => {
                self.drop_named((&name, id), local, turn);
                true
            }
            (SnapshotAct::Delete(_), _) => false,
        }
    }

    /// The copy was deleted or refreshed on the primary. Another one of that name, with another id, stays.
    fn drop_named(&mut self, (name, id): (&CopyName, CopyId), local: &mut Local, turn: &mut Turn) {
        self.missing.retain(|missing| missing.name != *name || missing.id != id);
        match local.copy_named(name) {
            Some(held) if held.id() == Some(id) => {
                self.begin_drop((*name, held.number, DELETED), By::Abandoned, local, turn);
            }
            Some(held) => {
                let Config { group, peer, .. } = turn.config();
                let another = another(name, &held, turn.config());
                turn.warn(format!("{peer} deleted its snapshot {name} of {group}: {another}"));
            }
            None => {}
        }
    }

    /// The next snapshot item of the line is that one, if there is any: no other one will come to its turn now.
    pub(crate) fn await_only(
        &mut self,
        item: Option<Sequence>,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        self.failed_at = self.failed_at.filter(|failed| Some(*failed) == item);
        let Task::Cut { by: by @ By::Item(_), stage, .. } = &mut self.task else { return };
        if item.is_some_and(|item| *by == By::Item(item)) {
            return;
        }
        match stage {
            Stage::Coming => (*by, *stage) = (By::Abandoned, Stage::Cancelled),
            Stage::Ready => {
                *by = By::Abandoned;
                self.moment(None, local, turn);
            }
            Stage::Ending | Stage::Cancelled => {}
        }
    }

    /// A cut of this node alone waits for a place where nothing is under way.
    pub(crate) const fn awaits_quiet(&self) -> bool {
        matches!(self.task, Task::Cut { by: By::Here(_), stage: Stage::Ready, .. })
    }

    /// Everything up to `head` is applied, as far as this process knows it, and nothing behind it is issued: the moment of a cut. Returns
    /// whether there is one.
    pub(crate) fn quiet(
        &mut self,
        head: Option<Sequence>,
        record: &Superblock,
        local: &mut Local,
        turn: &mut Turn,
    ) -> bool {
        let image = image(record, (head, local.is_consistent(record)), turn);
        // What is written to a suspect volume is not surely durable.
        let cuts = !local.suspect().any();
        self.moment(Some(image).filter(|_| cuts), local, turn);
        cuts
    }

    /// This node follows no longer, or cannot: no cut of it alone has a moment.
    pub(crate) fn give_up_quiet(&mut self, local: &mut Local, turn: &mut Turn) {
        if self.awaits_quiet() {
            self.moment(None, local, turn);
        }
    }
}

/// Whether an image is what the volumes held at that item of the line, or at a later one.
fn is_done(held: &KeptImage, wanted: &KeptImage) -> bool {
    held.lineage.generation == wanted.lineage.generation && held.head >= wanted.head
}

/// That a copy stays that has the name, and is not the one that the primary means.
fn another(name: &CopyName, held: &KeptCopy, config: &Config) -> String {
    let (at, group) = (held.image.at, &config.group);
    let Generation { number, .. } = held.image.lineage.generation;
    let head = held.image.head;
    format!(
        "this node has another snapshot {name}, which stays: it was created at {at} (generation {number}, position {head}); \
         `helio snapshot delete {group}@{name} --here` deletes it"
    )
}
