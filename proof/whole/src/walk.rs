// SPDX-License-Identifier: Apache-2.0
//! Walking seeds with all cores.

use helio_whole::{Coverage, Telling, Violation, run};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// How many stories it told.
    pub(crate) seeds: u64,
    /// How long they were together, in virtual seconds.
    pub(crate) seconds: f64,
    /// How many steps of a script were told in each story at least.
    pub(crate) steps: usize,
    /// Broken promises, by seed.
    pub(crate) broken: Vec<(u64, Violation)>,
    /// Stories in which both copies of a group were damaged.
    pub(crate) lost: Vec<(u64, String)>,
    /// What met what.
    pub(crate) coverage: Coverage,
}

impl Walk {
    fn add(&mut self, seed: u64, verdict: helio_whole::Verdict) {
        self.steps = if self.seeds == 0 { verdict.steps } else { self.steps.min(verdict.steps) };
        self.seeds += 1;
        self.seconds += verdict.lasted.as_secs_f64();
        self.lost.extend(verdict.lost.map(|why| (seed, why)));
        self.coverage.add(&verdict.coverage);
        self.broken.extend(verdict.broken.map(|why| (seed, why)));
    }
}

/// Tells the stories of so many seeds, from the one of `telling` on, and stops at `most` broken ones. `found` is called for each of these. Which ones a walk that stops
/// early found depends on the machine; what each seed does, does not.
pub(crate) fn walk(
    telling: &Telling,
    seeds: u64,
    most: usize,
    found: &(impl Fn(u64, &Violation) + Sync),
) -> Walk {
    let (next, end) = (AtomicU64::new(telling.seed), telling.seed.saturating_add(seeds));
    let total = Mutex::new(Walk::default());
    let work = || loop {
        let seed = next.fetch_add(1, Relaxed);
        if seed >= end {
            return;
        }
        let verdict = run(&telling.with_seed(seed), false);
        if let Some(why) = &verdict.broken {
            found(seed, why);
        }
        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
        total.add(seed, verdict);
        if total.broken.len() >= most {
            next.store(end, Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut walk = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    walk.broken.sort_by_key(|(seed, _)| *seed);
    walk
}
