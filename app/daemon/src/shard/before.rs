// SPDX-License-Identifier: Apache-2.0
//! Performs what the engine asks of a group's before-image file: one thing at a time, each of many operations of the
//! driver, with the ledger's store to say what is written where.

use crate::shard::clock::Clock;
use crate::shard::plan::VolumePlan;
use crate::shard::token::{Kind, token};
use helio_driver::{Buffer, Driver, File, Op, Outcome, Piece, Pool, Shared};
use helio_engine::{BeforeOp, BeforeOutcome, StoreFault};
use helio_format::before::{CHUNK_BYTES, KeptImage, PAGE_BYTES};
use helio_ledger::{BEFORE_HEADER_BYTES, BeforeStore, BeforeWrite, Chunk};
use helio_units::{Bytes, Extent, WallTime};

/// Records being restored at once: 2 MiB.
const RESTORED_AT_ONCE: u64 = 32;
/// Neighbouring chunks that are read, and appended, at once.
const ROW_CHUNKS: usize = 16;
/// Memory of buffers kept for the next chunks while there is a keeping.
const POOL_BYTES: Bytes = Bytes::mib(64);

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
    pool: Pool,
    failed: bool,
}

/// What is under way.
#[derive(Debug)]
enum Work {
    /// The members are being flushed, then the keeping begins.
    Begin { image: Box<KeptImage>, flushes: Flushes },
    /// A header is being written, then flushed.
    Header { ends: bool },
    /// Rows of neighbouring chunks are being read and appended.
    Preserve { rows: Vec<Vec<Chunk>>, left: usize },
    /// What was written is being flushed.
    Flush { ends: bool },
    /// How many records there are is being told.
    Note,
    /// Records are being read, to be checked or to be put back.
    Restore { writes: bool, next: u64, left: u64, bad: bool },
    /// The members are being flushed behind a restore.
    Settle { flushes: Flushes },
}

/// Flushes of all members.
#[derive(Clone, Copy, Debug)]
struct Flushes {
    left: usize,
    /// Bit n where the one of volume n failed.
    failed: u64,
}

impl Flushes {
    /// One ended. Returns what all came to, once none is left.
    fn ended(&mut self, volume: u32, failed: bool) -> Option<Result<(), BeforeOutcome>> {
        self.left -= 1;
        self.failed |= u64::from(failed) << volume;
        let outcome = match self.failed {
            0 => Ok(()),
            volumes => Err(BeforeOutcome::FlushFailed { volumes }),
        };
        (self.left == 0).then_some(outcome)
    }
}

impl Before {
    pub(crate) fn new(
        file: File,
        sizes: std::fs::File,
        store: BeforeStore,
        kept_at: Option<WallTime>,
    ) -> Self {
        Self { file, sizes, store, kept_at, work: None, pool: Pool::new(POOL_BYTES), failed: false }
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
                let flushes = flush_members(group, volumes, driver);
                self.work = Some(Work::Begin { image, flushes });
            }
            BeforeOp::Preserve { chunks } => {
                let rows = rows(&chunks);
                for (n, row) in rows.iter().enumerate() {
                    let op = self.read_row(row, volumes);
                    driver.submit(token(Kind::Before, group, n as u32), op);
                }
                let left = rows.len();
                self.work = Some(Work::Preserve { rows, left });
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
            tracing::error!(%error, "space for before-images cannot be reserved");
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
        let mut bytes = Buffer::zeroed(page.bytes.len());
        bytes.copy_from_slice(&page.bytes);
        let pieces = vec![Piece::Shared(bytes.into_shared(), 0..page.bytes.len())];
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
        let Some(work) = self.work.take() else {
            panic!("a before-image operation that was not started")
        };
        let failed = outcome.error();
        if let Some(error) = failed {
            tracing::error!(%error, "the before-image file or a member failed");
            self.failed = true;
        }
        match work {
            Work::Begin { image, mut flushes } => match flushes.ended(detail, failed.is_some()) {
                None => {
                    self.work = Some(Work::Begin { image, flushes });
                    None
                }
                Some(Err(outcome)) => Some(outcome),
                Some(Ok(())) => {
                    self.keep(group, *image, driver);
                    None
                }
            },
            Work::Settle { mut flushes } => match flushes.ended(detail, failed.is_some()) {
                None => {
                    self.work = Some(Work::Settle { flushes });
                    None
                }
                Some(ended) => Some(ended.err().unwrap_or(BeforeOutcome::Done)),
            },
            Work::Preserve { rows, left } => {
                self.preserved(group, detail, (rows, left), outcome, driver)
            }
            Work::Restore { writes, next, left, bad } => {
                self.work = Some(Work::Restore { writes, next, left: left - 1, bad });
                self.restored(group, detail, outcome, volumes, driver);
                self.restore_more(group, volumes, driver)
            }
            _ if self.failed => Some(BeforeOutcome::Failed(StoreFault::Io)),
            Work::Header { ends } => {
                self.flush(group, ends, driver);
                None
            }
            Work::Flush { ends } => {
                self.store.flushed();
                if ends {
                    self.kept_at = None;
                    self.pool = Pool::new(POOL_BYTES);
                    if let Err(error) = self.sizes.set_len(BEFORE_HEADER_BYTES) {
                        tracing::warn!(%error, "the space of ended before-images is not freed");
                    }
                }
                self.write_note(group, driver)
            }
            Work::Note => Some(BeforeOutcome::Done),
        }
    }

    /// The members are durable: the keeping begins.
    fn keep(&mut self, group: usize, mut image: KeptImage, driver: &mut dyn Driver) {
        image.at = Clock::wall_now();
        self.kept_at = Some(image.at);
        let page = self.store.begin(image);
        self.write_header(group, page, false, driver);
    }

    fn flush(&mut self, group: usize, ends: bool, driver: &mut dyn Driver) {
        self.work = Some(Work::Flush { ends });
        driver.submit(token(Kind::Before, group, 0), Op::SyncData { file: self.file.clone() });
    }

    /// A buffer that begins on a page, as direct I/O wants it. It holds what was there before.
    fn buffer(&self, length: usize) -> Buffer {
        self.pool.take(length).unwrap_or_else(|| Buffer::zeroed(length))
    }

    /// Reads neighbouring chunks into one buffer.
    fn read_row(&self, row: &[Chunk], volumes: &[VolumePlan]) -> Op {
        let (volume, first) = row[0];
        let length = row.iter().map(|(_, extent)| extent.length).sum();
        let mut buffer = self.buffer(row.len() * CHUNK_BYTES as usize);
        // The last chunk of a volume may be shorter; a record is not.
        buffer[length as usize..].fill(0);
        let extent = Extent::new(first.offset, length);
        match volumes[usize::from(volume.0)].member.read(extent, buffer) {
            Ok(op) => op,
            Err(error) => panic!("a chunk does not fit its member: {error}"),
        }
    }

    /// Appends the records of neighbouring chunks in one write.
    fn write_row(&mut self, row: &[Chunk], data: Buffer) -> Op {
        let mut pages = self.buffer(row.len() * PAGE_BYTES);
        let mut extent = Extent::new(0, self.store.stride() * row.len() as u64);
        let places = pages.chunks_mut(PAGE_BYTES).zip(data.chunks(CHUNK_BYTES as usize));
        for (n, (chunk, (place, bytes))) in row.iter().zip(places).enumerate() {
            let page = self.store.record(*chunk, bytes);
            place.copy_from_slice(&page.bytes);
            if n == 0 {
                extent.offset = page.offset;
            }
        }
        let (pages, data) = (pages.into_shared(), data.into_shared());
        let part = |of: &Shared, n: usize, length: usize| {
            Piece::Shared(Shared::clone(of), n * length..(n + 1) * length)
        };
        let record = |n| [part(&pages, n, PAGE_BYTES), part(&data, n, CHUNK_BYTES as usize)];
        let pieces = (0..row.len()).flat_map(record).collect();
        Op::Write { file: self.file.clone(), extent, pieces, sync: false }
    }

    /// A row was read, or its records written.
    fn preserved(
        &mut self,
        group: usize,
        detail: u32,
        (rows, left): (Vec<Vec<Chunk>>, usize),
        outcome: Outcome,
        driver: &mut dyn Driver,
    ) -> Option<BeforeOutcome> {
        match outcome {
            Outcome::Read { buffer, result: Ok(()) } if !self.failed => {
                let op = self.write_row(&rows[detail as usize], buffer);
                driver.submit(token(Kind::Before, group, detail), op);
                self.work = Some(Work::Preserve { rows, left });
                None
            }
            _ if left > 1 => {
                self.work = Some(Work::Preserve { rows, left: left - 1 });
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
        let flushes = flush_members(group, volumes, driver);
        self.work = Some(Work::Settle { flushes });
        None
    }
}

/// Chunks that lie one behind the other, together.
fn rows(chunks: &[Chunk]) -> Vec<Vec<Chunk>> {
    let mut rows: Vec<Vec<Chunk>> = Vec::new();
    for &(volume, extent) in chunks {
        let follows = |row: &&mut Vec<Chunk>| {
            row.len() < ROW_CHUNKS
                && row.last().is_some_and(|(v, e)| *v == volume && e.end() == extent.offset)
        };
        match rows.last_mut().filter(follows) {
            Some(row) => row.push((volume, extent)),
            None => rows.push(vec![(volume, extent)]),
        }
    }
    rows
}

fn flush_members(group: usize, volumes: &[VolumePlan], driver: &mut dyn Driver) -> Flushes {
    for (n, volume) in volumes.iter().enumerate() {
        driver.submit(token(Kind::Before, group, n as u32), volume.member.flush());
    }
    Flushes { left: volumes.len(), failed: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_units::VolumeIndex;

    #[test]
    fn a_flush_of_a_member_that_failed_is_told_by_its_volume_once_all_have_ended() {
        let mut flushes = Flushes { left: 3, failed: 0 };
        assert_eq!(flushes.ended(2, true), None);
        assert_eq!(flushes.ended(0, false), None);
        let outcome = BeforeOutcome::FlushFailed { volumes: 4 };
        assert_eq!(flushes.ended(1, false), Some(Err(outcome)));
        let mut flushes = Flushes { left: 1, failed: 0 };
        assert_eq!(flushes.ended(0, false), Some(Ok(())));
    }

    #[test]
    fn neighbours_go_in_rows_and_a_short_chunk_ends_one() {
        let chunk =
            |volume, n: u64| (VolumeIndex(volume), Extent::new(n * CHUNK_BYTES, CHUNK_BYTES));
        let short = (VolumeIndex(0), Extent::new(20 * CHUNK_BYTES, 4096));
        let mut chunks: Vec<Chunk> = (0..20).map(|n| chunk(0, n)).collect();
        chunks.extend([short, chunk(1, 0), chunk(1, 2), chunk(1, 1)]);
        let lengths: Vec<usize> = rows(&chunks).iter().map(Vec::len).collect();
        assert_eq!(lengths, [16, 5, 1, 1, 1]);
        assert_eq!(rows(&chunks).concat(), chunks, "none is lost, and the order stays");
    }
}
