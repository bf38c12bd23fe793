// SPDX-License-Identifier: Apache-2.0
//! A scenario with two daemons, through the relay.

use crate::scenario::Scenario;
use anyhow::{Context, Result};
use helio_bench::replay::{Seen, replay, wait_until};
use helio_testkit::{Pair, Plan, eventually, free_port};
use helio_units::Bytes;
use helio_wan::{Cut, Relay, RelayConfig};
use helio_workload::Workload;
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at the primary: often enough for a tenth of what is timed, seldom enough not to disturb it.
const LOOK_EVERY: Duration = Duration::from_millis(200);

const NODES: [&str; 2] = ["paris", "lyon"];
/// As large as the scenarios' workloads have it.
pub(crate) const VOLUME: Bytes = Bytes::mib(256);

/// What was measured.
pub(crate) struct Measured {
    pub(crate) seen: Seen,
    pub(crate) queue_high: u64,
    pub(crate) full_after: Option<Duration>,
    pub(crate) level_after: Option<Duration>,
}

/// Runs it.
pub(crate) fn run(scenario: &Scenario, workload: &Workload) -> Result<Measured> {
    let plan = Plan::new("db")
        .mode(scenario.mode)
        .group_line(&format!("queue = {{ memory = \"{}B\" }}", scenario.queue.0))
        .volume("data", VOLUME);
    let model = scenario.link().model(Bytes::mib(1));
    let relay = Relay::start(RelayConfig {
        listen: free_port(),
        target: plan.dialled(),
        there: model.forth,
        back: model.back,
        seed: 1,
    })?;
    let mut pair = plan.relay(relay.local_addr()).prepare();
    for node in NODES {
        fill(&pair.member(node, "data"))?;
        pair.start(node);
    }
    let promote = || pair.helio("paris", &["promote", "db", "--yes"]);
    promote().expect_success();
    eventually(PATIENCE, "the pair to mirror", || (state(&pair)? == "replicating").then_some(()));
    pair.helio("paris", &["queue", "reset", "db"]).expect_success();
    let (over, began) = (AtomicBool::new(false), Instant::now());
    let control = relay.control();
    std::thread::scope(|scope| {
        let outage = scope.spawn(|| {
            let (at, lasting) = scenario.outage?;
            wait_until(began + Duration::from_secs(at));
            control.cut(Cut::Freeze);
            wait_until(began + Duration::from_secs(at + lasting));
            control.heal();
            let healed = Instant::now();
            let cursor = |name: &str| group(&pair)?["cursors"][name].as_u64();
            let upto = eventually(PATIENCE, "the primary's cursors", || cursor("accepted"));
            eventually(PATIENCE, "level copies", || {
                (state(&pair)? == "replicating" && cursor("peer_completed")? >= upto).then_some(())
            });
            Some(healed.elapsed())
        });
        let looks = scope.spawn(|| {
            let mut full = None;
            while !over.load(Ordering::Relaxed) {
                wait_until(Instant::now() + LOOK_EVERY);
                let looked = group(&pair);
                let throttle = looked.as_ref().map(|group| &group["throttle"]);
                let hit = |name: &str| throttle.and_then(|of| of[name].as_u64()).unwrap_or(0) > 0;
                if full.is_none() && (hit("count") || hit("dropped")) {
                    full = Some(began.elapsed());
                }
            }
            full
        });
        let socket = pair.state("paris").join("nbd.sock");
        let seen = replay(&socket, "db/data", workload, scenario.depth as usize);
        over.store(true, Ordering::Relaxed);
        let full_after = looks.join().expect("looking does not panic");
        let level_after = outage.join().expect("the outage does not panic");
        let last = group(&pair).context("the primary says nothing")?;
        Ok(Measured {
            seen: seen?,
            queue_high: last["queue"]["bytes_high_water"].as_u64().unwrap_or(0),
            full_after,
            level_after,
        })
    })
}

/// Gives a member the blocks it will have: what a write to a hole costs is in no forecast, and devices have none.
fn fill(member: &Path) -> Result<()> {
    let mut file = File::options().write(true).open(member)?;
    let piece = vec![0; 1 << 20];
    for _ in 0..VOLUME.0 >> 20 {
        file.write_all(&piece)?;
    }
    file.sync_all()?;
    // Pages that stay in the cache would cost every direct write their removal.
    Ok(rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?)
}

fn group(pair: &Pair) -> Option<Value> {
    let status = pair.status("paris");
    status["groups"].as_array()?.first().cloned()
}

fn state(pair: &Pair) -> Option<String> {
    group(pair)?["state"].as_str().map(str::to_owned)
}
