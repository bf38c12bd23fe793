// SPDX-License-Identifier: Apache-2.0
//! A bounded pool of buffers: what a shard may hold in payload, whatever clients and peers send.

use crate::buffer::{ALIGNMENT, Buffer};
use crate::memory::Block;
use helio_units::Bytes;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sizes double from one page to 128 MiB; the largest item of a line is 32 MiB.
const CLASSES: usize = 16;

/// Lends buffers up to a bound and recycles them by size, so that steady state allocates nothing.
///
/// A buffer finds its own way home when it, or the last [`crate::Shared`] of it, is dropped, on whichever
/// thread that happens; so the accounts are right whatever path a payload took. Clones are the same pool.
#[derive(Clone)]
pub struct Pool {
    home: Arc<Home>,
}

/// What a pool holds at one moment. Every size counts the memory taken, not the length asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUsage {
    /// The most it may hold, lent and idle together.
    pub bound: Bytes,
    /// Lent out now.
    pub in_use: Bytes,
    /// Kept for the next taker.
    pub idle: Bytes,
    /// The most that was ever lent at once.
    pub high_water: Bytes,
    /// How often a taker was turned away.
    pub refusals: u64,
}

/// The part of a pool that outlives it while buffers are still out.
pub(crate) struct Home {
    shelves: Mutex<Shelves>,
}

#[derive(Default)]
struct Shelves {
    bound: u64,
    /// What comes home is freed.
    frees: bool,
    idle: [Vec<Block>; CLASSES],
    idle_bytes: u64,
    in_use: u64,
    high_water: u64,
    refusals: u64,
}

impl Pool {
    /// A pool of at most `bound` bytes of memory. Nothing is allocated until something is taken.
    #[must_use]
    pub fn new(bound: Bytes) -> Self {
        Self::of(Shelves { bound: bound.0, ..Shelves::default() })
    }

    /// A pool that is seldom used: it keeps no memory between two uses.
    #[must_use]
    pub fn reserve(bound: Bytes) -> Self {
        Self::of(Shelves { bound: bound.0, frees: true, ..Shelves::default() })
    }

    fn of(shelves: Shelves) -> Self {
        Self { home: Arc::new(Home { shelves: Mutex::new(shelves) }) }
    }

    /// Changes the bound. Under a smaller one nothing is taken away; nothing more is lent until enough came home.
    pub fn resize(&self, bound: Bytes) {
        let mut shelves = self.home.lock();
        shelves.bound = bound.0;
        let stale = shelves.make_room();
        drop(shelves);
        drop(stale);
    }

    /// A buffer of `length` bytes, or `None` where the bound would be passed (or `length` exceeds 128 MiB):
    /// the caller waits for a buffer to come home. The bytes hold whatever their last user left, so a taker
    /// must write before it lets anyone read.
    #[must_use]
    pub fn take(&self, length: usize) -> Option<Buffer> {
        self.lend(length, Shelves::fits)
    }

    /// As [`Pool::take`]; but while nothing is lent, one buffer of any size up to 128 MiB is, beyond the bound if need be. So
    /// a taker that uses up one buffer after the other always makes progress.
    #[must_use]
    pub fn take_alone(&self, length: usize) -> Option<Buffer> {
        self.lend(length, |shelves, size| shelves.in_use == 0 || shelves.fits(size))
    }

    fn lend(&self, length: usize, may: impl FnOnce(&Shelves, u64) -> bool) -> Option<Buffer> {
        let mut shelves = self.home.lock();
        let Some(class) = class_of(length) else {
            shelves.refusals += 1;
            return None;
        };
        let size = class_size(class);
        if !may(&shelves, size as u64) {
            shelves.refusals += 1;
            return None;
        }
        shelves.in_use += size as u64;
        shelves.high_water = shelves.high_water.max(shelves.in_use);
        let found = shelves.idle[class].pop();
        let block = if let Some(block) = found {
            shelves.idle_bytes -= size as u64;
            block
        } else {
            let stale = shelves.make_room();
            // The allocator is called without the lock: zeroing megabytes must not hold up another thread.
            drop(shelves);
            drop(stale);
            Block::zeroed(size)
        };
        Some(Buffer::lent(block, length, Arc::clone(&self.home)))
    }

    /// What the pool holds now.
    #[must_use]
    pub fn usage(&self) -> PoolUsage {
        let shelves = self.home.lock();
        PoolUsage {
            bound: Bytes(shelves.bound),
            in_use: Bytes(shelves.in_use),
            idle: Bytes(shelves.idle_bytes),
            high_water: Bytes(shelves.high_water),
            refusals: shelves.refusals,
        }
    }
}

/// Names what it holds, not which buffers.
impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.usage()).finish()
    }
}

impl Home {
    /// Shelves a block that came back.
    pub(crate) fn take_back(&self, block: Block) {
        let size = block.capacity() as u64;
        let mut shelves = self.lock();
        shelves.in_use -= size;
        if let Some(class) = class_of(block.capacity()).filter(|_| !shelves.frees) {
            shelves.idle_bytes += size;
            shelves.idle[class].push(block);
        }
        // Beyond a bound that was made smaller, what comes home is given back; within it, there is nothing to do.
        if shelves.in_use + shelves.idle_bytes > shelves.bound {
            let stale = shelves.make_room();
            drop(shelves);
            drop(stale);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shelves> {
        // No code under this lock panics halfway through a change, so a poisoned one is still right.
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelves {
    /// Whether so much more can be lent within the bound.
    fn fits(&self, size: u64) -> bool {
        self.in_use + size <= self.bound
    }

    /// Takes idle blocks off the shelves, largest first, until lent and idle together fit the bound.
    fn make_room(&mut self) -> Vec<Block> {
        let mut stale = Vec::new();
        for class in (0..CLASSES).rev() {
            while self.in_use + self.idle_bytes > self.bound {
                let Some(block) = self.idle[class].pop() else { break };
                self.idle_bytes -= block.capacity() as u64;
                stale.push(block);
            }
        }
        stale
    }
}

/// The smallest class that holds `length` bytes.
fn class_of(length: usize) -> Option<usize> {
    (0..CLASSES).find(|&class| length <= class_size(class))
}

const fn class_size(class: usize) -> usize {
    ALIGNMENT << class
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bound_turns_takers_away_until_a_buffer_comes_home() {
        let pool = Pool::new(Bytes::kib(12));
        let first = pool.take(4096).expect("room for one");
        let second = pool.take(5000).expect("room for a two-page one");
        assert!(pool.take(1).is_none());
        assert_eq!(pool.usage().in_use, Bytes::kib(12));
        drop(first);
        let third = pool.take(1).expect("the first came home");
        assert_eq!((third.len(), third.capacity()), (1, 4096));
        drop((second, third));
        let usage = pool.usage();
        assert_eq!((usage.in_use, usage.high_water), (Bytes::ZERO, Bytes::kib(12)));
        assert_eq!(usage.refusals, 1);
    }

    #[test]
    fn a_bound_that_grows_or_shrinks_counts_from_then_on() {
        let pool = Pool::new(Bytes::kib(4));
        let first = pool.take(4096).expect("room for one");
        assert!(pool.take(1).is_none());
        pool.resize(Bytes::kib(8));
        let second = pool.take(4096).expect("room for another");
        pool.resize(Bytes::kib(4));
        drop(first);
        assert!(pool.take(1).is_none(), "one is still out, and the bound is one");
        drop(second);
        assert!(pool.take(1).is_some());
        assert!(pool.usage().idle <= Bytes::kib(4), "what is beyond the bound was given back");
    }

    #[test]
    fn a_shared_buffer_comes_home_with_its_last_holder_on_any_thread() {
        let pool = Pool::new(Bytes::mib(1));
        let shared = pool.take(4096).expect("room").into_shared();
        let other = Arc::clone(&shared);
        drop(shared);
        assert_eq!(pool.usage().in_use, Bytes::kib(4));
        std::thread::spawn(move || drop(other)).join().expect("the thread ends");
        assert_eq!((pool.usage().in_use, pool.usage().idle), (Bytes::ZERO, Bytes::kib(4)));
    }

    #[test]
    fn memory_is_recycled_and_idle_memory_makes_way_for_other_sizes() {
        let pool = Pool::new(Bytes::kib(8));
        let address = pool.take(4096).expect("room").as_ptr() as usize;
        let again = pool.take(4096).expect("room");
        assert_eq!(again.as_ptr() as usize, address);
        drop(again);
        let large = pool.take(8192).expect("the idle page is let go");
        assert_eq!(pool.usage().idle, Bytes::ZERO);
        drop(large);
    }

    #[test]
    fn one_buffer_is_lent_alone_whatever_its_size() {
        let pool = Pool::reserve(Bytes::kib(8));
        let large = pool.take_alone(100_000).expect("nothing is lent");
        assert!(pool.take_alone(1).is_none(), "the bound is passed");
        drop(large);
        let small =
            [pool.take_alone(1), pool.take_alone(1)].map(|it| it.expect("within the bound"));
        assert!(pool.take_alone(1).is_none());
        drop(small);
        assert!(pool.take(100_000).is_none(), "only if it is asked for");
    }

    #[test]
    fn a_reserve_keeps_no_memory() {
        let pool = Pool::reserve(Bytes::kib(8));
        drop(pool.take(8192).expect("room"));
        assert_eq!((pool.usage().in_use, pool.usage().idle), (Bytes::ZERO, Bytes::ZERO));
    }

    #[test]
    fn a_buffer_outlives_its_pool() {
        let pool = Pool::new(Bytes::kib(4));
        let mut buffer = pool.take(10).expect("room");
        drop(pool);
        buffer.fill(7);
        assert_eq!(buffer[9], 7);
    }

    proptest! {
        #[test]
        fn no_order_of_taking_and_dropping_passes_the_bound(
            steps in prop::collection::vec((0usize..40_000, any::<bool>(), 0usize..8), 1..60)
        ) {
            let pool = Pool::new(Bytes::kib(100));
            let mut held: Vec<Buffer> = Vec::new();
            for (length, take, which) in steps {
                if take {
                    held.extend(pool.take(length));
                } else if which < held.len() {
                    held.swap_remove(which);
                }
                let usage = pool.usage();
                let lent: usize = held.iter().map(Buffer::capacity).sum();
                prop_assert_eq!(usage.in_use.0, lent as u64);
                prop_assert!(usage.in_use + usage.idle <= usage.bound);
            }
        }
    }
}
