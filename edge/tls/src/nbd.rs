// SPDX-License-Identifier: Apache-2.0
//! Sessions with NBD clients, by certificate: TLS 1.3, and TLS 1.2 for clients that have nothing newer. The library has no
//! suites for 1.2 but ECDHE with an AEAD cipher, and never renegotiates; a test holds it to that.

use crate::files::{FileError, read, read_private};
use crate::{PROVIDER, Session};
use helio_driver::Host;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, Error, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The versions served to NBD clients, and to nobody else.
const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

/// A server's certificate and whom it asks for one.
#[derive(Clone, Debug)]
pub struct NbdTls {
    config: Arc<ServerConfig>,
}

impl NbdTls {
    /// Reads the server's chain and key, and, where clients must show certificates, the authority that signs those.
    ///
    /// # Errors
    /// A file cannot be read, holds something else, or does not fit the others; or others may read the key.
    pub fn load(
        host: &Host,
        chain: &Path,
        key: &Path,
        client_ca: Option<&Path>,
    ) -> Result<Self, FileError> {
        let builder = ServerConfig::builder_with_details(Arc::clone(&PROVIDER), Calendar::of(host))
            .with_protocol_versions(&VERSIONS)
            .map_err(|error| FileError::new(chain, error.to_string(), "report this"))?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(roots(host, path)?);
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&PROVIDER))
                        .build()
                        .map_err(|e| FileError::new(path, e.to_string(), "name a CA's file"))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(certificates(host, chain)?, private(host, key)?)
            .map_err(|error| unusable(&error, chain, key))?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config) })
    }

    /// Begins a session with a client that called.
    ///
    /// # Panics
    /// Never: what could fail failed in [`NbdTls::load`].
    #[must_use]
    pub fn accept(&self) -> Session {
        let connection = ServerConnection::new(Arc::clone(&self.config))
            .unwrap_or_else(|error| panic!("a session cannot start: {error}"));
        Session::new(connection.into(), None)
    }
}

/// A client's end, for what tests a server.
#[derive(Clone, Debug)]
pub struct NbdClientTls {
    config: Arc<ClientConfig>,
}

impl NbdClientTls {
    /// Trusts servers the authority signed; shows a certificate where there is one to show.
    ///
    /// # Errors
    /// As [`NbdTls::load`].
    pub fn load(host: &Host, ca: &Path, own: Option<(&Path, &Path)>) -> Result<Self, FileError> {
        let builder = ClientConfig::builder_with_details(Arc::clone(&PROVIDER), Calendar::of(host))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| FileError::new(ca, error.to_string(), "report this"))?
            .with_root_certificates(roots(host, ca)?);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(certificates(host, chain)?, private(host, key)?)
                .map_err(|error| unusable(&error, chain, key))?,
        };
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config) })
    }

    /// Begins a session with a server known by that name or address; `None` where it is neither.
    #[must_use]
    pub fn connect(&self, server: &str) -> Option<Session> {
        let name = ServerName::try_from(server.to_owned()).ok()?;
        let connection = ClientConnection::new(Arc::clone(&self.config), name).ok()?;
        Some(Session::new(connection.into(), None))
    }
}

/// The calendar that certificates are checked by.
struct Calendar(Host);

impl Calendar {
    fn of(host: &Host) -> Arc<Self> {
        Arc::new(Self(Host::clone(host)))
    }
}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Calendar")
    }
}

impl TimeProvider for Calendar {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(self.0.calendar()))
    }
}

fn certificates(host: &Host, path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let bytes = read(host, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(FileError::new(path, "no certificate in it", "name a PEM file")),
        Err(error) => Err(FileError::new(path, error.to_string(), "name a PEM file")),
    }
}

fn private(host: &Host, path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    let bytes = read_private(host, path)?;
    PrivateKeyDer::from_pem_slice(&bytes)
        .map_err(|error| FileError::new(path, error.to_string(), "name a private key in PEM"))
}

fn roots(host: &Host, path: &Path) -> Result<RootCertStore, FileError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(host, path)? {
        roots
            .add(certificate)
            .map_err(|error| FileError::new(path, error.to_string(), "name a CA's file"))?;
    }
    Ok(roots)
}

/// A chain and a key that were read and are of no use together.
fn unusable(error: &Error, chain: &Path, key: &Path) -> FileError {
    match error {
        Error::InconsistentKeys(_) => {
            let why = format!("not the key of the certificate in {}", chain.display());
            FileError::new(key, why, "name the certificate's own key")
        }
        Error::InvalidCertificate(_) => {
            FileError::new(chain, error.to_string(), "name an X.509 certificate of version 3")
        }
        _ => {
            let hint = "use a key of ECDSA on P-256 or P-384, of Ed25519, or of RSA with 2048 bits or more";
            FileError::new(key, error.to_string(), hint)
        }
    }
}
