// SPDX-License-Identifier: Apache-2.0
//! The lag that a node reports is never too small: a primary's is of now, a secondary's of the last message that it
//! heard of its primary.

use super::Oracle;
use super::history::Serial;
use crate::promise::{Promise, Violation, hold};
use helio_twin::{BLOCK, Cluster, Place, Side};
use helio_units::{SECTOR, State, VolumeIndex};
use std::collections::VecDeque;

/// The pings of one node, and what it heard of the other's.
#[derive(Debug, Default)]
pub(super) struct Pings {
    /// On their way, by token, and when each was sent.
    sent: VecDeque<(u64, Serial)>,
    /// The last one it heard, and when that was sent.
    heard: Option<(u64, Serial)>,
}

impl Pings {
    /// Its process ended: nothing more arrives of it than what has, and it forgets what it heard.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Oracle {
    pub(super) fn pinged(&mut self, cluster: &Cluster, side: Side, token: u64) {
        let engine = cluster.node(side).engine.as_ref();
        // What it tells while a disk is shipped is about that disk.
        let seeds = engine.is_some_and(|engine| engine.view().seeding().is_some());
        let at = if seeds { 0 } else { self.serial };
        self.pings[side.index()].sent.push_back((token, at));
    }

    /// Notes which ping each node heard last.
    pub(super) fn note_pings(&mut self, cluster: &Cluster) {
        for side in Side::BOTH {
            let engine = cluster.node(side).engine.as_ref();
            let token = engine.and_then(|engine| engine.view().told());
            let news = token.filter(|token| {
                self.pings[side.index()].heard.is_none_or(|(heard, _)| heard != *token)
            });
            let Some(token) = news else { continue };
            let sent = &mut self.pings[side.other().index()].sent;
            while sent.front().is_some_and(|(first, _)| *first < token) {
                sent.pop_front();
            }
            let at = sent.front().filter(|(first, _)| *first == token).map_or(0, |(_, at)| *at);
            self.pings[side.index()].heard = Some((token, at));
        }
    }

    /// A primary must not report a smaller lag than the acknowledged data that its peer does not have. If only the bitmap is
    /// kept, every differing block of a marked region counts. If items are queued or sent, the peer may be ahead: a block
    /// counts if an acknowledged write is newer than the peer's content.
    pub(super) fn judge_lag(&self, cluster: &Cluster, side: Side) -> Result<(), Violation> {
        let node = cluster.node(side);
        let Some(engine) = node.engine.as_ref() else { return Ok(()) };
        let streams = match engine.view().state() {
            State::Logging | State::NeedsRoom => false,
            // What a peer that died completed and lost is known when it comes back.
            State::Replicating | State::CatchingUp | State::Syncing if self.is_as_met(side) => true,
            State::Queuing => true,
            _ => return Ok(()),
        };
        if node.disk.under_way() > 0 || !self.lag_due || self.went_back(side) {
            return Ok(());
        }
        let Some(lag) = engine.view().reported_lag() else { return Ok(()) };
        let mut lacking = 0;
        for (volume, regions) in (0u16..).map(VolumeIndex).zip(&self.differing) {
            let marked = |region: &usize| {
                engine.view().is_marked(volume, (region * self.grain) as u64 * BLOCK.0)
            };
            let counts = regions.iter().enumerate().filter(|(region, n)| **n > 0 && marked(region));
            lacking += counts
                .map(
                    |(region, n)| {
                        if streams { self.owed(side, volume, region, Serial::MAX) } else { *n }
                    },
                )
                .map(u64::from)
                .sum::<u64>();
        }
        // A write may end within its last block, and content is told by blocks.
        let most = lag.bytes.0 + lag.writes * (BLOCK.0 - SECTOR);
        hold(most >= lacking * BLOCK.0, Promise::Reports, || {
            format!("{side} reports a lag of {}, and its peer lacks {lacking} blocks", lag.bytes)
        })
    }

    /// The peer has run, and its disk has kept what it completed, ever since it was met.
    fn is_as_met(&self, side: Side) -> bool {
        let peer = &self.copies[side.other().index()];
        peer.died_at < self.copies[side.index()].connected_at && !self.went_back(side.other())
    }

    /// In how many blocks of a region a primary's peer holds something older than a write that was answered before then.
    fn owed(&self, side: Side, volume: VolumeIndex, region: usize, before: Serial) -> u32 {
        let Some(history) = self.histories.get(&self.copies[side.index()].generation) else {
            return 0;
        };
        let theirs = &self.images[side.other().index()][usize::from(volume.0)];
        let blocks = (0u32..).zip(theirs).skip(region * self.grain).take(self.grain);
        let owed = blocks.filter(|(block, stamp)| {
            let place = Place { volume, block: *block };
            let held = history.span(place, **stamp);
            held.is_some_and(|(_, last)| history.missing(place, last, before).is_some())
        });
        owed.count() as u32
    }

    /// A secondary's is never below what it lacks of what had been answered when its primary sent what it heard last.
    pub(super) fn judge_secondary_lag(
        &self,
        cluster: &Cluster,
        side: Side,
    ) -> Result<(), Violation> {
        let engine =
            cluster.node(side).engine.as_ref().filter(|engine| !engine.view().is_primary());
        let lag = engine.and_then(|engine| engine.view().reported_lag());
        let (Some(lag), Some((_, told))) = (lag, self.pings[side.index()].heard) else {
            return Ok(());
        };
        if !self.lag_due || self.went_back(side) {
            return Ok(());
        }
        let mut lacking = 0;
        for (volume, regions) in (0u16..).map(VolumeIndex).zip(&self.differing) {
            let differing = regions.iter().enumerate().filter(|(_, n)| **n > 0);
            lacking += differing
                .map(|(region, _)| u64::from(self.owed(side.other(), volume, region, told)))
                .sum::<u64>();
        }
        let most = lag.bytes.0 + lag.writes * (BLOCK.0 - SECTOR);
        hold(most >= lacking * BLOCK.0, Promise::Reports, || {
            format!("{side} reports a lag of {}, and lacks {lacking} blocks", lag.bytes)
        })
    }
}
