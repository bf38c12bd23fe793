// SPDX-License-Identifier: Apache-2.0
//! Where a verify is: what is compared, what was asked and does not count yet, and what differs.
//!
//! A comparison counts once its item is acknowledged on the stream it was asked on; what differs is told before. When
//! a stream begins anew, everything that did not count is asked again.
//!
//! The place outlives the primary that runs it, and the daemon carries it over a restart.

use crate::config::Config;
use crate::event::{VerifyMemory, VerifyWish};
use crate::purpose::Check;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, Moment, Sequence, VolumeIndex};

/// Bytes one item compares: with 16 bytes for every 4 KiB its payload is 256 bytes.
const STEP: Bytes = Bytes::kib(64);
/// Most differences remembered one by one; more are only counted.
pub const LISTED_MAX: usize = 1024;
/// Once so much of a volume differed, the log is told no more of it than the end.
const WARNED_UPTO: Bytes = Bytes::kib(64);
/// How far the place moves between two records of it.
const RECORD_EVERY: u64 = 64 << 20;
/// Bytes a digest stands for, and the unit differences are counted in.
const BLOCK: u64 = 4096;

/// A volume was compared from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyPass {
    /// When it ended.
    pub ended: Moment,
    /// Bytes in blocks that differed.
    pub differed: Bytes,
    /// They were copied.
    pub repaired: bool,
}

/// One volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeVerify {
    /// Everything before was compared; zero where no pass was begun, or the last one ended.
    pub place: u64,
    /// Bytes in blocks that differed on the way there.
    pub differed: Bytes,
    /// The last whole pass since this process began.
    pub last: Option<VerifyPass>,
}

/// One under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunStatus {
    /// As it was asked for.
    pub wish: VerifyWish,
    /// The volume it is at.
    pub volume: VolumeIndex,
    /// Bytes compared.
    pub compared: Bytes,
    /// Bytes to compare when it began.
    pub total: Bytes,
    /// Since when.
    pub since: Moment,
    /// What it waits for.
    pub waits: Option<&'static str>,
}

/// What is known of verifies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyStatus {
    /// One under way.
    pub run: Option<RunStatus>,
    /// The volumes, in their order.
    pub volumes: Vec<VolumeVerify>,
    /// Differences found and not mended, in their order, at most [`LISTED_MAX`].
    pub listed: Vec<(VolumeIndex, Extent)>,
    /// How many more there are.
    pub beyond: u64,
    /// Why the last one ended before its end.
    pub stopped: Option<String>,
}

#[derive(Clone, Debug)]
struct Asked {
    check: Check,
    progress: Progress,
}

/// How far a comparison is.
#[derive(Clone, Copy, Debug)]
enum Progress {
    /// It is at the gate, or being read.
    Begun,
    /// It has its place on the line.
    Placed(Sequence),
    /// The peer reported there that something differs.
    Differs(Sequence),
}

impl Progress {
    const fn place(self) -> Option<Sequence> {
        match self {
            Self::Begun => None,
            Self::Placed(at) | Self::Differs(at) => Some(at),
        }
    }
}

#[derive(Clone, Debug)]
struct Run {
    wish: VerifyWish,
    /// What is not compared to its end yet.
    left: VecDeque<VolumeIndex>,
    /// Where the next comparison begins: which of those, and where on it.
    next: (usize, u64),
    compared: Bytes,
    total: Bytes,
    since: Moment,
}

/// See the drawing above.
#[derive(Clone, Debug)]
pub(crate) struct Verify {
    run: Option<Run>,
    volumes: Vec<VolumeVerify>,
    /// By volume and offset: how long. Nobody mended these.
    listed: BTreeMap<(VolumeIndex, u64), u64>,
    beyond: u64,
    /// Asked and not counted, in the order of their places.
    asked: VecDeque<Asked>,
    epoch: u32,
    /// What differed and is counted in its volume already, while its comparison may be asked again.
    seen: BTreeSet<(VolumeIndex, u64)>,
    /// The rate allows none before.
    not_before: Moment,
    stopped: Option<String>,
    /// Counts what is worth a record.
    revision: u64,
}

impl Check {
    pub(crate) fn place(&self) -> (VolumeIndex, Extent) {
        (self.volume, self.extent)
    }
}

impl Verify {
    /// How far each volume is.
    pub(crate) fn volumes(&self) -> &[VolumeVerify] {
        &self.volumes
    }

    /// Moves on whenever something is worth a record.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// One runs, or goes on when this node can.
    pub(crate) fn is_under_way(&self) -> bool {
        self.run.is_some()
    }

    /// How many comparisons were asked and do not count yet.
    pub(crate) fn in_flight(&self) -> usize {
        self.asked.len()
    }

    /// The rate allows no comparison before.
    pub(crate) fn not_before(&self) -> Moment {
        self.not_before
    }

    /// Of a volume that differs in many places the log is told the end alone.
    pub(crate) fn is_worth_a_warning(&self, volume: VolumeIndex) -> bool {
        self.volumes[usize::from(volume.0)].differed < WARNED_UPTO
    }

    /// The oldest comparison that does not count yet, once it has its place on the line.
    pub(crate) fn oldest(&self) -> Option<(VolumeIndex, Sequence)> {
        let asked = self.asked.front()?;
        Some((asked.check.volume, asked.progress.place()?))
    }

    /// What the peer reports as different lies inside of its volume.
    ///
    /// # Errors
    /// It does not; the connection must end.
    pub(crate) fn check_reported(
        config: &Config,
        volume: VolumeIndex,
        extent: Extent,
    ) -> Result<(), String> {
        let size = config.volumes.get(usize::from(volume.0)).map_or(0, |size| size.0);
        let beyond = || {
            let volume = config.name_of(volume);
            format!("it reports {extent} of volume {volume} as different")
        };
        (extent.end() <= size).then_some(()).ok_or_else(beyond)
    }

    /// What is known. `waits`: what a run waits for.
    pub(crate) fn status(&self, waits: Option<&'static str>) -> VerifyStatus {
        let extent = |((volume, at), length): (&(VolumeIndex, u64), &u64)| {
            (*volume, Extent::new(*at, *length))
        };
        VerifyStatus {
            run: self.run.as_ref().map(|run| RunStatus {
                wish: run.wish,
                volume: run.left.front().copied().unwrap_or_default(),
                compared: run.compared,
                total: run.total,
                since: run.since,
                waits,
            }),
            volumes: self.volumes.clone(),
            listed: self.listed.iter().map(extent).collect(),
            beyond: self.beyond,
            stopped: self.stopped.clone(),
        }
    }

    pub(crate) fn new(volumes: usize) -> Self {
        Self {
            run: None,
            volumes: vec![VolumeVerify::default(); volumes],
            listed: BTreeMap::new(),
            beyond: 0,
            asked: VecDeque::new(),
            seen: BTreeSet::new(),
            epoch: 0,
            not_before: Moment::ZERO,
            stopped: None,
            revision: 0,
        }
    }

    /// Takes up what an earlier start left.
    pub(crate) fn remember(&mut self, memory: VerifyMemory) {
        for (volume, (place, differed)) in self.volumes.iter_mut().zip(&memory.places) {
            (volume.place, volume.differed) = (*place / STEP.0 * STEP.0, *differed);
        }
        let known = self.volumes.len();
        let here = memory.listed.into_iter().filter(|(volume, _)| usize::from(volume.0) < known);
        self.listed = here.map(|(volume, e)| ((volume, e.offset), e.length)).collect();
        self.beyond = memory.beyond;
        if let Some(wish) = memory.run {
            self.run = Some(Run {
                wish: VerifyWish { restart: false, ..wish },
                left: VecDeque::new(),
                next: (0, 0),
                compared: Bytes::ZERO,
                total: Bytes::ZERO,
                since: Moment::ZERO,
            });
        }
    }

    /// Whether differences are known that nobody mended.
    pub(crate) fn unmended(&self) -> u64 {
        self.listed.len() as u64 + self.beyond
    }

    /// Everything that does not count yet is asked again.
    pub(crate) fn rewind(&mut self) {
        self.asked.clear();
        self.epoch = self.epoch.wrapping_add(1);
        if let Some(run) = self.run.as_mut().filter(|_| !planted(Plant::VerifySkips)) {
            run.next = (0, run.left.front().map_or(0, |v| self.volumes[usize::from(v.0)].place));
        }
    }

    /// Begins a run. Returns whether it goes on where an earlier one was.
    pub(crate) fn begin(&mut self, wish: VerifyWish, sizes: &[Bytes], now: Moment) -> bool {
        let all = (0..sizes.len() as u16).map(VolumeIndex);
        let left: VecDeque<_> = all.filter(|v| wish.volume.is_none_or(|only| only == *v)).collect();
        let mut total = Bytes::ZERO;
        for volume in &left {
            let size = sizes[usize::from(volume.0)];
            let state = &mut self.volumes[usize::from(volume.0)];
            if wish.restart || state.place >= size.0 {
                (state.place, state.differed) = (0, Bytes::ZERO);
            }
            total += Bytes(size.0 - state.place);
        }
        let fresh = left.iter().all(|v| self.volumes[usize::from(v.0)].place == 0);
        if fresh && wish.volume.is_none() {
            self.beyond = 0;
        }
        let compared = Bytes::ZERO;
        self.run = Some(Run { wish, left, next: (0, 0), compared, total, since: now });
        (self.stopped, self.not_before) = (None, now);
        self.seen.clear();
        self.revision += 1;
        self.rewind();
        !wish.restart && self.volumes.iter().any(|volume| volume.place > 0)
    }

    /// One left by an earlier start learns what it is about.
    pub(crate) fn wake(&mut self, sizes: &[Bytes], now: Moment) {
        if let Some(run) = self.run.as_ref().filter(|run| run.left.is_empty()) {
            self.begin(run.wish, sizes, now);
        }
    }

    fn stop(&mut self, why: String) {
        self.run = None;
        self.stopped = Some(why);
        self.revision += 1;
        self.rewind();
    }

    /// The operator stops it. Returns what to tell.
    pub(crate) fn stop_wanted(&mut self) -> &'static str {
        if self.run.is_none() {
            return "no verify is running";
        }
        self.stop(String::from("the operator stopped it"));
        "the verify stops; the next one continues from there"
    }

    /// The region of a comparison cannot be read here. Returns whether that ended the run.
    pub(crate) fn fail(&mut self, check: Check, why: String) -> bool {
        let current = self.asked.iter().any(|asked| asked.check == check);
        if current {
            self.stop(why);
        }
        current
    }

    /// A comparison takes its place on the line. Returns false if nobody waits for it any more.
    pub(crate) fn take_place(&mut self, check: Check, at: Sequence) -> bool {
        let asked = self.asked.iter_mut().find(|asked| asked.check == check);
        asked.map(|asked| asked.progress = Progress::Placed(at)).is_some()
    }

    /// Takes the differences that were only listed.
    pub(crate) fn take_listed(&mut self) -> Vec<(VolumeIndex, Extent)> {
        let listed = core::mem::take(&mut self.listed);
        self.revision += listed.len() as u64;
        let extent = |((volume, at), length)| (volume, Extent::new(at, length));
        listed.into_iter().map(extent).collect()
    }

    /// The next region to compare; it counts as asked.
    pub(crate) fn ask(&mut self, sizes: &[Bytes], now: Moment) -> Option<Check> {
        let run = self.run.as_mut()?;
        let (at, offset) = run.next;
        let volume = *run.left.get(at)?;
        let size = sizes[usize::from(volume.0)].0;
        let extent = Extent::new(offset, STEP.0.min(size - offset));
        let whole = extent.end() >= size;
        run.next = if whole {
            let place = |v: &VolumeIndex| self.volumes[usize::from(v.0)].place;
            (at + 1, run.left.get(at + 1).map_or(0, place))
        } else {
            (at, extent.end())
        };
        if let Some(rate) = run.wish.rate {
            self.not_before = self.not_before.max(now) + rate.time_for(Bytes(extent.length));
        }
        let check = Check { volume, extent, epoch: self.epoch };
        self.asked.push_back(Asked { check, progress: Progress::Begun });
        Some(check)
    }

    /// A comparison came to nothing: it and what was asked behind it are asked again.
    pub(crate) fn abandon(&mut self, check: Check) {
        let Some(at) = self.asked.iter().position(|asked| asked.check == check) else { return };
        self.asked.truncate(at);
        let Some(run) = &mut self.run else { return };
        let left = run.left.iter().position(|v| *v == check.volume);
        run.next = (left.unwrap_or(0), check.extent.offset);
    }

    fn forget(&mut self, volume: VolumeIndex, extent: Extent) {
        let range = (volume, extent.offset)..(volume, extent.end());
        let gone: Vec<_> = self.listed.range(range).map(|(key, _)| *key).collect();
        self.revision += u64::from(!gone.is_empty());
        gone.iter().for_each(|key| {
            self.listed.remove(key);
        });
    }

    /// The oldest comparison counts, on a volume of that size.
    pub(crate) fn count_oldest(&mut self, size: Bytes, now: Moment) -> Option<VerifyPass> {
        let asked = self.asked.pop_front()?;
        let Check { volume, extent, .. } = asked.check;
        if !matches!(asked.progress, Progress::Differs(_)) {
            self.forget(volume, extent);
        }
        self.seen.retain(|(v, at)| *v != volume || *at >= extent.end());
        let state = &mut self.volumes[usize::from(volume.0)];
        let run = self.run.as_mut()?;
        run.compared += Bytes(extent.length);
        self.revision += u64::from(state.place / RECORD_EVERY != extent.end() / RECORD_EVERY);
        state.place = extent.end();
        if state.place < size.0 {
            return None;
        }
        let pass = VerifyPass { ended: now, differed: state.differed, repaired: run.wish.repair };
        *state = VolumeVerify { last: Some(pass), ..VolumeVerify::default() };
        run.left.pop_front();
        run.next.0 = run.next.0.saturating_sub(1);
        if run.left.is_empty() {
            self.run = None;
        }
        self.revision += 1;
        Some(pass)
    }

    /// A run of blocks differs. Returns whether it is to be mended at once.
    pub(crate) fn found(&mut self, volume: VolumeIndex, extent: Extent, at: Sequence) -> bool {
        let first = self.asked.iter_mut().find(|asked| asked.progress.place() == Some(at));
        if let Some(Asked { check, progress: progress @ Progress::Placed(_) }) = first {
            *progress = Progress::Differs(at);
            let region = check.extent;
            self.forget(volume, region);
        }
        if self.run.is_some() && self.seen.insert((volume, extent.offset)) {
            let blocks = extent.length.div_ceil(BLOCK);
            self.volumes[usize::from(volume.0)].differed += Bytes(blocks * BLOCK);
        }
        self.revision += 1;
        if self.run.as_ref().is_some_and(|run| run.wish.repair) {
            return true;
        }
        let key = (volume, extent.offset);
        if self.listed.len() < LISTED_MAX || self.listed.contains_key(&key) {
            self.listed.insert(key, extent.length);
        } else {
            self.beyond += 1;
        }
        false
    }
}
