// SPDX-License-Identifier: Apache-2.0
//! How a read of a copy goes on; see [`Readers`](crate::readers::Readers).

use super::{KINDS, READS, Snapshot};
use crate::work::{Task, Work};
use alloc::vec::Vec;
use core::mem;
use helio_plant::{Plant, planted};
use helio_stack::{
    CopyRead, Layer, Leg, Outcome, PoolOp, PoolOutcome, Port, Row, StoreFault, StoreOp, Tag,
};

impl Snapshot {
    /// One begins. Returns whether the copy is here.
    pub(super) fn begin_read(&mut self, read: CopyRead, port: &mut Port<'_>) -> bool {
        let held = self.held_copy(read.copy).is_some();
        if held {
            let number = self.readers.begin(read);
            let op = StoreOp::Read { extent: read.extent };
            port.issue(Leg::whole(read.volume), op, Tag(number * KINDS + READS));
        }
        held
    }

    /// The volume was read for it.
    pub(super) fn volume_read(&mut self, number: u64, outcome: Outcome, port: &mut Port<'_>) {
        let read = self.readers.ended(number);
        let Outcome::Read(payload) = outcome else {
            return port.copy_read(read.name, outcome);
        };
        if !self.copies.holds(read.copy) {
            port.release(payload.id);
            return port.copy_read(read.name, Outcome::Failed(StoreFault::Io));
        }
        let touched = self.chunks.touched(read.volume, read.extent);
        let chunks: Vec<u64> =
            touched.filter(|chunk| self.copies.slot(read.copy, *chunk).is_some()).collect();
        if chunks.is_empty() || planted(Plant::CopyReadLive) {
            return port.copy_read(read.name, outcome);
        }
        let base = Row { volume: read.volume, extent: read.extent, payload };
        self.readers.wait((read, base, chunks));
        self.go_on(port);
    }

    /// Lays what is preserved over what was read of the volume, for the next one that waits, where no step is being taken.
    pub(super) fn serve_reader(&mut self, port: &mut Port<'_>) {
        let others_wait = !matches!(self.task, Task::None) || !self.changes.none_waits();
        while matches!(self.work, Work::Idle)
            && let Some((read, base, chunks)) = self.readers.next(others_wait)
        {
            if !self.copies.holds(read.copy) {
                port.release(base.payload.id);
                port.copy_read(read.name, Outcome::Failed(StoreFault::Io));
                continue;
            }
            let record = |chunk: &u64| {
                let slot = self.copies.slot(read.copy, *chunk)?;
                Some((slot, self.chunks.place(*chunk)))
            };
            let records = chunks.iter().filter_map(record).collect();
            self.work = Work::Overlaying { read, base };
            port.pool(PoolOp::Overlay { base, records });
        }
    }

    /// What is preserved lies over what was read, or that failed.
    pub(super) fn overlaid(&mut self, outcome: PoolOutcome, port: &mut Port<'_>) {
        let Work::Overlaying { read, base } = mem::replace(&mut self.work, Work::Idle) else {
            return;
        };
        port.release(base.payload.id);
        let outcome = match outcome {
            PoolOutcome::Loaded(rows) => match rows.as_slice() {
                [row] => Outcome::Read(row.payload),
                rows => panic!("{} rows were laid over one", rows.len()),
            },
            PoolOutcome::Damaged => Outcome::Failed(StoreFault::Io),
            PoolOutcome::Failed(fault) => Outcome::Failed(fault),
            outcome @ (PoolOutcome::Done | PoolOutcome::NoRoom { .. }) => {
                panic!("the pool ended a read as {outcome:?}")
            }
        };
        port.copy_read(read.name, outcome);
    }
}
