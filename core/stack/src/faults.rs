// SPDX-License-Identifier: Apache-2.0
//! The layer that fails as disks do, by seed: errors, short writes, answers that are lost, flushes that fail, delays.

use crate::contract::{Outcome, StoreFault, StoreOp};
use crate::layer::{Io, Layer, Operation, Port, Tag};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::time::Duration;
use helio_units::{Bytes, Extent, Moment, Payload};

/// How often what happens, in a thousand operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Odds {
    /// A read that fails, or the question what is allocated.
    pub reads: u16,
    /// A change that fails, and nothing was touched.
    pub untouched: u16,
    /// A write of which only the first half is done.
    pub short: u16,
    /// An error although it was done.
    pub lost: u16,
    /// A flush, or an operation with FUA, that fails.
    pub flush: u16,
    /// A read, a flush or a question waits before it is begun.
    pub waits: u16,
    /// A change does.
    pub changes_wait: u16,
    /// At most so long.
    pub longest: Duration,
    /// None of these from here on.
    pub until: Moment,
}

impl Odds {
    /// Nothing happens.
    pub const NONE: Self = Self {
        reads: 0,
        untouched: 0,
        short: 0,
        lost: 0,
        flush: 0,
        waits: 0,
        changes_wait: 0,
        longest: Duration::ZERO,
        until: Moment::NEVER,
    };
}

/// See the module. Operations under way together may change places, as on a disk.
#[derive(Clone, Debug)]
pub struct Faults {
    dice: u64,
    odds: Odds,
    /// A write is cut at a multiple of this.
    unit: Bytes,
    /// What waits: by when, and a number that counts.
    waiting: BTreeMap<(Moment, u64), Operation>,
    counted: u64,
}

/// In a tag: how the operation's answer is changed. It stays, ...
const KEEP: u64 = 0;
/// ... or is an error, ...
const LOSE: u64 = 1;
/// ... or says that only a part was written.
const SHORT: u64 = 2;
/// ... or that nothing done before is sure to be durable.
const DOUBT: u64 = 3;
const FATES: u64 = 4;

impl Faults {
    /// By this seed, with these odds; a write is cut at a multiple of `unit`.
    #[must_use]
    pub const fn new(seed: u64, odds: Odds, unit: Bytes) -> Self {
        Self { dice: seed, odds, unit, waiting: BTreeMap::new(), counted: 0 }
    }

    /// The next number of the SplitMix64 sequence (Steele, Lea and Flood, 2014).
    fn roll(&mut self) -> u64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn happens(&mut self, odds: u16, now: Moment) -> bool {
        now < self.odds.until && self.roll() % 1000 < u64::from(odds)
    }

    fn pass(&mut self, Operation { io, leg, op }: Operation, port: &mut Port<'_>) {
        let now = port.now();
        if op.is_flush() && self.happens(self.odds.flush, now) {
            // What it writes reaches the disk, and may be lost all the same.
            return match op.changes() {
                Some(_) => port.issue(leg, op, Tag(io.number() * FATES + DOUBT)),
                None => port.end(io, Outcome::Unsure(StoreFault::Io)),
            };
        }
        let odds = if op.changes().is_some() { self.odds.untouched } else { self.odds.reads };
        if !op.is_flush() && self.happens(odds, now) {
            return port.end(io, Outcome::Failed(StoreFault::Io));
        }
        let (op, fate) = match op {
            StoreOp::Write { extent, payload, fua: false }
                if extent.length > self.unit.0 && self.happens(self.odds.short, now) =>
            {
                let length = (extent.length / 2 / self.unit.0).max(1) * self.unit.0;
                let extent = Extent::new(extent.offset, length);
                let payload = Payload { length: length as u32, ..payload };
                (StoreOp::Write { extent, payload, fua: false }, SHORT)
            }
            op if op.changes().is_some() && !op.is_flush() && self.happens(self.odds.lost, now) => {
                (op, LOSE)
            }
            op => (op, KEEP),
        };
        port.issue(leg, op, Tag(io.number() * FATES + fate));
    }
}

impl Layer for Faults {
    fn begin(&mut self, operation: Operation, port: &mut Port<'_>) {
        let changes = operation.op.changes().is_some();
        let odds = if changes { self.odds.changes_wait } else { self.odds.waits };
        if !self.happens(odds, port.now()) {
            return self.pass(operation, port);
        }
        let longest = (self.odds.longest.as_nanos() as u64).max(1);
        let until = port.now() + Duration::from_nanos(self.roll() % longest);
        self.counted += 1;
        self.waiting.insert((until, self.counted), operation);
    }

    fn ended(&mut self, Tag(tag): Tag, outcome: Outcome, port: &mut Port<'_>) {
        let outcome = match (tag % FATES, outcome) {
            (LOSE, Outcome::Done) => Outcome::Failed(StoreFault::Io),
            (DOUBT, Outcome::Done) => Outcome::Unsure(StoreFault::Io),
            (SHORT, Outcome::Done) => Outcome::Failed(StoreFault::Short),
            (_, outcome) => outcome,
        };
        port.end(Io::new(tag / FATES), outcome);
    }

    fn rests(&self) -> bool {
        false
    }

    fn deadline(&self) -> Moment {
        self.waiting.first_key_value().map_or(Moment::NEVER, |((until, _), _)| *until)
    }

    fn tick(&mut self, port: &mut Port<'_>) {
        while let Some(entry) = self.waiting.first_entry().filter(|e| e.key().0 <= port.now()) {
            let operation = entry.remove();
            self.pass(operation, port);
        }
    }

    fn boxed(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}
