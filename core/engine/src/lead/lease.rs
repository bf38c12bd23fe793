// SPDX-License-Identifier: Apache-2.0
//! What a primary knows that decides on a hold lease.

use crate::lead::Primary;
use crate::stream::unreplicated::Unreplicated;
use helio_units::Mode;

impl Primary {
    /// Whether no answer can be given without the peer, as far as this primary's stream shows.
    pub(crate) fn is_together(&self, mode: Mode) -> bool {
        self.is_level()
            && self.effective(mode) != Mode::Async
            && self.target.owed().marker().is_none()
            && self.lack.is_none()
            && self.unreplicated == Unreplicated::Together
    }
}
