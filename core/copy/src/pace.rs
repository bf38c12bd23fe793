// SPDX-License-Identifier: Apache-2.0
//! How much the copier may have under way, so that the application hardly notices it.
//!
//! A window of bytes, ruled by how long requests of clients take. The least mean of a period, of the last five to ten
//! seconds, is what they take undisturbed. Where a period's mean is above twice that and a millisecond, the window
//! is halved; otherwise it grows by a step, and doubles where no client asks for anything. Where load itself grew,
//! the least is soon forgotten. A floor rate is kept whatever clients feel, and a ceiling rate is never passed.

use core::time::Duration;
use helio_units::{Bytes, Moment, Rate};

/// Most under way at once. Above the product of a long fast link (1 Gbit/s and 100 ms hold 12.5 MB), below what would
/// crowd out the application, which half of the queue belongs to anyway.
const WINDOW_MAX: Bytes = Bytes::mib(16);
/// Rows of neighbouring regions in the window.
const ROWS: u64 = 16;
/// Least under way at once.
const WINDOW_MIN: Bytes = Bytes::kib(64);
const STEP: Bytes = Bytes::kib(256);
/// A verdict falls after that long.
const PERIOD: Duration = Duration::from_millis(50);
/// What clients take undisturbed is remembered once or twice that long.
const MEMORY: Duration = Duration::from_secs(5);
/// What the ceiling lets through at once.
const BURST: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_millis(1);

/// How the copier treats the application and the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResyncConfig {
    /// Maximum rate in bytes of dirty regions per second; none: no limit.
    pub max_rate: Option<Rate>,
    /// Minimum rate: below it copying does not slow down for clients.
    pub min_rate: Rate,
    /// It slows down where clients' requests suffer.
    pub yields: bool,
}

impl Default for ResyncConfig {
    fn default() -> Self {
        // The floor is DRBD's c-min-rate; the ceiling is left to yielding.
        Self { max_rate: None, min_rate: Rate(250 << 10), yields: true }
    }
}

/// The controller described above.
#[derive(Clone, Debug)]
pub struct Pace {
    window: Bytes,
    began: Moment,
    took: Duration,
    answers: u32,
    copied: Bytes,
    /// The least mean of this stretch of memory, and of the one before.
    least: [Duration; 2],
    turned: Moment,
    /// What the ceiling lets through at `counted`.
    allowance: Bytes,
    /// A region may be longer than what is let through at once: what it took too much comes off what follows.
    owed: Bytes,
    counted: Moment,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            window: WINDOW_MAX,
            began: Moment::ZERO,
            took: Duration::ZERO,
            answers: 0,
            copied: Bytes::ZERO,
            least: [Duration::MAX; 2],
            turned: Moment::ZERO,
            allowance: Bytes::ZERO,
            owed: Bytes::ZERO,
            counted: Moment::ZERO,
        }
    }
}

impl Pace {
    /// A client's request took that long.
    #[inline]
    pub fn answered(&mut self, took: Duration) {
        self.took += took;
        self.answers += 1;
    }

    /// Looks at the period that ends, if one does.
    #[inline]
    pub fn judge(&mut self, now: Moment, config: &ResyncConfig) {
        self.refill(now, config);
        let span = now - self.began;
        if span < PERIOD {
            return;
        }
        let slow = config.min_rate.bytes_in(span) > self.copied;
        if self.answers == 0 {
            self.window = Bytes(self.window.0 * 2);
        } else {
            let mean = self.took / self.answers;
            self.remember(now, mean);
            let undisturbed = self.least[0].min(self.least[1]);
            if mean > undisturbed * 2 + PATIENCE && !slow {
                self.window = Bytes(self.window.0 / 2);
            } else {
                self.window += STEP;
            }
        }
        if !config.yields {
            self.window = WINDOW_MAX;
        }
        self.window = self.window.max(WINDOW_MIN).min(WINDOW_MAX);
        (self.began, self.took, self.answers, self.copied) = (now, Duration::ZERO, 0, Bytes::ZERO);
    }

    fn remember(&mut self, now: Moment, mean: Duration) {
        if now - self.turned >= MEMORY {
            self.turned = now;
            self.least = [Duration::MAX, self.least[0]];
        }
        self.least[0] = self.least[0].min(mean);
    }

    #[inline]
    fn refill(&mut self, now: Moment, config: &ResyncConfig) {
        let Some(rate) = config.max_rate else {
            self.owed = Bytes::ZERO;
            return;
        };
        let most = rate.bytes_in(BURST).max(WINDOW_MIN);
        let more = rate.bytes_in(now - self.counted);
        // What is less than a byte is not lost: it is counted once it is one.
        if more > Bytes::ZERO {
            let paid = more.min(self.owed);
            self.owed -= paid;
            self.allowance = (self.allowance + more - paid).min(most);
            self.counted = now;
        }
    }

    /// Whether a region may be taken up beside what is under way.
    #[inline]
    pub fn allows(&self, region: Bytes, under_way: Bytes, config: &ResyncConfig) -> bool {
        let fits = under_way == Bytes::ZERO || under_way + region <= self.window;
        fits && (config.max_rate.is_none() || self.allowance >= region.min(WINDOW_MIN))
    }

    /// How much may be taken up at once: a part of the window, so that the parts of the way overlap. Where a ceiling
    /// counts, nothing is taken up ahead of it.
    pub fn row(&self, config: &ResyncConfig) -> Bytes {
        if config.max_rate.is_some() { WINDOW_MIN } else { Bytes(self.window.0 / ROWS) }
    }

    /// A region was taken up.
    pub fn took_up(&mut self, region: Bytes, config: &ResyncConfig) {
        self.copied += region;
        if config.max_rate.is_some() {
            self.owed += region.saturating_sub(self.allowance);
            self.allowance = self.allowance.saturating_sub(region);
        }
    }

    /// When the ceiling lets the next region through.
    #[inline]
    pub fn next_at(&self, now: Moment, config: &ResyncConfig) -> Moment {
        match config.max_rate {
            Some(rate) if self.allowance < WINDOW_MIN => {
                let wait = rate.time_for(WINDOW_MIN + self.owed - self.allowance);
                now + wait.max(Duration::from_millis(1))
            }
            _ => Moment::NEVER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs periods of 50 ms in which clients see `took`, and returns where the window ends.
    fn periods(
        pace: &mut Pace,
        now: &mut Moment,
        config: &ResyncConfig,
        n: u32,
        took: Option<Duration>,
    ) -> Bytes {
        for _ in 0..n {
            took.into_iter().for_each(|t| pace.answered(t));
            *now = *now + PERIOD;
            pace.judge(*now, config);
        }
        pace.window
    }

    #[test]
    fn it_yields_to_clients_that_suffer_and_comes_back_when_they_do_not() {
        let (mut pace, mut now, config) = (Pace::default(), Moment::ZERO, ResyncConfig::default());
        let config = ResyncConfig { min_rate: Rate(0), ..config };
        let calm = Some(Duration::from_millis(1));
        assert_eq!(periods(&mut pace, &mut now, &config, 20, calm), WINDOW_MAX);
        let hurt = Some(Duration::from_millis(10));
        assert_eq!(periods(&mut pace, &mut now, &config, 20, hurt), WINDOW_MIN);
        assert!(periods(&mut pace, &mut now, &config, 10, calm) > STEP * 8);
        assert_eq!(
            periods(&mut pace, &mut now, &config, 10, None),
            WINDOW_MAX,
            "nobody is there to suffer"
        );
    }

    #[test]
    fn requests_that_take_twice_as_long_as_undisturbed_ones_and_no_longer_are_no_reason_to_yield() {
        let config = ResyncConfig { min_rate: Rate(0), ..ResyncConfig::default() };
        for (took, yields) in [(10, false), (20, false), (23, true)] {
            let (mut pace, mut now) = (Pace::default(), Moment::ZERO);
            let calm = Some(Duration::from_millis(10));
            assert_eq!(periods(&mut pace, &mut now, &config, 20, calm), WINDOW_MAX);
            let slower = Some(Duration::from_millis(took));
            let window = periods(&mut pace, &mut now, &config, 4, slower);
            assert_eq!(window < WINDOW_MAX, yields, "{took} ms");
        }
    }

    #[test]
    fn a_load_that_stays_heavier_is_soon_what_undisturbed_means() {
        let (mut pace, mut now, config) = (Pace::default(), Moment::ZERO, ResyncConfig::default());
        periods(&mut pace, &mut now, &config, 20, Some(Duration::from_millis(1)));
        let heavy = Some(Duration::from_millis(20));
        let window = periods(&mut pace, &mut now, &config, 20 * 15, heavy);
        assert!(window > STEP * 8, "{window} after 15 s of the same load");
    }

    #[test]
    fn the_floor_rate_is_kept_whatever_clients_feel() {
        let (mut pace, mut now) = (Pace::default(), Moment::ZERO);
        let config = ResyncConfig { min_rate: Rate::mbit(1000), ..ResyncConfig::default() };
        periods(&mut pace, &mut now, &config, 20, Some(Duration::from_millis(1)));
        assert_eq!(
            periods(&mut pace, &mut now, &config, 50, Some(Duration::from_millis(50))),
            WINDOW_MAX
        );
    }

    #[test]
    fn the_ceiling_rate_is_not_passed_whatever_one_region_holds() {
        let config = ResyncConfig { max_rate: Some(Rate(10 << 20)), ..ResyncConfig::default() };
        for region in [Bytes::kib(4), Bytes::kib(64), Bytes::mib(1)] {
            let (mut pace, mut now, mut copied) = (Pace::default(), Moment::ZERO, Bytes::ZERO);
            while now < Moment::ZERO + Duration::from_secs(5) {
                pace.judge(now, &config);
                while pace.allows(region, Bytes::ZERO, &config) {
                    pace.took_up(region, &config);
                    copied += region;
                }
                now = pace.next_at(now, &config);
            }
            let expected = Bytes::mib(50);
            assert!(copied <= expected + Bytes::mib(2), "{copied} in five seconds");
            assert!(copied + Bytes::mib(2) >= expected, "{copied} in five seconds");
        }
    }
}
