// SPDX-License-Identifier: Apache-2.0
//! The simulator: one seed is one story of two nodes, a client, an operator and bad luck, judged at every step.
//!
//! A story has two phases. In the first everything breaks: links, processes, power, disks, metadata, and the operator
//! promotes, demotes, logs, updates and restarts meanwhile. In the second everything is mended, and the two nodes must
//! come to replicate equal images within a bounded virtual time. The promises are stated in [`Promise`] and judged in
//! the `oracle`; a broken one names the seed, and the seed tells the same story again.

mod apply;
mod client;
mod copies;
mod coverage;
mod draw;
mod driver;
mod faults;
mod faulty_peer;
mod forks;
mod kinds;
mod layers;
mod merges;
mod operator;
mod oracle;
mod pause;
mod promise;
mod replace;
mod replay;
mod retry;
mod run;
mod scenario;
mod seed;
mod sets;
mod shrink;
mod silence;
mod suspect;
mod tamper;
mod telling;
mod unserved;
mod verify;
mod walk;

pub use coverage::{Change, Coverage, Line};
pub use kinds::Kind;
pub use layers::{LayersWalk, SetsWalk, walk_layers, walk_sets};
pub use promise::{Promise, Violation};
pub use run::{Counts, Story, Verdict, run};
pub use shrink::shrink;
pub use telling::Telling;
pub use walk::{Walk, digest, judge, walk};
