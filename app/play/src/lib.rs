// SPDX-License-Identifier: Apache-2.0
//! A simulated pair that people use: two real daemons in the simulated world of `app/world`, with clients that write, in virtual time that
//! passes at a chosen speed. No file, socket or process of this machine is used but one thread.
//!
//! [`Play`] is the handle. Its thread owns everything, and gets requests, changes and receivers of events through a channel. Chance comes
//! from the seed; only the moments at which people do something do not.
//!
//! Absent on purpose: HTTP, terminals, what is right to do next (the daemons advise).

mod clients;
mod node;
mod pair;
mod press;
mod simulation;
mod thread;

pub use simulation::{
    Button, Change, DiskState, FlushState, NewSettings, Settings, SimulatedNode, Simulation,
};
pub use thread::Play;

/// The nodes, in the order of their numbers.
pub const NODES: [&str; 2] = ["paris", "lyon"];

#[cfg(test)]
mod tests;
