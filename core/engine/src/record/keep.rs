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
//! Kept marks include what the peer received in an update that has not ended (`helio_bitmap`).
//!
//! The third row is enough because the primary's own record covers the item from then on: whatever it may lose, or
//! we may lose, one of the two records tells.

use crate::record::ages::Ages;
use crate::record::invalid::Invalidity;
use alloc::collections::VecDeque;
use core::time::Duration;
use helio_bitmap::Bitmap;
use helio_bitmap::{Change, HotExtent, HotExtents};
use helio_stack::StoreOp;
use helio_units::{Extent, Moment, Sequence, VolumeIndex};

/// Changed pages are kept this often where nobody waits for them: a crash costs comparing what ended since.
const PAGES_EVERY: Duration = Duration::from_secs(1);
/// A follower that runs short of hot extents waits this long for its primary to come forward.
const STUCK_AFTER: Duration = Duration::from_millis(200);
/// Pages kept at once: few enough that hot extents never wait long behind them.
pub(crate) const PAGES_AT_ONCE: usize = 16;

/// What is on its way to the metadata file, and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Keeping {
    /// Marks while this node holds no line; its primary holds them otherwise.
    resting: Option<Bitmap>,
    /// Changes of the hot extents under way. They end in any order, since they are of different pages; of one extent
    /// there is one at a time.
    changes: VecDeque<Change>,
    pages: Pages,
    /// When the first flush was begun that the end of a void record waits for.
    flush_at: Option<Moment>,
    ages: Ages,
    followed: Followed,
    invalid: Invalidity,
    /// A record that could not be saved said that the image is not consistent. It may be the one that a restart finds.
    disowned: bool,
}

/// Pages of marks under way.
#[derive(Clone, Copy, Debug, Default)]
struct Pages {
    under_way: usize,
    /// When pages were kept last.
    at: Moment,
}

/// What is known of the primary that is followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followed {
    /// How far it has completed its line itself.
    here: Sequence,
    /// When it was heard to have come forward last.
    here_at: Moment,
}

impl Followed {
    pub(crate) const fn since(now: Moment) -> Self {
        Self { here: Sequence::ZERO, here_at: now }
    }

    /// The primary reported its completed position.
    fn is_at(&mut self, completed: Sequence, now: Moment) {
        if completed > self.here {
            (self.here, self.here_at) = (completed, now);
        }
    }

    /// From then on a primary that has not come forward counts as one that does not.
    fn stuck_at(&self) -> Moment {
        self.here_at + STUCK_AFTER
    }

    /// Whether an extent's items may be missing from its own record.
    fn is_unsettled(&self, slot: &HotExtent) -> bool {
        slot.last().is_none_or(|last| last > self.here)
    }

    /// Whether its own record has everything up to there.
    fn covers(&self, at: Sequence) -> bool {
        self.here >= at
    }
}

impl Keeping {
    pub(crate) const fn new(resting: Bitmap, ages: Ages) -> Self {
        Self {
            resting: Some(resting),
            changes: VecDeque::new(),
            pages: Pages { under_way: 0, at: Moment::ZERO },
            flush_at: None,
            ages,
            followed: Followed::since(Moment::ZERO),
            invalid: Invalidity::new(),
            disowned: false,
        }
    }

    /// What is known of the metadata's age, this node's and the peer's.
    pub(crate) const fn ages(&self) -> &Ages {
        &self.ages
    }

    /// The same, to change it.
    pub(crate) const fn ages_mut(&mut self) -> &mut Ages {
        &mut self.ages
    }

    /// What the two nodes record of metadata that cannot be written.
    pub(crate) const fn invalid(&self) -> &Invalidity {
        &self.invalid
    }

    /// The same, to change it.
    pub(crate) const fn invalid_mut(&mut self) -> &mut Invalidity {
        &mut self.invalid
    }

    /// The marks, while this node holds no line.
    pub(crate) const fn resting(&self) -> Option<&Bitmap> {
        self.resting.as_ref()
    }

    /// The same, to change them.
    pub(crate) const fn resting_mut(&mut self) -> Option<&mut Bitmap> {
        self.resting.as_mut()
    }

    /// Another line is followed: positions of the one before say nothing any more.
    pub(crate) fn line_changed(&mut self, hot: &mut HotExtents<StoreOp>, now: Moment) {
        hot.forget_items();
        self.followed = Followed::since(now);
    }

    /// The primary reported how far it has completed its line itself.
    pub(crate) fn primary_is_at(&mut self, completed: Sequence, now: Moment) {
        self.followed.is_at(completed, now);
    }

    /// How far it has.
    pub(crate) const fn here(&self) -> Sequence {
        self.followed.here
    }

    /// Whether an extent's items may be missing from the primary's own record.
    pub(crate) fn is_unsettled(&self, slot: &HotExtent) -> bool {
        self.followed.is_unsettled(slot)
    }

    /// Whether the primary's own record has everything up to there.
    pub(crate) fn covers(&self, at: Sequence) -> bool {
        self.followed.covers(at)
    }

    /// From then on a primary that has not come forward counts as one that does not.
    pub(crate) fn stuck_at(&self) -> Moment {
        self.followed.stuck_at()
    }

    /// This node lays its line down.
    pub(crate) fn rest(&mut self, marks: Bitmap) {
        self.resting = Some(marks);
    }

    /// This node takes a line up: the marks go with it.
    pub(crate) fn take_resting(&mut self) -> Option<Bitmap> {
        self.resting.take()
    }

    /// A record could not be saved; `consistent` is what it says of the image.
    pub(crate) fn not_saved(&mut self, consistent: bool) {
        self.disowned |= !consistent;
    }

    /// Whether a restart may find a record that says that the image is not consistent.
    pub(crate) const fn is_disowned(&self) -> bool {
        self.disowned
    }

    /// A page of marks is on its way.
    pub(crate) fn page_begins(&mut self, now: Moment) {
        self.pages.under_way += 1;
        self.pages.at = now;
    }

    /// A page of marks is kept, or could not be.
    pub(crate) const fn page_ends(&mut self) {
        self.pages.under_way -= 1;
    }

    /// Whether pages are on their way.
    pub(crate) const fn keeps_pages(&self) -> bool {
        self.pages.under_way > 0
    }

    /// When pages are kept next.
    pub(crate) fn pages_due(&self) -> Moment {
        self.pages.at + PAGES_EVERY
    }

    /// Whether a flush that does not prove enough yet is to be begun again, as it now is.
    pub(crate) fn flushes_again(&mut self, now: Moment) -> bool {
        let again = self.flush_at.is_none_or(|at| now >= at + PAGES_EVERY);
        self.flush_at = if again { Some(now) } else { self.flush_at };
        again
    }

    /// A change of the hot extents is on its way, if there is one.
    pub(crate) fn change_begins(&mut self, change: Option<Change>) {
        self.changes.extend(change);
    }

    /// A change of the hot extents ended.
    pub(crate) fn change_ended(&mut self, ticket: u64) -> Change {
        let at = self.changes.iter().position(|change| change.ticket == ticket);
        let Some(change) = at.and_then(|at| self.changes.remove(at)) else {
            panic!("change {ticket} was stored without a request")
        };
        change
    }

    /// Whether an extent may go while this node leads no line.
    pub(crate) fn lets_go(
        &self,
        slot: &HotExtent,
        since: u64,
        volume: VolumeIndex,
        extent: Extent,
    ) -> bool {
        let marked = |marks: &Bitmap| {
            slot.runs(extent).all(|run| marks.are_all_dirty(volume, run))
                && marks.is_saved_since(since, volume, extent)
        };
        !self.followed.is_unsettled(slot) || self.resting.as_ref().is_some_and(marked)
    }
}
