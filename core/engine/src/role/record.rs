// SPDX-License-Identifier: Apache-2.0
//! What the next record says of a node's part in its group, and which records that asks for.

use crate::config::Config;
use crate::dice::Dice;
use crate::follow::follower::Follower;
use crate::lead::Primary;
use crate::local::Local;
use crate::local::members::Members;
use crate::local::suspect::bit;
use crate::record::Record;
use crate::record::keep::Keeping;
use crate::record::save::{Goal, Leave};
use crate::role::{Following, Stage, Standing};
use crate::turn::Turn;
use helio_format::before::CopyNumber;
use helio_format::lineage::Lineage;
use helio_format::message::Start;
use helio_format::superblock::Superblock;
use helio_plant::{Plant, planted};
use helio_stack::CopyRecord;
use helio_units::{Generation, Role, Sequence, VolumeIndex};

/// The record of a side that begins to follow.
pub(crate) fn shape_adopted(b: &mut Superblock, start: Start) {
    b.role = Role::Secondary;
    b.lineage = start.lineage;
    b.consistent = start.consistent;
    // What the image surely holds, once it is consistent; it may hold more.
    b.head = Sequence(start.from.0 - 1);
    b.wrote = false;
    b.alone = false;
    b.marks_void &= !start.whole;
    b.clean = false;
    b.equal = false;
    b.hold = 0;
    b.seeding = 0;
    b.began = 0;
    b.discarded = false;
}

/// The record of a side that is given up.
pub(crate) fn give_up(b: &mut Superblock, lineage: Lineage, keeping: &mut Keeping) {
    b.role = Role::Secondary;
    // The image holds nothing of that generation behind the fork.
    b.head = b.lineage.fork_from(lineage.generation).map_or(b.head, |fork| b.head.min(fork));
    b.lineage = lineage;
    b.wrote = false;
    // It wrote nothing that counts, and still the image holds more than any line says.
    b.alone = true;
    b.clean = false;
    b.equal = false;
    // While a disk was shipped the marks were those against it, and prove nothing against any other copy.
    b.marks_void |= b.seeding != 0;
    b.seeding = 0;
    b.began = 0;
    if lineage.generation == Generation::NONE {
        keeping.ages_mut().begin_again(0);
        (b.marks_void, b.peer_invalid) = (true, Generation::NONE);
        b.remembers = 0;
        b.discarded = true;
    }
}

/// The record of an accepted copy: nothing proves what it holds, so its peer's is to be compared with all of it.
pub(crate) fn shape_accepted(b: &mut Superblock, volume: VolumeIndex) {
    b.suspect &= !bit(volume);
    // From here on the marks do not cover the differences to a disk that is being shipped.
    (b.marks_void, b.seeding) = (true, 0);
    (b.clean, b.equal, b.sure) = (false, false, false);
    // The operator who accepted it decides whether it leads.
    b.role = Role::Secondary;
}

impl Standing {
    /// Records what the peer told of its blocks, where no other record does soon.
    pub(crate) fn record_blocks(&self, local: &Local, record: &mut Record) {
        let follows = self.streaming().is_some_and(|f| f.is_begun());
        let may = self.serves() || follows;
        let news = may && local.blocks().are_news(record.superblock());
        if news && !record.is_saving() && !local.metadata_failed() {
            record.want(Goal::Remember);
        }
    }

    /// A failed flush must be recorded, and can be.
    pub(crate) fn owes_failed_flush(&self, local: &Local) -> bool {
        let forgets = self.leads() && planted(Plant::SuspectUnrecorded);
        local.suspect().any_unrecorded() && !local.metadata_failed() && !forgets
    }

    /// Records it.
    pub(crate) fn record_failed_flush(&self, local: &Local, record: &mut Record) {
        let stands = !self.has_stopped();
        if stands && self.owes_failed_flush(local) && !record.is_saving() {
            record.want(Goal::FlushFailed);
        }
    }

    pub(crate) fn shape_promoted(&self, b: &mut Superblock, dice: &mut Dice, turn: &Turn) {
        let streaming = self.streaming();
        let head = streaming.map_or(b.head, |f| f.head());
        // Nobody commanded it: a primary goes on behind its own clean stop, and nothing forked. Anything else forks.
        let goes_on =
            matches!(self.stage(), Stage::Following(Following::Promoting { command: None, .. }))
                && b.clean
                && b.lineage.generation != Generation::NONE;
        if !goes_on {
            // A secondary has everything that it confirmed, once it has received again what an earlier process lost. A copy that no
            // process follows may have lost what was not flushed.
            b.sure = streaming.is_some_and(Follower::is_sure);
            let generation =
                Generation { number: b.lineage.generation.number + 1, tag: dice.roll(turn.now()) };
            b.lineage = b.lineage.fork(generation, head);
            b.began = turn.calendar().at(turn.now());
            // Who was primary all along has the image he left; anybody else's may have been written by others.
            if b.role == Role::Secondary {
                b.tenure = generation.tag;
            }
        }
        b.role = Role::Primary;
        b.discarded = false;
        b.wrote = true;
        b.alone = true;
        b.head = head;
        b.clean = false;
        b.equal = false;
    }

    pub(crate) fn shape_alone(&mut self, b: &mut Superblock, dice: &mut Dice, turn: &Turn) {
        let number = b.lineage.generation.number + 1;
        let generation = Generation { number, tag: dice.roll(turn.now()) };
        if let Some(p) = self.primary_mut() {
            b.head = p.head();
            b.lineage = b.lineage.fork(generation, b.head);
            p.generation_begins(b.head);
        }
        b.began = turn.calendar().at(turn.now());
        b.alone = true;
        b.hold = 0;
    }

    pub(crate) fn shape_lacking(&self, b: &mut Superblock, dice: &mut Dice, turn: &Turn) {
        b.consistent = false;
        if let Some(reversal) = self.primary().and_then(Primary::reversal) {
            // What this node answered until here is given up: a generation of its own begins, and nothing in it was
            // answered without the peer.
            let number = b.lineage.generation.number + 1;
            b.head = reversal.head;
            b.tenure = dice.roll(turn.now());
            b.lineage = b.lineage.fork(Generation { number, tag: b.tenure }, b.head);
            b.alone = false;
        }
    }

    /// Changes the record of a primary that has all regions again and no suspect copy. Changes nothing if a region was
    /// marked since the save was requested.
    pub(crate) fn shape_whole(&self, b: &mut Superblock) {
        if self.primary().is_some_and(|primary| primary.marks().none_dirty()) {
            (b.consistent, b.suspect) = (true, 0);
        }
    }

    /// A copy is consistent: what was suspect was written again, if everything was copied since.
    pub(crate) fn shape_consistent(&self, b: &mut Superblock, record: &Record) {
        b.consistent = true;
        if record.keeping().invalid().is_peer_proven() {
            b.peer_invalid = Generation::NONE;
        }
        if !b.marks_void {
            b.suspect = 0;
        }
        b.marks_void = b.suspect != 0;
        b.head = self.follower().and_then(Follower::head_at_marker).unwrap_or(b.head);
    }

    pub(crate) fn shape_left(&self, b: &mut Superblock, to: Leave, local: &Local, config: &Config) {
        if to != Leave::Stop {
            b.role = Role::Secondary;
        }
        b.clean = true;
        if let Some(p) = self.primary() {
            let proves = p.marks().is_saved() && self.owed_flushes(local, config).is_empty();
            b.marks_void = local.suspect().any() || (b.marks_void && !proves);
            b.head = p.head();
            // The failure of a disk may not be recorded yet: this copy is inconsistent all the same.
            b.consistent &= !p.peer_replaces_copy();
            b.equal = p.owed().stays_consistent()
                && (p.marks().none_dirty() || p.peer_replaces_copy())
                && p.cursors().durable() == p.head()
                && p.peer_incarnation().is_some()
                // Whoever is to take over must follow this generation first.
                && (to != Leave::Hand || p.is_taken_up() && !p.is_to_tell_generation());
        }
    }

    /// The record of another disk: nothing on it counts.
    pub(crate) fn shape_replaced(
        &self,
        b: &mut Superblock,
        volume: VolumeIndex,
        members: &Members,
    ) {
        if !members.is_put_back(b, volume) {
            b.suspect &= !bit(volume);
        }
        if self.leads() {
            b.consistent = false;
        } else if !planted(Plant::TrustReplaced) {
            (b.consistent, b.marks_void, b.sure) = (false, true, false);
            (b.clean, b.equal) = (false, false);
        }
    }
}

/// What that record says of copies. Expendable ones are over if the pool failed, or if the record names another disk as a volume's: they
/// need the one before. What was over when the process began stays so. A rollback is over with its copy.
pub(crate) fn shape_copies(
    b: &mut Superblock,
    goal: &Goal,
    since_start: CopyNumber,
    local: &Local,
) {
    let foreign = goal.takes_any_disk() && local.members().are_foreign();
    let over = match goal {
        Goal::Copies(CopyRecord::Over(last)) => Some(*last),
        Goal::Replaced { .. } => local.last_copy(),
        _ if foreign => local.last_copy(),
        _ => None,
    };
    b.copies_over = b.copies_over.max(since_start).max(over.unwrap_or_default());
    if let Goal::Copies(CopyRecord::Rollback(by)) = *goal {
        let ended = b.rollback.filter(|_| by.is_none()).unwrap_or_default();
        (b.rollback, b.rollbacks_over) = (by, b.rollbacks_over.max(ended));
    }
    let other_disk = foreign || matches!(goal, Goal::Replaced { .. });
    b.rollback = b.rollback.filter(|by| !other_disk && *by > b.copies_over);
}
