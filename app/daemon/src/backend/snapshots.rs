// SPDX-License-Identifier: Apache-2.0
//! Snapshots: creating, deleting and showing them.

use super::{Daemon, to_the_end};
use crate::config::Retain;
use crate::control::{self, Reply};
use crate::shard::LookAsk;
use helio_api::{Accepted, ApiError, SnapshotList};
use helio_engine::Command;
use helio_format::snapshot::SnapshotAct;
use helio_units::CopyName;
use std::collections::BTreeMap;

impl Daemon {
    /// Shows the snapshots, creates one, deletes one, or restores the volumes from one.
    pub(super) async fn on_snapshots(&self, command: control::Command) -> Result<Reply, ApiError> {
        let (group, here, act) = match command {
            control::Command::SnapshotCreate { group, wish } => {
                let name = name_of(&wish.name)?;
                let act = match wish.refresh {
                    true => SnapshotAct::Refresh(name),
                    false => SnapshotAct::Create(name),
                };
                (group, wish.here, act)
            }
            control::Command::SnapshotDelete { group, wish } => {
                (group, wish.here, SnapshotAct::Delete(name_of(&wish.name)?))
            }
            control::Command::SnapshotRestore { group, wish } => {
                let name = name_of(&wish.name)?;
                return self.carry_out(group, Command::RestoreSnapshot(name)).await;
            }
            control::Command::Snapshots { group } => {
                return self.snapshots(&group).await.map(Reply::Snapshots);
            }
            other => unreachable!("{other:?} is not about snapshots"),
        };
        if here {
            return self.carry_out(group, Command::SnapshotHere(act)).await;
        }
        self.snapshot(&group, act).await.map(Reply::Accepted)
    }

    /// The snapshots of a group.
    pub(crate) async fn snapshots(&self, group: &str) -> Result<SnapshotList, ApiError> {
        self.known(group)?;
        self.shard.look(group, |reply| LookAsk::Snapshots { reply }).await
    }

    /// Creates, refreshes or deletes a snapshot, on both nodes. A new one is of a frozen application if the group has hooks for this.
    pub(crate) async fn snapshot(
        &self,
        group: &str,
        act: SnapshotAct,
    ) -> Result<Accepted, ApiError> {
        self.known(group)?;
        let group = group.to_owned();
        if let Some(hooks) = self.freezing(&group, act).await? {
            let me = self.myself()?;
            return to_the_end(async move { me.snapshot_frozen(&group, act, hooks).await }).await;
        }
        let done = self.command(group, Command::Snapshot(act)).await?;
        Ok(Accepted { message: done.text, warnings: Vec::new() })
    }

    /// The groups of this node that have automatic snapshots.
    pub(crate) fn retained(&self) -> BTreeMap<String, Retain> {
        let config = self.config();
        let mine = config.groups.iter().filter(|(_, group)| group.nodes.contains(&self.node));
        mine.filter_map(|(name, group)| Some((name.clone(), group.retain.clone()?))).collect()
    }
}

fn name_of(name: &str) -> Result<CopyName, ApiError> {
    CopyName::new(name).ok_or_else(|| {
        if name == CopyName::SAFE_COPY {
            let text = "safe-copy is reserved for the safe copy of a resync, which ends with the resync";
            return ApiError::new("bad-name", text, "use another name");
        }
        let text = format!("{} is not a name of a snapshot", name.escape_debug());
        let hint = "use up to 63 letters, digits, `-`, `_`, `.` and `:`, beginning with a letter or a digit and not ending with `:rw`";
        ApiError::new("bad-name", text, hint)
    })
}
