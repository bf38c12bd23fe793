// SPDX-License-Identifier: Apache-2.0
//! What the common commands request of a daemon about one group. `helio top` sends the same requests.

use crate::client::{Client, ClientError};
use helio_api::{
    Accepted, PromoteRequest, ResyncRequest, SnapshotRequest, SwitchRequest, VerifyRequest, paths,
};

/// A request about one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Pause,
    Resume,
    Resync(ResyncRequest),
    Verify(VerifyRequest),
    Promote(PromoteRequest),
    Switch(SwitchRequest),
    SnapshotCreate(SnapshotRequest),
}

impl Request {
    /// Sends it, and returns when the daemon has accepted or refused it.
    pub(crate) fn post(&self, client: &Client, group: &str) -> Result<Accepted, ClientError> {
        let path = |template| paths::of_group(template, group);
        match self {
            Self::Pause => client.post(&path(paths::PAUSE), &()),
            Self::Resume => client.post(&path(paths::RESUME), &()),
            Self::Resync(wish) => client.post(&path(paths::RESYNC), wish),
            Self::Verify(wish) => client.post(&path(paths::VERIFY), wish),
            Self::Promote(wish) => client.post(&path(paths::PROMOTE), wish),
            Self::Switch(wish) => client.post(&path(paths::SWITCH), wish),
            Self::SnapshotCreate(wish) => client.post(&path(paths::SNAPSHOT_CREATE), wish),
        }
    }

    /// For a request that the daemon refuses until what is at stake was shown: the same after that, and the question.
    pub(crate) fn confirmed(&self, group: &str) -> Option<(Self, String)> {
        match self {
            Self::Promote(wish) if !wish.confirmed => {
                let wish = PromoteRequest { confirmed: true, ..*wish };
                Some((Self::Promote(wish), format!("promote {group} nevertheless?")))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_promotion_is_confirmed_to_the_daemon_and_only_once() {
        let asked = Request::Promote(PromoteRequest::default());
        let (confirmed, question) = asked.confirmed("db").expect("the daemon may ask");
        assert_eq!(question, "promote db nevertheless?");
        assert_eq!(
            confirmed,
            Request::Promote(PromoteRequest { confirmed: true, ..PromoteRequest::default() })
        );
        assert_eq!(confirmed.confirmed("db"), None);
        assert_eq!(Request::Switch(SwitchRequest::default()).confirmed("db"), None);
    }
}
