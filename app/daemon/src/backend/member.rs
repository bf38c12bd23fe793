// SPDX-License-Identifier: Apache-2.0
//! Another disk in the place of a lost one, while the daemon runs: the one that the configuration file names now. And
//! the copy on a disk of which a flush failed, accepted as it is.
//!
//! The file is the administrator's, and a restart opens what it names; so nothing else is taken. Either the disk is put at
//! the path that is there already, or the path is changed first.

use super::{Daemon, LOOK_EVERY, LOOKS, accepted, of_refusal};
use crate::config::{Config, VolumeConfig};
use crate::control::Reply;
use crate::open;
use crate::shard::{Ask, MemberAsk, Seat};
use helio_api::{ApiError, AtStake, MemberAcceptRequest, MemberReplaceRequest, code};
use helio_driver::Host;

impl Daemon {
    /// Opens the disk that the file names, and gives it to the volume.
    pub(super) async fn replace_member(
        &self,
        group: String,
        wish: MemberReplaceRequest,
    ) -> Result<Reply, ApiError> {
        self.known(&group)?;
        let config = self.volume_now(&group, &wish.volume)?;
        let mut looks = tokio::time::interval(LOOK_EVERY);
        let mut left = LOOKS;
        loop {
            looks.tick().await;
            let done = self.try_to_replace(&group, &wish, &config).await;
            // What is being saved, or ends on the old disk, is over in moments.
            match done {
                Err(error) if error.code == "busy" && left > 0 => left -= 1,
                Err(error) => return Err(error),
                Ok(message) => {
                    self.runs_on(&group, &wish.volume, &config);
                    return Ok(accepted(message));
                }
            }
        }
    }

    /// Accepts the copy of a volume that a failed flush left suspect.
    pub(super) async fn accept_member(
        &self,
        group: String,
        wish: MemberAcceptRequest,
    ) -> Result<Reply, ApiError> {
        self.known(&group)?;
        let ask = |reply| Ask::Member {
            group: group.clone(),
            volume: wish.volume.clone(),
            ask: MemberAsk::Suspect { reply },
        };
        let (volume, text) = self.shard.answer(ask).await?.map_err(of_refusal)?;
        if wish.confirmed {
            return self.carry_out(group, helio_engine::Command::Accept { volume }).await;
        }
        let what = format!(
            "acknowledged writes may be missing from this copy of {group}/{}, and would be lost",
            wish.volume
        );
        let hint = "repeat with --yes if no better copy exists";
        let mut error = ApiError::new(code::NEEDS_CONFIRMATION, what, hint);
        error.at_stake = Some(AtStake {
            since_ms: None,
            seconds: None,
            bytes: None,
            writes: None,
            unknown: None,
            last_contact_ms: None,
            text,
        });
        Err(error)
    }

    async fn try_to_replace(
        &self,
        group: &str,
        wish: &MemberReplaceRequest,
        config: &VolumeConfig,
    ) -> Result<String, ApiError> {
        self.with_peer(group)?;
        let (group, volume) = (group.to_owned(), wish.volume.clone());
        let ask = |reply| Ask::Member {
            group: group.clone(),
            volume: volume.clone(),
            ask: MemberAsk::Seat { reply },
        };
        let seat = self.shard.answer(ask).await?.map_err(of_refusal)?;
        if !wish.confirmed {
            return Err(self.unconfirmed((&group, &volume), config, seat));
        }
        let (config, node) = (config.clone(), self.node.clone());
        let name = (group.clone(), volume.clone());
        let host = Host::clone(&self.host);
        let open = move || open::another(&host, (&name.0, &name.1), &config, &node, seat);
        let plan = self.blocking(open).await??;
        let plan = Box::new(plan);
        let ask = |reply| Ask::Member { group, volume, ask: MemberAsk::Replace { plan, reply } };
        self.shard.answer(ask).await?.map(|done| done.text).map_err(of_refusal)
    }

    fn unconfirmed(
        &self,
        (group, volume): (&str, &str),
        config: &VolumeConfig,
        Seat { peer, lost, .. }: Seat,
    ) -> ApiError {
        let path = config.members_on(&self.node).first();
        let path = path.map(|path| path.display().to_string()).unwrap_or_default();
        let text =
            format!("{path} would be overwritten with the copy of {group}/{volume} from {peer}");
        let hint = if lost.is_some() {
            "repeat with --yes if you need neither these writes nor the data on that disk"
        } else {
            "repeat with --yes if you do not need the data on that disk"
        };
        let lost = lost.map_or_else(String::new, |lost| format!("; and {lost}"));
        let mut error = ApiError::new(code::NEEDS_CONFIRMATION, text.clone(), hint);
        error.at_stake = Some(AtStake {
            since_ms: None,
            seconds: None,
            bytes: None,
            writes: None,
            unknown: None,
            last_contact_ms: None,
            text: format!("all data on {path}{lost}"),
        });
        error
    }

    /// The volume as the file has it now.
    pub(super) fn volume_now(&self, group: &str, volume: &str) -> Result<VolumeConfig, ApiError> {
        let new = self.read_again()?;
        let find = |config: &Config| {
            config.groups.get(group).and_then(|group| group.volumes.get(volume)).cloned()
        };
        let Some(now) = find(&self.config()) else {
            let text = format!("group {group} has no volume {volume}");
            return Err(ApiError::new("unknown-volume", text, "`helio status` lists them"));
        };
        match find(&new) {
            Some(named) if named.size == now.size && named.members.contains_key(&self.node) => {
                Ok(named)
            }
            Some(named) if named.size != now.size => {
                let text = format!(
                    "the configuration file gives {group}/{volume} a size of {}, but it is served with {}",
                    named.size, now.size
                );
                Err(ApiError::new("bad-configuration", text, "restore its size in the file"))
            }
            _ => {
                let file = self.config_path.display();
                let text = format!("{file} has no member of {group}/{volume} on {}", self.node);
                Err(ApiError::new("bad-configuration", text, "name the new disk there"))
            }
        }
    }

    /// The disk that was taken runs, whatever the file said at the start.
    fn runs_on(&self, group: &str, volume: &str, taken: &VolumeConfig) {
        let mut config = self.config_mut();
        let running = config.groups.get_mut(group).and_then(|g| g.volumes.get_mut(volume));
        if let (Some(running), Some(paths)) = (running, taken.members.get(&self.node)) {
            running.members.insert(self.node.clone(), paths.clone());
            (running.io, running.sparse) = (taken.io, taken.sparse);
        }
    }
}
