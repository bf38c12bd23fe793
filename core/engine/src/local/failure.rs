// SPDX-License-Identifier: Apache-2.0
//! What a failed operation on a disk of this node means (rule 14). One function decides: [`meaning`].
//!
//! | failed | on a primary, the peer can serve the volume | on a primary otherwise | on a secondary |
//! |---|---|---|---|
//! | a read of a client | given up (`serve-from-peer`); told (`pass`) | told | told |
//! | a read of the copier | shown | shown | told |
//! | a write, zero or discard | given up (`serve-from-peer`); shown (`pass`) | shown | stopped |
//! | the same, for want of space (`StoreFault::NoSpace`) | full | full | waits for space |
//! | a flush, or any operation with FUA | given up, whatever the policy | suspect | stopped, and suspect |
//! | nothing, but a disk is silent | given up (`serve-from-peer`), and suspect; waits (`pass`) | waits | waits |
//! | nothing, but the metadata cannot record it (`StoreFault::Unrecorded`), or what the operation waited for does not come (`StoreFault::Unissued`) | told; a read of the copier: shown | the same | a read: told; otherwise stopped, and not suspect |
//!
//! A full disk is no failed disk: it is read, and written where it has space. Only the write that found none fails. A flush or an operation
//! with FUA that finds no space is a failed flush, since earlier writes may be lost with it.
//!
//! An operation on a copy is none of these, however it ends: it may fail because the copy is gone. The reader of the copy is told
//! (`StoreOutcome::CopyFailed`), and nothing follows for the volume.
//!
//! What cannot be recorded says nothing of the disk: it was never issued to it, or a member missed it and a crash could bring that
//! member back. The requester gets the error, the region of a change is dirty, and the fault that is shown is that of the metadata
//! (`show/metadata.rs`), or of the restore that operations wait for (`show/fault.rs`). The copier must not read again and again what it
//! cannot: only for that such a read is shown. A disk that was given up before fails no more: the
//! peer serves. A silent disk is suspect once it was given up: what ends the silence is often a reset, which empties its cache. Whether the peer can serve is asked of the primary (`lead/lack/lose.rs`), since it depends on the stream.

use helio_format::message::{Item, ItemKind};
use helio_plant::{Plant, planted};
use helio_stack::StoreFault;

/// What kind of operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// A read of a client.
    Read,
    /// A read of the copier.
    CopierRead,
    /// A write, zero or discard that promised nothing durable.
    Change,
    /// A flush, or an operation with FUA.
    Flush,
    /// Nothing yet: operations do not end (`silence.rs`).
    Silence,
}

impl Failed {
    /// What the failure of an item's local operation is.
    pub(crate) fn of(item: &Item) -> Self {
        let fua = item.fua && !planted(Plant::FuaIsWrite);
        if item.kind == ItemKind::Flush || fua { Self::Flush } else { Self::Change }
    }
}

/// Whose disk it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// A primary's, whose peer serves the volume already.
    Served,
    /// A primary's, whose peer can serve the volume as far as this failure goes.
    Servable,
    /// A primary's, and the peer cannot serve, or is not to (`pass`).
    Alone,
    Secondary,
}

/// Everything that the decision looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) failed: Failed,
    pub(crate) fault: StoreFault,
    pub(crate) side: Side,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The requester gets the error; nothing else happens.
    Told,
    /// The fault is shown; the region of a change is dirty.
    Shown,
    /// The disk has no space: the requester gets the error, the region is dirty, and the disk stays in use (`lead/own.rs`).
    Full,
    /// The peer serves in the disk's place. `suspect`: a flush failed.
    Served { suspect: bool },
    /// The disk is given up: the peer serves from now on. `suspect`: a flush failed.
    GivenUp { suspect: bool },
    /// Earlier writes may be missing from the copy, and the peer cannot serve in its place.
    Suspect,
    /// Operations wait until the disk ends them.
    Waits,
    /// Items wait until the disk has space again.
    WaitsForSpace,
    /// Nothing is applied to the disk any more. `suspect`: a flush failed.
    Stopped { suspect: bool },
}

/// The table.
pub(crate) fn meaning(facts: Facts) -> Meaning {
    let Facts { failed, fault, side } = facts;
    let full = fault == StoreFault::NoSpace && !planted(Plant::FullIsFailed);
    let suspect = matches!(failed, Failed::Flush | Failed::Silence) && fault.is_of_store();
    match (side, failed) {
        (Side::Secondary | Side::Alone, Failed::Silence) => Meaning::Waits,
        (Side::Secondary, Failed::Read | Failed::CopierRead) => Meaning::Told,
        (Side::Secondary, Failed::Change) if full => Meaning::WaitsForSpace,
        (Side::Secondary, _) => Meaning::Stopped { suspect },
        (Side::Served, _) => Meaning::Served { suspect },
        (_, Failed::CopierRead) => Meaning::Shown,
        _ if !fault.is_of_store() => Meaning::Told,
        (_, Failed::Change) if full => Meaning::Full,
        (Side::Servable, _) => Meaning::GivenUp { suspect },
        (Side::Alone, Failed::Read) => Meaning::Told,
        (Side::Alone, Failed::Change) => Meaning::Shown,
        (Side::Alone, Failed::Flush) => Meaning::Suspect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUED: fn(&Facts) -> bool = |facts| facts.fault.is_of_store();

    fn every() -> impl Iterator<Item = Facts> {
        let sides = [Side::Served, Side::Servable, Side::Alone, Side::Secondary];
        let kinds =
            [Failed::Read, Failed::CopierRead, Failed::Change, Failed::Flush, Failed::Silence];
        let faults = [
            StoreFault::Io,
            StoreFault::NoSpace,
            StoreFault::Short,
            StoreFault::Unrecorded,
            StoreFault::Unissued,
            StoreFault::Other(5),
        ];
        sides.into_iter().flat_map(move |side| {
            kinds.into_iter().flat_map(move |failed| {
                faults.into_iter().map(move |fault| Facts { failed, fault, side })
            })
        })
    }

    #[test]
    fn a_failed_flush_is_never_forgotten() {
        for facts in every().filter(|f| f.failed == Failed::Flush && ISSUED(f)) {
            let remembered = matches!(
                meaning(facts),
                Meaning::Suspect
                    | Meaning::Served { suspect: true }
                    | Meaning::GivenUp { suspect: true }
                    | Meaning::Stopped { suspect: true }
            );
            assert!(remembered, "{facts:?}: {:?}", meaning(facts));
        }
    }

    #[test]
    fn only_a_failed_flush_and_silence_make_a_copy_suspect() {
        let proves = |f: &Facts| matches!(f.failed, Failed::Flush | Failed::Silence) && ISSUED(f);
        for facts in every().filter(|f| !proves(f)) {
            let suspect = matches!(
                meaning(facts),
                Meaning::Suspect
                    | Meaning::Served { suspect: true }
                    | Meaning::GivenUp { suspect: true }
                    | Meaning::Stopped { suspect: true }
            );
            assert!(!suspect, "{facts:?}");
        }
    }

    #[test]
    fn a_silent_disk_is_given_up_where_the_peer_can_serve_and_waited_for_otherwise() {
        for facts in every().filter(|f| f.failed == Failed::Silence && ISSUED(f)) {
            let expected = match facts.side {
                Side::Served => Meaning::Served { suspect: true },
                Side::Servable => Meaning::GivenUp { suspect: true },
                Side::Alone | Side::Secondary => Meaning::Waits,
            };
            assert_eq!(meaning(facts), expected, "{facts:?}");
        }
    }

    #[test]
    fn what_cannot_be_recorded_says_nothing_of_the_disk() {
        let silent = |f: &Facts| f.failed == Failed::Silence;
        for facts in every().filter(|f| !ISSUED(f) && f.side != Side::Secondary && !silent(f)) {
            let expected = match (facts.side, facts.failed) {
                (Side::Served, _) => Meaning::Served { suspect: false },
                (_, Failed::CopierRead) => Meaning::Shown,
                _ => Meaning::Told,
            };
            assert_eq!(meaning(facts), expected, "{facts:?}");
        }
    }

    #[test]
    fn a_primary_gives_no_copy_up_for_want_of_space_unless_a_flush_failed() {
        for facts in every().filter(|f| f.fault == StoreFault::NoSpace) {
            let full = matches!(facts.side, Side::Servable | Side::Alone)
                && facts.failed == Failed::Change;
            assert_eq!(meaning(facts) == Meaning::Full, full, "{facts:?}");
        }
    }

    #[test]
    fn a_secondary_never_goes_on_over_what_it_could_not_write() {
        for facts in every().filter(|f| f.side == Side::Secondary) {
            let changes = matches!(facts.failed, Failed::Change | Failed::Flush);
            let told = matches!(meaning(facts), Meaning::Told | Meaning::Waits);
            assert_eq!(!told, changes, "{facts:?}");
            let waits = facts.failed == Failed::Change && facts.fault == StoreFault::NoSpace;
            assert_eq!(meaning(facts) == Meaning::WaitsForSpace, waits, "{facts:?}");
        }
    }
}
