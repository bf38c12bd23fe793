// SPDX-License-Identifier: Apache-2.0
//! Sessions between those who know each other's keys.

use crate::error::Unknown;
use crate::{NodeKey, PROVIDER, PublicKey, Session};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName,
    Error, OtherError, ServerConfig, ServerConnection, SignatureScheme,
};
use std::sync::Arc;
use std::time::Duration;

/// What a session is for. Both ends must mean the same, so that a key trusted for one is of no use for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Replication between two nodes.
    Peer,
    /// An operator's commands to a node.
    Control,
    /// Measuring a link.
    Lab,
}

impl Purpose {
    /// The protocol's name in the handshake (RFC 7301).
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Peer => "heliograph-peer/1",
            Self::Control => "heliograph-control/1",
            Self::Lab => "heliograph-lab/1",
        }
    }
}

/// Makes the sessions of one key's holder.
#[derive(Clone, Debug)]
pub struct PeerTls {
    key: NodeKey,
}

impl PeerTls {
    /// For whoever holds the key.
    #[must_use]
    pub const fn new(key: NodeKey) -> Self {
        Self { key }
    }

    /// The half of the key that others know.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.key.public()
    }

    /// Begins a session with somebody called; only a holder of one of `expected` will do.
    ///
    /// # Panics
    /// Never: what could fail is fixed when the program is built.
    #[must_use]
    pub fn dial(&self, expected: &[PublicKey], purpose: Purpose) -> Session {
        let resolver = AlwaysResolvesClientRawPublicKeys::new(self.key.certified());
        let mut config =
            ClientConfig::builder_with_details(Arc::clone(&PROVIDER), Arc::new(NoClock))
                .with_protocol_versions(&[&TLS13])
                .unwrap_or_else(|error| panic!("the provider has no TLS 1.3: {error}"))
                .dangerous()
                .with_custom_certificate_verifier(Pinned::to(expected))
                .with_client_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![purpose.name().into()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        // Keys have no names; the field must hold something.
        let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
        let connection = ClientConnection::new(Arc::new(config), name)
            .unwrap_or_else(|error| panic!("a session cannot start: {error}"));
        Session::new(connection.into(), Some(purpose))
    }

    /// Begins a session with somebody who called; only a holder of one of `trusted` will do.
    ///
    /// # Panics
    /// Never: what could fail is fixed when the program is built.
    #[must_use]
    pub fn accept(&self, trusted: &[PublicKey], purpose: Purpose) -> Session {
        let resolver = AlwaysResolvesServerRawPublicKeys::new(self.key.certified());
        let mut config =
            ServerConfig::builder_with_details(Arc::clone(&PROVIDER), Arc::new(NoClock))
                .with_protocol_versions(&[&TLS13])
                .unwrap_or_else(|error| panic!("the provider has no TLS 1.3: {error}"))
                .with_client_cert_verifier(Pinned::to(trusted))
                .with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![purpose.name().into()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let connection = ServerConnection::new(Arc::new(config))
            .unwrap_or_else(|error| panic!("a session cannot start: {error}"));
        Session::new(connection.into(), Some(purpose))
    }
}

/// Keys do not expire, so a session between their holders reads no clock. The library requires some time.
#[derive(Debug)]
struct NoClock;

impl TimeProvider for NoClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::ZERO))
    }
}

/// Accepts certain keys and nothing else.
#[derive(Debug)]
struct Pinned {
    keys: Vec<PublicKey>,
}

impl Pinned {
    fn to(keys: &[PublicKey]) -> Arc<Self> {
        Arc::new(Self { keys: keys.to_vec() })
    }

    fn check(&self, shown: &CertificateDer<'_>, more: &[CertificateDer<'_>]) -> Result<(), Error> {
        let bad = |kind| Err(Error::InvalidCertificate(kind));
        let Some(key) = PublicKey::from_spki(shown).filter(|_| more.is_empty()) else {
            return bad(CertificateError::BadEncoding);
        };
        if self.keys.contains(&key) {
            return Ok(());
        }
        bad(CertificateError::Other(OtherError(Arc::new(Unknown(key)))))
    }
}

/// That the other end holds the key it showed.
fn holds(
    message: &[u8],
    shown: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
    verify_tls13_signature_with_raw_key(message, &key, signed, &ed25519())
}

/// The one kind of signature between keys.
fn ed25519() -> WebPkiSupportedAlgorithms {
    let mapping = PROVIDER.signature_verification_algorithms.mapping;
    let at = mapping.iter().position(|(scheme, _)| *scheme == SignatureScheme::ED25519);
    let at = at.expect("the library verifies Ed25519");
    WebPkiSupportedAlgorithms { all: mapping[at].1, mapping: &mapping[at..=at] }
}

fn never_before_13() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::General("only TLS 1.3 is supported".into()))
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(shown, more).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        never_before_13()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        holds(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(shown, more).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        never_before_13()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        holds(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
