// SPDX-License-Identifier: Apache-2.0
//! Local members of a volume that come and go while the daemon runs, and their merge.
//!
//! The configuration file says which members there are, as at a restart: only a disk that it names is added. A member that a
//! command removed stays one of the volume, so neither a restart nor `helio apply` uses it before `helio member add`.

use super::queue::UNTIL_APPLY;
use super::{Daemon, LOOK_EVERY, LOOKS, accepted, of_refusal, to_the_end};
use crate::config::{MemberChange, MemberStep, Setting, VolumeConfig};
use crate::control::Reply;
use crate::failed;
use crate::open::{self, Places, metadata};
use crate::shard::{Adding, Ask, MemberAsk, Removal, SetAsk};
use helio_api::{
    ApiError, MemberAddRequest, MemberMergeRequest, MemberRemoveRequest, MemberSetRequest,
    ReadCost, code,
};
use helio_driver::{Host, Mode, OFlags};
use helio_engine::Done;
use std::path::{Path, PathBuf};

impl Daemon {
    /// Adds a member that the configuration file names, or returns one that was removed.
    pub(super) async fn add_member(
        &self,
        group: String,
        wish: MemberAddRequest,
    ) -> Result<Reply, ApiError> {
        self.known(&group)?;
        let MemberAddRequest { volume, path, require_minicopy } = wish;
        let how = if require_minicopy { Adding::ByBitmap } else { Adding::Any };
        let path = PathBuf::from(path);
        if !self.volume_now(&group, &volume)?.members_on(&self.node).contains(&path) {
            return Err(unnamed(&self.config_path, (&group, &volume), &path, &self.node));
        }
        let (me, shown) = (self.myself()?, path.display().to_string());
        let name = (group.clone(), volume.clone());
        to_the_end(async move { me.add_one((&name.0, &name.1), &path, how).await }).await?;
        Ok(accepted(format!(
            "{shown} was added to {group}/{volume} and is being copied; `helio status {group}` shows the progress"
        )))
    }

    /// Removes a member, and waits for a while until nothing of this daemon reaches it any more.
    pub(super) async fn remove_member(
        &self,
        group: String,
        wish: MemberRemoveRequest,
    ) -> Result<Reply, ApiError> {
        self.known(&group)?;
        let MemberRemoveRequest { volume, path, force, for_backup } = wish;
        let how = match (force, for_backup) {
            (true, true) => {
                let text = "a member that is removed for a backup cannot be removed by force";
                let hint = "send either `force` or `for_backup`";
                return Err(ApiError::new(code::BAD_REQUEST, text, hint));
            }
            (true, false) => Removal::Forced,
            (false, true) => Removal::ForBackup,
            (false, false) => Removal::Ordinary,
        };
        let closed = self.remove_one((&group, &volume), &path, how).await?;
        let removed = format!("{path} was removed from {group}/{volume}");
        let open =
            format!("operations on {path} have not completed, and it stays open until they do");
        match (closed, how) {
            (true, Removal::ForBackup) => {
                self.flush(&path, &removed).await?;
                Ok(accepted(format!(
                    "{removed}: it is a complete copy of the volume, flushed and closed; do not write to it"
                )))
            }
            (false, Removal::ForBackup) => {
                let hint = format!(
                    "wait until `helio status {group}` shows it as closed, then run `sync {path}` before you read it"
                );
                Err(ApiError::new("member-late", format!("{removed}, but {open}"), hint))
            }
            (true, _) => Ok(accepted(format!("{removed} and is closed"))),
            (false, _) => {
                let mut reply = accepted(removed);
                if let Reply::Accepted(accepted) = &mut reply {
                    accepted.warnings.push(open);
                }
                Ok(reply)
            }
        }
    }

    /// Compares the full members of a volume, and makes them equal.
    pub(super) async fn merge_members(
        &self,
        group: String,
        wish: MemberMergeRequest,
    ) -> Result<Reply, ApiError> {
        self.known(&group)?;
        self.ask_set((&group, &wish.volume), SetAsk::Merge).await?;
        Ok(accepted(format!(
            "the merge of {group}/{} started; `helio status {group}` shows how much is left",
            wish.volume
        )))
    }

    /// Changes settings of a member; the file stays as it is, and the answer says so.
    pub(super) async fn set_member(
        &self,
        group: String,
        wish: MemberSetRequest,
    ) -> Result<Reply, ApiError> {
        self.known(&group)?;
        let MemberSetRequest { volume, path, read_cost } = wish;
        let running = self.running_group(&group).await?;
        let Some(config) = running.volumes.get(&volume) else {
            return Err(no_volume(&group, &volume));
        };
        let member = (self.node.clone(), PathBuf::from(&path));
        if !config.members_on(&self.node).contains(&member.1) {
            let text = format!("{path} is no member of {group}/{volume}");
            let hint = format!("`helio status {group}` shows the members");
            return Err(ApiError::new("unknown-member", text, hint));
        }
        let cost = match read_cost {
            ReadCost::Auto => None,
            ReadCost::Cost(cost) => Some(cost.get()),
        };
        let setting = Setting::ReadCost { volume: volume.clone(), member, cost };
        self.shard.ask(Ask::Change { group: group.clone(), setting })?;
        let mut reply = accepted(format!(
            "the read cost of {path}, a member of {group}/{volume}, is now {read_cost}"
        ));
        if let Reply::Accepted(accepted) = &mut reply {
            accepted.warnings.push(String::from(UNTIL_APPLY));
        }
        Ok(reply)
    }

    /// Changes a member as the configuration file has it now.
    pub(super) async fn change_member(&self, change: &MemberChange) -> Result<(), ApiError> {
        let MemberChange { group, volume, path, step } = change;
        let name = (group.as_str(), volume.as_str());
        self.known(group)?;
        match step {
            MemberStep::Add => self.add_one(name, path, Adding::Any).await,
            MemberStep::Remove => {
                let shown = path.display().to_string();
                match self.remove_one(name, &shown, Removal::Ordinary).await {
                    // It is not used any more, or never was: then there is nothing to remove.
                    Err(error)
                        if !matches!(error.code.as_str(), "member-unused" | "unknown-member") =>
                    {
                        return Err(error);
                    }
                    _ => {}
                }
                self.shard.ask(Ask::Member {
                    group: group.clone(),
                    volume: volume.clone(),
                    ask: MemberAsk::Unnamed { path: shown },
                })?;
                self.runs_with(name, |paths| paths.retain(|known| known != path));
                Ok(())
            }
        }
    }

    pub(crate) async fn add_one(
        &self,
        (group, volume): (&str, &str),
        path: &Path,
        how: Adding,
    ) -> Result<(), ApiError> {
        let config = self.config().groups.get(group).and_then(|g| g.volumes.get(volume)).cloned();
        let Some(config) = config else {
            return Err(no_volume(group, volume));
        };
        let mut looks = tokio::time::interval(LOOK_EVERY);
        let mut left = LOOKS;
        loop {
            looks.tick().await;
            match self.try_to_add((group, volume), (path, &config), how).await {
                // What is being saved is over in moments.
                Err(error) if error.code == "busy" && left > 0 => left -= 1,
                Err(error) => return Err(error),
                Ok(_) => break,
            }
        }
        self.runs_with((group, volume), |paths| {
            if !paths.iter().any(|known| known == path) {
                paths.push(path.to_owned());
            }
        });
        Ok(())
    }

    async fn try_to_add(
        &self,
        (group, volume): (&str, &str),
        (path, config): (&Path, &VolumeConfig),
        how: Adding,
    ) -> Result<Done, ApiError> {
        let ask = |reply| Ask::Member {
            group: group.to_owned(),
            volume: volume.to_owned(),
            ask: MemberAsk::Room { path: path.display().to_string(), reply },
        };
        let room = self.shard.answer(ask).await?.map_err(of_refusal)?;
        let second =
            self.config().nodes.get(&self.node).and_then(|node| node.second_metadata.clone());
        let places = Places::of(&self.host, group, &self.state, second.as_deref());
        let name = (group.to_owned(), volume.to_owned());
        let (path, config) = (path.to_owned(), config.clone());
        let host = Host::clone(&self.host);
        let (member, room) = self
            .blocking(move || {
                let member = open::one_more(&host, (&name.0, &name.1), &config, &path, &room)?;
                Ok::<_, ApiError>((Box::new(member), Box::new(room)))
            })
            .await??;
        let _one_at_a_time = self.adding.lock().await;
        let length = room.metadata;
        self.blocking(move || {
            metadata::lengthen(&places, length).map_err(|error| {
                let text = format!("{error:#}");
                let (why, hint) = failed::in_parts(&text);
                ApiError::new("metadata-failed", why, hint)
            })
        })
        .await??;
        self.ask_set((group, volume), SetAsk::Add { member, how, room }).await
    }

    /// Removes a member. Returns whether it is closed.
    async fn remove_one(
        &self,
        (group, volume): (&str, &str),
        path: &str,
        how: Removal,
    ) -> Result<bool, ApiError> {
        self.ask_set((group, volume), SetAsk::Remove { path: path.to_owned(), how }).await?;
        let mut looks = tokio::time::interval(LOOK_EVERY);
        for _ in 0..10 * LOOKS {
            looks.tick().await;
            let ask = |reply| Ask::Member {
                group: group.to_owned(),
                volume: volume.to_owned(),
                ask: MemberAsk::IsClosed { path: path.to_owned(), reply },
            };
            if self.shard.answer(ask).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn ask_set(&self, (group, volume): (&str, &str), ask: SetAsk) -> Result<Done, ApiError> {
        let ask = |reply| Ask::Member {
            group: group.to_owned(),
            volume: volume.to_owned(),
            ask: MemberAsk::Set { ask, reply },
        };
        self.shard.answer(ask).await?.map_err(of_refusal)
    }

    /// Makes what lies there durable.
    async fn flush(&self, path: &str, removed: &str) -> Result<(), ApiError> {
        let (host, file) = (Host::clone(&self.host), PathBuf::from(path));
        let flush = move || host.open(&file, OFlags::RDONLY, Mode::empty())?.sync_all();
        let flushed = self.blocking(flush).await?;
        flushed.map_err(|error| {
            let text = format!("{removed}, but the flush of its disk failed: {error}");
            let hint = "do not use it as a backup; see the kernel's log, and check the disk";
            ApiError::new("not-durable", text, hint)
        })
    }

    /// The members of a volume that this node runs with.
    fn runs_with(&self, (group, volume): (&str, &str), change: impl FnOnce(&mut Vec<PathBuf>)) {
        let mut config = self.config_mut();
        let running = config.groups.get_mut(group).and_then(|g| g.volumes.get_mut(volume));
        if let Some(paths) = running.and_then(|volume| volume.members.get_mut(&self.node)) {
            change(paths);
        }
    }
}

fn no_volume(group: &str, volume: &str) -> ApiError {
    let text = format!("group {group} has no volume {volume}");
    ApiError::new("unknown-volume", text, "`helio status` lists them")
}

fn unnamed(file: &Path, (group, volume): (&str, &str), path: &Path, node: &str) -> ApiError {
    let (file, path) = (file.display(), path.display());
    let text = format!("{file} does not name {path} as a member of {group}/{volume} on {node}");
    let hint = format!("add it to `members.{node}` of the volume there, then repeat the command");
    ApiError::new("unconfigured-member", text, hint)
}
