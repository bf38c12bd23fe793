// SPDX-License-Identifier: Apache-2.0
//! The closed loop of the load makers: as many operations under way as the depth says, each followed by the next
//! at once until the time is over.

use crate::gauge::Gauge;
use crate::load::{Load, Mix};
use crate::slots::Slots;
use clap::Args;
use std::time::{Duration, Instant};

/// Options of every load maker.
#[derive(Clone, Debug, Args)]
pub struct Shape {
    /// Operations under way.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    depth: u16,
    /// Bytes per operation, a multiple of 4096.
    #[arg(long, default_value_t = 4096)]
    pub block: usize,
    /// What is written where.
    #[arg(long, value_enum, default_value_t = Mix::Write)]
    mix: Mix,
    /// How long.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Chooses the blocks.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Look for work so many microseconds before sleeping.
    #[arg(long, default_value_t = 0)]
    spin_us: u64,
}

impl Shape {
    /// Operations under way.
    #[must_use]
    pub fn depth(&self) -> usize {
        usize::from(self.depth)
    }

    /// How long to look for work before sleeping.
    #[must_use]
    pub fn spin(&self) -> Duration {
        Duration::from_micros(self.spin_us)
    }
}

/// What a slot does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write here.
    Write(u64),
    /// Flush.
    Flush,
    /// Nothing any more.
    Rest,
}

/// One operation under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    began: Instant,
    wrote: Option<Instant>,
}

/// The loop's state.
#[derive(Debug)]
pub struct Closed {
    load: Load,
    gauge: Gauge,
    flushes: bool,
    flights: Vec<Flight>,
    under_way: usize,
    count: u64,
}

impl Closed {
    /// Begins now, on a store of `size` bytes.
    #[must_use]
    pub fn begin(shape: &Shape, size: u64) -> Self {
        let length = Duration::from_secs_f64(shape.seconds);
        let flight = Flight { began: Instant::now(), wrote: None };
        Self {
            load: Load::new(shape.mix, shape.block as u64, size, shape.seed),
            gauge: Gauge::begin(length),
            flushes: shape.mix.flushes(),
            flights: vec![flight; shape.depth()],
            under_way: 0,
            count: 0,
        }
    }

    /// The slot begins its next operation: where it writes.
    pub fn start(&mut self, slot: usize, now: Instant) -> u64 {
        self.under_way += 1;
        self.flights[slot] = Flight { began: now, wrote: None };
        self.load.next_offset()
    }

    /// What the slot was doing ended; what it does next.
    pub fn ended(&mut self, slot: usize, now: Instant) -> Step {
        let flight = &mut self.flights[slot];
        if self.flushes && flight.wrote.is_none() {
            flight.wrote = Some(now);
            return Step::Flush;
        }
        self.gauge.operation(now - flight.began);
        if let Some(wrote) = flight.wrote {
            self.gauge.flush(now - wrote);
        }
        self.under_way -= 1;
        if self.gauge.is_over(now) { Step::Rest } else { Step::Write(self.start(slot, now)) }
    }

    /// Makes the slot's payload differ from every other.
    pub fn stamp(&mut self, slots: &mut Slots, slot: usize) {
        self.count += 1;
        slots.get_mut(slot)[..8].copy_from_slice(&self.count.to_le_bytes());
    }

    /// Whether every operation ended and none is begun any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.under_way == 0
    }

    /// Prints the report as one line of JSON.
    pub fn report(&self) {
        println!("{}", self.gauge.report());
    }
}

/// Buffers for the load, filled with bytes that do not compress.
#[must_use]
pub fn payload(shape: &Shape) -> Slots {
    let mut slots = Slots::new(shape.depth(), shape.block);
    let mut dice = Load::new(Mix::Write, 1, 256, shape.seed);
    for slot in 0..shape.depth() {
        slots.get_mut(slot).fill_with(|| dice.next_offset() as u8);
    }
    slots
}
