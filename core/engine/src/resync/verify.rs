// SPDX-License-Identifier: Apache-2.0
//! Verify: compares the two copies, region by region, while they are written.
//!
//! ```text
//!  region ─queue room─> gate ─read, digests─> position ─> line ─> peer compares behind its gate ─> Differs*, ack
//! ```
//! A comparison is an item on the line, so both sides look at the same moment of it: here the gate is held from the
//! read until the position is taken, there the item passes the gate like a write. So a difference is a difference,
//! whatever load there is.
//!
//! A comparison counts once its item is acknowledged on the stream it was asked on; what differs is told before. When
//! a stream begins anew, everything that did not count is asked again, and what lies on the line for a peer that lost
//! its memory compares no more: that peer's image may hold later items already.
//!
//! The place outlives the primary that runs it, and the daemon carries it over a restart.

use crate::effect::StoreOp;
use crate::engine::Engine;
use crate::event::{StoreOutcome, VerifyMemory, VerifyWish};
use crate::peer::primary::{Primary, PrimaryIo};
use crate::refusal::{Refusal, StoreFault};
use crate::role::busy;
use crate::shared::Shared;
use crate::stream::write::Ticket;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use helio_format::message::{Item, ItemKind};
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, Moment, Sequence, VolumeIndex};

/// Bytes one item compares: with 16 bytes for every 4 KiB its payload is 256 bytes.
const STEP: Bytes = Bytes::kib(64);
/// Most comparisons asked and not counted: 8 MiB, which keeps a disk busy over a long link.
const IN_FLIGHT_MAX: usize = 128;
/// What one costs the queue.
const COST: Bytes = Bytes(1024);
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

/// A comparison that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    volume: VolumeIndex,
    extent: Extent,
    /// Which stream it was begun on, counted.
    epoch: u32,
}

#[derive(Clone, Debug)]
struct Asked {
    check: Check,
    at: Option<Sequence>,
    differs: bool,
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

impl Verify {
    /// How far each volume is.
    pub(crate) fn volumes(&self) -> &[VolumeVerify] {
        &self.volumes
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

    fn begin(&mut self, wish: VerifyWish, sizes: &[Bytes], now: Moment) {
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
    }

    /// One left by an earlier start learns what it is about.
    fn wake(&mut self, sizes: &[Bytes], now: Moment) {
        if let Some(run) = self.run.as_ref().filter(|run| run.left.is_empty()) {
            self.begin(run.wish, sizes, now);
        }
    }

    fn stop(&mut self, why: Option<String>) {
        self.run = None;
        self.stopped = why;
        self.revision += 1;
        self.rewind();
    }

    /// The next region to compare; it counts as asked.
    fn ask(&mut self, sizes: &[Bytes], now: Moment) -> Option<Check> {
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
        self.asked.push_back(Asked { check, at: None, differs: false });
        Some(check)
    }

    /// A comparison came to nothing: it and what was asked behind it are asked again.
    fn abandon(&mut self, check: Check) {
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

    /// A comparison counts.
    fn count(&mut self, asked: &Asked, size: Bytes, now: Moment) -> Option<VerifyPass> {
        let Check { volume, extent, .. } = asked.check;
        if !asked.differs {
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
    fn found(&mut self, volume: VolumeIndex, extent: Extent, at: Sequence) -> bool {
        let asked = self.asked.iter_mut().find(|asked| asked.at == Some(at));
        if let Some(asked) = asked {
            let first = !core::mem::replace(&mut asked.differs, true);
            let region = asked.check.extent;
            if first {
                self.forget(volume, region);
            }
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

impl Primary {
    /// What a verify waits for, if it cannot go on.
    fn verify_waits(&self) -> Option<&'static str> {
        match self.flow {
            None => Some("items are not sent to the peer"),
            Some(_) if self.faulted.is_some() => Some("the local disk failed"),
            Some(_) if !self.owed.stays_consistent() => Some("a resync is running"),
            Some(_) if !self.marks.none_dirty() => Some("dirty regions are being copied"),
            Some(_) => None,
        }
    }

    /// Counts what was compared, and asks for as much more as the bounds allow.
    pub(crate) fn verify_step(&mut self, s: &mut Shared) {
        // What is lacking here would be found different, and is known.
        if s.verify.run.is_none() || self.lack.is_some() {
            return;
        }
        s.verify.wake(&s.config.volumes, s.now);
        self.count_comparisons(s);
        if self.verify_waits().is_some() {
            return;
        }
        while s.verify.asked.len() < IN_FLIGHT_MAX && s.now >= s.verify.not_before {
            let alone = s.verify.asked.is_empty();
            let room = self.queue.held().1.0 < s.config.queue.items.0 / 2;
            let in_flight = COST * s.verify.asked.len() as u64;
            if !(room || alone) || !self.queue.admits_copy(COST, in_flight) {
                return;
            }
            let Some(check) = s.verify.ask(&s.config.volumes, s.now) else { return };
            self.queue.enter(COST, s.now);
            if self.gate.enter(Ticket::Verify(check), check.volume, check.extent) {
                Self::verify_read(check, s);
            }
        }
    }

    /// The gate is ours: read the region.
    pub(crate) fn verify_read(check: Check, s: &mut Shared) {
        let op = StoreOp::DigestPayload { extent: check.extent };
        s.store(check.volume, op, PrimaryIo::Verify(check));
    }

    /// The region was read: onto the line with its digests, and the gate back.
    pub(crate) fn verify_done(&mut self, check: Check, outcome: StoreOutcome, s: &mut Shared) {
        let asked = s.verify.asked.iter_mut().find(|asked| asked.check == check);
        match (outcome, asked) {
            (StoreOutcome::Read { payload, .. }, Some(asked)) if self.verify_waits().is_none() => {
                let item = Item {
                    sequence: self.line.head.next(),
                    after: self.answered,
                    kind: ItemKind::Verify,
                    fua: false,
                    punch: false,
                    resync: false,
                    volume: check.volume,
                    extent: check.extent,
                    payload: Some(payload),
                };
                asked.at = Some(item.sequence);
                self.push(item, None, COST, s);
            }
            (StoreOutcome::Read { payload, .. }, _) => {
                s.release(payload.id);
                self.queue.leave(COST);
                s.verify.abandon(check);
            }
            (StoreOutcome::Failed(fault), asked) => {
                let current = asked.is_some();
                self.queue.leave(COST);
                if current {
                    let volume = s.config.name_of(check.volume);
                    s.verify.unreadable(check.extent, &volume, fault);
                    s.warn(format!(
                        "verify stopped: {fault} at {} of volume {}",
                        check.extent,
                        s.config.name_of(check.volume)
                    ));
                }
            }
            (other, _) => panic!("a read for a verify ended as {other:?}"),
        }
        self.leave_gate(check.volume, check.extent, s);
    }

    fn count_comparisons(&mut self, s: &mut Shared) {
        while let Some(Asked { check, at: Some(at), .. }) = s.verify.asked.front() {
            let (volume, at) = (check.volume, *at);
            let here = self.line.get(at).is_some_and(|entry| entry.peer_completed);
            if !here && at > self.cursors.completed {
                return;
            }
            let Some(asked) = s.verify.asked.pop_front() else { return };
            let size = s.config.volumes[usize::from(volume.0)];
            if let Some(pass) = s.verify.count(&asked, size, s.now) {
                s.info(format!(
                    "volume {} is compared completely: {} differed",
                    s.config.name_of(volume),
                    pass.differed
                ));
            }
        }
    }

    /// Differences that were only listed become marks, for the copier.
    pub(crate) fn mark_differing(&mut self, s: &mut Shared) {
        for ((volume, offset), length) in core::mem::take(&mut s.verify.listed) {
            self.marks.set(volume, Extent::new(offset, length));
            s.cover.bitmap_changed();
            s.verify.revision += 1;
        }
    }

    /// A peer that lost its memory may hold items from behind `durable` already: comparisons there mean nothing.
    pub(crate) fn forget_comparisons(&mut self, durable: Sequence, s: &mut Shared) {
        if planted(Plant::CompareAgain) {
            return;
        }
        let compares = |item: &Item| item.kind == ItemKind::Verify && item.sequence > durable;
        for entry in self.line.iter_mut().filter(|entry| compares(&entry.item)) {
            entry.item.kind = ItemKind::Same;
            entry.item.payload.take().into_iter().for_each(|payload| s.release(payload.id));
        }
    }
}

impl Verify {
    fn unreadable(&mut self, extent: Extent, volume: &str, fault: StoreFault) {
        self.stop(Some(format!("this node cannot read {extent} of volume {volume}: {fault}")));
    }
}

impl Engine {
    pub(crate) fn verify(&mut self, wish: VerifyWish) -> Result<Option<String>, Refusal> {
        if self.standing.is_leaving() {
            return Err(busy());
        }
        let Some(primary) = self.standing.primary_mut() else {
            return Err(self.not_primary("verify start"));
        };
        let s = &mut self.shared;
        let group = s.config.group.clone();
        if s.verify.run.is_some() {
            return Err(Refusal::later(
                "verifying",
                format!("a verify of {group} runs already"),
                format!("wait for its end, or `helio verify stop {group}`"),
            ));
        }
        if wish.repair {
            primary.mark_differing(s);
        }
        s.verify.begin(wish, &s.config.volumes, s.now);
        let resumed = s.verify.volumes.iter().any(|volume| volume.place > 0) && !wish.restart;
        let what = if resumed { "continues at its position" } else { "begins" };
        Ok(Some(match primary.verify_waits() {
            Some(waits) => format!("the verify of {group} {what} later: {waits}"),
            None => format!("the verify of {group} {what}"),
        }))
    }

    pub(crate) fn stop_verify(&mut self) -> Result<Option<String>, Refusal> {
        if self.shared.verify.run.is_none() {
            return Ok(Some(String::from("no verify is running")));
        }
        self.shared.verify.stop(Some(String::from("the operator stopped it")));
        Ok(Some(String::from("the verify stops; the next one continues from there")))
    }

    /// The peer found a difference.
    ///
    /// # Errors
    /// It lies outside of its volume; the connection must end.
    pub(crate) fn peer_differs(
        &mut self,
        volume: VolumeIndex,
        extent: Extent,
        at: Sequence,
    ) -> Result<(), String> {
        let s = &mut self.shared;
        let size = s.config.volumes.get(usize::from(volume.0)).map_or(0, |size| size.0);
        if extent.end() > size {
            return Err(format!(
                "it reports {extent} of volume {} as different",
                s.config.name_of(volume)
            ));
        }
        let Some(primary) =
            self.standing.primary_mut().filter(|p| p.flow.is_some() && !p.owed.has_lost_order())
        else {
            return Ok(());
        };
        let compares = |item: &Item| item.kind == ItemKind::Verify && item.volume == volume;
        if !primary.line.get(at).is_some_and(|entry| compares(&entry.item)) {
            return Ok(());
        }
        if s.verify.volumes[usize::from(volume.0)].differed < WARNED_UPTO {
            let (volume, peer) = (s.config.name_of(volume), &s.config.peer);
            s.warn(format!("verify: {extent} of volume {volume} differs on {peer}"));
        }
        if s.verify.found(volume, extent, at) {
            primary.marks.set(volume, extent);
            s.cover.bitmap_changed();
        }
        Ok(())
    }

    pub(crate) fn verify_deadline(&self) -> Moment {
        let verify = &self.shared.verify;
        let may = self.is_primary() && verify.run.is_some() && verify.asked.len() < IN_FLIGHT_MAX;
        let waits = self.standing.primary().and_then(Primary::verify_waits);
        let limited = verify.not_before > self.shared.now;
        if may && waits.is_none() && limited { verify.not_before } else { Moment::NEVER }
    }

    /// Moves on whenever something is worth a record.
    #[must_use]
    pub fn verify_revision(&self) -> u64 {
        self.shared.verify.revision
    }

    /// What is known of verifies.
    #[must_use]
    pub fn verify_status(&self) -> VerifyStatus {
        let v = &self.shared.verify;
        let waits = match self.standing.primary() {
            None => Some("this node is not primary"),
            Some(primary) => primary.verify_waits(),
        };
        VerifyStatus {
            run: v.run.as_ref().map(|run| RunStatus {
                wish: run.wish,
                volume: run.left.front().copied().unwrap_or_default(),
                compared: run.compared,
                total: run.total,
                since: run.since,
                waits,
            }),
            volumes: v.volumes.clone(),
            listed: v
                .listed
                .iter()
                .map(|((v, at), length)| (*v, Extent::new(*at, *length)))
                .collect(),
            beyond: v.beyond,
            stopped: v.stopped.clone(),
        }
    }
}
