// SPDX-License-Identifier: Apache-2.0
//! A daemon without threads and without a runtime: its owner steps the shard, and polls the control plane.
//!
//! It is the daemon that [`crate::run`] runs, assembled by the same function; the simulator runs it on machines of its own.

use crate::assembly::{Assembly, assemble, close, remove_sockets};
use crate::backend::Daemon;
use crate::control;
use crate::leave::{leave, stop_shard};
use crate::open::StateDir;
pub use crate::shard::census::{Census, Table};
pub use crate::shard::step::Serving;
use crate::shard::{Shard, Turn};
use crate::{Options, Platform, errands, released};
use anyhow::Result;
use axum::body::{Body, to_bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, Response};
use futures_util::StreamExt;
use helio_driver::{Completion, Driver};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Longest response of the control plane, in bytes.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// A running daemon.
pub struct Stepped<D: Driver> {
    shard: Shard<D>,
    control: Control,
}

/// What the shard needs to go on.
#[derive(Debug)]
pub enum Next {
    /// A completion, or the time that passes; none if only a completion helps.
    Waits(Option<Duration>),
    /// The shard has ended: cleanly, or why not. [`Control::close`] is next.
    Ended(Result<()>),
}

impl<D: Driver> Stepped<D> {
    /// Opens everything that the node needs, and begins to serve. For a caller in a tokio runtime, which is to run what is
    /// spawned there.
    ///
    /// # Errors
    /// As of [`crate::run`].
    pub fn start(options: &Options, platform: &Platform, driver: D) -> Result<Self> {
        let config = released::load(&platform.host, &options.config, &options.state)?;
        config.for_node(&options.node)?;
        let state = StateDir::open(&platform.host, &options.state)?;
        let assembly = assemble(options, config, (platform, &state), |_| Ok((driver, "stepped")))?;
        let Assembly { mut shard, backend, errands } = assembly;
        shard.begin();
        errands::begin(errands, &backend);
        let router = control::router(Arc::<Daemon>::clone(&backend));
        Ok(Self { shard, control: Control { backend, router, state: Arc::new(state) } })
    }

    /// What it runs on.
    pub fn driver(&mut self) -> &mut D {
        self.shard.driver()
    }

    /// What its shard holds now.
    pub fn census(&self) -> Census {
        self.shard.census()
    }

    /// Goes on with what has completed, and does what is due.
    pub fn turn(&mut self, completions: &mut Vec<Completion>) -> Next {
        self.shard.go_on(completions.drain(..));
        match self.shard.turn() {
            Turn::Waits(timeout) => Next::Waits(timeout),
            Turn::Ended(result) => Next::Ended(result),
        }
    }

    /// How it serves a group as primary at this moment; none if it does not.
    #[must_use]
    pub fn serving(&self, group: &str) -> Option<Serving> {
        self.shard.serving(group)
    }

    /// Whether it is primary for a group at this moment.
    #[must_use]
    pub fn is_primary(&self, group: &str) -> bool {
        self.shard.is_primary(group)
    }

    /// The way to its control plane.
    #[must_use]
    pub fn control(&self) -> Control {
        self.control.clone()
    }
}

/// The control plane of a stepped daemon.
#[derive(Clone)]
pub struct Control {
    backend: Arc<Daemon>,
    router: axum::Router,
    state: Arc<StateDir>,
}

impl Control {
    /// Sends a request to the router of the control server, without a connection. Returns the status and the body of the response.
    ///
    /// # Errors
    /// The request is not valid HTTP, or the response is longer than 64 MiB.
    pub async fn request(&self, method: &str, path: &str, body: Vec<u8>) -> Result<(u16, Vec<u8>)> {
        let response = self.respond(method, path, body).await?;
        let status = response.status().as_u16();
        Ok((status, to_bytes(response.into_body(), RESPONSE_BYTES_MAX).await?.to_vec()))
    }

    /// Sends a GET to the router, and each part of the response's body on as it comes: of the stream of events, a row each. Returns once the
    /// body has ended, or the receiver is gone.
    ///
    /// # Errors
    /// The request is not valid HTTP, or the body broke off.
    pub async fn stream(&self, path: &str, parts: mpsc::Sender<Vec<u8>>) -> Result<()> {
        let mut body = self.respond("GET", path, Vec::new()).await?.into_body().into_data_stream();
        while let Some(part) = body.next().await {
            if parts.send(part?.to_vec()).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    async fn respond(&self, method: &str, path: &str, body: Vec<u8>) -> Result<Response<Body>> {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(CONTENT_TYPE, "application/json").body(Body::from(body))?;
        let Ok(response) = TowerToHyperService::new(self.router.clone()).call(request).await;
        Ok(response)
    }

    /// Does what SIGTERM does: detaches the devices once they are not used, or once a second signal came, then stops the shard.
    ///
    /// # Errors
    /// A panic while devices are detached.
    pub async fn stop(&self, again: impl Future<Output = ()>) -> Result<()> {
        let again = async {
            again.await;
            Ok(())
        };
        leave(&self.backend, again).await?;
        stop_shard(&self.backend.shard);
        Ok(())
    }

    /// What follows the end of the shard.
    pub async fn close(&self) {
        close(&self.backend, || ()).await;
        remove_sockets(&self.state);
    }
}
