// SPDX-License-Identifier: Apache-2.0
//! Actions by key: each is one command of the command line, with the same request.

use crate::request::Request;
use crate::{args, typed};
use clap::Command;
use helio_api::{
    GroupStatus, PromoteRequest, ResyncRequest, SnapshotRequest, SwitchRequest, VerifyRequest,
};
use helio_units::Role;

/// What a key does to the selected group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Pause,
    Resume,
    Resync,
    Verify,
    Promote,
    Switch,
    Snapshot,
}

impl Action {
    pub(crate) const ALL: [Self; 7] = [
        Self::Pause,
        Self::Resume,
        Self::Resync,
        Self::Verify,
        Self::Promote,
        Self::Switch,
        Self::Snapshot,
    ];

    pub(crate) const fn key(self) -> char {
        match self {
            Self::Pause => 'p',
            Self::Resume => 'r',
            Self::Resync => 'c',
            Self::Verify => 'v',
            Self::Promote => 'm',
            Self::Switch => 'w',
            Self::Snapshot => 'n',
        }
    }

    pub(crate) fn of_key(key: char) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.key() == key)
    }

    /// The words of the command behind `helio`.
    pub(crate) const fn verb(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Resync => "resync",
            Self::Verify => "verify start",
            Self::Promote => "promote",
            Self::Switch => "switch",
            Self::Snapshot => "snapshot create",
        }
    }

    /// The action that makes this request.
    pub(crate) const fn of_request(request: &Request) -> Self {
        match request {
            Request::Pause => Self::Pause,
            Request::Resume => Self::Resume,
            Request::Resync(_) => Self::Resync,
            Request::Verify(_) => Self::Verify,
            Request::Promote(_) => Self::Promote,
            Request::Switch(_) => Self::Switch,
            Request::SnapshotCreate(_) => Self::Snapshot,
        }
    }

    /// The command line that does the same, as it runs here. `name`: of a snapshot.
    pub(crate) fn command(self, group: &str, name: &str) -> String {
        let object = match self {
            Self::Snapshot => format!("{group}@{name}"),
            _ => group.to_owned(),
        };
        let command = format!("helio {} {object}", self.verb());
        typed::runnable(&format!("`{command}`")).trim_matches('`').to_owned()
    }

    /// What it does: the help of the command.
    pub(crate) fn effect(self) -> String {
        let mut command = args::command();
        for word in self.verb().split(' ') {
            command = command.find_subcommand(word).cloned().unwrap_or_default();
        }
        Command::get_about(&command).map(ToString::to_string).unwrap_or_default()
    }

    /// What is at stake, as far as it is known before the daemon is asked.
    pub(crate) fn stake(self, g: &GroupStatus) -> String {
        let peer = g.peer.as_ref().map_or("its peer", |peer| peer.name.as_str());
        let secondary = if g.role == Role::Primary { peer } else { &g.node };
        match self {
            Self::Pause => format!(
                "until replication resumes, new writes exist only on the primary; if it fails, {secondary} does not have them"
            ),
            Self::Resume | Self::Resync => format!(
                "until the resync ends, the copy on {secondary} is inconsistent; {secondary} preserves its last consistent copy, unless `safe-copy` is \"off\""
            ),
            Self::Verify => String::from(
                "nothing; both copies are read and compared over the link, and no data changes",
            ),
            Self::Promote => format!(
                "writes that {} does not have would be lost; if there may be any, the daemon refuses, or asks again",
                g.node
            ),
            Self::Switch => {
                String::from("clients of the current primary are disconnected; no data is lost")
            }
            Self::Snapshot => {
                let nodes = if g.peer.is_some() { " on both nodes" } else { "" };
                format!(
                    "nothing; until the snapshot is deleted, overwritten data needs space{nodes}"
                )
            }
        }
    }

    /// The request of the command without options.
    pub(crate) fn request(self, name: &str) -> Request {
        match self {
            Self::Pause => Request::Pause,
            Self::Resume => Request::Resume,
            Self::Resync => Request::Resync(ResyncRequest::default()),
            Self::Verify => Request::Verify(VerifyRequest::default()),
            Self::Promote => Request::Promote(PromoteRequest::default()),
            Self::Switch => Request::Switch(SwitchRequest::default()),
            Self::Snapshot => Request::SnapshotCreate(SnapshotRequest {
                name: name.to_owned(),
                ..SnapshotRequest::default()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use std::collections::BTreeSet;
    use std::ffi::OsString;

    #[test]
    fn every_action_has_a_key_of_its_own_and_a_command_that_runs() {
        let keys: BTreeSet<char> = Action::ALL.map(Action::key).into();
        assert_eq!(keys.len(), Action::ALL.len());
        let status = sample::status();
        for action in Action::ALL {
            assert_eq!(Action::of_key(action.key()), Some(action));
            assert_eq!(Action::of_request(&action.request("one")), action);
            let line = action.command("db", "one");
            assert!(args::read(line.split(' ').map(OsString::from).collect()).is_ok(), "{line}");
            assert!(!action.effect().is_empty() && !action.stake(&status.groups[0]).is_empty());
        }
    }

    #[test]
    fn a_snapshot_in_a_group_of_one_node_needs_space_on_that_node_only() {
        let mut group = sample::status().groups.remove(0);
        assert!(Action::Snapshot.stake(&group).ends_with("needs space on both nodes"));
        group.peer = None;
        assert!(Action::Snapshot.stake(&group).ends_with("needs space"));
    }
}
