// SPDX-License-Identifier: Apache-2.0
//! Why a conversation ends.

use crate::{PublicKey, Purpose};
use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};
use std::fmt;

/// Why a session cannot go on. Nothing it carried after the failure was handed out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The other end does not speak TLS.
    #[error("the other end does not use TLS (its first byte is {first:#04x})")]
    NotTls {
        /// What it began with.
        first: u8,
    },
    /// Its key is not one of those expected.
    #[error("the key {key} is not configured on this node")]
    UnknownKey {
        /// The key it showed, which it does hold.
        key: PublicKey,
    },
    /// It showed no key.
    #[error("the other end showed no key: it is not a configured node or operator, or has no key")]
    NoKey,
    /// A client showed no certificate to a server that asks for one.
    #[error("the client showed no certificate, and one is required here")]
    NoCertificate,
    /// It told us to go.
    #[error("the other end refused: {alert}")]
    RefusedByPeer {
        /// What its alert means; the alert's name in TLS where that is all there is to say.
        alert: String,
    },
    /// It speaks TLS, but about something else.
    #[error(
        "the other end uses TLS, but not {wanted}: it used the wrong port, or has another version"
    )]
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

impl TlsError {
    /// The library's error, in words for this end of a session: one between keys has a purpose, one with
    /// certificates none.
    pub(crate) fn explain(error: Error, purpose: Option<Purpose>) -> Self {
        match (error, purpose) {
            (Error::InvalidCertificate(why), _) => certificate(&why),
            (
                Error::NoCertificatesPresented
                | Error::PeerIncompatible(PeerIncompatible::IncorrectCertificateTypeExtension),
                Some(_),
            ) => Self::NoKey,
            (Error::NoCertificatesPresented, None) => Self::NoCertificate,
            (
                Error::NoApplicationProtocol
                | Error::AlertReceived(AlertDescription::NoApplicationProtocol),
                Some(purpose),
            ) => Self::OtherPurpose { wanted: purpose.name() },
            (Error::AlertReceived(alert), purpose) => {
                Self::RefusedByPeer { alert: meaning(alert, purpose.is_some()) }
            }
            (Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon), None) => {
                Self::Failed(
                    "the client offers no ECDHE cipher suite with AES-GCM or ChaCha20-Poly1305"
                        .to_owned(),
                )
            }
            (
                Error::PeerIncompatible(
                    PeerIncompatible::Tls12NotOffered
                    | PeerIncompatible::Tls12NotOfferedOrEnabled
                    | PeerIncompatible::SupportedVersionsExtensionRequired
                    | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
                    | PeerIncompatible::ServerDoesNotSupportTls12Or13,
                ),
                purpose,
            ) => Self::Failed(format!("the other end does not support {}", versions(purpose))),
            (other, _) => Self::Failed(other.to_string()),
        }
    }
}

/// The versions that this end of a session speaks.
fn versions(purpose: Option<Purpose>) -> &'static str {
    match purpose {
        Some(_) => "TLS 1.3",
        None => "TLS 1.3 or 1.2",
    }
}

fn certificate(why: &CertificateError) -> TlsError {
    if let CertificateError::Other(other) = why
        && let Some(Unknown(key)) = other.0.downcast_ref::<Unknown>()
    {
        return TlsError::UnknownKey { key: *key };
    }
    let told = match why {
        CertificateError::UnknownIssuer => "is from another authority than expected",
        CertificateError::BadSignature => {
            "has a wrong signature: it is from another authority of the same name, or it is damaged"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "has expired; renew it, or set this host's clock"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet; set the clocks of both hosts"
        }
        other => return TlsError::Failed(other.to_string()),
    };
    TlsError::Failed(format!("the other end's certificate {told}"))
}

/// What the other end means by an alert, as far as an operator can act on it.
fn meaning(alert: AlertDescription, by_key: bool) -> String {
    use AlertDescription as Alert;
    let told = match (alert, by_key) {
        (Alert::CertificateUnknown, true) => "this end's key is not configured there",
        (Alert::HandshakeFailure, true) => "it identifies others by certificate and not by key",
        (Alert::CertificateRequired, _) => "it requires a certificate",
        (Alert::CertificateExpired, _) => {
            "this end's certificate is not valid at the time of the other host; renew it, or set the clocks"
        }
        (Alert::UnknownCA, _) => {
            "this end's certificate is from an authority that is unknown there"
        }
        (Alert::DecryptError, _) => "it rejects a signature of this end",
        (
            Alert::BadCertificate | Alert::UnsupportedCertificate | Alert::CertificateUnknown,
            false,
        ) => "it rejects this end's certificate",
        (Alert::ProtocolVersion, true) => "it does not support TLS 1.3",
        (Alert::ProtocolVersion, false) => "it does not support TLS 1.3 or 1.2",
        (other, _) => return format!("alert {other:?}"),
    };
    told.to_owned()
}
