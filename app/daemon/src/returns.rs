// SPDX-License-Identifier: Apache-2.0
//! Members that were removed after an error return by minicopy once their disk works again.
//!
//! ```text
//!   removed ──after `member-return`──> tried ──> in use for as long as the next wait ──> forgotten
//!      ^                                 └── fails, or is removed again: the wait doubles, up to an hour ──┐
//!      └─────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```

use crate::backend::Daemon;
use crate::shard::{Adding, Ask, NodeAsk, RemovedMember};
use helio_api::ApiError;
use helio_units::Moment;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How often the groups are asked for removed members.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The longest wait before another try.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Group, volume, number and path.
type Name = (String, String, u8, String);

/// When one member is tried again.
#[derive(Clone, Copy, Debug)]
struct Next {
    at: Moment,
    /// The wait behind it.
    wait: Duration,
}

/// Members that were removed, or were not long ago.
#[derive(Debug, Default)]
struct Returns {
    next: BTreeMap<Name, Next>,
}

impl Returns {
    /// Which members to try now, of those that are removed.
    fn due(&mut self, now: Moment, removed: Vec<RemovedMember>) -> Vec<Name> {
        let mut left = std::mem::take(&mut self.next);
        let mut due = Vec::new();
        for RemovedMember { group, volume, number, path, wait } in removed {
            let name = (group, volume, number, path);
            let mut next = left.remove(&name).unwrap_or(Next { at: now + wait, wait });
            if now >= next.at {
                next.wait = (next.wait * 2).min(LONGEST_WAIT);
                next.at = now + next.wait;
                due.push(name.clone());
            }
            self.next.insert(name, next);
        }
        left.retain(|_, next| now < next.at);
        self.next.append(&mut left);
        due
    }
}

/// Returns members for as long as the daemon runs.
pub(crate) async fn follow(daemon: Arc<Daemon>) {
    let (mut returns, mut tries) = (Returns::default(), BTreeMap::<Name, JoinHandle<()>>::new());
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        let removed = daemon.shard.answer(|reply| Ask::Node(NodeAsk::Removed { reply })).await;
        let Ok(removed) = removed else { continue };
        for name in returns.due(daemon.clock.now(), removed) {
            // A disk that hangs holds up no other one, and is not opened once more.
            if tries.get(&name).is_none_or(JoinHandle::is_finished) {
                let once = try_to_return(Arc::clone(&daemon), name.clone());
                tries.insert(name, tokio::spawn(once));
            }
        }
        tries.retain(|_, once| !once.is_finished());
    }
}

async fn try_to_return(daemon: Arc<Daemon>, (group, volume, number, path): Name) {
    let how = Adding::Returning(number);
    match daemon.add_one((&group, &volume), Path::new(&path), how).await {
        Ok(()) => {
            tracing::info!(group, volume, member = path, "helio returns this member");
        }
        Err(ApiError { error, hint, .. }) => {
            tracing::info!(
                group,
                volume,
                member = path,
                hint,
                "helio could not return this member: {error}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(60);

    fn removed() -> Vec<RemovedMember> {
        let [group, volume, path] = ["db", "data", "/b"].map(String::from);
        vec![RemovedMember { group, volume, number: 1, path, wait: WAIT }]
    }

    /// After how many seconds a member is tried that is removed at the times of which `is` says so.
    fn tried(until: u64, is: impl Fn(u64) -> bool) -> Vec<u64> {
        let (mut returns, begin) = (Returns::default(), Moment::ZERO);
        let seconds = (0..until).filter(|second| {
            let removed = if is(*second) { removed() } else { Vec::new() };
            !returns.due(begin + Duration::from_secs(*second), removed).is_empty()
        });
        seconds.collect()
    }

    #[test]
    fn a_member_that_cannot_return_is_tried_less_and_less_often() {
        let hours = |hours: u64| hours * 3600;
        let times = tried(hours(6), |_| true);
        assert_eq!(times[..5], [60, 180, 420, 900, 1860]);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= 3600), "{times:?}");
        assert!(times.len() > 8, "{times:?}");
    }

    #[test]
    fn one_that_returned_and_is_removed_soon_waits_longer_and_later_as_if_new() {
        let soon = tried(1000, |second| !(61..100).contains(&second));
        assert_eq!(soon, [60, 180, 420, 900]);
        let later = tried(1000, |second| !(61..500).contains(&second));
        assert_eq!(later, [60, 560, 680, 920]);
    }
}
