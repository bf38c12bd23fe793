// SPDX-License-Identifier: Apache-2.0
//! A role is handed over, and the two connect again: the table of what became of it.
//!
//! The first row that matches decides.

use crate::table::{Decision, Kinship, facts_of};
use helio_format::message::Hello;

/// What became of a role that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnHanding {
    /// The peer is primary.
    Done,
    /// The peer was primary, and is not any more.
    DoneAndLeft,
    /// Another copy connected: the result is unknown.
    Lost,
    /// The peer did not become primary: this node goes on.
    TakeBack,
    /// It waits for the next hello, or for an answer to a ping.
    Wait,
}

/// The facts that the table uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handing {
    /// The peer is primary.
    pub serving: bool,
    /// How the peer's history stands to this node's.
    pub kinship: Kinship,
    /// The peer answered a ping on this connection: its hello is not from before it was invited.
    pub proven: bool,
}

impl Handing {
    /// The facts from both hellos. `proven`: the peer's hello is not older than its answer to a ping.
    #[must_use]
    pub fn of(ours: &Hello, peer: &Hello, proven: bool) -> Self {
        Self { serving: peer.serving, kinship: facts_of(ours, peer).kinship, proven }
    }
}

/// Label, what must hold, and what follows.
type Row = (&'static str, fn(&Handing) -> bool, OnHanding);

/// * `taken`: the peer is primary.
/// * `taken-and-left`: the peer began a generation behind this node's, so it was primary.
/// * `another-copy`: the two never shared a history.
/// * `unconfirmed`: the peer is still in this node's generation, but its hello may have waited since before it was invited; its
///   answer to a ping shows whether it did.
/// * `not-taken`: the peer is still in this node's generation. A node sends its hello only in a settled role, and an invitation
///   ends with its connection, so the peer will not take over.
/// * `parted`: the peer has no history, or another one since a common generation; its own decision at this meeting follows.
/// * `late`: the peer received this node's generation to its end, so a hello from an earlier one is older and proves nothing.
const ROWS: [Row; 7] = {
    use Kinship::{New, Sibling};
    use OnHanding::{Done, DoneAndLeft, Lost, TakeBack, Wait};
    [
        ("taken", |f| f.serving, Done),
        ("taken-and-left", |f| f.kinship == Kinship::Descendant, DoneAndLeft),
        ("another-copy", |f| f.kinship == Kinship::Unrelated, Lost),
        ("unconfirmed", |f| f.kinship == Kinship::Same && !f.proven, Wait),
        ("not-taken", |f| f.kinship == Kinship::Same, TakeBack),
        ("parted", |f| matches!(f.kinship, New | Sibling), Wait),
        ("late", |_| true, Wait),
    ]
};

/// Looks the facts up.
#[must_use]
pub fn on_handing(facts: &Handing) -> Decision<OnHanding> {
    let Some(&(label, _, verdict)) = ROWS.iter().find(|(_, matches, _)| matches(facts)) else {
        panic!("no row covers {facts:?}")
    };
    Decision { label, verdict }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn every_combination() -> impl Iterator<Item = Handing> {
        Kinship::ALL.into_iter().flat_map(|kinship| {
            [(false, false), (false, true), (true, false), (true, true)]
                .map(|(serving, proven)| Handing { serving, kinship, proven })
        })
    }

    #[test]
    fn every_row_can_decide() {
        for (label, _, verdict) in ROWS {
            let row = Decision { label, verdict };
            assert!(every_combination().any(|f| on_handing(&f) == row), "{row:?} can never fire");
        }
    }

    #[test]
    fn a_role_is_taken_back_only_from_a_peer_that_surely_did_not_take_over() {
        for f in every_combination() {
            let Decision { label, verdict } = on_handing(&f);
            let surely_not = f.kinship == Kinship::Same && f.proven && !f.serving;
            assert_eq!(verdict == OnHanding::TakeBack, surely_not, "{label}: {f:?}");
            let is = f.serving || f.kinship == Kinship::Descendant;
            let unrelated = f.kinship == Kinship::Unrelated && !f.serving;
            assert_eq!(verdict == OnHanding::Lost, unrelated, "{label}: {f:?}");
            let known = matches!(verdict, OnHanding::Done | OnHanding::DoneAndLeft);
            assert_eq!(known, is, "{label}: {f:?}");
        }
    }

    #[test]
    fn the_handbook_lists_each_row() {
        let labels: Vec<&str> = ROWS.iter().map(|(label, ..)| *label).collect();
        assert_eq!(crate::listed("When a role was handed over"), labels);
    }
}
