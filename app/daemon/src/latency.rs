// SPDX-License-Identifier: Apache-2.0
//! Measures how long small reads of members take. A disk may keep the caller waiting, so each is read on a thread of its own,
//! which nothing waits for beyond a bound. A node has few such threads, whatever the number of its groups.

use crate::backend::ShardHandle;
use crate::blocking::on_own_thread;
use crate::shard::{Ask, MemberAsk};
use helio_disk::Io;
use helio_driver::{Errno, Host};
use helio_units::Bytes;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::timeout;

/// A disk that has not completed its reads by then counts as one that cannot be read.
const PATIENCE: Duration = Duration::from_secs(5);

/// Members of a node that are measured at once.
const AT_ONCE: usize = 4;

/// What limits the measurements of a node. A thread holds its permit until it ends, so disks that hang start no more threads.
#[derive(Clone, Debug)]
pub(crate) struct Permits(Arc<Semaphore>);

impl Default for Permits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

/// A member for which no measurement can start within this time stays unmeasured.
const PERMIT_PATIENCE: Duration = Duration::from_secs(60);

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
    (host, shard): (Host, ShardHandle),
    group: String,
    permits: Permits,
    mut unmeasured: watch::Receiver<Vec<Unmeasured>>,
) {
    while unmeasured.changed().await.is_ok() {
        let members = unmeasured.borrow_and_update().clone();
        for member in members {
            let (volume, path) = (member.volume.clone(), member.path.clone());
            let permit = timeout(PERMIT_PATIENCE, Arc::clone(&permits.0).acquire_owned()).await;
            let Ok(Ok(permit)) = permit else {
                tracing::warn!(
                    group,
                    volume,
                    "the latency of {} is not measured: other measurements take longer than {PERMIT_PATIENCE:?}",
                    path.display()
                );
                continue;
            };
            let Some(latency) = measure(&host, member, permit).await else { continue };
            let ask = MemberAsk::Measured { path, latency };
            let ask = Ask::Member { group: group.clone(), volume, ask };
            if shard.ask_patiently(ask).await.is_err() {
                return;
            }
        }
    }
}

/// The median latency of a few reads; `Some(None)` if the disk fails one, or does not complete them in time. None if what failed
/// is not the disk: the member stays unmeasured.
async fn measure(
    host: &Host,
    member: Unmeasured,
    permit: OwnedSemaphorePermit,
) -> Option<Option<Duration>> {
    let (tell, told) = oneshot::channel();
    let shown = member.path.display().to_string();
    let machine = Host::clone(host);
    let read = move || {
        // Nothing waits for the result any more if it took too long.
        let latency = helio_disk::read_latency(&machine, &member.path, member.size, member.io);
        let _gone = tell.send(latency);
        drop(permit);
    };
    if let Err(error) = on_own_thread(host, "latency", Box::new(read)) {
        tracing::warn!(%error, "the latency of {shown} cannot be measured");
        return None;
    }
    let why = match timeout(PATIENCE, told).await {
        Ok(Ok(Ok(latency))) => return Some(Some(latency)),
        Ok(Ok(Err(error))) if !is_of_the_disk(&error) => {
            tracing::warn!(%error, "the latency of {shown} cannot be measured");
            return None;
        }
        Ok(Ok(Err(error))) => error.to_string(),
        Ok(Err(_)) => String::from("its thread ended"),
        Err(_) => format!("no response within {PATIENCE:?}"),
    };
    tracing::warn!("the latency of {shown} was not measured: {why}; its read cost is the highest");
    Some(None)
}

/// Whether an error says something of the disk, and not of what this process may use.
fn is_of_the_disk(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    !matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_want_of_descriptors_says_nothing_of_a_disk() {
        let of = |errno: Errno| is_of_the_disk(&errno.into());
        assert!(of(Errno::IO) && of(Errno::NODEV));
        assert!(!of(Errno::MFILE) && !of(Errno::NFILE) && !of(Errno::NOMEM));
    }

    #[tokio::test]
    async fn a_measurement_gives_its_permit_back_when_its_thread_ends() {
        let Permits(permits) = Permits::default();
        let permit = Arc::clone(&permits).acquire_owned().await.expect("it is open");
        let path = PathBuf::from("/proc/no-such-disk");
        let member =
            Unmeasured { volume: "data".into(), path, size: Bytes::mib(1), io: Io::Buffered };
        assert_eq!(measure(&helio_driver::Linux::host(), member, permit).await, Some(None));
        let all = permits.acquire_many(AT_ONCE as u32).await;
        assert_eq!(all.expect("it is open").num_permits(), AT_ONCE);
    }
}
