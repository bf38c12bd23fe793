// SPDX-License-Identifier: Apache-2.0
//! Accepting control connections and speaking HTTP on them, within bounds that no client can pass: so many at once, so
//! long to ask, so long to read the answer.

use super::Refused;
use super::patience::Patient;
use super::refusals::Refusals;
use axum::Router;
use helio_api::{ApiError, code};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::{Future, Ready, pending, ready};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

/// After a failure to accept, for want of descriptors say, that long: at once it would only fail again.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// How many of those beyond the bound are told so at once; any more are hung up on.
const REFUSALS_MOST: usize = 8;
/// How long one of those may take to ask and hear it.
const REFUSAL_WITHIN: Duration = Duration::from_secs(1);

/// The bounds of a control server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// How long the stream's own handshake, and then each request's head, may take to come; an idle connection is
    /// closed after it too.
    pub head_within: Duration,
    /// How long a write may wait for the client to read.
    pub write_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            head_within: Duration::from_secs(10),
            write_within: Duration::from_secs(10),
        }
    }
}

/// Where control connections come from. It lets in only those who may ask everything.
pub trait Listener: Send + 'static {
    /// What HTTP is spoken on.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// Makes an accepted connection such a stream: a TLS handshake, say. It runs beside the accepting of others and
    /// is given [`Limits::head_within`].
    type Greeting: Future<Output = io::Result<Self::Stream>> + Send + 'static;

    /// The next connection.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Greeting>> + Send;
}

/// The socket's mode let its owner in, and nobody else.
impl Listener for UnixListener {
    type Stream = UnixStream;
    type Greeting = Ready<io::Result<UnixStream>>;

    async fn accept(&mut self) -> io::Result<Self::Greeting> {
        let (stream, _nameless) = UnixListener::accept(self).await?;
        Ok(ready(Ok(stream)))
    }
}

/// Serves until `stop` says so or its sender is gone; then what is being answered is answered to its end, which the
/// caller bounds. A listener's failure is logged and waited out.
pub async fn serve<L: Listener>(
    mut listener: L,
    app: Router,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let refusals = Arc::new(Semaphore::new(REFUSALS_MOST));
    let log = Refusals::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = told_to_stop(&mut stop) => break,
        };
        let greeting = match accepted {
            Ok(greeting) => greeting,
            Err(error) => {
                log.not_accepted(&error.to_string());
                let _passed = timeout(ACCEPT_PAUSE, pending::<()>()).await;
                continue;
            }
        };
        if places.available_permits() == 0 {
            // A connection that a newer one replaced gives its place back as soon as it runs.
            tokio::task::yield_now().await;
        }
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            tokio::spawn(converse(greeting, app.clone(), limits, place, stop.clone()));
        } else if let Ok(place) = Arc::clone(&refusals).try_acquire_owned() {
            log.refused(None, &format!("{} connections are already open", limits.connections));
            let app = full(limits.connections);
            let told = converse(greeting, app, limits, place, stop.clone());
            tokio::spawn(timeout(REFUSAL_WITHIN, told));
        }
    }
    // Every place comes back when its conversation is over.
    let _all = places.acquire_many(limits.connections as u32).await;
}

/// Waits for the word to stop; a sender that is gone says it too.
async fn told_to_stop(stop: &mut watch::Receiver<bool>) {
    let _told_or_gone = stop.wait_for(|stop| *stop).await;
}

/// One connection, to its end.
async fn converse<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    greeting: impl Future<Output = io::Result<S>>,
    app: Router,
    limits: Limits,
    _place: OwnedSemaphorePermit,
    mut stop: watch::Receiver<bool>,
) {
    let stream = match timeout(limits.head_within, greeting).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a control connection failed");
            return;
        }
        Err(_) => return,
    };
    let stream = TokioIo::new(Patient::new(stream, limits.write_within));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_within)
        .serve_connection(stream, TowerToHyperService::new(app));
    let mut connection = std::pin::pin!(connection);
    let early = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = told_to_stop(&mut stop) => None,
    };
    let ended = match early {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a control connection ended early");
    }
}

/// What is told to those for whom there is no place.
fn full(most: usize) -> Router {
    Router::new().fallback(async move || {
        Refused(ApiError {
            retry: true,
            ..ApiError::new(
                code::TOO_MANY_CONNECTIONS,
                format!("{most} control connections are already open"),
                "end some, such as `helio events` or `helio status --watch`",
            )
        })
    })
}
