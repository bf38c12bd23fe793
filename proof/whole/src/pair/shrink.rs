// SPDX-License-Identifier: Apache-2.0
//! Shrinking: the smallest story that still breaks the same promise.
//!
//! What is left out changes what follows, so nothing is known of a shorter story until it was told. Tried are, again and again until
//! nothing helps any more: fewer acts, fewer clients, and the story without some acts in sequence, at last without one.

use super::run::run;
use super::telling::Telling;
use crate::model::Violation;

/// Clients and programs of a story, at most.
const CLIENTS_MAX: usize = 24;

/// Shortens a story that breaks a promise, as far as it goes. None if it breaks none.
#[must_use]
pub fn shrink(telling: &Telling) -> Option<(Telling, Violation)> {
    let mut best = (telling.clone(), run(telling, false).broken?);
    while round(&mut best) {}
    let (telling, _) = &mut best;
    let most = telling.most_acts();
    telling.skipped.retain(|number| *number <= most);
    Some(best)
}

/// Whether another telling breaks the same promise; then it is the best so far.
fn is_better(best: &mut (Telling, Violation), change: impl FnOnce(&mut Telling)) -> bool {
    let mut telling = best.0.clone();
    change(&mut telling);
    if telling == best.0 {
        return false;
    }
    let broken = run(&telling, false).broken.filter(|found| found.promise == best.1.promise);
    let better = broken.is_some();
    if let Some(violation) = broken {
        *best = (telling, violation);
    }
    better
}

/// Half of it, half of that, and so on to one.
fn halves(of: u64) -> impl Iterator<Item = u64> {
    let half = |of: u64| of.div_ceil(2).max(1);
    std::iter::successors(Some(half(of)), move |of| (*of > 1).then(|| half(*of)))
}

/// Tries everything once; returns whether anything helped.
fn round(best: &mut (Telling, Violation)) -> bool {
    let mut helped = false;
    for step in halves(best.0.most_acts()) {
        while let Some(fewer) = best.0.most_acts().checked_sub(step)
            && is_better(best, |telling| telling.acts = Some(fewer))
        {
            helped = true;
        }
        while let Some(fewer) = best.0.clients.unwrap_or(CLIENTS_MAX).checked_sub(step as usize)
            && is_better(best, |telling| telling.clients = Some(fewer))
        {
            helped = true;
        }
    }
    for some in halves(best.0.most_acts()) {
        for last in (1..=best.0.most_acts()).rev().step_by(some as usize) {
            let sequence = last.saturating_sub(some - 1).max(1)..=last;
            helped |= is_better(best, |telling| telling.skipped.extend(sequence));
        }
    }
    helped
}
