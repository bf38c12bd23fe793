// SPDX-License-Identifier: Apache-2.0
//! Why something was not done.

use crate::wire;
use helio_units::{Bytes, Items, WallTime};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The codes that have a meaning of their own for a client; every other one means "refused".
pub mod code {
    /// No group of that name is configured here.
    pub const UNKNOWN_GROUP: &str = "unknown-group";
    /// No such path in this version of the API.
    pub const NOT_FOUND: &str = "not-found";
    /// The request cannot be read.
    pub const BAD_REQUEST: &str = "bad-request";
    /// Promotion could lose writes and needs `force`; carries what is at stake.
    pub const NEEDS_FORCE: &str = "needs-force";
    /// A forced promotion needs `confirmed`; carries what is at stake.
    pub const NEEDS_CONFIRMATION: &str = "needs-confirmation";
    /// The daemon failed, not the request.
    pub const INTERNAL: &str = "internal";
}

/// A refusal: the culprit, the remedy, whether to retry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApiError {
    /// What is wrong, naming the culprit.
    pub error: String,
    /// What to do about it.
    #[serde(default)]
    pub remedy: Option<String>,
    /// Whether the same request may succeed later.
    #[serde(default)]
    pub retry: bool,
    /// One kebab-case word for programs; [`code`] has those with a meaning of their own.
    pub code: String,
    /// With [`code::NEEDS_FORCE`] and [`code::NEEDS_CONFIRMATION`]: what would be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_stake: Option<AtStake>,
}

impl ApiError {
    /// A refusal that waiting does not cure.
    #[must_use]
    pub fn new(code: &str, error: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            remedy: Some(remedy.into()),
            retry: false,
            code: code.to_owned(),
            at_stake: None,
        }
    }

    /// The HTTP status it travels with: 404 for what does not exist, 400 for what cannot be read, 500 where
    /// the daemon failed, 503 where a retry may help, 409 for every other refusal.
    #[must_use]
    pub fn http_status(&self) -> u16 {
        match self.code.as_str() {
            code::UNKNOWN_GROUP | code::NOT_FOUND => 404,
            code::BAD_REQUEST => 400,
            code::INTERNAL => 500,
            _ if self.retry => 503,
            _ => 409,
        }
    }
}

/// The culprit, then the remedy on a line of its own, then whether to retry.
impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)?;
        if let Some(remedy) = &self.remedy {
            write!(f, "\n  remedy: {remedy}")?;
        }
        let retry = if self.retry { "may help after a while" } else { "will not help by itself" };
        write!(f, "\n  retry: {retry}")
    }
}

impl std::error::Error for ApiError {}

/// What a forced promotion may lose: the writes the other node answered that never arrived here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AtStake {
    /// The other node may have continued since then, in milliseconds since 1970-01-01 UTC; none where nothing
    /// was ever heard of it.
    #[serde(default, with = "wire::number_or_null")]
    pub since_ms: Option<WallTime>,
    /// How long ago that is.
    #[serde(default, with = "wire::seconds_or_null")]
    pub seconds: Option<Duration>,
    /// Bytes known to be written there and missing here; a lower bound.
    #[serde(default, with = "wire::number_or_null")]
    pub bytes: Option<Bytes>,
    /// Writes known to be made there and missing here; a lower bound.
    #[serde(default, with = "wire::number_or_null")]
    pub writes: Option<Items>,
    /// When the other node was last heard, in milliseconds since 1970-01-01 UTC.
    #[serde(default, with = "wire::number_or_null")]
    pub last_contact_ms: Option<WallTime>,
    /// All of it in a sentence or two for people.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_puts_its_remedy_on_a_line_of_its_own() {
        let error = ApiError::new(
            code::UNKNOWN_GROUP,
            "group `dbx` is not configured on node paris",
            "name one of: db, mail",
        );
        assert_eq!(
            error.to_string(),
            "group `dbx` is not configured on node paris\n  remedy: name one of: db, mail\n  \
             retry: will not help by itself"
        );
        assert_eq!(error.http_status(), 404);
    }

    #[test]
    fn the_http_status_tells_refused_from_busy() {
        let refused = ApiError::new("needs-sync", "the image is not consistent", "run update");
        assert_eq!(refused.http_status(), 409);
        assert_eq!(ApiError { retry: true, ..refused }.http_status(), 503);
        assert_eq!(ApiError::new(code::BAD_REQUEST, "no JSON", "send JSON").http_status(), 400);
    }
}
