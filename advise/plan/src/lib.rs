// SPDX-License-Identifier: Apache-2.0
//! The closed formulas of planning, and every number of the sources computed by them.
//!
//! What a link, a disk and a workload come to without running anything: windows, flush times, queues, maps, and the
//! mode that suits. [`examples()`] holds the formulas against what the sources state; [`live`] holds what runs against
//! their rules.
//!
//! Absent on purpose: clocks, dice, I/O, and whatever takes more than arithmetic; forecasts run the engine in the twin.

mod advice;
mod calculator;
mod examples;
mod flush;
pub mod live;
mod marks;
mod queue;
mod response;
mod scan;
mod transfer;
mod window;

pub use advice::{Advice, Choice, HIGH_LATENCY, Situation, Work, advise};
pub use calculator::{Impact, Prediction, Sample, catch_up, pages, predict, socket_buffer};
pub use examples::{Claim, Example, Source, Value, Verdict, examples};
pub use flush::{CATCH_UP, Disk, Flush, FlushMode, Link, PAGE};
pub use helio_engine::{QUEUE_BYTES_SNDR, automatic_bound};
pub use marks::{GRAINS, Map, SHADOW_GRAIN, map, most_copied, shadow_memory};
pub use queue::{
    CALL, ENLARGE_PERCENT, Flow, HighWater, PerSecond, THROTTLE, WATCH_PERCENT, block_at, blocks,
    drain_by_calls, high_water, room_each, throttled,
};
pub use response::{longer_percent, times};
pub use scan::{Scan, ScanError, scan};
pub use transfer::Transfer;
pub use window::{
    LEAST_BUFFER, MOST_BUFFER, buffer, doubled, granted_by_linux, hiccup_room, product, throughput,
};
