// SPDX-License-Identifier: Apache-2.0
//! Connections to the peer that ended before one lasted: a failure that repeats is not progress, whatever each new connection begins.
//!
//! ```text
//!   steady ──a connection ends, a third one behind the peer's hello──> unsteady
//!     ^  └──────────── ends of other kinds are only counted ──┐           │
//!     └──────────── progress after a connection lasted ───────┴───────────┘
//! ```
//! A change of roles ends a connection, too, and is no failure.

use crate::peer::pause::End;
use alloc::string::String;
use core::time::Duration;
use helio_units::Moment;

/// A connection lasts once there is progress on it after this time behind the peer's hello, or twice the peer timeout if that is longer:
/// one that carries small packets alone is given up before.
const LASTS_AFTER: Duration = Duration::from_secs(5);
/// So many connections that ended behind the peer's hello make the link unsteady. Two end in a row where a node restarts.
const UNSTEADY: u64 = 3;

/// What connections that ended had in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsteady {
    /// Behind the peer's hello nothing went on: what is small arrives, and data does not.
    Silent,
    /// Anything else.
    Ends,
}

impl Unsteady {
    /// The word for programs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Ends => "ends",
        }
    }
}

/// Connections that ended since one lasted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    ended: u64,
    /// When the first of them ended.
    since: Moment,
    /// When the last one did, and why.
    last: (Moment, String),
    /// Those on which the peer said hello, and was not refused.
    met: u64,
    /// The last ones of those in a row on which nothing went on behind the hello.
    silent: u64,
}

impl Attempts {
    /// From when on progress shows that a connection lasts on which the peer says hello now.
    pub(super) fn lasts_at(now: Moment, peer_timeout: Duration) -> Moment {
        now + peer_timeout.saturating_mul(2).max(LASTS_AFTER)
    }

    /// A connection ended. `met`: if the peer said hello on it, whether nothing went on behind that.
    pub(super) fn ended(&mut self, met: Option<bool>, (end, why): (End, &str), now: Moment) {
        if end == End::RoleChange {
            return;
        }
        if self.ended == 0 {
            self.since = now;
        }
        self.ended += 1;
        self.last = (now, String::from(why));
        if let Some(silent) = met {
            self.met += 1;
            self.silent = if silent { self.silent + 1 } else { 0 };
        }
    }

    /// How many connections ended, if any did.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.ended
    }

    /// When the first of them ended.
    #[must_use]
    pub const fn since(&self) -> Moment {
        self.since
    }

    /// When the last one ended, and why.
    #[must_use]
    pub fn last(&self) -> (Moment, &str) {
        (self.last.0, &self.last.1)
    }

    /// What is wrong with the link, if that was shown.
    #[must_use]
    pub const fn unsteady(&self) -> Option<Unsteady> {
        match (self.met >= UNSTEADY, self.silent >= UNSTEADY) {
            (true, true) => Some(Unsteady::Silent),
            (true, false) => Some(Unsteady::Ends),
            (false, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(4);
    const AT: Moment = Moment(9_000_000_000);

    fn after(ends: &[(Option<bool>, End)]) -> Attempts {
        let mut attempts = Attempts::default();
        ends.iter().for_each(|(met, end)| attempts.ended(*met, (*end, "cut"), AT));
        attempts
    }

    #[test]
    fn three_that_end_behind_the_hello_are_unsteady_and_silent_if_nothing_went_on() {
        let rows = [
            ([(Some(true), End::Silent); 3], 3, Some(Unsteady::Silent)),
            ([(Some(false), End::Silent); 3], 3, Some(Unsteady::Ends)),
            ([(Some(false), End::Goodbye); 3], 3, Some(Unsteady::Ends)),
            ([(None, End::Silent); 3], 3, None),
            ([(Some(false), End::RoleChange); 3], 0, None),
        ];
        for (ends, count, unsteady) in rows {
            let attempts = after(&ends);
            assert_eq!((attempts.count(), attempts.unsteady()), (count, unsteady), "{ends:?}");
        }
        assert_eq!(after(&[(Some(true), End::Silent); 2]).unsteady(), None, "a restart ends two");
    }

    #[test]
    fn the_first_end_is_kept_and_a_silence_that_something_interrupts_is_none() {
        let (silent, broken) = ((Some(true), End::Silent), (None, End::Broken));
        let mut attempts = after(&[silent, silent, broken, silent]);
        assert_eq!(attempts.unsteady(), Some(Unsteady::Silent));
        attempts.ended(Some(false), (End::Broken, "reset"), AT + TIMEOUT);
        assert_eq!(attempts.unsteady(), Some(Unsteady::Ends));
        assert_eq!((attempts.count(), attempts.since()), (5, AT));
        assert_eq!(attempts.last(), (AT + TIMEOUT, "reset"));
    }

    #[test]
    fn a_connection_lasts_after_a_silence_would_have_ended_it() {
        assert_eq!(Attempts::lasts_at(AT, TIMEOUT), AT + 2 * TIMEOUT);
        assert_eq!(Attempts::lasts_at(AT, Duration::from_millis(250)), AT + LASTS_AFTER);
    }
}
