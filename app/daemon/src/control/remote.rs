// SPDX-License-Identifier: Apache-2.0
//! Control connections from elsewhere: over TLS, from operators whose keys the configuration names, and from nobody
//! else. Not a byte of HTTP is read from a stranger, and one who is trusted no more is heard no more.

use super::refusals::Refusals;
use super::{Listener, Places};
use crate::patience::once_let_go;
use crate::sealed::{Refused, Sealed};
use crate::trust::Trusted;
use anyhow::{Result, anyhow};
use helio_driver::{Linux, end_the_vanished};
use helio_tls::{PublicKey, Purpose};
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Handshakes at once.
const HANDSHAKES_MOST: usize = 16;

/// The listener of a node's `control` address.
pub(crate) struct Remote {
    listener: TcpListener,
    trusted: watch::Receiver<Trusted>,
    handshakes: Places,
    refusals: Arc<Refusals>,
}

/// What the operator reads if nothing can listen there.
pub(crate) fn refused(address: SocketAddr, error: &io::Error) -> anyhow::Error {
    anyhow!(
        "the control address {address} cannot be used: {error}\n  hint: stop the process that uses it, or change the \
         node's `control`"
    )
}

impl Remote {
    /// Listens.
    pub(crate) async fn bind(
        address: SocketAddr,
        trusted: watch::Receiver<Trusted>,
    ) -> Result<Self> {
        // A check binds it for a moment.
        let in_use = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
        let bound = once_let_go(&Linux::host(), || std::net::TcpListener::bind(address), in_use);
        let listener = bound.and_then(|listener| {
            listener.set_nonblocking(true)?;
            end_the_vanished(&listener)?;
            TcpListener::from_std(listener)
        });
        let listener = listener.map_err(|error| refused(address, &error))?;
        let refusals = Arc::new(Refusals::new());
        Ok(Self { listener, trusted, handshakes: Places::new(HANDSHAKES_MOST), refusals })
    }
}

impl Listener for Remote {
    type Stream = Operator;
    type Greeting = Pin<Box<dyn Future<Output = io::Result<Operator>> + Send>>;

    async fn accept(&mut self) -> io::Result<Self::Greeting> {
        let (stream, from) = self.listener.accept().await?;
        let (taken_back, trusted) = (self.handshakes.take(), self.trusted.clone());
        let refusals = Arc::clone(&self.refusals);
        Ok(Box::pin(async move {
            tokio::select! {
                greeted = greet((stream, from), trusted, &refusals) => greeted,
                _ = taken_back => Err(io::Error::other("a newer connection replaced it")),
            }
        }))
    }
}

/// Shakes hands. One who is refused is told why, which lasts no longer than the handshake may.
async fn greet(
    (stream, from): (TcpStream, SocketAddr),
    trusted: watch::Receiver<Trusted>,
    refusals: &Refusals,
) -> io::Result<Operator> {
    let session = {
        let trusted = trusted.borrow();
        let own = trusted.own.as_ref();
        let own = own.ok_or_else(|| io::Error::other("this node has no key"))?;
        own.accept(&trusted.operators, Purpose::Control)
    };
    match Sealed::accept(stream, session).await {
        Ok(stream) => {
            let key = stream.peer_key();
            let key = key.ok_or_else(|| io::Error::other("the client showed no key"))?;
            tracing::debug!(%from, %key, "an operator is connected");
            Ok(Operator { stream, key, trusted })
        }
        Err(Refused { error, parting }) => {
            refusals.refused(Some(from), &error.to_string());
            parting.end().await;
            Err(error)
        }
    }
}

/// A connection of an operator, of use for as long as the key is trusted.
pub(crate) struct Operator {
    stream: Sealed<TcpStream>,
    key: PublicKey,
    trusted: watch::Receiver<Trusted>,
}

impl Operator {
    fn stream(&mut self) -> io::Result<Pin<&mut Sealed<TcpStream>>> {
        if self.trusted.borrow().operators.contains(&self.key) {
            return Ok(Pin::new(&mut self.stream));
        }
        let text = format!("the key {} is no longer accepted", self.key);
        Err(io::Error::new(ErrorKind::PermissionDenied, text))
    }
}

impl AsyncRead for Operator {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream()?.poll_read(context, into)
    }
}

impl AsyncWrite for Operator {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
