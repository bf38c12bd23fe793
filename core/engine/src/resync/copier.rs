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

use crate::effect::ReadAs;
use crate::event::StoreOutcome;
use crate::purpose::JobId;
use crate::purpose::StretchId;
use crate::resync::digest::{
    ASKED_BLINDLY_MAX, ASKED_BYTES_MAX, ASKED_MAX, RUN_BYTES_MAX, digest_piece, digests_of,
};
use crate::resync::survey::Survey;
use crate::stream::queue::Queue;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_bitmap::{Bitmap, Region};
use helio_copy::{Claim, Guess, Pace, Progress, ResyncConfig, Walk};
use helio_format::copying::{Copying, DIGESTS_MAX, Digest};
use helio_format::message::Item;
use helio_units::{Bytes, Extent, Moment, Sequence, VolumeIndex};

/// Most neighbouring regions in one question.
const RUN_REGIONS_MAX: u64 = 16;
/// Most regions on the line at once that are not durable at the peer: their entries are memory.
const LANDING_MAX: usize = 2048;

/// Claimed regions that lie one behind the other on one volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    volume: VolumeIndex,
    extent: Extent,
    first: Region,
    count: u64,
}

impl Row {
    /// Regions that `next` returns one by one. The first that is no neighbour goes to `spare`, for the next row.
    pub(crate) fn join(
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

    pub(crate) const fn place(&self) -> (VolumeIndex, Extent) {
        (self.volume, self.extent)
    }

    pub(crate) fn regions(&self) -> impl Iterator<Item = Region> + use<> {
        (self.first.0..self.first.0 + self.count).map(Region)
    }
}

/// Regions that hold queue room: at the gate, or being read. What the peer told of is one region.
#[derive(Clone, Debug)]
struct Job {
    row: Row,
    round: u32,
    way: Way,
}

/// How a row is read.
#[derive(Clone, Debug)]
enum Way {
    Raw,
    /// It will be compared with what the peer told.
    Compare(Known),
    /// That read is asked for.
    Comparing,
}

/// What the peer holds in a region, as it told.
#[derive(Clone, Debug)]
struct Known {
    digests: Vec<Digest>,
    coarse: bool,
}

/// A question to the peer that is not answered.
#[derive(Clone, Copy, Debug)]
struct Ask {
    row: Row,
    coarse: bool,
    round: u32,
}

/// Regions whose items are on the line.
#[derive(Clone, Debug)]
struct Landing {
    row: Row,
    last: Sequence,
}

/// What the peer was asked, and what it told and the copier did not use yet.
#[derive(Clone, Debug, Default)]
struct Questions {
    asks: VecDeque<Ask>,
    /// Bytes in them.
    asked: Bytes,
    known: VecDeque<(Region, Known)>,
    /// Bytes of regions asked about, or known and waiting for room.
    ahead: Bytes,
}

impl Questions {
    /// Whether more may be asked ahead: one run always, however large. `blind`: nothing was answered ever.
    fn may_ask(&self, blind: bool) -> bool {
        let under_way = self.ahead.max(self.asked);
        // Until the first answers nobody knows whether it pays to ask.
        let most = if blind { ASKED_BLINDLY_MAX } else { ASKED_BYTES_MAX };
        self.asks.len() < ASKED_MAX
            && (under_way == Bytes::ZERO || under_way + RUN_BYTES_MAX <= most)
    }

    fn ask(&mut self, ask: Ask) {
        let bytes = Bytes(ask.row.extent.length);
        self.ahead += bytes;
        self.asked += bytes;
        self.asks.push_back(ask);
    }

    /// The peer answers the first question, if that is the one.
    fn answered(&mut self, is_it: impl FnOnce(&Ask) -> bool) -> Option<Ask> {
        let ask = self.asks.pop_front().filter(is_it)?;
        self.asked -= Bytes(ask.row.extent.length);
        Some(ask)
    }

    /// The first region of which the peer told.
    fn next_known(&mut self, marks: &Bitmap) -> Option<(Row, Known)> {
        let (first, known) = self.known.pop_front()?;
        let (volume, extent) = marks.place(first);
        self.ahead -= Bytes(extent.length);
        Some((Row { volume, extent, first, count: 1 }, known))
    }

    /// What the peer told means nothing any more.
    fn forget(&mut self) {
        self.known.clear();
        self.ahead = Bytes::ZERO;
    }
}

/// The jobs under way.
#[derive(Clone, Debug, Default)]
struct Jobs {
    jobs: Vec<Option<Job>>,
    free: Vec<u32>,
    /// Bytes in them.
    reading: Bytes,
}

impl Jobs {
    fn open(&mut self, job: Job) -> JobId {
        self.reading += Bytes(job.row.extent.length);
        if let Some(at) = self.free.pop() {
            self.jobs[at as usize] = Some(job);
            return JobId(at);
        }
        self.jobs.push(Some(job));
        JobId((self.jobs.len() - 1) as u32)
    }

    fn get_mut(&mut self, JobId(at): JobId) -> &mut Job {
        match self.jobs.get_mut(at as usize) {
            Some(Some(job)) => job,
            _ => panic!("copy {at} has ended"),
        }
    }

    fn close(&mut self, JobId(at): JobId) -> Job {
        match self.jobs.get_mut(at as usize).and_then(Option::take) {
            Some(job) => {
                self.free.push(at);
                self.reading -= Bytes(job.row.extent.length);
                job
            }
            None => panic!("copy {at} ended twice"),
        }
    }
}

/// What is on the line.
#[derive(Clone, Debug, Default)]
struct OnLine {
    landing: VecDeque<Landing>,
    /// What the copier's items cost the queue.
    cost: Bytes,
    /// Items up to here belong to an earlier round.
    void_upto: Sequence,
    /// The last item that failed here: until the peer completed it, its digests may tell of bytes that the item will
    /// change there and did not change here.
    unsure_upto: Sequence,
}

impl OnLine {
    fn has_room(&self) -> bool {
        self.landing.len() < LANDING_MAX
    }

    /// The queue was dropped at `head`.
    fn begin_anew(&mut self, head: Sequence) {
        self.landing.clear();
        self.cost = Bytes::ZERO;
        self.void_upto = head;
    }
}

/// See the drawing above. Both flags count: an update that stopped may go on as it began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copier {
    /// Marked regions may be copied.
    running: bool,
    /// Everything was marked when the update began: one digest per region will do.
    coarse: bool,
    round: u32,
    /// Claimed, and the run before it was full.
    spare: Option<Region>,
    survey: Survey,
    /// Everything taken up.
    walk: Walk<()>,
    questions: Questions,
    jobs: Jobs,
    on_line: OnLine,
    guess: Guess,
    pace: Pace,
    progress: Progress,
}

/// The next marked region that nobody took up.
fn claim_new(walk: &mut Walk<()>, marks: &mut Bitmap) -> Option<Region> {
    walk.claim(0, (), |from| marks.begin_copy(from)).map(|claim| claim.region)
}

impl Copier {
    /// The stretches that may be holes.
    pub(crate) const fn survey(&self) -> &Survey {
        &self.survey
    }

    /// The same, to change them.
    pub(crate) const fn survey_mut(&mut self) -> &mut Survey {
        &mut self.survey
    }

    /// How fast regions may be copied, to the peer or from it.
    pub(crate) const fn pace(&self) -> &Pace {
        &self.pace
    }

    /// The same, to change it.
    #[inline]
    pub(crate) const fn pace_mut(&mut self) -> &mut Pace {
        &mut self.pace
    }

    /// How far the copy is, to the peer or from it.
    pub(crate) const fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The same, to change it.
    pub(crate) const fn progress_mut(&mut self) -> &mut Progress {
        &mut self.progress
    }

    /// Marked regions are copied from here on.
    pub(crate) fn start(&mut self, coarse: bool, to_copy: Bytes, now: Moment) {
        (self.running, self.coarse) = (true, coarse);
        self.progress.begin(to_copy, now);
    }

    /// They are not copied any more.
    pub(crate) const fn stop(&mut self) {
        self.running = false;
    }

    /// The update goes on as it began.
    pub(crate) const fn go_on(&mut self) {
        self.running = true;
    }

    pub(crate) const fn is_running(&self) -> bool {
        self.running
    }

    /// Bytes of the first row whose items are not all up to there.
    pub(crate) fn next_behind(&self, at: Sequence) -> Bytes {
        let next = self.on_line.landing.iter().find(|landing| landing.last > at);
        next.map_or(Bytes::ZERO, |landing| Bytes(landing.row.extent.length))
    }

    /// Bytes that are being read.
    pub(crate) const fn reading(&self) -> Bytes {
        self.jobs.reading
    }

    /// Whether most is compared before it is copied; for people.
    pub(crate) fn compares(&self) -> bool {
        !self.guess.is_raw_mostly()
    }

    /// Whether the local store is being asked what is stored.
    pub(crate) fn is_surveying(&self) -> bool {
        self.survey.is_looking()
    }

    /// Whether the peer was asked for digests and did not answer yet.
    pub(crate) fn awaits_digests(&self) -> bool {
        !self.questions.asks.is_empty()
    }

    /// An item failed here.
    pub(crate) fn item_failed(&mut self, at: Sequence) {
        self.on_line.unsure_upto = at.max(self.on_line.unsure_upto);
    }

    /// Whether digests of a peer that completed so much can be compared with what is here.
    pub(crate) fn is_sure(&self, completed: Sequence) -> bool {
        completed >= self.on_line.unsure_upto
    }

    pub(crate) const fn is_of_round(&self, round: u32) -> bool {
        round == self.round
    }

    /// Claims marked regions that lie one behind the other, as long as `fits` says yes to all of them. Where everything
    /// is marked, the survey goes first.
    fn claim_row(&mut self, marks: &mut Bitmap, fits: impl Fn(Extent) -> bool) -> Option<Row> {
        Row::join(marks, &mut self.spare, fits, |marks| {
            let found = self.survey.next_found();
            found.or_else(|| if self.coarse { None } else { claim_new(&mut self.walk, marks) })
        })
    }

    /// Claims the next stretch for the survey, which takes only new claims, unless the copier has enough to do.
    pub(crate) fn next_stretch(&mut self, marks: &mut Bitmap) -> Option<StretchId> {
        if !self.coarse || !self.survey.may_begin() || !self.on_line.has_room() {
            return None;
        }
        let (walk, round) = (&mut self.walk, self.round);
        self.survey.begin(round, marks, |marks| claim_new(walk, marks))
    }

    /// The next question that may be asked ahead.
    pub(crate) fn next_ask(&mut self, completed: Sequence, marks: &mut Bitmap) -> Option<Copying> {
        let blind = self.guess.is_blind();
        if !self.is_sure(completed) || self.guess.is_raw() || !self.questions.may_ask(blind) {
            return None;
        }
        let grain = marks.grid().unit();
        let coarse = self.coarse && grain >= digest_piece(true);
        let regions = if self.guess.is_probing() { 1 } else { RUN_REGIONS_MAX };
        let most = RUN_BYTES_MAX.min(grain * regions);
        let fits = |extent: Extent| {
            Bytes(extent.length) <= most && digests_of(extent, coarse) <= DIGESTS_MAX as u64
        };
        let row = self.claim_row(marks, fits)?;
        self.questions.ask(Ask { row, coarse, round: self.round });
        self.guess.count_asked();
        let (volume, extent) = row.place();
        Some(Copying::DigestsWanted { volume, extent, coarse })
    }

    /// The peer tells what it holds.
    ///
    /// # Errors
    /// Nobody asked that; the connection must end.
    pub(crate) fn digests_told(
        &mut self,
        place: (VolumeIndex, Extent, bool),
        list: &[Digest],
        marks: &Bitmap,
    ) -> Result<(), String> {
        let asked = |ask: &Ask| {
            (ask.row.volume, ask.row.extent, ask.coarse) == place
                && digests_of(ask.row.extent, ask.coarse) == list.len() as u64
        };
        let Some(ask) = self.questions.answered(asked) else {
            return Err(format!("it sent digests of {} without a request", place.1));
        };
        if !self.is_of_round(ask.round) {
            return Ok(());
        }
        let mut at = 0;
        for region in ask.row.regions() {
            let (_, extent) = marks.place(region);
            let count = digests_of(extent, ask.coarse) as usize;
            let digests = list[at..at + count].to_vec();
            at += count;
            self.questions.known.push_back((region, Known { digests, coarse: ask.coarse }));
        }
        Ok(())
    }

    /// How much may be copied next, if anything may. Where neighbours go together, there is room for nothing until
    /// there is room for a row: crumbs would cost as much each.
    pub(crate) fn room(
        &self,
        region: Bytes,
        queue: &Queue,
        config: &ResyncConfig,
    ) -> Option<Bytes> {
        let under_way = self.jobs.reading + self.on_line.cost;
        let raw = self.questions.known.is_empty() && self.guess.is_raw();
        let row = self.pace.row(config).min(queue.copy_row());
        let room = if raw { row.max(region) } else { region };
        let fits = self.on_line.has_room()
            && self.pace.allows(room, under_way, config)
            && queue.admits_copy(room, under_way);
        fits.then_some(room)
    }

    /// A region the peer told of, or else as many neighbours as there is room for, copied without a question.
    fn next_job(&mut self, room: Bytes, marks: &mut Bitmap) -> Option<Job> {
        let round = self.round;
        if let Some((row, known)) = self.questions.next_known(marks) {
            return Some(Job { row, round, way: Way::Compare(known) });
        }
        if !self.guess.is_raw() {
            return None;
        }
        let row = self.claim_row(marks, |extent| Bytes(extent.length) <= room)?;
        self.guess.count_raw(row.count);
        Some(Job { row, round, way: Way::Raw })
    }

    /// Takes up the next copy that fits in `room` of the queue.
    pub(crate) fn take_up(
        &mut self,
        room: Bytes,
        config: &ResyncConfig,
        marks: &mut Bitmap,
    ) -> Option<(JobId, Row)> {
        let job = self.next_job(room, marks)?;
        let row = job.row;
        self.pace.took_up(Bytes(row.extent.length), config);
        Some((self.jobs.open(job), row))
    }

    /// How it is read: compared with the digests of the peer, if it sent them, otherwise in runs of `piece`.
    pub(crate) fn begin_read(
        &mut self,
        id: JobId,
        piece: Bytes,
    ) -> ((VolumeIndex, Extent), ReadAs) {
        let job = self.jobs.get_mut(id);
        let read_as = match core::mem::replace(&mut job.way, Way::Comparing) {
            Way::Compare(Known { digests, coarse }) => ReadAs::Differing { digests, coarse },
            other => {
                job.way = other;
                ReadAs::Runs { piece }
            }
        };
        (job.row.place(), read_as)
    }

    /// It was read, and this differs, if it could be. Returns its row, and whether it is of this round.
    pub(crate) fn end_read(&mut self, id: JobId, outcome: &StoreOutcome) -> (Row, bool) {
        let Job { row, round, way } = self.jobs.close(id);
        if let (StoreOutcome::Differing(runs), Way::Comparing) = (outcome, way) {
            let differed: u64 = runs.iter().map(|run| run.extent.length).sum();
            self.guess.learn(differed, row.extent.length);
        }
        (row, self.is_of_round(round))
    }

    /// An item goes onto the line.
    pub(crate) fn put(&mut self, cost: Bytes) {
        self.on_line.cost += cost;
    }

    /// The items of a row are on the line up to `last`.
    pub(crate) fn landed(&mut self, row: Row, last: Sequence) {
        self.on_line.landing.push_back(Landing { row, last });
    }

    /// The peer has items up to there durable: with the last one of a region that was copied its mark ends.
    pub(crate) fn durable_upto(&mut self, upto: Sequence, marks: &mut Bitmap) {
        while let Some(landing) = self.on_line.landing.pop_front_if(|l| l.last <= upto) {
            landing.row.regions().for_each(|region| self.unclaim(region, true, marks));
            self.progress.count_copied(Bytes(landing.row.extent.length));
        }
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

    /// Whether an item carries what the copier found in this round.
    pub(crate) fn is_of_this_round(&self, item: &Item) -> bool {
        item.resync && item.kind.has_place() && item.sequence > self.on_line.void_upto
    }

    /// An item on the line costs less now.
    pub(crate) fn shrink(&mut self, item: &Item, from: Bytes, to: Bytes) {
        if self.is_of_this_round(item) {
            self.on_line.cost = self.on_line.cost - from + to;
        }
    }

    /// Nothing is taken up.
    pub(crate) fn is_idle(&self) -> bool {
        self.walk.is_idle()
    }

    /// Discards the estimate of how much differs: what is copied next is unrelated to what was copied before.
    pub(crate) fn guess_anew(&mut self) {
        self.guess = Guess::default();
    }

    /// The queue was dropped at `head`: everything must be taken up anew.
    pub(crate) fn begin_anew(&mut self, head: Sequence, marks: &mut Bitmap) {
        self.round += 1;
        marks.abandon_copies();
        self.walk.end_all();
        self.lay_aside();
        self.questions.forget();
        self.on_line.begin_anew(head);
    }

    fn lay_aside(&mut self) {
        self.spare = None;
        self.survey.lay_aside();
    }

    /// The connection is gone while order is kept: what is on the line stays there, the rest must be asked anew.
    pub(crate) fn unask(&mut self, marks: &mut Bitmap) {
        self.round += 1;
        self.questions = Questions::default();
        self.survey.unask();
        self.lay_aside();
        let landing = self.on_line.landing.iter().flat_map(|landing| landing.row.regions());
        let landing: BTreeSet<Region> = landing.collect();
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
        let ahead = |ahead| Questions { ahead, ..Questions::default() };
        assert!(!ahead(ASKED_BLINDLY_MAX).may_ask(true), "nothing was answered ever");
        assert!(ahead(Bytes::ZERO).may_ask(false), "one run may always be asked for");
        let full = ahead(ASKED_BYTES_MAX);
        assert!(!full.may_ask(false), "no question is open, and yet the window is full");
        assert!(ahead(ASKED_BYTES_MAX - RUN_BYTES_MAX).may_ask(false));
    }
}
