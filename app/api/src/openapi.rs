// SPDX-License-Identifier: Apache-2.0
//! The API described in OpenAPI 3.1, from its types and [`Operation`]s.
//!
//! `docs/reference/openapi.json` is this description, kept in the tree so that a change of the API is seen in review.

use crate::error::code;
use crate::event::Event;
use crate::operation::{Method, Operation};
use crate::{
    Accepted, ApiError, ApplyReply, ApplyRequest, AttachRequest, Attachment, Attachments,
    ClientCloseRequest, ClientList, DetachRequest, DrillRequest, EventsRequest, Explanation,
    MemberAcceptRequest, MemberAddRequest, MemberMergeRequest, MemberRemoveRequest,
    MemberReplaceRequest, MemberSetRequest, ModeRequest, PromoteRequest, QueueReply, QueueRequest,
    RecorderDump, ReleaseRequest, ResolveRequest, ResyncRequest, ReverseRequest,
    SavedDeleteRequest, SavedList, SnapshotList, SnapshotRequest, SnapshotRestoreRequest, Status,
    SwitchRequest, TraceRequest, VerifyRequest,
};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// The API as an OpenAPI 3.1 document; `version` is the daemon's.
#[must_use]
pub fn document(version: &str) -> Value {
    let mut types = Types::new();
    let mut paths = Map::new();
    for operation in Operation::ALL {
        let method = match operation.method() {
            Method::Get => "get",
            Method::Post => "post",
        };
        let at = paths.entry(operation.path()).or_insert_with(|| json!({}));
        at[method] = described(operation, &mut types);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Heliograph control API",
            "description": "HTTP and JSON on the daemon's control socket. The name of a quantity contains its unit. \
                            Within /v2, paths and fields are only added: ignore unknown fields.",
            "version": version,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "the socket `control.sock` in the daemon's state directory" }],
        "paths": paths,
        "components": { "schemas": types.definitions() },
    })
}

/// Collects the descriptions of types: what is sent to a daemon, and what it sends.
struct Types {
    requests: SchemaGenerator,
    replies: SchemaGenerator,
}

impl Types {
    fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12()
                .with(|settings| settings.definitions_path = "/components/schemas".into())
        };
        Self {
            requests: settings().for_deserialize().into_generator(),
            replies: settings().for_serialize().into_generator(),
        }
    }

    fn request<T: JsonSchema>(&mut self) -> Option<Schema> {
        Some(self.requests.subschema_for::<T>())
    }

    fn reply<T: JsonSchema>(&mut self) -> Schema {
        self.replies.subschema_for::<T>()
    }

    fn definitions(mut self) -> Map<String, Value> {
        let mut all = self.requests.take_definitions(true);
        all.extend(self.replies.take_definitions(true));
        all
    }
}

fn described(operation: Operation, types: &mut Types) -> Value {
    let reply = reply(operation, types);
    let mut value = json!({
        "operationId": operation.name(),
        "summary": operation.summary(),
        "parameters": parameters(operation),
        "responses": { "200": { "description": "Done, or started.", "content": reply } },
    });
    for status in statuses(operation) {
        value["responses"][status.to_string()] = json!({
            "description": codes_of(status),
            "content": { "application/json": { "schema": types.reply::<ApiError>() } },
        });
    }
    if let Some(schema) = request(operation, types) {
        value["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    value
}

/// What the codes that travel with a status mean.
fn codes_of(status: u16) -> String {
    if status == 503 {
        return String::from("a code of 409, and `retry` is true");
    }
    let own = |code: &str| code::status(code).unwrap_or(409) == status;
    let codes = code::ALL.iter().filter(|(code, _)| own(code));
    codes.map(|(code, meaning)| format!("`{code}`: {meaning}")).collect::<Vec<_>>().join("; ")
}

fn parameters(operation: Operation) -> Vec<Value> {
    let mut all = Vec::new();
    if operation.path().contains("{group}") {
        all.push(json!({
            "name": "group", "in": "path", "required": true, "schema": { "type": "string" },
            "description": "The group's name.",
        }));
    }
    if operation == Operation::Events {
        all.extend(query::<EventsRequest>());
    }
    all
}

/// A request that travels in the URL's query, field by field.
fn query<T: JsonSchema>() -> Vec<Value> {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    let described = |(name, field): (&String, &Value)| {
        let mut schema = field.clone();
        let description = schema.as_object_mut().and_then(|fields| fields.remove("description"));
        json!({ "name": name, "in": "query", "description": description, "schema": schema })
    };
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.into_iter().flatten().map(described).collect()
}

/// The body it takes, where it takes one.
fn request(operation: Operation, types: &mut Types) -> Option<Schema> {
    match operation {
        Operation::Promote => types.request::<PromoteRequest>(),
        Operation::Resolve => types.request::<ResolveRequest>(),
        Operation::Reverse => types.request::<ReverseRequest>(),
        Operation::MemberReplace => types.request::<MemberReplaceRequest>(),
        Operation::MemberAccept => types.request::<MemberAcceptRequest>(),
        Operation::MemberAdd => types.request::<MemberAddRequest>(),
        Operation::MemberRemove => types.request::<MemberRemoveRequest>(),
        Operation::MemberMerge => types.request::<MemberMergeRequest>(),
        Operation::MemberSet => types.request::<MemberSetRequest>(),
        Operation::Resync => types.request::<ResyncRequest>(),
        Operation::Mode => types.request::<ModeRequest>(),
        Operation::QueueSet => types.request::<QueueRequest>(),
        Operation::Verify => types.request::<VerifyRequest>(),
        Operation::SnapshotCreate | Operation::SnapshotDelete => types.request::<SnapshotRequest>(),
        Operation::SnapshotRestore => types.request::<SnapshotRestoreRequest>(),
        Operation::Drill => types.request::<DrillRequest>(),
        Operation::Attach => types.request::<AttachRequest>(),
        Operation::Detach => types.request::<DetachRequest>(),
        Operation::Switch => types.request::<SwitchRequest>(),
        Operation::Release => types.request::<ReleaseRequest>(),
        Operation::TraceStart => types.request::<TraceRequest>(),
        Operation::ClientClose => types.request::<ClientCloseRequest>(),
        Operation::SavedDelete => types.request::<SavedDeleteRequest>(),
        Operation::Apply => types.request::<ApplyRequest>(),
        Operation::Status
        | Operation::Group
        | Operation::DebugEvents
        | Operation::Events
        | Operation::Pause
        | Operation::Resume
        | Operation::Demote
        | Operation::Explain
        | Operation::Queue
        | Operation::Snapshots
        | Operation::QueueReset
        | Operation::VerifyStop
        | Operation::SeedBegin
        | Operation::SeedEnd
        | Operation::TraceStop
        | Operation::Attachments
        | Operation::Clients
        | Operation::Saved
        | Operation::Document => None,
    }
}

/// What it answers, by media type.
fn reply(operation: Operation, types: &mut Types) -> Value {
    let schema = match operation {
        Operation::Status | Operation::Group => types.reply::<Status>(),
        Operation::DebugEvents => types.reply::<RecorderDump>(),
        Operation::Events => {
            let line = types.reply::<Event>();
            let text = "One JSON object per line, without end.";
            let schema = json!({ "type": "string", "description": text });
            return json!({ "application/x-ndjson": { "schema": schema, "x-line-schema": line } });
        }
        Operation::Pause
        | Operation::Resync
        | Operation::Resume
        | Operation::Promote
        | Operation::Demote
        | Operation::Switch
        | Operation::Resolve
        | Operation::Reverse
        | Operation::MemberReplace
        | Operation::MemberAccept
        | Operation::MemberAdd
        | Operation::MemberRemove
        | Operation::MemberMerge
        | Operation::MemberSet
        | Operation::Mode
        | Operation::QueueSet
        | Operation::QueueReset
        | Operation::Verify
        | Operation::VerifyStop
        | Operation::SeedBegin
        | Operation::SeedEnd
        | Operation::SnapshotCreate
        | Operation::SnapshotDelete
        | Operation::SnapshotRestore
        | Operation::Drill
        | Operation::Detach
        | Operation::TraceStart
        | Operation::TraceStop
        | Operation::ClientClose
        | Operation::SavedDelete
        | Operation::Release => types.reply::<Accepted>(),
        Operation::Snapshots => types.reply::<SnapshotList>(),
        Operation::Clients => types.reply::<ClientList>(),
        Operation::Saved => types.reply::<SavedList>(),
        Operation::Attach => types.reply::<Attachment>(),
        Operation::Attachments => types.reply::<Attachments>(),
        Operation::Explain => types.reply::<Explanation>(),
        Operation::Queue => types.reply::<QueueReply>(),
        Operation::Apply => types.reply::<ApplyReply>(),
        Operation::Document => Schema::from(Map::from_iter([("type".into(), json!("object"))])),
    };
    json!({ "application/json": { "schema": schema } })
}

/// The HTTP statuses of its refusals.
fn statuses(operation: Operation) -> Vec<u16> {
    let mut all = Vec::new();
    if operation.method() == Method::Post {
        all.extend([400, 408, 409, 413]);
    }
    if operation == Operation::Events {
        all.extend([400, 404]);
    }
    if operation.path().contains("{group}") {
        all.push(404);
    }
    all.extend([500, 503]);
    all.sort_unstable();
    all
}
