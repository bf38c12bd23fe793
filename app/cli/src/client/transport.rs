// SPDX-License-Identifier: Apache-2.0
//! What requests travel on: the control socket of a daemon on this host, or TLS to one elsewhere.

use super::ClientError;
use crate::args::At;
use crate::failure::failed;
use anyhow::{Error as AnyError, Result};
use helio_api::paths;
use helio_daemon::sealed::{Sealed, tls_error};
use helio_driver::Linux;
use helio_tls::{NodeKey, PeerTls, PublicKey, Purpose, TlsError};
use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// How long a daemon elsewhere may take to be reached, and to shake hands.
const REACHED_WITHIN: Duration = Duration::from_secs(10);

const KEY: &str = "name a file that `helio key new --out FILE` made";

/// A connection of any transport.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// What a request travels on.
#[derive(Clone, Debug)]
pub(super) enum Transport {
    /// The control socket in the daemon's state directory.
    Socket(PathBuf),
    /// A node's `control` address; only a holder of that key will do.
    Tls { address: String, own: PeerTls, server: PublicKey },
}

impl Transport {
    /// As the command line says.
    ///
    /// # Errors
    /// The operator's key cannot be read.
    pub(super) fn of(at: &At) -> Result<Self> {
        Ok(match &at.remote {
            Some(remote) => Self::Tls {
                address: remote.host.clone(),
                own: PeerTls::new(
                    NodeKey::load(&Linux::host(), &remote.key).map_err(failed("--key", KEY))?,
                ),
                server: remote.server_key,
            },
            None => Self::Socket(paths::control_socket(&at.state).map_err(AnyError::msg)?),
        })
    }

    /// Connects, and makes sure of who answers.
    pub(super) async fn connect(&self) -> Result<Box<dyn Stream>, ClientError> {
        match self {
            Self::Socket(path) => {
                let stream = UnixStream::connect(path).await;
                Ok(Box::new(stream.map_err(|error| self.absent(&error))?))
            }
            Self::Tls { address, own, server } => {
                let greeted = timeout(REACHED_WITHIN, async {
                    // Tries every address of the name in turn.
                    let stream = TcpStream::connect(address.as_str()).await?;
                    Sealed::connect(stream, own.dial(&[*server], Purpose::Control)).await
                });
                let late = |_| {
                    let text = format!("no response within {REACHED_WITHIN:?}");
                    Err(io::Error::new(ErrorKind::TimedOut, text))
                };
                let stream = greeted.await.unwrap_or_else(late);
                let failed = |error| self.refused(&error).unwrap_or_else(|| self.absent(&error));
                Ok(Box::new(stream.map_err(failed)?))
            }
        }
    }

    fn absent(&self, why: &io::Error) -> ClientError {
        let daemon = self.to_string();
        match why.kind() {
            ErrorKind::PermissionDenied => ClientError::Denied { daemon },
            _ => ClientError::NoDaemon { daemon, why: why.to_string() },
        }
    }

    /// What to tell where TLS ended a connection: nothing was asked then, since keys come before requests.
    pub(super) fn refused(&self, error: &(dyn Error + 'static)) -> Option<ClientError> {
        let Self::Tls { own, server, .. } = self else { return None };
        let error = tls_error(error)?;
        let (why, hint) = match error {
            TlsError::UnknownKey { key } => (
                format!("its key is {key}, but the expected key is {server}"),
                "compare with `helio key show` on that host; if it was changed, give the new one with --server-key",
            ),
            TlsError::RefusedByPeer { .. } => (
                format!("it accepts no commands from the key {}", own.public()),
                "add that key to the node's `operators`, and run `helio apply` on its host",
            ),
            TlsError::NotTls { .. } | TlsError::OtherPurpose { .. } => (
                format!("it accepts no commands there: {error}"),
                "give --host the node's `control` address",
            ),
            TlsError::NoKey
            | TlsError::NoCertificate
            | TlsError::TooLong { .. }
            | TlsError::Failed(_) => {
                (error.to_string(), "check the log of the daemon, and the network in between")
            }
        };
        Some(ClientError::Untrusted { daemon: self.to_string(), why, hint: hint.into() })
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Tls { address, .. } => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_there_and_not_allowed_are_two_things() {
        let socket = Transport::Socket("/nowhere/control.sock".into());
        let told = |kind: ErrorKind| socket.absent(&kind.into()).to_string();
        assert!(
            told(ErrorKind::NotFound).starts_with("no daemon responds on /nowhere/control.sock")
        );
        assert!(told(ErrorKind::ConnectionRefused).contains("retry: may help"));
        let denied = told(ErrorKind::PermissionDenied);
        assert!(denied.starts_with("permission denied on /nowhere/control.sock"), "{denied}");
        assert!(!denied.contains("retry:"), "{denied}");
    }
}
