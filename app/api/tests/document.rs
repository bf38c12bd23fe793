// SPDX-License-Identifier: Apache-2.0
//! The description of the API in the tree is the one the types give, and is whole.

use helio_api::{Operation, code, document};
use serde_json::Value;
use std::collections::BTreeSet;

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

#[test]
fn every_code_of_a_refusal_is_one_word_and_stands_once() {
    let codes: BTreeSet<&str> = code::ALL.iter().map(|(code, ..)| *code).collect();
    assert_eq!(codes.len(), code::ALL.len());
    assert!(codes.iter().all(|c| c.chars().all(|c| c.is_ascii_lowercase() || c == '-')));
}
