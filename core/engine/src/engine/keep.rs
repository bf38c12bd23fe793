// SPDX-License-Identifier: Apache-2.0
//! What lies in the metadata file beside the superblock: hot extents and pages of marks. When they are kept, and when
//! hot extents go.
//!
//! | an extent goes | when flushed here, and |
//! |---|---|
//! | on a primary | no item in it waits for the peer, and its marks as they were when it was entered last are kept |
//! | on a primary, from a store that was given up, or that is suspect behind a record that says so | the same, unflushed: all of it counts as marked |
//! | on a follower | the primary itself has completed the last item in it; or what was touched is marked here, and kept |
//!
//! The second row is enough because the primary's own record covers the item from then on: whatever it may lose, or
//! we may lose, one of the two records tells.

use crate::config::WhenFull;
use crate::effect::{Effect, Keep, StoreOp};
use crate::engine::Engine;
use crate::event::{Kept, StoreOutcome};
use crate::local::failure::Failed;
use crate::local::suspect::bit;
use crate::purpose::Purpose;
use crate::record::keep::PAGES_AT_ONCE;
use crate::record::save::Goal;
use crate::refusal::StoreFault;
use crate::role::Following;
use alloc::string::String;
use alloc::vec::Vec;
use helio_bitmap::Bitmap;
use helio_bitmap::Cooling;
use helio_plant::{Plant, planted};
use helio_units::{Extent, Moment, Sequence, VolumeIndex};

impl Engine {
    /// The marks, whoever holds them now.
    pub(crate) fn marks(&self) -> &Bitmap {
        match (self.standing.primary(), self.record.keeping().resting()) {
            (Some(primary), _) => &primary.marks,
            (None, Some(marks)) => marks,
            (None, None) => panic!("no task holds the bitmap"),
        }
    }

    /// The marks, to change them.
    pub(crate) fn marks_mut(&mut self) -> &mut Bitmap {
        match (self.standing.primary_mut(), self.record.keeping_mut().resting_mut()) {
            (Some(primary), _) => &mut primary.marks,
            (None, Some(marks)) => marks,
            (None, None) => panic!("no task holds the bitmap"),
        }
    }

    /// Where this node's image may hold what its peer's own records do not tell of, beside its marks: now, or once what
    /// was received is applied.
    pub(crate) fn unsettled(&self) -> Vec<(VolumeIndex, Extent)> {
        let mut places = self.local.hot().touched(|slot| self.record.keeping().is_unsettled(slot));
        if let Some(follower) = self.standing.follower() {
            places.extend(follower.waiting_behind(self.record.keeping().here()));
        }
        places
    }

    /// Another line is followed: positions of the one before say nothing any more.
    pub(crate) fn line_changed(&mut self) {
        self.local.hot_mut().forget_items();
        self.record.keeping_mut().line_changed(self.turn.now());
    }

    /// What the primary's own record may not tell of is marked, until a copy ends or the primary tells that it does.
    pub(crate) fn mark_unsettled(&mut self) {
        let mut news = false;
        for (volume, extent) in self.unsettled() {
            news |= !self.marks().are_all_dirty(volume, extent);
            self.marks_mut().set(volume, extent);
        }
        if news {
            self.local.hot_mut().bitmap_changed();
        }
    }

    /// The primary told how far it is.
    pub(crate) fn primary_is_at(&mut self, completed: Sequence, accepted: Sequence) {
        self.record.keeping_mut().primary_is_at(completed, self.turn.now());
        if !self.record.superblock().consistent {
            return;
        }
        // Extents from before this node followed that line. What it applies itself enters with its position.
        self.local.hot_mut().remember_items(accepted);
        // Everything here is in the primary's own record: what was marked meanwhile may end.
        let received = self.standing.follower().map(|follower| follower.received());
        if received.is_some_and(|received| self.record.keeping().covers(received)) {
            self.marks_mut().clear();
        }
    }

    /// Asks for what should be kept now.
    pub(crate) fn keep_step(&mut self) {
        if self.standing.is(Following::Stopped) {
            return;
        }
        if self.local.metadata_failed() {
            self.go_on_uncovered();
            return;
        }
        if self.local.hot().is_short() {
            self.relieve(false);
        }
        if self.local.hot().is_stuck() {
            self.give_order_up();
        }
        let change = self.local.keep_hot(&mut self.turn);
        self.record.keeping_mut().change_begins(change);
        let urgent = self.local.hot().is_short()
            || self.is_going_cold()
            || self.standing.primary().is_some_and(|p| p.is_recording_lack())
            || self.resync.seed.wants_marks_kept();
        self.keep_pages(urgent);
        if let Some(primary) = self.standing.primary_mut()
            && primary.marks.is_saved()
        {
            primary.failed_at = None;
        }
        let suspect = self.local.suspect().any();
        let void = self.record.superblock().marks_void && self.standing.leads() && !suspect;
        let kept =
            void && !self.record.is_saving() && self.marks().is_saved() && !self.is_going_cold();
        if kept && self.is_flushed_once() {
            self.save(Goal::MarksKept);
        }
    }

    /// All extents are hot for items that a peer lacks which is away. Their number is a bound like the queue's, and
    /// meets the same policy: where it says log, or this node leaves, marks take the place of order.
    fn give_order_up(&mut self) {
        let logs = self.turn.config().queue.disconnected == WhenFull::Log
            || self.standing.is_leaving_for_good();
        if let Some(primary) = self.standing.primary_mut()
            && !primary.streams()
            && primary.lack.is_none()
            && primary.owed().queues_in_order()
            && logs
        {
            primary.drop_queue(
                "every hot extent holds what the peer lacks",
                &mut self.local,
                &self.permit,
                &mut self.turn,
            );
        }
    }

    fn keep_pages(&mut self, urgent: bool) {
        let due = urgent || self.turn.now() >= self.record.keeping().pages_due();
        if !due || self.record.keeping().keeps_pages() {
            return;
        }
        let tick = self.local.hot_mut().next_tick();
        for _ in 0..PAGES_AT_ONCE {
            let Some(page) = self.marks_mut().take_unsaved(tick) else { return };
            let bits = self.marks().page_bits(page);
            self.record.keeping_mut().page_begins(self.turn.now());
            self.turn.push(Effect::Keep(Keep::Marks { page, bits }));
        }
    }

    /// Volumes that were not flushed since something in them was let go without; a store that was given up owes nothing.
    pub(crate) fn owed_flushes(&self) -> Vec<VolumeIndex> {
        let all = self.turn.config().indices();
        let lost = |volume| self.standing.primary().is_some_and(|p| p.is_lost(volume));
        let owed = |volume: &VolumeIndex| !self.local.hot().was_flushed(*volume) && !lost(*volume);
        all.filter(owed).collect()
    }

    /// Whether this process has flushed every store, as it now begins to where it has not. What a process before wrote
    /// may lie in a cache alone, and where the record is void no hot extent tells of that: a mark that ended because
    /// both nodes read the same would be missing once the power failed.
    fn is_flushed_once(&mut self) -> bool {
        let owed = self.owed_flushes();
        if !owed.is_empty() && self.record.keeping_mut().flushes_again(self.turn.now()) {
            for volume in &owed {
                if !self.local.hot().is_flushing(*volume) {
                    self.local.store(
                        *volume,
                        StoreOp::Flush,
                        Purpose::Cover(*volume),
                        &mut self.turn,
                    );
                }
            }
        }
        owed.is_empty()
    }

    /// When pages are due.
    pub(crate) fn keep_deadline(&self) -> Moment {
        let short = !self.standing.leads()
            && self.local.hot().is_short()
            && self.turn.now() < self.record.keeping().stuck_at();
        let stuck = if short { self.record.keeping().stuck_at() } else { Moment::NEVER };
        if self.record.keeping().keeps_pages()
            || self.local.metadata_failed()
            || !self.marks().has_unsaved()
        {
            stuck
        } else {
            stuck.min(self.record.keeping().pages_due())
        }
    }

    /// Begins what lets hot extents go, and lets go those that may; all of them, or until a quarter is free.
    pub(crate) fn relieve(&mut self, all: bool) {
        // Nobody tells how far the primary is, or it does not come forward: then what may differ is marked here.
        let stuck = self.turn.now() >= self.record.keeping().stuck_at();
        if self.standing.follower().is_some_and(|follower| !follower.is_following() || stuck) {
            self.mark_unsettled();
        }
        let volumes = self.turn.config().indices();
        let ways: Vec<Cooling> = volumes.clone().map(|volume| self.cooling(volume)).collect();
        for (volume, way) in volumes.zip(&ways) {
            if *way == Cooling::Flushed && self.local.hot().wants_flush(volume) {
                self.local.store(volume, StoreOp::Flush, Purpose::Cover(volume), &mut self.turn);
            }
        }
        // What the store does not hold yet makes no difference here; its extents turn hot again before it does.
        let parked = self.local.hot().parked_places();
        let (cover, keeping) = (self.local.hot_mut(), self.record.keeping());
        match self.standing.primary() {
            Some(primary) => cover.evict(all, &ways, |_, since, volume, extent| {
                if planted(Plant::ColdTooEarly) {
                    return true;
                }
                !primary.marks.is_pending(volume, extent, &parked)
                    && primary.marks.is_saved_since(since, volume, extent)
            }),
            None => cover.evict(all, &ways, |slot, since, volume, extent| {
                keeping.lets_go(slot, since, volume, extent)
            }),
        }
    }

    /// When a volume's hot extents may go. A flush of a suspect copy proves nothing; what a record says does.
    fn cooling(&self, volume: VolumeIndex) -> Cooling {
        let suspect = self.local.suspect();
        let void = self.record.superblock().marks_void || self.record.superblock().seeding != 0;
        let recorded = suspect.unrecorded() & bit(volume) == 0;
        match self.standing.primary() {
            Some(primary) if primary.is_lost(volume) => Cooling::Unflushed,
            Some(_) if suspect.is(volume) && recorded && void => Cooling::Unflushed,
            Some(_) if suspect.is(volume) => Cooling::Never,
            None if self.keeps_hot(volume) => Cooling::Never,
            _ => Cooling::Flushed,
        }
    }

    /// Something is durable in the metadata file, or could not be made so.
    pub(crate) fn kept(&mut self, kept: Kept, ok: bool, sequence: u64) {
        self.record.keeping_mut().ages_mut().changed(sequence);
        match kept {
            Kept::Hot { ticket } => {
                let change = self.record.keeping_mut().change_ended(ticket);
                if ok {
                    self.local.hot_kept(&change, &mut self.turn);
                }
            }
            Kept::Marks { page } => {
                self.record.keeping_mut().page_ends();
                self.marks_mut().page_saved(page, ok);
                if ok
                    && !self.record.keeping().keeps_pages()
                    && self.resync.seed.cools(self.standing.leads())
                {
                    self.relieve(true);
                }
            }
        }
        if !ok && !self.local.metadata_failed() {
            self.lose_metadata();
            self.turn.warn(String::from(
                "the metadata file cannot be written: on a primary, writes to extents that are not hot wait until \
                 the peer has recorded this failure, and fail if the peer is not connected; repair the file system and \
                 restart the daemon",
            ));
        }
    }

    /// Nothing can be covered any more: what waits for it fails.
    pub(crate) fn fail_parked(&mut self) {
        let parked = self.local.hot_mut().give_up();
        self.are_unissued(true);
        for parked in parked {
            self.store_done(parked.io, StoreOutcome::Failed(StoreFault::Io));
        }
        self.are_unissued(false);
    }

    /// What ends now was never issued to the store.
    fn are_unissued(&mut self, unissued: bool) {
        if let Some(primary) = self.standing.primary_mut() {
            primary.unissued = unissued;
        }
    }

    /// A flush that was to let hot extents go has ended.
    pub(crate) fn cover_flushed(&mut self, volume: VolumeIndex, outcome: &StoreOutcome) {
        let StoreOutcome::Failed(fault) = *outcome else { return };
        match self.standing.primary_mut() {
            Some(primary) => {
                primary.store_failed(volume, Failed::Flush, fault, &mut self.local, &mut self.turn);
            }
            None => self.own_flush_failed(volume, fault),
        }
    }
}
