// SPDX-License-Identifier: Apache-2.0
//! One way of the emulator: from a device, through the model, to the other device.

use crate::belt::Belt;
use crate::steer::WayTally;
use crate::tun::Tun;
use helio_netmodel::{Dice, Direction, DropReason, Profile, Tally, Verdict};
use helio_units::{Bytes, Items, Moment};
use rustix::io::Errno;
use std::time::Duration;

/// The most packets moved before the other way gets its turn: at a few microseconds each, nobody is late for it.
const BATCH: usize = 16;

/// One way.
pub(crate) struct Line {
    direction: Direction,
    dice: Dice,
    belt: Belt,
    down: bool,
    /// Where a packet is read to that is not held: a device forgets a packet only when it is read.
    scrap: Box<[u8]>,
    tally: WayTally,
    late: Duration,
}

impl Line {
    /// An empty one, for packets of at most `mtu` bytes.
    pub(crate) fn new(profile: Profile, dice: Dice, mtu: usize) -> Self {
        Self {
            direction: Direction::new(profile),
            dice,
            belt: Belt::new(mtu),
            down: false,
            scrap: vec![0; mtu].into_boxed_slice(),
            tally: WayTally::default(),
            late: Duration::ZERO,
        }
    }

    /// Takes what the device has, a batch at most. True when there was something.
    ///
    /// # Errors
    /// The device is gone.
    pub(crate) fn take(
        &mut self,
        source: &Tun,
        mut now: impl FnMut() -> Moment,
    ) -> Result<bool, Errno> {
        for packets in 0..BATCH {
            let (place, kept) = match self.belt.place() {
                Some(place) => (place, true),
                None => (&mut self.scrap[..], false),
            };
            let length = match source.read(place) {
                Ok(length) => length,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(packets > 0),
                Err(errno) => return Err(errno),
            };
            let size = Bytes(length as u64);
            count(&mut self.tally.taken, size);
            if !kept {
                count(&mut self.tally.queue_full, size);
                continue;
            }
            match self.direction.offer(now(), size, &mut self.dice) {
                Verdict::Deliver { at } => self.belt.put(at, length),
                Verdict::Drop(DropReason::Loss) => count(&mut self.tally.lost, size),
                Verdict::Drop(DropReason::QueueFull) => count(&mut self.tally.queue_full, size),
                Verdict::Drop(DropReason::Down) => count(&mut self.tally.cut, size),
            }
        }
        Ok(true)
    }

    /// Hands the device what has arrived, a batch at most. True when there was something.
    pub(crate) fn give(&mut self, sink: &Tun, mut now: impl FnMut() -> Moment) -> bool {
        for packets in 0..BATCH {
            let (due, now) = (self.belt.next_at(), now());
            if due > now {
                return packets > 0;
            }
            let Some(packet) = self.belt.front() else { return packets > 0 };
            let size = Bytes(packet.len() as u64);
            // A device that is down or short of memory loses a packet, as a host's own card would.
            match sink.write(packet) {
                Ok(()) => count(&mut self.tally.delivered, size),
                Err(_) => count(&mut self.tally.refused, size),
            }
            let late = now.since(due);
            self.late += late;
            self.tally.late_at_most = self.tally.late_at_most.max(late);
            self.belt.pop();
        }
        true
    }

    /// When the next packet arrives.
    pub(crate) fn next_at(&self) -> Moment {
        self.belt.next_at()
    }

    /// Goes on like this; what is under way arrives as the new profile says or as it was promised, whichever is
    /// earlier.
    pub(crate) fn set_profile(&mut self, profile: Profile, now: Moment) {
        self.direction = Direction::changed(profile, now, &mut self.dice, self.belt.promises());
        self.set_down(self.down);
    }

    /// Cuts this way, or heals it.
    pub(crate) fn set_down(&mut self, down: bool) {
        self.down = down;
        if down { self.direction.down() } else { self.direction.up() }
    }

    /// What became of its packets.
    pub(crate) fn tally(&self) -> WayTally {
        let (Items(packets), bytes) = self.belt.held();
        let delivered = self.tally.delivered.items.0 + self.tally.refused.items.0;
        let nanos = self.late.as_nanos() / u128::from(delivered.max(1));
        WayTally {
            held: Tally { items: Items(packets), bytes },
            late_on_average: Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
            down: self.down,
            ..self.tally
        }
    }
}

fn count(tally: &mut Tally, size: Bytes) {
    tally.items.0 += 1;
    tally.bytes += size;
}
