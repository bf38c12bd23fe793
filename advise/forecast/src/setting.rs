// SPDX-License-Identifier: Apache-2.0
//! What is not varied: the daemon's defaults, disks by name, what a shard's work costs.

use core::num::NonZeroU32;
use core::time::Duration;
use helio_engine::{Config, OnError, QueueConfig};
use helio_twin::{DiskModel, Processor, ServiceTime};
use helio_units::{Bytes, Mode, Rate};

/// The window where buffers are left to the kernel: the most Linux lets a send buffer grow to by itself
/// (`net.ipv4.tcp_wmem`).
pub const WINDOW: Bytes = Bytes::mib(4);
/// What a request and its answer cost between an application and the shard: a hop through a Unix socket each way.
pub const CLIENT: Duration = Duration::from_micros(30);
/// Requests an application has under way at most.
pub const DEPTH: u32 = 1024;
/// What a shard's work costs, of the order that `proof/bench` measures on a machine of today: it matters where links
/// are as near as a hall.
pub const PROCESSOR: Processor = Processor {
    turn: Duration::from_micros(10),
    event: Duration::from_micros(2),
    kib: Duration::from_nanos(150),
};

/// The daemon's defaults for a group of these volumes.
#[must_use]
pub fn settings(volumes: Vec<Bytes>, mode: Mode, memory: Option<Bytes>) -> Config {
    Config {
        mode,
        queue: QueueConfig { memory, ..QueueConfig::default() },
        on_error: OnError::Pass,
        ..Config::new("plan", "", "", volumes)
    }
}

const fn between(median_us: u64, p99_us: u64) -> ServiceTime {
    ServiceTime { median: Duration::from_micros(median_us), p99: Duration::from_micros(p99_us) }
}

/// A disk by its name. These are orders of magnitude to begin with, and no measurement: a forecast is as good as the
/// times of the disk at hand, which `helio lab disk` tells.
#[must_use]
pub fn disk_called(name: &str) -> Option<DiskModel> {
    let (read, write, flush, lanes, rate) = match name {
        // With a cache that keeps its content without power, a flush is cheap.
        "nvme" => (between(90, 300), between(25, 120), between(30, 200), 64, 2_000_000_000),
        "ssd" => (between(150, 800), between(80, 800), between(1_000, 6_000), 32, 450_000_000),
        "hdd" => (
            between(8_000, 25_000),
            between(6_000, 25_000),
            between(12_000, 60_000),
            1,
            150_000_000,
        ),
        _ => return None,
    };
    let lanes = NonZeroU32::new(lanes)?;
    Some(DiskModel { read, write, flush, lanes, bandwidth: Some(Rate(rate)) })
}
