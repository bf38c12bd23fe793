// SPDX-License-Identifier: Apache-2.0
//! A first sync by a disk that is shipped: only what changed since travels.
//!
//! ```text
//!   begin: record says seeding ──> marks cleared ──> flush ──> (the operator copies, ships, puts in place) ──> end: samples agree
//!          (what is under way stays marked)              nothing travels, writes are marked             │
//!                                                                                                       v
//!                                              copy what is marked <──meet: seeded── record says it no more
//! ```
//! While the record says seeding, marks and hot extents tell what the disk may lack, and prove nothing against any other
//! copy: so whoever is met waits, until `end` or until everything is marked again. The record comes before the marks are
//! cleared, and goes before anything travels; a crash between leaves marks too many, or none that count: everything is
//! compared then. The flush comes before the operator is told to copy: what was written under marks that are gone would
//! be in the copy, and with a power cut not here. From the moment on in which the peer takes up the stream, its own record is as good as any.
//!
//! Samples are taken where nothing is marked, and rather where there is something else than zeros: an empty disk is
//! equal to the empty parts of every volume.

use crate::effect::StoreOp;
use crate::engine::Engine;
use crate::event::{CommandId, StoreOutcome};
use crate::peer::owed::PeerCopy;
use crate::peer::primary::Primary;
use crate::record::save::Goal;
use crate::refusal::{Refusal, StoreFault};
use crate::resync::digest::{ASKED_BYTES_MAX, digests_of};
use crate::role::busy;
use crate::shared::Shared;
use crate::stream::ack::Local;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use helio_bitmap::Region;
use helio_format::copying::{Copying, Digest};
use helio_format::message::{Hello, Message, Parting};
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, Generation, VolumeIndex};

/// Places compared on each volume.
const SAMPLES: u64 = 64;
/// Bytes compared at each.
const SAMPLE: Bytes = Bytes::kib(64);
/// How often another place is looked at before one that is all zeros will do.
const LOOKS: u32 = 6;
/// Places looked at here at once.
const LOOKING_MAX: usize = 8;
/// Hot extents are let go with so many keepings of marks behind the beginning.
const COOLS: u32 = 5;
/// Questions open at the peer at once.
const ASKED_MOST: usize = (ASKED_BYTES_MAX.0 / SAMPLE.0) as usize / 2;

/// Names a look at a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    round: u32,
    sample: usize,
}

/// What is asked of the store for a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeedIo {
    /// A look at a sample of a disk that was shipped.
    Look(Look),
    /// A flush before the operator copies a disk.
    Flush(VolumeIndex),
}

/// One stretch of a volume in which one place is compared.
#[derive(Clone, Debug)]
struct Sample {
    regions: Range<u64>,
    place: (VolumeIndex, Extent),
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

/// What was written before the marks were cleared is being flushed; then the command is answered.
#[derive(Clone, Debug)]
struct FirstFlush {
    command: CommandId,
    /// Volumes whose flush has not ended.
    left: u16,
    failed: Option<(VolumeIndex, StoreFault)>,
}

/// Where a seeding is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seed {
    /// It is being recorded that one begins.
    beginning: bool,
    /// How often hot extents are still to be let go: after a crash each would count as changed.
    cools: u32,
    round: u32,
    flush: Option<FirstFlush>,
    check: Option<Check>,
    /// Answers that will come although nobody wants them any more; they come in the order they were asked for.
    stale: usize,
    /// The peer's process whose image was found to be the disk; nothing travelled since.
    passed: Option<u64>,
}

/// Whether a node never took part, or says so.
fn is_blank(hello: &Hello) -> bool {
    hello.lineage.generation == Generation::NONE
}

impl Engine {
    /// Since when a disk is being shipped, in ms since 1970.
    #[must_use]
    pub fn seeding(&self) -> Option<u64> {
        Some(self.superblock.seeding).filter(|at| *at != 0)
    }

    /// Nothing may travel: the marks are those against a disk on its way.
    pub(crate) fn is_seeding(&self) -> bool {
        self.seed.beginning || self.superblock.seeding != 0
    }

    /// Whether the peer's image was found to be the disk that was shipped.
    pub(crate) fn is_seeded(&self, peer: &Hello) -> bool {
        is_blank(peer) && self.seed.passed == Some(peer.incarnation)
    }

    /// A node without a history tells what it holds to whoever leads: no stream changes it yet.
    pub(crate) fn is_blank(&self) -> bool {
        self.superblock.lineage.generation == Generation::NONE && !self.is_adopting()
    }

    pub(crate) fn seed_begin(&mut self, id: CommandId, at: u64) -> Result<Option<String>, Refusal> {
        let (group, peer) = (self.shared.config.group.clone(), self.shared.config.peer.clone());
        if self.standing.is_leaving() || self.seed.beginning || self.seed.flush.is_some() {
            return Err(busy());
        }
        if self.shared.metadata_failed {
            return Err(self.shared.metadata_refusal());
        }
        // The marks say what is good at the peer alone, and a disk copied from here would be of the rest.
        if self.is_lacking() {
            return Err(self.lacks("seed begin"));
        }
        let known = self.session.peer().is_some_and(|hello| !is_blank(hello));
        let Some(primary) = self.standing.primary_mut() else {
            return Err(self.not_primary("seed begin"));
        };
        if known || primary.flow.is_some() {
            return Err(Refusal::new(
                "peer-has-a-copy",
                format!("{peer} is connected and has a copy of {group}: there is nothing to seed"),
                format!(
                    "to seed it again: stop the daemon on {peer}, then `helio seed begin {group}`"
                ),
            ));
        }
        if self.shared.suspect.any() {
            return Err(self.suspect_refusal());
        }
        if let Some((volume, fault)) = primary.faulted {
            return Err(self.volume_refusal(volume, fault));
        }
        primary.peer_keeping.forget_refusal();
        primary.drop_queue("a disk is to be shipped", &mut self.shared);
        self.seed_stopped("the seed starts again");
        self.update_wanted = false;
        self.seed.beginning = true;
        self.seed.passed = None;
        // What it said of itself when it connected may be old by now.
        self.hang_up(Parting::RoleChanged, format!("a disk is being shipped to {peer}"));
        self.save(Goal::SeedBegun { command: id, at: at.max(1) });
        Ok(None)
    }

    /// The record says seeding: from here on only what the disk may lack is marked.
    pub(crate) fn seed_begun(&mut self, id: CommandId) {
        self.seed.beginning = false;
        if let Some(primary) = self.standing.primary_mut() {
            // What failed meanwhile is marked, and nobody knows what the store holds there.
            if primary.faulted.is_none() && primary.lack.is_none() {
                primary.mark_for_seed();
            }
            self.shared.cover.bitmap_changed();
            self.seed.cools = COOLS;
            self.relieve(true);
        }
        let left = self.shared.config.volumes.len() as u16;
        self.seed.flush = Some(FirstFlush { command: id, left, failed: None });
        for volume in (0..left).map(VolumeIndex) {
            self.shared.store(volume, StoreOp::Flush, SeedIo::Flush(volume));
        }
    }

    /// One of the flushes before the copy has ended.
    fn seed_flushed(&mut self, volume: VolumeIndex, outcome: &StoreOutcome) {
        self.cover_flushed(volume, outcome);
        let Some(flush) = &mut self.seed.flush else {
            panic!("a flush ended that was not requested")
        };
        if let StoreOutcome::Failed(fault) = *outcome {
            flush.failed = Some((volume, fault));
        }
        flush.left -= 1;
        if flush.left > 0 {
            return;
        }
        let Some(FirstFlush { command, failed, .. }) = self.seed.flush.take() else { return };
        let (group, peer) = (self.shared.config.group.clone(), self.shared.config.peer.clone());
        if let Some((volume, fault)) = failed {
            let suspect = self.shared.suspect.any();
            let refusal =
                if suspect { self.suspect_refusal() } else { self.volume_refusal(volume, fault) };
            return self.done(command, Err(refusal));
        }
        if !self.is_seeding() || !self.standing.leads() {
            return self.done(command, Err(busy()));
        }
        self.shared
            .info(format!("a disk is being shipped to {peer}: changed regions are recorded"));
        let text = format!(
            "copy the volumes of {group} now, put the copy in place on {peer}, then `helio seed end {group}`"
        );
        self.done(command, Ok(text));
    }

    /// Pages of marks were kept: hot extents that were not used since may go.
    pub(crate) fn seed_cools(&mut self) {
        if self.seed.cools > 0 && self.standing.leads() {
            self.seed.cools -= 1;
            self.relieve(true);
        }
    }

    /// It could not be recorded; no mark was cleared.
    pub(crate) fn seed_not_begun(&mut self) {
        self.seed.beginning = false;
    }

    pub(crate) fn seed_end(&mut self, id: CommandId) -> Result<Option<String>, Refusal> {
        let (group, peer) = (self.shared.config.group.clone(), self.shared.config.peer.clone());
        if self.standing.is_leaving() || self.seed.beginning || self.seed.check.is_some() {
            return Err(busy());
        }
        self.refuse_while_suspect()?;
        let Some(primary) = self.standing.primary() else {
            return Err(self.not_primary("seed end"));
        };
        if self.superblock.seeding == 0 {
            return Err(Refusal::new(
                "not-seeding",
                format!("no seeding of {group} was begun"),
                format!("`helio seed begin {group}`, and copy the disk after that"),
            ));
        }
        let Some(hello) = self.session.peer() else {
            return Err(Refusal::later(
                "peer-lost",
                format!("{peer} is not connected ({})", self.session.why),
                format!("put the disk in place on {peer} and start its daemon, then repeat"),
            ));
        };
        if !is_blank(hello) {
            return Err(Refusal::new(
                "peer-has-a-history",
                format!(
                    "{peer} has metadata of {group} from an earlier copy, which does not describe the shipped disk"
                ),
                format!(
                    "stop the daemon on {peer}, move its metadata file of {group} away, start the daemon and repeat; or copy \
                     everything: `helio resync {group} --full`"
                ),
            ));
        }
        let samples = primary.samples();
        self.seed.round += 1;
        let (ready, asked) = (VecDeque::new(), VecDeque::new());
        let (next, looking, compared) = (0, 0, None);
        let command = id;
        self.seed.check = Some(Check { command, samples, next, looking, ready, asked, compared });
        Ok(None)
    }

    /// Everything is copied after all.
    pub(crate) fn seed_given_up(&mut self) -> Result<String, Refusal> {
        // What its record is about to clear must not be marked before.
        if self.seed.beginning {
            return Err(busy());
        }
        self.seed_stopped("the seed is cancelled");
        self.update_wanted = true;
        if let Some(primary) = self.standing.primary_mut() {
            primary.owed.end_pause();
            primary.faulted = None;
        }
        if let Some(blank) = self.session.peer().filter(|hello| is_blank(hello)) {
            self.keeping.heard = blank.metadata;
        }
        self.copy_everything();
        let text = "the seed is cancelled: everything is copied when the peer is connected";
        Ok(String::from(text))
    }

    /// An update is asked for.
    pub(crate) fn refuse_while_seeding(&self) -> Result<(), Refusal> {
        if !self.is_seeding() {
            return Ok(());
        }
        let (group, peer) = (&self.shared.config.group, &self.shared.config.peer);
        Err(Refusal::new(
            "seeding",
            format!("a disk of {group} is being shipped to {peer}"),
            format!(
                "once it is in place: `helio seed end {group}`; to copy everything instead: `helio resync {group} --full`"
            ),
        ))
    }

    /// A comparison comes to nothing.
    pub(crate) fn seed_stopped(&mut self, why: &str) {
        if let Some(check) = self.seed.end_check() {
            let hint = format!("repeat `helio seed end {}`", self.shared.config.group);
            let text = format!("the comparison of the shipped disk was interrupted: {why}");
            self.done(check.command, Err(Refusal::later("busy", text, hint)));
        }
    }

    /// The connection is gone, and with it all answers.
    pub(crate) fn seed_unheard(&mut self) {
        self.seed_stopped("the connection was lost");
        self.seed.stale = 0;
    }

    /// The peer took up a stream, or may: what was found out about its image is old.
    pub(crate) fn seed_travels(&mut self) {
        self.seed.passed = None;
    }

    /// Looks at places here, and asks the peer about them.
    pub(crate) fn seed_step(&mut self) {
        if self.seed.check.is_some() && !self.standing.serves() {
            self.seed_stopped("this node is no longer primary");
        }
        if self.seed.check.is_none() {
            return;
        }
        let (round, roll) = (self.seed.round, self.roll());
        let (Some(check), Some(primary)) = (&mut self.seed.check, self.standing.primary()) else {
            return;
        };
        let s = &mut self.shared;
        while check.looking < LOOKING_MAX && check.next < check.samples.len() {
            let sample = check.next;
            check.next += 1;
            if check.samples[sample].choose(primary, roll.wrapping_mul(2 * sample as u64 + 1) >> 16)
            {
                check.looking += 1;
                check.samples[sample].look(Look { round, sample }, s);
            }
        }
        while check.asked.len() < ASKED_MOST
            && let Some(sample) = check.ready.pop_front()
        {
            let (volume, extent) = check.samples[sample].place;
            check.asked.push_back(sample);
            s.send(Message::Copying(Copying::DigestsWanted { volume, extent, coarse: true }));
        }
        let all = check.next == check.samples.len() && check.looking == 0;
        if all && check.ready.is_empty() && check.asked.is_empty() {
            let since = *check.compared.get_or_insert_with(|| s.cover.next_tick());
            let kept = primary.marks.is_all_saved_since(since);
            if !kept && !self.shared.metadata_failed {
                return;
            }
            let command = check.command;
            self.seed.check = None;
            let peer = self.session.peer().map(|hello| (hello.incarnation, hello.metadata));
            let Some((incarnation, theirs)) = peer else { return };
            // From here on its count begins anew.
            self.keeping.heard = theirs;
            self.save(Goal::Seeded { command, incarnation });
        }
    }

    /// Everything is compared, and only marks are to be kept yet.
    pub(crate) fn seed_wants_marks_kept(&self) -> bool {
        self.seed.check.as_ref().is_some_and(|check| check.compared.is_some())
    }

    /// An operation of its own ended.
    pub(crate) fn seed_ended(&mut self, io: SeedIo, outcome: StoreOutcome) {
        match io {
            SeedIo::Look(look) => self.seed_looked(look, outcome),
            SeedIo::Flush(volume) => self.seed_flushed(volume, &outcome),
        }
    }

    /// A look at a place here ended.
    fn seed_looked(&mut self, look: Look, outcome: StoreOutcome) {
        let roll = self.roll();
        let current = look.round == self.seed.round;
        let (Some(check), Some(primary), true) =
            (&mut self.seed.check, self.standing.primary(), current)
        else {
            if let StoreOutcome::Read { payload, .. } = outcome {
                self.shared.release(payload.id);
            }
            return;
        };
        let sample = &mut check.samples[look.sample];
        match outcome {
            StoreOutcome::Read { payload, zero } => {
                self.shared.release(payload.id);
                let more = zero && sample.looks < LOOKS && sample.choose(primary, roll);
                if more {
                    sample.look(look, &mut self.shared);
                } else {
                    let (volume, extent) = sample.place;
                    let op = StoreOp::Digest { extent, coarse: true };
                    self.shared.store(volume, op, SeedIo::Look(look));
                }
            }
            StoreOutcome::Digests(list) => {
                sample.ours = list;
                check.looking -= 1;
                check.ready.push_back(look.sample);
            }
            StoreOutcome::Failed(fault) => {
                let (volume, extent) = sample.place;
                let why = format!(
                    "this node cannot read {extent} of volume {}: {fault}",
                    self.shared.config.name_of(volume)
                );
                self.seed_stopped(&why);
            }
            other => panic!("a look at a sample ended as {other:?}"),
        }
    }

    /// The peer told what it holds at a place. Returns whether it was asked by the comparison.
    pub(crate) fn seed_told(&mut self, place: (VolumeIndex, Extent), list: &[Digest]) -> bool {
        if self.seed.stale > 0 {
            self.seed.stale -= 1;
            return true;
        }
        let (Some(check), Some(primary)) = (&mut self.seed.check, self.standing.primary()) else {
            return false;
        };
        let Some(sample) = check.asked.front().map(|n| &check.samples[*n]) else { return false };
        if sample.place != place {
            return false;
        }
        let same = sample.ours == list;
        check.asked.pop_front();
        let (volume, extent) = place;
        // What was written meanwhile is copied anyway.
        if !same && !primary.marks.may_differ(volume, extent.offset) {
            let command = check.command;
            self.seed.end_check();
            let refusal = self.not_the_disk(volume, extent);
            self.shared.warn(refusal.text.clone());
            self.done(command, Err(refusal));
        }
        true
    }

    fn not_the_disk(&self, volume: VolumeIndex, extent: Extent) -> Refusal {
        let (group, peer) = (&self.shared.config.group, &self.shared.config.peer);
        Refusal::new(
            "not-the-disk",
            format!(
                "the disk of {group} on {peer} is not a copy made since `helio seed begin {group}`: volume {} differs at \
                 {extent}, which was not written since",
                self.shared.config.name_of(volume)
            ),
            format!(
                "put the right disk in place on {peer} and repeat; or copy everything: `helio resync {group} --full`"
            ),
        )
    }

    /// The record says seeding no more: the two meet anew.
    pub(crate) fn seeded(&mut self, id: CommandId, incarnation: u64) {
        let same = self.session.peer().is_some_and(|hello| hello.incarnation == incarnation);
        let Some(primary) = self.standing.primary_mut().filter(|_| same) else {
            let text = "the connection was lost after the samples of the shipped disk were compared; all data will be compared";
            return self.done(id, Ok(String::from(text)));
        };
        primary.owed.end_pause();
        let left = primary.marks.dirty_bytes();
        self.seed.passed = Some(incarnation);
        self.update_wanted = true;
        self.done(
            id,
            Ok(format!("the disk is the shipped one: {left} that changed since then are copied")),
        );
        self.meet_as_source();
    }

    /// The peer's image is the disk that was shipped: the marks tell what it lacks.
    pub(crate) fn update_seeded(&mut self) {
        if let Some(primary) = self.standing.primary_mut() {
            primary.peer_copy = PeerCopy::Shipped { by_bitmaps: false };
            if planted(Plant::SeedForgets) {
                primary.marks.clear();
            }
        }
        self.update_wanted = true;
        self.sync_as_wanted();
    }
}

impl Seed {
    fn end_check(&mut self) -> Option<Check> {
        let check = self.check.take()?;
        self.stale += check.asked.len();
        Some(check)
    }
}

impl Primary {
    /// Only what is under way may be missing from a copy that begins now.
    fn mark_for_seed(&mut self) {
        self.marks.clear();
        let pending = self.line.iter().filter(|entry| entry.local == Local::Pending);
        for entry in pending.filter(|entry| entry.item.kind.changes_data()) {
            self.marks.set(entry.item.volume, entry.item.extent);
        }
    }

    /// Every volume in stretches of equal length.
    fn samples(&self) -> Vec<Sample> {
        let cut = |regions: Range<u64>| {
            let count = (regions.end - regions.start).min(SAMPLES);
            let at = move |n: u64| {
                let whole = u128::from(regions.end - regions.start) * u128::from(n);
                regions.start + (whole / u128::from(count)) as u64
            };
            (0..count).map(move |n| at(n)..at(n + 1)).collect::<Vec<_>>()
        };
        let place = (VolumeIndex::default(), Extent::default());
        let sample = |regions| Sample { regions, place, looks: 0, ours: Vec::new() };
        self.marks.grid().volumes().flat_map(cut).map(sample).collect()
    }
}

impl Sample {
    /// Chooses an unmarked place, by that roll of the dice. Returns false where there is none.
    fn choose(&mut self, primary: &Primary, roll: u64) -> bool {
        let Range { start, end } = self.regions.clone();
        let first = start + roll % (end - start);
        let open = (first..end).chain(start..first).map(Region).find_map(|region| {
            let (volume, extent) = primary.marks.place(region);
            (!primary.marks.may_differ(volume, extent.offset)).then_some((volume, extent))
        });
        let Some((volume, extent)) = open else { return false };
        self.place = (volume, Extent::new(extent.offset, extent.length.min(SAMPLE.0)));
        true
    }

    fn look(&mut self, look: Look, s: &mut Shared) {
        self.looks += 1;
        let (volume, extent) = self.place;
        let op = StoreOp::Read { extent, look_for_zeros: true };
        debug_assert_eq!(digests_of(extent, true), 1, "a sample has one digest");
        s.store(volume, op, SeedIo::Look(look));
    }
}
