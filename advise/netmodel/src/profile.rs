// SPDX-License-Identifier: Apache-2.0
//! What one direction of a link is like.

use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use helio_units::{Bytes, Moment, Rate};

/// A share in parts per million: 10,000 is one percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ppm(pub u32);

impl Ppm {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// All of it.
    pub const ALL: Self = Self(1_000_000);
}

/// What a share that is no share is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoShare;

impl fmt::Display for NoShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is not a percentage from 0% to 100%, such as 0.1%")
    }
}

impl core::error::Error for NoShare {}

/// Reads percent: `0.1%`.
impl FromStr for Ppm {
    type Err = NoShare;

    fn from_str(text: &str) -> Result<Self, NoShare> {
        let number = text.trim().strip_suffix('%').ok_or(NoShare)?.trim_end();
        let percent: f64 = number.parse().map_err(|_| NoShare)?;
        // Half a millionth is added because the cast cuts off.
        let share = Self((percent * 10_000.0 + 0.5) as u32);
        if (0.0..=100.0).contains(&percent) { Ok(share) } else { Err(NoShare) }
    }
}

/// Prints as percent: `0.1%`, `2.5%`, without zeros that say nothing.
impl fmt::Display for Ppm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 10_000.0)
    }
}

/// A span in which a direction carries nothing: from `from` on, up again at `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The first moment of it.
    pub from: Moment,
    /// The first moment after it.
    pub to: Moment,
}

impl Outage {
    /// Whether `now` lies in it.
    #[must_use]
    pub fn covers(self, now: Moment) -> bool {
        self.from <= now && now < self.to
    }
}

/// What one direction of a link is like.
///
/// A thing of `size` bytes offered at `now` is delivered at
///
/// ```text
/// start  = max(now, when everything before it has been serialised)
/// leaves = start + size / rate                        (at once where there is no rate)
/// at     = max(leaves + delay + uniform(0..jitter), delivery of the one before it)
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// From the last bit leaving to its arrival, one way: half the round trip of a symmetric link.
    pub delay: Duration,
    /// The bound of what is added to the delay, each time a uniform draw from `0..jitter`. Order is kept, so a long
    /// draw also holds up what follows it.
    pub jitter: Duration,
    /// How much of what was serialised is lost on the way, each thing by a roll of its own.
    pub loss: Ppm,
    /// How fast bits leave; `None` is without limit. A rate of zero is a link that is down.
    pub rate: Option<Rate>,
    /// The most that may wait to be serialised, counting what is left of the thing being serialised. A thing that
    /// does not fit is dropped (drop-tail), but one that finds nothing waiting is always taken. Means nothing
    /// without a rate, since nothing waits then.
    pub queue: Bytes,
    /// When the direction is down. What is *offered* in an outage is dropped; what was taken before it still
    /// arrives. The spans may overlap and need no order.
    pub outages: Vec<Outage>,
}

impl Profile {
    /// The least queue [`Profile::wan`] gives: a shallow one would throttle any sender that sends in bursts.
    pub const LEAST_QUEUE: Bytes = Bytes::kib(256);

    /// A link that adds nothing: no delay, no limit, no loss.
    #[must_use]
    pub const fn ideal() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: Ppm::NONE,
            rate: None,
            queue: Self::LEAST_QUEUE,
            outages: Vec::new(),
        }
    }

    /// A hall of machines: 10 Gbit/s and a round trip of 100 µs, of which this is one direction.
    #[must_use]
    pub fn lan() -> Self {
        Self::wan(Duration::from_micros(100), Rate::mbit(10_000))
    }

    /// One direction of a long link with the round trip `rtt` and the given rate:
    /// delay = rtt / 2, queue = max(rate × rtt, 256 KiB).
    ///
    /// A queue of one bandwidth-delay product is the classic size of a router's buffer: it lets one loss-driven
    /// sender keep the link full.
    #[must_use]
    pub fn wan(rtt: Duration, rate: Rate) -> Self {
        Self {
            delay: rtt / 2,
            rate: Some(rate),
            queue: rate.bytes_in(rtt).max(Self::LEAST_QUEUE),
            ..Self::ideal()
        }
    }

    /// The most this direction holds at once: rate × (delay + jitter) in flight, plus the queue.
    /// `None` where no rate bounds it.
    #[must_use]
    pub fn capacity(&self) -> Option<Bytes> {
        let flight = self.rate?.bytes_in(self.delay.saturating_add(self.jitter));
        Some(Bytes(flight.0.saturating_add(self.queue.0)))
    }

    /// The earliest moment from `now` on that no outage covers: `now` itself outside of outages.
    #[must_use]
    pub fn next_up(&self, now: Moment) -> Moment {
        let mut at = now;
        // The end of one outage may lie in another, so look again until none is left; each look leaves one behind.
        while let Some(outage) = self.outages.iter().find(|outage| outage.covers(at)) {
            at = outage.to;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn a_wan_is_half_the_round_trip_each_way_with_one_product_of_queue() {
        let wan = Profile::wan(Duration::from_millis(50), Rate::mbit(100));
        assert_eq!(wan.delay, Duration::from_millis(25));
        assert_eq!(wan.queue, Bytes(625_000));
        assert_eq!(wan.capacity(), Some(Bytes(625_000 + 312_500)));
        assert_eq!(Profile::wan(Duration::ZERO, Rate::mbit(1)).queue, Profile::LEAST_QUEUE);
        assert_eq!(Profile::ideal().capacity(), None);
        assert_eq!(Profile::lan().delay, Duration::from_micros(50));
    }

    #[test]
    fn outages_may_overlap_and_touch() {
        let outage = |from, to| Outage { from: Moment(from), to: Moment(to) };
        let outages = vec![outage(30, 40), outage(10, 20), outage(15, 30)];
        let profile = Profile { outages, ..Profile::ideal() };
        let up = |now| profile.next_up(Moment(now)).0;
        assert_eq!((up(9), up(10), up(19), up(39), up(40)), (9, 40, 40, 40, 40));
    }

    #[test]
    fn a_share_prints_as_percent() {
        assert_eq!(Ppm(1_000).to_string(), "0.1%");
        assert_eq!(Ppm::ALL.to_string(), "100%");
    }

    #[test]
    fn a_share_is_read_as_it_prints_and_nothing_else_is() {
        for share in [0, 1, 29, 1_000, 15_000, 333_333, 1_000_000].map(Ppm) {
            assert_eq!(share.to_string().parse(), Ok(share));
        }
        assert_eq!(" 0.1 % ".parse(), Ok(Ppm(1_000)));
        for wrong in ["", "%", "1", "101%", "-1%", "NaN%", "inf%", "a%"] {
            assert_eq!(wrong.parse::<Ppm>(), Err(NoShare), "{wrong}");
        }
    }
}
