// SPDX-License-Identifier: Apache-2.0
//! Asks a daemon over its control socket: HTTP and JSON, and nothing the API does not offer.

use helio_api::{ApiError, code};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use tokio::net::UnixStream;

/// Why nothing was learned.
#[derive(Debug)]
pub(crate) enum ClientError {
    /// No daemon answers on the socket.
    NoDaemon { socket: PathBuf, why: String },
    /// The daemon refused.
    Refused(Box<ApiError>),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoDaemon { socket, why } => write!(
                f,
                "no daemon answers on {}: {why}\n  remedy: start `helio daemon`, or name its directory with --state\n  \
                 retry: may help after a while",
                socket.display()
            ),
            Self::Refused(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for ClientError {}

/// One daemon, asked by name of its state directory.
pub(crate) struct Client {
    socket: PathBuf,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    pub(crate) fn new(state: &Path) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { socket: state.join("control.sock"), runtime })
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.call(Method::GET, path, Bytes::new())
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| self.unclear(&error))?;
        self.call(Method::POST, path, body.into())
    }

    fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, ClientError> {
        let (status, body) = self.runtime.block_on(self.exchange(method, path, body))?;
        if (200..300).contains(&status) {
            return serde_json::from_slice(&body).map_err(|error| self.unclear(&error));
        }
        let error = serde_json::from_slice(&body).unwrap_or_else(|_| {
            let text = format!("the daemon answered with status {status} and no reason");
            ApiError::new(code::INTERNAL, text, "look at the daemon's log")
        });
        Err(ClientError::Refused(Box::new(error)))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(u16, Bytes), ClientError> {
        let stream =
            UnixStream::connect(&self.socket).await.map_err(|error| self.absent(&error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.absent(&error))?;
        let driving = tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "helio")
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(|error| self.unclear(&error))?;
        let response = sender.send_request(request).await.map_err(|error| self.absent(&error))?;
        let status = response.status().as_u16();
        let body =
            response.into_body().collect().await.map_err(|error| self.absent(&error))?.to_bytes();
        driving.abort();
        Ok((status, body))
    }

    fn absent(&self, why: &dyn std::fmt::Display) -> ClientError {
        ClientError::NoDaemon { socket: self.socket.clone(), why: why.to_string() }
    }

    fn unclear(&self, why: &dyn std::fmt::Display) -> ClientError {
        let text =
            format!("the daemon on {} could not be understood: {why}", self.socket.display());
        ClientError::Refused(Box::new(ApiError::new(
            code::INTERNAL,
            text,
            "use the helio of the daemon's version",
        )))
    }
}
