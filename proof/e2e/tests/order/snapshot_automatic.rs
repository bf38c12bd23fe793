// SPDX-License-Identifier: Apache-2.0
//! Automatic snapshots: the same on both nodes, whichever is primary, and only as many as `retain` says.

use crate::snapshot::names;
use helio_e2e::{begin, wait, wait_level};
use helio_testkit::{Pair, Plan, eventually};
use helio_units::Bytes;
use std::time::Duration;

/// Far longer than three times the interval.
const PATIENCE: Duration = Duration::from_secs(60);
/// One every five seconds.
const RETAIN: &str = "retain = \"12 per minute\"\n";
const KEPT: usize = 12;

/// The name of an automatic snapshot of long ago.
fn old(number: usize) -> String {
    format!("auto-2020-01-01T00:00:{:02}Z", number * 5)
}

/// A pair with one snapshot of an operator, and as many automatic ones of long ago as are kept.
fn prepared() -> Pair {
    let pair = Plan::new("db").volume("data", Bytes::mib(4)).start();
    begin(&pair, "paris");
    pair.helio("paris", &["snapshot", "create", "mine"]).expect_success();
    for number in 0..KEPT {
        pair.helio("paris", &["snapshot", "create", &old(number)]).expect_success();
    }
    eventually(PATIENCE, "the same snapshots on lyon", || {
        (names(&pair, "lyon").len() == KEPT + 1).then_some(())
    });
    pair
}

/// Sets `retain` on both nodes.
fn retain(pair: &Pair) {
    let text = std::fs::read_to_string(pair.config()).expect("it can be read");
    let text = text.replacen("[group.db]\n", &format!("[group.db]\n{RETAIN}"), 1);
    std::fs::write(pair.config(), text).expect("it can be written");
    for node in ["paris", "lyon"] {
        let applied = pair.helio(node, &["apply"]).expect_success();
        assert!(applied.contains("group db: retain none -> 12 per minute"), "{applied}");
    }
}

/// Those of now, the oldest first.
fn recent(names: &[String]) -> Vec<String> {
    let is_recent = |name: &&String| name.starts_with("auto-") && !name.starts_with("auto-2020");
    names.iter().filter(is_recent).cloned().collect()
}

/// Waits until the node has an automatic snapshot that is later than all of `before`, and as many as are kept; returns all names.
fn wait_for_more(pair: &Pair, node: &str, before: &[String]) -> Vec<String> {
    eventually(PATIENCE, "a later automatic snapshot", || {
        let names = names(pair, node);
        let is_more = recent(&names).last() > recent(before).last();
        (is_more && names.len() == KEPT + 1).then_some(names)
    })
}

#[test]
fn automatic_snapshots_are_the_same_on_both_nodes_and_continue_on_the_next_primary() {
    let mut pair = prepared();
    retain(&pair);
    let first = wait_for_more(&pair, "paris", &[]);
    assert!(!first.contains(&old(0)) && first.contains(&old(KEPT - 1)), "{first:?}");
    assert_eq!(first[0], "mine");
    eventually(PATIENCE, "the same snapshots on both nodes", || {
        (names(&pair, "lyon") == names(&pair, "paris")).then_some(())
    });
    pair.helio("paris", &["switch", "db"]).expect_success();
    wait_level(&pair, "lyon");
    let second = wait_for_more(&pair, "lyon", &names(&pair, "lyon"));
    let last = recent(&second).pop().expect("one");
    eventually(PATIENCE, "the snapshot of lyon on paris", || {
        names(&pair, "paris").contains(&last).then_some(())
    });
    pair.daemon("lyon").kill9();
    wait(&pair, "paris", "the loss", |status| status["peer"]["connection"] != "connected");
    pair.helio("paris", &["promote", "db", "--force", "--yes"]).expect_success();
    let third = wait_for_more(&pair, "paris", &second);
    assert_eq!(third[0], "mine");
    assert!(!third.contains(&old(2)), "three more, and three less: {third:?}");
}

#[test]
fn a_secondary_deletes_what_its_primary_could_not_delete_there() {
    let pair = prepared();
    // Order is given up, so the peer deletes nothing.
    pair.helio("paris", &["pause", "db"]).expect_success();
    for number in 0..KEPT {
        let name = format!("db@{}", old(number));
        pair.helio("paris", &["snapshot", "delete", &name, "--yes"]).expect_success();
    }
    pair.helio("paris", &["resume", "db"]).expect_success();
    wait_level(&pair, "paris");
    assert_eq!((names(&pair, "paris").len(), names(&pair, "lyon").len()), (1, KEPT + 1));
    retain(&pair);
    eventually(PATIENCE, "lyon to delete its oldest", || {
        let names = names(&pair, "lyon");
        (!names.contains(&old(0)) && !recent(&names).is_empty()).then_some(())
    });
    let left = names(&pair, "lyon");
    assert!(left.contains(&old(KEPT - 1)) && left[0] == "mine", "{left:?}");
    assert!(names(&pair, "paris").len() < KEPT, "it has nothing to delete");
}
