// SPDX-License-Identifier: Apache-2.0
//! Saving the superblock, one save at a time.
//!
//! A goal says what must be durable before something else may happen; what follows happens in `reached`, and nowhere
//! earlier.

use crate::effect::Effect;
use crate::engine::Engine;
use crate::follow::before::Keeper;
use crate::peer::hang_up::HangUp;
use crate::record::save::Goal;
use crate::record::save::Leave;
use crate::role::record::{give_up, shape_accepted, shape_adopted, shape_copies};
use crate::role::resolve::report_given_up;
use crate::role::{Following, Leading, Stage};
use crate::show::view::View;
use alloc::string::String;
use helio_format::message::Parting;
use helio_plant::{Plant, planted};
use helio_units::{Generation, Role};

impl Engine {
    /// Begins the record that is asked for next, unless one is on its way. Every record makes an old file look younger: that the record
    /// of the members is old is durable first.
    #[inline]
    pub(crate) fn begin_record(&mut self) {
        if self.local.records_doubt() {
            return;
        }
        if let Some(goal) = self.record.next_goal() {
            self.make_record(goal);
        }
    }

    /// Asks for a superblock that says what holds once the goal is reached.
    #[cold]
    fn make_record(&mut self, goal: Goal) {
        let mut next = self.record.superblock().clone();
        next.remembers = self.record.keeping().ages().heard();
        next.reported = self.record.keeping_mut().ages_mut().record();
        self.resync.verify().shape(self.turn.calendar(), &mut next);
        let leads = self.standing.leads();
        if !leads || !planted(Plant::SuspectUnrecorded) {
            self.local.suspect_mut().shape(&mut next, leads);
        }
        let b = &mut next;
        match goal {
            Goal::Promoted => self.standing.shape_promoted(b, &mut self.dice, &self.turn),
            Goal::Adopted(start) => {
                self.record.keeping_mut().invalid_mut().adopts(start.whole);
                shape_adopted(b, start);
            }
            Goal::Consistent => self.standing.shape_consistent(b, &self.record),
            Goal::Left(to) => {
                b.hold = self.permit.lease().on_record(b.hold, self.turn.now());
                self.standing.shape_left(b, to, &self.local, self.turn.config());
            }
            Goal::Closed => {
                b.clean = true;
                b.head = self.standing.follower().map_or(b.head, |follower| follower.head());
            }
            Goal::SteppedBack => b.role = Role::Secondary,
            Goal::Alone => self.standing.shape_alone(b, &mut self.dice, &self.turn),
            Goal::Together => {
                let hold = self.permit.lease().on_record(b.hold, self.turn.now());
                (b.alone, b.hold) = (false, hold.max(self.turn.config().hold_millis()));
            }
            // Everything counts as marked from here on, against whatever copy.
            Goal::Void => (b.marks_void, b.seeding, b.peer_invalid) = (true, 0, Generation::NONE),
            Goal::PeerInvalid(generation) => b.peer_invalid = generation,
            Goal::MarksKept => b.marks_void = false,
            Goal::Yielded { lineage, .. } => give_up(b, lineage, self.record.keeping_mut()),
            // Every record says what is suspect, and what is remembered.
            Goal::FlushFailed | Goal::Remember | Goal::Copies(_) => {}
            Goal::Restoring => Keeper::shape_restoring(b),
            Goal::Restored => self.keeper.shape_restored(b),
            Goal::Unpromoted => self.permit.lease().shape_unpromoted(b),
            Goal::SeedBegun { at, .. } => (b.seeding, b.marks_void, b.equal) = (at, false, false),
            Goal::Seeded { .. } => {
                (b.seeding, b.marks_void) = (0, b.marks_void || b.suspect != 0);
            }
            Goal::Lacking => self.standing.shape_lacking(b, &mut self.dice, &self.turn),
            Goal::Whole => self.standing.shape_whole(b),
            Goal::Replaced { volume, .. } => {
                let view = self.view();
                let given_up = view.is_refused_for_writes().then(|| view.yielded_lineage());
                self.standing.shape_replaced(b, volume, self.local.members());
                if let Some(lineage) = given_up {
                    give_up(b, lineage, self.record.keeping_mut());
                }
            }
            Goal::Accepted { volume, .. } => shape_accepted(b, volume),
        }
        shape_copies(&mut next, &goal, self.copies.over_since_start(), &self.local);
        self.local.shape(&mut next, goal.takes_any_disk());
        self.record.begin(goal, next.clone());
        if goal == Goal::Promoted && planted(Plant::ServeUnrecorded) {
            self.record.saved(next.clone());
            self.standing.promotion_saved(
                &mut self.permit,
                &mut self.record,
                &mut self.local,
                self.resync.update_mut(),
                &mut self.turn,
            );
        }
        self.turn.push(Effect::SaveSuperblock(next));
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
        let news = self.local.suspect_mut().saved(self.record.superblock());
        if let (true, Some(primary)) = (news, self.standing.primary_mut()) {
            primary.consider_all(&self.local, &self.permit, &mut self.turn);
        }
        if goal.takes_any_disk() {
            let over = self.record.superblock().copies_over;
            self.copies.lost(over, &mut self.local, &mut self.turn);
            self.local.members_mut().taken();
        }
        self.reached(goal);
        self.begin_record();
    }

    /// What follows once a goal is durable.
    fn reached(&mut self, goal: Goal) {
        let Self { standing, peer, permit, record, resync, keeper, local, turn, .. } = self;
        match goal {
            Goal::Promoted => {
                standing.promotion_saved(permit, record, local, resync.update_mut(), turn);
            }
            Goal::Adopted(start) => {
                permit.lease_mut().follows();
                standing.adopted(start, record, local, turn);
            }
            Goal::Consistent => self.standing.marker_saved(&mut self.turn),
            Goal::Left(to) => self.left(to),
            Goal::Closed => standing.stop_now(None, record, local, turn),
            Goal::SteppedBack
            | Goal::Together
            | Goal::MarksKept
            | Goal::Remember
            | Goal::FlushFailed => {}
            Goal::Copies(_) => local.copies_recorded(true, turn),
            Goal::Alone => {
                standing.generation_recorded(false, permit, record, resync, local, turn);
            }
            Goal::PeerInvalid(_) => self.peer.tell_recorded(&mut self.turn),
            Goal::Void if resync.update_mut().recorded() => {
                standing.sync_as_wanted(peer.session(), record, resync, local, turn);
            }
            Goal::Void => {}
            Goal::Yielded { command, .. } => {
                let wish = standing.gave_up(peer.session_mut(), keeper, record, local, turn);
                self.hang_up(wish);
                report_given_up(command, &mut self.turn);
            }
            Goal::Restoring if keeper.is_restoring() => {
                self.standing.reset_follower(&mut self.keeper, &self.record, &mut self.turn);
                self.keeper.put_back(&mut self.local, &mut self.turn);
            }
            Goal::Restored => standing.restored(keeper, record, turn),
            Goal::Unpromoted if standing.is_promoting() => {
                let refusal = self.permit.lease_mut().end_takeover(self.turn.config());
                self.standing.not_promoted(refusal, &mut self.keeper, &self.record, &mut self.turn);
            }
            // The promotion that asked for this record has ended.
            Goal::Unpromoted | Goal::Restoring => {}
            Goal::SeedBegun { command, .. } => {
                standing.seed_begun(command, resync.seed_mut(), record, local, turn);
            }
            Goal::Seeded { command, incarnation } => {
                if standing.seeded((command, incarnation), peer.session(), resync, turn) {
                    self.meet_as_source();
                }
            }
            Goal::Lacking => {
                let (verify, up) = (resync.verify_mut(), peer.session().peer().is_some());
                if let Some(primary) = standing.primary_mut() {
                    primary.lacking_saved(up, record, verify, local, permit, turn);
                }
            }
            Goal::Whole => {
                if let Some(primary) = self.standing.primary_mut() {
                    primary.whole_saved(&self.local, &self.permit, &mut self.turn);
                }
            }
            Goal::Replaced { command, volume } => {
                peer.session_mut().admit();
                standing.replaced((command, volume), keeper, record, local, turn);
            }
            Goal::Accepted { command, volume } => {
                standing.accepted((command, volume), peer, resync, record, local, turn);
            }
        }
    }

    /// The metadata cannot be written: nothing that needs it may happen, and nothing is pretended.
    fn metadata_failed(&mut self, goal: Goal) {
        let text =
            String::from("the metadata file cannot be written; repair it and restart the daemon");
        if !self.local.metadata_failed() {
            self.turn.warn(text.clone());
        }
        self.standing.lose_metadata(&mut self.local, &self.permit, &mut self.turn);
        if matches!(goal, Goal::SeedBegun { .. }) {
            self.resync.seed_mut().not_recorded();
        }
        if goal == Goal::Alone {
            let Self { standing, permit, record, resync, local, turn, .. } = self;
            standing.generation_recorded(true, permit, record, resync, local, turn);
        }
        match (goal, self.standing.stage()) {
            // It may be on the disk, and say that only the preserved copy is consistent: a promotion would give that up.
            (_, Stage::Following(Following::Promoting { command, .. })) => {
                self.keeper.end_restore();
                self.standing.stand(Following::resting(self.record.superblock().role));
                self.turn.refuse_command(command, text);
            }
            (Goal::Left(to), Stage::Leading(Leading::Leaving { command, .. })) => {
                // The file may say already that this node left: it must not write on.
                let stops = to == Leave::Stop;
                self.standing.lay_line_down(
                    if stops { Following::Stopped } else { Following::Returning },
                    self.resync.verify_mut(),
                    &mut self.record,
                    &mut self.local,
                    &mut self.keeper,
                    &mut self.turn,
                );
                self.permit.laid_down(&mut self.turn);
                if stops {
                    self.standing.stop_now(command, &mut self.record, &self.local, &mut self.turn);
                } else {
                    self.turn.refuse_command(command, text.clone());
                    self.hang_up(HangUp::new(Parting::RoleChanged, text));
                }
            }
            (
                Goal::Yielded { command, .. }
                | Goal::SeedBegun { command, .. }
                | Goal::Seeded { command, .. },
                _,
            ) => self.turn.refuse_command(Some(command), text),
            (Goal::Accepted { command, .. }, _) => {
                self.standing.not_accepted(command, &text, &self.record, &mut self.turn)
            }
            (Goal::Closed, Stage::Following(Following::Closing { .. })) => {
                self.standing.stop_now(None, &mut self.record, &self.local, &mut self.turn);
            }
            (Goal::Lacking, _) => {
                if let Some(primary) = self.standing.primary_mut() {
                    primary.lack_unrecorded(&mut self.local, &self.permit, &mut self.turn);
                }
            }
            (Goal::Replaced { command, .. }, _) => {
                self.local.end_replacing();
                self.turn.refuse_command(Some(command), text);
            }
            (Goal::Alone, Stage::Leading(Leading::Primary)) => {
                if let Some(primary) = self.standing.primary_mut() {
                    primary.refuse_alone(&self.local, &self.permit, &mut self.turn);
                }
            }
            _ => self.hang_up(HangUp::new(Parting::VolumeFailed, text)),
        }
    }
}

impl View<'_> {
    /// A record is on its way with which this node follows.
    pub(crate) fn is_adopting(&self) -> bool {
        self.record.wants(|goal| matches!(goal, Goal::Adopted(_)))
    }
}
