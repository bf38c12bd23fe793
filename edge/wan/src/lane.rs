// SPDX-License-Identifier: Apache-2.0
//! One direction of the link, as all connections of a relay share it.

use crate::flow::Parcel;
use helio_netmodel::{Dice, Direction, Ppm, Profile, Verdict};
use helio_units::{Bytes, Moment};
use std::time::Duration;

/// The most that is put on the line as one thing. Large enough that an unlimited line is not busy with bookkeeping,
/// small enough that a limited one does not come in lumps.
pub(crate) const LARGEST_CHUNK: Bytes = Bytes::kib(16);
/// The least: one packet of an Ethernet, which a slow line would carry whole as well.
const SMALLEST_CHUNK: Bytes = Bytes(1500);
/// No chunk takes longer than this to serialise, unless it is the smallest.
const CHUNK_TIME: Duration = Duration::from_millis(2);
/// What one connection may hold in one direction that has no rate: a gigabyte per second at 32 ms of delay.
const HELD_WITHOUT_RATE: Bytes = Bytes::mib(32);
/// What one connection may hold in one direction, whatever the profile says.
const MOST_HELD: Bytes = Bytes::gib(1);

/// One direction of the link.
pub(crate) struct Lane {
    direction: Direction,
    dice: Dice,
    /// The most to take from a socket at once.
    pub(crate) chunk: Bytes,
    /// The most that one connection may hold: a reader that does not read stops its sender once the line and its
    /// queue are full, as it would by TCP's window.
    pub(crate) hold: Bytes,
    /// The connection whose turn it is to put something on the line first.
    pub(crate) turn: usize,
    /// What the receivers' sockets took over the relay's life.
    pub(crate) delivered: Bytes,
}

impl Lane {
    pub(crate) fn new(profile: Profile, dice: Dice) -> Self {
        let profile = carried(profile);
        Self {
            chunk: chunk(&profile),
            hold: hold(&profile),
            direction: Direction::new(profile),
            dice,
            turn: 0,
            delivered: Bytes::ZERO,
        }
    }

    /// When a whole chunk may be put on the line, if nobody comes first.
    pub(crate) fn ready_at(&self, now: Moment) -> Moment {
        self.direction.room_at(now, self.chunk)
    }

    /// When a signal without bytes (a call, an end) may be put on the line.
    pub(crate) fn signal_at(&self, now: Moment) -> Moment {
        self.direction.room_at(now, Bytes::ZERO)
    }

    /// Puts `size` on the line and says when it arrives; `None` where the line does not take it now.
    pub(crate) fn send(&mut self, now: Moment, size: Bytes) -> Option<Moment> {
        match self.direction.offer(now, size, &mut self.dice) {
            Verdict::Deliver { at } => Some(at),
            Verdict::Drop(_) => None,
        }
    }

    /// Changes the line under way. The `parcels` are all that is on it, in order of arrival.
    pub(crate) fn set_profile(&mut self, profile: Profile, now: Moment, parcels: Vec<&mut Parcel>) {
        let profile = carried(profile);
        (self.chunk, self.hold) = (chunk(&profile), hold(&profile));
        let promised = parcels.into_iter().map(|parcel| {
            let size = parcel.size();
            (&mut parcel.at, size)
        });
        self.direction = Direction::changed(profile, now, &mut self.dice, promised);
    }
}

/// The profile as far as a relay can carry it out: nothing is lost between two ends of TCP.
fn carried(profile: Profile) -> Profile {
    Profile { loss: Ppm::NONE, ..profile }
}

fn chunk(profile: &Profile) -> Bytes {
    match profile.rate {
        Some(rate) => rate.bytes_in(CHUNK_TIME).clamp(SMALLEST_CHUNK, LARGEST_CHUNK),
        None => LARGEST_CHUNK,
    }
}

fn hold(profile: &Profile) -> Bytes {
    let room = profile.capacity().unwrap_or(HELD_WITHOUT_RATE);
    room.clamp(chunk(profile), MOST_HELD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::What;
    use helio_units::Rate;

    #[test]
    fn chunks_are_two_milliseconds_but_never_less_than_a_packet() {
        let of = |rate| chunk(&Profile { rate, ..Profile::ideal() });
        assert_eq!(of(Some(Rate::mbit(10))), Bytes(2_500));
        assert_eq!(of(Some(Rate::mbit(1))), SMALLEST_CHUNK);
        assert_eq!(of(Some(Rate::mbit(10_000))), LARGEST_CHUNK);
        assert_eq!(of(None), LARGEST_CHUNK);
    }

    #[test]
    fn a_faster_profile_hurries_what_is_on_the_line_and_a_slower_one_does_not_hold_it() {
        let slow = Profile { rate: Some(Rate(1_000)), ..Profile::ideal() };
        let mut lane = Lane::new(slow.clone(), Dice::new(1));
        let mut parcels: Vec<Parcel> = (0..3)
            .map(|_| {
                let at = lane.send(Moment::ZERO, Bytes(1_000)).expect("the queue takes three");
                Parcel { at, what: What::Bytes(1_000) }
            })
            .collect();
        let now = Moment(1_500_000_000);
        let fast = Profile { rate: Some(Rate(10_000)), ..Profile::ideal() };
        lane.set_profile(fast, now, parcels.iter_mut().skip(1).collect());
        let hurried: Vec<u64> = parcels.iter().map(|parcel| parcel.at.0).collect();
        assert_eq!(hurried, [1_000_000_000, 1_600_000_000, 1_700_000_000]);
        lane.set_profile(slow, now, parcels.iter_mut().skip(1).collect());
        assert_eq!(parcels[2].at, Moment(1_700_000_000));
        assert!(lane.ready_at(now) == now, "two thousand bytes leave room in the queue");
    }
}
