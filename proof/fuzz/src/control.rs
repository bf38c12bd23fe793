// SPDX-License-Identifier: Apache-2.0
//! The control server, from the first byte of HTTP on.
//!
//! Input: a byte that says how the rest is taken. 0: it is what a client sends, as it is. 1: a method in a byte, a
//! path behind its length, and a body. Others: an operation in a byte, a group's name behind its length, and a body.
//! The two latter are honest HTTP, which is always answered, and refused only in the API's own words.

use crate::pieces::byte;
use helio_api::event::{Event, What};
use helio_api::{Accepted, ApiError, EventsRequest, Method, Operation, paths};
use helio_daemon::control::{
    Answering, Backend, Command, EventStream, Limits, Listener, Reply, router, serve,
};
use helio_units::WallTime;
use std::future::{Ready, pending, ready};
use std::io;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// Bytes on their way to one end and not read yet.
const ON_THE_WAY: usize = 64 << 10;
/// Longest path that is made, in bytes: HTTP's own bound is not what is tried here.
const PATH_MOST: usize = 4 << 10;

/// Takes every command and remembers it.
#[derive(Default)]
struct Echo {
    heard: Mutex<Vec<Command>>,
}

impl Backend for Echo {
    fn call(&self, command: Command) -> Answering<'_> {
        Box::pin(async move {
            let message = format!("{command:?}");
            self.heard.lock().expect("no holder panics").push(command);
            Ok(Reply::Accepted(Accepted { message, warnings: Vec::new() }))
        })
    }

    fn events(&self, wish: EventsRequest) -> Result<EventStream, ApiError> {
        let since = wish.since.unwrap_or(0);
        let event = move |n| Arc::new(Event::bare(since.wrapping_add(n), WallTime(n), What::Alive));
        Ok(Box::pin(futures_util::stream::iter((0..3).map(event))))
    }
}

/// Brings one connection and never another.
struct Once(Option<DuplexStream>);

impl Listener for Once {
    type Stream = DuplexStream;
    type Greeting = Ready<io::Result<DuplexStream>>;

    async fn accept(&mut self) -> io::Result<Self::Greeting> {
        match self.0.take() {
            Some(stream) => Ok(ready(Ok(stream))),
            None => pending().await,
        }
    }
}

pub(crate) fn run(mut data: &[u8]) {
    match byte(&mut data) {
        0 => as_it_is(data),
        1 => by_path(data),
        _ => by_operation(data),
    }
}

fn as_it_is(data: &[u8]) {
    let (answer, _) = exchange(data);
    // Who says nothing that HTTP can read may be hung up on.
    if !answer.is_empty() {
        assert!(answer.starts_with(b"HTTP/1."), "{}", answer.escape_ascii());
    }
}

fn by_path(mut data: &[u8]) {
    const METHODS: [&str; 6] = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"];
    let method = METHODS[usize::from(byte(&mut data)) % METHODS.len()];
    let (path, body) = split(&mut data);
    let path: String = path.iter().take(PATH_MOST).map(|byte| spelled(*byte)).collect();
    let (answer, heard) = exchange(&request(method, &format!("/{path}"), body));
    judge(&answer, &heard, method != "HEAD");
}

fn by_operation(mut data: &[u8]) {
    let operation = Operation::ALL[usize::from(byte(&mut data)) % Operation::ALL.len()];
    let (name, body) = split(&mut data);
    let name = String::from_utf8_lossy(name);
    let method = match operation.method() {
        Method::Get => "GET",
        Method::Post => "POST",
    };
    let path = paths::of_group(operation.path(), &name);
    let (answer, heard) = exchange(&request(method, &path, body));
    let status = judge(&answer, &heard, true);
    if let Some(group) = heard.iter().find_map(named) {
        assert_eq!(*group, name, "another group was meant");
    }
    // What needs no body is carried out whatever the group is called.
    let needs_body = matches!(
        operation,
        Operation::Mode
            | Operation::Promote
            | Operation::Resolve
            | Operation::Reverse
            | Operation::Resync
            | Operation::MemberReplace
            | Operation::MemberAccept
            | Operation::MemberAdd
            | Operation::MemberRemove
            | Operation::MemberMerge
            | Operation::MemberSet
            | Operation::Release
            | Operation::QueueSet
            | Operation::Verify
            | Operation::Attach
            | Operation::Detach
            | Operation::Switch
            | Operation::TraceStart
            | Operation::ClientClose
            | Operation::SavedDelete
            | Operation::SnapshotCreate
            | Operation::SnapshotDelete
            | Operation::SnapshotRestore
            | Operation::Drill
            | Operation::Apply
    );
    let nameless = name.is_empty() && operation.path().contains("{group}");
    assert!(needs_body || nameless || status == 200, "{operation:?} of {name:?}: {status}");
}

/// The group a command is about.
fn named(command: &Command) -> Option<&String> {
    match command {
        Command::Status { group } => group.as_ref(),
        Command::Pause { group }
        | Command::Resync { group, .. }
        | Command::Resume { group }
        | Command::Mode { group, .. }
        | Command::Promote { group, .. }
        | Command::Demote { group }
        | Command::Switch { group, .. }
        | Command::Explain { group }
        | Command::Resolve { group, .. }
        | Command::Reverse { group, .. }
        | Command::Queue { group }
        | Command::QueueSet { group, .. }
        | Command::QueueReset { group }
        | Command::Verify { group, .. }
        | Command::VerifyStop { group }
        | Command::SeedBegin { group }
        | Command::SeedEnd { group }
        | Command::TraceStart { group, .. }
        | Command::TraceStop { group }
        | Command::MemberReplace { group, .. }
        | Command::MemberAccept { group, .. }
        | Command::MemberAdd { group, .. }
        | Command::MemberRemove { group, .. }
        | Command::MemberMerge { group, .. }
        | Command::MemberSet { group, .. }
        | Command::Snapshots { group }
        | Command::SnapshotCreate { group, .. }
        | Command::SnapshotDelete { group, .. }
        | Command::SnapshotRestore { group, .. }
        | Command::Drill { group, .. }
        | Command::Release { group, .. }
        | Command::Attach { group, .. }
        | Command::Detach { group, .. }
        | Command::Recorder { group } => Some(group),
        Command::Apply { .. }
        | Command::Attachments
        | Command::Clients
        | Command::ClientClose { .. }
        | Command::Saved
        | Command::SavedDelete { .. } => None,
    }
}

/// A byte's number of bytes, and what follows them.
fn split<'a>(data: &mut &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let length = usize::from(byte(data)).min(data.len());
    data.split_at(length)
}

/// A byte of a path and query as it may travel.
fn spelled(byte: u8) -> String {
    match byte {
        b'/' | b'?' | b'&' | b'=' | b'%' | b'-' | b'_' | b'.' | b'~' | b'+' | b':' | b'@' => {
            char::from(byte).to_string()
        }
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    }
}

fn request(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// One whole answer: success that was carried out, or a refusal in the API's words. Returns its status.
fn judge(answer: &[u8], heard: &[Command], has_body: bool) -> u16 {
    let text = answer.escape_ascii().to_string();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| {
        panic!("no answer: {text}");
    });
    let status = answer.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3));
    let status = status.and_then(|three| std::str::from_utf8(three).ok()?.parse::<u16>().ok());
    let status = status.unwrap_or_else(|| panic!("no status: {text}"));
    if status == 200 {
        return status;
    }
    assert!(heard.is_empty(), "refused, and carried out: {text}");
    if has_body {
        let error: ApiError = serde_json::from_slice(&answer[end + 4..])
            .unwrap_or_else(|why| panic!("{why}: {text}"));
        assert_eq!(error.http_status(), status, "{text}");
        assert!(!error.error.is_empty() && error.hint.is_some(), "{text}");
    }
    status
}

/// Says it to a control server; what it answers until it closes, and what it was asked to do.
fn exchange(request: &[u8]) -> (Vec<u8>, Vec<Command>) {
    thread_local! {
        /// Its clock stands still, and jumps to the next timeout where everybody waits.
        static RUNTIME: Runtime =
            Builder::new_current_thread().enable_time().start_paused(true).build().expect("starts");
    }
    let echo = Arc::new(Echo::default());
    let answer = RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let (client, server) = tokio::io::duplex(ON_THE_WAY);
            let (stop, stopping) = watch::channel(false);
            let backend: Arc<dyn Backend> = Arc::clone(&echo) as _;
            let serving = serve(Once(Some(server)), router(backend), Limits::default(), stopping);
            let serving = tokio::spawn(serving);
            let (mut hears, mut says) = tokio::io::split(client);
            let mut answer = Vec::new();
            let saying = async {
                // A server that will hear no more closes; what it said before still counts.
                let _closed = says.write_all(request).await;
            };
            let (_, heard) = tokio::join!(saying, hears.read_to_end(&mut answer));
            heard.expect("a pipe in memory");
            drop(stop);
            serving.await.expect("the server ends well");
            answer
        })
    });
    let heard = std::mem::take(&mut *echo.heard.lock().expect("no holder panics"));
    (answer, heard)
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    const BODIES: [(&str, Operation, &[u8]); 6] = [
        ("status", Operation::Status, b""),
        ("pause", Operation::Pause, b"null"),
        ("mode", Operation::Mode, br#"{"mode":"nearsync"}"#),
        ("promote", Operation::Promote, br#"{"force":true,"confirmed":false}"#),
        ("apply", Operation::Apply, br#"{"dry_run":true}"#),
        (
            "queue-set",
            Operation::QueueSet,
            br#"{"memory":{"bytes":1048576},"items":100,"when_full_connected":"block"}"#,
        ),
    ];
    let place = |wanted| Operation::ALL.iter().position(|o| *o == wanted).unwrap_or_default() as u8;
    let mut seeds: Vec<_> = BODIES
        .into_iter()
        .map(|(name, operation, body)| {
            (name, [&[2, place(operation), 4][..], b"db/1", body].concat())
        })
        .collect();
    let query = b"v2/events?now=true&since=7&group=db";
    seeds.push(("events", [&[1, 0, query.len() as u8][..], query].concat()));
    let unknown = b"v2/groups/%FF/pause";
    seeds.push(("no-text", [&[1, 1, unknown.len() as u8][..], unknown, b"null"].concat()));
    let chunked = b"\0POST /v2/apply HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n\
                    10\r\n{\"dry_run\":true}\r\n0\r\n\r\nGET /v2/openapi.json HTTP/1.0\r\n\r\n";
    seeds.push(("chunked", chunked.to_vec()));
    seeds
}
