// SPDX-License-Identifier: Apache-2.0
//! Automatic snapshots of the groups whose configuration has `retain`.
//!
//! ```text
//!   due ──on a primary──> create ──> delete what is not kept, one after another
//!    └──on a secondary───────────────^
//! ```
//! What a primary creates and deletes, its peer does, too. A secondary deletes on its own only what is left there because its primary
//! deleted it while no order was kept for the peer. What is due while a node does not run, or is not primary, is skipped.

mod keep;

use crate::backend::Daemon;
use crate::config::Retain;
use helio_api::{Accepted, ApiError};
use helio_format::snapshot::SnapshotAct;
use helio_units::WallTime;
use keep::{expired, name_at, time_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How often the calendar is read, and how often a busy group is asked again.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How late a snapshot may begin: its name has the time at which it was due.
const LATE_MOST: Duration = Duration::from_secs(30);
/// How many times a busy group is asked.
const TRIES: u32 = 30;

/// What failed, as a verb, and why.
type Round = Result<(), (&'static str, ApiError)>;

/// The work for one group.
#[derive(Debug)]
struct Work {
    /// The last time that was due.
    due: WallTime,
    /// What was begun then.
    round: Option<JoinHandle<Round>>,
    /// The code of the last failure, which is logged once.
    reported: Option<String>,
}

impl Work {
    /// What was due before is skipped.
    const fn new(due: WallTime) -> Self {
        Self { due, round: None, reported: None }
    }

    /// Reports how the last round ended. Returns whether none is under way.
    async fn settled(&mut self, group: &str) -> bool {
        let Some(round) = self.round.take_if(|round| round.is_finished()) else {
            return self.round.is_none();
        };
        let failed = round.await.ok().and_then(Result::err);
        if let Some((verb, ApiError { code, error, hint, .. })) = &failed
            && self.reported.as_ref() != Some(code)
        {
            tracing::warn!(group, hint, "an automatic snapshot was not {verb}: {error}");
        }
        self.reported = failed.map(|(_, error)| error.code);
        true
    }

    /// Whether a snapshot is due that was not before.
    fn is_due(&mut self, due: WallTime, now: WallTime) -> bool {
        let is_new = due != self.due;
        self.due = due;
        is_new && now.before(LATE_MOST) <= due
    }
}

/// Creates and deletes them for as long as the daemon runs.
pub(crate) async fn follow(daemon: Arc<Daemon>) {
    let mut works = BTreeMap::<String, Work>::new();
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        let now = daemon.clock.wall_now();
        let retained = daemon.retained();
        works.retain(|group, _| retained.contains_key(group));
        for (group, retain) in retained {
            let due = retain.due(now);
            let work = works.entry(group.clone()).or_insert_with(|| Work::new(due));
            if work.settled(&group).await && work.is_due(due, now) {
                work.round = Some(tokio::spawn(round(Arc::clone(&daemon), group, retain, due)));
            }
        }
    }
}

/// Creates what is due, and deletes what is not kept.
async fn round(daemon: Arc<Daemon>, group: String, retain: Retain, due: WallTime) -> Round {
    let created = create(&daemon, &group, due).await.map_err(|error| ("created", error));
    let deleted = delete_expired(&daemon, &group, &retain).await;
    created.and(deleted.map_err(|error| ("deleted", error)))
}

async fn create(daemon: &Daemon, group: &str, due: WallTime) -> Result<(), ApiError> {
    let name = name_at(due);
    match patiently(daemon, group, SnapshotAct::Create(name)).await {
        Ok(_) => tracing::info!(group, snapshot = %name, "an automatic snapshot was created"),
        // The clock was set back, and this time came before; or another node is primary.
        Err(error) if ["snapshot-exists", "not-primary"].contains(&error.code.as_str()) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

async fn delete_expired(daemon: &Daemon, group: &str, retain: &Retain) -> Result<(), ApiError> {
    let list = daemon.snapshots(group).await?;
    let times: Vec<WallTime> = list.snapshots.iter().filter_map(|it| time_of(&it.name)).collect();
    // They are in the order in which they were created. So the last one has a time of the primary's clock, on its peer, too.
    let Some(last) = times.last() else { return Ok(()) };
    for at in expired(retain, *last, &times) {
        let name = name_at(at);
        match patiently(daemon, group, SnapshotAct::Delete(name)).await {
            Ok(_) => tracing::info!(group, snapshot = %name, "an automatic snapshot was deleted"),
            // The primary was faster, or an operator.
            Err(error) if error.code == "unknown-snapshot" => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Repeats what is refused for the moment only.
async fn patiently(daemon: &Daemon, group: &str, act: SnapshotAct) -> Result<Accepted, ApiError> {
    let mut tries = tokio::time::interval(LOOK_EVERY);
    for _ in 1..TRIES {
        tries.tick().await;
        match daemon.snapshot(group, act).await {
            Err(error) if error.retry => {}
            done => return done,
        }
    }
    tries.tick().await;
    daemon.snapshot(group, act).await
}
