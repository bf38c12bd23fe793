// SPDX-License-Identifier: Apache-2.0
//! Why something was not done.

use crate::wire;
use helio_units::{Bytes, Items, WallTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The codes of refusals.
pub mod code {
    /// No group of that name is configured here.
    pub const UNKNOWN_GROUP: &str = "unknown-group";
    /// No such path in this version of the API.
    pub const NOT_FOUND: &str = "not-found";
    /// The path is there, and does not take this method.
    pub const WRONG_METHOD: &str = "wrong-method";
    /// The request cannot be read.
    pub const BAD_REQUEST: &str = "bad-request";
    /// The request's body is longer than any request of this API.
    pub const TOO_LARGE: &str = "too-large";
    /// The request's body did not come in time.
    pub const TOO_SLOW: &str = "too-slow";
    /// As many control connections are open as there may be.
    pub const TOO_MANY_CONNECTIONS: &str = "too-many-connections";
    /// Promotion could lose writes and needs `force`; carries what is at stake.
    pub const NEEDS_FORCE: &str = "needs-force";
    /// A forced promotion needs `confirmed`; carries what is at stake.
    pub const NEEDS_CONFIRMATION: &str = "needs-confirmation";
    /// The group is configured here and not served; the error says why.
    pub const GROUP_FAILED: &str = "group-failed";
    /// The daemon failed, not the request.
    pub const INTERNAL: &str = "internal";

    /// Every code a daemon may send, with the HTTP status it travels with and what it means. A client that meets
    /// another one treats it as "refused".
    pub const ALL: [(&str, &str); 112] = [
        (BAD_REQUEST, "the request cannot be read"),
        (UNKNOWN_GROUP, "no group of that name is configured on this node"),
        ("unknown-volume", "the group has no volume of that name"),
        ("unknown-client", "the node has no NBD client with that number"),
        ("unknown-saved", "the node has no saved data of that name"),
        ("unknown-snapshot", "the group has no snapshot of that name on this node"),
        ("bad-name", "the name of the snapshot is invalid"),
        ("snapshot-exists", "the group already has a snapshot of that name"),
        ("too-many-snapshots", "the group cannot have more snapshots"),
        ("snapshot-damaged", "the before-images of the snapshot are damaged"),
        (
            "no-snapshot-space",
            "there is not enough space for before-images; the error gives the bytes",
        ),
        (NOT_FOUND, "no such path in this version of the API"),
        (WRONG_METHOD, "the path does not take this method"),
        (TOO_SLOW, "the body did not arrive in time"),
        (TOO_LARGE, "the body is longer than any request of this API"),
        (INTERNAL, "the daemon failed; its log gives the reason"),
        ("busy", "too many requests wait, or a change of role is in progress"),
        ("peer-lost", "the peer was lost while it was needed"),
        ("no-peer", "the group has only one node"),
        (TOO_MANY_CONNECTIONS, "the maximum number of control connections is open"),
        ("in-use", "NBD clients are connected, or a device is in use; the error lists the users"),
        ("stopping", "the daemon is stopping"),
        ("bad-configuration", "the configuration file is refused; the error names the line"),
        ("attached", "the volume is already attached in another way"),
        (
            "attach-failed",
            "the kernel refused to make or flush a device; the error names the cause",
        ),
        ("no-fuse", "the daemon cannot use FUSE; the error gives the reason"),
        ("no-nbd", "the daemon cannot use the kernel's NBD client; the error gives the reason"),
        ("no-ublk", "the daemon cannot use ublk; the error gives the reason"),
        ("not-attached", "the volume is not attached on this node"),
        ("bad-key", "the key of the node cannot be used, or is not the configured one"),
        ("bad-queue", "the limit of the queue is invalid"),
        ("differs", "the copies differ; reported by `helio verify start --wait` itself"),
        ("drill-failed", "the drill failed; reported by `helio drill` itself"),
        (
            "hook-refused",
            "the hook before-resync refused the resync, or the hook freeze failed, so there is no new snapshot",
        ),
        (GROUP_FAILED, "the group is not served on this node; the error gives the reason"),
        ("metadata-failed", "the group's metadata file cannot be written"),
        (NEEDS_CONFIRMATION, "confirmation is missing; `at_stake` shows what may be lost"),
        (NEEDS_FORCE, "the peer did not agree to the promotion; `at_stake` shows what may be lost"),
        ("no-safe-copy", "no consistent copy is preserved on this node"),
        ("restore-failed", "the preserved copy was not restored"),
        ("lacking", "some regions exist only on the peer"),
        ("needs-sync", "this copy is inconsistent"),
        ("no-fence", "the group has no fence hook"),
        ("not-fenced", "the fence hook did not confirm that the other node is fenced"),
        (
            "not-added",
            "a new group of the configuration file cannot be opened; the error gives the reason",
        ),
        ("not-alone", "the group has other volumes, and is released as a whole"),
        ("not-consistent", "the copy of the group on this node is not complete and consistent"),
        ("no-whole-copy", "the other node did not connect with a complete copy of its own"),
        (
            "periodic",
            "the group is in mode periodic, or cannot be: the command needs another mode or other settings",
        ),
        ("not-level", "the copies are not in sync, or did not get in sync"),
        ("not-paused", "the group is not paused"),
        ("not-primary", "this node is not primary for the group"),
        (
            "last-copy",
            "this node may have the only complete copy, or acknowledged writes that are only in its queue",
        ),
        ("not-switched", "the roles did not change; the error names the primary"),
        ("unsure", "the peer was requested to become primary and has not responded"),
        ("no-primary", "no connected node is primary"),
        ("is-primary", "this node is primary for the group"),
        ("nothing-to-resolve", "the peer does not refuse the copy of this node"),
        ("wrong-node", "the writes to discard are on the other node"),
        ("no-room", "there is not enough space to save the data; the error gives the bytes"),
        ("saved-limit", "the data to be saved exceeds `saved-limit` of the node"),
        ("not-saved", "the data to be discarded could not be saved"),
        ("not-seeding", "no disk is being shipped"),
        ("not-the-disk", "the disk in place is not the one that was shipped"),
        ("peer-has-a-copy", "the other node is already part of the group"),
        ("peer-has-a-history", "the other node has older metadata"),
        ("seeding", "a disk is being shipped to the other node"),
        ("peer-is-primary", "the other node is primary"),
        ("peer-promotes", "the other node is being promoted now"),
        ("peer-refuses", "the other node does not agree"),
        ("tracing", "a trace of the group is already being recorded"),
        ("not-tracing", "no trace of the group is being recorded"),
        ("bad-trace", "the file or the limit of the trace is invalid; the error gives the reason"),
        ("verifying", "the group is already being verified"),
        (
            "verify-stopped",
            "not everything was compared; reported by `helio verify start --wait` itself",
        ),
        ("volume-failed", "a local disk failed"),
        ("another-disk", "a volume is on another disk than before"),
        ("one-member", "the volume has only one member on this node"),
        ("one-full-member", "only one member of the volume is full on this node"),
        ("several-members", "the volume has several members on this node"),
        ("unknown-member", "the volume has no member at that path"),
        ("no-member", "the volume has no member of that number"),
        (
            "too-many-members",
            "the metadata records the maximum number of members of the volume; removed members count",
        ),
        ("member-used", "the member is full, or its copy is running"),
        ("member-unused", "the member was removed before"),
        ("member-late", "operations from before the removal of the member have not completed"),
        ("last-member", "no other member holds all of the volume"),
        ("not-full", "the member does not hold all of the volume"),
        (
            "not-whole",
            "the members do not hold what clients read: a restore or a merge is under way, or some regions are only on the peer",
        ),
        ("no-bitmap", "the metadata has no bitmap of the member"),
        (
            "no-identity",
            "the disk of a member has no identity that distinguishes it from other disks",
        ),
        (
            "same-disk",
            "the disk has the identity of another member, or is a disk of the other node",
        ),
        ("unconfigured-member", "the configuration file does not name the member"),
        (
            "obsolete-member",
            "the metadata records a member that the configuration file does not name; a restart drops it",
        ),
        ("not-durable", "the member was removed, but the flush of its disk failed"),
        ("disk-in-use", "the disk of the volume has not failed"),
        ("suspect", "a flush failed: acknowledged writes may be missing from this copy"),
        ("not-suspect", "no flush of the volume failed on this node"),
        ("leads", "this node is primary, and clients may use the volume that is rewritten"),
        ("not-rewritten", "the disk failed again, or the daemon stopped: the copy stays suspect"),
        ("better-copy", "the other node serves the volume, and this copy is rebuilt from there"),
        ("disk-refused", "the new disk cannot be used"),
        ("before-failed", "the before-image file failed"),
        ("no-descriptors", "the daemon has no descriptor left"),
        ("no-daemon", "no daemon responds; reported by `helio` itself"),
        ("denied", "this user has no permission to use the daemon; reported by `helio` itself"),
        ("untrusted", "a key is not accepted; reported by `helio` itself"),
        ("lost", "the connection to the daemon was lost; reported by `helio` itself"),
        ("slow", "no response arrived within `--timeout`; reported by `helio` itself"),
        ("timeout", "the work did not end within `--timeout`; reported by `helio --wait` itself"),
        ("which-group", "several groups, and none is named; reported by `helio` itself"),
        ("which-volume", "several volumes, and none is named; reported by `helio` itself"),
    ];

    /// The HTTP status of a request that is wrong in itself, or that the daemon failed; none for a refusal.
    #[must_use]
    pub fn status(code: &str) -> Option<u16> {
        match code {
            BAD_REQUEST => Some(400),
            UNKNOWN_GROUP | "unknown-volume" | "unknown-member" | "unknown-client"
            | "unknown-saved" | "unknown-snapshot" | NOT_FOUND => Some(404),
            WRONG_METHOD => Some(405),
            TOO_SLOW => Some(408),
            TOO_LARGE => Some(413),
            INTERNAL => Some(500),
            _ => None,
        }
    }
}

/// An error: the reason, the hint, whether to retry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApiError {
    /// The error and its cause.
    pub error: String,
    /// What to do about it.
    #[serde(default)]
    pub hint: Option<String>,
    /// Whether the same request may succeed later.
    #[serde(default)]
    pub retry: bool,
    /// One kebab-case word for programs.
    #[schemars(extend("examples" = code::ALL.map(|(code, ..)| code).as_slice()))]
    pub code: String,
    /// With [`code::NEEDS_FORCE`] and [`code::NEEDS_CONFIRMATION`]: what would be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_stake: Option<AtStake>,
    /// The node whose daemon reports the error. Commands in `hint` are for this node, except those with ` on NAME` directly
    /// behind them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

impl ApiError {
    /// A refusal that waiting does not cure.
    #[must_use]
    pub fn new(code: &str, error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            hint: Some(hint.into()),
            retry: false,
            code: code.to_owned(),
            at_stake: None,
            node: None,
        }
    }

    /// What the body of a response with an HTTP status beyond 299 reports.
    #[must_use]
    pub fn of_response(status: u16, body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_else(|_| {
            let text = format!("the daemon sent status {status} without a reason");
            Self::new(code::INTERNAL, text, "read the log of the daemon")
        })
    }

    /// A name that is omitted or not known; the hint lists those there are.
    #[must_use]
    pub fn name_one_of(code: &str, error: impl Into<String>, names: &[String]) -> Self {
        let hint = if names.is_empty() {
            "add a group to the configuration file, then run `helio apply`".to_owned()
        } else {
            format!("name one of: {}", names.join(", "))
        };
        Self::new(code, error, hint)
    }

    /// The same, reported by the daemon of that node.
    #[must_use]
    pub fn by(self, node: &str) -> Self {
        Self { node: Some(node.to_owned()), ..self }
    }

    /// An error as it is printed: what failed, then hint and retry on rows of their own. Texts of other crates have their
    /// hint in the same row, behind "; hint: ".
    #[must_use]
    pub fn read(code: &str, text: &str) -> Self {
        let (text, retry) = match text.split_once("\n  retry: ") {
            Some((text, _)) => (text, true),
            None => (text, false),
        };
        let hinted = ["\n  hint: ", "; hint: "].iter().find_map(|mark| text.split_once(mark));
        let (text, hint) =
            hinted.map_or((text, None), |(text, hint)| (text, Some(hint.to_owned())));
        Self { error: text.to_owned(), hint, retry, ..Self::new(code, "", "") }
    }

    /// The HTTP status it travels with: that of its code; of a refusal, 503 if a retry may help, else 409.
    #[must_use]
    pub fn http_status(&self) -> u16 {
        code::status(&self.code).unwrap_or(if self.retry { 503 } else { 409 })
    }
}

/// What failed, then the hint on a line of its own, then whether the same request may succeed later.
impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        if self.retry {
            f.write_str("\n  retry: may help after a while")?;
        }
        Ok(())
    }
}

impl std::error::Error for ApiError {}

/// What a forced promotion may lose: writes that the other node acknowledged and this node never received.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtStake {
    /// The other node may have continued since then, in milliseconds since 1970-01-01 UTC; absent if there was no
    /// message from it.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub since_ms: Option<WallTime>,
    /// How long ago that is.
    #[serde(default, with = "wire::seconds_or_null")]
    #[schemars(with = "Option<f64>")]
    pub seconds: Option<Duration>,
    /// Maximum bytes missing on this node at the last report of the other node, which may have continued since.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub bytes: Option<Bytes>,
    /// Writes missing on this node at the last report of the other node, without those in dirty regions.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub writes: Option<Items>,
    /// Only for `helio resolve`: why `bytes` is the size of the volumes, although fewer bytes may exist only on this node: `no-record` (no
    /// valid record shows where the copies differ), `another-disk` or `shipped-disk`. Otherwise absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Time of the last message from the other node, in milliseconds since 1970-01-01 UTC.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub last_contact_ms: Option<WallTime>,
    /// A summary as text.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_puts_its_hint_on_a_line_of_its_own() {
        let error = ApiError::new(
            code::UNKNOWN_GROUP,
            "group `dbx` is not configured on node paris",
            "name one of: db, mail",
        );
        assert_eq!(
            error.to_string(),
            "group `dbx` is not configured on node paris\n  hint: name one of: db, mail"
        );
        assert_eq!(error.http_status(), 404);
    }

    #[test]
    fn a_printed_error_is_read_as_it_was() {
        let error = ApiError { retry: true, ..ApiError::new("failed", "it is busy", "wait") };
        assert_eq!(ApiError::read("failed", &error.to_string()), error);
        let other = ApiError::read("failed", "cannot listen: in use; hint: another port");
        assert_eq!(
            (other.error.as_str(), other.hint.as_deref()),
            ("cannot listen: in use", Some("another port"))
        );
    }

    #[test]
    fn the_http_status_tells_refused_from_busy() {
        let refused = ApiError::new("needs-sync", "the image is not consistent", "run update");
        assert_eq!(refused.http_status(), 409);
        assert_eq!(ApiError { retry: true, ..refused }.http_status(), 503);
        assert_eq!(ApiError::new(code::BAD_REQUEST, "no JSON", "send JSON").http_status(), 400);
    }
}
