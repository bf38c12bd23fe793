// SPDX-License-Identifier: Apache-2.0
//! Measures how long small reads of members take. A disk may keep the caller waiting, so each is read on a thread of its own,
//! which nothing waits for beyond a bound.

use crate::backend::ShardHandle;
use crate::shard::{Ask, MemberAsk};
use helio_disk::Io;
use helio_units::Bytes;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// A disk that has not completed its reads by then counts as one that cannot be read.
const PATIENCE: Duration = Duration::from_secs(5);

/// A member whose latency is to be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unmeasured {
    pub(crate) volume: String,
    pub(crate) path: PathBuf,
    pub(crate) size: Bytes,
    pub(crate) io: Io,
}

/// Measures members of a group, one after the other, whenever the shard asks.
pub(crate) async fn answer(
    shard: ShardHandle,
    group: String,
    mut unmeasured: watch::Receiver<Vec<Unmeasured>>,
) {
    while unmeasured.changed().await.is_ok() {
        let members = unmeasured.borrow_and_update().clone();
        for member in members {
            let (volume, path) = (member.volume.clone(), member.path.clone());
            let latency = measure(member).await;
            let ask = MemberAsk::Measured { path, latency };
            let ask = Ask::Member { group: group.clone(), volume, ask };
            if shard.ask_patiently(ask).await.is_err() {
                return;
            }
        }
    }
}

/// The median latency of a few reads; none if one fails, or they take too long.
async fn measure(member: Unmeasured) -> Option<Duration> {
    let (tell, told) = oneshot::channel();
    let shown = member.path.display().to_string();
    let read = move || {
        // One that waits no more has given it up.
        let _gone = tell.send(helio_disk::read_latency(&member.path, member.size, member.io));
    };
    if let Err(error) = thread::Builder::new().name("latency".into()).spawn(read) {
        tracing::warn!(%error, "the latency of {shown} cannot be measured");
        return None;
    }
    let why = match timeout(PATIENCE, told).await {
        Ok(Ok(Ok(latency))) => return Some(latency),
        Ok(Ok(Err(error))) => error.to_string(),
        Ok(Err(_)) => String::from("its thread ended"),
        Err(_) => format!("no response within {PATIENCE:?}"),
    };
    tracing::warn!("the latency of {shown} was not measured: {why}; its read cost is the highest");
    None
}
