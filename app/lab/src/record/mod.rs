// SPDX-License-Identifier: Apache-2.0
//! Records what a link is like over time, with datagrams between two hosts: one asks and writes, the other answers.
//!
//! What is measured, of each row's probes:
//!
//! | value | how |
//! |---|---|
//! | round trip | the least time there and the least time back, added. Each by two clocks that are a constant apart, which the sum takes out again; the time the other end took is in neither |
//! | jitter of a way | what its time varies by: the 90 % point above the least, scaled to the bound of a uniform draw, which is what the link model makes of it. So a rare straggler is not taken for the rule |
//! | loss of a way | the share of probes that did not come there, or whose answer did not come back in [`GRACE`]. Every answer says which of the last 256 probes came, so that the two ways are told apart |
//! | rate of a way | bursts of datagrams sent at once, as many as pass in 50 ms but at most 512: the bytes the line served, by the time from the first to the last, without the first quarter; the middle of five bursts. One that was there before this end looked tells nothing and is not counted. Bytes are those of IP packets |
//!
//! While bursts are under way nothing is probed: they would measure themselves. A link is asked for its rate now and then;
//! in between the last one holds. What is faster than these hosts can send shows as what they could.
//!
//! `wire` is the datagrams, `meter` the arithmetic, `answer` and `ask` the two ends.

mod answer;
mod ask;
mod meter;
mod socket;
mod wire;

pub use answer::{Listen, run_answer};
pub use ask::{Asking, run_record};
pub(crate) use wire::Datagram;

use std::time::Duration;

/// How long an answer may take before it counts as lost.
pub const GRACE: Duration = Duration::from_secs(2);
