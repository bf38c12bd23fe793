// SPDX-License-Identifier: Apache-2.0
//! Clients read point-in-time copies, on a node of either role.

use super::*;
use crate::refusal::Denial;
use helio_format::before::{CopyId, CopyOwner};
use helio_stack::{CopyIo, CopyView, Row, StoreOp};
use helio_units::CopyName;

const PAYLOADS: [Payload; 2] = [
    Payload { id: PayloadId(70), length: 2 * CHUNK_BYTES as u32 },
    Payload { id: PayloadId(71), length: 2 * CHUNK_BYTES as u32 },
];

impl Desk {
    /// A client reads two chunks of a copy, from that one on.
    fn reads(&mut self, copy: u64, first: u64) {
        let extent = Extent::new(first * CHUNK_BYTES, 2 * CHUNK_BYTES);
        let volume = VolumeIndex(0);
        let on = CopyView::Cut(CopyNumber(copy));
        self.tell(Event::CopyIo(CopyIo { name: 5, on, volume, op: StoreOp::Read { extent } }));
    }

    fn answer(&mut self) -> Answer {
        let (request, answer) = self.answered.pop().expect("an answer");
        assert_eq!((request, self.answered.len()), (RequestId(5), 0));
        answer
    }
}

#[test]
fn what_is_preserved_lies_over_what_the_volume_holds() {
    for leads in [false, true] {
        let mut desk = Desk::of(record(true), None, named(1));
        if leads {
            desk.tell(Event::Command {
                id: CommandId(1),
                command: Command::Promote { force: true },
            });
            while !desk.saves.is_empty() {
                desk.save();
            }
        }
        desk.reads(1, 2);
        assert!(matches!(desk.store(read(PAYLOADS[0])), StoreOp::Read { .. }));
        assert_eq!(desk.answer(), Answer::Read(PAYLOADS[0]), "nothing of it was overwritten");
        desk.reads(1, 0);
        desk.store(read(PAYLOADS[0]));
        assert!(desk.answered.is_empty(), "chunk 1 lies in the pool");
        let row = |payload| {
            let extent = Extent::new(0, 2 * CHUNK_BYTES);
            Row { volume: VolumeIndex(0), extent, payload }
        };
        let asked = desk.pool(PoolOutcome::Loaded([row(PAYLOADS[1])].into()));
        let records = [(Slot(0), (VolumeIndex(0), chunk(1)))].into();
        assert_eq!(asked, PoolOp::Overlay { base: row(PAYLOADS[0]), records });
        assert_eq!(desk.answer(), Answer::Read(PAYLOADS[1]));
    }
}

#[test]
fn what_is_damaged_or_not_there_is_an_error_of_the_store() {
    let mut desk = Desk::of(record(true), None, named(1));
    desk.reads(1, 0);
    desk.store(read(PAYLOADS[0]));
    desk.pool(PoolOutcome::Damaged);
    assert_eq!(desk.answer(), Answer::Denied(Denial::Store(StoreFault::Io)));
    desk.reads(2, 0);
    assert_eq!(desk.answer(), Answer::Denied(Denial::Store(StoreFault::Io)), "there is no copy 2");
    desk.reads(1, SIZE.0 / CHUNK_BYTES - 1);
    assert_eq!(desk.answer(), Answer::Denied(Denial::OutOfBounds));
}

#[test]
fn a_copy_is_not_read_from_another_disk_nor_where_records_of_it_are_missing() {
    let mut desk = Desk::of(record(true), None, named(1));
    assert_eq!(desk.engine.view().readable_copies(VolumeIndex(0)).len(), 1);
    let changed = |desk: &Desk, n| {
        let all = Extent::new(0, SIZE.0);
        desk.engine.view().changed(CopyView::Cut(CopyNumber(n)), VolumeIndex(0), all)
    };
    assert_eq!((changed(&desk, 1), changed(&desk, 2)), (Some([chunk(1)].into()), None));
    desk.engine.local.members_mut().put(VolumeIndex(0), "data", 9, false);
    assert_eq!(changed(&desk, 1), None, "what the other disk holds is not known");
    assert!(desk.engine.view().readable_copies(VolumeIndex(0)).is_empty());
    desk.reads(1, 2);
    assert!(desk.ios.is_empty(), "nothing is asked of the other disk");
    assert_eq!(desk.answer(), Answer::Denied(Denial::Store(StoreFault::Io)));
    let damaged = BeforeFound { damaged: true, ..found(&[1]) };
    for (found, readable) in [(found(&[1]), 1), (damaged, 0)] {
        let mut desk = Desk::of(record(false), None, found);
        assert_eq!(desk.engine.view().readable_copies(VolumeIndex(0)).len(), readable);
        assert_eq!(changed(&desk, 1).is_some(), readable == 1);
        desk.reads(1, 2);
        assert_eq!(desk.ios.len(), readable);
    }
}

/// A copy that an operator named, with that chunk.
fn named(chunk: u64) -> BeforeFound {
    let mut found = found(&[chunk]);
    let name = CopyName::new("one").expect("a name");
    (found.copies[0].class, found.copies[0].owner) =
        (CopyClass::Expendable, CopyOwner::Operator(name, CopyId::default()));
    found
}

fn read(payload: Payload) -> StoreOutcome {
    StoreOutcome::Read { payload, zero: false }
}
