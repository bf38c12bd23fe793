// SPDX-License-Identifier: Apache-2.0
//! Reading the configuration again.

use super::Daemon;
use crate::config::{self, COPIES_AT_ONCE, Change, Config, MemberChange};
use crate::released;
use crate::shard::{Ask, NodeAsk};
use crate::trust::{self, Trusted};
use helio_api::{ApiError, ApplyReply, code};
use helio_tls::PeerTls;

/// What an `apply` brings to the shard, and to the control listener.
struct Trust {
    ask: Ask,
    trusted: Trusted,
    /// Where the node shows another key from then on.
    line: Option<String>,
}

impl Daemon {
    /// The configuration that runs: what the file said at the start, and what was changed since, by whatever verb.
    pub(super) async fn running(&self) -> Result<Config, ApiError> {
        let mut config = self.config().clone();
        config.nodes.clone_from(&self.trusted.borrow().nodes);
        for (group, running) in
            self.shard.answer(|reply| Ask::Node(NodeAsk::Running { reply })).await?
        {
            if let Some(group) = config.groups.get_mut(&group) {
                group.set_running(running);
            }
        }
        Ok(config)
    }

    /// Reads the file again and changes what may change while running. It is compared with what runs, so what an
    /// operator changed by other verbs is shown, and set back to the file. The node's key is read again too.
    pub(super) async fn apply(&self, dry_run: bool) -> Result<ApplyReply, ApiError> {
        let new = self.read_again()?;
        let mut running = self.running().await?;
        let come = self.coming(&running, &new);
        let retried = self.to_retry(&new);
        let taken = come.iter().chain(&retried);
        running.groups.extend(taken.map(|name| (name.clone(), new.groups[name].clone())));
        let plans = if dry_run { Vec::new() } else { self.open(&running, &come).await? };
        let changes = config::diff(&running, &new, &self.node);
        let trust = self.trust(running.clone(), &new)?;
        let mut lines = changes.nodes;
        lines.extend(trust.line);
        lines.extend(come.iter().map(|group| format!("group {group}: added")));
        lines.extend(changes.online.iter().map(|change| change.text.clone()));
        lines.extend(changes.retain);
        lines.extend(changes.hooks);
        if dry_run {
            lines.extend(changes.members.iter().map(ToString::to_string));
        }
        if !dry_run {
            self.shard.ask(trust.ask)?;
            let most = new.nodes.get(&self.node).map(|node| node.copies_at_once);
            self.shard.ask(Ask::Node(NodeAsk::MostCopies(most.unwrap_or(COPIES_AT_ONCE))))?;
            self.trusted.send_replace(trust.trusted);
            self.config_mut().retain_as(&new);
        }
        for plan in plans {
            self.serve(plan, &new).await?;
        }
        for Change { group, setting, .. } in changes.online.into_iter().filter(|_| !dry_run) {
            self.shard.ask(Ask::Change { group, setting })?;
        }
        if dry_run {
            lines.extend(retried.iter().map(|group| format!("group {group}: tried again")));
        } else {
            let (served, mut refused) = self.retry((&running, &new), &retried).await;
            lines.extend(served);
            let mut failed: Vec<(&str, &str)> = Vec::new();
            for change in &changes.members {
                let volume = (change.group.as_str(), change.volume.as_str());
                // What replaces a member that is to go may have been refused.
                if failed.contains(&volume) {
                    continue;
                }
                match self.change_member(change).await {
                    Ok(()) => lines.push(change.to_string()),
                    Err(error) => {
                        failed.push(volume);
                        refused.get_or_insert(about(change, error));
                    }
                }
            }
            // Everything else was applied; what was refused is reported last.
            if let Some(error) = refused {
                return Err(error);
            }
        }
        Ok(ApplyReply { changes: lines, restart_needed: changes.restart })
    }

    /// The configuration as the file has it now.
    pub(super) fn read_again(&self) -> Result<Config, ApiError> {
        released::load(&self.host, &self.config_path, &self.state).map_err(|error| {
            let place = error
                .place
                .as_ref()
                .map_or_else(String::new, |at| format!(":{}:{}", at.line, at.column));
            let text = format!("{}{place}: {}", error.file, error.message);
            ApiError::new("bad-configuration", text, error.hint)
        })
    }

    /// Whom this node will trust, of what runs and what the file says now.
    fn trust(&self, mut running: Config, new: &Config) -> Result<Trust, ApiError> {
        running.nodes_as(new);
        let view = running.for_node(&self.node).map_err(|error| {
            ApiError::new(code::INTERNAL, error.to_string(), "report this as a bug")
        })?;
        let own = trust::own_key(&self.host, &view, &self.state).map_err(|error| {
            let text = format!("{}: {}", error.path.display(), error.why);
            ApiError::new("bad-key", text, error.hint)
        })?;
        let guards = trust::guards(&view, own.as_ref());
        let shows = |own: &Option<PeerTls>| own.as_ref().map(PeerTls::public);
        let line = shows(&own)
            .filter(|key| shows(&self.trusted.borrow().own) != Some(*key))
            .map(|key| format!("node {}: shows the key {key}", self.node));
        let trusted = Trusted::of(&running, &self.node, own);
        Ok(Trust { ask: Ask::Node(NodeAsk::Trust { guards }), trusted, line })
    }
}

/// An error that names the member that was to change.
fn about(change: &MemberChange, error: ApiError) -> ApiError {
    let MemberChange { group, volume, path, .. } = change;
    let text = format!("member {} of {group}/{volume}: {}", path.display(), error.error);
    ApiError { error: text, ..error }
}
