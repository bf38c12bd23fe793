// SPDX-License-Identifier: Apache-2.0
//! Asks a daemon: HTTP and JSON, and nothing the API does not offer. What the bytes travel on is a [`Transport`].
//!
//! Where nothing was learned, the error says which of three things happened: nothing was asked (no daemon, no
//! permission), nobody knows whether it was done (the connection or the time was lost), or it was refused.

mod transport;

use crate::args::At;
use helio_api::{ApiError, code};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::time::timeout;
use transport::Transport;

/// A stream of events is silent no longer than this while it lives: three of the daemon's signs of life.
const SILENT_MOST: Duration = Duration::from_secs(30);
/// The longest line of a stream. An event has about 20 fields.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The longest response; a thousand groups have about 5 MB.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// Why nothing was learned.
#[derive(Debug)]
pub(crate) enum ClientError {
    /// No daemon answers there; nothing was asked.
    NoDaemon { daemon: String, why: String },
    /// This user may not ask it; nothing was asked.
    Denied { daemon: String },
    /// What answers there is not what was asked for, or refuses our key; nothing was asked.
    Untrusted { daemon: String, why: String, hint: String },
    /// The connection was lost after the request was on its way.
    Lost { daemon: String, asked: String, why: String, hint: String },
    /// The answer did not come in time.
    Slow { daemon: String, asked: String, within: Duration },
    /// `--timeout` ended a `--wait`; the daemon continues.
    Over { what: String, within: Duration, hint: String },
    /// The daemon refused.
    Refused(Box<ApiError>),
}

impl ClientError {
    /// What failed, the hint, whether to retry, and the code for programs.
    pub(crate) fn report(&self) -> ApiError {
        let retry =
            |code, text, hint: &str| ApiError { retry: true, ..ApiError::new(code, text, hint) };
        match self {
            Self::NoDaemon { daemon, why } => retry(
                "no-daemon",
                format!("no daemon responds on {daemon}: {why}"),
                "start `helio daemon --node NAME`, or name its directory with --state, or its node's `control` address with --host",
            ),
            Self::Denied { daemon } => ApiError::new(
                "denied",
                format!("permission denied on {daemon}"),
                "repeat the command with sudo, or as the user that the daemon runs as",
            ),
            Self::Untrusted { daemon, why, hint } => {
                ApiError::new("untrusted", format!("{daemon}: {why}"), hint)
            }
            Self::Lost { daemon, asked, why, hint } => retry(
                "lost",
                format!("the connection to {daemon} was lost during {asked}: {why}"),
                hint,
            ),
            Self::Slow { daemon, asked, within } => retry(
                "slow",
                format!(
                    "{daemon} did not respond to {asked} within {within:?}; it may still be done"
                ),
                "`helio status` shows whether it was done; allow more time with --timeout",
            ),
            Self::Over { what, within, hint } => retry(
                "timeout",
                format!("{what} did not end within {within:?}, and continues"),
                hint,
            ),
            Self::Refused(error) => ApiError::clone(error),
        }
    }
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.report().fmt(f)
    }
}

impl std::error::Error for ClientError {}

/// One daemon, asked from a thread that waits.
pub(crate) struct Client {
    caller: Caller,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    pub(crate) fn new(at: &At) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { caller: Caller::new(at)?, runtime })
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.call(Method::GET, path, Bytes::new())
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| self.caller.unclear(&error))?;
        self.call(Method::POST, path, body.into())
    }

    /// Reads a stream of JSON objects, a line each, until it ends or `take` has enough and says false. A stream that
    /// breaks off is [`ClientError::Lost`].
    pub(crate) fn lines<T: DeserializeOwned>(
        &self,
        path: &str,
        take: impl FnMut(T) -> bool,
    ) -> Result<(), ClientError> {
        self.runtime.block_on(self.caller.lines(path, take))
    }

    fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, ClientError> {
        let (status, body) = self.runtime.block_on(self.caller.call(method, path, body))?;
        if (200..300).contains(&status) {
            return serde_json::from_slice(&body).map_err(|error| self.caller.unclear(&error));
        }
        Err(self.caller.refused(status, &body))
    }
}

/// One daemon, asked from a runtime.
pub(crate) struct Caller {
    transport: Transport,
    /// How long one request may take, connection and all.
    within: Duration,
}

impl Caller {
    pub(crate) fn new(at: &At) -> anyhow::Result<Self> {
        Ok(Self { transport: Transport::of(at)?, within: at.response() })
    }

    /// Where it is asked.
    pub(crate) fn place(&self) -> String {
        self.transport.to_string()
    }

    /// The HTTP status and the body of a response.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(u16, Bytes), ClientError> {
        let asked = format!("{method} {path}");
        let exchange = async {
            let response = self.open(method, path, body).await?;
            let status = response.status().as_u16();
            Ok((status, self.whole(response.into_body(), &asked).await?))
        };
        self.in_time(self.within, &asked, exchange).await
    }

    /// As [`Client::lines`].
    pub(crate) async fn lines<T: DeserializeOwned>(
        &self,
        path: &str,
        mut take: impl FnMut(T) -> bool,
    ) -> Result<(), ClientError> {
        let asked = format!("GET {path}");
        let opened = self.open(Method::GET, path, Bytes::new());
        let response = self.in_time(self.within, &asked, opened).await?;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        if status != 200 {
            let whole = self.in_time(self.within, &asked, self.whole(body, &asked)).await?;
            return Err(self.refused(status, &whole));
        }
        let mut line = Vec::new();
        while let Some(frame) =
            self.in_time(SILENT_MOST, &asked, async { Ok(body.frame().await) }).await?
        {
            let frame = frame.map_err(|error| self.lost(&asked, &error))?;
            for byte in frame.into_data().unwrap_or_default() {
                if byte != b'\n' && line.len() < LINE_BYTES_MAX {
                    line.push(byte);
                    continue;
                }
                let object = serde_json::from_slice(&line).map_err(|error| self.unclear(&error))?;
                line.clear();
                if !take(object) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn in_time<T>(
        &self,
        within: Duration,
        asked: &str,
        answer: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let (daemon, asked) = (self.transport.to_string(), asked.to_owned());
        let late = ClientError::Slow { daemon, asked, within };
        timeout(within, answer).await.unwrap_or(Err(late))
    }

    /// Sends a request on a connection of its own, and hears the head of the answer.
    async fn open(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let asked = format!("{method} {path}");
        let stream = self.transport.connect().await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.lost(&asked, &error))?;
        // Ends with the answer's body, or with this process.
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "helio")
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(|error| self.unclear(&error))?;
        sender.send_request(request).await.map_err(|error| self.lost(&asked, &error))
    }

    async fn whole(&self, body: Incoming, asked: &str) -> Result<Bytes, ClientError> {
        let collected = Limited::new(body, RESPONSE_BYTES_MAX).collect().await;
        let collected = collected.map_err(|error| match error.downcast::<hyper::Error>() {
            Ok(error) => self.lost(asked, &error),
            Err(error) => self.unclear(&error),
        })?;
        Ok(collected.to_bytes())
    }

    fn refused(&self, status: u16, body: &[u8]) -> ClientError {
        ClientError::Refused(Box::new(ApiError::of_response(status, body)))
    }

    fn lost(&self, asked: &str, why: &hyper::Error) -> ClientError {
        if let Some(refused) = self.transport.refused(why) {
            return refused;
        }
        let (daemon, asked) = (self.transport.to_string(), asked.to_owned());
        let hint = "`helio status` shows whether it was done; the log of the daemon says why the connection ended";
        ClientError::Lost { daemon, asked, why: why.to_string(), hint: hint.to_owned() }
    }

    fn unclear(&self, why: &dyn std::fmt::Display) -> ClientError {
        let text = format!("the response of the daemon on {} is invalid: {why}", self.transport);
        ClientError::Refused(Box::new(ApiError::new(
            code::INTERNAL,
            text,
            "use the same version of helio as the daemon",
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_api::form;

    #[test]
    fn every_error_of_a_client_has_the_form_of_an_error() {
        let daemon = || String::from("/run/helio/control.sock");
        let (asked, why, hint) = ("GET /v2", "connection reset", "repeat the command");
        let [asked, why, hint] = [asked, why, hint].map(|text| move || String::from(text));
        let within = Duration::from_secs(30);
        for error in [
            ClientError::NoDaemon { daemon: daemon(), why: why() },
            ClientError::Denied { daemon: daemon() },
            ClientError::Untrusted { daemon: daemon(), why: why(), hint: hint() },
            ClientError::Lost { daemon: daemon(), asked: asked(), why: why(), hint: hint() },
            ClientError::Slow { daemon: daemon(), asked: asked(), within },
            ClientError::Over { what: "the resync of db".into(), within, hint: hint() },
        ] {
            assert_eq!(form::faults(&error.report()), Vec::<String>::new(), "{error}");
        }
    }
}
