// SPDX-License-Identifier: Apache-2.0
//! Which row of the recovery table decided last, and what it looked at.
//!
//! The source alone has all the facts; it sends the row's label to the target. If it refused before it could, both nodes
//! looked the same two hellos up in the same table.

use crate::show::view::View;
use helio_recovery::LastDecision;

impl<'a> View<'a> {
    /// What the recovery table decided when the peer connected last.
    #[must_use]
    pub fn last_decision(&self) -> Option<&'a LastDecision> {
        self.show.last_decision()
    }
}
