// SPDX-License-Identifier: Apache-2.0
//! When a write is answered: the whole promise, in one function.
//!
//! | effective mode | a write, zero or discard | a FLUSH or FUA |
//! |---|---|---|
//! | sync | done here, completed at the peer | the same, "completed" of such an item meaning durable |
//! | nearsync | done here, received by the peer | durable here, received by the peer |
//! | async | done here, in the queue or marked | durable here |
//!
//! "Completed" of a FLUSH or FUA item means durable wherever it completed, so the two columns are one rule. Sync
//! and nearsync are effective only while the peer's stream is caught up (`peer/outgoing.rs`); a mode that is not effective
//! asks what async asks.

use helio_plant::{Plant, planted};
use helio_units::Mode;

/// That an answer's reason was checked. Nothing outside this file can make one, so nothing else can answer "done". It can be
/// cloned because the simulator clones whole engines, for machines that go back to a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct AckProof(());

/// How far the local store is with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Local {
    /// Issued.
    Pending,
    /// Done; durable if the item asked for it.
    Done,
    /// It failed, and the failure is the answer.
    Failed,
}

/// How far the peer is with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Remote {
    /// Nothing is known.
    Unknown,
    /// It lies in the peer's memory.
    Received,
    /// It is done there; durable if the item asked for it.
    Completed,
}

/// What is known about one item when its answer is considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) local: Local,
    pub(crate) remote: Remote,
    /// The item waits in the queue, or its regions are marked, or it changes nothing.
    pub(crate) covered: bool,
}

/// The one function that decides. `effective` is the mode in force for this item's peer now.
pub(crate) fn satisfied(effective: Mode, evidence: Evidence) -> Option<AckProof> {
    let far = match effective {
        Mode::Sync if planted(Plant::AnswerEarly) => evidence.remote >= Remote::Received,
        Mode::Sync => evidence.remote == Remote::Completed,
        Mode::NearSync => evidence.remote >= Remote::Received,
        Mode::Async => true,
    };
    (evidence.local == Local::Done && evidence.covered && far).then_some(AckProof(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks every combination and states the promises as assertions.
    #[test]
    fn no_write_is_answered_before_its_mode_allows() {
        for mode in Mode::ALL {
            for local in [Local::Pending, Local::Done, Local::Failed] {
                for remote in [Remote::Unknown, Remote::Received, Remote::Completed] {
                    for covered in [false, true] {
                        let answered =
                            satisfied(mode, Evidence { local, remote, covered }).is_some();
                        if answered {
                            assert_eq!(local, Local::Done, "answered without the local store");
                            assert!(covered, "answered although nobody remembers it for the peer");
                            assert!(mode != Mode::Sync || remote == Remote::Completed);
                            assert!(mode != Mode::NearSync || remote != Remote::Unknown);
                        } else {
                            let due =
                                local == Local::Done && covered && remote == Remote::Completed;
                            assert!(!due, "{mode} withholds an answer that everybody earned");
                        }
                    }
                }
            }
        }
    }
}
