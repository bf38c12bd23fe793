// SPDX-License-Identifier: Apache-2.0
//! Why a measurement does not come about, in the operator's terms.

use crate::wire::WireError;
use helio_tls::TlsError;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Why there is no result, or only half of one.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The kernel refuses something.
    #[error("cannot {doing}: {why}; hint: {hint}")]
    System {
        /// What was to be done.
        doing: String,
        /// What it said.
        why: io::Error,
        /// What may help.
        hint: &'static str,
    },
    /// Nobody came, or nobody was there.
    #[error(
        "{whom} within {limit:?}{last}; hint: start the other end, check address and firewall, or wait longer"
    )]
    Nobody {
        /// Who did not come, and where.
        whom: String,
        /// How long it was waited.
        limit: Duration,
        /// What the last attempt said.
        last: String,
    },
    /// The other end is something else.
    #[error(
        "{peer} is not the other end of this measurement: {why}; hint: check both addresses, and use the same version of helio on both ends; then start both again"
    )]
    WrongPeer {
        /// Who.
        peer: SocketAddr,
        /// Why.
        why: WireError,
    },
    /// TLS ended the conversation.
    #[error("TLS with {peer}: {why}; hint: both ends need --own-key and --peer-key, or neither")]
    Tls {
        /// With whom.
        peer: SocketAddr,
        /// Why.
        why: TlsError,
    },
    /// The connection ended in the middle.
    #[error(
        "{peer} ended the connection while {doing}: {why}; hint: read its output, then start both again"
    )]
    Lost {
        /// Who.
        peer: SocketAddr,
        /// What was under way.
        doing: &'static str,
        /// What the kernel said.
        why: String,
    },
    /// Nothing went either way.
    #[error(
        "no data was exchanged with {peer} for {limit:?} while {doing}; hint: repair the link, then start both again"
    )]
    Stalled {
        /// Who is silent.
        peer: SocketAddr,
        /// What was under way.
        doing: &'static str,
        /// The limit that was reached.
        limit: Duration,
    },
    /// What was under way when a signal came takes too long.
    #[error(
        "{doing} with {peer} did not end within {limit:?} after the signal; hint: nothing to do, the results that were printed are valid"
    )]
    Unended {
        /// Whom it waits for.
        peer: SocketAddr,
        /// What was under way.
        doing: &'static str,
        /// How long it had.
        limit: Duration,
    },
    /// The other end is busy.
    #[error("{peer} serves another recording; hint: wait until that has ended, then try again")]
    Busy {
        /// Who.
        peer: SocketAddr,
    },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Asked(String),
    /// A signal came before the end of a measurement whose parts mean nothing.
    #[error("stopped before everything was measured; hint: start it again")]
    Stopped,
    /// A signal came before there was anything to measure.
    #[error("interrupted before a connection was there; hint: start both ends again")]
    Interrupted,
}

impl LabError {
    /// A refusal of the kernel's.
    pub(crate) fn system(
        doing: impl Into<String>,
        hint: &'static str,
    ) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |why| Self::System { doing, why, hint }
    }
}
