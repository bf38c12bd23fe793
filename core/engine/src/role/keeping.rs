// SPDX-License-Identifier: Apache-2.0
//! What follows from what a secondary's [`Keeper`] decides.

use crate::follow::before::{Facts, Keeper, Next};
use crate::follow::follower::Follower;
use crate::local::Local;
use crate::peer::hang_up::HangUp;
use crate::peer::keeping::{NO_SPACE, tell};
use crate::peer::link::Session;
use crate::record::Record;
use crate::record::save::Goal;
use crate::role::Standing;
use crate::turn::Turn;
use alloc::format;
use helio_format::message::{Parting, Start};
use helio_stack::{CopyOutcome, Shortage};

impl Standing {
    /// Settles what a start needs before it may be adopted, and ends a keeping that nothing needs.
    pub(crate) fn arrange_keeping(
        &mut self,
        session: &Session,
        keeper: &mut Keeper,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Option<HangUp> {
        if record.is_saving() || local.metadata_failed() || !keeper.is_idle() {
            return None;
        }
        let start = self.start();
        if start.is_none() && keeper.rests() {
            return None;
        }
        let facts = Facts {
            record: record.superblock(),
            consistent: local.is_consistent(record.superblock()),
            foreign: local.members().are_foreign(),
            start,
            drained: self.follower().is_some_and(Follower::is_drained),
            completed: self.streaming().map(Follower::head),
        };
        let next = keeper.arrange(&facts, local, turn);
        self.follow_keeper(next, session, keeper, record, local, turn)
    }

    /// What the store stack was asked for ended.
    pub(crate) fn copied(
        &mut self,
        outcome: CopyOutcome,
        session: &Session,
        keeper: &mut Keeper,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Option<HangUp> {
        let consistent = local.is_consistent(record.superblock());
        let next = keeper.done(outcome, self.start(), consistent);
        self.follow_keeper(next, session, keeper, record, local, turn)
    }

    /// Heeds that the store stack refused an item, unless the keeping is about to end: then the item is offered again.
    pub(crate) fn heed_refusal(
        &mut self,
        session: &Session,
        keeper: &mut Keeper,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Option<HangUp> {
        let refused = self.follower_mut().and_then(Follower::take_refused)?;
        let ends = record.superblock().consistent || record.wants(|goal| *goal == Goal::Consistent);
        if ends && self.start().is_none() && refused != Shortage::FAILED {
            return None;
        }
        let next = keeper.refused(refused);
        self.follow_keeper(next, session, keeper, record, local, turn)
    }

    /// The start that waits to be adopted.
    fn start(&self) -> Option<Start> {
        self.follower().and_then(Follower::starting)
    }

    /// Does what the keeper decided.
    fn follow_keeper(
        &mut self,
        next: Next,
        session: &Session,
        keeper: &mut Keeper,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Option<HangUp> {
        let stops = matches!(next, Next::StopApplying(_));
        match next {
            Next::Nothing => {}
            Next::OfferAgain => {
                if let Some(follower) = self.follower_mut() {
                    follower.offer_again(local, turn);
                }
            }
            Next::RefuseStart(shortage) | Next::StopApplying(shortage) => {
                // A source that began in order again since asks for no keeping, and does not heed a want of room.
                let in_order = self.start().is_some_and(|start| start.consistent);
                self.refuse_items(turn);
                tell(shortage, session, turn);
                return (stops && in_order).then(|| HangUp::new(Parting::RoleChanged, NO_SPACE));
            }
            Next::StopForFailure | Next::FileFailed => {
                let needed = matches!(next, Next::StopForFailure);
                let (what, hint) = local.pool_fault(turn.config());
                let why = format!("{what}; {hint}");
                if !needed {
                    turn.warn(why.clone());
                }
                // Without the file nothing that needs it may go on: applying stops, and the connection ends.
                if needed || !record.superblock().consistent || self.start().is_some() {
                    keeper.stop_for_failure();
                    self.refuse_items(turn);
                    return Some(HangUp::new(Parting::VolumeFailed, why));
                }
            }
            Next::Restored => record.want(Goal::Restored),
            Next::RestoreFailed(outcome) => self.restore_failed(outcome, keeper, record, turn),
        }
        None
    }
}
