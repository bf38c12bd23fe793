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
use crate::peer::invalid::Told;
use crate::record::save::Goal;
use crate::refusal::StoreFault;
use crate::role::Following;
use crate::shared::{Purpose, Shared};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use helio_bitmap::Bitmap;
use helio_bitmap::{Change, Cooling, HotExtent};
use helio_plant::{Plant, planted};
use helio_units::{Extent, Moment, Sequence, VolumeIndex};

/// Changed pages are kept this often where nobody waits for them: a crash costs comparing what ended since.
const PAGES_EVERY: Duration = Duration::from_secs(1);
/// A follower that runs short of hot extents waits this long for its primary to come forward.
const STUCK_AFTER: Duration = Duration::from_millis(200);
/// Pages kept at once: few enough that hot extents never wait long behind them.
const PAGES_AT_ONCE: usize = 16;

/// What is on its way to the metadata file, and what is known of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keeping {
    /// Marks while this node holds no line; its primary holds them otherwise.
    pub(crate) resting: Option<Bitmap>,
    /// Changes of the hot extents under way. They end in any order, since they are of different pages; of one extent
    /// there is one at a time.
    pub(crate) changes: VecDeque<Change>,
    /// Pages of marks under way.
    pub(crate) pages: usize,
    /// When pages were kept last.
    pub(crate) pages_at: Moment,
    /// When the first flush was begun that the end of a void record waits for.
    pub(crate) flush_at: Option<Moment>,
    /// How often the metadata was durably changed.
    pub(crate) sequence: u64,
    /// How often it had been when this process began, until the peer is told of a change since: what a start changes would
    /// make an older file look as young as the one that the peer remembers.
    pub(crate) found: Option<u64>,
    /// The highest such count of the peer that was ever heard of.
    pub(crate) heard: u64,
    /// When that was recorded last.
    pub(crate) remembered_at: Option<Moment>,
    /// How far the primary that is followed has completed its line itself.
    pub(crate) primary_here: Sequence,
    /// When it was heard to have come forward last.
    pub(crate) here_at: Moment,
    /// Which items touched the hot extents is not known to their positions yet.
    pub(crate) unremembered: bool,
    /// A record that could not be saved said that the image is not consistent. It may be the one that a restart finds.
    pub(crate) disowned: bool,
    /// The stream that was adopted last brings everything.
    pub(crate) compared: bool,
    /// The peer said in this conversation that its metadata cannot be written.
    pub(crate) peer_fails: bool,
    /// What the peer was told of this node's own metadata.
    pub(crate) told: Told,
}

impl Keeping {
    /// What the peer is told of the metadata's age in a hello.
    pub(crate) fn age(&self) -> u64 {
        self.found.unwrap_or(self.sequence)
    }

    /// From then on a primary that has not come forward counts as one that does not.
    fn stuck_at(&self) -> Moment {
        self.here_at + STUCK_AFTER
    }

    /// Whether an extent's items may be missing from the primary's own record.
    fn is_unsettled(&self, slot: &HotExtent) -> bool {
        slot.last().is_none_or(|last| last > self.primary_here)
    }
}

impl Engine {
    /// The marks, whoever holds them now.
    pub(crate) fn marks(&self) -> &Bitmap {
        match (self.standing.primary(), &self.keeping.resting) {
            (Some(primary), _) => &primary.marks,
            (None, Some(marks)) => marks,
            (None, None) => panic!("no task holds the bitmap"),
        }
    }

    /// The marks, to change them.
    pub(crate) fn marks_mut(&mut self) -> &mut Bitmap {
        match (self.standing.primary_mut(), &mut self.keeping.resting) {
            (Some(primary), _) => &mut primary.marks,
            (None, Some(marks)) => marks,
            (None, None) => panic!("no task holds the bitmap"),
        }
    }

    /// Where this node's image may hold what its peer's own records do not tell of, beside its marks: now, or once what
    /// was received is applied.
    pub(crate) fn unsettled(&self) -> Vec<(VolumeIndex, Extent)> {
        let mut places = self.shared.cover.touched(|slot| self.keeping.is_unsettled(slot));
        if let Some(follower) = self.standing.follower() {
            places.extend(follower.waiting_behind(self.keeping.primary_here));
        }
        places
    }

    /// Another line is followed: positions of the one before say nothing any more.
    pub(crate) fn line_changed(&mut self) {
        self.shared.cover.forget_items();
        self.keeping.primary_here = Sequence::ZERO;
        self.keeping.here_at = self.shared.now;
        self.keeping.unremembered = true;
    }

    /// What the primary's own record may not tell of is marked, until a copy ends or the primary tells that it does.
    pub(crate) fn mark_unsettled(&mut self) {
        let mut news = false;
        for (volume, extent) in self.unsettled() {
            news |= !self.marks().are_all_dirty(volume, extent);
            self.marks_mut().set(volume, extent);
        }
        if news {
            self.shared.cover.bitmap_changed();
        }
    }

    /// The primary told how far it is.
    pub(crate) fn primary_is_at(&mut self, completed: Sequence, accepted: Sequence) {
        if completed > self.keeping.primary_here {
            self.keeping.primary_here = completed;
            self.keeping.here_at = self.shared.now;
        }
        if self.keeping.unremembered && self.superblock.consistent {
            self.keeping.unremembered = false;
            self.shared.cover.remember_items(accepted);
        }
        // Everything here is in the primary's own record: what was marked meanwhile may end.
        let received = self.standing.follower().map(|follower| follower.received);
        if self.superblock.consistent
            && !self.keeping.unremembered
            && received.is_some_and(|received| self.keeping.primary_here >= received)
        {
            self.marks_mut().clear();
        }
    }

    /// Asks for what should be kept now.
    pub(crate) fn keep_step(&mut self) {
        if self.standing.is(Following::Stopped) {
            return;
        }
        if self.shared.metadata_failed {
            self.go_on_uncovered();
            return;
        }
        if self.shared.cover.is_short() {
            self.relieve(false);
        }
        if self.shared.cover.is_stuck() {
            self.give_order_up();
        }
        self.keep_hot();
        let urgent = self.shared.cover.is_short()
            || self.is_going_cold()
            || self.standing.primary().is_some_and(|p| p.is_recording_lack())
            || self.seed_wants_marks_kept();
        self.keep_pages(urgent);
        if let Some(primary) = self.standing.primary_mut()
            && primary.marks.is_saved()
        {
            primary.failed_at = None;
        }
        let suspect = self.shared.suspect.any();
        let void = self.superblock.marks_void && self.standing.leads() && !suspect;
        let kept = void && !self.is_saving() && self.marks().is_saved() && !self.is_going_cold();
        if kept && self.is_flushed_once() {
            self.save(Goal::MarksKept);
        }
    }

    /// All extents are hot for items that a peer lacks which is away. Their number is a bound like the queue's, and
    /// meets the same policy: where it says log, or this node leaves, marks take the place of order.
    fn give_order_up(&mut self) {
        let logs = self.shared.config.queue.disconnected == WhenFull::Log
            || self.standing.is_leaving_for_good();
        if let Some(primary) = self.standing.primary_mut()
            && primary.flow.is_none()
            && primary.lack.is_none()
            && primary.owed.keeps_order()
            && logs
        {
            primary.drop_queue("every hot extent holds what the peer lacks", &mut self.shared);
        }
    }

    fn keep_hot(&mut self) {
        if let Some(change) = self.shared.keep_hot() {
            self.keeping.changes.push_back(change);
        }
    }

    fn keep_pages(&mut self, urgent: bool) {
        let due = urgent || self.shared.now >= self.keeping.pages_at + PAGES_EVERY;
        if !due || self.keeping.pages > 0 {
            return;
        }
        let tick = self.shared.cover.next_tick();
        for _ in 0..PAGES_AT_ONCE {
            let Some(page) = self.marks_mut().take_unsaved(tick) else { return };
            let bits = self.marks().page_bits(page);
            self.keeping.pages += 1;
            self.keeping.pages_at = self.shared.now;
            self.shared.out.push(Effect::Keep(Keep::Marks { page, bits }));
        }
    }

    /// Volumes that were not flushed since something in them was let go without; a store that was given up owes nothing.
    pub(crate) fn owed_flushes(&self) -> Vec<VolumeIndex> {
        let all = (0..self.shared.config.volumes.len() as u16).map(VolumeIndex);
        let lost = |volume| self.standing.primary().is_some_and(|p| p.is_lost(volume));
        let owed = |volume: &VolumeIndex| !self.shared.cover.was_flushed(*volume) && !lost(*volume);
        all.filter(owed).collect()
    }

    /// Whether this process has flushed every store, as it now begins to where it has not. What a process before wrote
    /// may lie in a cache alone, and where the record is void no hot extent tells of that: a mark that ended because
    /// both nodes read the same would be missing once the power failed.
    fn is_flushed_once(&mut self) -> bool {
        let owed = self.owed_flushes();
        let again = self.keeping.flush_at.is_none_or(|at| self.shared.now >= at + PAGES_EVERY);
        if !owed.is_empty() && again {
            self.keeping.flush_at = Some(self.shared.now);
            for volume in &owed {
                if !self.shared.cover.is_flushing(*volume) {
                    self.shared.store(*volume, StoreOp::Flush, Purpose::Cover(*volume));
                }
            }
        }
        owed.is_empty()
    }

    /// When pages are due.
    pub(crate) fn keep_deadline(&self) -> Moment {
        let short = !self.standing.leads()
            && self.shared.cover.is_short()
            && self.shared.now < self.keeping.stuck_at();
        let stuck = if short { self.keeping.stuck_at() } else { Moment::NEVER };
        if self.keeping.pages > 0 || self.shared.metadata_failed || !self.marks().has_unsaved() {
            stuck
        } else {
            stuck.min(self.keeping.pages_at + PAGES_EVERY)
        }
    }

    /// Begins what lets hot extents go, and lets go those that may; all of them, or until a quarter is free.
    pub(crate) fn relieve(&mut self, all: bool) {
        // Nobody tells how far the primary is, or it does not come forward: then what may differ is marked here.
        let stuck = self.shared.now >= self.keeping.stuck_at();
        if self.standing.follower().is_some_and(|follower| !follower.is_following() || stuck) {
            self.mark_unsettled();
        }
        let volumes = (0..self.shared.config.volumes.len() as u16).map(VolumeIndex);
        let ways: Vec<Cooling> = volumes.clone().map(|volume| self.cooling(volume)).collect();
        for (volume, way) in volumes.zip(&ways) {
            if *way == Cooling::Flushed && self.shared.cover.wants_flush(volume) {
                self.shared.store(volume, StoreOp::Flush, Purpose::Cover(volume));
            }
        }
        // What the store does not hold yet makes no difference here; its extents turn hot again before it does.
        let parked = self.shared.cover.parked_places();
        let (cover, keeping) = (&mut self.shared.cover, &self.keeping);
        match self.standing.primary() {
            Some(primary) => cover.evict(all, &ways, |_, since, volume, extent| {
                if planted(Plant::ColdTooEarly) {
                    return true;
                }
                !primary.marks.is_pending(volume, extent, &parked)
                    && primary.marks.is_saved_since(since, volume, extent)
            }),
            None => cover.evict(all, &ways, |slot, since, volume, extent| {
                let marked = |marks: &Bitmap| {
                    slot.runs(extent).all(|run| marks.are_all_dirty(volume, run))
                        && marks.is_saved_since(since, volume, extent)
                };
                let settled = !keeping.is_unsettled(slot);
                settled || keeping.resting.as_ref().is_some_and(marked)
            }),
        }
    }

    /// When a volume's hot extents may go. A flush of a suspect copy proves nothing; what a record says does.
    fn cooling(&self, volume: VolumeIndex) -> Cooling {
        let Shared { suspect, .. } = &self.shared;
        let void = self.superblock.marks_void || self.superblock.seeding != 0;
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
        self.keeping.sequence = self.keeping.sequence.max(sequence);
        match kept {
            Kept::Hot { ticket } => {
                let changes = &mut self.keeping.changes;
                let at = changes.iter().position(|change| change.ticket == ticket);
                let Some(change) = at.and_then(|at| changes.remove(at)) else {
                    panic!("change {ticket} was stored without a request")
                };
                if ok {
                    self.shared.hot_kept(&change);
                }
            }
            Kept::Marks { page } => {
                self.keeping.pages -= 1;
                self.marks_mut().page_saved(page, ok);
                if ok && self.keeping.pages == 0 {
                    self.seed_cools();
                }
            }
        }
        if !ok && !self.shared.metadata_failed {
            self.lose_metadata();
            self.shared.warn(String::from(
                "the metadata file cannot be written: on a primary, writes to extents that are not hot wait until \
                 the peer has recorded this failure, and fail if the peer is not connected; repair the file system and \
                 restart the daemon",
            ));
        }
    }

    /// Nothing can be covered any more: what waits for it fails.
    pub(crate) fn fail_parked(&mut self) {
        let parked = self.shared.cover.give_up();
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
                primary.store_failed(volume, Failed::Flush, fault, &mut self.shared);
            }
            None => self.own_flush_failed(volume, fault),
        }
    }
}
