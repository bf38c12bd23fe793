// SPDX-License-Identifier: Apache-2.0
//! Stories of one direction: against a slow and obvious twin, and the laws a link must keep.

use core::time::Duration;
use helio_netmodel::{Dice, Direction, DropReason, Outage, Ppm, Profile, Verdict};
use helio_units::{Bytes, Moment, Rate};

const SEEDS: u64 = 300;

/// The slow and obvious twin: remembers everything it took and works each answer out from the whole history, in
/// exact fractions. Knows no loss and no jitter, which are rolls and not arithmetic.
struct Twin {
    profile: Profile,
    /// When each thing taken begins and ends on the wire, in nanoseconds times the rate.
    taken: Vec<(u128, u128)>,
}

impl Twin {
    fn offer(&mut self, now: Moment, size: Bytes) -> Verdict {
        if self.profile.outages.iter().any(|o| o.from <= now && now < o.to) {
            return Verdict::Drop(DropReason::Down);
        }
        let Some(Rate(rate)) = self.profile.rate else {
            return Verdict::Deliver { at: now + self.profile.delay };
        };
        let here = u128::from(now.0) * u128::from(rate);
        let waiting: u128 =
            self.taken.iter().map(|&(begin, end)| end.saturating_sub(begin.max(here))).sum();
        let fits = waiting + u128::from(size.0) * 1_000_000_000
            <= u128::from(self.profile.queue.0) * 1_000_000_000;
        if waiting > 0 && !fits {
            return Verdict::Drop(DropReason::QueueFull);
        }
        let begin = self.taken.last().map_or(here, |&(_, end)| end.max(here));
        let end = begin + u128::from(size.0) * 1_000_000_000;
        self.taken.push((begin, end));
        let leaves = Moment((end / u128::from(rate)) as u64);
        Verdict::Deliver { at: leaves + self.profile.delay }
    }
}

fn any_profile(dice: &mut Dice) -> Profile {
    let outages = (0..dice.below(3))
        .map(|_| {
            let from = Moment(dice.below(20_000_000));
            Outage { from, to: from + Duration::from_nanos(dice.below(5_000_000)) }
        })
        .collect();
    Profile {
        delay: Duration::from_nanos(dice.below(3_000_000)),
        rate: dice.chance(9, 10).then(|| Rate(1 + dice.below(1_000_000_007))),
        queue: Bytes(dice.below(100_000)),
        outages,
        ..Profile::ideal()
    }
}

#[test]
fn the_fast_direction_and_its_slow_twin_agree() {
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        let profile = any_profile(&mut dice);
        let mut fast = Direction::new(profile.clone());
        let mut slow = Twin { profile, taken: Vec::new() };
        let mut now = Moment::ZERO;
        for step in 0..300 {
            now = now + Duration::from_nanos(dice.below(200_000));
            let largest = if dice.chance(1, 20) { 200_000 } else { 3_000 };
            let size = Bytes(dice.below(largest));
            let (fast, slow) = (fast.offer(now, size, &mut dice), slow.offer(now, size));
            assert_eq!(fast, slow, "seed {seed}, step {step}: {size} at {now:?}");
        }
    }
}

#[test]
fn room_tells_the_truth_about_the_next_offer() {
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        let mut direction = Direction::new(any_profile(&mut dice));
        let mut now = Moment::ZERO;
        for step in 0..100 {
            now = now + Duration::from_nanos(dice.below(100_000));
            let told = format!("seed {seed}, step {step}");
            let size = Bytes(1 + dice.below(5_000));
            let (room, at) = (direction.room(now), direction.room_at(now, size));
            assert!(at >= now, "{told}");
            assert!(room < size || at == now, "{told}: room {room} but {size} only at {at:?}");
            if at > now {
                let mut early = direction.clone();
                let before = Moment(at.0 - 1).max(now);
                let verdict = early.offer(before, size, &mut dice);
                assert!(matches!(verdict, Verdict::Drop(_)), "{told}: taken before {at:?}");
            }
            let verdict = direction.clone().offer(at, size, &mut dice);
            assert!(matches!(verdict, Verdict::Deliver { .. }), "{told}: {verdict:?} at {at:?}");
            direction.offer(now, size, &mut dice);
        }
    }
}

#[test]
fn what_is_delivered_keeps_its_order_its_delay_and_its_seed() {
    for seed in 0..SEEDS {
        let tell = || {
            let mut dice = Dice::new(seed);
            let profile = Profile {
                jitter: Duration::from_nanos(dice.below(5_000_000)),
                loss: Ppm(dice.below(300_000) as u32),
                ..any_profile(&mut dice)
            };
            let delay = profile.delay;
            let mut direction = Direction::new(profile);
            let (mut now, mut last) = (Moment::ZERO, Moment::ZERO);
            let mut verdicts = Vec::new();
            for step in 0..200 {
                now = now + Duration::from_nanos(dice.below(100_000));
                let verdict = direction.offer(now, Bytes(dice.below(3_000)), &mut dice);
                if let Verdict::Deliver { at } = verdict {
                    assert!(at >= last, "seed {seed}, step {step}: overtaken");
                    assert!(at - now >= delay, "seed {seed}, step {step}: faster than the delay");
                    last = at;
                }
                verdicts.push(verdict);
            }
            let c = direction.counters();
            let parts = [c.delivered, c.lost, c.queue_full, c.down];
            let items: u64 = parts.iter().map(|tally| tally.items.0).sum();
            let bytes: u64 = parts.iter().map(|tally| tally.bytes.0).sum();
            assert_eq!((c.offered.items.0, c.offered.bytes.0), (items, bytes), "seed {seed}");
            assert_eq!(items, 200, "seed {seed}");
            verdicts
        };
        assert_eq!(tell(), tell(), "seed {seed}");
    }
}

#[test]
fn a_full_queue_carries_the_rate_to_within_one_packet() {
    for seed in 0..50 {
        let mut dice = Dice::new(seed);
        let rate = Rate(1_000 + dice.below(2_000_000_000));
        let packet = Bytes(1 + dice.below(9_000));
        let mut direction =
            Direction::new(Profile { rate: Some(rate), queue: packet * 10, ..Profile::ideal() });
        let (mut now, mut carried) = (Moment::ZERO, Bytes::ZERO);
        for _ in 0..5_000 {
            now = direction.room_at(now, packet);
            let Verdict::Deliver { at } = direction.offer(now, packet, &mut dice) else {
                panic!("seed {seed}: dropped in spite of room");
            };
            carried += packet;
            let ideal = rate.bytes_in(at - Moment::ZERO);
            let off = ideal.0.abs_diff(carried.0);
            // One nanosecond of rounding is worth rate / 10^9 bytes.
            let bound = packet.0 + 1 + rate.0 / 1_000_000_000;
            assert!(off <= bound, "seed {seed}: {carried} instead of {ideal}");
        }
    }
}

#[test]
fn loss_takes_its_share_and_its_time_on_the_wire() {
    for seed in 0..20 {
        let mut dice = Dice::new(seed);
        let rate = Rate::mbit(100);
        let profile = Profile {
            loss: Ppm(100_000),
            queue: Bytes::mib(64),
            rate: Some(rate),
            ..Profile::ideal()
        };
        let mut direction = Direction::new(profile);
        for _ in 0..10_000 {
            direction.offer(Moment::ZERO, Bytes(1_250), &mut dice);
        }
        let lost = direction.counters().lost.items.0;
        // Five standard deviations of a binomial (10000, 1/10) are 150.
        assert!(lost.abs_diff(1_000) < 150, "seed {seed}: {lost}");
        assert_eq!(direction.waiting(Moment::ZERO), Bytes(12_500_000), "seed {seed}");
        assert_eq!(direction.room_at(Moment::ZERO, Bytes::mib(64)), Moment(1_000_000_000));
    }
}

#[test]
fn down_drops_until_up_and_a_zero_rate_is_down() {
    let (mut dice, now) = (Dice::new(1), Moment(5));
    let mut direction = Direction::new(Profile::ideal());
    direction.down();
    assert_eq!(direction.offer(now, Bytes(1), &mut dice), Verdict::Drop(DropReason::Down));
    assert_eq!(
        (direction.room(now), direction.room_at(now, Bytes(1))),
        (Bytes::ZERO, Moment::NEVER)
    );
    direction.up();
    assert_eq!(direction.offer(now, Bytes(1), &mut dice), Verdict::Deliver { at: now });
    direction.set_profile(Profile { rate: Some(Rate(0)), ..Profile::ideal() });
    assert_eq!(direction.offer(now, Bytes(1), &mut dice), Verdict::Drop(DropReason::Down));
    assert_eq!(direction.counters().down.items.0, 2);
}

#[test]
fn a_new_profile_lets_nothing_overtake_what_was_promised() {
    let mut dice = Dice::new(1);
    let mut direction = Direction::new(Profile::wan(Duration::from_secs(2), Rate::mbit(8)));
    let promised = Moment(2_000_000_000);
    // One megabyte at one megabyte per second, then one second of delay.
    let first = direction.offer(Moment::ZERO, Bytes(1_000_000), &mut dice);
    assert_eq!(first, Verdict::Deliver { at: promised });
    direction.set_profile(Profile::ideal());
    let second = direction.offer(Moment(1), Bytes(1), &mut dice);
    assert_eq!(second, Verdict::Deliver { at: promised });
}
