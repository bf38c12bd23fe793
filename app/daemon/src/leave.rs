// SPDX-License-Identifier: Apache-2.0
//! How a daemon leaves: first its devices, then its shard.

use crate::attach::Attaches;
use crate::backend::ShardHandle;
use crate::shard::{Ask, NodeAsk};
use std::sync::Arc;
use std::time::Duration;

/// How often a daemon that is to stop looks whether its devices are still used: the kernel tells nobody.
const LOOK_AT_USERS_EVERY: Duration = Duration::from_millis(200);
/// Gives the devices free that nobody uses, and waits for those that are used until their users go, or somebody
/// insists.
pub(crate) async fn leave(attaches: &Arc<Attaches>, insisted: impl Future<Output = ()>) {
    tokio::pin!(insisted);
    let mut told = String::new();
    loop {
        let looking = Arc::clone(attaches);
        // Whoever insists does not wait for a flush that waits for the peer.
        let looking = tokio::spawn(async move { looking.leave().await });
        let used = tokio::select! {
            used = looking => used.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())),
            () = &mut insisted => return,
        };
        if used.is_empty() {
            return;
        }
        let used = used.join("; ");
        if told != used {
            tracing::warn!(
                "waiting for devices in use: {used}\n  hint: unmount them; a second signal stops the daemon at once, \
                 and processes that use the devices get I/O errors"
            );
            told = used;
        }
        if tokio::time::timeout(LOOK_AT_USERS_EVERY, &mut insisted).await.is_ok() {
            return;
        }
    }
}

/// Has the shard stop.
pub(crate) fn stop_shard(shard: &ShardHandle) {
    if shard.ask(Ask::Node(NodeAsk::Stop)).is_err() {
        tracing::warn!("the shard ended unexpectedly");
    }
}
