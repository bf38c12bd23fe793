// SPDX-License-Identifier: Apache-2.0
//! Times for people in the record: when each volume was verified last and what was found, and when this node began the
//! generation it writes.
//!
//! The engine reads no clock. Its caller passes the wall-clock time at the start and whenever the clock was set; the engine
//! counts from there. Without that, times are unknown. No decision depends on them.

use crate::engine::Engine;
use crate::record::save::Goal;
use crate::resync::verify::VolumeVerify;
use core::time::Duration;
use helio_format::superblock::Superblock;
use helio_units::{Bytes, Moment, VolumeIndex, WallTime};

/// What the calendar showed, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calendar {
    told: Option<(Moment, WallTime)>,
}

impl Calendar {
    pub(crate) fn told(now: Moment, shows: WallTime) -> Self {
        Self { told: Some((now, shows)) }
    }

    /// A moment in ms since 1970; 0 where that is unknown.
    pub(crate) fn at(self, moment: Moment) -> u64 {
        let Some((told, shows)) = self.told else { return 0 };
        let millis = |span: Duration| span.as_millis() as u64;
        (shows.0 + millis(moment - told)).saturating_sub(millis(told - moment))
    }
}

/// The last comparison of a volume to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// When it ended.
    pub at: WallTime,
    /// In how many bytes the two differed.
    pub differed: Bytes,
    /// What differed was copied to the peer.
    pub repaired: bool,
}

impl Engine {
    /// When a volume was compared to its end last, by this process or one before.
    #[must_use]
    pub fn verified(&self, volume: VolumeIndex) -> Option<Verified> {
        let (b, n) = (&self.superblock, usize::from(volume.0));
        let newest = self.shared.verify.volumes().get(n).and_then(|volume| self.ended(volume));
        if let Some((pass, at)) = newest {
            let at = WallTime(at);
            return Some(Verified { at, differed: pass.differed, repaired: pass.repaired });
        }
        let at = *b.verified.get(n).filter(|at| **at != 0)?;
        let differed = Bytes(b.differed.get(n).copied().unwrap_or_default());
        Some(Verified { at: WallTime(at), differed, repaired: b.repaired >> n & 1 == 1 })
    }

    /// When this node began the generation that its record names, where it did and knows.
    pub(crate) fn began(&self) -> Option<WallTime> {
        Some(WallTime(self.superblock.began)).filter(|at| at.0 != 0)
    }

    /// What the next record says of verifies.
    pub(crate) fn shape_verified(&self, b: &mut Superblock) {
        for (n, volume) in self.shared.verify.volumes().iter().enumerate() {
            let Some((pass, at)) = self.ended(volume) else { continue };
            (b.verified[n], b.differed[n]) = (at, pass.differed.0);
            b.repaired = b.repaired & !(1 << n) | u64::from(pass.repaired) << n;
        }
    }

    fn ended(&self, volume: &VolumeVerify) -> Option<(crate::VerifyPass, u64)> {
        let pass = volume.last?;
        Some((pass, self.calendar.at(pass.ended))).filter(|(_, at)| *at != 0)
    }

    /// A volume was compared to its end: the record is to say so.
    pub(crate) fn record_verified(&mut self) {
        let rests = self.standing.is_settled() && !self.shared.metadata_failed && !self.is_saving();
        let passes = self.shared.verify.volumes().iter().zip(&self.superblock.verified);
        let mut news = passes
            .filter_map(|(volume, recorded)| self.ended(volume).filter(|(_, at)| at != recorded));
        if rests && news.next().is_some() {
            self.save(Goal::Remember);
        }
    }
}
