// SPDX-License-Identifier: Apache-2.0
//! Pauses to the microsecond: the kernel wakes late, so a pause is taken short of its end by what waking costs, and
//! the rest is spent looking at the clock. That cost is measured, or told.

use crate::socket::SLICE;
use rustix::event::{Timespec, poll};
use std::time::{Duration, Instant};

/// How long the pauses are that measure the cost of waking, and how many.
const TRIAL: Duration = Duration::from_millis(2);
const TRIALS: u32 = 8;

/// What waking costs here, and what of a pause is therefore not slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waking {
    /// By how much the kernel woke late on average; none where it was told, not measured.
    pub overhead: Option<Duration>,
    /// How much of every pause is spent looking at the clock.
    pub spin: Duration,
}

impl Waking {
    /// Measures it: takes about 20 ms.
    #[must_use]
    pub fn measured() -> Self {
        let late: Duration = (0..TRIALS)
            .map(|_| {
                let begun = Instant::now();
                nap(TRIAL);
                begun.elapsed().saturating_sub(TRIAL)
            })
            .sum();
        let overhead = late / TRIALS;
        // A fifth more, as simhadr takes: 0.004329 s for 0.003608 s.
        Self { overhead: Some(overhead), spin: overhead * 6 / 5 }
    }

    /// Takes the word of somebody who knows.
    #[must_use]
    pub const fn told(spin: Duration) -> Self {
        Self { overhead: None, spin }
    }

    /// Returns at `end`, at once where that is past, or soon after `broken_off` says so; whether the end was reached.
    pub fn until(&self, end: Instant, broken_off: impl Fn() -> bool) -> bool {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            if broken_off() {
                return false;
            }
            match left.checked_sub(self.spin).filter(|sleep| !sleep.is_zero()) {
                Some(sleep) => nap(sleep.min(SLICE)),
                None => std::hint::spin_loop(),
            }
        }
    }
}

/// Waits for nothing but time.
fn nap(span: Duration) {
    // A signal ends it early, which the clock shows.
    let _ = poll(&mut [], Some(&timespec(span)));
}

/// A span as the kernel takes it.
pub(crate) fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_pause_is_never_too_short() {
        for waking in [Waking::measured(), Waking::told(Duration::ZERO)] {
            for span in [0, 100, 3000].map(Duration::from_micros) {
                let begun = Instant::now();
                assert!(waking.until(begun + span, || false), "{waking:?}");
                assert!(begun.elapsed() >= span, "{waking:?}");
            }
        }
    }

    #[test]
    fn a_long_pause_is_broken_off_asleep_or_awake() {
        let hour = Duration::from_secs(3600);
        for spin in [Duration::ZERO, 2 * hour] {
            let looks = Cell::new(0);
            let look = || looks.replace(looks.get() + 1) == 2;
            assert!(!Waking::told(spin).until(Instant::now() + hour, look));
            assert_eq!(looks.get(), 3);
        }
        let over = Instant::now();
        assert!(Waking::told(Duration::ZERO).until(over, || true), "what is over was reached");
    }
}
