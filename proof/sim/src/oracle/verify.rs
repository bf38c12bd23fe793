// SPDX-License-Identifier: Apache-2.0
//! What a verify may say: both images are the same at every item of the line, but where a disk lies or a failed flush drops writes. So
//! whatever a follower calls different must have rotted, or a disk lied about it, or it reads as before a write that was dropped there,
//! under whatever load.

use super::Oracle;
use crate::promise::{Promise, Violation, hold};
use helio_twin::{Place, Side};

impl Oracle {
    pub(super) fn judge_difference(&self, side: Side, place: Place) -> Result<(), Violation> {
        let known = self.rotten.contains(&place)
            || self.lied_about.has(&place)
            || self.left[side.index()].has_gone_back(place);
        hold(known, Promise::TrueDifferences, || {
            format!("{side} calls block {} of volume {} different", place.block, place.volume.0)
        })
    }
}
