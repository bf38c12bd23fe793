// SPDX-License-Identifier: Apache-2.0
//! A node's key is changed for another while it runs.

use crate::common::{Caller, apply, assert_says, new_key, node_key};
use helio_e2e::{Book, Load, Promise, assert_members_equal, begin, group, image, wait, wait_level};
use helio_testkit::{Dice, Pair, Plan};
use helio_tls::{PublicKey, Purpose, TlsError};
use helio_units::{Bytes, Mode};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

fn plan() -> Plan {
    Plan::new("db").mode(Mode::Sync).keys().volume("data", Bytes::mib(16))
}

/// Lyon's keys, and where the old one is kept.
struct Keys {
    old: PublicKey,
    new: PublicKey,
    kept: PathBuf,
}

/// Lyon gets another key, which both nodes are told of first; it shows the new one from now on.
#[track_caller]
fn change_key(pair: &Pair) -> Keys {
    let (own, kept) = (pair.state("lyon").join("node.key"), pair.scratch().join("old.key"));
    let next = pair.scratch().join("next.key");
    let (old, new) = (node_key(pair, "lyon"), new_key(&next));
    let both = format!("keys = [\"{old}\", \"{new}\"]");
    for said in apply(pair, &format!("key = \"{old}\""), &both) {
        assert_eq!(said, format!("changed: node lyon: key {new} added\n"));
    }
    fs::rename(&own, &kept).and_then(|()| fs::rename(next, own)).expect("both are there");
    let would = pair.helio("lyon", &["apply", "--dry-run"]).expect_success();
    assert_eq!(would, format!("would change: node lyon: shows the key {new}\n"));
    let said = pair.helio("lyon", &["apply"]).expect_success();
    assert_eq!(said, format!("changed: node lyon: shows the key {new}\n"));
    assert_eq!(pair.helio("lyon", &["apply"]).expect_success(), "nothing to change\n");
    Keys { old, new, kept }
}

/// Both nodes are told to forget the old key.
#[track_caller]
fn forget_old(pair: &Pair, Keys { old, new, .. }: &Keys) {
    let both = format!("keys = [\"{old}\", \"{new}\"]");
    for said in apply(pair, &both, &format!("key = \"{new}\"")) {
        assert_eq!(said, format!("changed: node lyon: key {old} removed\n"));
    }
}

#[test]
fn a_key_changes_under_load_and_the_link_stays() {
    let dice = Dice::of_test("a_key_changes_under_load_and_the_link_stays");
    let plan = plan();
    let address = plan.dialled();
    let mut pair = plan.start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    let mut writers = Load::PLAIN.start(&pair, "paris", &dice, &book);
    let since = |pair: &Pair| group(pair, "paris")["peer"]["connection_since_ms"].clone();

    let first = since(&pair);
    let keys = change_key(&pair);
    writers.write_for(Duration::from_millis(100));
    let status = group(&pair, "paris");
    assert_eq!(status["peer"]["connection_since_ms"], first, "the link was lost");
    assert_eq!(status["peer"]["key"], keys.old.to_string().as_str(), "of when it was made");
    assert_eq!(status["verdict"]["word"], "ok", "{status}");

    // Made anew, for whatever reason, the connection has the new key; the old one is not missed then.
    assert!(pair.daemon("lyon").terminate().success());
    pair.start("lyon");
    wait(&pair, "paris", "the new key", |g| g["peer"]["key"] == keys.new.to_string().as_str());
    wait(&pair, "paris", "replicating", |g| g["state"] == "replicating");
    let second = since(&pair);
    forget_old(&pair, &keys);
    writers.write_for(Duration::from_millis(100));
    assert_eq!(since(&pair), second, "the link was lost");

    let paris = node_key(&pair, "paris");
    let (said, why) = Caller::call(address, &keys.kept, paris, Purpose::Peer).hear_out();
    assert_eq!(said, b"");
    assert!(matches!(why, Some(TlsError::RefusedByPeer { .. })), "{why:?}");

    writers.stop();
    assert_eq!(book.failures(), []);
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    let after = image(&pair, "lyon", book.run());
    book.assert_holds("lyon", &after, Promise::Everything);
}

#[test]
fn a_connection_whose_key_is_forgotten_ends_at_once_and_is_made_again_with_the_new_one() {
    let mut pair = plan().start();
    begin(&pair, "paris");
    let keys = change_key(&pair);
    forget_old(&pair, &keys);
    wait(&pair, "paris", "the new key", |g| g["peer"]["key"] == keys.new.to_string().as_str());
    wait_level(&pair, "paris");
    assert_says(&pair.daemon("paris").log(), &["the peer's key is no longer accepted"]);
}

#[test]
fn an_apply_with_a_key_that_cannot_serve_changes_nothing() {
    let mut pair = plan().start();
    begin(&pair, "paris");
    let key = pair.state("lyon").join("node.key");
    fs::set_permissions(&key, PermissionsExt::from_mode(0o640)).expect("set");
    for arguments in [&["apply"][..], &["apply", "--dry-run"]] {
        let told = pair.helio("lyon", arguments);
        assert_says(&told.expect_failure(), &["other users may read it", "chmod 600"]);
    }
    fs::remove_file(&key).expect("it is there");
    let other = new_key(&key).to_string();
    let told = pair.helio("lyon", &["apply"]).expect_failure();
    assert_says(&told, &[&other, "the configuration has another key for this node"]);
    helio_e2e::wait_state(&pair, "paris", "replicating");
    let log = pair.daemon("paris").log();
    assert!(!log.contains("no longer accepted"), "{log}");
}
