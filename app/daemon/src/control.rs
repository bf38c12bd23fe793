// SPDX-License-Identifier: Apache-2.0
//! The control server: HTTP and JSON on a Unix socket that only its owner may use.
//!
//! It turns paths into [`Command`]s and replies into JSON; what a command does is the [`Backend`]'s.

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::extract::{Path as UrlPath, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use helio_api::{
    Accepted, ApiError, ApplyReply, ApplyRequest, ModeRequest, PromoteRequest, RecorderDump,
    Status, code, paths,
};
use helio_units::Mode;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use tokio::net::UnixListener;

/// Longest request body, in bytes; the largest real one has a dozen fields.
const BODY_BYTES_MAX: usize = 64 << 10;

/// What is asked of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Show one group or all.
    Status {
        /// Only this one.
        group: Option<String>,
    },
    /// Keep marks only.
    Log {
        /// Which group.
        group: String,
    },
    /// Copy marked regions, then replicate.
    Update {
        /// Which group.
        group: String,
    },
    /// Ask for another mode.
    Mode {
        /// Which group.
        group: String,
        /// Which mode.
        mode: Mode,
    },
    /// Become primary.
    Promote {
        /// Which group.
        group: String,
        /// Without the peer's word.
        force: bool,
        /// What is at stake was accepted.
        confirmed: bool,
    },
    /// Be secondary.
    Demote {
        /// Which group.
        group: String,
    },
    /// Read the configuration again.
    Apply {
        /// Only say what would change.
        dry_run: bool,
    },
    /// Show the flight recorder.
    Recorder {
        /// Which group.
        group: String,
    },
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Of a status.
    Status(Status),
    /// Of a command.
    Accepted(Accepted),
    /// Of an apply.
    Applied(ApplyReply),
    /// Of a recorder.
    Recorder(RecorderDump),
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        match self {
            Self::Status(reply) => Json(reply).into_response(),
            Self::Accepted(reply) => Json(reply).into_response(),
            Self::Applied(reply) => Json(reply).into_response(),
            Self::Recorder(reply) => Json(reply).into_response(),
        }
    }
}

/// An answer that is being worked out.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Reply, ApiError>> + Send + 'a>>;

/// Who carries commands out.
pub trait Backend: Send + Sync + 'static {
    /// Carries one out.
    fn call(&self, command: Command) -> Answering<'_>;
}

/// Takes the control socket: a dead daemon's is removed, a live one's is respected.
///
/// # Errors
/// Another daemon answers on it, or it cannot be made.
pub fn bind(path: &Path) -> Result<UnixListener> {
    if UnixStream::connect(path).is_ok() {
        bail!(
            "another helio daemon answers on {}\n  remedy: stop it, or give this one its own --state",
            path.display()
        );
    }
    if path.exists() {
        std::fs::remove_file(path).with_context(|| path.display().to_string())?;
    }
    let listener = UnixListener::bind(path).with_context(|| path.display().to_string())?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Serves until it is dropped.
///
/// # Errors
/// The socket fails.
pub async fn serve(listener: UnixListener, backend: Arc<dyn Backend>) -> Result<()> {
    axum::serve(listener, router(backend)).await.context("the control server failed")
}

type Shared = State<Arc<dyn Backend>>;
type Answered = Result<Reply, Refused>;

fn router(backend: Arc<dyn Backend>) -> Router {
    Router::new()
        .route(
            paths::STATUS,
            get(|State(b): Shared| async move { ask(b, Command::Status { group: None }).await }),
        )
        .route(
            paths::GROUP,
            get(|s, p| on_group(s, p, |group| Command::Status { group: Some(group) })),
        )
        .route(paths::RECORDER, get(|s, p| on_group(s, p, |group| Command::Recorder { group })))
        .route(paths::LOG, post(|s, p| on_group(s, p, |group| Command::Log { group })))
        .route(paths::UPDATE, post(|s, p| on_group(s, p, |group| Command::Update { group })))
        .route(paths::DEMOTE, post(|s, p| on_group(s, p, |group| Command::Demote { group })))
        .route(paths::MODE, post(mode))
        .route(paths::PROMOTE, post(promote))
        .route(paths::APPLY, post(apply))
        .fallback(async || {
            Refused(ApiError::new(code::NOT_FOUND, "no such path", "this daemon speaks /v1"))
        })
        .layer(axum::extract::DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(backend)
}

async fn ask(backend: Arc<dyn Backend>, command: Command) -> Answered {
    backend.call(command).await.map_err(Refused)
}

async fn on_group(
    State(b): Shared,
    UrlPath(group): UrlPath<String>,
    make: fn(String) -> Command,
) -> Answered {
    ask(b, make(group)).await
}

async fn mode(
    State(b): Shared,
    UrlPath(group): UrlPath<String>,
    body: axum::body::Bytes,
) -> Answered {
    let ModeRequest { mode } = read(&body)?;
    ask(b, Command::Mode { group, mode }).await
}

async fn promote(
    State(b): Shared,
    UrlPath(group): UrlPath<String>,
    body: axum::body::Bytes,
) -> Answered {
    let PromoteRequest { force, confirmed } = read(&body)?;
    ask(b, Command::Promote { group, force, confirmed }).await
}

async fn apply(State(b): Shared, body: axum::body::Bytes) -> Answered {
    let ApplyRequest { dry_run } = read(&body)?;
    ask(b, Command::Apply { dry_run }).await
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|error| {
        let text = format!("the request's body cannot be read: {error}");
        Refused(ApiError::new(code::BAD_REQUEST, text, "send the JSON of the API's version"))
    })
}

/// A refusal as a response.
struct Refused(ApiError);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(self.0)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// Takes every command and says which one it was.
    struct Echo;

    impl Backend for Echo {
        fn call(&self, command: Command) -> Answering<'_> {
            Box::pin(async move {
                match command {
                    Command::Log { group } if group == "none" => Err(ApiError::new(
                        code::UNKNOWN_GROUP,
                        "group none is not configured",
                        "name one that is",
                    )),
                    command => Ok(Reply::Accepted(Accepted {
                        message: format!("{command:?}"),
                        warnings: Vec::new(),
                    })),
                }
            })
        }
    }

    /// One request over the real socket; returns the status line and the body.
    fn exchange(path: &Path, request: &str) -> (String, String) {
        let mut stream = UnixStream::connect(path).expect("connects");
        stream.write_all(request.as_bytes()).expect("takes the request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
    }

    fn post(url: &str, body: &str) -> String {
        format!(
            "POST {url} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    #[test]
    fn every_path_reaches_its_command_and_bad_ones_say_why() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control.sock");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let listener = runtime.block_on(async { bind(&path) }).expect("binds");
        runtime.spawn(serve(listener, Arc::new(Echo)));
        assert_eq!(std::fs::metadata(&path).expect("is there").permissions().mode() & 0o777, 0o600);
        assert!(
            runtime.block_on(async { bind(&path) }).is_err(),
            "a live daemon's socket was taken"
        );

        let ok = "HTTP/1.1 200 OK";
        let (status, body) = exchange(&path, &post("/v1/groups/db/mode", r#"{"mode":"nearsync"}"#));
        assert_eq!(status, ok);
        assert!(body.contains("NearSync"), "{body}");
        let (status, body) =
            exchange(&path, &post("/v1/groups/db/promote", r#"{"force":true,"confirmed":false}"#));
        assert!(status == ok && body.contains("force: true"), "{status} {body}");
        let (status, body) = exchange(&path, &post("/v1/groups/none/log", "null"));
        assert!(status.contains("404") && body.contains("unknown-group"), "{status} {body}");
        let (status, body) = exchange(&path, &post("/v1/groups/db/mode", r#"{"mode":"fast"}"#));
        assert!(status.contains("400") && body.contains("bad-request"), "{status} {body}");
        let (status, body) = exchange(&path, &post("/v2/anything", ""));
        assert!(status.contains("404") && body.contains("/v1"), "{status} {body}");
        let (status, _) = exchange(&path, &post("/v1/apply", &" ".repeat(BODY_BYTES_MAX + 1)));
        assert!(status.contains("413"), "{status}");
    }
}
