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

/// Modes, links and workloads, with full queues and outages among them.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let one = |name, mode, line, work| Scenario {
        name,
        mode,
        line,
        queue: Bytes::mib(8),
        work,
        outage: None,
        depth: 256,
    };
    let metro = "rtt=5ms,rate=1Gbit/s,relay";
    let far = "rtt=40ms,rate=100Mbit/s,relay";
    let steady = "rate=500,size=4KiB,for=12s,flush-every=50,volume=256MiB";
    let mixed = "rate=300,size=4KiB*3,size=32KiB,for=12s,flush-every=20,volume=256MiB";
    let surge = "rate=2500,size=8KiB,for=10s,volume=256MiB,even";
    let portland = "portland,relay";
    vec![
        one("sync, metro, steady", Mode::Sync, metro, steady),
        one("nearsync, metro, steady", Mode::NearSync, metro, steady),
        one("async, metro, steady", Mode::Async, metro, steady),
        one("sync, far, steady", Mode::Sync, far, steady),
        one("nearsync, far, mixed", Mode::NearSync, far, mixed),
        one("async, far, mixed", Mode::Async, far, mixed),
        one("sync, Portland, mixed", Mode::Sync, portland, mixed),
        Scenario {
            depth: 16,
            ..one(
                "sync, far, 16 at once",
                Mode::Sync,
                far,
                "rate=20000,size=4KiB,for=1s,volume=256MiB",
            )
        },
        Scenario {
            queue: Bytes::mib(24),
            ..one("async, far, full queue", Mode::Async, far, surge)
        },
        Scenario {
            queue: Bytes::mib(24),
            depth: 1024,
            ..one("async, far, full queue, 1024 at once", Mode::Async, far, surge)
        },
        Scenario {
            queue: Bytes::mib(16),
            depth: 1024,
            ..one("async, Portland, full queue, 1024 at once", Mode::Async, portland, surge)
        },
        Scenario {
            queue: Bytes::mib(16),
            depth: 64,
            ..one("async, Portland, full queue", Mode::Async, portland, surge)
        },
        Scenario { queue: Bytes::mib(1), ..one("sync, far, full queue", Mode::Sync, far, surge) },
        Scenario {
            queue: Bytes::mib(1),
            ..one("nearsync, Portland, full queue", Mode::NearSync, portland, surge)
        },
        Scenario {
            queue: Bytes::mib(64),
            outage: Some((4, 3)),
            ..one("async, far, outage kept in the queue", Mode::Async, far, steady)
        },
        Scenario {
            outage: Some((3, 9)),
            ..one(
                "async, metro, outage longer than the queue",
                Mode::Async,
                metro,
                "rate=500,size=8KiB,for=18s,volume=256MiB",
            )
        },
        Scenario {
            outage: Some((4, 2)),
            ..one("sync, metro, short outage", Mode::Sync, metro, steady)
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
