// SPDX-License-Identifier: Apache-2.0
//! Giving the stores of a group back.

use super::{Daemon, accepted};
use crate::attach::Devices;
use crate::blocking::blocking;
use crate::control::Reply;
use crate::failed;
use crate::open::Places;
use crate::released::{self, Remains, Unfinished};
use crate::shard::{Ask, Released, ServiceAsk};
use helio_api::{ApiError, ReleaseRequest, code};
use helio_driver::Host;
use helio_units::{Role, shell_word};
use std::path::{Path, PathBuf};

impl Daemon {
    /// Ends a group on this node, and removes every trace of it from its stores.
    pub(super) async fn release(
        &self,
        group: String,
        wish: ReleaseRequest,
    ) -> Result<Reply, ApiError> {
        self.known(&group)?;
        let config = self.config().groups.get(&group).cloned();
        let others = config.as_ref().map_or(0, |group| group.volumes.len()).saturating_sub(1);
        if let Some(volume) = &wish.volume {
            if !config.as_ref().is_some_and(|group| group.volumes.contains_key(volume)) {
                let text = format!("group {group} has no volume {volume}");
                return Err(ApiError::new("unknown-volume", text, "`helio status` lists them"));
            }
            if others > 0 {
                let text = format!(
                    "{group}/{volume} has {others} more volume(s) in its group, which is released as a whole"
                );
                let hint = format!("release them all: `helio release {group}`");
                return Err(ApiError::new("not-alone", text, hint));
            }
        }
        if let Some(in_use) = self.attaches.in_use(&group, Devices::All).await {
            return Err(in_use);
        }
        let attached = self.attaches.of_group(&group).await;
        if !attached.is_empty() {
            let text = format!("attached, or will be: {}", attached.join(", "));
            let commands = attached.iter().map(|volume| format!("`helio detach {volume}`"));
            let commands: Vec<String> = commands.collect();
            let hint = format!("unmount it, then {}", commands.join(", "));
            return Err(ApiError::new("in-use", text, hint));
        }
        let (name, force) = (group.clone(), wish.force);
        let ask = |reply| Ask::Service(ServiceAsk::Release { group: name, force, reply });
        let left = self.unless_used(&group, self.shard.answer(ask).await?).await?;
        let mut message = told(&group, &left);
        let late = left.late.iter().map(|member| still_written(&group, member));
        let stale = left.stale.iter().map(|member| incomplete(&group, member));
        let warnings: Vec<String> = late.chain(stale).collect();
        let kept = self.clear(&group, (left, &message), wish.keep_metadata).await;
        let kept = kept.map_err(|error| {
            let hints: Vec<String> = error.hint.into_iter().chain(warnings.clone()).collect();
            ApiError { hint: (!hints.is_empty()).then(|| hints.join("; ")), ..error }
        })?;
        if !kept.is_empty() {
            message += &format!("; its metadata is kept as {}", listed(&kept));
        }
        let mut reply = accepted(message);
        if let Reply::Accepted(accepted) = &mut reply {
            let file = self.config_path.display();
            accepted.warnings.extend(warnings);
            accepted.warnings.push(format!(
                "remove group {group} from {file} on both nodes; until then this node ignores it"
            ));
        }
        Ok(reply)
    }

    async fn clear(
        &self,
        group: &str,
        (left, message): (Released, &str),
        keep: bool,
    ) -> Result<Vec<PathBuf>, ApiError> {
        let folder = self.config().groups.get(group).and_then(|group| group.safe_copy_dir.clone());
        let second =
            self.config().nodes.get(&self.node).and_then(|node| node.second_metadata.clone());
        let places = Places::of(&self.host, group, &self.state, second.as_deref());
        let remains = Remains {
            state: self.state.clone(),
            group: group.to_owned(),
            safe_copy: folder.unwrap_or_else(|| self.state.join("groups")),
            second: places.second.clone(),
            members: left
                .stores
                .into_iter()
                .filter(|member| !left.late.contains(member))
                .map(|(_, path)| path)
                .collect(),
        };
        let host = Host::clone(&self.host);
        let clearing = move || {
            // Metadata that outlived the mark would be believed again one day, beside a disk that was written since.
            released::note(&host, &remains.state, &remains.group, remains.second.as_deref())?;
            Ok::<_, std::io::Error>(remains.clear(&host, keep))
        };
        let done = blocking(&self.host, clearing).await;
        let done = done.unwrap_or_else(|panic| Err(std::io::Error::other(failed::words(&*panic))));
        self.config_mut().groups.remove(group);
        let done = done.map_err(|error| {
            let folder = self.state.join("groups");
            let folder = folder.display();
            let text =
                format!("{group} is stopped, but {folder} cannot record its release: {error}");
            let hint =
                format!("fix the cause, restart the daemon, and repeat `helio release {group}`");
            self.failures.add(group, (text.clone(), hint.clone()), true);
            ApiError::new(code::INTERNAL, text, hint)
        })?;
        done.map_err(|unfinished| unfinished_error(message, &unfinished))
    }
}

fn listed(files: &[PathBuf]) -> String {
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    files.join(" and ")
}

/// The group is released, as the message says, but for steps that failed.
fn unfinished_error(
    message: &str,
    Unfinished { why, files, named, kept }: &Unfinished,
) -> ApiError {
    let mut text = format!("{message}; not every step succeeded: {}", why.join("; "));
    if !kept.is_empty() {
        text += &format!("; its metadata is kept as {}", listed(kept));
    }
    let mut steps = Vec::new();
    if !files.is_empty() {
        let files = listed(files);
        steps
            .push(format!("remove or rename these files by hand if they are still there: {files}"));
    }
    steps.extend(named.iter().map(|member| nameless(member)));
    let hint = match steps.as_slice() {
        [] => "check the disk".to_owned(),
        steps => format!("fix the cause, then {}", steps.join("; ")),
    };
    ApiError::new(code::INTERNAL, text, hint)
}

/// How the stamp, if there is one, and the name of a member are removed by hand.
fn nameless(member: &Path) -> String {
    let member = member.to_string_lossy();
    let member = shell_word(&member);
    format!("`setfattr -x user.heliograph.set {member}; setfattr -x user.heliograph {member}`")
}

/// A member is given back while operations on it are under way.
fn still_written(group: &str, (volume, path): &(String, PathBuf)) -> String {
    let (unnamed, path) = (nameless(path), path.display());
    format!(
        "operations on {path} of {group}/{volume} have not completed, and may still change it. It stays locked: check the disk, and do \
         not use it before the daemon has ended; if it is a file, then run {unnamed}"
    )
}

/// A member that is not a complete copy. A file keeps its identity, so the group does not start with it.
fn incomplete(group: &str, (volume, path): &(String, PathBuf)) -> String {
    let path = path.display();
    format!(
        "{path} of {group}/{volume} is not a complete copy: replace it with a copy of a full member, or remove it from the configuration \
         file, before {group} is served here again"
    )
}

/// What the stores hold now.
fn told(group: &str, left: &Released) -> String {
    let stores: Vec<String> = left
        .stores
        .iter()
        .map(|(volume, path)| format!("{group}/{volume} is {}", path.display()))
        .collect();
    let condition = match (left.role, left.flushed && left.consistent) {
        (_, false) => "not a complete and consistent copy, or not durable",
        (Role::Primary, true) => "everything that was acknowledged, durable",
        (Role::Secondary, true) => "a consistent copy, durable",
    };
    format!(
        "released: {}: {condition}, of generation {} up to item {}",
        stores.join(", "),
        left.generation,
        left.head
    )
}
