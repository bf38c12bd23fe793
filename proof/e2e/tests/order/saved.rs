// SPDX-License-Identifier: Apache-2.0
//! Data that was saved before it was overwritten: listed, bounded, and deleted only when that is confirmed.

use helio_e2e::{begin, wait_level};
use helio_nbd::Client;
use helio_testkit::{Pair, Plan, Told};
use helio_units::Bytes;

const REVERSE: [&str; 4] = ["resync", "db", "--reverse", "--yes"];

/// Stops replication and writes so much on paris, which a reverse resync overwrites.
fn spoil(pair: &Pair, length: usize) {
    wait_level(pair, "paris");
    pair.helio("paris", &["pause", "db"]).expect_success();
    let socket = pair.state("paris").join("nbd.sock");
    let mut client = Client::connect_unix(socket, "db/data").expect("connects");
    client.write(0, &vec![7; length], true).expect("writes");
    client.disconnect().expect("leaves");
}

fn list(pair: &Pair) -> serde_json::Value {
    pair.helio("paris", &["saved", "list", "db", "--json"]).json()
}

#[track_caller]
fn refused(told: &Told, code: i32, phrases: &[&str]) {
    assert_eq!(told.status.code(), Some(code), "{told}");
    phrases.iter().for_each(|phrase| assert!(told.stderr.contains(phrase), "{phrase}: {told}"));
}

#[test]
fn what_a_reverse_resync_saved_is_listed_bounded_and_deleted() {
    let plan = Plan::new("db").volume("data", Bytes::mib(16));
    let pair = plan.node_line("paris", "saved-limit = \"1MiB\"").start();
    begin(&pair, "paris");
    assert_eq!(list(&pair)["used_bytes"], 0);
    spoil(&pair, 64 << 10);
    pair.helio("paris", &[&REVERSE[..], &["--wait"]].concat()).expect_success();

    let told = list(&pair);
    let copy = &told["saved"][0];
    assert_eq!((&copy["group"], &copy["complete"]), (&"db".into(), &true.into()), "{told}");
    assert_eq!(copy["why"], "overwritten by a reverse resync", "{told}");
    let image = copy["volumes"][0]["path"].as_str().expect("a path");
    assert_eq!(std::fs::read(image).expect("it is there")[..64 << 10], [7; 64 << 10]);
    assert_eq!(told["limit_bytes"], 1 << 20);
    let text = pair.helio("paris", &["saved", "list"]).expect_success();
    assert!(
        text.contains(image) && text.contains("of 1 MiB (saved-limit) used on paris"),
        "{text}"
    );
    let name = copy["name"].as_str().expect("a name");

    // The limit counts it. Nothing is overwritten then.
    spoil(&pair, 1 << 20);
    let told = pair.helio("paris", &REVERSE);
    refused(&told, 1, &["the limit is 1 MiB", "helio saved list", "helio saved delete"]);
    let member = std::fs::read(pair.member("paris", "data")).expect("it is there");
    assert!(member[..1 << 20].iter().all(|byte| *byte == 7), "paris still has what it wrote");

    // Deleting asks.
    refused(&pair.helio("paris", &["saved", "delete", name]), 4, &["--yes", name]);
    refused(&pair.helio("paris", &["saved", "delete", "--all"]), 4, &["--yes"]);
    refused(&pair.helio("paris", &["saved", "delete", "../before", "--yes"]), 1, &["saved list"]);
    assert!(std::path::Path::new(image).exists());
    pair.helio("paris", &["saved", "delete", name, "--yes"]).expect_success();
    assert_eq!(list(&pair)["saved"], serde_json::json!([]));
    pair.helio("paris", &[&REVERSE[..], &["--wait"]].concat()).expect_success();
    assert_eq!(list(&pair)["used_bytes"], 1 << 20);
    pair.helio("paris", &["saved", "delete", "--all", "--yes"]).expect_success();
    assert_eq!(list(&pair)["used_bytes"], 0);
}
