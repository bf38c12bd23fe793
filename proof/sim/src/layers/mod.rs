// SPDX-License-Identifier: Apache-2.0
//! Layers of the store stack alone: a layer, in every legal composition, against one reference store (rule 26).
//!
//! A story draws volumes, layers above and below the one that preserves copies, a client that never has two operations on one
//! block, an owner that cuts, restores and drops copies, a pool that runs out of room or fails, and power cuts. Judged are: every
//! operation ends once; what is read is what was written; a flush that is done keeps everything done before it; what is refused
//! touched nothing; a cut holds everything done before it, durably; at every moment what the pool holds, laid over what the
//! members hold, is the image that was cut; a branch holds what was written to it, over that, as a volume would; where a younger copy or
//! a volume differs from a copy counts as changed since; and from the moment of a
//! rollback on the volumes hold what its copy holds, or never do.

mod branches;
mod changed;
mod member;
mod pool;
mod reference;
mod rollbacks;
mod sets;
mod story;

pub use sets::SetsWalk;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a walk over seeds of layers did.
#[derive(Clone, Copy, Debug, Default)]
pub struct LayersWalk {
    /// Seeds walked.
    pub seeds: u64,
    /// Operations of clients.
    pub operations: u64,
    /// Copies that were cut.
    pub cuts: u64,
    /// Copies that were restored.
    pub restores: u64,
    /// Rollbacks that began.
    pub rollbacks: u64,
    /// Expendable copies that were over.
    pub over: u64,
    /// Changes that were refused.
    pub refused: u64,
    /// Reads of copies that gave what was cut.
    pub copy_reads: u64,
    /// Operations on branches that were done.
    pub branch_ios: u64,
    /// Copies that were abandoned.
    pub abandoned: u64,
    /// Power cuts and ends of the process in the middle of a story.
    pub crashes: u64,
}

impl LayersWalk {
    fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.operations += other.operations;
        self.cuts += other.cuts;
        self.restores += other.restores;
        self.rollbacks += other.rollbacks;
        self.over += other.over;
        self.refused += other.refused;
        self.copy_reads += other.copy_reads;
        self.branch_ios += other.branch_ios;
        self.abandoned += other.abandoned;
        self.crashes += other.crashes;
    }
}

/// Walks that many seeds of copies from `first` on, with all cores; tells each that breaks a promise, and gives up behind `most`.
///
/// # Errors
/// How many broke one.
pub fn walk_layers(
    first: u64,
    seeds: u64,
    most: u64,
    found: &(impl Fn(u64, &str) + Sync),
) -> Result<LayersWalk, u64> {
    walk_all((first, seeds, most), story::tell, LayersWalk::add, found)
}

/// The same of seeds of sets of members.
///
/// # Errors
/// How many broke a promise.
pub fn walk_sets(
    first: u64,
    seeds: u64,
    most: u64,
    found: &(impl Fn(u64, &str) + Sync),
) -> Result<SetsWalk, u64> {
    walk_all((first, seeds, most), sets::tell, SetsWalk::add, found)
}

fn walk_all<W: Default + Copy + Send>(
    (first, seeds, most): (u64, u64, u64),
    tell: impl Fn(u64) -> Result<W, String> + Sync,
    add: impl Fn(&mut W, W) + Sync,
    found: &(impl Fn(u64, &str) + Sync),
) -> Result<W, u64> {
    let (next, broken, total) =
        (AtomicU64::new(first), AtomicU64::new(0), Mutex::new(W::default()));
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut own = W::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds || broken.load(Ordering::Relaxed) >= most {
                        break;
                    }
                    match judge(seed, &tell) {
                        Ok(walked) => add(&mut own, walked),
                        Err(why) => {
                            broken.fetch_add(1, Ordering::Relaxed);
                            found(seed, &why);
                        }
                    }
                }
                if let Ok(mut total) = total.lock() {
                    add(&mut total, own);
                }
            });
        }
    });
    match broken.into_inner() {
        0 => Ok(total.into_inner().unwrap_or_default()),
        count => Err(count),
    }
}

/// One story; an assertion of a layer is told like any broken promise.
fn judge<W>(seed: u64, tell: impl Fn(u64) -> Result<W, String>) -> Result<W, String> {
    let told = catch_unwind(AssertUnwindSafe(|| tell(seed)));
    match told {
        Ok(told) => told,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            Err(format!("an assertion failed: {}", text.unwrap_or_default()))
        }
    }
}

/// Bytes of a block: what is written whole or not at all.
const BLOCK: u64 = 16 << 10;

/// What a block holds. Zero reads as zeros; other numbers are of one write each.
type Stamp = u64;

/// The blocks that an extent covers.
fn blocks(extent: helio_units::Extent) -> core::ops::Range<usize> {
    (extent.offset / BLOCK) as usize..(extent.end() / BLOCK) as usize
}
