// SPDX-License-Identifier: Apache-2.0
//! The description of the API in the tree is the one the types give, and is whole.

use helio_api::{Operation, code, document};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");

#[test]
fn the_description_in_the_tree_is_the_one_of_the_types() {
    let wanted = document(env!("CARGO_PKG_VERSION"));
    if std::env::var_os("HELIO_REWRITE").is_some() {
        std::fs::write(FILE, format!("{wanted:#}\n")).expect("the tree can be written");
    }
    let kept = std::fs::read(FILE).expect("the description is kept in the tree");
    let kept: Value = serde_json::from_slice(&kept).unwrap_or_default();
    assert!(
        kept == wanted,
        "docs/reference/openapi.json is stale; rewrite it: HELIO_REWRITE=1 cargo test -p helio-api --test document"
    );
}

/// Everything a reference in the document points to.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(to) if name == "$ref" => {
                        found.insert(to.clone());
                    }
                    value => references(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_to_a_described_type_and_every_type_is_used() {
    let document = document("0");
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    let types = document["components"]["schemas"].as_object().expect("types");
    let there: BTreeSet<String> =
        types.keys().map(|name| format!("#/components/schemas/{name}")).collect();
    assert_eq!(found, there);
}

#[test]
fn every_operation_and_every_field_says_what_it_is() {
    let document = document("0");
    for operation in Operation::ALL {
        let at = &document["paths"][operation.path()];
        let of: Vec<_> = at.as_object().expect("a path").values().collect();
        assert!(
            of.iter().any(|o| o["operationId"] == operation.name() && o["summary"].is_string())
        );
    }
    for (name, schema) in document["components"]["schemas"].as_object().expect("types") {
        for (field, of) in schema["properties"].as_object().into_iter().flatten() {
            assert!(of["description"].is_string(), "{name}.{field} is not described");
        }
    }
}

/// Every source of a room, with its path in it.
fn sources(room: &str) -> Vec<(String, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(room)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the house").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).expect("a source");
                found.push((path.to_string_lossy().into_owned(), text));
            }
        }
    }
    found
}

/// The codes that the sources of a room refuse with.
fn codes_in(room: &str, found: &mut BTreeSet<String>) {
    for (_, text) in sources(room) {
        for call in ["Refusal::new(", "Refusal::later(", "ApiError::new("] {
            for (at, _) in text.match_indices(call) {
                let rest = text[at + call.len()..].trim_start();
                let code = rest.strip_prefix('"').and_then(|rest| rest.split('"').next());
                found.extend(code.map(str::to_owned));
            }
        }
    }
}

#[test]
fn every_code_that_is_refused_with_is_described() {
    let mut used = BTreeSet::new();
    for room in ["core/engine/src", "app/daemon/src", "app/cli/src"] {
        codes_in(room, &mut used);
    }
    assert!(used.len() > 10, "the sources are written in another way now: {used:?}");
    let described: BTreeSet<String> =
        code::ALL.iter().map(|(code, ..)| (*code).to_owned()).collect();
    let missing: Vec<_> = used.difference(&described).collect();
    assert!(missing.is_empty(), "add them to `code::ALL`: {missing:?}");
}

/// The engine's stories judge the form of every refusal they meet.
#[test]
fn every_refusal_of_the_engine_has_a_story() {
    const ENGINE: &str = "core/engine/src";
    let is_told = |path: &String| path.contains("stories") || path.ends_with("_tests.rs");
    let stories: String = sources(ENGINE)
        .into_iter()
        .filter(|(path, _)| is_told(path))
        .map(|(_, text)| text)
        .collect();
    let mut codes = BTreeSet::new();
    codes_in(ENGINE, &mut codes);
    assert!(codes.len() > 35, "the sources are written in another way now: {codes:?}");
    // Of a before-image file that fails: the simulator judges it.
    codes.remove("before-failed");
    codes.retain(|code| !stories.contains(&format!("\"{code}\"")));
    assert!(codes.is_empty(), "no story meets {codes:?}");
}

#[test]
fn every_code_of_a_refusal_is_one_word_and_stands_once() {
    let codes: BTreeSet<&str> = code::ALL.iter().map(|(code, ..)| *code).collect();
    assert_eq!(codes.len(), code::ALL.len());
    assert!(codes.iter().all(|c| c.chars().all(|c| c.is_ascii_lowercase() || c == '-')));
}
