// SPDX-License-Identifier: Apache-2.0
//! How far the first sync by a shipped disk is: what its commands began, and the comparison of samples.
//!
//! Samples are taken where nothing is marked, and rather where there is something else than zeros: an empty disk is
//! equal to the empty parts of every volume.

use crate::config::Config;
use crate::effect::ReadAs;
use crate::event::{CommandId, StoreOutcome};
use crate::purpose::Look;
use crate::refusal::Refusal;
use crate::turn::Turn;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;
use helio_bitmap::{Bitmap, Region};
use helio_format::copying::Digest;
use helio_format::message::Hello;
use helio_format::superblock::Superblock;
use helio_stack::StoreFault;
use helio_units::{Bytes, Extent, Generation, VolumeIndex};

/// A part of a volume.
type Place = (VolumeIndex, Extent);

/// Places compared on each volume.
const SAMPLES: u64 = 64;
/// Bytes compared at each.
pub(crate) const SAMPLE: Bytes = Bytes::kib(64);
/// How often another place is looked at before one that is all zeros will do.
const LOOKS: u32 = 6;
/// Places looked at here at once.
const LOOKING_MAX: usize = 8;
/// Hot extents are let go with so many keepings of marks behind the beginning.
const COOLS: u32 = 5;

/// One stretch of a volume in which one place is compared.
#[derive(Clone, Debug)]
struct Sample {
    regions: Range<u64>,
    place: Place,
    looks: u32,
    ours: Vec<Digest>,
}

/// The comparison that `end` begins.
#[derive(Clone, Debug)]
struct Check {
    command: CommandId,
    samples: Vec<Sample>,
    /// The next one to look at.
    next: usize,
    looking: usize,
    /// Looked at, to be asked.
    ready: VecDeque<usize>,
    asked: VecDeque<usize>,
    /// When everything was compared, in the cover's ticks. What was marked then, and was not compared for that, is to be
    /// kept before the record says that the marks tell what differs.
    compared: Option<u64>,
}

/// How far `begin` is. A comparison may begin while the flushes run.
#[derive(Clone, Copy, Debug, Default)]
enum Begin {
    #[default]
    Idle,
    /// It is being recorded that a seed begins.
    Recording,
    /// What was written before the marks were cleared is being flushed; then the command is answered.
    Flushing(FirstFlush),
}

/// The flushes of all volumes before the operator copies them.
#[derive(Clone, Copy, Debug)]
struct FirstFlush {
    command: CommandId,
    /// Volumes whose flush has not ended.
    left: u16,
    failed: Option<(VolumeIndex, StoreFault)>,
}

/// Where a seeding is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seed {
    begin: Begin,
    /// How often hot extents are still to be let go: after a crash each would count as changed.
    cools: u32,
    round: u32,
    check: Option<Check>,
    /// Answers that will come although nobody wants them any more; they come in the order they were asked for.
    stale: usize,
    /// The peer's process whose image was found to be the disk; nothing travelled since.
    passed: Option<u64>,
}

/// Whether a node never took part, or says so.
pub(crate) fn is_blank(hello: &Hello) -> bool {
    hello.lineage.generation == Generation::NONE
}

impl Seed {
    /// Nothing may travel: the marks are those against a disk on its way.
    pub(crate) fn is_under_way(&self, record: &Superblock) -> bool {
        self.is_being_recorded() || record.seeding != 0
    }

    /// The record that a seed begins is being saved.
    pub(crate) fn is_being_recorded(&self) -> bool {
        matches!(self.begin, Begin::Recording)
    }

    /// `begin` was not answered yet.
    pub(crate) fn is_beginning(&self) -> bool {
        !matches!(self.begin, Begin::Idle)
    }

    /// `end` was not answered yet.
    pub(crate) fn is_comparing(&self) -> bool {
        self.check.is_some()
    }

    /// Whether the peer's image was found to be the disk that was shipped.
    pub(crate) fn has_passed(&self, peer: &Hello) -> bool {
        is_blank(peer) && self.passed == Some(peer.incarnation)
    }

    /// Everything is compared, and only marks are to be kept yet.
    pub(crate) fn wants_marks_kept(&self) -> bool {
        self.check.as_ref().is_some_and(|check| check.compared.is_some())
    }

    /// Refuses an update while a disk is being shipped.
    pub(crate) fn refuse_update(
        &self,
        record: &Superblock,
        config: &Config,
    ) -> Result<(), Refusal> {
        if !self.is_under_way(record) {
            return Ok(());
        }
        let (group, peer) = (&config.group, &config.peer);
        Err(Refusal::new(
            "seeding",
            format!("a disk of {group} is being shipped to {peer}"),
            format!(
                "once it is in place: `helio seed end {group}`; to copy everything instead: `helio resync {group} --full`"
            ),
        ))
    }

    /// It is about to be recorded that a seed begins.
    pub(crate) fn record(&mut self) {
        (self.begin, self.passed) = (Begin::Recording, None);
    }

    /// It could not be recorded; no mark was cleared.
    pub(crate) fn not_recorded(&mut self) {
        self.begin = Begin::Idle;
    }

    /// It is recorded. A primary lets hot extents go in turn with its marks; all volumes are flushed.
    pub(crate) fn recorded(&mut self, command: CommandId, volumes: u16, leads: bool) {
        self.begin = Begin::Flushing(FirstFlush { command, left: volumes, failed: None });
        if leads {
            self.cools = COOLS;
        }
    }

    /// One of the flushes before the copy has ended. Behind the last one it returns the command, and which one failed.
    pub(crate) fn flushed(
        &mut self,
        volume: VolumeIndex,
        outcome: &StoreOutcome,
    ) -> Option<(CommandId, Option<(VolumeIndex, StoreFault)>)> {
        let Begin::Flushing(flush) = &mut self.begin else {
            panic!("a flush ended that was not requested")
        };
        if let StoreOutcome::Failed(fault) = *outcome {
            flush.failed = Some((volume, fault));
        }
        flush.left -= 1;
        let FirstFlush { command, left, failed } = *flush;
        if left > 0 {
            return None;
        }
        self.begin = Begin::Idle;
        Some((command, failed))
    }

    /// Pages of marks were kept: whether hot extents that were not used since may go.
    pub(crate) fn cools(&mut self, leads: bool) -> bool {
        let cools = leads && self.cools > 0;
        self.cools -= u32::from(cools);
        cools
    }

    /// Begins to compare samples.
    pub(crate) fn compare(&mut self, command: CommandId, marks: &Bitmap) {
        self.round += 1;
        self.check = Some(Check {
            command,
            samples: samples(marks),
            next: 0,
            looking: 0,
            ready: VecDeque::new(),
            asked: VecDeque::new(),
            compared: None,
        });
    }

    /// Ends a comparison before its end. Returns the command that began it.
    fn stop_comparing(&mut self) -> Option<CommandId> {
        let check = self.check.take()?;
        self.stale += check.asked.len();
        Some(check.command)
    }

    /// The comparison, if there is one, comes to nothing.
    pub(crate) fn interrupt(&mut self, why: &str, turn: &mut Turn) {
        if let Some(command) = self.stop_comparing() {
            let hint = format!("repeat `helio seed end {}`", turn.config().group);
            let text = format!("the comparison of the shipped disk was interrupted: {why}");
            turn.done(command, Err(Refusal::later("busy", text, hint)));
        }
    }

    /// The connection is gone, and with it all answers.
    pub(crate) fn answers_lost(&mut self) {
        self.stale = 0;
    }

    /// The peer's image was found to be the disk.
    pub(crate) fn pass(&mut self, incarnation: u64) {
        self.passed = Some(incarnation);
    }

    /// The peer took up a stream, or may: what was found out about its image is old.
    pub(crate) fn forget_passed(&mut self) {
        self.passed = None;
    }

    /// The next place to read here, by that roll of the dice.
    pub(crate) fn next_look(&mut self, marks: &Bitmap, roll: u64) -> Option<(Place, Look)> {
        let check = self.check.as_mut()?;
        while check.looking < LOOKING_MAX && check.next < check.samples.len() {
            let number = check.next;
            check.next += 1;
            let sample = &mut check.samples[number];
            if sample.choose(marks, roll.wrapping_mul(2 * number as u64 + 1) >> 16) {
                check.looking += 1;
                sample.looks += 1;
                return Some((sample.place, Look { round: self.round, sample: number }));
            }
        }
        None
    }

    /// The next place to ask the peer about, while less than `most` questions are open.
    pub(crate) fn next_question(&mut self, most: usize) -> Option<Place> {
        let check = self.check.as_mut().filter(|check| check.asked.len() < most)?;
        let sample = check.ready.pop_front()?;
        check.asked.push_back(sample);
        Some(check.samples[sample].place)
    }

    /// Ends a comparison that is complete, once the marks of that time are kept, or if no mark can be. Returns the command
    /// that began it.
    pub(crate) fn finish(
        &mut self,
        marks: &Bitmap,
        next_tick: impl FnOnce() -> u64,
        metadata_failed: bool,
    ) -> Option<CommandId> {
        let check = self.check.as_mut().filter(|check| check.is_complete())?;
        let since = *check.compared.get_or_insert_with(next_tick);
        let kept = marks.is_all_saved_since(since);
        let check = self.check.take_if(|_| kept || metadata_failed)?;
        Some(check.command)
    }

    /// A look at a place here ended. Returns what is to be read there, or elsewhere, next.
    ///
    /// # Errors
    /// That place cannot be read.
    pub(crate) fn looked(
        &mut self,
        look: Look,
        outcome: StoreOutcome,
        marks: &Bitmap,
        roll: u64,
    ) -> Result<Option<(Place, ReadAs)>, (Place, StoreFault)> {
        let Some(check) = self.check.as_mut().filter(|_| look.round == self.round) else {
            return Ok(None);
        };
        let sample = &mut check.samples[look.sample];
        match outcome {
            StoreOutcome::Read { zero, .. } => {
                if zero && sample.looks < LOOKS && sample.choose(marks, roll) {
                    sample.looks += 1;
                    return Ok(Some((sample.place, ReadAs::BytesOrZero)));
                }
                Ok(Some((sample.place, ReadAs::Digests { coarse: true })))
            }
            StoreOutcome::Digests(list) => {
                sample.ours = list;
                check.looking -= 1;
                check.ready.push_back(look.sample);
                Ok(None)
            }
            StoreOutcome::Failed(fault) => Err((sample.place, fault)),
            other => panic!("a look at a sample ended as {other:?}"),
        }
    }

    /// The peer told what it holds at a place. `marks`: a primary's.
    pub(crate) fn told(
        &mut self,
        place: Place,
        list: &[Digest],
        marks: Option<&Bitmap>,
        turn: &mut Turn,
    ) -> bool {
        if self.stale > 0 {
            self.stale -= 1;
            return true;
        }
        let (Some(check), Some(marks)) = (&mut self.check, marks) else { return false };
        let sample = check.asked.front().map(|n| &check.samples[*n]);
        let Some(sample) = sample.filter(|sample| sample.place == place) else { return false };
        let same = sample.ours == list;
        check.asked.pop_front();
        let (volume, extent) = place;
        // What was written meanwhile is copied anyway.
        if same || marks.may_differ(volume, extent.offset) {
            return true;
        }
        if let Some(command) = self.stop_comparing() {
            let refusal = not_the_disk(turn.config(), place);
            turn.warn(refusal.text.clone());
            turn.done(command, Err(refusal));
        }
        true
    }
}

impl Check {
    /// All places were looked at and compared.
    fn is_complete(&self) -> bool {
        let looked = self.next == self.samples.len() && self.looking == 0;
        looked && self.ready.is_empty() && self.asked.is_empty()
    }
}

/// Every volume in stretches with equal numbers of regions that nothing marks: if there are few of them, each is compared.
fn samples(marks: &Bitmap) -> Vec<Sample> {
    let place = (VolumeIndex::default(), Extent::default());
    let sample = |regions| Sample { regions, place, looks: 0, ours: Vec::new() };
    let stretches = marks.grid().volumes().flat_map(|regions| marks.stretches(regions, SAMPLES));
    stretches.map(sample).collect()
}

impl Sample {
    /// Chooses an unmarked place, by that roll of the dice. Returns false where there is none.
    fn choose(&mut self, marks: &Bitmap, roll: u64) -> bool {
        let Range { start, end } = self.regions.clone();
        let first = start + roll % (end - start);
        let open = (first..end).chain(start..first).map(Region).find_map(|region| {
            let (volume, extent) = marks.place(region);
            (!marks.may_differ(volume, extent.offset)).then_some((volume, extent))
        });
        let Some((volume, extent)) = open else { return false };
        self.place = (volume, Extent::new(extent.offset, extent.length.min(SAMPLE.0)));
        true
    }
}

/// The samples tell that the peer's disk is another one.
fn not_the_disk(config: &Config, (volume, extent): Place) -> Refusal {
    let Config { group, peer, .. } = config;
    Refusal::new(
        "not-the-disk",
        format!(
            "the disk of {group} on {peer} is not a copy made since `helio seed begin {group}`: volume {} differs at \
             {extent}, which was not written since",
            config.name_of(volume)
        ),
        format!(
            "put the right disk in place on {peer} and repeat; or copy everything: `helio resync {group} --full`"
        ),
    )
}
