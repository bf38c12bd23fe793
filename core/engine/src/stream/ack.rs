// SPDX-License-Identifier: Apache-2.0
//! When a write is acknowledged: the whole promise, in one function over raw facts.
//!
//! | effective mode | a write, zero or discard | a FLUSH or FUA |
//! |---|---|---|
//! | sync | complete here and on the peer | the same; "complete" of such an item means durable |
//! | nearsync | complete here, received by the peer | durable here, received by the peer |
//! | async | complete here, in the queue or dirty in the bitmap | durable here |
//! | periodic | complete here, dirty in the bitmap | durable here |
//!
//! "Complete" of a FLUSH or FUA item means durable wherever it is complete, so the two columns are one rule. Sync and
//! nearsync are effective only while the peer's stream is caught up (`lead/outgoing.rs`); otherwise what async asks is asked.
//!
//! What async asks is acknowledged without the peer's word. That needs one of these besides:
//! * the record of the generation says that there are such acknowledgements ([`Unreplicated`]); or
//! * if the peer may be primary by now ([`Facts::withholds`]: a lease may be out, or this process was suspended): the peer
//!   has the item.

use crate::refusal::Denial;
use crate::stream::unreplicated::Unreplicated;
use helio_plant::{Plant, planted};
use helio_stack::StoreFault;
use helio_units::Mode;

/// That the reason of an acknowledgement was checked. Nothing outside this file can make one, so nothing else can answer
/// "done". It can be cloned because the simulator clones whole engines, for machines that go back to a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct AckProof(());

/// How far the local disk is with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leg {
    /// Issued.
    Pending,
    /// Complete; durable if the item asked for it.
    Done,
    /// It failed.
    Failed,
}

/// How an item counts on this node, as the health of its copy lets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Here {
    /// Issued.
    Pending,
    /// Complete; durable if the item asked for it.
    Done,
    /// It failed, and the failure is the answer.
    Failed,
    /// It failed, and the peer, which has the item, serves this volume.
    OnPeer,
    /// A record about this copy must be durable first.
    Unrecorded,
}

/// How far the peer is with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Remote {
    /// Nothing is known.
    Unknown,
    /// It is in the peer's memory.
    Received,
    /// It is complete there; durable if the item asked for it.
    Completed,
}

/// Everything that the decision looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The mode that is configured.
    pub(crate) mode: Mode,
    /// The mode in force for the peer now; periodic never is.
    pub(crate) effective: Mode,
    pub(crate) here: Here,
    pub(crate) remote: Remote,
    /// The peer's copy is on this node's stream, so that cursors say what it has.
    pub(crate) in_order: bool,
    /// The peer's durable cursor has passed the item.
    pub(crate) durable: bool,
    /// Whether writes may be acknowledged without the peer, as far as the record of the generation goes.
    pub(crate) unreplicated: Unreplicated,
    /// The peer may be primary: acknowledgements without its word wait.
    pub(crate) withholds: bool,
    /// This node gives the primary role up, and will not wait for the peer.
    pub(crate) gives_up: bool,
    /// This process was suspended, and it is not checked yet whether the peer was promoted.
    pub(crate) unchecked: bool,
}

/// What becomes of an item that is not answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The client's request is done.
    Acknowledge(AckProof),
    /// It failed.
    Fail(Denial),
    /// Not yet. `record`: it waits for the generation's record of acknowledgements without the peer.
    Wait { record: bool },
}

/// The one function that decides.
#[inline]
pub(crate) fn decide(facts: &Facts) -> Decision {
    let Facts { here, remote, in_order, effective, .. } = *facts;
    let done = matches!(here, Here::Done | Here::OnPeer);
    // Without the peer's word, while it may be primary.
    let withheld = effective == Mode::Async && facts.withholds;
    let has_it = in_order && has(facts.mode, remote);
    let alone = if withheld { has_it } else { facts.unreplicated == Unreplicated::Recorded };
    let covered = effective != Mode::Async || alone || planted(Plant::AnswerUnrecorded);
    // What was in the socket of a suspended process may be from before its peer was promoted.
    let checked = !facts.unchecked || (in_order && facts.durable);
    if done && covered && checked && far_enough(effective, remote) {
        return Decision::Acknowledge(AckProof(()));
    }
    let unrecordable = !matches!(here, Here::Pending | Here::Unrecorded)
        && !covered
        && facts.unreplicated == Unreplicated::Unrecordable;
    if here == Here::Failed {
        return Decision::Fail(Denial::Store(StoreFault::Io));
    }
    if unrecordable {
        return Decision::Fail(Denial::Store(StoreFault::Unrecorded));
    }
    if here == Here::Done && withheld && facts.gives_up {
        return Decision::Fail(Denial::NotPrimary);
    }
    Decision::Wait { record: done && !covered && !withheld }
}

/// Whether the peer is as far as the mode in force asks.
fn far_enough(effective: Mode, remote: Remote) -> bool {
    match effective {
        Mode::Sync if planted(Plant::AnswerEarly) => remote >= Remote::Received,
        Mode::Sync => remote == Remote::Completed,
        Mode::NearSync => remote >= Remote::Received,
        Mode::Async | Mode::Periodic => true,
    }
}

/// Whether the peer has what a withheld acknowledgement is about.
fn has(mode: Mode, remote: Remote) -> bool {
    match mode {
        Mode::Sync => remote == Remote::Completed,
        Mode::NearSync | Mode::Async | Mode::Periodic => remote >= Remote::Received,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: [Here; 5] =
        [Here::Pending, Here::Done, Here::Failed, Here::OnPeer, Here::Unrecorded];
    const RECORD: [Unreplicated; 4] = [
        Unreplicated::Recorded,
        Unreplicated::Together,
        Unreplicated::Wanted,
        Unreplicated::Unrecordable,
    ];
    const REMOTE: [Remote; 3] = [Remote::Unknown, Remote::Received, Remote::Completed];

    fn every_combination() -> impl Iterator<Item = Facts> {
        let effective = |m| Mode::IN_ORDER.into_iter().map(move |e| (m, e));
        let modes = Mode::ALL.into_iter().flat_map(effective);
        let legs = HERE.into_iter().flat_map(|h| REMOTE.into_iter().map(move |r| (h, r)));
        modes.flat_map(move |(mode, effective)| {
            legs.clone().flat_map(move |(here, remote)| {
                (0..1 << 7).map(move |bits: u32| {
                    let bit = |n: u32| bits & (1 << n) != 0;
                    Facts {
                        mode,
                        effective,
                        here,
                        remote,
                        in_order: bit(0),
                        durable: bit(1),
                        unreplicated: RECORD[(bits >> 2 & 3) as usize],
                        withholds: bit(4),
                        gives_up: bit(5),
                        unchecked: bit(6),
                    }
                })
            })
        })
    }

    /// Walks every combination and states the promises as assertions.
    #[test]
    fn no_write_is_acknowledged_before_its_mode_allows() {
        for f in every_combination() {
            let Decision::Acknowledge(_) = decide(&f) else { continue };
            assert!(matches!(f.here, Here::Done | Here::OnPeer), "without the local disk: {f:?}");
            assert!(f.effective != Mode::Sync || f.remote == Remote::Completed, "{f:?}");
            assert!(f.effective != Mode::NearSync || f.remote != Remote::Unknown, "{f:?}");
            assert!(!f.unchecked || (f.in_order && f.durable), "the peer may be primary: {f:?}");
            let without_its_word = f.effective == Mode::Async;
            if without_its_word && f.withholds {
                let least = if f.mode == Mode::Sync { Remote::Completed } else { Remote::Received };
                assert!(f.in_order && f.remote >= least, "the peer may be primary: {f:?}");
            } else {
                let recorded = f.unreplicated == Unreplicated::Recorded;
                assert!(!without_its_word || recorded, "no record says so: {f:?}");
            }
        }
    }

    #[test]
    fn what_everybody_has_is_acknowledged() {
        for f in every_combination() {
            let everywhere = f.here == Here::Done && f.remote == Remote::Completed;
            let recorded = f.unreplicated == Unreplicated::Recorded;
            let proven = f.in_order && f.durable && (recorded || f.effective != Mode::Async);
            if everywhere && proven {
                assert!(matches!(decide(&f), Decision::Acknowledge(_)), "{f:?}");
            }
        }
    }

    #[test]
    fn a_failure_is_the_answer_and_nothing_fails_that_may_still_be_acknowledged() {
        for f in every_combination() {
            match decide(&f) {
                Decision::Fail(Denial::NotPrimary) => {
                    assert!(f.gives_up && f.withholds && f.effective == Mode::Async, "{f:?}");
                }
                Decision::Fail(_) => {
                    let unrecordable =
                        f.unreplicated == Unreplicated::Unrecordable && f.effective == Mode::Async;
                    assert!(f.here == Here::Failed || unrecordable, "{f:?}");
                }
                Decision::Acknowledge(_) | Decision::Wait { .. } => {
                    assert!(f.here != Here::Failed, "{f:?}");
                }
            }
        }
    }

    #[test]
    fn a_wait_for_a_record_ends_with_the_record_or_fails_with_it() {
        for f in every_combination() {
            if decide(&f) == (Decision::Wait { record: true }) {
                let recorded =
                    decide(&Facts { unreplicated: Unreplicated::Recorded, unchecked: false, ..f });
                assert!(matches!(recorded, Decision::Acknowledge(_)), "{f:?}");
                let failed = decide(&Facts { unreplicated: Unreplicated::Unrecordable, ..f });
                assert!(matches!(failed, Decision::Fail(_)), "{f:?}");
            }
        }
    }

    #[test]
    fn more_progress_of_the_peer_takes_no_acknowledgement_back() {
        for f in every_combination().filter(|f| f.remote == Remote::Received) {
            if let Decision::Acknowledge(_) = decide(&f) {
                let further = decide(&Facts { remote: Remote::Completed, ..f });
                assert!(matches!(further, Decision::Acknowledge(_)), "{f:?}");
            }
        }
    }
}
