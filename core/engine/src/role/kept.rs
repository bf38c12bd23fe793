// SPDX-License-Identifier: Apache-2.0
//! The marks and the hot extents, whoever holds the marks now. `record/keep.rs` tells when hot extents go.

use crate::config::Config;
use crate::effect::{Effect, Keep};
use crate::event::StoreOutcome;
use crate::local::Local;
use crate::local::failure::Failed;
use crate::purpose::Purpose;
use crate::record::Record;
use crate::record::keep::PAGES_AT_ONCE;
use crate::role::Standing;
use crate::turn::Turn;
use alloc::vec::Vec;
use helio_bitmap::{Bitmap, Cooling};
use helio_plant::{Plant, planted};
use helio_stack::{StoreFault, StoreOp};
use helio_units::{Extent, MemberState, Sequence, VolumeIndex};

impl Standing {
    /// The marks, whoever holds them now.
    pub(crate) fn marks<'a>(&'a self, record: &'a Record) -> &'a Bitmap {
        match (self.primary(), record.keeping().resting()) {
            (Some(primary), _) => primary.marks(),
            (None, Some(marks)) => marks,
            (None, None) => panic!("no task holds the bitmap"),
        }
    }

    /// The marks, to change them.
    pub(crate) fn marks_mut<'a>(&'a mut self, record: &'a mut Record) -> &'a mut Bitmap {
        match (self.primary_mut(), record.keeping_mut().resting_mut()) {
            (Some(primary), _) => primary.marks_mut(),
            (None, Some(marks)) => marks,
            (None, None) => panic!("no task holds the bitmap"),
        }
    }

    /// Where this node's image may hold what its peer's own records do not tell of, beside its marks: now, or once what
    /// was received is applied.
    pub(crate) fn unsettled(&self, record: &Record, local: &Local) -> Vec<(VolumeIndex, Extent)> {
        let mut places = local.hot().touched(|slot| record.keeping().is_unsettled(slot));
        if let Some(follower) = self.follower() {
            places.extend(follower.waiting_behind(record.keeping().here()));
        }
        places
    }

    /// What the primary's own record may not tell of is marked, until a copy ends or the primary tells that it does.
    pub(crate) fn mark_unsettled(&mut self, record: &mut Record, local: &mut Local) {
        let mut news = false;
        for (volume, extent) in self.unsettled(record, local) {
            let marks = self.marks_mut(record);
            news |= !marks.are_all_dirty(volume, extent);
            marks.set(volume, extent);
        }
        if news {
            local.hot_mut().bitmap_changed();
        }
    }

    /// The primary told how far it is.
    pub(crate) fn primary_is_at(
        &mut self,
        (completed, accepted): (Sequence, Sequence),
        record: &mut Record,
        local: &mut Local,
        turn: &Turn,
    ) {
        record.keeping_mut().primary_is_at(completed, turn.now());
        if !record.superblock().consistent {
            return;
        }
        // Extents from before this node followed that line. What it applies itself enters with its position.
        local.hot_mut().remember_items(accepted);
        // Everything here is in the primary's own record: what was marked meanwhile may end.
        let received = self.follower().map(|follower| follower.received());
        if received.is_some_and(|received| record.keeping().covers(received)) {
            self.marks_mut(record).clear();
        }
    }

    /// Keeps changed pages of marks, where that is due.
    pub(crate) fn keep_pages(
        &mut self,
        urgent: bool,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let due = urgent || turn.now() >= record.keeping().pages_due();
        if !due || record.keeping().keeps_pages() {
            return;
        }
        let tick = local.hot_mut().next_tick();
        for _ in 0..PAGES_AT_ONCE {
            let marks = self.marks_mut(record);
            let Some(page) = marks.take_unsaved(tick) else { return };
            let bits = marks.recorded_bits(page);
            record.keeping_mut().page_begins(turn.now());
            turn.push(Effect::Keep(Keep::Marks { page, bits }));
        }
    }

    /// Volumes that were not flushed since something in them was let go without; a store that was given up owes nothing.
    pub(crate) fn owed_flushes(&self, local: &Local, config: &Config) -> Vec<VolumeIndex> {
        let lost = |volume| self.primary().is_some_and(|p| p.is_lost(volume));
        let owed = |volume: &VolumeIndex| !local.hot().was_flushed(*volume) && !lost(*volume);
        config.indices().filter(owed).collect()
    }

    /// Whether this process has flushed every store, as it now begins to where it has not. What a process before wrote
    /// may lie in a cache alone, and where the record is void no hot extent tells of that: a mark that ended because
    /// both nodes read the same would be missing once the power failed.
    pub(crate) fn is_flushed_once(
        &self,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) -> bool {
        let owed = self.owed_flushes(local, turn.config());
        if !owed.is_empty() && record.keeping_mut().flushes_again(turn.now()) {
            for volume in &owed {
                if !local.hot().is_flushing(*volume) {
                    local.store(*volume, StoreOp::Flush, Purpose::Cover(*volume), turn);
                }
            }
        }
        owed.is_empty()
    }

    /// Begins what lets hot extents go, and lets go those that may; all of them, or until a quarter is free.
    pub(crate) fn relieve(
        &mut self,
        all: bool,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        // Nobody tells how far the primary is, or it does not come forward: then what may differ is marked here.
        let stuck = turn.now() >= record.keeping().stuck_at();
        if self.follower().is_some_and(|follower| !follower.is_following() || stuck) {
            self.mark_unsettled(record, local);
        }
        let volumes = turn.config().indices();
        let ways: Vec<Cooling> =
            volumes.clone().map(|volume| self.cooling(volume, record, local)).collect();
        for (volume, way) in volumes.zip(&ways) {
            // On a disk that was given up a flush fails at once, and this step would ask for the next one at once.
            let responds = local.member_state(volume) != MemberState::GivenUp;
            if *way == Cooling::Flushed && responds && local.hot().wants_flush(volume) {
                local.store(volume, StoreOp::Flush, Purpose::Cover(volume), turn);
            }
        }
        // What the store does not hold yet makes no difference here; its extents turn hot again before it does.
        let parked = local.hot().parked_places();
        let (cover, keeping) = (local.hot_mut(), record.keeping());
        match self.primary() {
            Some(primary) => cover.evict(all, &ways, |_, since, volume, extent| {
                if planted(Plant::ColdTooEarly) {
                    return true;
                }
                !primary.marks().is_pending(volume, extent, &parked)
                    && primary.marks().is_saved_since(since, volume, extent)
            }),
            None => cover.evict(all, &ways, |slot, since, volume, extent| {
                keeping.lets_go(slot, since, volume, extent)
            }),
        }
    }

    /// When a volume's hot extents may go. A flush of a suspect copy proves nothing; what a record says does. The bitmaps of several
    /// members, and what is merged of them, rest on what is hot until a flush.
    fn cooling(&self, volume: VolumeIndex, record: &Record, local: &Local) -> Cooling {
        let (suspect, b) = (local.suspect(), record.superblock());
        let void = b.marks_void || b.seeding != 0;
        let recorded = !suspect.is_unrecorded(volume);
        // What the peer is told says nothing of how members differ; a layer finds those of a suspect copy by itself.
        let unflushed =
            if local.keeps_several(volume) { Cooling::Flushed } else { Cooling::Unflushed };
        match self.primary() {
            Some(primary) if primary.is_lost(volume) => unflushed,
            Some(_) if suspect.is(volume) && recorded && void => unflushed,
            Some(_) if suspect.is(volume) => Cooling::Never,
            None if suspect.is(volume) && (b.marks_void || !recorded) => Cooling::Never,
            _ => Cooling::Flushed,
        }
    }

    /// A flush that was to let hot extents go has ended.
    pub(crate) fn cover_flushed(
        &mut self,
        volume: VolumeIndex,
        outcome: &StoreOutcome,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        if let StoreOutcome::Failed(fault) = *outcome {
            self.flush_failed(volume, fault, local, turn);
        }
    }

    /// Flushes that layers asked for themselves have failed.
    pub(crate) fn flushes_failed(&mut self, local: &mut Local, turn: &mut Turn) {
        while let Some((volume, fault)) = local.take_failed_flush() {
            self.flush_failed(volume, fault, local, turn);
        }
    }

    /// A flush failed that no item asked for: one that was to let hot extents go, or a layer's.
    pub(crate) fn flush_failed(
        &mut self,
        volume: VolumeIndex,
        fault: StoreFault,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        match self {
            Self::Leading { primary, .. } => {
                primary.store_failed(volume, Failed::Flush, fault, local, turn);
            }
            Self::Following { follower, .. } => follower.flush_failed(volume, fault, local, turn),
        }
    }
}
