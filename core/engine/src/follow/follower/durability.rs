// SPDX-License-Identifier: Apache-2.0
//! What of a follower's items is durable: by volume what was written and what was flushed, and its own flushes.

use super::cursors::Cursors;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Moment, Sequence, VolumeIndex};

/// A completion waits at most this long to become durable.
const FLUSH_AFTER: Duration = Duration::from_millis(50);

/// A flush of the follower's own.
#[derive(Clone, Debug, Default)]
struct SelfFlush {
    /// Volumes whose flush has not ended.
    running: u32,
    /// The completed prefix when it began.
    upto: Sequence,
    /// Bytes completed and in no flush yet.
    bytes: Bytes,
    /// When the completed prefix first passed the durable one.
    since: Option<Moment>,
    /// The sender waits.
    hurry: bool,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Durability {
    flush: SelfFlush,
    /// The last item that was written, by volume.
    written: Vec<Sequence>,
    /// What the last flush covers, by volume.
    flushed: Vec<Sequence>,
    /// The marker that waits until everything before it is durable.
    marker: Option<Sequence>,
    /// What was written here before this incarnation follows may not be durable. A copy that counts as consistent from
    /// its first item on is read and built upon, so it must be.
    unsure: bool,
}

impl Durability {
    pub(super) fn new(volumes: usize) -> Self {
        Self {
            flush: SelfFlush::default(),
            written: vec![Sequence::ZERO; volumes],
            flushed: vec![Sequence::ZERO; volumes],
            marker: None,
            unsure: true,
        }
    }

    /// Another stream is adopted: the positions of the one before mean nothing.
    pub(super) fn restart(&mut self) {
        self.marker = None;
        self.written.fill(Sequence::ZERO);
        self.flushed.fill(Sequence::ZERO);
    }

    pub(super) const fn is_unsure(&self) -> bool {
        self.unsure
    }

    pub(super) const fn is_flushing(&self) -> bool {
        self.flush.running > 0
    }

    /// A start waits for what was received.
    pub(super) fn start_waits(&mut self) {
        self.flush.hurry = true;
    }

    /// The marker at `at` waits for what is before it.
    pub(super) fn marker_waits(&mut self, at: Sequence) {
        self.marker = Some(at);
        self.flush.hurry = true;
    }

    /// Whether the marker waits for nothing any more, which is said once. `next`: the first item that is not complete.
    pub(super) fn marker_reached(&mut self, at: Cursors, next: Option<Sequence>) -> bool {
        let is_next = self.marker.is_some() && self.marker == next;
        let reached = is_next && !at.are_apart() && !self.is_flushing();
        self.marker = self.marker.filter(|_| !reached);
        reached
    }

    /// The sender waits for room or for an answer.
    pub(super) fn hurry(&mut self, at: Cursors) {
        self.flush.hurry = at.are_apart() || self.is_flushing();
    }

    /// An item is complete and may not be durable; so much for the next flush.
    pub(super) fn wrote(&mut self, volume: VolumeIndex, at: Sequence, bytes: Bytes) {
        let written = &mut self.written[usize::from(volume.0)];
        *written = (*written).max(at);
        self.flush.bytes += bytes;
    }

    /// A volume was flushed up to there.
    pub(super) fn flushed(&mut self, volume: VolumeIndex, upto: Sequence) {
        let flushed = &mut self.flushed[usize::from(volume.0)];
        *flushed = (*flushed).max(upto);
    }

    /// The completed prefix is beyond the durable one, from now on if it was not.
    pub(super) fn count_from(&mut self, at: Cursors, now: Moment) {
        if at.are_apart() {
            self.flush.since.get_or_insert(now);
        }
    }

    /// The largest position up to which everything is durable. A volume without writes since its last flush
    /// constrains nothing.
    pub(super) fn reaches(&self, completed: Sequence) -> Sequence {
        let constraint =
            |(written, flushed): (&Sequence, &Sequence)| (written > flushed).then_some(*flushed);
        let pairs = self.written.iter().zip(&self.flushed);
        let pairs = pairs.filter(|_| !planted(Plant::DurableUnflushed));
        pairs.filter_map(constraint).min().unwrap_or(completed).min(completed)
    }

    /// Begins a flush if one is due, and says of how many volumes; of all of them if it is the `first`. [`Self::covers`]
    /// tells which.
    pub(super) fn begin(
        &mut self,
        at: Cursors,
        now: Moment,
        full: Bytes,
        first: bool,
    ) -> Option<u32> {
        let SelfFlush { running, bytes, since, hurry, .. } = self.flush;
        let old = since.is_some_and(|since| now - since >= FLUSH_AFTER);
        let due = at.are_apart() && (bytes >= full || old || hurry);
        if running > 0 || !(due || first) {
            return None;
        }
        self.unsure &= !first;
        let volumes = (0..self.written.len() as u16).map(VolumeIndex);
        let running = volumes.filter(|volume| self.covers(*volume, first)).count() as u32;
        self.flush = SelfFlush { running, upto: at.completed(), ..SelfFlush::default() };
        Some(running)
    }

    /// Whether a flush that begins now is of that volume: it was written since its last one, or this is the `first`.
    pub(super) fn covers(&self, volume: VolumeIndex, first: bool) -> bool {
        let at = usize::from(volume.0);
        first || self.written[at] > self.flushed[at]
    }

    /// A flush of one volume ended. Returns up to where it was, or nothing if it was begun before this node began to follow
    /// again: then it says nothing of what came since.
    pub(super) fn ended(&mut self) -> Option<Sequence> {
        self.flush.running = self.flush.running.checked_sub(1)?;
        Some(self.flush.upto)
    }

    /// When the next flush falls due by time.
    pub(super) fn deadline(&self, at: Cursors) -> Moment {
        let since = self.flush.since.filter(|_| at.are_apart() && !self.is_flushing());
        since.map_or(Moment::NEVER, |since| since + FLUSH_AFTER)
    }
}
