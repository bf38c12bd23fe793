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
    /// The peer was silent behind its hello: what is small arrives, and data does not.
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
    /// Why the last one did.
    why: String,
    /// Those on which the peer said hello.
    met: u64,
    /// The last ones in a row that were silent behind the hello.
    silent: u64,
}

impl Attempts {
    /// From when on progress shows that a connection lasts on which the peer says hello now.
    pub(super) fn lasts_at(now: Moment, peer_timeout: Duration) -> Moment {
        now + peer_timeout.saturating_mul(2).max(LASTS_AFTER)
    }

    /// A connection ended. `met`: how long ago the peer said hello on it, if it did.
    pub(super) fn ended(
        &mut self,
        met: Option<Duration>,
        (end, why): (End, &str),
        peer_timeout: Duration,
        now: Moment,
    ) {
        // The peer gives up what is silent as this node does, at about the same time, and then this end sees it broken.
        let silent = match (met, end) {
            (_, End::RoleChange) => return,
            (Some(_), End::Silent) => true,
            (Some(stood), End::Broken) => stood >= peer_timeout * 3 / 4,
            (Some(_), End::Goodbye) | (None, _) => false,
        };
        if self.ended == 0 {
            self.since = now;
        }
        self.ended += 1;
        self.why = String::from(why);
        self.met += u64::from(met.is_some());
        self.silent = if silent { self.silent + 1 } else { 0 };
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

    /// Why the last one ended.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
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

    fn after(ends: &[(Option<u64>, End)]) -> Attempts {
        let mut attempts = Attempts::default();
        for (met, end) in ends {
            attempts.ended(met.map(Duration::from_secs), (*end, "cut"), TIMEOUT, AT);
        }
        attempts
    }

    #[test]
    fn what_ends_thrice_behind_the_hello_is_unsteady_and_silent_if_it_stood_for_the_time_of_a_silence()
     {
        let rows = [
            ([(Some(4), End::Silent); 3], 3, Some(Unsteady::Silent)),
            ([(Some(3), End::Broken); 3], 3, Some(Unsteady::Silent)),
            ([(Some(2), End::Broken); 3], 3, Some(Unsteady::Ends)),
            ([(Some(4), End::Goodbye); 3], 3, Some(Unsteady::Ends)),
            ([(None, End::Silent); 3], 3, None),
            ([(Some(0), End::RoleChange); 3], 0, None),
        ];
        for (ends, count, unsteady) in rows {
            let attempts = after(&ends);
            assert_eq!((attempts.count(), attempts.unsteady()), (count, unsteady), "{ends:?}");
        }
        assert_eq!(after(&[(Some(4), End::Silent); 2]).unsteady(), None, "a restart ends two");
    }

    #[test]
    fn the_first_end_is_kept_and_a_silence_that_something_interrupts_is_none() {
        let ends = [(Some(4), End::Silent), (Some(0), End::Goodbye), (Some(4), End::Silent)];
        let mut attempts = after(&ends);
        assert_eq!(attempts.unsteady(), Some(Unsteady::Ends));
        attempts.ended(None, (End::Broken, "reset"), TIMEOUT, AT + TIMEOUT);
        assert_eq!((attempts.count(), attempts.since(), attempts.why()), (4, AT, "reset"));
    }

    #[test]
    fn a_connection_lasts_after_a_silence_would_have_ended_it() {
        assert_eq!(Attempts::lasts_at(AT, TIMEOUT), AT + 2 * TIMEOUT);
        assert_eq!(Attempts::lasts_at(AT, Duration::from_millis(250)), AT + LASTS_AFTER);
    }
}
