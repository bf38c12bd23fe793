// SPDX-License-Identifier: Apache-2.0
//! Waiting for what a dead process still holds.
//!
//! The kernel takes an io_uring down after its process is gone, and until then the sockets and files of requests that
//! were under way stay open: a daemon started at once after one was killed finds its port and its members held.

use helio_driver::{Errno, File, Host};
use std::time::Duration;

/// How long that may take; measured in milliseconds.
const LIMIT: Duration = Duration::from_secs(1);
/// How often it is looked for: the kernel tells nobody.
const EVERY: Duration = Duration::from_millis(10);

/// Tries until it works, or fails with something else than `held`, or the patience ends.
pub(crate) fn once_let_go<T, E>(
    host: &Host,
    attempt: impl FnMut() -> Result<T, E>,
    held: impl Fn(&E) -> bool,
) -> Result<T, E> {
    once_let_go_within(host, LIMIT, attempt, held)
}

/// The same, with a patience of one's own.
pub(crate) fn once_let_go_within<T, E>(
    host: &Host,
    limit: Duration,
    mut attempt: impl FnMut() -> Result<T, E>,
    held: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let end = host.since_boot() + limit;
    // On a simulated machine no time passes: pauses are counted, too. One may be shorter than it was asked to be.
    let mut left = 4 * (limit.as_millis() / EVERY.as_millis());
    loop {
        match attempt() {
            Err(error) if held(&error) && left > 0 && host.since_boot() < end => host.pause(EVERY),
            other => return other,
        }
        left -= 1;
    }
}

/// Locks a file, once a process that ended has let go of it.
///
/// # Errors
/// None if another process has it locked; otherwise why it cannot be locked.
pub(crate) fn lock_once_let_go(host: &Host, file: &File) -> Result<(), Option<Errno>> {
    let lock = || match file.body().lock() {
        Ok(true) => Ok(()),
        Ok(false) => Err(None),
        Err(errno) => Err(Some(errno)),
    };
    once_let_go(host, lock, Option::is_none)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_driver::Linux;

    #[test]
    fn what_is_let_go_is_taken_and_another_error_is_told_at_once() {
        let mut left = 3;
        let got = once_let_go(
            &Linux::host(),
            || {
                left -= 1;
                if left == 0 { Ok("taken") } else { Err("held") }
            },
            |error| *error == "held",
        );
        assert_eq!(got, Ok("taken"));
        let mut attempts = 0;
        let got: Result<(), _> = once_let_go(
            &Linux::host(),
            || {
                attempts += 1;
                Err("broken")
            },
            |error| *error == "held",
        );
        assert_eq!((got, attempts), (Err("broken"), 1));
    }
}
