// SPDX-License-Identifier: Apache-2.0
//! Why a conversation ends.

use crate::PublicKey;
use rustls::{AlertDescription, CertificateError, Error};
use std::fmt;

/// Why a session cannot go on. Nothing it carried after the failure was handed out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The other end does not speak TLS.
    #[error("the other end does not speak TLS (its first byte is {first:#04x})")]
    NotTls {
        /// What it began with.
        first: u8,
    },
    /// Its key is not one of those expected.
    #[error("the key {key} is not one this node was told to trust")]
    UnknownKey {
        /// The key it showed, which it does hold.
        key: PublicKey,
    },
    /// It showed no key.
    #[error("the other end showed no key")]
    NoKey,
    /// It told us to go.
    #[error("the other end refused this node's key or certificate ({alert})")]
    RefusedByPeer {
        /// The alert's name in TLS.
        alert: String,
    },
    /// It speaks TLS, but about something else.
    #[error("the other end speaks TLS, but not for {wanted}")]
    OtherPurpose {
        /// What was to be spoken.
        wanted: &'static str,
    },
    /// Its handshake has no end.
    #[error("the handshake is longer than {bound} bytes")]
    TooLong {
        /// The bound.
        bound: usize,
    },
    /// The certificate or the record does not hold.
    #[error("TLS failed: {0}")]
    Failed(String),
}

/// A refused key, on its way through rustls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unknown(pub(crate) PublicKey);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown key {}", self.0)
    }
}

impl std::error::Error for Unknown {}

impl From<Error> for TlsError {
    fn from(error: Error) -> Self {
        match error {
            Error::InvalidCertificate(CertificateError::Other(other)) => {
                match other.0.downcast_ref::<Unknown>() {
                    Some(Unknown(key)) => Self::UnknownKey { key: *key },
                    None => Self::Failed(other.to_string()),
                }
            }
            Error::NoCertificatesPresented => Self::NoKey,
            Error::NoApplicationProtocol
            | Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
                Self::OtherPurpose { wanted: "this" }
            }
            Error::AlertReceived(alert) => Self::RefusedByPeer { alert: format!("{alert:?}") },
            other => Self::Failed(other.to_string()),
        }
    }
}
