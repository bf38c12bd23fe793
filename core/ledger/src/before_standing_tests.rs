// SPDX-License-Identifier: Apache-2.0
//! What a rollback is to the record of its node.

use super::*;
use helio_format::before::CopyStage;

/// A file that lists copy 1, and the rollback of that number to it.
fn lists(rollback: Option<u64>, last: u64, damaged: bool) -> BeforeFound {
    let copy = |number, stage| KeptCopy {
        number: CopyNumber(number),
        class: CopyClass::Expendable,
        stage,
        owner: CopyOwner::Resync,
        image: KeptImage::default(),
    };
    let goes = rollback.map(|number| copy(number, CopyStage::Rollback(CopyNumber(1))));
    let copies = [copy(1, CopyStage::Held)].into_iter().chain(goes).collect();
    BeforeFound { copies, last: CopyNumber(last), damaged, ..BeforeFound::default() }
}

/// A record of a node with a history, or without one, that knows that rollback, and up to which copies are over.
fn record(history: bool, rollback: Option<u64>, over: u64) -> Superblock {
    let mut record = Superblock::new("db", "paris", [512].into());
    record.lineage.generation.number = u64::from(history);
    (record.rollback, record.copies_over) = (rollback.map(CopyNumber), CopyNumber(over));
    record
}

#[test]
fn every_file_is_held_against_every_record() {
    let files = [
        ("no rollback, and none was", lists(None, 1, false)),
        ("no rollback, and 2 was", lists(None, 2, false)),
        ("rollback 2", lists(Some(2), 2, false)),
        ("rollback 2, damaged", lists(Some(2), 2, true)),
        ("rollback 3", lists(Some(3), 3, false)),
    ];
    // Of each record, the labels for the files above.
    let nothing = "nothing";
    let table = [
        ((None, 0), [nothing, nothing, "unrecorded", "unrecorded", "unrecorded"]),
        ((None, 2), [nothing, nothing, "over", "over", "unrecorded"]),
        ((None, 3), [nothing, nothing, "over", "over", "over"]),
        ((Some(2), 0), ["lost", nothing, "goes-on", "lost", "unrecorded"]),
        ((Some(2), 2), [nothing, nothing, "over", "over", "unrecorded"]),
    ];
    for history in [true, false] {
        for ((rollback, over), labels) in table {
            for ((named, file), label) in files.iter().zip(labels) {
                let of = record(history, rollback, over);
                let found = file.standing(&of).label();
                assert_eq!(found, label, "{named}, of {rollback:?} over {over}, {history}");
            }
        }
    }
}

/// Of what it does not preserve nothing is put back.
#[test]
fn a_rollback_that_ended_or_never_began_is_over_although_the_file_lists_it() {
    let file = lists(Some(2), 2, false);
    let ended = |number| Superblock { rollbacks_over: CopyNumber(number), ..record(true, None, 0) };
    let labels = [1, 2, 3].map(|number| file.standing(&ended(number)).label());
    assert_eq!(labels, ["unrecorded", "over", "over"]);
}

#[test]
fn a_rollback_without_its_copy_is_lost() {
    let mut file = lists(Some(2), 2, false);
    file.copies.remove(0);
    assert_eq!(file.standing(&record(true, Some(2), 0)), RollbackStanding::Lost);
    let unknown = RollbackStanding::Unrecorded(CopyNumber(2));
    assert_eq!(file.standing(&record(true, None, 0)), unknown);
}
