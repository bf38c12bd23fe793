// SPDX-License-Identifier: Apache-2.0
//! Two nodes connect and neither serves: the table of what a node does that was primary when it stopped.
//!
//! The first row that matches decides. A row that refuses has the label of the recovery table's row that says why.

use crate::table::{
    Decision, Facts, Kinship, METADATA_LOST, ONLY_COPY_UNPROVEN, SOURCE_ROLLED_BACK, facts_of,
};
use helio_format::message::Hello;
use helio_plant::{Plant, planted};

/// What a node does that was primary when it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnReturn {
    /// It becomes primary again.
    GoOn,
    /// It becomes secondary.
    StepBack,
    /// It refuses the peer.
    Refuse {
        /// This node is the row's source; otherwise the peer is.
        as_source: bool,
    },
    /// It waits: for what the peer sends next, or for an operator.
    Wait,
    /// It was not primary: it stays secondary.
    Stay,
}

/// Everything that table looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returning {
    /// This node was primary when it stopped; whether the peer was promoted since is open.
    pub returning: bool,
    /// How the peer's history stands to this node's.
    pub kinship: Kinship,
    /// The peer lost its metadata.
    pub peer_lost: bool,
    /// This node lost its metadata.
    pub own_lost: bool,
    /// The peer remembers newer metadata of this node than it has.
    pub older: bool,
    /// This node's copy may be served.
    pub consistent: bool,
    /// The peer's copy may be served.
    pub peer_consistent: bool,
    /// The peer answered a ping on this connection: its hello is not from before a promotion.
    pub proven: bool,
    /// This node agreed on this connection to a promotion of the peer.
    pub agreed: bool,
}

impl Returning {
    /// The facts that two hellos tell; what this node alone knows counts as untrue.
    #[must_use]
    pub fn of(ours: &Hello, peer: &Hello) -> Self {
        let facts = facts_of(ours, peer);
        let lost = |f: &Facts| {
            f.kinship == Kinship::New
                && f.target_old
                && !f.discarded
                && !planted(Plant::BelieveBlank)
        };
        Self {
            returning: false,
            kinship: facts.kinship,
            peer_lost: lost(&facts),
            own_lost: lost(&facts_of(peer, ours)),
            older: facts.source_old,
            consistent: false,
            peer_consistent: peer.consistent && !peer.suspect,
            proven: false,
            agreed: false,
        }
    }
}

/// Label, what must hold, and what follows.
type Row = (&'static str, fn(&Returning) -> bool, OnReturn);

/// * `metadata-lost`: one of the two lost its metadata. What a node without metadata reports of itself proves nothing,
///   least of all that it did not take over.
/// * `only-copy-unproven`: one of the two lost its metadata, and the copy of the other one may not be served.
/// * `secondary`: this node was not primary.
/// * `unrelated`: the two never shared a history.
/// * `split-brain`: both began generations of their own.
/// * `promoted-since`: the peer was promoted after this node stopped.
/// * `inconsistent`: the peer alone holds everything; this node waits until the peer is promoted.
/// * `source-rolled-back`: this node's machine or metadata is older than the peer remembers. A peer that never took part
///   holds no writes that this node could have lost.
/// * `unconfirmed`: the peer may have been promoted since it sent its hello; its answer to a ping shows whether it was.
/// * `agreed`: this node agreed to a promotion of the peer; the peer's next hello shows what came of it.
/// * `primary-again`: the peer was not promoted.
const ROWS: [Row; 13] = {
    use OnReturn::{GoOn, Refuse, Stay, StepBack, Wait};
    [
        (METADATA_LOST, |f| f.peer_lost && f.consistent, Refuse { as_source: true }),
        (METADATA_LOST, |f| f.own_lost && f.peer_consistent, Refuse { as_source: false }),
        (ONLY_COPY_UNPROVEN, |f| f.peer_lost, Refuse { as_source: true }),
        (ONLY_COPY_UNPROVEN, |f| f.own_lost, Refuse { as_source: false }),
        ("secondary", |f| !f.returning, Stay),
        ("unrelated", |f| f.kinship == Kinship::Unrelated, Refuse { as_source: true }),
        ("split-brain", |f| f.kinship == Kinship::Sibling, Refuse { as_source: true }),
        ("promoted-since", |f| f.kinship == Kinship::Descendant, StepBack),
        ("inconsistent", |f| !f.consistent, Wait),
        (SOURCE_ROLLED_BACK, |f| f.older && f.kinship != Kinship::New, Refuse { as_source: true }),
        ("unconfirmed", |f| !f.proven, Wait),
        ("agreed", |f| f.agreed, Wait),
        ("primary-again", |_| true, GoOn),
    ]
};

/// Looks the facts up.
#[must_use]
pub fn on_return(facts: &Returning) -> Decision<OnReturn> {
    let Some(&(label, _, verdict)) = ROWS.iter().find(|(_, matches, _)| matches(facts)) else {
        panic!("no row covers {facts:?}")
    };
    Decision { label, verdict }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn every_combination() -> impl Iterator<Item = Returning> {
        Kinship::ALL.into_iter().flat_map(|kinship| {
            (0..1 << 8).map(move |bits: u32| {
                let bit = |n: u32| bits & (1 << n) != 0;
                Returning {
                    returning: bit(0),
                    kinship,
                    peer_lost: bit(1),
                    own_lost: bit(2),
                    older: bit(3),
                    consistent: bit(4),
                    proven: bit(5),
                    agreed: bit(6),
                    peer_consistent: bit(7),
                }
            })
        })
    }

    #[test]
    fn every_combination_has_a_row_and_every_row_a_combination() {
        for (label, _, verdict) in ROWS {
            let row = Decision { label, verdict };
            assert!(every_combination().any(|f| on_return(&f) == row), "{row:?} can never fire");
        }
    }

    #[test]
    fn the_promises_of_the_table() {
        for f in every_combination() {
            let Decision { label, verdict } = on_return(&f);
            let lost = f.peer_lost || f.own_lost;
            let parted = matches!(f.kinship, Kinship::Sibling | Kinship::Unrelated);
            let lacks = f.kinship == Kinship::Descendant;
            let rolled_back = f.older && f.kinship != Kinship::New;
            let goes_on = f.returning
                && f.consistent
                && f.proven
                && !(lost || parted || lacks || rolled_back || f.agreed);
            assert_eq!(verdict == OnReturn::GoOn, goes_on, "{label}: {f:?}");
            match verdict {
                OnReturn::GoOn => {}
                OnReturn::StepBack => assert!(f.returning && lacks && !lost, "{label}: {f:?}"),
                OnReturn::Refuse { as_source } => {
                    assert!(lost || (f.returning && (parted || rolled_back)), "{label}: {f:?}");
                    assert!(as_source || f.own_lost, "{label}: {f:?}");
                    // The row that advises to discard a copy: the other one may be served.
                    let other = f.peer_lost && f.consistent || f.own_lost && f.peer_consistent;
                    assert_eq!(label == METADATA_LOST, lost && other, "{label}: {f:?}");
                    assert_eq!(label == ONLY_COPY_UNPROVEN, lost && !other, "{label}: {f:?}");
                    assert!(crate::labels().any(|known| known == label), "{label} has no words");
                }
                OnReturn::Wait => assert!(f.returning && !lost && !parted, "{label}: {f:?}"),
                OnReturn::Stay => assert!(!f.returning && !lost, "{label}: {f:?}"),
            }
        }
    }

    #[test]
    fn the_handbook_lists_each_row() {
        let mut labels: Vec<&str> = ROWS.iter().map(|(label, ..)| *label).collect();
        labels.dedup();
        assert_eq!(crate::listed("When a node that was primary starts"), labels);
    }
}
