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
    pub const ALL: [(&str, u16, &str); 84] = [
        (BAD_REQUEST, 400, "the request cannot be read"),
        (UNKNOWN_GROUP, 404, "no group of that name is configured on this node"),
        ("unknown-volume", 404, "the group has no volume of that name"),
        ("unknown-saved", 404, "the node has no saved data of that name"),
        (NOT_FOUND, 404, "no such path in this version of the API"),
        (WRONG_METHOD, 405, "the path does not take this method"),
        (TOO_SLOW, 408, "the body did not arrive in time"),
        (TOO_LARGE, 413, "the body is longer than any request of this API"),
        (INTERNAL, 500, "the daemon failed; its log gives the reason"),
        ("busy", 503, "too many requests wait, or a change of role is in progress"),
        ("peer-lost", 503, "the peer was lost while it was needed"),
        (TOO_MANY_CONNECTIONS, 503, "the maximum number of control connections is open"),
        (
            "in-use",
            503,
            "NBD clients are connected, or a device is in use; the error lists the users",
        ),
        ("stopping", 503, "the daemon is stopping"),
        ("bad-configuration", 409, "the configuration file is refused; the error names the line"),
        ("attached", 409, "the volume is already attached in another way"),
        ("attach-failed", 409, "the kernel refused to make a device; the error names the cause"),
        ("no-fuse", 409, "the daemon cannot use FUSE; the error gives the reason"),
        (
            "no-nbd",
            409,
            "the daemon cannot use the kernel's NBD client; the error gives the reason",
        ),
        ("no-ublk", 409, "the daemon cannot use ublk; the error gives the reason"),
        ("not-attached", 409, "the volume is not attached on this node"),
        ("bad-key", 409, "the key of the node cannot be used, or is not the configured one"),
        ("bad-queue", 409, "the limit of the queue is invalid"),
        ("differs", 409, "the copies differ; reported by `helio verify start --wait` itself"),
        ("hook-refused", 409, "the hook before-resync refused the resync"),
        (GROUP_FAILED, 409, "the group is not served on this node; the error gives the reason"),
        ("metadata-failed", 409, "the group's metadata file cannot be written"),
        (NEEDS_CONFIRMATION, 409, "confirmation is missing; `at_stake` shows what may be lost"),
        (
            NEEDS_FORCE,
            409,
            "the peer did not agree to the promotion; `at_stake` shows what may be lost",
        ),
        ("no-safe-copy", 409, "no consistent copy is preserved on this node"),
        ("restore-failed", 409, "the preserved copy was not restored"),
        ("lacking", 409, "this node lacks regions that only its peer has"),
        ("needs-sync", 409, "this copy is inconsistent"),
        ("no-fence", 409, "the group has no fence hook"),
        ("not-fenced", 409, "the fence hook did not confirm that the other node is fenced"),
        (
            "not-added",
            409,
            "a new group of the configuration file cannot be opened; the error gives the reason",
        ),
        ("not-alone", 409, "the group has other volumes, and is released as a whole"),
        (
            "not-consistent",
            409,
            "the copy of the group on this node is not complete and consistent",
        ),
        ("diverged", 409, "this node may have writes that the other node never received"),
        ("no-whole-copy", 409, "the other node did not connect with a complete copy of its own"),
        ("not-level", 409, "the copies are not in sync, or did not get in sync"),
        ("not-paused", 409, "the group is not paused"),
        ("not-primary", 409, "this node is not primary for the group"),
        ("last-copy", 409, "acknowledged writes may exist only in the queue of this node"),
        ("not-switched", 409, "the roles did not change; the error names the primary"),
        ("unsure", 409, "the peer was requested to become primary and has not responded"),
        ("no-primary", 409, "no connected node is primary"),
        ("is-primary", 409, "this node is primary for the group"),
        ("nothing-to-resolve", 409, "the peer does not refuse the copy of this node"),
        ("wrong-node", 409, "the writes to discard are on the other node"),
        ("no-room", 409, "there is not enough space to save the data; the error gives the bytes"),
        ("saved-limit", 409, "the data to be saved exceeds `saved-limit` of the node"),
        ("not-saved", 409, "the data to be discarded could not be saved"),
        ("not-seeding", 409, "no disk is being shipped"),
        ("not-the-disk", 409, "the disk in place is not the one that was shipped"),
        ("peer-has-a-copy", 409, "the other node is already part of the group"),
        ("peer-has-a-history", 409, "the other node has older metadata"),
        ("seeding", 409, "a disk is being shipped to the other node"),
        ("peer-is-primary", 409, "the other node is primary"),
        ("peer-refuses", 409, "the other node does not agree"),
        ("tracing", 409, "a trace of the group is already being recorded"),
        ("not-tracing", 409, "no trace of the group is being recorded"),
        (
            "bad-trace",
            409,
            "the file or the limit of the trace is invalid; the error gives the reason",
        ),
        ("verifying", 409, "the group is already being verified"),
        (
            "verify-stopped",
            409,
            "not everything was compared; reported by `helio verify start --wait` itself",
        ),
        ("volume-failed", 409, "a local disk failed"),
        ("another-disk", 409, "a volume is on another disk than before"),
        ("disk-in-use", 409, "the disk of the volume has not failed"),
        ("suspect", 409, "a flush failed: acknowledged writes may be missing from this copy"),
        ("not-suspect", 409, "no flush of the volume failed on this node"),
        ("leads", 409, "this node is primary, and clients may use the volume that is rewritten"),
        (
            "not-rewritten",
            409,
            "the disk failed again, or the daemon stopped: the copy stays suspect",
        ),
        (
            "better-copy",
            409,
            "the other node serves the volume, and this copy is rebuilt from there",
        ),
        ("disk-refused", 409, "the new disk cannot be used"),
        ("before-failed", 409, "the before-image file failed"),
        ("no-descriptors", 503, "the daemon has no descriptor left"),
        ("no-daemon", 503, "no daemon responds; reported by `helio` itself"),
        (
            "denied",
            409,
            "this user has no permission to use the daemon; reported by `helio` itself",
        ),
        ("untrusted", 409, "a key is not accepted; reported by `helio` itself"),
        ("lost", 503, "the connection to the daemon was lost; reported by `helio` itself"),
        ("slow", 503, "no response arrived within `--timeout`; reported by `helio` itself"),
        (
            "timeout",
            503,
            "the work did not end within `--timeout`; reported by `helio --wait` itself",
        ),
        ("which-group", 409, "several groups, and none is named; reported by `helio` itself"),
        ("which-volume", 409, "several volumes, and none is named; reported by `helio` itself"),
    ];
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

    /// The HTTP status it travels with: as [`code::ALL`] says, but 503 for every refusal that a retry may cure.
    #[must_use]
    pub fn http_status(&self) -> u16 {
        let known = code::ALL.iter().find(|(code, ..)| *code == self.code);
        match known.map_or(409, |(_, status, _)| *status) {
            409 if self.retry => 503,
            status => status,
        }
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
