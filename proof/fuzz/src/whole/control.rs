// SPDX-License-Identifier: Apache-2.0
//! Requests to the control plane of a daemon that serves clients. Operations, fields and words are those of the API's own description.

use super::schedule::Schedule;
use super::{Judged, LASTS_MOST, Stage, follow};
use helio_api::{ApiError, Method, Operation, document, paths};
use helio_whole::{Shape, Single};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

const METHODS: [&str; 6] = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"];
const GROUPS: [&str; 4] = ["db", "spool", "none", "%2e%2e%2fdb"];
/// Words that fields of any text may have.
const TEXTS: [&str; 10] = [
    "data",
    "junk",
    "lyon",
    "paris",
    "/disks/0/db-data.img",
    "/disks/0/spool-junk.img",
    "/disks/1/new.img",
    "/state/groups/db.meta",
    "/state/trace",
    "",
];
/// Every response comes within that time, also of an operation that waits for a peer.
const RESPONDS: Duration = Duration::from_secs(20);
const _: () = assert!(RESPONDS.as_secs() < LASTS_MOST.as_secs(), "no response could be late");
/// Most requests at once: more than that wait until there are responses.
const WAITING_MOST: usize = 32;
/// Orders that give something up that a node had confirmed, or its role.
const GIVES_UP: [Operation; 8] = [
    Operation::Resolve,
    Operation::Reverse,
    Operation::MemberAccept,
    Operation::MemberReplace,
    Operation::Promote,
    Operation::Demote,
    Operation::Release,
    Operation::SeedEnd,
];

/// The schema of each operation's body, with every reference resolved one level deep; and the words of its fields.
fn fields() -> &'static [Map<String, Value>] {
    static FIELDS: OnceLock<Vec<Map<String, Value>>> = OnceLock::new();
    FIELDS.get_or_init(|| {
        let document = document("0");
        Operation::ALL
            .map(|operation| {
                let method = if operation.method() == Method::Get { "get" } else { "post" };
                let at = &document["paths"][operation.path()][method];
                let schema = &at["requestBody"]["content"]["application/json"]["schema"];
                let schema = resolved(&document, schema);
                schema["properties"].as_object().cloned().unwrap_or_default()
            })
            .into_iter()
            .map(|fields| {
                let resolve = |(name, field): (String, Value)| (name, resolved(&document, &field));
                fields.into_iter().map(resolve).collect()
            })
            .collect()
    })
}

/// What a schema says: the type that it refers to, or the first of several that is not null.
fn resolved(document: &Value, schema: &Value) -> Value {
    let several = ["anyOf", "oneOf"].iter().find_map(|of| schema[of].as_array());
    if let Some(several) = several.filter(|all| !all.iter().all(|it| it.get("const").is_some())) {
        let first = several.iter().find(|it| it["type"] != "null");
        return first.map_or(Value::Null, |it| resolved(document, it));
    }
    let named = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#'));
    named.and_then(|named| document.pointer(named)).unwrap_or(schema).clone()
}

/// A value for a field: one of its words, or something of its type, or something of another.
fn value(field: &Value, schedule: &mut Schedule<'_>, deep: u8) -> Value {
    let chosen = schedule.next().unwrap_or_default();
    let words = field["enum"].as_array().cloned().or_else(|| {
        let several = field["oneOf"].as_array()?;
        Some(several.iter().filter_map(|it| it.get("const").cloned()).collect())
    });
    if let Some(words) = words.filter(|words| !words.is_empty() && chosen < 0xe0) {
        return words[usize::from(chosen) % words.len()].clone();
    }
    let text = || json!(TEXTS[usize::from(chosen) % TEXTS.len()]);
    match (field["type"].as_str(), chosen) {
        (_, 0xf8..) => json!(null),
        (_, 0xf4..) => json!(-1.5),
        (_, 0xf0..) => json!([text()]),
        (_, 0xe8..) => json!(u64::MAX),
        (_, 0xe0..) => text(),
        (Some("boolean"), _) => json!(chosen & 1 == 0),
        (Some("integer" | "number"), _) => json!(1_u64 << (chosen % 40)),
        (Some("object"), _) if deep > 0 => {
            let inner = field["properties"].as_object().cloned().unwrap_or_default();
            Value::Object(object(&inner, schedule, deep - 1))
        }
        (Some("object"), _) => json!({ "bytes": 1_u64 << (chosen % 40) }),
        _ => text(),
    }
}

/// Fields as a byte of bits chooses.
fn object(
    fields: &Map<String, Value>,
    schedule: &mut Schedule<'_>,
    deep: u8,
) -> Map<String, Value> {
    let left_out = schedule.next().unwrap_or_default();
    let chosen = fields.iter().enumerate().filter(|(n, _)| left_out >> (n % 8) & 1 == 0);
    chosen.map(|(_, (name, field))| (name.clone(), value(field, schedule, deep))).collect()
}

/// The operation of the judged group that may give something up, if that is what a request is routed to.
fn gives_up(method: &str, path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    let is_asked = |it: &Operation| paths::of_group(it.path(), GROUPS[0]) == path;
    method == "POST" && GIVES_UP.iter().any(is_asked)
}

/// Requests that wait for their response: what they ask, and since when.
#[derive(Default)]
pub(super) struct Asked(BTreeMap<u64, (String, Duration)>);

impl Asked {
    fn send(&mut self, single: &mut Single, (method, path): (&'static str, String), body: Vec<u8>) {
        // The thread that writes a trace would not return in a simulated world.
        if path.contains("trace") {
            return;
        }
        let shown = format!("{method} {path} {}", String::from_utf8_lossy(&body));
        let gives_up = gives_up(method, &path);
        if let Some(number) = single.order(method, path, body) {
            if gives_up {
                single.may_lose(number);
            }
            self.0.insert(number, (shown, single.passed()));
        }
    }

    fn operation(&mut self, schedule: &mut Schedule<'_>, single: &mut Single) {
        let number = usize::from(schedule.below(Operation::ALL.len() as u8));
        let operation = Operation::ALL[number];
        let path = paths::of_group(operation.path(), GROUPS[usize::from(schedule.below(4))]);
        let method = if operation.method() == Method::Get { "GET" } else { "POST" };
        // The stream of events has no end by itself.
        let query = if operation == Operation::Events { "?now=true" } else { "" };
        let fields = &fields()[number];
        let body = if fields.is_empty() { Map::new() } else { object(fields, schedule, 2) };
        let body = if operation.method() == Method::Get { Vec::new() } else { text(body) };
        self.send(single, (method, format!("{path}{query}")), body);
    }

    fn any(&mut self, schedule: &mut Schedule<'_>, single: &mut Single) {
        let number = usize::from(schedule.below(Operation::ALL.len() as u8));
        let method = METHODS[usize::from(schedule.below(6))];
        let group = GROUPS[usize::from(schedule.below(4))];
        let path = paths::of_group(Operation::ALL[number].path(), group);
        let beyond: String = schedule.bytes().iter().map(|byte| spelled(*byte)).collect();
        let body = schedule.bytes().to_vec();
        let path = format!("{path}{beyond}");
        // Without an end there is no response.
        if path.starts_with(paths::EVENTS) && method == "GET" {
            return;
        }
        self.send(single, (method, path), body);
    }
}

fn text(body: Map<String, Value>) -> Vec<u8> {
    Value::Object(body).to_string().into_bytes()
}

/// A byte of a path or query as it may travel.
fn spelled(byte: u8) -> String {
    match byte {
        b'/' | b'?' | b'&' | b'=' | b'-' | b'_' | b'.' | b'~' | b'+' | b':' | b'@' => {
            char::from(byte).to_string()
        }
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    }
}

impl Stage for Asked {
    fn act(&mut self, what: u8, schedule: &mut Schedule<'_>, single: &mut Single) -> Judged {
        if single.waiting() >= WAITING_MOST {
            single.pass(Duration::from_secs(1))?;
        }
        match what % 4 {
            0 | 1 => self.operation(schedule, single),
            2 => self.any(schedule, single),
            // So much time that an operation can end.
            _ => return single.pass(Duration::from_millis(100) * schedule.number()),
        }
        single.pass(Duration::from_micros(100))
    }

    fn look(&mut self, single: &mut Single) -> Judged {
        for response in single.responses() {
            let Some((shown, _)) = self.0.remove(&response.request()) else { continue };
            let status = response.status();
            let told = String::from_utf8_lossy(response.body());
            assert!(status != 0 && status != 500, "{shown}: {status} {told}");
            if status != 200 && !shown.starts_with("HEAD") {
                let error = serde_json::from_slice::<ApiError>(response.body());
                let error = error.unwrap_or_else(|why| panic!("{shown}: {status} {why} {told}"));
                assert!(!error.error.is_empty() && error.hint.is_some(), "{shown}: {told}");
                assert_eq!(error.http_status(), status, "{shown}: {told}");
            }
        }
        if single.waiting() == 0 {
            // A daemon that was killed responds to nothing.
            self.0.clear();
        }
        let late = self.0.values().find(|(_, since)| single.passed() > *since + RESPONDS);
        assert!(late.is_none(), "{late:?} has no response");
        Ok(())
    }
}

pub(crate) fn run(data: &[u8]) {
    follow(Shape::Both, data, &mut Asked::default());
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let place = |wanted| Operation::ALL.iter().position(|it| *it == wanted).unwrap_or_default();
    let each = Operation::ALL.into_iter().map(|operation| {
        let number = place(operation) as u8;
        let clients = [3, 0, 0, 0, 20, 2, 0, 3, 12, 3, 0, 9, 1, 3, 0, 9];
        let steps = [10, number, 0, 0, 0, 2, 4, 6, 10, number, 1, 0, 1, 3, 5, 13, 20];
        (operation.name(), [&clients[..], &steps].concat())
    });
    let odd =
        [12, place(Operation::Pause) as u8, 3, 2, 4, b'/', b'?', b'a', b'=', 3, b'{', b'}', 0];
    each.chain([("odd", odd.to_vec())]).collect()
}
