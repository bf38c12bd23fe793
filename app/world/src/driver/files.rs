// SPDX-License-Identifier: Apache-2.0
//! Operations on files: each happens after a while of its own, so that they end in any order.

use super::{DriverId, file_of};
use crate::body::allocate;
use crate::disk::{HandleId, Stamp, is_aligned};
use crate::faults::FileFault;
use crate::world::{Due, Inner, MachineId, ProcessId};
use helio_driver::{
    Cause, Errno, FallocateFlags, MAP_RUNS, Op, OpError, Operation, Outcome, Piece, Reserved, Run,
    Token,
};
use helio_units::{Bytes, Extent, Moment, SECTOR};
use std::borrow::Cow;
use std::time::Duration;

/// How long operations take in the middle.
const READ: Duration = Duration::from_micros(100);
const WRITE: Duration = Duration::from_micros(60);
const FLUSH: Duration = Duration::from_micros(800);
/// A process that was killed leaves operations that happen within this.
const LEFT_WITHIN: Duration = Duration::from_secs(2);

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    Waited,
    /// The file ends nothing.
    Hung,
    /// Its process has ended.
    Left,
    /// Its process has ended and the file ends nothing.
    LeftHung,
}

/// An operation under way.
#[derive(Debug)]
pub(super) struct FileOperation {
    driver: DriverId,
    token: Token,
    began: Moment,
    op: Op,
    machine: MachineId,
    process: ProcessId,
    handle: HandleId,
    inode: crate::disk::Inode,
    direct: bool,
    /// For a flush: what it covers.
    upto: Stamp,
    /// For a write: bytes that are written already.
    landed: usize,
    course: Course,
}

impl FileOperation {
    pub(super) fn new(driver: DriverId, token: Token, op: Op, inner: &mut Inner) -> Self {
        let (Op::Read { file, .. }
        | Op::Write { file, .. }
        | Op::SyncData { file }
        | Op::SyncAll { file }
        | Op::SetAttribute { file, .. }
        | Op::Punch { file, .. }
        | Op::Zero { file, .. }
        | Op::Map { file, .. }
        | Op::Reserve { file, .. }
        | Op::SetLength { file, .. }) = &op
        else {
            unreachable!("{op:?} is an operation on a socket")
        };
        let body = file_of(file);
        let (machine, process, handle, inode) =
            (body.machine, body.process, body.handle, body.inode);
        let direct = body.access.direct;
        let mut upto = inner.host(machine).disk.stamp();
        if matches!(op, Op::SyncData { .. } | Op::SyncAll { .. }) {
            upto = inner.host(machine).disk.begin_flush(inode).unwrap_or(upto);
        }
        let (course, began) = (Course::Waited, inner.now);
        Self {
            driver,
            token,
            began,
            op,
            machine,
            process,
            handle,
            inode,
            direct,
            upto,
            landed: 0,
            course,
        }
    }

    pub(super) const fn began(&self) -> Moment {
        self.began
    }

    pub(super) const fn driver(&self) -> DriverId {
        self.driver
    }

    pub(super) const fn handle(&self) -> HandleId {
        self.handle
    }

    pub(super) const fn machine(&self) -> MachineId {
        self.machine
    }

    const fn usual(&self) -> Duration {
        match self.op {
            Op::Read { .. } | Op::Map { .. } => READ,
            Op::SyncData { .. } | Op::SyncAll { .. } | Op::Write { sync: true, .. } => FLUSH,
            _ => WRITE,
        }
    }

    const fn is_left(&self) -> bool {
        matches!(self.course, Course::Left | Course::LeftHung)
    }
}

impl Inner {
    /// Lets an operation begin.
    pub(super) fn begin(&mut self, operation: FileOperation) {
        let number = self.drivers.number();
        let latency = self.host(operation.machine).faults.latency(operation.usual());
        self.drivers.files.insert(number, operation);
        self.push_in(latency, Due::File(number));
    }

    /// An operation is due: it happens, or a part of it.
    pub(crate) fn file_due(&mut self, number: u64) {
        let Some(mut operation) = self.drivers.files.remove(&number) else { return };
        let faults = &mut self.machines[operation.machine.0].faults;
        if faults.hung.contains(&operation.inode) {
            operation.course = if operation.is_left() { Course::LeftHung } else { Course::Hung };
            self.drivers.files.insert(number, operation);
            return;
        }
        if self.lands_in_part(&mut operation) {
            let latency = self.host(operation.machine).faults.latency(WRITE);
            self.drivers.files.insert(number, operation);
            return self.push_in(latency, Due::File(number));
        }
        let (left, handle) = (operation.is_left(), operation.handle);
        let (driver, token) = (operation.driver, operation.token);
        if left {
            self.tell(format_args!("{token:?} of killed process {} happens", operation.process.0));
        }
        let outcome = self.perform(operation);
        if left {
            if !self.drivers.works_on(handle) {
                self.close_file(handle);
            }
        } else {
            self.complete(driver, None, token, outcome);
        }
    }

    /// Now and then the first sectors of a write can be read before the others.
    fn lands_in_part(&mut self, operation: &mut FileOperation) -> bool {
        let Op::Write { extent, pieces, sync: false, .. } = &operation.op else { return false };
        if operation.landed > 0 || extent.length <= SECTOR || !self.dice.chance(1, 8) {
            return false;
        }
        let Some(bytes) = gathered(pieces) else { return false };
        let some = (1 + self.dice.below(extent.length / SECTOR)) * SECTOR;
        let some = some.min(extent.length.next_multiple_of(SECTOR) - SECTOR) as usize;
        let disk = &mut self.machines[operation.machine.0].disk;
        let change = disk.change();
        let Ok(content) = disk.content_mut(operation.inode) else { return false };
        operation.landed = content.write(change, extent.offset, &bytes[..some]).unwrap_or(0);
        operation.landed > 0
    }

    fn perform(&mut self, operation: FileOperation) -> Outcome {
        let FileOperation { machine, inode, direct, upto, landed, op, .. } = operation;
        let host = &mut self.machines[machine.0];
        let fails = |host: &mut crate::world::Host, fault| host.faults.fails(inode, fault);
        match op {
            Op::Read { extent, mut buffer, .. } => {
                let read = fails(host, FileFault::Read).map_err(Cause::from);
                let target = usize::try_from(extent.length).ok().and_then(|n| buffer.get_mut(..n));
                let result = read.and_then(|()| {
                    let target = target.ok_or(Cause::Misfit)?;
                    aligned(direct, extent)?;
                    let count = host.disk.content(inode)?.read(extent.offset, target, direct);
                    let all = count == target.len();
                    if all { Ok(()) } else { Err(Cause::EndOfFile(Bytes(count as u64))) }
                });
                Outcome::Read { buffer, result: result.map_err(at(Operation::Read, extent)) }
            }
            Op::Write { extent, pieces, sync, .. } => {
                let result = self.write(machine, inode, extent, &pieces, (direct, sync, landed));
                Outcome::Write { pieces, result: result.map_err(at(Operation::Write, extent)) }
            }
            Op::SyncData { .. } | Op::SyncAll { .. } => {
                let failed = fails(host, FileFault::Flush).is_err();
                let all = matches!(op, Op::SyncAll { .. });
                let result = self.end_flush(machine, inode, upto, all, failed);
                Outcome::SyncData(result.map_err(|it| of(Operation::SyncData, it)))
            }
            Op::SetAttribute { name, value, .. } => {
                let result = fails(host, FileFault::Write)
                    .and_then(|()| host.disk.set_attribute(inode, name, Some(&value)));
                Outcome::SetAttribute(result.map_err(|it| of(Operation::SetAttribute, it)))
            }
            Op::Punch { extent, .. } => {
                let result = self.give_back(machine, inode, FallocateFlags::PUNCH_HOLE, extent);
                Outcome::Punch(result.map_err(at(Operation::Punch, extent)))
            }
            Op::Zero { extent, .. } => {
                let result = self.give_back(machine, inode, FallocateFlags::ZERO_RANGE, extent);
                Outcome::Zero(result.map_err(at(Operation::Zero, extent)))
            }
            Op::Map { extent, .. } => {
                let result = fails(host, FileFault::Read).map_err(Cause::from);
                let result = result.and_then(|()| Ok(runs(host.disk.content(inode)?, extent)));
                Outcome::Map(result.map_err(at(Operation::Map, extent)))
            }
            Op::Reserve { length, .. } => {
                let result = self.reserve(machine, inode, length.0);
                Outcome::Reserve(result.map_err(|it| of(Operation::Reserve, it)))
            }
            Op::SetLength { length, .. } => {
                let result = fails(host, FileFault::Write).and_then(|()| {
                    let change = host.disk.change();
                    host.disk.content_mut(inode)?.set_length(change.stamp, length.0);
                    Ok(())
                });
                Outcome::SetLength(result.map_err(|it| of(Operation::SetLength, it)))
            }
            op => unreachable!("{op:?} is an operation on a socket"),
        }
    }

    fn reserve(
        &mut self,
        machine: MachineId,
        inode: crate::disk::Inode,
        length: u64,
    ) -> Result<Reserved, Errno> {
        let host = self.host(machine);
        host.faults.fails(inode, FileFault::Write)?;
        let (had, change) = (host.disk.content(inode)?.length(), host.disk.change());
        if length <= had {
            return Ok(Reserved::Done);
        }
        let content = host.disk.content_mut(inode)?;
        if content.allocate(change, 0, length, true).is_ok() {
            return Ok(Reserved::Done);
        }
        content.set_length(change.stamp, had);
        Ok(Reserved::NoRoom { free: Bytes(had + host.disk.room().free.0) })
    }

    fn write(
        &mut self,
        machine: MachineId,
        inode: crate::disk::Inode,
        extent: Extent,
        pieces: &[Piece],
        (direct, sync, landed): (bool, bool, usize),
    ) -> Result<(), Cause> {
        let bytes = gathered(pieces).filter(|bytes| bytes.len() as u64 == extent.length);
        let bytes = bytes.ok_or(Cause::Misfit)?;
        aligned(direct, extent)?;
        if direct && !pieces.iter().all(is_aligned_piece) {
            return Err(Errno::INVAL.into());
        }
        let failed = self.host(machine).faults.fails(inode, FileFault::Write);
        // A write that fails may have got anywhere.
        let end = match failed {
            Ok(()) => bytes.len(),
            Err(_) => self.dice.below(extent.length / SECTOR + 1) as usize * SECTOR as usize,
        };
        let disk = &mut self.host(machine).disk;
        let change = disk.change();
        let content = disk.content_mut(inode)?;
        let mut count = landed;
        if end > landed {
            let from = extent.offset + landed as u64;
            let written = content.write(change, from, &bytes[landed..end]);
            count += written.map_err(|_| Errno::NOSPC)?;
        }
        failed?;
        if count < bytes.len() {
            return Err(Errno::NOSPC.into());
        }
        if sync {
            content.flush_range(change.stamp, extent.offset, extent.end());
        }
        Ok(())
    }

    fn give_back(
        &mut self,
        machine: MachineId,
        inode: crate::disk::Inode,
        how: FallocateFlags,
        extent: Extent,
    ) -> Result<(), Cause> {
        let host = self.host(machine);
        host.faults.fails(inode, FileFault::Write)?;
        if extent.length == 0 {
            return Ok(());
        }
        let change = host.disk.change();
        let flags = how | FallocateFlags::KEEP_SIZE;
        let content = host.disk.content_mut(inode)?;
        Ok(allocate(content, change, flags, extent.offset, extent.length)?)
    }

    /// A driver's process has ended: some of its operations never happen, some later, at a power cut some at once.
    pub(super) fn drop_files(&mut self, driver: DriverId, power: bool) {
        let all = self.drivers.files.iter().filter(|(_, it)| it.driver == driver && !it.is_left());
        for number in all.map(|(number, _)| *number).collect::<Vec<_>>() {
            let Some(mut operation) = self.drivers.files.remove(&number) else { continue };
            let happens = self.dice.chance(1, 2);
            match (happens, power) {
                (true, true) => drop(self.perform(operation)),
                (true, false) => {
                    let hung = operation.course == Course::Hung;
                    operation.course = if hung { Course::LeftHung } else { Course::Left };
                    self.drivers.files.insert(number, operation);
                    if !hung {
                        self.delay(number);
                    }
                }
                (false, _) => {
                    self.host(operation.machine).disk.drop_flush(operation.inode, operation.upto)
                }
            }
        }
    }

    /// What a killed process left happens later than it would have.
    fn delay(&mut self, number: u64) {
        let span = Duration::from_nanos(self.dice.below(LEFT_WITHIN.as_nanos() as u64));
        self.withdraw(|due| matches!(due, Due::File(other) if *other == number));
        self.push_in(span, Due::File(number));
    }

    /// What killed processes left on a machine that loses its power.
    pub(crate) fn drop_leftovers(&mut self, machine: MachineId) {
        let all = self.drivers.files.iter().filter(|(_, it)| it.machine == machine);
        for number in all.map(|(number, _)| *number).collect::<Vec<_>>() {
            let happens = self.dice.chance(1, 2);
            if let Some(operation) = self.drivers.files.remove(&number).filter(|_| happens) {
                drop(self.perform(operation));
            }
        }
    }

    /// What hung goes on, and what began while the disk was slow takes no longer than usual from now on.
    pub(crate) fn resume_operations(&mut self, machine: MachineId) {
        let mut all = Vec::new();
        for (number, operation) in &mut self.drivers.files {
            if operation.machine == machine {
                operation.course = match operation.course {
                    Course::Hung | Course::Waited => Course::Waited,
                    Course::LeftHung | Course::Left => Course::Left,
                };
                all.push(*number);
            }
        }
        self.withdraw(|due| matches!(due, Due::File(number) if all.contains(number)));
        for number in all {
            let latency = self.host(machine).faults.latency(FLUSH);
            self.push_in(latency, Due::File(number));
        }
    }
}

const fn at(operation: Operation, extent: Extent) -> impl Fn(Cause) -> OpError {
    move |cause| OpError { operation, extent: Some(extent), cause }
}

const fn of(operation: Operation, errno: Errno) -> OpError {
    OpError { operation, extent: None, cause: Cause::Errno(errno) }
}

fn aligned(direct: bool, extent: Extent) -> Result<(), Cause> {
    let ok = !direct || is_aligned(extent.offset, extent.length);
    if ok { Ok(()) } else { Err(Errno::INVAL.into()) }
}

/// Bytes of their own begin at no particular place in memory; shared buffers begin on a page.
fn is_aligned_piece(piece: &Piece) -> bool {
    match piece {
        Piece::Bytes(bytes) => bytes.is_empty(),
        Piece::Shared(_, range) => is_aligned(range.start as u64, range.len() as u64),
    }
}

/// All bytes of the pieces; none if one lies outside its buffer.
fn gathered(pieces: &[Piece]) -> Option<Cow<'_, [u8]>> {
    if let [piece] = pieces {
        return piece.bytes().map(Cow::Borrowed);
    }
    let mut bytes = Vec::new();
    for piece in pieces {
        bytes.extend_from_slice(piece.bytes()?);
    }
    Some(Cow::Owned(bytes))
}

/// Which parts of an extent hold data.
fn runs(content: &crate::disk::Content, extent: Extent) -> Vec<Run> {
    let (mut runs, mut at) = (Vec::new(), extent.offset);
    while at < extent.end() && runs.len() < MAP_RUNS {
        let data = content.data_from(at).map_or(extent.end(), |data| data.min(extent.end()));
        if data > at {
            runs.push(Run { length: data - at, data: false });
            at = data;
            continue;
        }
        let hole = content.hole_from(at).min(extent.end());
        runs.push(Run { length: hole - at, data: true });
        at = hole;
    }
    runs
}
