// SPDX-License-Identifier: Apache-2.0
//! The pool of a desk, where before-images lie: it runs out of room, fails, and does what is under way in part when the power
//! goes.

use super::member::Payloads;
use super::{BLOCK, Stamp};
use helio_format::before::{CHUNK_BYTES, KeptImage};
use helio_ledger::{BeforeKept, Chunk};
use helio_netmodel::Dice;
use helio_stack::{PoolOp, PoolOutcome, Row, StoreFault};
use helio_units::Bytes;

/// A chunk, and what it held.
type Kept = (Chunk, Vec<Stamp>);

#[derive(Clone, Debug)]
enum Job {
    Reserve(u64),
    Begin(KeptImage),
    Append(Vec<Kept>),
    Check,
    Load(u64, u64),
    End,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pool {
    /// The copy whose header is durable, and what is kept of it.
    kept: Option<(KeptImage, Vec<Kept>)>,
    job: Option<Job>,
    /// Chunks it has room for.
    room: u64,
    failed: bool,
}

impl Pool {
    pub(super) const fn new(room: u64) -> Self {
        Self { kept: None, job: None, room, failed: false }
    }

    /// There is room for so many chunks from now on.
    pub(super) const fn limit(&mut self, room: u64) {
        self.room = room;
    }

    /// The number of the copy, where one is kept.
    pub(super) fn label(&self) -> Option<u64> {
        self.kept.as_ref().map(|(image, _)| image.head.0)
    }

    /// What a copy says that block held, where it was preserved.
    pub(super) fn kept_block(&self, volume: usize, block: usize) -> Option<Stamp> {
        let (_, kept) = self.kept.as_ref()?;
        let at = block as u64 * BLOCK;
        kept.iter().find_map(|((of, extent), stamps)| {
            let inside = usize::from(of.0) == volume && (extent.offset..extent.end()).contains(&at);
            inside.then(|| stamps[((at - extent.offset) / BLOCK) as usize])
        })
    }

    pub(super) const fn is_busy(&self) -> bool {
        self.job.is_some()
    }

    pub(super) fn begin(&mut self, op: PoolOp, payloads: &Payloads) {
        assert!(self.job.is_none(), "two operations on the pool at once");
        self.job = Some(match op {
            PoolOp::Reserve { chunks } => Job::Reserve(chunks),
            PoolOp::Begin { label } => Job::Begin(*label),
            PoolOp::Append { rows } => {
                let chunks = |row: &Row| {
                    let chunks = row.chunks(payloads.stamps(row.payload), Bytes(BLOCK));
                    chunks.map(|(chunk, stamps)| (chunk, stamps.to_vec())).collect::<Vec<_>>()
                };
                Job::Append(rows.iter().flat_map(chunks).collect())
            }
            PoolOp::Check => Job::Check,
            PoolOp::Load { first, most } => Job::Load(first, most),
            PoolOp::End => Job::End,
        });
    }

    /// What was asked ends. `fails`: it fails; nothing is written behind a write that failed until the process starts again.
    pub(super) fn end(&mut self, fails: bool, payloads: &mut Payloads) -> PoolOutcome {
        let Some(job) = self.job.take() else { panic!("nothing was asked of the pool") };
        let reads = matches!(job, Job::Check | Job::Load(..));
        self.failed |= fails && !reads;
        if fails || self.failed && !reads {
            return PoolOutcome::Failed(StoreFault::Io);
        }
        match job {
            Job::Reserve(chunks) if chunks > self.room => {
                PoolOutcome::NoRoom { free: Bytes(self.room * (CHUNK_BYTES + 4096)) }
            }
            Job::Load(first, most) => {
                let kept = self.kept.iter().flat_map(|(_, kept)| kept);
                let some = kept.skip(first as usize).take(most as usize);
                let row = |((volume, extent), stamps): &Kept| {
                    let payload = payloads.take(stamps.clone());
                    Row { volume: *volume, extent: *extent, payload }
                };
                PoolOutcome::Loaded(some.map(row).collect())
            }
            job => {
                self.done(job);
                PoolOutcome::Done
            }
        }
    }

    fn done(&mut self, job: Job) {
        match job {
            Job::Begin(image) => self.kept = Some((image, Vec::new())),
            Job::Append(chunks) => {
                let kept = self.kept.as_mut().map(|(_, kept)| kept);
                kept.into_iter().for_each(|kept| kept.extend(chunks.iter().cloned()));
            }
            Job::End => self.kept = None,
            Job::Reserve(_) | Job::Check | Job::Load(..) => {}
        }
    }

    /// The process ends: what was under way is done, in part, or not at all.
    pub(super) fn crash(&mut self, dice: &mut Dice) {
        match self.job.take() {
            Some(Job::Append(mut chunks)) => {
                chunks.truncate(dice.below(chunks.len() as u64 + 1) as usize);
                self.done(Job::Append(chunks));
            }
            Some(job) if !self.failed && dice.chance(1, 2) => self.done(job),
            _ => {}
        }
        self.failed = false;
    }

    /// As a starting process finds it.
    pub(super) fn found(&self) -> Option<BeforeKept> {
        let (image, kept) = self.kept.as_ref()?;
        let chunks = kept.iter().map(|(chunk, _)| *chunk).collect();
        Some(BeforeKept { image: *image, chunks, damaged: false })
    }
}
