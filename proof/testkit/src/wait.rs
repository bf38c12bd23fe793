// SPDX-License-Identifier: Apache-2.0
//! Waiting for what other processes do. They raise no event here, so somebody must look again and again;
//! it is done in this file alone.
//!
//! A test fails for one of two reasons. *BROKEN*: a promise is not kept. *SLOW*: a wait reached its limit, or real processes took longer
//! than a bound in milliseconds. A busy machine can cause the second one, so `cargo xtask test` repeats a slow test once, alone, at the end.
//! It recognises one by the text of the panic, which only this file writes.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// Short beside what is waited for, long beside what a look costs.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// What the text of a panic begins with if a wait reached its limit. `cargo xtask test` looks for it.
const SLOW: &str = "SLOW: ";

/// Looks until `probe` finds something, and returns it.
///
/// # Panics
/// As SLOW if nothing was found within `limit`: the message names `what` was awaited.
#[track_caller]
pub fn eventually<T>(limit: Duration, what: &str, probe: impl FnMut() -> Option<T>) -> T {
    match within(limit, probe) {
        Some(found) => found,
        None => slow(format_args!("waited {limit:?} in vain for {what}")),
    }
}

/// As `eventually`, for a probe that can tell what it sees instead.
///
/// # Panics
/// As SLOW if nothing was found within `limit`, with what was seen last.
#[track_caller]
pub fn eventually_from<T, S: Display>(
    limit: Duration,
    what: &str,
    mut probe: impl FnMut() -> Result<T, S>,
) -> T {
    let mut last = None;
    let found = within(limit, || probe().map_err(|seen| last = Some(seen)).ok());
    match (found, last) {
        (Some(found), _) => found,
        (None, Some(seen)) => {
            slow(format_args!("waited {limit:?} in vain for {what}; seen last:\n{seen:#}"))
        }
        (None, None) => slow(format_args!("waited {limit:?} in vain for {what}")),
    }
}

/// Holds real processes to a bound in time that was promised for them.
///
/// # Panics
/// As SLOW if it took longer.
#[track_caller]
pub fn in_time(took: Duration, bound: Duration, what: &str) {
    if took > bound {
        slow(format_args!("{what} took {took:?}, and may take {bound:?}"));
    }
}

/// Ends a test as SLOW.
#[track_caller]
pub(crate) fn slow(what: impl Display) -> ! {
    panic!("{SLOW}{what}")
}

/// As `eventually`, for callers that have more to say about a failure.
pub(crate) fn within<T>(limit: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        // Judged before the look, so that a slow machine still gets one look past the deadline.
        let late = Instant::now() >= deadline;
        if let Some(found) = probe() {
            return Some(found);
        }
        if late {
            return None;
        }
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "the one poller of the tests")]
fn pause() {
    std::thread::sleep(BETWEEN_LOOKS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_until_there_is_something() {
        let mut looks = 0;
        let found = eventually(Duration::from_secs(60), "the third look", || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, 3);
    }

    #[test]
    #[should_panic(expected = "SLOW: waited 1ms in vain for the moon")]
    fn it_names_what_did_not_come() {
        eventually(Duration::from_millis(1), "the moon", || None::<()>);
    }

    #[test]
    #[should_panic(expected = "in vain for the moon; seen last:\nclouds")]
    fn it_tells_what_came_instead() {
        eventually_from(Duration::from_millis(1), "the moon", || Err::<(), _>("clouds"));
    }

    #[test]
    #[should_panic(expected = "SLOW: the way took 2s, and may take 1s")]
    fn what_takes_longer_than_its_bound_is_slow() {
        in_time(Duration::from_secs(1), Duration::from_secs(1), "the way");
        in_time(Duration::from_secs(2), Duration::from_secs(1), "the way");
    }
}
