// SPDX-License-Identifier: Apache-2.0
//! Walking seeds with all cores.

use crate::promise::{Promise, Violation};
use crate::run::{Counts, run};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What a walk found.
#[derive(Debug, Default)]
pub struct Walk {
    /// The numbers of all its stories.
    pub counts: Counts,
    /// How many it ran to their end.
    pub seeds: u64,
    /// Broken promises, by seed.
    pub broken: Vec<(u64, Violation)>,
}

/// One seed, an engine's assertion made a violation like any other.
#[must_use]
pub fn judge(seed: u64) -> (Counts, Option<Violation>) {
    match catch_unwind(AssertUnwindSafe(|| run(seed, None))) {
        Ok(verdict) => (verdict.counts, verdict.broken.map(|(violation, _)| violation)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            let detail = text.unwrap_or_else(|| "a panic without words".to_owned());
            (Counts::default(), Some(Violation { promise: Promise::Invariants, detail }))
        }
    }
}

/// Walks `seeds` seeds from `from` on, on as many threads as there are cores, and gives up behind `most` broken ones.
/// `found` hears of each as it is found. Which ones a walk that gives up found depends on the machine; what each seed
/// does, does not.
pub fn walk(from: u64, seeds: u64, most: usize, found: &(impl Fn(u64, &Violation) + Sync)) -> Walk {
    let (next, end) = (AtomicU64::new(from), from.saturating_add(seeds));
    let total = Mutex::new(Walk::default());
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let (counts, violation) = judge(seed);
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    total.counts.add(&counts);
                    total.seeds += 1;
                    if let Some(violation) = violation {
                        found(seed, &violation);
                        total.broken.push((seed, violation));
                        if total.broken.len() >= most {
                            next.store(end, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let mut walk = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    walk.broken.sort_by_key(|(seed, _)| *seed);
    walk
}
