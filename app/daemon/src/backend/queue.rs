// SPDX-License-Identifier: Apache-2.0
//! The queue's verbs: showing one group's queue, and changing its bound and policies while it runs.

use super::Daemon;
use crate::config::{Config, GroupConfig, QueueSource, Setting};
use crate::control::Reply;
use crate::shard::Ask;
use helio_api::{Accepted, ApiError, Memory, QueueReply, QueueRequest, QueueSettings, WhenFull};
use helio_engine::QueueConfig;
use helio_units::{Bytes, Items};

/// The smallest payload a queue can hold.
const SECTOR: Bytes = Bytes(512);

/// A warning: the setting is that of the daemon, and not of the file.
pub(super) const UNTIL_APPLY: &str =
    "the file is not changed: the next `helio apply`, or start, restores the settings of the file";

impl Daemon {
    pub(super) async fn queue(&self, group: String) -> Result<QueueReply, ApiError> {
        self.with_peer(&group)?;
        let mut status = self.status(Some(group.clone())).await?;
        let Some(shown) = status.groups.pop() else { return Err(self.unknown(&group)) };
        let settings = settings(&self.running_group(&group).await?.queue);
        let file = Config::load(&self.host, &self.config_path).ok();
        let file = file.and_then(|f| f.groups.get(&group).map(|g| self::settings(&g.queue)));
        Ok(QueueReply {
            group,
            at_ms: status.at_ms,
            role: shown.role,
            settings,
            file_settings: file.filter(|file| *file != settings),
            queue: shown.queue,
            throttle: shown.throttle,
            lag: shown.lag,
        })
    }

    /// Changes what the wish names; the file stays as it is, and the answer says so.
    pub(super) async fn set_queue(
        &self,
        group: String,
        wish: QueueRequest,
    ) -> Result<Reply, ApiError> {
        self.with_peer(&group)?;
        check(&wish)?;
        let before = self.running_group(&group).await?.queue;
        let queue = wanted(before, wish);
        if queue == before {
            let message =
                format!("the queue of {group} already has these settings: {}", settings(&queue));
            return Ok(Reply::Accepted(Accepted { message, warnings: Vec::new() }));
        }
        let setting = Setting::Queue(queue, QueueSource::Operator);
        self.shard.ask(Ask::Change { group: group.clone(), setting })?;
        let message = format!("the queue of {group} is now {}", settings(&queue));
        Ok(Reply::Accepted(Accepted { message, warnings: vec![UNTIL_APPLY.to_owned()] }))
    }

    pub(super) async fn running_group(&self, group: &str) -> Result<GroupConfig, ApiError> {
        self.running().await?.groups.remove(group).ok_or_else(|| self.unknown(group))
    }
}

fn check(wish: &QueueRequest) -> Result<(), ApiError> {
    let refuse = |text: &str, hint| Err(ApiError::new("bad-queue", text, hint));
    match wish {
        QueueRequest { memory: Some(Memory::Bytes(bytes)), .. } if *bytes < SECTOR => {
            refuse("this memory is smaller than one sector", "use auto, or at least 512B")
        }
        QueueRequest { items: Some(Items(0)), .. } => {
            refuse("a queue must hold at least one item", "use at least 1")
        }
        wish if *wish == QueueRequest::default() => {
            refuse("no setting was given", "give memory, items or when-full")
        }
        _ => Ok(()),
    }
}

fn wanted(before: QueueConfig, wish: QueueRequest) -> QueueConfig {
    QueueConfig {
        memory: match wish.memory {
            None => before.memory,
            Some(Memory::Auto) => None,
            Some(Memory::Bytes(bytes)) => Some(bytes),
        },
        items: wish.items.unwrap_or(before.items),
        connected: wish.when_full_connected.map_or(before.connected, of_api),
        disconnected: wish.when_full_disconnected.map_or(before.disconnected, of_api),
        ..before
    }
}

fn settings(queue: &QueueConfig) -> QueueSettings {
    QueueSettings {
        memory: queue.memory.map_or(Memory::Auto, Memory::Bytes),
        items: queue.items,
        when_full_connected: to_api(queue.connected),
        when_full_disconnected: to_api(queue.disconnected),
    }
}

fn of_api(policy: WhenFull) -> helio_engine::WhenFull {
    match policy {
        WhenFull::Block => helio_engine::WhenFull::Block,
        WhenFull::Log => helio_engine::WhenFull::Log,
        WhenFull::Fail => helio_engine::WhenFull::Fail,
    }
}

fn to_api(policy: helio_engine::WhenFull) -> WhenFull {
    match policy {
        helio_engine::WhenFull::Block => WhenFull::Block,
        helio_engine::WhenFull::Log => WhenFull::Log,
        helio_engine::WhenFull::Fail => WhenFull::Fail,
    }
}
