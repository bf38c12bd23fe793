// SPDX-License-Identifier: Apache-2.0
//! When to connect again: soon at first, doubling to a limit; slowly where the peer refused.

use std::time::Duration;

/// First pause after a lost connection. Short: most losses are a restart or a dropped packet too many.
const FIRST: Duration = Duration::from_millis(100);
/// Longest pause after losses (HADR's standby retries every 2 s).
const LONGEST: Duration = Duration::from_secs(2);
/// Pause after a refusal: only a person changes its reason, and nobody should read it every second.
const REFUSED: Duration = Duration::from_secs(5);

/// The pauses between attempts.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// The longest pause.
    pub const LONGEST: Duration = REFUSED;

    /// The pause before the next attempt.
    pub fn pause(&mut self, refused: bool) -> Duration {
        if refused {
            return REFUSED;
        }
        let pause = self.next;
        self.next = (self.next * 2).min(LONGEST);
        pause
    }

    /// A conversation began: the next loss is a first one again.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_their_limit_and_begin_again_after_success() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u128> = (0..7).map(|_| backoff.pause(false).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(backoff.pause(true), REFUSED);
        backoff.succeeded();
        assert_eq!(backoff.pause(false), FIRST);
    }
}
