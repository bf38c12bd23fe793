// SPDX-License-Identifier: Apache-2.0
//! What is forecast and run.

use anyhow::Result;
use core::time::Duration;
use helio_forecast::{Buffer, Grid, Link, Queue, Sampling};
use helio_netmodel::Outage;
use helio_twin::DiskModel;
use helio_units::{Bytes, Mode, Moment};
use helio_workload::Workload;

/// One scenario.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) mode: Mode,
    pub(crate) line: &'static str,
    pub(crate) queue: Bytes,
    work: &'static str,
    /// After so many seconds, for so many.
    pub(crate) outage: Option<(u64, u64)>,
    pub(crate) depth: u32,
}

const METRO: &str = "rtt=5ms,rate=1Gbit/s,relay";
const FAR: &str = "rtt=40ms,rate=100Mbit/s,relay";
const PORTLAND: &str = "portland,relay";
const STEADY: &str = "rate=500,size=4KiB,for=12s,flush-every=50,volume=256MiB";
const MIXED: &str = "rate=300,size=4KiB*3,size=32KiB,for=12s,flush-every=20,volume=256MiB";
const SURGE: &str = "rate=2500,size=8KiB,for=10s,volume=256MiB,even";

fn one(name: &'static str, mode: Mode, line: &'static str, work: &'static str) -> Scenario {
    Scenario { name, mode, line, queue: Bytes::mib(8), work, outage: None, depth: 256 }
}

/// Modes, links and workloads, with full queues and outages among them.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let at_once = "rate=20000,size=4KiB,for=1s,volume=256MiB";
    let mut all = vec![
        one("sync, metro, steady", Mode::Sync, METRO, STEADY),
        one("nearsync, metro, steady", Mode::NearSync, METRO, STEADY),
        one("async, metro, steady", Mode::Async, METRO, STEADY),
        one("sync, far, steady", Mode::Sync, FAR, STEADY),
        one("nearsync, far, mixed", Mode::NearSync, FAR, MIXED),
        one("async, far, mixed", Mode::Async, FAR, MIXED),
        one("sync, Portland, mixed", Mode::Sync, PORTLAND, MIXED),
        Scenario { depth: 16, ..one("sync, far, 16 at once", Mode::Sync, FAR, at_once) },
    ];
    all.extend(full_queues());
    all.extend(outages());
    all
}

fn full_queues() -> [Scenario; 6] {
    let full = |name, mode, line, mib, depth| Scenario {
        queue: Bytes::mib(mib),
        depth,
        ..one(name, mode, line, SURGE)
    };
    [
        full("async, far, full queue", Mode::Async, FAR, 24, 256),
        full("async, far, full queue, 1024 at once", Mode::Async, FAR, 24, 1024),
        full("async, Portland, full queue, 1024 at once", Mode::Async, PORTLAND, 16, 1024),
        full("async, Portland, full queue", Mode::Async, PORTLAND, 16, 64),
        full("sync, far, full queue", Mode::Sync, FAR, 1, 256),
        full("nearsync, Portland, full queue", Mode::NearSync, PORTLAND, 1, 256),
    ]
}

fn outages() -> [Scenario; 3] {
    let longer = "rate=500,size=8KiB,for=18s,volume=256MiB";
    let kept = one("async, far, outage kept in the queue", Mode::Async, FAR, STEADY);
    let name = "async, metro, outage longer than the queue";
    [
        Scenario { queue: Bytes::mib(64), outage: Some((4, 3)), ..kept },
        Scenario { outage: Some((3, 9)), ..one(name, Mode::Async, METRO, longer) },
        Scenario {
            outage: Some((4, 2)),
            ..one("sync, metro, short outage", Mode::Sync, METRO, STEADY)
        },
    ]
}

impl Scenario {
    pub(crate) fn workload(&self) -> Result<Workload> {
        Ok(helio_forecast::synthetic(self.work)?.draw()?)
    }

    pub(crate) fn link(&self) -> Link {
        self.line.parse().expect("the scenarios' links are links")
    }

    /// The grid of one cell, over these disks and that line.
    pub(crate) fn grid(&self, disk: DiskModel, link: Link) -> Grid {
        let second = |at| Moment::ZERO + Duration::from_secs(at);
        let outage = |(at, lasting)| Outage { from: second(at), to: second(at + lasting) };
        Grid {
            modes: vec![self.mode],
            queues: vec![Queue::Bytes(self.queue)],
            buffers: vec![Buffer::Auto],
            links: vec![link],
            outages: self.outage.map(outage).into_iter().collect(),
            disks: [disk, disk],
            depth: self.depth,
            sampling: Sampling::Whole,
            patience: Duration::from_secs(120),
            seed: 1,
        }
    }
}
