// SPDX-License-Identifier: Apache-2.0
//! What the peer is told of this node.

use crate::show::view::View;
use helio_format::report::Report;
use helio_units::State;

impl View<'_> {
    /// The report, where it changed since the hello or the last one.
    pub(crate) fn news_for_peer(&self, state: State) -> Option<Report> {
        self.peer.session().peer()?;
        let report = self.report(state);
        // The time of the last write is no news by itself: it changes with every write.
        let same = self.peer.session().reported().is_some_and(|last| {
            let figures = |r: &Report| (r.effective, r.paused, r.ahead, r.differing, r.only_here);
            let texts = equal(&last.fault, &report.fault) && equal(&last.hint, &report.hint);
            figures(last) == figures(&report) && texts
        });
        (!same).then_some(report)
    }
}

/// Whether two texts are equal. Empty ones, the usual case, are not compared byte by byte: an empty `String` has no memory, and
/// processors with AVX-512 take hundreds of cycles for a `memcmp` of no bytes at its address. Every batch of events comes here.
fn equal(one: &str, other: &str) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}
