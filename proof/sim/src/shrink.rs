// SPDX-License-Identifier: Apache-2.0
//! Shrinking: the smallest story that still breaks the same promise.
//!
//! What is left out changes what follows, so nothing is known of a shorter story until it has run. Tried are, again and
//! again until nothing helps any more: fewer requests, an earlier end of misfortunes, whole kinds of them, and single
//! ones.

use crate::kinds::Kind;
use crate::promise::{Promise, Violation};
use crate::telling::Telling;
use crate::walk::judge;

/// Stories tried at most.
const TRIES: u32 = 2_000;

/// A story that breaks the same promise, and how it breaks it.
#[derive(Debug)]
struct Shrinking {
    promise: Promise,
    best: (Telling, Violation),
    tries: u32,
}

/// Shortens a story that breaks a promise, as far as it goes. None where it breaks none.
#[must_use]
pub fn shrink(telling: &Telling) -> Option<(Telling, Violation)> {
    let (violation, _) = judge(telling).broken?;
    let promise = violation.promise;
    let mut shrinking = Shrinking { promise, best: (telling.clone(), violation), tries: TRIES };
    while shrinking.round() {}
    shrinking.name_only_what_matters();
    Some(shrinking.best)
}

impl Shrinking {
    /// Whether another telling breaks the same promise; then it is the best so far.
    fn try_without(&mut self, change: impl FnOnce(&mut Telling)) -> bool {
        let mut telling = self.best.0.clone();
        change(&mut telling);
        if telling == self.best.0 || self.tries == 0 {
            return false;
        }
        self.tries -= 1;
        let broken = judge(&telling).broken.filter(|(found, _)| found.promise == self.promise);
        let better = broken.is_some();
        self.best = broken.map_or_else(|| self.best.clone(), |(violation, _)| (telling, violation));
        better
    }

    /// What does not come up anyway need not be named.
    fn name_only_what_matters(&mut self) {
        let (best, _) = &mut self.best;
        let most = best.misfortunes.unwrap_or(u64::MAX);
        best.skipped.retain(|number| *number <= most);
        let struck = |telling: &Telling| judge(telling).coverage.misfortunes();
        let least = struck(&self.best.0);
        for kind in self.best.0.without.clone() {
            let mut telling = self.best.0.clone();
            telling.without.remove(&kind);
            if struck(&telling) <= least {
                self.try_without(|best| *best = telling);
            }
        }
    }

    /// Tries everything once; returns whether anything helped.
    fn round(&mut self) -> bool {
        let mut helped = self.lower(|telling| &mut telling.misfortunes, 400);
        helped |= self.lower(|telling| &mut telling.requests, 4_000);
        for kind in Kind::all() {
            if !self.best.0.without.contains(&kind) {
                helped |= self.try_without(|telling| {
                    telling.without.insert(kind);
                });
            }
        }
        for number in (1..=self.best.0.misfortunes.unwrap_or(0)).rev() {
            if !self.best.0.skipped.contains(&number) {
                helped |= self.try_without(|telling| {
                    telling.skipped.insert(number);
                });
            }
        }
        helped
    }

    /// Lowers a bound: by halves as far as that goes, then by ever smaller steps.
    fn lower(&mut self, bound: impl Fn(&mut Telling) -> &mut Option<u64>, most: u64) -> bool {
        let mut helped = false;
        let now = |shrinking: &mut Self| bound(&mut shrinking.best.0).unwrap_or(most).min(most);
        let mut step = now(self) / 2;
        while step > 0 {
            let next = now(self).checked_sub(step);
            if let Some(next) = next
                && self.try_without(|telling| *bound(telling) = Some(next))
            {
                helped = true;
            } else {
                step /= 2;
            }
        }
        helped
    }
}
