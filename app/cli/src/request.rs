// SPDX-License-Identifier: Apache-2.0
//! What the common commands request of a daemon about one group. `helio top` and `helio dashboard` send the same requests.

use crate::args::{self, Member, Snapshot, SnapshotName, Verb, Verify};
use crate::client::{Client, ClientError};
use helio_api::{
    Accepted, MemberAcceptRequest, MemberReplaceRequest, ModeRequest, PromoteRequest,
    ResolveRequest, ResyncRequest, ReverseRequest, SnapshotRequest, SwitchRequest, VerifyRequest,
    paths,
};
use serde_json::{Value, to_value};
use std::path::PathBuf;

/// A request about one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Pause,
    Resume,
    Resync(ResyncRequest),
    Reverse(ReverseRequest),
    Mode(ModeRequest),
    Verify(VerifyRequest),
    VerifyStop,
    Promote(PromoteRequest),
    Demote,
    Switch(SwitchRequest),
    Resolve(ResolveRequest),
    MemberReplace(MemberReplaceRequest),
    MemberAccept(MemberAcceptRequest),
    SnapshotCreate(SnapshotRequest),
}

impl Request {
    /// What a command line requests, and of which group; none if it is no such command, or names no group.
    pub(crate) fn of_line(line: &str) -> Option<(String, Self)> {
        let (group, request) = of_verb(args::verb_of(line)?)?;
        Some((group?, request))
    }

    /// Sends it, and returns when the daemon has accepted or refused it.
    pub(crate) fn post(&self, client: &Client, group: &str) -> Result<Accepted, ClientError> {
        client.post(&self.path(group), &self.body())
    }

    /// Where it is sent.
    pub(crate) fn path(&self, group: &str) -> String {
        let template = match self {
            Self::Pause => paths::PAUSE,
            Self::Resume => paths::RESUME,
            Self::Resync(_) => paths::RESYNC,
            Self::Reverse(_) => paths::REVERSE,
            Self::Mode(_) => paths::MODE,
            Self::Verify(_) => paths::VERIFY,
            Self::VerifyStop => paths::VERIFY_STOP,
            Self::Promote(_) => paths::PROMOTE,
            Self::Demote => paths::DEMOTE,
            Self::Switch(_) => paths::SWITCH,
            Self::Resolve(_) => paths::RESOLVE,
            Self::MemberReplace(_) => paths::MEMBER_REPLACE,
            Self::MemberAccept(_) => paths::MEMBER_ACCEPT,
            Self::SnapshotCreate(_) => paths::SNAPSHOT_CREATE,
        };
        paths::of_group(template, group)
    }

    /// Its body.
    pub(crate) fn body(&self) -> Value {
        let body = match self {
            Self::Pause | Self::Resume | Self::VerifyStop | Self::Demote => Ok(Value::Null),
            Self::Resync(wish) => to_value(wish),
            Self::Reverse(wish) => to_value(wish),
            Self::Mode(wish) => to_value(wish),
            Self::Verify(wish) => to_value(wish),
            Self::Promote(wish) => to_value(wish),
            Self::Switch(wish) => to_value(wish),
            Self::Resolve(wish) => to_value(wish),
            Self::MemberReplace(wish) => to_value(wish),
            Self::MemberAccept(wish) => to_value(wish),
            Self::SnapshotCreate(wish) => to_value(wish),
        };
        // Words, numbers and flags of ours always are JSON.
        body.unwrap_or_default()
    }

    /// For a request that the daemon refuses until what is at stake was shown: the same after that, and the question.
    pub(crate) fn confirmed(&self, group: &str) -> Option<(Self, String)> {
        let (confirmed, question) = match self.clone() {
            Self::Promote(wish) => (
                Self::Promote(PromoteRequest { confirmed: true, ..wish }),
                format!("promote {group} nevertheless?"),
            ),
            Self::Resolve(wish) => {
                let question = format!("discard what only {} has of {group}?", wish.discard);
                (Self::Resolve(ResolveRequest { confirmed: true, ..wish }), question)
            }
            Self::Reverse(wish) => (
                Self::Reverse(ReverseRequest { confirmed: true, ..wish }),
                format!("overwrite this primary of {group} with the secondary's copy?"),
            ),
            Self::MemberReplace(wish) => {
                let question =
                    format!("overwrite it with the peer's copy of {group}/{}?", wish.volume);
                let wish = MemberReplaceRequest { confirmed: true, ..wish };
                (Self::MemberReplace(wish), question)
            }
            Self::MemberAccept(wish) => {
                let question = format!("accept this copy of {group}/{} as it is?", wish.volume);
                let wish = MemberAcceptRequest { confirmed: true, ..wish };
                (Self::MemberAccept(wish), question)
            }
            _ => return None,
        };
        (confirmed != *self).then_some((confirmed, question))
    }
}

/// An absolute path as text; none for a relative one: a text has no working directory.
fn only_absolute(dir: Option<PathBuf>) -> Option<Option<String>> {
    match dir {
        Some(dir) if dir.is_relative() => None,
        dir => Some(dir.map(|dir| dir.to_string_lossy().into_owned())),
    }
}

fn of_verb(verb: Verb) -> Option<(Option<String>, Request)> {
    Some(match verb {
        Verb::Pause(of) => (of.group, Request::Pause),
        Verb::Resume(wish) => (wish.of.group, Request::Resume),
        Verb::Resync(wish) => {
            let save = only_absolute(wish.save)?;
            let request = if wish.reverse {
                let (full, last_copy) = (wish.full, wish.last_copy);
                Request::Reverse(ReverseRequest { full, confirmed: false, save, last_copy })
            } else {
                let give_up_safe_copy = wish.give_up_safe_copy;
                Request::Resync(ResyncRequest { full: wish.full, give_up_safe_copy })
            };
            (wish.of.of.group, request)
        }
        Verb::Mode { group, mode, .. } => (group, Request::Mode(ModeRequest { mode })),
        Verb::Promote(wish) => {
            let args::Promote { of, force, restore, fence, .. } = wish;
            let wish = PromoteRequest { force, confirmed: false, restore, fence };
            (of.of.group, Request::Promote(wish))
        }
        Verb::Demote(of) => (of.group, Request::Demote),
        Verb::Switch { of, force, .. } => (of.of.group, Request::Switch(SwitchRequest { force })),
        Verb::Resolve { of, discard, save, last_copy, .. } => {
            let save = only_absolute(save)?;
            let wish = ResolveRequest { discard, confirmed: false, save, last_copy };
            (of.group, Request::Resolve(wish))
        }
        Verb::Verify { verb: Verify::Start(wish) } => {
            let (group, volume) = wish.what.map_or((None, None), |it| (Some(it.group), it.volume));
            let (repair, restart) = (wish.repair, wish.restart);
            let wish = VerifyRequest { volume, repair, rate_bytes_per_second: wish.rate, restart };
            (group, Request::Verify(wish))
        }
        Verb::Verify { verb: Verify::Stop(of) } => (of.group, Request::VerifyStop),
        Verb::Member { verb: Member::Replace(of) } => {
            let (group, volume) = of.volume.and_then(|it| Some((it.group, it.volume?)))?;
            let wish = MemberReplaceRequest { volume, confirmed: false };
            (Some(group), Request::MemberReplace(wish))
        }
        Verb::Member { verb: Member::Accept(of) } => {
            let (group, volume) = of.volume.and_then(|it| Some((it.group, it.volume?)))?;
            let wish = MemberAcceptRequest { volume, confirmed: false };
            (Some(group), Request::MemberAccept(wish))
        }
        Verb::Snapshot { verb: Snapshot::Create { snapshot, here, .. } } => {
            let SnapshotName { group, name } = snapshot;
            let wish = SnapshotRequest { name, here, refresh: false };
            (group, Request::SnapshotCreate(wish))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_units::Mode;

    #[test]
    fn a_command_line_is_the_request_that_the_command_sends() {
        let promote = PromoteRequest { force: true, ..PromoteRequest::default() };
        let reverse = ReverseRequest { full: true, ..ReverseRequest::default() };
        let resolve = ResolveRequest { discard: "lyon".into(), ..ResolveRequest::default() };
        let data = || "data".to_owned();
        for (line, request) in [
            ("helio pause db", Request::Pause),
            ("helio resume db --wait", Request::Resume),
            ("helio resync db", Request::Resync(ResyncRequest::default())),
            ("helio resync db --full --reverse", Request::Reverse(reverse)),
            ("helio mode db sync", Request::Mode(ModeRequest { mode: Mode::Sync })),
            ("helio verify stop db", Request::VerifyStop),
            ("helio promote db --force", Request::Promote(promote)),
            ("helio demote db", Request::Demote),
            ("helio switch db", Request::Switch(SwitchRequest::default())),
            ("helio resolve db --discard lyon", Request::Resolve(resolve)),
            (
                "helio member replace db/data",
                Request::MemberReplace(MemberReplaceRequest { volume: data(), confirmed: false }),
            ),
            (
                "helio member accept db/data",
                Request::MemberAccept(MemberAcceptRequest { volume: data(), confirmed: false }),
            ),
        ] {
            assert_eq!(Request::of_line(line), Some(("db".to_owned(), request)), "{line}");
        }
        for line in [
            "helio status db",
            "helio pause",
            "helio member replace db",
            "helio pause db --state /elsewhere",
            "helio --host=lyon:1 pause db",
            "helio resolve db --discard lyon --save here",
            "HELIO pause db",
            "rm pause db",
            "",
        ] {
            assert_eq!(Request::of_line(line), None, "{line}");
        }
    }

    #[test]
    fn what_may_lose_data_is_confirmed_to_the_daemon_once() {
        for (line, question) in [
            ("helio promote db", "promote db nevertheless?"),
            ("helio resolve db --discard lyon", "discard what only lyon has of db?"),
            ("helio member accept db/data", "accept this copy of db/data as it is?"),
        ] {
            let (_, asked) = Request::of_line(line).expect(line);
            let (confirmed, asks) = asked.confirmed("db").expect("the daemon may ask");
            assert_eq!(asks, question);
            assert_ne!(confirmed.body(), asked.body());
            assert_eq!(confirmed.confirmed("db"), None);
        }
        assert_eq!(Request::Switch(SwitchRequest::default()).confirmed("db"), None);
    }
}
