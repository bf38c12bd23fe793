// SPDX-License-Identifier: Apache-2.0
//! Attempts to connect to the peer: how many failed since one connected, why, and the pause before the next one.

use helio_link::Backoff;
use helio_units::Moment;
use std::time::Duration;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Dials {
    backoff: Backoff,
    failed: u64,
    /// When the first of them failed.
    since: Moment,
    /// When the last one failed.
    at: Moment,
    /// Why it did, or the connection ended.
    error: String,
    /// The peer said hello on the connection that stands.
    met: bool,
}

impl Dials {
    /// An attempt failed. Returns whether it is news: those that fail alike are logged once.
    pub(crate) fn failed(&mut self, error: &str, now: Moment) -> bool {
        if self.failed == 0 {
            self.since = now;
        }
        (self.failed, self.at) = (self.failed + 1, now);
        self.is_news(error)
    }

    /// Whether an error is another than the last one.
    pub(crate) fn is_news(&mut self, error: &str) -> bool {
        let news = self.error != error;
        if news {
            error.clone_into(&mut self.error);
        }
        news
    }

    /// The peer said hello. On an `unsteady` link, the same error is not logged again.
    pub(crate) fn met(&mut self, unsteady: bool) {
        (self.failed, self.met) = (0, true);
        if !unsteady {
            self.error.clear();
        }
    }

    /// How long to wait after a failed attempt, or after the end of a connection. After a handshake the pauses start at the shortest one again,
    /// unless the link is `unsteady`.
    pub(crate) fn pause(&mut self, refused: bool, unsteady: bool) -> Duration {
        if std::mem::take(&mut self.met) && !unsteady {
            self.backoff.succeeded();
        }
        self.backoff.pause(refused)
    }

    /// How many attempts failed since the peer said hello, when the first one did, and when and why the last one; none if none did.
    pub(crate) fn failures(&self) -> Option<(u64, Moment, (Moment, &str))> {
        (self.failed > 0).then_some((self.failed, self.since, (self.at, self.error.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(dials: &mut Dials, met: bool, unsteady: bool) -> Vec<u128> {
        let mut next = || {
            if met {
                dials.met(unsteady);
            }
            dials.pause(false, unsteady).as_millis()
        };
        (0..4).map(|_| next()).collect()
    }

    #[test]
    fn the_pause_is_short_behind_a_conversation_and_grows_where_none_lasts_or_begins() {
        let mut dials = Dials::default();
        assert_eq!(pauses(&mut dials, true, false), [100; 4]);
        assert_eq!(pauses(&mut dials, true, true), [200, 400, 800, 1600]);
        assert_eq!(pauses(&mut dials, true, false), [100; 4]);
        assert_eq!(pauses(&mut dials, false, false), [200, 400, 800, 1600]);
    }

    #[test]
    fn failures_are_counted_until_the_peer_says_hello_and_logged_once_while_no_connection_lasts() {
        let mut dials = Dials::default();
        let at = Moment(5);
        assert!(dials.failed("refused", at) && !dials.failed("refused", Moment(9)));
        assert_eq!(dials.failures(), Some((2, at, (Moment(9), "refused"))));
        dials.met(true);
        assert_eq!(dials.failures(), None);
        assert!(!dials.is_news("refused"));
        dials.met(false);
        assert!(dials.is_news("refused"));
    }
}
