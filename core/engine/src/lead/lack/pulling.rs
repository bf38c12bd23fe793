// SPDX-License-Identifier: Apache-2.0
//! The regions that the puller works on, and how far it is with each (`pull.rs`, `compare.rs`).

use crate::lead::lack::questions::{Ask, PULLING_MAX};
use crate::purpose::Pulled;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::RangeBounds;
use core::time::Duration;
use helio_bitmap::{Bitmap, Region};
use helio_copy::{Claim, Guess, Walk};
use helio_units::{Bytes, Extent, Moment, Payload, VolumeIndex};

/// What the peer could not read is asked for again after that long.
const REST: Duration = Duration::from_secs(1);

/// Bytes of a region that the peer told: at the gate, or being written here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetched {
    pub(crate) claim: Claim,
    pub(crate) volume: VolumeIndex,
    pub(crate) extent: Extent,
    pub(crate) payload: Option<Payload>,
}

/// See above.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulling {
    /// Regions being pulled, each with the count of pieces that are to be written here.
    walk: Walk<u32>,
    /// Bytes in them, from the question to the end of their write.
    bytes: Bytes,
    /// Of which the peer was asked for digests, in the order of its answers.
    comparing: VecDeque<Claim>,
    /// How many are being read here to compare.
    reading: u32,
    /// What was found to differ and was not asked for yet: no more than the regions being pulled hold.
    differing: VecDeque<Ask>,
    fetched: BTreeMap<Pulled, Fetched>,
    /// Whether to compare at all.
    guess: Guess,
    rest: Rest,
}

/// When the next region may be asked for.
#[derive(Clone, Copy, Debug)]
enum Rest {
    /// The peer could not read what was asked: not before then again.
    Until(Moment),
    /// It stopped at an error, until an operator says update; and not before then.
    Halted(Moment),
}

impl Default for Rest {
    fn default() -> Self {
        Self::Until(Moment::ZERO)
    }
}

impl Pulling {
    /// Whether a region of that size may be claimed now.
    pub(super) fn may_claim(&self, grain: Bytes, now: Moment) -> bool {
        self.rests_until().is_some_and(|at| now >= at) && self.bytes + grain <= PULLING_MAX
    }

    /// Claims the next lacking region of these volumes.
    pub(super) fn claim(
        &mut self,
        number: u64,
        volumes: impl Iterator<Item = VolumeIndex> + Clone,
        marks: &mut Bitmap,
    ) -> Option<Claim> {
        let claim = self.walk.claim(number, 1, |from| {
            volumes.clone().find_map(|volume| marks.begin_copy_of(volume, from))
        })?;
        self.bytes += Bytes(marks.place(claim.region).1.length);
        Some(claim)
    }

    /// Ends a claim. If the region is still missing, it is claimed again later.
    pub(super) fn unclaim(&mut self, claim: Claim, marks: &mut Bitmap) {
        if self.walk.end(claim) {
            self.bytes -= Bytes(marks.place(claim.region).1.length);
            marks.abandon_copy(claim.region);
        }
    }

    /// What is at the gate or written here by now ends nothing any more.
    pub(super) fn unclaim_all(&mut self, marks: &mut Bitmap) {
        let all: Vec<Claim> = self.walk.claims().collect();
        all.into_iter().for_each(|claim| self.unclaim(claim, marks));
    }

    /// These regions are written now: data requested before is stale.
    pub(super) fn touch(&mut self, regions: impl RangeBounds<Region>) {
        self.walk.touch(regions);
    }

    /// Whether what is fetched for it counts no more.
    pub(super) fn is_touched(&self, claim: Claim) -> bool {
        self.walk.is_touched(claim)
    }

    /// Bytes of regions from the question to the end of their write.
    pub(super) const fn under_way(&self) -> Bytes {
        self.bytes
    }

    /// Whether the next region is asked for without a comparison.
    pub(super) fn is_raw(&self) -> bool {
        self.guess.is_raw()
    }

    /// A region is asked for without a comparison.
    pub(super) fn count_raw(&mut self) {
        self.guess.count_raw(1);
    }

    /// The peer is asked for digests of a region.
    pub(super) fn compare(&mut self, claim: Claim) {
        self.guess.count_asked();
        self.comparing.push_back(claim);
    }

    /// Questions about digests that are open.
    pub(super) fn comparing(&self) -> usize {
        self.comparing.len()
    }

    /// The region that the peer's next digests are about.
    pub(super) fn digests_told(&mut self) -> Option<Claim> {
        self.comparing.pop_front()
    }

    /// A region is read here, to compare it.
    pub(super) const fn begin_read(&mut self) {
        self.reading += 1;
    }

    /// That read ended.
    pub(super) const fn end_read(&mut self) {
        self.reading -= 1;
    }

    /// A region of that length was compared, and this differs.
    pub(super) fn compared(&mut self, claim: Claim, length: u64, differing: Vec<Ask>) {
        self.guess.learn(differing.iter().map(|ask| ask.extent.length).sum(), length);
        if let Some(pieces) = self.walk.data_mut(claim) {
            *pieces = differing.len() as u32;
        }
        self.differing.extend(differing);
    }

    /// Pieces that differ and were not asked for yet.
    pub(super) fn differing(&self) -> usize {
        self.differing.len()
    }

    /// The next of them, if it fits.
    pub(super) fn next_differing(&mut self, fits: impl FnOnce(Bytes) -> bool) -> Option<Ask> {
        self.differing.pop_front_if(|ask| fits(Bytes(ask.extent.length)))
    }

    /// The peer told bytes of a region.
    pub(super) fn put(&mut self, ticket: Pulled, fetched: Fetched) {
        self.fetched.insert(ticket, fetched);
    }

    /// What the peer told, until its write here ended.
    pub(super) fn fetched(&self, ticket: Pulled) -> Option<Fetched> {
        self.fetched.get(&ticket).copied()
    }

    /// Its write here ended, or does not happen.
    pub(super) fn take(&mut self, ticket: Pulled) -> Option<Fetched> {
        self.fetched.remove(&ticket)
    }

    /// Whether that extent is at the gate, or being written here.
    pub(super) fn is_at(&self, volume: VolumeIndex, extent: Extent) -> bool {
        self.fetched.values().any(|f| (f.volume, f.extent) == (volume, extent))
    }

    /// A piece of a region is written. Returns whether it was the last one.
    pub(super) fn wrote_last(&mut self, claim: Claim) -> bool {
        let Some(pieces) = self.walk.data_mut(claim) else { return false };
        *pieces -= 1;
        *pieces == 0
    }

    /// An error stops it.
    pub(super) const fn halt(&mut self) {
        if let Rest::Until(at) = self.rest {
            self.rest = Rest::Halted(at);
        }
    }

    /// An operator lets it go on.
    pub(super) const fn go_on(&mut self) {
        if let Rest::Halted(at) = self.rest {
            self.rest = Rest::Until(at);
        }
    }

    /// The peer could not read.
    pub(super) fn rest(&mut self, now: Moment) {
        let (Rest::Until(at) | Rest::Halted(at)) = &mut self.rest;
        *at = now + REST;
    }

    /// When it may go on: none if it stopped at an error.
    pub(super) const fn rests_until(&self) -> Option<Moment> {
        match self.rest {
            Rest::Until(at) => Some(at),
            Rest::Halted(_) => None,
        }
    }

    /// Asks for no digests from here on, and for nothing that differs.
    pub(super) fn unask(&mut self) {
        self.comparing.clear();
        self.differing.clear();
    }

    /// Nothing is read or written here.
    pub(super) fn is_quiet(&self) -> bool {
        self.reading == 0 && self.fetched.is_empty()
    }

    /// No region is being pulled.
    pub(super) fn is_idle(&self) -> bool {
        self.walk.is_idle() && self.comparing.is_empty()
    }
}
