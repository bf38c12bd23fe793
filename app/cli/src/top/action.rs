// SPDX-License-Identifier: Apache-2.0
//! Actions by key: each is one command of the command line, with the same request.

use crate::request::Request;

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

    /// The command that does the same. `name`: of a snapshot.
    pub(crate) fn command(self, group: &str, name: &str) -> String {
        match self {
            Self::Snapshot => format!("helio {} {group}@{name}", self.verb()),
            _ => format!("helio {} {group}", self.verb()),
        }
    }

    /// The request of the command; none for a name that is no word of a command line.
    pub(crate) fn request(self, group: &str, name: &str) -> Option<Request> {
        Request::of_line(&self.command(group, name)).map(|(_, request)| request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_action_has_a_key_of_its_own_and_a_command_that_runs() {
        let keys: BTreeSet<char> = Action::ALL.map(Action::key).into();
        assert_eq!(keys.len(), Action::ALL.len());
        for action in Action::ALL {
            assert_eq!(Action::of_key(action.key()), Some(action));
            assert!(action.request("db", "one").is_some(), "{action:?}");
        }
    }
}
