// SPDX-License-Identifier: Apache-2.0
//! Waiting for what other processes do. They raise no event here, so somebody must look again and again;
//! it is done in this file alone.

use std::time::{Duration, Instant};

/// Short beside what is waited for, long beside what a look costs.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Looks until `probe` finds something, and returns it.
///
/// # Panics
/// Where nothing was found within `limit`: the message names `what` was awaited.
#[track_caller]
pub fn eventually<T>(limit: Duration, what: &str, probe: impl FnMut() -> Option<T>) -> T {
    match within(limit, probe) {
        Some(found) => found,
        None => panic!("waited {limit:?} in vain for {what}"),
    }
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
    #[should_panic(expected = "in vain for the moon")]
    fn it_names_what_did_not_come() {
        eventually(Duration::from_millis(1), "the moon", || None::<()>);
    }
}
