// SPDX-License-Identifier: Apache-2.0
//! What programs ask of open devices: each job becomes one or several requests of its connection.

use super::connection::Asker;
use super::device::{DeviceIo, Done, Failure, OpenId};
use super::wire::{self, DISCARD_FAILURES, Expects, FAILURES, opcode};
use crate::world::Inner;
use helio_units::Extent;

/// A job under way.
#[derive(Debug)]
pub(super) struct Job {
    /// Requests that have not ended.
    left: usize,
    /// Requests that it became; the flush that follows is not one of them.
    parts: usize,
    failure: Option<Failure>,
    data: Vec<u8>,
    /// A flush follows, as for a write with FUA to a device that has no FUA.
    flushes: bool,
    /// It is that flush which is under way.
    is_late: bool,
    /// Where it begins.
    from: u64,
}

impl Inner {
    /// Begins a job.
    pub(super) fn begin_job(&mut self, id: OpenId, io: DeviceIo) -> u64 {
        let number = self.drivers.number();
        let Some(open) = self.kernels.open.get(&id) else { return number };
        let (on, is_loop) = (open.on, open.through.is_some());
        let block = open.through.and_then(|it| self.kernels.loops.get(&(open.machine, it)));
        let block = block.map_or(4096, |device| u64::from(device.block).max(512));
        let (extent, forced) = match &io {
            DeviceIo::Read(extent) => (*extent, false),
            DeviceIo::Write { extent, fua, .. } | DeviceIo::Zero { extent, fua, .. } => {
                (*extent, *fua)
            }
            DeviceIo::Flush => (Extent::default(), false),
        };
        // The file takes O_DSYNC with a write; everything else is followed by a flush.
        let in_write = matches!(io, DeviceIo::Write { .. }) && !is_loop;
        let parts = match io {
            DeviceIo::Flush => vec![extent],
            _ => self.parts(extent, block),
        };
        let data = if matches!(io, DeviceIo::Read(_)) { extent.length as usize } else { 0 };
        let job = Job {
            left: parts.len(),
            parts: parts.len(),
            failure: None,
            data: vec![0; data],
            flushes: forced && !in_write,
            is_late: false,
            from: extent.offset,
        };
        if let Some(open) = self.kernels.open.get_mut(&id) {
            open.jobs.insert(number, job);
        }
        for part in parts {
            let asker = Asker::Part { open: id, job: number, at: part.offset };
            match &io {
                DeviceIo::Read(_) => {
                    let expects = Expects::Body(part.length as usize, FAILURES);
                    let body = wire::transfer(part, false);
                    self.ask_daemon(on, opcode::READ, &body, (expects, asker));
                }
                DeviceIo::Write { bytes, .. } => {
                    let at = (part.offset - extent.offset) as usize;
                    let mut body = wire::transfer(part, forced && in_write);
                    body.extend_from_slice(&bytes[at..at + part.length as usize]);
                    let expects = Expects::Body(8, FAILURES);
                    self.ask_daemon(on, opcode::WRITE, &body, (expects, asker));
                }
                DeviceIo::Zero { punch, .. } => {
                    let (how, failures) = if *punch {
                        (libc::FALLOC_FL_PUNCH_HOLE, DISCARD_FAILURES)
                    } else {
                        (libc::FALLOC_FL_ZERO_RANGE, FAILURES)
                    };
                    let body = wire::fallocate(part, how | libc::FALLOC_FL_KEEP_SIZE);
                    let expects = Expects::Body(0, failures);
                    self.ask_daemon(on, opcode::FALLOCATE, &body, (expects, asker));
                }
                DeviceIo::Flush => self.ask_flush(on, asker),
            }
        }
        number
    }

    /// Now and then the kernel makes two requests of one.
    fn parts(&mut self, extent: Extent, block: u64) -> Vec<Extent> {
        let blocks = extent.length / block;
        if blocks < 2 || !extent.offset.is_multiple_of(block) || !self.dice.chance(1, 6) {
            return vec![extent];
        }
        let front = (1 + self.dice.below(blocks - 1)) * block;
        vec![
            Extent::new(extent.offset, front),
            Extent::new(extent.offset + front, extent.length - front),
        ]
    }

    /// One request of a job ended.
    pub(super) fn part_ended(
        &mut self,
        id: OpenId,
        number: u64,
        (opcode, at): (u32, u64),
        result: Result<Vec<u8>, Failure>,
    ) {
        let Some(open) = self.kernels.open.get_mut(&id) else { return };
        let Some(job) = open.jobs.get_mut(&number) else { return };
        match result {
            Ok(body) if opcode == opcode::READ => {
                let from = (at - job.from) as usize;
                let end = (from + body.len()).min(job.data.len());
                job.data[from..end].copy_from_slice(&body[..end - from]);
            }
            Ok(_) => {}
            // A response that is missing says less than an error.
            Err(failure) => {
                job.failure = match job.failure {
                    Some(Failure::Lost) => Some(Failure::Lost),
                    _ => Some(failure),
                };
            }
        }
        job.left -= 1;
        if job.left > 0 {
            return;
        }
        if job.flushes && job.failure.is_none() {
            (job.flushes, job.is_late, job.left) = (false, true, 1);
            let (on, at) = (open.on, job.from);
            return self.ask_flush(on, Asker::Part { open: id, job: number, at });
        }
        let Some(job) = open.jobs.remove(&number) else { return };
        let result = job.failure.map_or(Ok(job.data), Err);
        open.done.push(Done { number, result });
        self.device_idle(id);
    }

    /// Interrupts one of the requests that the daemon works on.
    pub(super) fn interrupt_one(&mut self, id: OpenId) {
        let Some(on) = self.kernels.open.get(&id).map(|open| open.on) else { return };
        let Some(connection) = self.kernels.connections.get(&on) else { return };
        let all = connection.in_process(id);
        if all.is_empty() || !connection.knows_interrupts() {
            return;
        }
        let drawn = self.dice.below(all.len() as u64) as usize;
        self.interrupt(on, all[drawn]);
    }

    /// Who has a device open is killed. What the daemon has not received of a file's jobs is taken back, and what it has is
    /// interrupted. A loop device goes on with its jobs. Returns the jobs that will never happen.
    pub(super) fn kill_jobs(&mut self, id: OpenId) -> Vec<u64> {
        let Some(open) = self.kernels.open.get(&id) else { return Vec::new() };
        let (on, is_loop) = (open.on, open.through.is_some());
        let Some(connection) = self.kernels.connections.get_mut(&on).filter(|_| !is_loop) else {
            return Vec::new();
        };
        let (taken, interrupts) = (connection.take_back(id), connection.knows_interrupts());
        let working = connection.in_process(id);
        for request in working.into_iter().filter(|_| interrupts) {
            self.interrupt(on, request);
        }
        let Some(open) = self.kernels.open.get_mut(&id) else { return Vec::new() };
        let mut never = Vec::new();
        for number in taken {
            let Some(job) = open.jobs.get_mut(&number) else { continue };
            job.left -= 1;
            job.parts = job.parts.saturating_sub(1);
            if job.left == 0 {
                let whole = job.parts == 0 && !job.is_late;
                open.jobs.remove(&number);
                never.extend(whole.then_some(number));
            }
        }
        never
    }
}
