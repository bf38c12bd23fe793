// SPDX-License-Identifier: Apache-2.0
//! Saving the superblock, one save at a time, and what each save is for.
//!
//! A goal says what must be durable before something else may happen; what follows happens in `saved`, and nowhere
//! earlier.

use crate::effect::Effect;
use crate::engine::Engine;
use crate::follow::before::Keeper;
use crate::record::save::Goal;
use crate::record::save::Leave;
use crate::role::{Following, Leading, Stage};
use alloc::string::String;
use helio_format::lineage::Lineage;
use helio_format::message::{Parting, Start};
use helio_format::superblock::Superblock;
use helio_plant::{Plant, planted};
use helio_units::{Generation, Role, Sequence};

/// The record of a side that begins to follow.
fn shape_adopted(b: &mut Superblock, start: Start) {
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
fn give_up(b: &mut Superblock, lineage: Lineage) {
    b.role = Role::Secondary;
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
        b.marks_void = true;
        b.remembers = 0;
        b.discarded = true;
    }
}

impl Engine {
    /// A record is on its way with which this node follows.
    pub(crate) fn is_adopting(&self) -> bool {
        self.record.wants(|goal| matches!(goal, Goal::Adopted(_)))
    }

    pub(crate) fn save(&mut self, goal: Goal) {
        self.record.want(goal);
        self.save_next();
    }

    fn save_next(&mut self) {
        let Some(goal) = self.record.next_goal() else { return };
        let mut next = self.record.superblock().clone();
        next.remembers = self.record.keeping().ages().heard();
        self.resync.verify.shape(self.turn.calendar(), &mut next);
        self.shape_suspect(&mut next);
        self.shape(&mut next, goal);
        self.local.members().record(&mut next, goal.takes_any_disk());
        self.local.blocks().record(&mut next);
        self.record.begin(goal, next.clone());
        if goal == Goal::Promoted && planted(Plant::ServeUnrecorded) {
            self.record.saved(next.clone());
            self.promotion_saved();
        }
        self.turn.push(Effect::SaveSuperblock(next));
    }

    /// What the superblock says once the goal is reached.
    fn shape(&mut self, b: &mut Superblock, goal: Goal) {
        match goal {
            Goal::Promoted => self.shape_promoted(b),
            Goal::Adopted(start) => {
                self.record.keeping_mut().invalid_mut().adopts(start.whole);
                shape_adopted(b, start);
            }
            Goal::Consistent => self.shape_consistent(b),
            Goal::Left(to) => self.shape_left(b, to),
            Goal::Closed => {
                b.clean = true;
                b.head = self.standing.follower().map_or(b.head, |follower| follower.completed());
            }
            Goal::SteppedBack => b.role = Role::Secondary,
            Goal::Alone => self.shape_alone(b),
            Goal::Together => {
                b.alone = false;
                b.hold = self
                    .permit
                    .lease
                    .on_record(b.hold, self.turn.now())
                    .max(self.turn.config().hold_millis());
            }
            Goal::Void => {
                // Everything counts as marked from here on, against whatever copy.
                (b.marks_void, b.seeding) = (true, 0);
                b.peer_invalid = Generation::NONE;
            }
            Goal::PeerInvalid(generation) => b.peer_invalid = generation,
            // What is suspect is in every record.
            Goal::FlushFailed => {}
            Goal::MarksKept => b.marks_void = false,
            Goal::Yielded { lineage, .. } => {
                if lineage.generation == Generation::NONE {
                    self.record.keeping_mut().ages_mut().begin_again(0);
                }
                give_up(b, lineage);
            }
            // Every save does.
            Goal::Remember => {}
            Goal::Restoring => Keeper::shape_restoring(b),
            Goal::Restored => self.keeper.shape_restored(b),
            Goal::Unpromoted => self.permit.lease.shape_unpromoted(b),
            Goal::SeedBegun { at, .. } => {
                (b.seeding, b.marks_void, b.equal) = (at, false, false);
            }
            Goal::Seeded { .. } => {
                (b.seeding, b.marks_void) = (0, b.marks_void || b.suspect != 0);
            }
            Goal::Lacking => self.shape_lacking(b),
            Goal::Whole => self.shape_whole(b),
            Goal::Replaced { volume, .. } => self.shape_replaced(b, volume),
            Goal::Accepted { volume, .. } => Self::shape_accepted(b, volume),
        }
    }

    fn shape_promoted(&mut self, b: &mut Superblock) {
        let streaming = self.standing.streaming();
        let (streams, head) = (streaming.is_some(), streaming.map_or(b.head, |f| f.completed()));
        // Nobody commanded it: a primary goes on behind its own clean stop, and nothing forked. Anything else forks.
        let goes_on = matches!(
            self.standing.stage(),
            Stage::Following(Following::Promoting { command: None, .. })
        ) && b.clean;
        if !goes_on {
            // An image that was followed until now lacks nothing that was confirmed; one that its process left
            // may have lost what was not flushed.
            b.sure = streams;
            let generation =
                Generation { number: b.lineage.generation.number + 1, tag: self.roll() };
            b.lineage = b.lineage.fork(generation, head);
            b.began = self.turn.calendar().at(self.turn.now());
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

    fn shape_left(&self, b: &mut Superblock, to: Leave) {
        if to != Leave::Stop {
            b.role = Role::Secondary;
        }
        b.clean = true;
        b.hold = self.permit.lease.on_record(b.hold, self.turn.now());
        if let Some(p) = self.standing.primary() {
            let proves = p.marks.is_saved() && self.owed_flushes().is_empty();
            b.marks_void = self.local.suspect().any() || (b.marks_void && !proves);
            b.head = p.line.head;
            b.equal = p.owed().stays_consistent()
                && p.marks.none_dirty()
                && p.cursors().durable() == p.line.head
                && p.peer_incarnation().is_some()
                // Whoever is to take over must follow this generation first.
                && (to != Leave::Hand || p.is_taken_up() && !p.is_to_tell_generation());
        }
    }

    fn shape_alone(&mut self, b: &mut Superblock) {
        let number = b.lineage.generation.number + 1;
        let generation = Generation { number, tag: self.roll() };
        if let Some(p) = self.standing.primary() {
            b.head = p.line.head;
            b.lineage = b.lineage.fork(generation, b.head);
        }
        b.began = self.turn.calendar().at(self.turn.now());
        b.alone = true;
        b.hold = 0;
    }

    fn shape_lacking(&mut self, b: &mut Superblock) {
        b.consistent = false;
        let reversal =
            self.standing.primary().and_then(|p| p.lack.as_ref()).and_then(|l| l.reversal());
        if let Some(reversal) = reversal {
            // What this node answered until here is given up: a generation of its own begins, and nothing in it was
            // answered without the peer.
            let number = b.lineage.generation.number + 1;
            b.head = reversal.head;
            b.tenure = self.roll();
            b.lineage = b.lineage.fork(Generation { number, tag: b.tenure }, b.head);
            b.alone = false;
        }
    }

    pub(crate) fn superblock_saved(&mut self, ok: bool, sequence: u64) {
        self.record.keeping_mut().ages_mut().changed(sequence);
        let Some((goal, saved)) = self.record.end() else {
            panic!("a save ended that was not requested")
        };
        if !ok {
            self.record.keeping_mut().not_saved(saved.consistent);
            self.metadata_failed(goal);
            // What waited for its turn is not going to be recorded either.
            while let Some(goal) = self.record.next_goal() {
                self.metadata_failed(goal);
            }
            return;
        }
        self.record.saved(saved);
        // Before the next record is made, which may follow at once.
        self.suspect_recorded();
        if goal.takes_any_disk() {
            self.local.members_mut().taken();
        }
        match goal {
            Goal::Promoted => self.promotion_saved(),
            Goal::Adopted(start) => {
                self.permit.lease.follows();
                self.line_changed();
                if !start.consistent {
                    self.mark_unsettled();
                }
                if let Some(follower) = self.standing.follower_mut() {
                    follower.adopted(start);
                }
            }
            Goal::Consistent => {
                if let Some(follower) = self.standing.follower_mut() {
                    follower.marker_saved(&mut self.turn);
                }
            }
            Goal::Left(to) => self.left(to),
            Goal::Closed => self.closed(),
            Goal::SteppedBack
            | Goal::Together
            | Goal::MarksKept
            | Goal::Remember
            | Goal::FlushFailed => {}
            Goal::Alone => self.alone_saved(),
            Goal::PeerInvalid(_) => self.peer_invalid_saved(),
            Goal::Void => {
                if self.resync.update.awaits_record() {
                    self.sync_as_wanted();
                }
            }
            Goal::Yielded { command, .. } => self.gave_up(command),
            Goal::Restoring => self.restoring_saved(),
            Goal::Restored => self.restored_saved(),
            Goal::Unpromoted => {
                if let Stage::Following(Following::Promoting { command, .. }) =
                    self.standing.stage()
                {
                    self.lease_failed(command);
                }
            }
            Goal::SeedBegun { command, .. } => self.seed_begun(command),
            Goal::Seeded { command, incarnation } => self.seeded(command, incarnation),
            Goal::Lacking => self.lacking_saved(),
            Goal::Whole => self.whole_saved(),
            Goal::Replaced { command, volume } => self.replaced(command, volume),
            Goal::Accepted { command, volume } => self.accepted(command, volume),
        }
        self.save_next();
    }

    /// The metadata cannot be written: nothing that needs it may happen, and nothing is pretended.
    fn metadata_failed(&mut self, goal: Goal) {
        let text =
            String::from("the metadata file cannot be written; repair it and restart the daemon");
        if !self.local.metadata_failed() {
            self.turn.warn(text.clone());
        }
        self.lose_metadata();
        if matches!(goal, Goal::SeedBegun { .. }) {
            self.resync.seed.not_recorded();
        }
        match (goal, self.standing.stage()) {
            (
                Goal::Promoted | Goal::Restoring | Goal::Restored | Goal::Unpromoted,
                Stage::Following(Following::Promoting { command, .. }),
            ) => {
                self.keeper.end_restore();
                self.standing.stand(Following::resting(self.record.superblock().role));
                self.refuse_command(command, text);
            }
            (Goal::Left(to), Stage::Leading(Leading::Leaving { command, .. })) => {
                // The file may say already that this node left: it must not write on.
                if to == Leave::Stop {
                    self.lay_line_down(Following::Stopped);
                    self.stop_now(command);
                } else {
                    self.lay_line_down(Following::Returning);
                    self.refuse_command(command, text.clone());
                    self.hang_up(Parting::RoleChanged, text);
                }
            }
            (
                Goal::Yielded { command, .. }
                | Goal::SeedBegun { command, .. }
                | Goal::Seeded { command, .. },
                _,
            ) => self.refuse_command(Some(command), text),
            (Goal::Accepted { command, .. }, _) => self.not_accepted(command, text),
            (Goal::Closed, Stage::Following(Following::Closing { .. })) => self.closed(),
            (Goal::Lacking, _) => self.lack_unrecorded(),
            (Goal::Replaced { command, .. }, _) => {
                self.not_replaced();
                self.refuse_command(Some(command), text);
            }
            (Goal::Alone, Stage::Leading(Leading::Primary)) => {
                if let Some(primary) = self.standing.primary_mut() {
                    primary.refuse_alone(&self.local, &self.permit, &mut self.turn);
                }
            }
            _ => self.hang_up(Parting::VolumeFailed, text),
        }
    }
}
