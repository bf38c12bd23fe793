// SPDX-License-Identifier: Apache-2.0
//! The weather: one link model for the simulator, the planner and the emulator that real sockets run through.
//!
//! Pure: the caller tells it the time and hands it the dice, so the same seed gives the same verdicts everywhere.
//! A [`Profile`] says what a link is like, a [`Direction`] is the state of one way through it, and each thing sent
//! is [offered](Direction::offer) to a direction, which answers with the moment of its delivery or with the reason
//! it is lost. A [`Preset`] is a line with a name, a [`Weather`] what one was like over time.
//!
//! Absent on purpose: clocks, I/O, reordering (what a link delivers, it delivers in order, as one TCP path does) and
//! the reaction of senders: congestion control belongs to whoever sends.
#![no_std]

extern crate alloc;

mod dice;
mod direction;
mod preset;
mod profile;
mod weather;

pub use dice::Dice;
pub use direction::{Counters, Direction, DropReason, Tally, Verdict};
pub use preset::{NoPreset, Preset};
pub use profile::{NoShare, Outage, Ppm, Profile};
pub use weather::{Checksum, WayWeather, Weather, WeatherError, WeatherRow, WeatherWriter};
