// SPDX-License-Identifier: Apache-2.0
//! What a verify may say: both images are the same at every item of the line, but where a disk lies. So whatever a
//! follower calls different must have rotted, under whatever load.

use super::Oracle;
use crate::promise::{Promise, Violation, hold};
use helio_twin::{Place, Side};

impl Oracle {
    pub(super) fn judge_difference(&self, side: Side, place: Place) -> Result<(), Violation> {
        hold(self.rotten.contains(&place), Promise::TrueDifferences, || {
            format!("{side} calls block {} of volume {} different", place.block, place.volume.0)
        })
    }
}
