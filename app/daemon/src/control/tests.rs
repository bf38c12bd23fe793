// SPDX-License-Identifier: Apache-2.0
use super::*;
use helio_api::event::What;
use helio_units::WallTime;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Takes every command and says which one it was.
struct Echo;

impl Backend for Echo {
    fn call(&self, command: Command) -> Answering<'_> {
        Box::pin(async move {
            match command {
                Command::Pause { group } if group == "none" => Err(ApiError::new(
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

    /// Two events, or as many as a reader takes.
    fn events(&self, wish: EventsRequest) -> Result<EventStream, ApiError> {
        let event = |n| Arc::new(Event::bare(n, WallTime(n), What::Alive));
        let count = if wish.now { 2 } else { usize::MAX };
        Ok(Box::pin(futures_util::stream::iter((wish.since.unwrap_or(0)..).map(event).take(count))))
    }
}

/// A control server on a socket of its own; stops when it is dropped.
struct Server {
    runtime: Runtime,
    folder: TempDir,
    stop: watch::Sender<bool>,
}

impl Server {
    fn start(limits: Limits) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let runtime = Runtime::new().expect("a runtime");
        let (stop, stopping) = watch::channel(false);
        let listener =
            runtime.block_on(async { bind(&folder.path().join("control.sock")) }).expect("binds");
        runtime.spawn(serve(listener, router(Arc::new(Echo)), limits, stopping));
        Self { runtime, folder, stop }
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(self.path()).expect("connects")
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("control.sock")
    }

    /// One request over the real socket; returns the status line and the body.
    fn exchange(&self, request: &str) -> (String, String) {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("takes the request");
        heard(stream)
    }
}

fn heard(mut stream: UnixStream) -> (String, String) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answers and closes");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

fn get(url: &str) -> String {
    format!("GET {url} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
}

fn post(url: &str, body: &str) -> String {
    format!(
        "POST {url} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[track_caller]
fn refused(answer: &(String, String), status: u16, code: &str) {
    let told = answer.0.split(' ').nth(1);
    assert_eq!(told, Some(status.to_string().as_str()), "{answer:?}");
    let error: ApiError = serde_json::from_str(&answer.1).expect("every refusal is an ApiError");
    assert_eq!((error.code.as_str(), error.http_status()), (code, status), "{error:?}");
}

const OK: &str = "HTTP/1.1 200 OK";

#[test]
fn a_command_arrives_as_it_was_asked_and_what_cannot_be_read_says_why() {
    let server = Server::start(Limits::default());
    let (status, body) = server.exchange(&post("/v2/groups/db/mode", r#"{"mode":"nearsync"}"#));
    assert_eq!(status, OK);
    assert!(body.contains("NearSync"), "{body}");
    let (status, body) =
        server.exchange(&post("/v2/groups/db/promote", r#"{"force":true,"confirmed":false}"#));
    assert!(status == OK && body.contains("force: true"), "{status} {body}");

    refused(&server.exchange(&post("/v2/groups/none/pause", "null")), 404, code::UNKNOWN_GROUP);
    let wrong = post("/v2/groups/db/mode", r#"{"mode":"fast"}"#);
    refused(&server.exchange(&wrong), 400, code::BAD_REQUEST);
    refused(&server.exchange(&post("/v2/groups/%FF/pause", "null")), 400, code::BAD_REQUEST);
    refused(&server.exchange(&post("/v2/anything", "")), 404, code::NOT_FOUND);
    refused(&server.exchange(&get("/v2/apply")), 405, code::WRONG_METHOD);
    let long = post("/v2/apply", &" ".repeat(BODY_BYTES_MAX + 1));
    refused(&server.exchange(&long), 413, code::TOO_LARGE);
}

#[test]
fn every_path_of_the_description_is_served() {
    let server = Server::start(Limits::default());
    let (status, body) = server.exchange(&get(helio_api::paths::DOCUMENT));
    assert_eq!(status, OK);
    let document: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            let url = path.replace("{group}", "db").replace("/events", "/events?now=true");
            let request = if method == "get" { get(&url) } else { post(&url, "{}") };
            let (status, body) = server.exchange(&request);
            // An empty wish may be refused for what it lacks, which shows that its path was found.
            let found = status == OK || body.contains(code::BAD_REQUEST);
            assert!(found, "{method} {path}: {status} {body}");
        }
    }
}

#[test]
fn the_socket_is_private_from_its_first_moment_and_a_live_one_is_respected() {
    let server = Server::start(Limits::default());
    // Nothing but the socket's own mode makes it private: not the folder's, and nothing afterwards.
    let mode = std::fs::metadata(server.path()).expect("is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = server.runtime.block_on(async { bind(&server.path()) });
    assert!(again.is_err(), "a live daemon's socket was taken");
}

/// Bounds that are met quickly.
fn tight() -> Limits {
    let short = Duration::from_millis(300);
    Limits { connections: 2, head_within: short, write_within: short }
}

#[test]
fn one_connection_too_many_is_told_so_and_finds_a_place_later() {
    let server = Server::start(Limits { connections: 2, ..Limits::default() });
    let mut held = [server.connect(), server.connect()];
    // Both are being served, not only waiting to be accepted.
    for stream in &mut held {
        stream.write_all(b"GET /v2/status HTTP/1.1\r\nhost: x\r\n\r\n").expect("takes it");
        stream.read_exact(&mut [0; 15]).expect("answers");
    }
    refused(&server.exchange(&get("/v2/status")), 503, code::TOO_MANY_CONNECTIONS);
    drop(held);
    while server.exchange(&get("/v2/status")).0 != OK {}
}

#[test]
fn who_says_nothing_or_half_a_word_is_let_go() {
    let server = Server::start(tight());
    let silent = server.connect();
    let mut slow = server.connect();
    slow.write_all(b"GET /v2/sta").expect("takes it");
    assert_eq!(heard(silent).1, "");
    assert_eq!(heard(slow).1, "");
}

#[test]
fn a_stopped_server_ends_idle_connections_and_takes_no_more() {
    let server = Server::start(Limits::default());
    let mut idle = server.connect();
    idle.write_all(b"GET /v2/status HTTP/1.1\r\nhost: x\r\n\r\n").expect("takes it");
    idle.read_exact(&mut [0; 15]).expect("answers");
    server.stop.send(true).expect("it serves");
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).expect("is closed, not reset");
}

#[test]
fn events_come_a_line_each_and_a_query_is_held_to_what_there_is() {
    let server = Server::start(Limits::default());
    let (status, body) = server.exchange(&get("/v2/events?now=true&since=7"));
    assert_eq!(status, OK);
    let sequences: Vec<u64> = body
        .lines()
        .filter_map(|line| serde_json::from_str::<Event>(line).ok())
        .map(|event| event.sequence)
        .collect();
    assert_eq!(sequences, [7, 8], "{body}");
    refused(&server.exchange(&get("/v2/events?until=7")), 400, code::BAD_REQUEST);
}

#[test]
fn a_reader_who_stops_reading_is_let_go_in_time() {
    let tight = Limits { head_within: Limits::default().head_within, ..tight() };
    let server = Server::start(Limits { connections: 1, ..tight });
    let mut reader = server.connect();
    reader.write_all(get("/v2/events").as_bytes()).expect("takes it");
    reader.read_exact(&mut [0; 15]).expect("answers");
    // Its place comes free although it neither reads on nor goes away.
    while server.exchange(&get("/v2/status")).0 != OK {}
}

/// Brings connections of which the first never becomes a stream: a TLS client that says nothing, say.
struct Stubborn(tokio::net::UnixListener, bool);

impl Listener for Stubborn {
    type Stream = tokio::net::UnixStream;
    type Greeting = Pin<Box<dyn Future<Output = std::io::Result<Self::Stream>> + Send>>;

    async fn accept(&mut self) -> std::io::Result<Self::Greeting> {
        let (stream, _) = self.0.accept().await?;
        if std::mem::replace(&mut self.1, true) {
            return Ok(Box::pin(std::future::ready(Ok(stream))));
        }
        Ok(Box::pin(async move {
            std::future::pending::<()>().await;
            Ok(stream)
        }))
    }
}

#[test]
fn a_greeting_that_never_ends_holds_up_nobody_else_and_is_given_up() {
    let runtime = Runtime::new().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control.sock");
    let listener = runtime.block_on(async { bind(&path) }).expect("binds");
    let (_stop, stopping) = watch::channel(false);
    runtime.spawn(serve(Stubborn(listener, false), router(Arc::new(Echo)), tight(), stopping));
    let connect = || UnixStream::connect(&path).expect("connects");
    let silent = connect();
    let is_served = || {
        let (mut other, mut answer) = (connect(), String::new());
        let sent = other.write_all(get("/v2/status").as_bytes());
        // On a busy machine the request may come too late for such limits.
        sent.is_ok() && other.read_to_string(&mut answer).is_ok() && answer.starts_with(OK)
    };
    while !is_served() {}
    assert_eq!(heard(silent), (String::new(), String::new()), "it was let go without a word");
}
