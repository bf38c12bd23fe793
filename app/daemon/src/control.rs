// SPDX-License-Identifier: Apache-2.0
//! The control server: HTTP and JSON over whatever brings connections; here a Unix socket that only its owner may use.
//!
//! It turns paths into [`Command`]s and replies into JSON; what a command does is the [`Backend`]'s. Who may connect is
//! the [`Listener`]'s to decide.

mod bind;
mod patience;
mod places;
mod refusals;
mod remote;
mod serve;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, Path as UrlPath, Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{MethodRouter, get, post};
pub use bind::bind;
use futures_util::{Stream, StreamExt};
use helio_api::event::Event;
use helio_api::{
    Accepted, ApiError, ApplyReply, ApplyRequest, AttachRequest, Attachment, Attachments,
    ClientCloseRequest, ClientList, DetachRequest, DrillRequest, EventsRequest, Explanation,
    MemberAcceptRequest, MemberAddRequest, MemberMergeRequest, MemberRemoveRequest,
    MemberReplaceRequest, MemberSetRequest, ModeRequest, Operation, PromoteRequest, QueueReply,
    QueueRequest, RecorderDump, ReleaseRequest, ResolveRequest, ResyncRequest, ReverseRequest,
    SavedDeleteRequest, SavedList, SnapshotList, SnapshotRequest, SnapshotRestoreRequest, Status,
    SwitchRequest, TraceRequest, VerifyRequest, code,
};
use helio_units::Mode;
pub use places::{Place, Places};
pub(crate) use remote::{Remote, refused as control_refused};
use serde::de::DeserializeOwned;
pub use serve::{Limits, Listener, serve};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// How long a request's body may take to come.
const BODY_WITHIN: Duration = Duration::from_secs(10);
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
    /// Stop replication and record dirty regions only.
    Pause {
        /// Which group.
        group: String,
    },
    /// End a pause with a resync.
    Resume {
        /// Which group.
        group: String,
    },
    /// Copy dirty regions, or everything, then replicate.
    Resync {
        /// Which group.
        group: String,
        /// What is copied, and under which condition.
        wish: ResyncRequest,
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
        /// Where the copy here is not consistent, go back to the kept image.
        restore: bool,
        /// Behind the fence hook.
        fence: bool,
    },
    /// Change roles with the other node.
    Switch {
        /// Which group.
        group: String,
        /// Although it is attached here: who uses it has errors from then on.
        force: bool,
    },
    /// Tell how the two nodes stand to each other.
    Explain {
        /// Which group.
        group: String,
    },
    /// Give up this node's side.
    Resolve {
        /// Which group.
        group: String,
        /// Whose, and where it is saved.
        wish: ResolveRequest,
    },
    /// Take the other node's copy over this node's own.
    Reverse {
        /// Which group.
        group: String,
        /// Where, and where it is saved.
        wish: ReverseRequest,
    },
    /// Take another disk in the place of a lost one.
    MemberReplace {
        /// Which group.
        group: String,
        /// Which volume's.
        wish: MemberReplaceRequest,
    },
    /// Accept a suspect copy as it is.
    MemberAccept {
        /// Which group.
        group: String,
        /// Which volume's.
        wish: MemberAcceptRequest,
    },
    /// Use another local member of a volume.
    MemberAdd {
        /// Which group.
        group: String,
        /// Which volume's, and where it is.
        wish: MemberAddRequest,
    },
    /// Use a member no more.
    MemberRemove {
        /// Which group.
        group: String,
        /// Which, and how firmly.
        wish: MemberRemoveRequest,
    },
    /// Compare the members.
    MemberMerge {
        /// Which group.
        group: String,
        /// Which volume's.
        wish: MemberMergeRequest,
    },
    /// Change settings of a member.
    MemberSet {
        /// Which group.
        group: String,
        /// Which, and what of it.
        wish: MemberSetRequest,
    },
    /// Be secondary.
    Demote {
        /// Which group.
        group: String,
    },
    /// Show the queue.
    Queue {
        /// Which group's.
        group: String,
    },
    /// Change the queue while it runs.
    QueueSet {
        /// Which group's.
        group: String,
        /// What of it.
        wish: QueueRequest,
    },
    /// Let the queue's high-water marks begin anew.
    QueueReset {
        /// Which group's.
        group: String,
    },
    /// Compare the two copies.
    Verify {
        /// Of which group.
        group: String,
        /// How.
        wish: VerifyRequest,
    },
    /// Compare no more.
    VerifyStop {
        /// Of which group.
        group: String,
    },
    /// Ship a disk for the first sync.
    SeedBegin {
        /// Of which group.
        group: String,
    },
    /// It is in place.
    SeedEnd {
        /// Of which group.
        group: String,
    },
    /// Show the snapshots.
    Snapshots {
        /// Of which group.
        group: String,
    },
    /// Create a snapshot.
    SnapshotCreate {
        /// Of which group.
        group: String,
        /// Under which name.
        wish: SnapshotRequest,
    },
    /// Restore the volumes from a snapshot.
    SnapshotRestore {
        /// Which group.
        group: String,
        /// From which.
        wish: SnapshotRestoreRequest,
    },
    /// Delete a snapshot.
    SnapshotDelete {
        /// Of which group.
        group: String,
        /// Which.
        wish: SnapshotRequest,
    },
    /// Record how a drill ended.
    Drill {
        /// Of which group.
        group: String,
        /// How it ended.
        report: DrillRequest,
    },
    /// Attach a volume as a block device.
    Attach {
        /// Of which group.
        group: String,
        /// Which volume, and how.
        wish: AttachRequest,
    },
    /// Detach a volume's block device.
    Detach {
        /// Of which group.
        group: String,
        /// Which volume, and how firmly.
        wish: DetachRequest,
    },
    /// Give the stores of a group back.
    Release {
        /// Which group.
        group: String,
        /// What of it, and how firmly.
        wish: ReleaseRequest,
    },
    /// Record what applications ask.
    TraceStart {
        /// Of which group.
        group: String,
        /// Where, and how much.
        wish: TraceRequest,
    },
    /// Record no more.
    TraceStop {
        /// Of which group.
        group: String,
    },
    /// Show what is attached.
    Attachments,
    /// Show the NBD clients.
    Clients,
    /// Disconnect some.
    ClientClose {
        /// Which.
        wish: ClientCloseRequest,
    },
    /// Show saved data.
    Saved,
    /// Delete saved data.
    SavedDelete {
        /// Which.
        wish: SavedDeleteRequest,
    },
    /// Read the configuration again.
    Apply {
        /// Only show what would change.
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
    /// Of an explanation.
    Explained(Explanation),
    /// Of a queue.
    Queue(QueueReply),
    /// Of an apply.
    Applied(ApplyReply),
    /// Of an attach.
    Attached(Attachment),
    /// Of a list of what is attached.
    Attachments(Attachments),
    /// The NBD clients.
    Clients(ClientList),
    /// Of a list of snapshots.
    Snapshots(SnapshotList),
    /// Of a list of saved data.
    Saved(SavedList),
    /// Of a recorder.
    Recorder(RecorderDump),
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        match self {
            Self::Status(reply) => Json(reply).into_response(),
            Self::Accepted(reply) => Json(reply).into_response(),
            Self::Explained(reply) => Json(reply).into_response(),
            Self::Queue(reply) => Json(reply).into_response(),
            Self::Applied(reply) => Json(reply).into_response(),
            Self::Attached(reply) => Json(reply).into_response(),
            Self::Clients(reply) => Json(reply).into_response(),
            Self::Attachments(reply) => Json(reply).into_response(),
            Self::Snapshots(reply) => Json(reply).into_response(),
            Self::Saved(reply) => Json(reply).into_response(),
            Self::Recorder(reply) => Json(reply).into_response(),
        }
    }
}

/// An answer that is being worked out.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Reply, ApiError>> + Send + 'a>>;

/// Events as they happen; whoever reads pulls them, so nothing piles up here.
pub type EventStream = Pin<Box<dyn Stream<Item = Arc<Event>> + Send>>;

/// Who carries commands out.
pub trait Backend: Send + Sync + 'static {
    /// Carries one out.
    fn call(&self, command: Command) -> Answering<'_>;

    /// Tells what happens.
    ///
    /// # Errors
    /// There is no such group.
    fn events(&self, wish: EventsRequest) -> Result<EventStream, ApiError>;
}

type Shared = State<Arc<dyn Backend>>;
type Answered = Result<Reply, Refused>;

/// Every operation of the API at its path; the match leaves none out.
pub fn router(backend: Arc<dyn Backend>) -> Router {
    let mut router = Router::new();
    for operation in Operation::ALL {
        router = router.route(operation.path(), handler(operation));
    }
    router
        .fallback(async || {
            Refused(ApiError::new(code::NOT_FOUND, "no such path", "this daemon serves /v2"))
        })
        .method_not_allowed_fallback(async || {
            let text = "the path does not take this method";
            Refused(ApiError::new(code::WRONG_METHOD, text, "GET reads, POST changes"))
        })
        .with_state(backend)
}

fn handler(operation: Operation) -> MethodRouter<Arc<dyn Backend>> {
    match operation {
        Operation::Status => {
            get(|State(b): Shared| async move { ask(b, Command::Status { group: None }).await })
        }
        Operation::Group => {
            get(|s, p| on_group(s, p, |group| Command::Status { group: Some(group) }))
        }
        Operation::DebugEvents => get(|s, p| on_group(s, p, |group| Command::Recorder { group })),
        Operation::Events => get(events),
        Operation::Pause => post(|s, p| on_group(s, p, |group| Command::Pause { group })),
        Operation::Resync => post(resync),
        Operation::Resume => post(|s, p| on_group(s, p, |group| Command::Resume { group })),
        Operation::Demote => post(|s, p| on_group(s, p, |group| Command::Demote { group })),
        Operation::Switch => post(switch),
        Operation::Explain => get(|s, p| on_group(s, p, |group| Command::Explain { group })),
        Operation::Resolve => post(resolve),
        Operation::Reverse => post(reverse),
        Operation::MemberReplace => post(replace_member),
        Operation::MemberAccept => post(accept_member),
        Operation::MemberAdd => post(add_member),
        Operation::MemberRemove => post(remove_member),
        Operation::MemberMerge => post(merge_members),
        Operation::MemberSet => post(set_member),
        Operation::Mode => post(mode),
        Operation::Promote => post(promote),
        Operation::Queue => get(|s, p| on_group(s, p, |group| Command::Queue { group })),
        Operation::QueueSet => post(set_queue),
        Operation::QueueReset => post(|s, p| on_group(s, p, |group| Command::QueueReset { group })),
        Operation::Verify => post(verify),
        Operation::VerifyStop => post(|s, p| on_group(s, p, |group| Command::VerifyStop { group })),
        Operation::SeedBegin => post(|s, p| on_group(s, p, |group| Command::SeedBegin { group })),
        Operation::SeedEnd => post(|s, p| on_group(s, p, |group| Command::SeedEnd { group })),
        Operation::Snapshots => get(|s, p| on_group(s, p, |group| Command::Snapshots { group })),
        Operation::SnapshotCreate => post(create_snapshot),
        Operation::SnapshotDelete => post(delete_snapshot),
        Operation::SnapshotRestore => post(restore_snapshot),
        Operation::Drill => post(drill),
        Operation::Attach => post(attach),
        Operation::Detach => post(detach),
        Operation::Release => post(release),
        Operation::TraceStart => post(start_trace),
        Operation::TraceStop => post(|s, p| on_group(s, p, |group| Command::TraceStop { group })),
        Operation::Attachments => {
            get(|State(b): Shared| async move { ask(b, Command::Attachments).await })
        }
        Operation::Clients => get(|State(b): Shared| async move { ask(b, Command::Clients).await }),
        Operation::ClientClose => post(close_clients),
        Operation::Saved => get(|State(b): Shared| async move { ask(b, Command::Saved).await }),
        Operation::SavedDelete => post(delete_saved),
        Operation::Apply => post(apply),
        Operation::Document => get(document),
    }
}

async fn ask(backend: Arc<dyn Backend>, command: Command) -> Answered {
    backend.call(command).await.map_err(Refused)
}

/// The group a path names, or why it names none.
type Named = Result<UrlPath<String>, PathRejection>;

fn named(path: Named) -> Result<String, Refused> {
    let UrlPath(group) = path.map_err(|error| {
        let text = format!("the path names no group: {error}");
        Refused(ApiError::new(code::BAD_REQUEST, text, "percent-encode the name as UTF-8"))
    })?;
    Ok(group)
}

async fn on_group(State(b): Shared, path: Named, make: fn(String) -> Command) -> Answered {
    ask(b, make(named(path)?)).await
}

async fn mode(State(b): Shared, path: Named, Wish(wish): Wish<ModeRequest>) -> Answered {
    ask(b, Command::Mode { group: named(path)?, mode: wish.mode }).await
}

async fn promote(State(b): Shared, path: Named, Wish(wish): Wish<PromoteRequest>) -> Answered {
    let PromoteRequest { force, confirmed, restore, fence } = wish;
    ask(b, Command::Promote { group: named(path)?, force, confirmed, restore, fence }).await
}

async fn resync(
    State(b): Shared,
    path: Named,
    Wish(wish): Wish<Option<ResyncRequest>>,
) -> Answered {
    ask(b, Command::Resync { group: named(path)?, wish: wish.unwrap_or_default() }).await
}

async fn resolve(State(b): Shared, path: Named, Wish(wish): Wish<ResolveRequest>) -> Answered {
    ask(b, Command::Resolve { group: named(path)?, wish }).await
}

async fn reverse(State(b): Shared, path: Named, Wish(wish): Wish<ReverseRequest>) -> Answered {
    ask(b, Command::Reverse { group: named(path)?, wish }).await
}

async fn replace_member(
    State(b): Shared,
    path: Named,
    Wish(wish): Wish<MemberReplaceRequest>,
) -> Answered {
    ask(b, Command::MemberReplace { group: named(path)?, wish }).await
}

async fn accept_member(
    State(b): Shared,
    path: Named,
    Wish(wish): Wish<MemberAcceptRequest>,
) -> Answered {
    ask(b, Command::MemberAccept { group: named(path)?, wish }).await
}

async fn add_member(State(b): Shared, path: Named, Wish(wish): Wish<MemberAddRequest>) -> Answered {
    ask(b, Command::MemberAdd { group: named(path)?, wish }).await
}

async fn remove_member(
    State(b): Shared,
    path: Named,
    Wish(wish): Wish<MemberRemoveRequest>,
) -> Answered {
    ask(b, Command::MemberRemove { group: named(path)?, wish }).await
}

async fn merge_members(
    State(b): Shared,
    path: Named,
    Wish(wish): Wish<MemberMergeRequest>,
) -> Answered {
    ask(b, Command::MemberMerge { group: named(path)?, wish }).await
}

async fn set_member(State(b): Shared, path: Named, Wish(wish): Wish<MemberSetRequest>) -> Answered {
    ask(b, Command::MemberSet { group: named(path)?, wish }).await
}

async fn set_queue(State(b): Shared, path: Named, Wish(wish): Wish<QueueRequest>) -> Answered {
    ask(b, Command::QueueSet { group: named(path)?, wish }).await
}

async fn switch(
    State(b): Shared,
    path: Named,
    Wish(wish): Wish<Option<SwitchRequest>>,
) -> Answered {
    let SwitchRequest { force } = wish.unwrap_or_default();
    ask(b, Command::Switch { group: named(path)?, force }).await
}

async fn verify(State(b): Shared, path: Named, Wish(wish): Wish<VerifyRequest>) -> Answered {
    ask(b, Command::Verify { group: named(path)?, wish }).await
}

async fn create_snapshot(
    State(b): Shared,
    path: Named,
    Wish(wish): Wish<SnapshotRequest>,
) -> Answered {
    ask(b, Command::SnapshotCreate { group: named(path)?, wish }).await
}

async fn delete_snapshot(
    State(b): Shared,
    path: Named,
    Wish(wish): Wish<SnapshotRequest>,
) -> Answered {
    ask(b, Command::SnapshotDelete { group: named(path)?, wish }).await
}

async fn restore_snapshot(
    State(b): Shared,
    path: Named,
    Wish(wish): Wish<SnapshotRestoreRequest>,
) -> Answered {
    ask(b, Command::SnapshotRestore { group: named(path)?, wish }).await
}

async fn drill(State(b): Shared, path: Named, Wish(report): Wish<DrillRequest>) -> Answered {
    ask(b, Command::Drill { group: named(path)?, report }).await
}

async fn attach(State(b): Shared, path: Named, Wish(wish): Wish<AttachRequest>) -> Answered {
    ask(b, Command::Attach { group: named(path)?, wish }).await
}

async fn detach(State(b): Shared, path: Named, Wish(wish): Wish<DetachRequest>) -> Answered {
    ask(b, Command::Detach { group: named(path)?, wish }).await
}

async fn release(State(b): Shared, path: Named, Wish(wish): Wish<ReleaseRequest>) -> Answered {
    ask(b, Command::Release { group: named(path)?, wish }).await
}

async fn start_trace(State(b): Shared, path: Named, Wish(wish): Wish<TraceRequest>) -> Answered {
    ask(b, Command::TraceStart { group: named(path)?, wish }).await
}

async fn close_clients(State(b): Shared, Wish(wish): Wish<ClientCloseRequest>) -> Answered {
    ask(b, Command::ClientClose { wish }).await
}

async fn delete_saved(State(b): Shared, Wish(wish): Wish<SavedDeleteRequest>) -> Answered {
    ask(b, Command::SavedDelete { wish }).await
}

async fn apply(State(b): Shared, Wish(wish): Wish<ApplyRequest>) -> Answered {
    ask(b, Command::Apply { dry_run: wish.dry_run }).await
}

async fn events(
    State(b): Shared,
    query: Result<Query<EventsRequest>, QueryRejection>,
) -> Result<Response, Refused> {
    let Query(wish) = query.map_err(|error| {
        let text = format!("the query of the URL is invalid: {}", error.body_text());
        Refused(ApiError::new(code::BAD_REQUEST, text, "use group=NAME, since=NUMBER or now=true"))
    })?;
    let lines = b
        .events(wish)
        .map_err(Refused)?
        .map(|event| serde_json::to_string(&*event).map(|line| line + "\n"));
    let kind = [(CONTENT_TYPE, "application/x-ndjson")];
    Ok((kind, Body::from_stream(lines)).into_response())
}

async fn document() -> Response {
    static DOCUMENT: LazyLock<serde_json::Value> =
        LazyLock::new(|| helio_api::document(env!("CARGO_PKG_VERSION")));
    Json(&*DOCUMENT).into_response()
}

/// A request's body, read within its bounds of length and time.
struct Wish<T>(T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Wish<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        let body = axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX);
        let body = tokio::time::timeout(BODY_WITHIN, body).await.map_err(|_| {
            let text = format!("the body of the request did not arrive within {BODY_WITHIN:?}");
            Refused(ApiError {
                retry: true,
                ..ApiError::new(code::TOO_SLOW, text, "send the complete body")
            })
        })?;
        let body = body.map_err(|error| {
            let text = format!("the body of the request is refused: {error}");
            let hint = format!("send at most {BODY_BYTES_MAX} bytes");
            Refused(ApiError::new(code::TOO_LARGE, text, hint))
        })?;
        // Where nothing need be said, nothing may be.
        let body: &[u8] = if body.is_empty() { b"null" } else { &body };
        serde_json::from_slice(body).map(Self).map_err(|error| {
            let text = format!("the body of the request is invalid: {error}");
            Refused(ApiError::new(code::BAD_REQUEST, text, "send the JSON of the API's version"))
        })
    }
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
