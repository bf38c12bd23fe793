// SPDX-License-Identifier: Apache-2.0
//! Snapshots: at the same write on both nodes, while clients write; without space they end, and nothing else does.

use helio_e2e::{Book, Load, begin, exported, wait_level};
use helio_testkit::{Dice, Pair, Plan, eventually, require, run};
use helio_units::Bytes;
use serde_json::Value;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Far longer than a snapshot should take.
const PATIENCE: Duration = Duration::from_secs(30);

fn list(pair: &Pair, node: &str) -> Value {
    pair.helio(node, &["snapshot", "list", "db", "--json"]).json()
}

/// Name, generation and position of each snapshot of a node.
pub(crate) fn places(pair: &Pair, node: &str) -> Vec<(String, String, u64)> {
    let list = list(pair, node);
    let snapshots = list["snapshots"].as_array().cloned().unwrap_or_default();
    let place = |it: &Value| {
        let text = |key: &str| it[key].as_str().unwrap_or_default().to_owned();
        assert_eq!(it["consistent"], true, "{it}");
        (text("name"), text("generation"), it["position"].as_u64().unwrap_or_default())
    };
    snapshots.iter().map(place).collect()
}

pub(crate) fn names(pair: &Pair, node: &str) -> Vec<String> {
    places(pair, node).into_iter().map(|(name, ..)| name).collect()
}

#[test]
fn snapshots_are_at_the_same_write_on_both_nodes_and_outlive_the_daemons() {
    let dice =
        Dice::of_test("snapshots_are_at_the_same_write_on_both_nodes_and_outlive_the_daemons");
    let mut pair = Plan::new("db").volume("data", Bytes::mib(16)).start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    let mut writers = Load::PLAIN.start(&pair, "paris", &dice, &book);
    for name in ["db@one", "db@two", "db@three"] {
        writers.write_for(Duration::from_millis(100));
        let told = pair.helio("paris", &["snapshot", "create", name]).expect_success();
        assert_eq!(told, format!("snapshot {} of db was created\n", &name[3..]));
    }
    writers.write_for(Duration::from_millis(100));
    writers.stop();
    wait_level(&pair, "paris");
    let here = places(&pair, "paris");
    assert_eq!(here.len(), 3);
    assert!(here.is_sorted_by_key(|(.., position)| *position), "{here:?}");
    eventually(PATIENCE, "the same snapshots on lyon", || {
        (places(&pair, "lyon") == here).then_some(())
    });
    pair.helio("paris", &["snapshot", "delete", "db@two", "--yes"]).expect_success();
    eventually(PATIENCE, "lyon to delete its own", || {
        (names(&pair, "lyon") == ["one", "three"]).then_some(())
    });
    let told = pair.helio("paris", &["snapshot", "refresh", "db@one", "--yes"]).expect_success();
    assert_eq!(told, "snapshot one of db was refreshed\n");
    let fresh = places(&pair, "paris");
    assert_eq!((&fresh[0], fresh[1].0.as_str()), (&here[2], "one"), "it is the newest now");
    eventually(PATIENCE, "lyon to refresh its own", || {
        (places(&pair, "lyon") == fresh).then_some(())
    });
    for node in ["lyon", "paris"] {
        pair.daemon(node).kill9();
        pair.start(node);
        assert_eq!(names(&pair, node), ["three", "one"], "behind a restart of {node}");
        let file = pair.state(node).join("groups/db.before");
        let shown = pair.helio(node, &["inspect", &file.display().to_string()]).expect_success();
        assert!(shown.contains(" three, id "), "{shown}");
    }
    wait_level(&pair, "paris");
}

#[test]
fn a_snapshot_reads_alike_on_both_nodes_whatever_is_written_since() {
    require!("qemu-img");
    let dice = Dice::of_test("a_snapshot_reads_alike_on_both_nodes_whatever_is_written_since");
    let mut pair = Plan::new("db").volume("data", Bytes::mib(16)).start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    Load { count: Some(500), ..Load::PLAIN }.run(&pair, "paris", &dice, &book);
    wait_level(&pair, "paris");
    let expected = std::fs::read(pair.member("paris", "data")).expect("the member is read");
    pair.helio("paris", &["snapshot", "create", "db@one"]).expect_success();
    eventually(PATIENCE, "lyon's snapshot", || (names(&pair, "lyon") == ["one"]).then_some(()));
    let mut writers = Load::PLAIN.start(&pair, "paris", &dice, &book);
    writers.write_for(Duration::from_millis(200));
    for node in ["paris", "lyon"] {
        assert_eq!(exported(&pair, node, "data@one"), expected, "{node}");
    }
    writers.stop();
    wait_level(&pair, "paris");
    pair.daemon("lyon").kill9();
    pair.start("lyon");
    assert_eq!(exported(&pair, "lyon", "data@one"), expected, "behind a restart");
    // Copied over the volume, it is replicated as every write is.
    wait_level(&pair, "paris");
    let (snapshot, volume) = (pair.export("paris", "data@one"), pair.export("paris", "data"));
    let copy = ["convert", "-n", "-f", "raw", "-O", "raw", &snapshot, &volume];
    run(Command::new("qemu-img").args(copy)).expect_success();
    wait_level(&pair, "paris");
    for node in ["paris", "lyon"] {
        assert_eq!(exported(&pair, node, "data:ro"), expected, "{node}");
        assert_eq!(exported(&pair, node, "data@one"), expected, "{node}");
    }
    let export = pair.export("lyon", "data@two");
    let refused = run(Command::new("qemu-img").args(["info", "-f", "raw", &export]));
    assert!(refused.expect_failure().contains("db has no snapshot two"));
    wait_level(&pair, "paris");
}

#[test]
fn without_space_snapshots_end_and_writes_go_on() {
    let dice = Dice::of_test("without_space_snapshots_end_and_writes_go_on");
    let line = "safe-copy = \"1MiB\"";
    let pair = Plan::new("db").volume("data", Bytes::mib(16)).group_line(line).start();
    begin(&pair, "paris");
    pair.helio("paris", &["snapshot", "create", "db@one"]).expect_success();
    let book = Arc::new(Book::new(dice.seed()));
    Load { count: Some(1000), ..Load::PLAIN }.run(&pair, "paris", &dice, &book);
    wait_level(&pair, "paris");
    for node in ["lyon", "paris"] {
        let list = list(&pair, node);
        assert_eq!(list["snapshots"], Value::Array(Vec::new()), "{list}");
        assert_eq!(list["missing"][0]["name"], "one", "{list}");
        let reason = list["missing"][0]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("no space"), "{list}");
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let pair = Plan::new("db").volume("data", Bytes::mib(4)).start();
    begin(&pair, "paris");
    let refused = |node: &str, line: &[&str], code: &str| {
        let line = [line, &["--json"]].concat();
        let error = pair.helio(node, &line).expect_failure();
        let error: Value =
            serde_json::from_str(&error).unwrap_or_else(|why| panic!("{why}: {error}"));
        assert_eq!(error["code"], code, "{error}");
        assert!(error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{error}");
    };
    pair.helio("paris", &["snapshot", "create", "one"]).expect_success();
    refused("paris", &["snapshot", "create", "db@one"], "snapshot-exists");
    refused("paris", &["snapshot", "create", "db@-x"], "bad-name");
    refused("paris", &["snapshot", "create", "mail@one"], "unknown-group");
    refused("lyon", &["snapshot", "create", "db@two"], "not-primary");
    refused("paris", &["snapshot", "create", "db@two", "--here"], "is-primary");
    refused("paris", &["snapshot", "refresh", "db@two", "--yes"], "unknown-snapshot");
    refused("paris", &["snapshot", "refresh", "db@one"], "needs-confirmation");
    refused("paris", &["snapshot", "delete", "db@two", "--yes"], "unknown-snapshot");
    refused("paris", &["snapshot", "delete", "db@one"], "needs-confirmation");
    let said = pair.helio("lyon", &["snapshot", "create", "db@two"]).expect_failure();
    assert!(said.contains("`helio snapshot create db@two` on the primary"), "{said}");
    assert_eq!(names(&pair, "paris"), ["one"]);
    // A secondary may delete what it has.
    eventually(PATIENCE, "lyon's snapshot", || (names(&pair, "lyon") == ["one"]).then_some(()));
    pair.helio("lyon", &["snapshot", "delete", "db@one", "--yes"]).expect_success();
    assert_eq!((names(&pair, "paris").len(), names(&pair, "lyon").len()), (1, 0));
}

#[test]
fn a_snapshot_that_the_secondary_created_itself_stays_whatever_its_primary_does_with_one_of_the_name()
 {
    let dice = Dice::of_test(
        "a_snapshot_that_the_secondary_created_itself_stays_whatever_its_primary_does_with_one_of_the_name",
    );
    let mut pair = Plan::new("db").volume("data", Bytes::mib(4)).start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    let mut writers = Load::PLAIN.start(&pair, "paris", &dice, &book);
    writers.write_for(Duration::from_millis(50));
    pair.helio("lyon", &["snapshot", "create", "db@own", "--here"]).expect_success();
    let own = places(&pair, "lyon");
    let missing = || list(&pair, "lyon")["missing"][0]["reason"].as_str().map(str::to_owned);
    let mut since = Value::Null;
    writers.write_for(Duration::from_millis(50));
    for line in [&["snapshot", "create", "db@own"][..], &["snapshot", "refresh", "db@own", "--yes"]]
    {
        pair.helio("paris", line).expect_success();
        let why = eventually(PATIENCE, "lyon to miss the one of paris", || {
            let now = list(&pair, "lyon")["missing"][0]["since_ms"].clone();
            missing().filter(|_| now != std::mem::replace(&mut since, now.clone()))
        });
        assert!(why.contains("this node has another snapshot own, which stays: "), "{why}");
        assert!(why.contains("`helio snapshot delete db@own --here` deletes it"), "{why}");
        assert_eq!(places(&pair, "lyon"), own);
    }
    pair.helio("paris", &["snapshot", "delete", "db@own", "--yes"]).expect_success();
    eventually(PATIENCE, "lyon to list it as missing no more", || {
        missing().is_none().then_some(())
    });
    writers.stop();
    wait_level(&pair, "paris");
    assert_eq!((places(&pair, "lyon"), names(&pair, "paris").len()), (own.clone(), 0));
    pair.daemon("lyon").terminate();
    let log = std::fs::read_to_string(pair.state("lyon").with_extension("log")).unwrap_or_default();
    let hint = "`helio snapshot delete db@own --here` deletes it";
    assert!(log.contains("paris deleted its snapshot own of db") && log.contains(hint), "{log}");
    pair.start("lyon");
    assert_eq!(places(&pair, "lyon"), own, "its id is in the file");
    pair.helio("lyon", &["snapshot", "delete", "db@own", "--here", "--yes"]).expect_success();
    assert_eq!(names(&pair, "lyon").len(), 0);
}
