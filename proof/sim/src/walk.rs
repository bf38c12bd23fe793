// SPDX-License-Identifier: Apache-2.0
//! Walking seeds with all cores.

use crate::coverage::Coverage;
use crate::promise::{Promise, Violation};
use crate::run::{Counts, Story, Verdict, run};
use crate::telling::Telling;
use core::fmt::{self, Write};
use helio_units::Moment;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What a walk found.
#[derive(Debug, Default)]
pub struct Walk {
    /// The numbers of all its stories.
    pub counts: Counts,
    /// Where they went.
    pub coverage: Coverage,
    /// What happened and is in no list of the report, and in which seed first.
    pub unlisted: BTreeMap<String, u64>,
    /// How many it ran to their end.
    pub seeds: u64,
    /// Broken promises, by seed.
    pub broken: Vec<(u64, Violation)>,
}

/// One story, an engine's assertion made a violation like any other.
#[must_use]
pub fn judge(telling: &Telling) -> Verdict {
    match catch_unwind(AssertUnwindSafe(|| run(telling, None))) {
        Ok(verdict) => verdict,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            let detail = text.unwrap_or_else(|| "a panic without words".to_owned());
            let broken = Some((Violation { promise: Promise::Invariants, detail }, Moment::NEVER));
            Verdict { counts: Counts::default(), coverage: Coverage::default(), broken }
        }
    }
}

/// Walks the stories of `seeds` seeds from that of `first` on, each with what `first` leaves out or adds, on as many threads as there are cores, and gives up behind `most` broken ones.
/// `found` hears of each as it is found. Which ones a walk that gives up found depends on the machine; what each seed
/// does, does not.
pub fn walk(
    first: &Telling,
    seeds: u64,
    most: usize,
    found: &(impl Fn(u64, &Violation) + Sync),
) -> Walk {
    let (next, end) = (AtomicU64::new(first.seed), first.seed.saturating_add(seeds));
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
                    let verdict = judge(&Telling { seed, ..first.clone() });
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    total.counts.add(&verdict.counts);
                    total.coverage.add(&verdict.coverage);
                    for line in verdict.coverage.lines().into_iter().filter(|line| !line.listed) {
                        let first = total.unlisted.entry(line.name).or_insert(seed);
                        *first = seed.min(*first);
                    }
                    total.seeds += 1;
                    if let Some((violation, _)) = verdict.broken {
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

/// A number for everything that happens in the stories of `seeds` seeds from that of `first` on: it stays the same while
/// the engine does the same. A change of a text in its log changes it.
#[must_use]
pub fn digest(first: &Telling, seeds: u64) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for seed in first.seed..first.seed.saturating_add(seeds) {
        let mut listener = |at: Moment, words: &dyn fmt::Display| {
            let _never_fails = writeln!(hash, "{} {words}", at.0);
        };
        let _verdict = run(&Telling { seed, ..first.clone() }, Some(Story(&mut listener)));
    }
    hash.0
}

/// The hash of Fowler, Noll and Vo, FNV-1a, 64 bits.
struct Fnv(u64);

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}
