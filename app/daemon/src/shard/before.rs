// SPDX-License-Identifier: Apache-2.0
//! Performs what the engine asks of a group's before-image file: one thing at a time, each of many operations of the
//! driver, with the ledger's store to say what is written where.

use crate::shard::clock::Clock;
use crate::shard::plan::VolumePlan;
use crate::shard::token::{Kind, token};
use helio_driver::{Buffer, Driver, File, Op, Outcome, Piece, Shared};
use helio_engine::{BeforeOp, BeforeOutcome, StoreFault};
use helio_format::before::{CHUNK_BYTES, KeptImage, PAGE_BYTES};
use helio_ledger::{BEFORE_HEADER_BYTES, BeforeStore, BeforeWrite, Chunk};
use helio_units::{Bytes, Extent, WallTime};

/// Records being restored at once: 2 MiB.
const RESTORED_AT_ONCE: u64 = 32;

/// One group's before-image file.
#[derive(Debug)]
pub(crate) struct Before {
    pub(crate) file: File,
    /// The same file, for its size.
    pub(crate) sizes: std::fs::File,
    pub(crate) store: BeforeStore,
    /// When the keeping began.
    pub(crate) kept_at: Option<WallTime>,
    work: Option<Work>,
    failed: bool,
}

/// What is under way.
#[derive(Debug)]
enum Work {
    /// The members are being flushed, then the keeping begins.
    Begin { image: Box<KeptImage>, flushes: usize },
    /// A header is being written, then flushed.
    Header { ends: bool },
    /// Chunks are being read and appended.
    Preserve { chunks: Vec<Chunk>, left: usize },
    /// What was written is being flushed.
    Flush { ends: bool },
    /// How many records there are is being told.
    Note,
    /// Records are being read, to be checked or to be put back.
    Restore { writes: bool, next: u64, left: u64, bad: bool },
    /// The members are being flushed behind a restore.
    Settle { flushes: usize },
}

impl Before {
    pub(crate) fn new(
        file: File,
        sizes: std::fs::File,
        store: BeforeStore,
        kept_at: Option<WallTime>,
    ) -> Self {
        Self { file, sizes, store, kept_at, work: None, failed: false }
    }

    /// Begins what the engine asks for. Returns how it ended, where it did at once.
    pub(crate) fn begin(
        &mut self,
        group: usize,
        op: BeforeOp,
        volumes: &[VolumePlan],
        driver: &mut dyn Driver,
    ) -> Option<BeforeOutcome> {
        if self.failed {
            return Some(BeforeOutcome::Failed(StoreFault::Io));
        }
        let reserved = match op {
            BeforeOp::Begin { room, .. } | BeforeOp::Extend { room } => self.reserve(room),
            _ => Ok(()),
        };
        if let Err(outcome) = reserved {
            return Some(outcome);
        }
        match op {
            BeforeOp::Extend { .. } => return Some(BeforeOutcome::Done),
            BeforeOp::Begin { image, .. } => {
                // The kept image must not lose to a power cut what nobody flushed yet.
                self.work = Some(Work::Begin { image, flushes: volumes.len() });
                flush_members(group, volumes, driver);
            }
            BeforeOp::Preserve { chunks } => {
                for (n, (volume, extent)) in chunks.iter().enumerate() {
                    let buffer = Buffer::zeroed(CHUNK_BYTES as usize);
                    match volumes[usize::from(volume.0)].member.read(*extent, buffer) {
                        Ok(op) => driver.submit(token(Kind::Before, group, n as u32), op),
                        Err(error) => panic!("a chunk does not fit its member: {error}"),
                    }
                }
                let left = chunks.len();
                self.work = Some(Work::Preserve { chunks, left });
            }
            BeforeOp::Restore => {
                self.work = Some(Work::Restore { writes: false, next: 0, left: 0, bad: false });
                return self.restore_more(group, volumes, driver);
            }
            BeforeOp::End => {
                let page = self.store.end();
                self.write_header(group, page, true, driver);
            }
        }
        None
    }

    /// Makes sure that the file can hold so many chunks.
    fn reserve(&self, chunks: u64) -> Result<(), BeforeOutcome> {
        let failed = |error: std::io::Error| {
            tracing::error!(%error, "room for before-images cannot be reserved");
            BeforeOutcome::Failed(StoreFault::Other(error.raw_os_error().unwrap_or(0)))
        };
        let had = self.sizes.metadata().map_err(failed)?.len();
        let length = self.store.record_at(chunks);
        if length <= had {
            return Ok(());
        }
        let flags = rustix::fs::FallocateFlags::empty();
        let reserved = rustix::fs::fallocate(&self.sizes, flags, 0, length);
        match reserved {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT | rustix::io::Errno::FBIG) => {
                self.sizes.set_len(had).map_err(failed)?;
                Err(BeforeOutcome::NoRoom { free: Bytes(had + self.free()) })
            }
            // A file system that cannot reserve: what is free now must do.
            Err(rustix::io::Errno::OPNOTSUPP) if length <= had + self.free() => {
                self.sizes.set_len(length).map_err(failed)
            }
            Err(rustix::io::Errno::OPNOTSUPP) => {
                Err(BeforeOutcome::NoRoom { free: Bytes(had + self.free()) })
            }
            Err(error) => Err(failed(error.into())),
        }
    }

    fn free(&self) -> u64 {
        rustix::fs::fstatvfs(&self.sizes).map_or(0, |space| space.f_bavail * space.f_frsize)
    }

    fn write_header(
        &mut self,
        group: usize,
        page: BeforeWrite,
        ends: bool,
        driver: &mut dyn Driver,
    ) {
        self.work = Some(Work::Header { ends });
        let extent = Extent::new(page.offset, page.bytes.len() as u64);
        let pieces = vec![Piece::Bytes(page.bytes)];
        let op = Op::Write { file: self.file.clone(), extent, pieces, sync: false };
        driver.submit(token(Kind::Before, group, 0), op);
    }

    fn write_note(&mut self, group: usize, driver: &mut dyn Driver) -> Option<BeforeOutcome> {
        let Some(page) = self.store.note() else { return Some(BeforeOutcome::Done) };
        self.write_header(group, page, false, driver);
        self.work = Some(Work::Note);
        None
    }

    /// An operation ended. Returns how the whole ended, once it has.
    pub(crate) fn done(
        &mut self,
        group: usize,
        detail: u32,
        outcome: Outcome,
        volumes: &[VolumePlan],
        driver: &mut dyn Driver,
    ) -> Option<BeforeOutcome> {
        let Some(work) = self.work.take() else { panic!("a before-image operation nobody began") };
        if let Some(error) = outcome.error() {
            tracing::error!(%error, "the before-image file or a member failed");
            self.failed = true;
        }
        match work {
            Work::Begin { image, flushes } if flushes > 1 => {
                self.work = Some(Work::Begin { image, flushes: flushes - 1 });
                None
            }
            Work::Settle { flushes } if flushes > 1 => {
                self.work = Some(Work::Settle { flushes: flushes - 1 });
                None
            }
            Work::Preserve { chunks, left } => {
                self.preserved(group, detail, (chunks, left), outcome, driver)
            }
            Work::Restore { writes, next, left, bad } => {
                self.work = Some(Work::Restore { writes, next, left: left - 1, bad });
                self.restored(group, detail, outcome, volumes, driver);
                self.restore_more(group, volumes, driver)
            }
            _ if self.failed => Some(BeforeOutcome::Failed(StoreFault::Io)),
            Work::Begin { mut image, .. } => {
                image.at = Clock::wall_now();
                self.kept_at = Some(image.at);
                let page = self.store.begin(*image);
                self.write_header(group, page, false, driver);
                None
            }
            Work::Header { ends } => {
                self.flush(group, ends, driver);
                None
            }
            Work::Flush { ends } => {
                self.store.flushed();
                if ends {
                    self.kept_at = None;
                    if let Err(error) = self.sizes.set_len(BEFORE_HEADER_BYTES) {
                        tracing::warn!(%error, "the room of ended before-images is not given back");
                    }
                }
                self.write_note(group, driver)
            }
            Work::Note => Some(BeforeOutcome::Done),
            Work::Settle { .. } => Some(BeforeOutcome::Done),
        }
    }

    fn flush(&mut self, group: usize, ends: bool, driver: &mut dyn Driver) {
        self.work = Some(Work::Flush { ends });
        driver.submit(token(Kind::Before, group, 0), Op::SyncData { file: self.file.clone() });
    }

    /// A chunk was read, or its record written.
    fn preserved(
        &mut self,
        group: usize,
        detail: u32,
        (chunks, left): (Vec<Chunk>, usize),
        outcome: Outcome,
        driver: &mut dyn Driver,
    ) -> Option<BeforeOutcome> {
        match outcome {
            Outcome::Read { buffer, result: Ok(()) } if !self.failed => {
                let page = self.store.record(chunks[detail as usize], &buffer);
                let extent = Extent::new(page.offset, self.store.stride());
                let length = buffer.len();
                let data = Piece::Shared(buffer.into_shared(), 0..length);
                let pieces = vec![Piece::Bytes(page.bytes), data];
                let op = Op::Write { file: self.file.clone(), extent, pieces, sync: false };
                driver.submit(token(Kind::Before, group, detail), op);
                self.work = Some(Work::Preserve { chunks, left });
                None
            }
            _ if left > 1 => {
                self.work = Some(Work::Preserve { chunks, left: left - 1 });
                None
            }
            _ if self.failed => Some(BeforeOutcome::Failed(StoreFault::Io)),
            _ => {
                self.flush(group, false, driver);
                None
            }
        }
    }

    /// A record was read: it is checked, and in the second round put back.
    fn restored(
        &mut self,
        group: usize,
        detail: u32,
        outcome: Outcome,
        volumes: &[VolumePlan],
        driver: &mut dyn Driver,
    ) {
        let Some(Work::Restore { writes, left, bad, .. }) = &mut self.work else { return };
        let Outcome::Read { buffer, result: Ok(()) } = outcome else { return };
        match self.store.check(u64::from(detail), &buffer) {
            None => *bad = true,
            Some((volume, extent)) if *writes => {
                let range = PAGE_BYTES..PAGE_BYTES + extent.length as usize;
                let payload: Shared = buffer.into_shared();
                let member = &volumes[usize::from(volume.0)].member;
                match member.write(extent, payload, range, false) {
                    Ok(op) => {
                        *left += 1;
                        driver.submit(token(Kind::Before, group, detail), op);
                    }
                    Err(error) => {
                        tracing::error!(%error, "a kept chunk does not fit its member");
                        *bad = true;
                    }
                }
            }
            Some(_) => {}
        }
    }

    /// Reads more records, or goes on to what follows them.
    fn restore_more(
        &mut self,
        group: usize,
        volumes: &[VolumePlan],
        driver: &mut dyn Driver,
    ) -> Option<BeforeOutcome> {
        let Some(Work::Restore { writes, next, left, bad }) = &mut self.work else { return None };
        let stop = *bad || self.failed;
        while !stop && *left < RESTORED_AT_ONCE && *next < self.store.records() {
            let extent = Extent::new(self.store.record_at(*next), self.store.stride());
            let buffer = Buffer::zeroed(extent.length as usize);
            let op = Op::Read { file: self.file.clone(), extent, buffer };
            driver.submit(token(Kind::Before, group, *next as u32), op);
            (*next, *left) = (*next + 1, *left + 1);
        }
        if *left > 0 {
            return None;
        }
        if stop {
            let outcome =
                if *bad { BeforeOutcome::Damaged } else { BeforeOutcome::Failed(StoreFault::Io) };
            self.work = None;
            return Some(outcome);
        }
        if !*writes && self.store.records() > 0 {
            (*writes, *next) = (true, 0);
            return self.restore_more(group, volumes, driver);
        }
        self.work = Some(Work::Settle { flushes: volumes.len() });
        flush_members(group, volumes, driver);
        None
    }
}

fn flush_members(group: usize, volumes: &[VolumePlan], driver: &mut dyn Driver) {
    for volume in volumes {
        driver.submit(token(Kind::Before, group, 0), volume.member.flush());
    }
}
