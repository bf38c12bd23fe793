// SPDX-License-Identifier: Apache-2.0
//! How a request ends, in one form for all front ends.

use helio_driver::{Outcome, Run, Shared};
use helio_engine::{Answer, Denial, StoreFault};

/// How a request ended.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// It is done.
    Done,
    /// The bytes read, from the extent's begin on.
    Read(Shared),
    /// What is allocated, from the extent's begin on; none if this node's store does not hold the volume's state there.
    Map(Option<Vec<Run>>),
    /// It was not done.
    Failed(Failure),
}

/// Why a request was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The engine denied it, or the store failed.
    Denied(Denial),
    /// It would change what is to be read only.
    ReadOnly,
    /// The copy is not consistent.
    Inconsistent,
}

impl Failure {
    /// The store failed, for whatever reason.
    pub(super) const STORE: Self = Self::Denied(Denial::Store(StoreFault::Io));

    /// The reason, for people.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Denied(Denial::NotPrimary) => "this node is no longer primary for the group",
            Self::Denied(Denial::OutOfBounds) => "the request exceeds the volume",
            Self::Denied(Denial::Unaligned) => "not a multiple of the export's minimum block",
            Self::Denied(Denial::QueueFull) => {
                "the replication queue is full and its policy is to fail writes"
            }
            Self::Denied(Denial::Store(StoreFault::NoSpace)) => "the local disk has no space left",
            Self::Denied(Denial::Store(
                StoreFault::Io | StoreFault::Short | StoreFault::Other(_),
            )) => "the local disk failed",
            Self::Denied(Denial::Store(StoreFault::Silent)) => {
                "the local disk does not complete its operations"
            }
            Self::Denied(Denial::Store(StoreFault::Unrecorded)) => {
                "the metadata file of this node cannot be written"
            }
            Self::Denied(Denial::Store(StoreFault::Unissued)) => {
                "the request was given up before it reached the disk"
            }
            Self::ReadOnly => "the export is read-only",
            Self::Inconsistent => "the copy on this node is inconsistent during the resync",
        }
    }
}

/// Every failure, for the tests of what front ends make of them.
#[cfg(test)]
pub(crate) const FAILURES: [Failure; 13] = [
    Failure::Denied(Denial::NotPrimary),
    Failure::Denied(Denial::OutOfBounds),
    Failure::Denied(Denial::Unaligned),
    Failure::Denied(Denial::QueueFull),
    Failure::Denied(Denial::Store(StoreFault::NoSpace)),
    Failure::Denied(Denial::Store(StoreFault::Io)),
    Failure::Denied(Denial::Store(StoreFault::Short)),
    Failure::Denied(Denial::Store(StoreFault::Silent)),
    Failure::Denied(Denial::Store(StoreFault::Unrecorded)),
    Failure::Denied(Denial::Store(StoreFault::Unissued)),
    Failure::Denied(Denial::Store(StoreFault::Other(5))),
    Failure::ReadOnly,
    Failure::Inconsistent,
];

/// The reply to a request of a volume: the engine's answer proves how it ended.
pub(super) fn of_volume(answer: Answer, data: Option<Shared>) -> Reply {
    match (answer, data) {
        (Answer::Done(_) | Answer::Branch, _) => Reply::Done,
        (Answer::Read(_), Some(data)) => Reply::Read(data),
        (Answer::Read(_), None) => panic!("a read was answered without its bytes"),
        (Answer::Denied(denial), _) => Reply::Failed(Failure::Denied(denial)),
    }
}

/// The reply to a read of a copy: the store's outcome proves it, if the copy is consistent once the bytes were read.
pub(super) fn of_copy(outcome: Outcome, consistent: bool) -> Reply {
    match outcome {
        Outcome::Read { buffer, result: Ok(()) } if consistent => Reply::Read(buffer.into_shared()),
        Outcome::Read { result: Ok(()), .. } => Reply::Failed(Failure::Inconsistent),
        Outcome::Read { result: Err(_), .. } => Reply::Failed(Failure::STORE),
        outcome => panic!("a read of a copy cannot end as {outcome:?}"),
    }
}

/// The reply to a question of what is allocated. If `lacking`, regions of this node's store are not the volume's.
pub(super) fn of_map(outcome: Outcome, lacking: bool) -> Reply {
    match outcome {
        Outcome::Map(_) if lacking => Reply::Map(None),
        Outcome::Map(Ok(runs)) => Reply::Map(Some(runs)),
        Outcome::Map(Err(_)) => Reply::Failed(Failure::STORE),
        outcome => panic!("a map cannot end as {outcome:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_is_listed_once() {
        let place = |failure| match failure {
            Failure::Denied(Denial::NotPrimary) => 0,
            Failure::Denied(Denial::OutOfBounds) => 1,
            Failure::Denied(Denial::Unaligned) => 2,
            Failure::Denied(Denial::QueueFull) => 3,
            Failure::Denied(Denial::Store(StoreFault::NoSpace)) => 4,
            Failure::Denied(Denial::Store(StoreFault::Io)) => 5,
            Failure::Denied(Denial::Store(StoreFault::Short)) => 6,
            Failure::Denied(Denial::Store(StoreFault::Silent)) => 7,
            Failure::Denied(Denial::Store(StoreFault::Unrecorded)) => 8,
            Failure::Denied(Denial::Store(StoreFault::Unissued)) => 9,
            Failure::Denied(Denial::Store(StoreFault::Other(_))) => 10,
            Failure::ReadOnly => 11,
            Failure::Inconsistent => 12,
        };
        assert_eq!(FAILURES.map(place), std::array::from_fn(|place| place));
    }
}
