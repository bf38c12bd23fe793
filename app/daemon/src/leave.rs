// SPDX-License-Identifier: Apache-2.0
//! How a daemon leaves: first applications are thawed, then it gives up its devices, then its shard.

use crate::backend::{Daemon, ShardHandle};
use crate::shard::{Ask, NodeAsk};
use anyhow::Result;
use std::sync::Arc;
use std::time::Duration;

/// How often a daemon that stops checks whether its devices are still used: the kernel sends no notification.
const LOOK_AT_USERS_EVERY: Duration = Duration::from_millis(200);

/// Waits until no application is frozen. Then detaches the devices that are not used, and waits for the others until they are
/// not used any more. It ends when `insisted` completes.
///
/// # Errors
/// That of `insisted`, or a panic while devices are detached.
pub(crate) async fn leave(
    daemon: &Daemon,
    insisted: impl Future<Output = Result<()>>,
) -> Result<()> {
    tokio::pin!(insisted);
    tokio::select! {
        () = daemon.freezes.end() => {}
        insisted = &mut insisted => return insisted,
    }
    let mut told = String::new();
    loop {
        let looking = Arc::clone(&daemon.attaches);
        // After a second signal the daemon does not wait for a flush that waits for the peer.
        let looking = tokio::spawn(async move { looking.leave().await });
        let used = tokio::select! {
            used = looking => used?,
            insisted = &mut insisted => return insisted,
        };
        if used.is_empty() {
            return Ok(());
        }
        let used = used.join("; ");
        if told != used {
            tracing::warn!(
                "waiting for devices in use: {used}\n  hint: unmount them; a second signal stops the daemon at once, \
                 and processes that use the devices get I/O errors"
            );
            told = used;
        }
        if let Ok(insisted) = tokio::time::timeout(LOOK_AT_USERS_EVERY, &mut insisted).await {
            return insisted;
        }
    }
}

/// Has the shard stop.
pub(crate) fn stop_shard(shard: &ShardHandle) {
    if shard.ask(Ask::Node(NodeAsk::Stop)).is_err() {
        tracing::warn!("the shard ended unexpectedly");
    }
}
