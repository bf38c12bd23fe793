// SPDX-License-Identifier: Apache-2.0
//! How an operation on a copy begins, and how a read goes on; see [`Clients`](crate::clients::Clients).

use super::{KINDS, READS, Snapshot};
use crate::clients::Wanted;
use crate::work::{Task, Work};
use alloc::vec::Vec;
use core::ops::Range;
use helio_format::before::Slot;
use helio_ledger::Chunk;
use helio_plant::{Plant, planted};
use helio_stack::{
    CopyIo, CopyView, Layer, Leg, Outcome, PoolOp, PoolOutcome, Port, Row, StoreFault, StoreOp, Tag,
};

impl Snapshot {
    /// One begins. Returns whether the copy is here, and can do that.
    pub(super) fn begin_for_client(&mut self, io: CopyIo, port: &mut Port<'_>) -> bool {
        if self.held_copy(io.on.copy()).is_none() {
            return false;
        }
        match (io.op, io.on) {
            (StoreOp::Read { .. }, _) => {
                let number = self.clients.reads_volume(io);
                port.issue(Leg::whole(io.volume), io.op, Tag(number * KINDS + READS));
            }
            (
                StoreOp::Write { .. } | StoreOp::Zero { .. } | StoreOp::Flush,
                CopyView::Branch(_),
            ) => {
                self.clients.wait(Wanted::Branch(io, 0));
                self.go_on(port);
            }
            _ => return false,
        }
        true
    }

    /// The volume was read for it.
    pub(super) fn volume_read(&mut self, number: u64, outcome: Outcome, port: &mut Port<'_>) {
        let io = self.clients.volume_read(number);
        let (Outcome::Read(payload), StoreOp::Read { extent }) = (outcome, io.op) else {
            return port.copy_ended(io.name, outcome);
        };
        if !self.copies.holds(io.on.copy()) {
            port.release(payload.id);
            return port.copy_ended(io.name, Outcome::Failed(StoreFault::Io));
        }
        let mut touched = self.chunks.touched(io.volume, extent);
        let nothing = !touched.any(|chunk| self.copies.slot(io.on, chunk).is_some());
        if nothing || planted(Plant::CopyReadLive) {
            return port.copy_ended(io.name, outcome);
        }
        let base = Row { volume: io.volume, extent, payload };
        self.clients.wait(Wanted::Overlay(io, base));
        self.go_on(port);
    }

    /// Serves the next one that waits, where no step is being taken.
    pub(super) fn serve_client(&mut self, port: &mut Port<'_>) {
        let others = !matches!(self.task, Task::None) || self.rollbacks.now().is_some();
        let mut others_wait = others || !self.changes.none_waits();
        while matches!(self.work, Work::Idle)
            && let Some(wanted) = self.clients.next(others_wait)
        {
            // What ends at once took no turn.
            others_wait = false;
            match wanted {
                Wanted::Overlay(io, base) => self.overlay(io, base, port),
                Wanted::Branch(io, done) => self.serve_branch(io, done, port),
            }
        }
    }

    /// Lays what the pool has over what was read of the volume.
    fn overlay(&mut self, io: CopyIo, base: Row, port: &mut Port<'_>) {
        if !self.copies.holds(io.on.copy()) {
            port.release(base.payload.id);
            return port.copy_ended(io.name, Outcome::Failed(StoreFault::Io));
        }
        let records = self.records(io.on, self.chunks.touched(base.volume, base.extent));
        self.work = Work::Overlaying { io, base };
        port.pool(PoolOp::Overlay { base, records });
    }

    /// Where the pool has what is seen of these chunks, as far as it has it.
    pub(super) fn records(&self, view: CopyView, chunks: Range<u64>) -> Vec<(Slot, Chunk)> {
        let record = |chunk| Some((self.copies.slot(view, chunk)?, self.chunks.place(chunk)));
        chunks.filter_map(record).collect()
    }

    /// What the pool has lies over what was read, or that failed.
    pub(super) fn overlaid((io, base): (CopyIo, Row), outcome: PoolOutcome, port: &mut Port<'_>) {
        let outcome = match Self::laid_over(base, outcome, port) {
            Ok(row) => Outcome::Read(row.payload),
            Err(fault) => Outcome::Failed(fault),
        };
        port.copy_ended(io.name, outcome);
    }

    /// What the pool laid over `base`, or why it could not. What cannot be read may still be added to.
    pub(super) fn laid_over(
        base: Row,
        outcome: PoolOutcome,
        port: &mut Port<'_>,
    ) -> Result<Row, StoreFault> {
        port.release(base.payload.id);
        match outcome {
            PoolOutcome::Loaded(rows) => match rows[..] {
                [row] => Ok(row),
                _ => panic!("{} rows were laid over one", rows.len()),
            },
            PoolOutcome::Damaged => Err(StoreFault::Io),
            PoolOutcome::Failed(fault) => Err(fault),
            outcome @ (PoolOutcome::Done | PoolOutcome::NoRoom { .. }) => {
                panic!("the pool ended a read as {outcome:?}")
            }
        }
    }
}
