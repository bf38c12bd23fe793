// SPDX-License-Identifier: Apache-2.0
//! Times for people in the record: when each volume was verified last and what was found, and when this node began the
//! generation it writes.
//!
//! The engine reads no clock. Its caller passes the wall-clock time at the start and whenever the clock was set; the engine
//! counts from there. Without that, times are unknown. No decision depends on them.

use crate::calendar::Calendar;
use crate::resync::verify::{Verify, VerifyPass, VolumeVerify};
use helio_format::superblock::Superblock;
use helio_units::{Bytes, VolumeIndex, WallTime};

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

impl VolumeVerify {
    /// The last whole pass of this process, and when it ended in ms since 1970, once both are known.
    fn ended(&self, calendar: Calendar) -> Option<(VerifyPass, u64)> {
        let pass = self.last?;
        Some((pass, calendar.at(pass.ended))).filter(|(_, at)| *at != 0)
    }
}

impl Verify {
    /// When a volume was compared to its end last, by this process or, by the record, one before.
    pub(crate) fn verified(
        &self,
        calendar: Calendar,
        b: &Superblock,
        volume: VolumeIndex,
    ) -> Option<Verified> {
        let n = usize::from(volume.0);
        if let Some((pass, at)) = self.volumes().get(n).and_then(|volume| volume.ended(calendar)) {
            let at = WallTime(at);
            return Some(Verified { at, differed: pass.differed, repaired: pass.repaired });
        }
        let at = *b.verified.get(n).filter(|at| **at != 0)?;
        let differed = Bytes(b.differed.get(n).copied().unwrap_or_default());
        Some(Verified { at: WallTime(at), differed, repaired: b.repaired >> n & 1 == 1 })
    }

    /// What the next record says of verifies.
    pub(crate) fn shape(&self, calendar: Calendar, b: &mut Superblock) {
        for (n, volume) in self.volumes().iter().enumerate() {
            let Some((pass, at)) = volume.ended(calendar) else { continue };
            (b.verified[n], b.differed[n]) = (at, pass.differed.0);
            b.repaired = b.repaired & !(1 << n) | u64::from(pass.repaired) << n;
        }
    }

    /// Whether a pass ended that the record does not tell of.
    pub(crate) fn has_news(&self, calendar: Calendar, b: &Superblock) -> bool {
        let mut passes = self.volumes().iter().zip(&b.verified);
        passes
            .any(|(volume, recorded)| volume.ended(calendar).is_some_and(|(_, at)| at != *recorded))
    }
}
