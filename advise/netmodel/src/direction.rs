// SPDX-License-Identifier: Apache-2.0
//! The state of one direction of a link.

use crate::{Dice, Ppm, Profile};
use alloc::vec::Vec;
use core::time::Duration;
use helio_units::{Bytes, Items, Moment, Rate};

/// Nanoseconds in a second, the factor between a size and its time at a rate in bytes per second.
const NANOS: u128 = 1_000_000_000;

/// What becomes of a thing offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It arrives whole.
    Deliver {
        /// When its last byte arrives; never earlier than the delivery of anything taken before it.
        at: Moment,
    },
    /// It never arrives.
    Drop(DropReason),
}

/// Why a thing was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Lost on the way, after it took its time to serialise.
    Loss,
    /// It found the queue too full.
    QueueFull,
    /// It was offered while the direction was down.
    Down,
}

/// How many, and how much together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub items: Items,
    /// Their bytes.
    pub bytes: Bytes,
}

impl Tally {
    fn count(&mut self, size: Bytes) {
        self.items.0 += 1;
        self.bytes += size;
    }
}

/// What a direction was offered and what became of it: `offered` is the sum of the other four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Everything offered.
    pub offered: Tally,
    /// Given a delivery.
    pub delivered: Tally,
    /// Dropped on the way.
    pub lost: Tally,
    /// Dropped at a full queue.
    pub queue_full: Tally,
    /// Dropped because the direction was down.
    pub down: Tally,
}

/// One direction of a link: its profile, and when it will have serialised what it took.
///
/// All moments are of one clock that does not run backwards; the outages of the profile count by it too.
#[derive(Clone, Debug)]
pub struct Direction {
    profile: Profile,
    down: bool,
    /// When everything taken has been serialised, rounded down to the nanosecond...
    busy_until: Moment,
    /// ...and what the rounding cut off, in rate-ths of a nanosecond: without it the rounding of a million small
    /// packets would add up to a rate that is too high.
    carry: u64,
    last_delivery: Moment,
    counters: Counters,
}

impl Direction {
    /// A direction that is up and empty.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            down: false,
            busy_until: Moment::ZERO,
            carry: 0,
            last_delivery: Moment::ZERO,
            counters: Counters::default(),
        }
    }

    /// Offers a thing of `size` bytes at `now` and says what becomes of it.
    ///
    /// A profile without loss and jitter rolls no dice. Size zero is allowed: a signal that travels in order.
    pub fn offer(&mut self, now: Moment, size: Bytes, dice: &mut Dice) -> Verdict {
        self.counters.offered.count(size);
        if self.next_up(now) != now {
            self.counters.down.count(size);
            return Verdict::Drop(DropReason::Down);
        }
        if self.room_at(now, size) > now {
            self.counters.queue_full.count(size);
            return Verdict::Drop(DropReason::QueueFull);
        }
        let leaves = self.serialise(now, size);
        let loss = self.profile.loss;
        if loss > Ppm::NONE && dice.chance(loss.0.into(), Ppm::ALL.0.into()) {
            self.counters.lost.count(size);
            return Verdict::Drop(DropReason::Loss);
        }
        let at = leaves + self.profile.delay + self.roll_jitter(dice);
        self.last_delivery = self.last_delivery.max(at);
        self.counters.delivered.count(size);
        Verdict::Deliver { at: self.last_delivery }
    }

    /// Gives the direction another profile from now on. What was taken keeps the delivery it was promised, and
    /// nothing offered later overtakes it.
    pub fn set_profile(&mut self, profile: Profile) {
        self.profile = profile;
        // The remainder is in units of the old rate; it is less than a nanosecond.
        self.carry = 0;
    }

    /// The direction that goes on with `profile` from `now`, for whom the link changes under what is on it. `promised` is
    /// all of that, in order of arrival, with its size: each is sent again through the new profile and arrives when
    /// that says or when it was promised before, whichever is earlier. Otherwise a link that was once slow would stay slow until
    /// its old queue is through. What was counted begins anew.
    #[must_use]
    pub fn changed<'a>(
        profile: Profile,
        now: Moment,
        dice: &mut Dice,
        promised: impl Iterator<Item = (&'a mut Moment, Bytes)>,
    ) -> Self {
        // They were admitted once, and not lost: no queue, outage or roll may refuse them now.
        let open = Profile {
            queue: Bytes(u64::MAX),
            outages: Vec::new(),
            loss: Ppm::NONE,
            ..profile.clone()
        };
        let mut direction = Self::new(open);
        for (at, size) in promised {
            if let Verdict::Deliver { at: sooner } = direction.offer(now, size, dice) {
                *at = (*at).min(sooner);
            }
        }
        direction.set_profile(profile);
        direction
    }

    /// The profile in force.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Takes the direction down until [`Direction::up`], whatever the outages of the profile say.
    pub fn down(&mut self) {
        self.down = true;
    }

    /// Ends [`Direction::down`]. An outage of the profile still counts.
    pub fn up(&mut self) {
        self.down = false;
    }

    /// What waits to be serialised at `now`, in whole bytes, rounded up.
    #[must_use]
    pub fn waiting(&self, now: Moment) -> Bytes {
        let Some(rate) = self.profile.rate else { return Bytes::ZERO };
        if now > self.busy_until {
            return Bytes::ZERO;
        }
        let left = (self.busy_until - now).as_nanos() * u128::from(rate.0) + u128::from(self.carry);
        Bytes(u64::try_from(left.div_ceil(NANOS)).unwrap_or(u64::MAX))
    }

    /// What the queue would take at `now`: nothing while the direction is down, without end where no rate makes
    /// anything wait. A sender that can wait asks here instead of having its things dropped.
    #[must_use]
    pub fn room(&self, now: Moment) -> Bytes {
        if self.next_up(now) != now {
            return Bytes::ZERO;
        }
        match self.profile.rate {
            Some(_) => self.profile.queue.saturating_sub(self.waiting(now)),
            None => Bytes(u64::MAX),
        }
    }

    /// The earliest moment from `now` on at which a thing of `size` would be taken if nothing else came first;
    /// [`Moment::NEVER`] while the direction is taken down or has a rate of zero.
    #[must_use]
    pub fn room_at(&self, now: Moment, size: Bytes) -> Moment {
        let Some(rate) = self.profile.rate.filter(|rate| rate.0 > 0) else {
            return self.next_up(now);
        };
        // Exact, in rate-ths of a nanosecond. What may still wait beside the thing: a thing too large for the
        // queue needs the line for itself.
        let finish = u128::from(self.busy_until.0) * u128::from(rate.0) + u128::from(self.carry);
        let beside = u128::from(self.profile.queue.saturating_sub(size).0) * NANOS;
        let at = finish.saturating_sub(beside).div_ceil(u128::from(rate.0));
        self.next_up(now.max(Moment(u64::try_from(at).unwrap_or(u64::MAX))))
    }

    /// What was offered and what became of it since the direction was made.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The earliest moment from `now` on at which the direction is up.
    fn next_up(&self, now: Moment) -> Moment {
        if self.down || self.profile.rate == Some(Rate(0)) {
            return Moment::NEVER;
        }
        self.profile.next_up(now)
    }

    /// Puts `size` behind what waits; returns when its last bit leaves.
    fn serialise(&mut self, now: Moment, size: Bytes) -> Moment {
        if now > self.busy_until {
            (self.busy_until, self.carry) = (now, 0);
        }
        let Some(rate) = self.profile.rate else {
            // Nothing waits without a rate, not even behind what an earlier profile made slow.
            self.busy_until = now;
            return now;
        };
        let rate = u128::from(rate.0);
        let parts = u128::from(size.0) * NANOS + u128::from(self.carry);
        let nanos = u64::try_from(parts / rate).unwrap_or(u64::MAX);
        self.busy_until = self.busy_until + Duration::from_nanos(nanos);
        // A remainder is smaller than the rate, which is a u64.
        self.carry = (parts % rate) as u64;
        self.busy_until
    }

    fn roll_jitter(&self, dice: &mut Dice) -> Duration {
        let bound = u64::try_from(self.profile.jitter.as_nanos()).unwrap_or(u64::MAX);
        if bound == 0 { Duration::ZERO } else { Duration::from_nanos(dice.below(bound)) }
    }
}
