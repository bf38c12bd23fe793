// SPDX-License-Identifier: Apache-2.0
//! Where the copier is with each region it took up.
//!
//! ```text
//!   surveyed ──something is stored there (survey.rs)──┐
//!   claimed <─────────────────────────────────────────┘
//!   claimed ─asked─> known ─room─> job: gate, read ─> landing: items on the line ─last durable─> mark ends
//!      └─────────────raw, a row────────^
//! ```
//! What is copied raw goes in rows of neighbouring regions: one read, one item and one write for all of them.
//!
//! A round ends where what the peer told of its copy may mean nothing any more: its connection is gone, or the queue
//! was dropped. What was taken up in an earlier round comes to its end and changes nothing.

use crate::resync::digest::{ASKED_BLINDLY_MAX, ASKED_BYTES_MAX, ASKED_MAX, RUN_BYTES_MAX};
use crate::resync::survey::{STRETCH_MAX, Survey};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use helio_bitmap::{Bitmap, Region};
use helio_copy::{Claim, Guess, Pace, Progress, Walk};
use helio_format::copying::Digest;
use helio_format::message::Item;
use helio_units::{Bytes, Extent, Sequence, VolumeIndex};

/// Names a region at the gate or being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobId(u32);

/// Claimed regions that lie one behind the other on one volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) volume: VolumeIndex,
    pub(crate) extent: Extent,
    pub(crate) first: Region,
    pub(crate) count: u64,
}

impl Row {
    /// Regions that `next` returns one by one. The first that is no neighbour goes to `spare`, for the next row.
    fn join(
        marks: &mut Bitmap,
        spare: &mut Option<Region>,
        fits: impl Fn(Extent) -> bool,
        mut next: impl FnMut(&mut Bitmap) -> Option<Region>,
    ) -> Option<Self> {
        let first = spare.take().or_else(|| next(marks))?;
        let (volume, mut extent) = marks.place(first);
        let mut count = 1;
        loop {
            let longer = Extent::new(extent.offset, extent.length + marks.grid().unit().0);
            let Some(region) = fits(longer).then(|| next(marks)).flatten() else { break };
            let (its_volume, its) = marks.place(region);
            if its_volume != volume || its.offset != extent.end() {
                *spare = Some(region);
                break;
            }
            extent.length += its.length;
            count += 1;
        }
        Some(Self { volume, extent, first, count })
    }

    pub(crate) fn regions(&self) -> impl Iterator<Item = Region> + use<> {
        (self.first.0..self.first.0 + self.count).map(Region)
    }
}

/// Regions that hold queue room: at the gate, or being read. What the peer told of is one region.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) row: Row,
    pub(crate) round: u32,
    /// What the peer told, until the read is asked for.
    pub(crate) known: Option<Known>,
    /// The peer told something.
    pub(crate) asked: bool,
}

/// What the peer holds in a region, as it told.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) digests: Vec<Digest>,
    pub(crate) coarse: bool,
}

/// A question to the peer that is not answered.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) row: Row,
    pub(crate) coarse: bool,
    pub(crate) round: u32,
}

/// Regions whose items are on the line.
#[derive(Clone, Debug)]
pub(crate) struct Landing {
    pub(crate) row: Row,
    pub(crate) last: Sequence,
}

/// See the drawing above.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copier {
    /// Marked regions may be copied.
    pub(crate) running: bool,
    /// Everything was marked when the update began: one digest per region will do.
    pub(crate) coarse: bool,
    pub(crate) round: u32,
    /// Claimed, and the run before it was full.
    spare: Option<Region>,
    /// The same of the survey.
    survey_spare: Option<Region>,
    pub(crate) survey: Survey,
    /// Claimed, and the survey found that something is stored there.
    pub(crate) found: VecDeque<Region>,
    /// Everything taken up.
    walk: Walk<()>,
    pub(crate) asks: VecDeque<Ask>,
    /// Bytes in them.
    pub(crate) asked: Bytes,
    pub(crate) known: VecDeque<(Region, Known)>,
    /// Bytes of regions asked about, or known and waiting for room.
    pub(crate) ahead: Bytes,
    jobs: Vec<Option<Job>>,
    free: Vec<u32>,
    pub(crate) landing: VecDeque<Landing>,
    /// Bytes at the gate or being read.
    pub(crate) reading: Bytes,
    /// What the copier's items on the line cost the queue.
    pub(crate) on_line: Bytes,
    /// Items up to here belong to an earlier round.
    pub(crate) void_upto: Sequence,
    /// The last item that failed here: until the peer completed it, its digests may tell of bytes that the item will
    /// change there and did not change here.
    pub(crate) unsure_upto: Sequence,
    pub(crate) guess: Guess,
    pub(crate) pace: Pace,
    pub(crate) progress: Progress,
}

/// The next marked region that nobody took up.
fn claim_new(walk: &mut Walk<()>, marks: &mut Bitmap) -> Option<Region> {
    walk.claim(0, (), |from| marks.begin_copy(from)).map(|claim| claim.region)
}

impl Copier {
    /// Claims marked regions that lie one behind the other, as long as `fits` says yes to all of them. Where everything
    /// is marked, the survey goes first.
    pub(crate) fn claim_row(
        &mut self,
        marks: &mut Bitmap,
        fits: impl Fn(Extent) -> bool,
    ) -> Option<Row> {
        Row::join(marks, &mut self.spare, fits, |marks| {
            let found = self.found.pop_front();
            found.or_else(|| if self.coarse { None } else { claim_new(&mut self.walk, marks) })
        })
    }

    /// The same for the survey, which takes only new claims.
    pub(crate) fn claim_stretch(&mut self, marks: &mut Bitmap) -> Option<Row> {
        let fits = |extent: Extent| Bytes(extent.length) <= STRETCH_MAX;
        let walk = &mut self.walk;
        Row::join(marks, &mut self.survey_spare, fits, |marks| claim_new(walk, marks))
    }

    /// A claim ends: with its mark, where the peer holds what we hold and nobody marked it meanwhile.
    pub(crate) fn unclaim(&mut self, region: Region, equal: bool, marks: &mut Bitmap) {
        let claim = Claim { region, number: 0 };
        let touched = self.walk.is_touched(claim);
        self.walk.end(claim);
        if equal && !touched {
            marks.end_copy(region);
        } else {
            marks.abandon_copy(region);
        }
    }

    pub(crate) fn open(&mut self, job: Job) -> JobId {
        if let Some(at) = self.free.pop() {
            self.jobs[at as usize] = Some(job);
            return JobId(at);
        }
        self.jobs.push(Some(job));
        JobId((self.jobs.len() - 1) as u32)
    }

    pub(crate) fn job_mut(&mut self, JobId(at): JobId) -> &mut Job {
        match self.jobs.get_mut(at as usize) {
            Some(Some(job)) => job,
            _ => panic!("copy {at} has ended"),
        }
    }

    pub(crate) fn close(&mut self, JobId(at): JobId) -> Job {
        match self.jobs.get_mut(at as usize).and_then(Option::take) {
            Some(job) => {
                self.free.push(at);
                job
            }
            None => panic!("copy {at} ended twice"),
        }
    }

    /// Whether more may be asked ahead: one run always, however large.
    pub(crate) fn may_ask(&self) -> bool {
        let under_way = self.ahead.max(self.asked);
        // Until the first answers nobody knows whether it pays to ask.
        let most = if self.guess.is_blind() { ASKED_BLINDLY_MAX } else { ASKED_BYTES_MAX };
        self.asks.len() < ASKED_MAX
            && (under_way == Bytes::ZERO || under_way + RUN_BYTES_MAX <= most)
    }

    /// What is held back from the application: read, or on its way.
    pub(crate) fn in_flight(&self) -> Bytes {
        self.reading + self.on_line
    }

    /// Whether an item carries what the copier found in this round.
    pub(crate) fn is_of_this_round(&self, item: &Item) -> bool {
        item.resync && item.kind.has_place() && item.sequence > self.void_upto
    }

    /// An item on the line costs less now.
    pub(crate) fn shrink(&mut self, item: &Item, from: Bytes, to: Bytes) {
        if self.is_of_this_round(item) {
            self.on_line = self.on_line - from + to;
        }
    }

    /// Nothing is taken up.
    pub(crate) fn is_idle(&self) -> bool {
        self.walk.is_idle()
    }

    /// The queue was dropped at `head`: everything must be taken up anew.
    pub(crate) fn begin_anew(&mut self, head: Sequence, marks: &mut Bitmap) {
        self.round += 1;
        marks.abandon_copies();
        self.walk.end_all();
        self.lay_aside();
        self.known.clear();
        self.ahead = Bytes::ZERO;
        self.landing.clear();
        self.on_line = Bytes::ZERO;
        self.void_upto = head;
    }

    fn lay_aside(&mut self) {
        self.spare = None;
        self.survey_spare = None;
        self.found.clear();
    }

    /// The connection is gone while order is kept: what is on the line stays there, the rest must be asked anew.
    pub(crate) fn unask(&mut self, marks: &mut Bitmap) {
        self.round += 1;
        self.asks.clear();
        self.asked = Bytes::ZERO;
        self.survey.unask();
        self.known.clear();
        self.lay_aside();
        self.ahead = Bytes::ZERO;
        let landing: BTreeSet<Region> = self.landing.iter().flat_map(|l| l.row.regions()).collect();
        let all = self.walk.claims().map(|claim| claim.region);
        let lost: Vec<Region> = all.filter(|region| !landing.contains(region)).collect();
        for region in lost {
            self.unclaim(region, false, marks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_answered_and_waits_for_room_counts_to_the_window() {
        let mut copier = Copier { ahead: ASKED_BLINDLY_MAX, ..Copier::default() };
        assert!(!copier.may_ask(), "nothing was answered ever");
        copier.guess.learn(1, 2);
        copier.ahead = Bytes::ZERO;
        assert!(copier.may_ask(), "one run may always be asked for");
        copier.ahead = ASKED_BYTES_MAX;
        assert!(!copier.may_ask(), "no question is open, and yet the window is full");
        copier.ahead = ASKED_BYTES_MAX - RUN_BYTES_MAX;
        assert!(copier.may_ask());
    }
}
