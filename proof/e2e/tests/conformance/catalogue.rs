// SPDX-License-Identifier: Apache-2.0
//! The list of checks in the documents is the list of tests here.

use std::path::Path;

const SOURCES: [(&str, &str); 7] = [
    ("Before an export is entered", include_str!("handshake.rs")),
    ("Requests", include_str!("requests.rs")),
    ("Read-only copies", include_str!("copies.rs")),
    ("TLS", include_str!("tls.rs")),
    ("Hostile clients", include_str!("hostile.rs")),
    ("Load", include_str!("load.rs")),
    ("File descriptors", include_str!("descriptors.rs")),
];
const BEGIN: &str =
    "<!-- checks: made from the tests; HELIO_REWRITE=1 cargo test -p helio-e2e catalogue -->\n";
const END: &str = "<!-- end of checks -->\n";

fn list() -> String {
    let mut text = String::new();
    for (heading, source) in SOURCES {
        text.push_str(&format!("\n**{heading}**\n\n"));
        for test in source.split("#[test]\nfn ").skip(1) {
            let name = test.split('(').next().unwrap_or_default();
            text.push_str(&format!("- {}\n", name.replace('_', " ")));
        }
    }
    text + "\n"
}

#[test]
fn the_documents_list_every_check() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/nbd.md");
    let text = std::fs::read_to_string(&page).expect("the page is there");
    let (head, rest) = text.split_once(BEGIN).expect("the list begins");
    let (_, tail) = rest.split_once(END).expect("the list ends");
    let fresh = [head, BEGIN, &list(), END, tail].concat();
    if std::env::var_os("HELIO_REWRITE").is_some() {
        std::fs::write(&page, &fresh).expect("the page can be written");
    }
    let now = std::fs::read_to_string(&page).expect("the page is there");
    assert_eq!(now, fresh, "the list of checks is stale; {BEGIN}");
}
