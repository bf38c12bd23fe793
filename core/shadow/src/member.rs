// SPDX-License-Identifier: Apache-2.0
//! A member of a set: what it does, what the ledger says of it, and how busy it is.

use helio_bitmap::{Bitmap, Region};
use helio_copy::{Claim, Guess, Walk};
use helio_format::members::CopyHealth;
use helio_stack::{Duty, MemberStatus};
use helio_units::{Bytes, Extent, VolumeIndex};

/// Bitmaps of members are of one volume each, which they call this.
pub(crate) const ONE: VolumeIndex = VolumeIndex(0);

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// This flush of what the target holds is under way: what is compared then is durable.
    Settling(u64),
    /// Regions are copied. Until the bitmap of this tick is durable, the ledger records that the member lacks everything.
    Marking(u64),
    /// Regions are copied, and the ledger says so.
    Copies,
    /// None is left; this flush is under way.
    Flushing(u64),
    /// The bitmap without a bit is being made durable.
    Saving,
    /// Then that the member is full.
    Recording,
}

/// What a member gets.
#[derive(Clone, Debug)]
pub(crate) struct Copying {
    lacks: Bitmap,
    walk: Walk<()>,
    /// The tick at which everything was set, since nothing is known of the member: what it holds is compared before it is written.
    compares: Option<u64>,
    /// Whether comparing pays, as far as the last pieces tell.
    guess: Guess,
    /// Most regions of a piece; one, where a run could not be read: a region that no full member can read is to delay no others.
    longest_run: u64,
    stage: Stage,
}

/// What a member that is not in use is missing.
#[derive(Clone, Debug)]
pub(crate) enum Lacks {
    Known {
        lacks: Bitmap,
        /// An administrator removed it: only a command returns it.
        withdrawn: bool,
    },
    /// Everything, as far as is known.
    Unknown,
    /// Everything, and what it reads as may not be durable.
    Failed,
}

impl Copying {
    /// Of what its bitmap says.
    pub(crate) fn known(lacks: Bitmap) -> Self {
        Self::new(lacks, None, Stage::Copies)
    }

    /// Of everything; `compares`: what it holds is compared first.
    pub(crate) fn all(mut lacks: Bitmap, tick: u64, compares: bool) -> Self {
        lacks.set_all();
        let stage = if compares { Stage::Settling(0) } else { Stage::Marking(tick) };
        Self::new(lacks, compares.then_some(tick), stage)
    }

    fn new(lacks: Bitmap, compares: Option<u64>, stage: Stage) -> Self {
        let (walk, guess) = (Walk::default(), Guess::default());
        Self { lacks, walk, compares, guess, longest_run: u64::MAX, stage }
    }

    /// What it holds is compared before it is written.
    pub(crate) const fn compares(&self) -> bool {
        self.compares.is_some()
    }

    /// What the target holds is durable, and the copy begins.
    pub(crate) const fn settled(&mut self) {
        if let Some(tick) = self.compares {
            self.stage = Stage::Marking(tick);
        }
    }

    /// What it reads as may not be durable.
    pub(crate) const fn distrust(&mut self) {
        if let Some(tick) = self.compares.take()
            && let Stage::Settling(_) = self.stage
        {
            self.stage = Stage::Marking(tick);
        }
    }

    /// The bitmap that says so is not durable.
    pub(crate) const fn is_marking(&self) -> bool {
        matches!(self.stage, Stage::Settling(_) | Stage::Marking(_))
    }

    pub(crate) const fn stage(&self) -> Stage {
        self.stage
    }

    pub(crate) const fn step(&mut self, stage: Stage) {
        self.stage = stage;
    }

    pub(crate) const fn lacks(&mut self) -> &mut Bitmap {
        &mut self.lacks
    }

    /// All its dirty regions are blank, and no region is being copied.
    pub(crate) fn is_clean(&self, blank: &Bitmap) -> bool {
        self.walk.is_idle() && self.lacks.is_within(blank)
    }

    /// Claims the next run of at most `most` regions for the piece of that number, of those in which full members do not differ.
    pub(crate) fn claim(&mut self, number: u64, differs: &Bitmap, most: u64) -> Option<Extent> {
        if matches!(self.stage, Stage::Settling(_)) {
            return None;
        }
        let most = if self.is_probing() { 1 } else { most.min(self.longest_run) };
        let Self { lacks, walk, .. } = self;
        let first = walk.claim(number, (), |from| lacks.begin_copy_beside(from, differs))?.region;
        let mut last = first;
        while last.0 - first.0 + 1 < most {
            let next = Region(last.0 + 1);
            let begin =
                |from| if from == next { lacks.begin_copy_at(from, Some(differs)) } else { None };
            if walk.claim(number, (), begin).is_none() {
                break;
            }
            last = next;
        }
        let begin = lacks.place(first).1.offset;
        Some(Extent::new(begin, lacks.place(last).1.end() - begin))
    }

    /// The next piece only probes whether most still differs.
    fn is_probing(&self) -> bool {
        self.compares() && !self.guess.is_raw() && self.guess.is_probing()
    }

    /// A piece begins. Returns whether what the target holds is compared before it is written: not where most differed so far.
    pub(crate) fn begins_with_compare(&mut self, extent: Extent) -> bool {
        let compares = self.compares() && !self.guess.is_raw();
        if compares {
            self.guess.count_asked();
        } else {
            self.guess.count_raw(self.regions(extent).count() as u64);
        }
        compares
    }

    /// What the target holds was compared.
    pub(crate) fn compared(&mut self, extent: Extent, equal: bool) {
        for _ in self.regions(extent) {
            self.guess.learn(u64::from(!equal), 1);
        }
    }

    /// No full member could read all of a run.
    pub(crate) const fn could_not_read(&mut self) {
        self.longest_run = 1;
    }

    fn regions(&self, extent: Extent) -> impl Iterator<Item = Region> + use<> {
        self.lacks.grid().touched(ONE, extent).map(Region)
    }

    /// Whether what was read for that piece is still what the extent is to hold.
    pub(crate) fn holds(&self, extent: Extent, number: u64) -> bool {
        self.regions(extent).all(|region| !self.walk.is_touched(Claim { region, number }))
    }

    /// The piece ended; `copied`: the target has the extent.
    pub(crate) fn end(&mut self, extent: Extent, number: u64, copied: bool) {
        for region in self.regions(extent) {
            let claim = Claim { region, number };
            let touched = self.walk.is_touched(claim);
            if !self.walk.end(claim) {
                continue;
            }
            if copied && !touched {
                self.lacks.end_copy(region);
            } else {
                self.lacks.abandon_copy(region);
            }
        }
    }

    /// It lacks that, too.
    pub(crate) fn set(&mut self, extent: Extent) {
        self.lacks.set(ONE, extent);
        self.copy_again();
    }

    /// Regions are blank no more: it is full only once it has got them.
    const fn copy_again(&mut self) {
        if !self.is_marking() {
            self.stage = Stage::Copies;
        }
    }

    /// What it lacks, once it is copied no more.
    pub(crate) fn stop(mut self) -> Bitmap {
        self.lacks.abandon_copies();
        self.lacks
    }
}

/// What a member does.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// It holds all of the volume. In these regions it may differ from other full members after a restart: there the bitmap has every
    /// region that is unmerged and not hot.
    Full(Bitmap),
    /// It is written, and gets what it lacks.
    Copying(Copying),
    /// It is not in use, and is missing that.
    Removed(Lacks),
}

/// Whether its disk completes operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    /// As far as is known.
    Responds,
    /// It does not, and no other member can take its place.
    Silent,
    /// It is given up once its removal is durable.
    GivingUp,
    /// Operations that were given up have not ended.
    Late,
}

/// What the ledger says of a member.
#[derive(Clone, Copy, Debug)]
struct OnDisk {
    durable: Option<CopyHealth>,
    /// The record under way, or that failed, says this.
    coming: Option<CopyHealth>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    state: State,
    response: Response,
    on_disk: OnDisk,
    /// What the ledger is to say of it while it is full: good, or blank.
    full_as: CopyHealth,
    /// Operations under way on it.
    depth: u32,
    /// What a read costs before those under way count.
    cost: u32,
    /// Reads that passed the layer and that it completed.
    reads: u64,
    repaired: u64,
}

impl Member {
    /// As the ledger says it is, or not in the ledger.
    pub(crate) const fn new(state: State, durable: Option<CopyHealth>) -> Self {
        let on_disk = OnDisk { durable, coming: durable };
        Self {
            state,
            response: Response::Responds,
            on_disk,
            full_as: match durable {
                Some(CopyHealth::Blank) => CopyHealth::Blank,
                _ => CopyHealth::Good,
            },
            depth: 0,
            cost: 1,
            reads: 0,
            repaired: 0,
        }
    }

    pub(crate) const fn state(&self) -> &State {
        &self.state
    }

    pub(crate) const fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    pub(crate) const fn is_full(&self) -> bool {
        matches!(self.state, State::Full(_))
    }

    pub(crate) const fn copying(&mut self) -> Option<&mut Copying> {
        if let State::Copying(copying) = &mut self.state { Some(copying) } else { None }
    }

    pub(crate) const fn is_removed(&self) -> bool {
        matches!(self.state, State::Removed(_))
    }

    pub(crate) const fn response(&self) -> Response {
        self.response
    }

    pub(crate) const fn set_response(&mut self, response: Response) {
        self.response = response;
    }

    /// Regions of the volume were written, or are compared: none of its bitmap counts as never written.
    pub(crate) const fn forget_blank(&mut self) {
        self.full_as = CopyHealth::Good;
    }

    /// Regions of its bitmap may be blank if it is full.
    pub(crate) fn is_blank(&self) -> bool {
        self.is_full() && self.full_as == CopyHealth::Blank
    }

    /// Blank regions are to be copied to it, too.
    pub(crate) const fn copy_again(&mut self) {
        if let State::Copying(copying) = &mut self.state {
            copying.copy_again();
        }
    }

    /// Full members are equal in an extent; `of`: where that bitmap has a region. `holds`: a member that is copied holds it, too.
    pub(crate) fn equal(&mut self, extent: Extent, of: Option<&Bitmap>, holds: bool) {
        match &mut self.state {
            State::Full(differs) => differs.clear_extent(ONE, extent, of),
            State::Copying(copying) if holds => copying.lacks.clear_extent(ONE, extent, of),
            State::Copying(copying) => copying.copy_again(),
            State::Removed(_) => {}
        }
    }

    /// All of a full member is to be compared.
    pub(crate) fn set_all(&mut self) {
        if let State::Full(differs) = &mut self.state {
            differs.set_all();
        }
    }

    /// It is the only full member: it differs from others in blank regions at most.
    pub(crate) fn only(&mut self, blank: &Bitmap) {
        if let State::Full(differs) = &mut self.state {
            differs.clear_beside(blank);
        }
    }

    /// Its bitmap, if it is full.
    pub(crate) const fn differs(&self) -> Option<&Bitmap> {
        if let State::Full(differs) = &self.state { Some(differs) } else { None }
    }

    /// The bitmap of its dirty regions; of a full member, of the regions in which it may differ from other full members.
    pub(crate) const fn bitmap(&mut self) -> Option<&mut Bitmap> {
        match &mut self.state {
            State::Full(differs) => Some(differs),
            State::Copying(copying) => Some(copying.lacks()),
            State::Removed(Lacks::Known { lacks, .. }) => Some(lacks),
            State::Removed(_) => None,
        }
    }

    /// An administrator wants it to stay removed. Returns false if that changes nothing.
    pub(crate) const fn withdraw(&mut self) -> bool {
        match &mut self.state {
            State::Removed(Lacks::Known { withdrawn, .. }) => !core::mem::replace(withdrawn, true),
            _ => false,
        }
    }

    /// It missed something.
    pub(crate) fn set(&mut self, extent: Extent) {
        match &mut self.state {
            State::Copying(copying) => copying.set(extent),
            State::Removed(Lacks::Known { lacks, .. }) => lacks.set(ONE, extent),
            State::Full(_) | State::Removed(_) => {}
        }
    }

    /// An operation on it begins.
    pub(crate) const fn begin(&mut self) {
        self.depth += 1;
    }

    /// One has ended.
    pub(crate) const fn end(&mut self) {
        self.depth -= 1;
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.depth == 0
    }

    /// What a read of it costs now.
    pub(crate) const fn read_cost(&self) -> u64 {
        self.cost as u64 + self.depth as u64
    }

    pub(crate) const fn set_cost(&mut self, cost: u32) {
        self.cost = cost;
    }

    pub(crate) const fn was_read(&mut self) {
        self.reads += 1;
    }

    pub(crate) const fn repaired(&mut self) {
        self.repaired += 1;
    }

    /// What the ledger is to say of it.
    pub(crate) const fn wanted(&self) -> CopyHealth {
        match &self.state {
            State::Full(_) => self.full_as,
            State::Copying(copying) => match copying.stage {
                Stage::Recording => self.full_as,
                Stage::Settling(_) | Stage::Marking(_) if copying.compares() => {
                    CopyHealth::Unproven
                }
                Stage::Settling(_) | Stage::Marking(_) => CopyHealth::Failed,
                Stage::Copies | Stage::Flushing(_) | Stage::Saving => CopyHealth::Copying,
            },
            State::Removed(Lacks::Known { withdrawn: false, .. }) => CopyHealth::Removed,
            State::Removed(Lacks::Known { withdrawn: true, .. }) => CopyHealth::Withdrawn,
            State::Removed(Lacks::Unknown) => CopyHealth::Unproven,
            State::Removed(Lacks::Failed) => CopyHealth::Failed,
        }
    }

    /// The ledger does not say what it is to say.
    pub(crate) fn is_unrecorded(&self) -> bool {
        self.on_disk.durable != Some(self.wanted())
    }

    /// The ledger says that it is full, or may say so.
    pub(crate) fn counts_as_full(&self) -> bool {
        let full = |said| matches!(said, Some(CopyHealth::Good | CopyHealth::Blank));
        full(self.on_disk.durable) || full(self.on_disk.coming)
    }

    /// The ledger has it as copying, removed or withdrawn, or may have: after a restart its bitmap is used.
    fn counts_by_bitmap(&self) -> bool {
        use CopyHealth::{Copying, Removed, Withdrawn};
        let by_bitmap = |said| matches!(said, Some(Copying | Removed | Withdrawn));
        by_bitmap(self.on_disk.durable) || by_bitmap(self.on_disk.coming)
    }

    /// It says so, and nothing else is being recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        !self.is_unrecorded() && self.on_disk.coming == self.on_disk.durable
    }

    /// A record of it begins. Returns what it says.
    pub(crate) const fn record(&mut self) -> CopyHealth {
        let wanted = self.wanted();
        self.on_disk.coming = Some(wanted);
        wanted
    }

    /// That record is durable.
    pub(crate) const fn recorded(&mut self) {
        self.on_disk.durable = self.on_disk.coming;
    }

    /// The ledger may have it as full although it misses writes, or its bitmap as valid although nothing keeps the bitmap any more.
    pub(crate) fn owes(&self) -> bool {
        let (stays, keeps) = match &self.state {
            State::Full(_) => (true, true),
            State::Copying(copying) => (copying.stage == Stage::Recording, !copying.is_marking()),
            State::Removed(lacks) => (false, matches!(lacks, Lacks::Known { .. })),
        };
        !stays && self.counts_as_full() || !keeps && self.counts_by_bitmap()
    }

    /// What it lacked was durable as of that tick.
    pub(crate) fn is_saved_since(&self, tick: u64) -> bool {
        match &self.state {
            State::Copying(Copying { lacks, .. }) | State::Removed(Lacks::Known { lacks, .. }) => {
                lacks.is_saved() || lacks.is_all_saved_since(tick)
            }
            State::Full(_) | State::Removed(_) => true,
        }
    }

    /// Its copy waits for pages of its bitmap.
    pub(crate) const fn waits_for_pages(&self) -> bool {
        match &self.state {
            State::Copying(copying) => matches!(copying.stage, Stage::Marking(_) | Stage::Saving),
            State::Full(_) | State::Removed(_) => false,
        }
    }

    /// Goes on with a copy that waited for pages of its bitmap.
    pub(crate) fn step_by_pages(&mut self) {
        if let State::Copying(Copying { lacks, stage, .. }) = &mut self.state {
            *stage = match *stage {
                Stage::Marking(tick) if lacks.is_all_saved_since(tick) => Stage::Copies,
                Stage::Saving if lacks.is_saved() => Stage::Recording,
                other => other,
            };
        }
    }

    /// Its copy is done, and recorded.
    pub(crate) fn be_full(&mut self) {
        self.state = match core::mem::replace(&mut self.state, State::Removed(Lacks::Failed)) {
            State::Copying(copying) => State::Full(copying.stop()),
            other => other,
        };
    }

    /// `blank`: bytes in blank regions, which it does not get.
    pub(crate) fn status(&self, size: Bytes, blank: Bytes) -> MemberStatus {
        let left = |lacks: &Bitmap| lacks.dirty_bytes().saturating_sub(blank).min(size);
        let duty = match &self.state {
            State::Full(_) => Duty::Full,
            State::Copying(copying) => Duty::Copying { left: left(&copying.lacks) },
            State::Removed(Lacks::Known { lacks, withdrawn }) => {
                Duty::Removed { lacks: Some(left(lacks)), withdrawn: *withdrawn }
            }
            State::Removed(_) => Duty::Removed { lacks: None, withdrawn: false },
        };
        MemberStatus { duty, depth: self.depth, reads: self.reads, repaired: self.repaired }
    }
}
