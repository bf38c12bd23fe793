// SPDX-License-Identifier: Apache-2.0
//! How merges yield to applications: one that takes long is followed by a pause.

use alloc::collections::BTreeMap;
use core::time::Duration;
use helio_units::Moment;

/// With this factor, or a larger one, merges do not yield.
const NEVER: u32 = 100_000;
/// Merges over which the least time is taken, twice: now and before.
const RECENT: u32 = 64;
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(1);

/// A merge of a region takes the least time while the members have nothing else to do. One that takes longer than a multiple of
/// it is followed by a pause of as long as it took beyond that.
#[derive(Clone, Debug)]
pub(crate) struct MergeDelay {
    /// Hundredths.
    factor: u32,
    /// The least time among the last merges, and among those before them; none where there were none.
    least: [Option<Duration>; 2],
    counted: u32,
    /// Merges under way by their number, and when each began.
    begun: BTreeMap<u64, Moment>,
    until: Moment,
}

impl MergeDelay {
    pub(crate) const fn new() -> Self {
        let begun = BTreeMap::new();
        Self { factor: NEVER, least: [None; 2], counted: 0, begun, until: Moment::ZERO }
    }

    /// How many hundredths of the least time a merge may take without a pause.
    pub(crate) const fn set_factor(&mut self, factor: u32) {
        self.factor = factor;
        self.until = Moment::ZERO;
    }

    /// The pause ends then.
    pub(crate) const fn until(&self) -> Moment {
        self.until
    }

    /// A merge begins.
    pub(crate) fn begins(&mut self, number: u64, now: Moment) {
        self.begun.insert(number, now);
    }

    /// It ended; `merged`: it did all that it was to do.
    pub(crate) fn ended(&mut self, number: u64, merged: bool, now: Moment) {
        let Some(took) = self.begun.remove(&number).map(|begun| now - begun).filter(|_| merged)
        else {
            return;
        };
        let ideal = self.learn(took);
        if self.factor >= NEVER {
            return;
        }
        let pause = took.saturating_sub(ideal * self.factor / 100);
        self.until = self.until.max(now + pause.min(LONGEST));
    }

    /// The least time among the recent merges and this one.
    fn learn(&mut self, took: Duration) -> Duration {
        if self.counted == RECENT {
            (self.least, self.counted) = ([None, self.least[0]], 0);
        }
        self.counted += 1;
        let least = |one: Option<Duration>| one.map_or(took, |one| one.min(took));
        self.least[0] = Some(least(self.least[0]));
        least(self.least[0]).min(least(self.least[1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// How long the pause is behind merges that take these times, one after the other.
    fn pauses(factor: u32, times: &[u64]) -> alloc::vec::Vec<Duration> {
        let (mut delay, mut now) = (MergeDelay::new(), Moment::ZERO);
        delay.set_factor(factor);
        let pause = |(number, took): (u64, &u64)| {
            delay.begins(number, now);
            now = now + ms(*took);
            delay.ended(number, true, now);
            let pause = delay.until().max(now) - now;
            now = now + pause;
            pause
        };
        (0..).zip(times).map(pause).collect()
    }

    #[test]
    fn a_merge_that_takes_longer_than_its_share_is_followed_by_a_pause_of_the_rest() {
        let [none, some] = [ms(0), ms(40)];
        assert_eq!(pauses(200, &[10, 20, 60, 10]), [none, none, some, none]);
        assert_eq!(pauses(400, &[10, 20, 60, 10]), [none, none, ms(20), none]);
        assert_eq!(pauses(100_000, &[10, 20, 60, 10]), [none; 4], "it never yields");
        assert_eq!(pauses(200, &[10, 60_000]), [none, LONGEST]);
    }

    #[test]
    fn what_the_least_time_was_long_ago_does_not_count() {
        let mut times = [100; 2 * RECENT as usize + 1];
        times[0] = 10;
        let pauses = pauses(200, &times);
        assert_eq!(pauses[1], ms(80));
        assert_eq!(pauses[times.len() - 1], ms(0));
    }

    #[test]
    fn a_merge_that_failed_tells_nothing() {
        let mut delay = MergeDelay::new();
        delay.set_factor(200);
        delay.begins(1, Moment::ZERO);
        delay.ended(1, false, Moment::ZERO + ms(1));
        delay.begins(2, Moment::ZERO);
        delay.ended(2, true, Moment::ZERO + ms(50));
        assert_eq!(delay.until(), Moment::ZERO + ms(50), "there is no pause");
    }
}
