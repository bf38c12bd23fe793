// SPDX-License-Identifier: Apache-2.0
//! Nodes whose addresses are names of hosts: resolved at every connection attempt, and reported if that fails.

use crate::common::{PATIENCE, assert_says, fails, promote, rewrite, verb};
use helio_testkit::{Pair, Plan, eventually};
use helio_units::Bytes;
use std::net::SocketAddr;

/// RFC 2606 keeps this name from ever having an address.
const NOWHERE: &str = "paris.invalid";

/// A pair, the address of the node that lyon connects to being a name.
fn named(host: &str) -> (Pair, SocketAddr) {
    let plan = Plan::new("db").volume("data", Bytes::mib(4));
    let paris = plan.dialled();
    let pair = plan.prepare();
    set_host(&pair, &format!("address = \"{paris}\""), host, paris);
    (pair, paris)
}

fn set_host(pair: &Pair, from: &str, host: &str, listen: SocketAddr) {
    let port = listen.port();
    rewrite(pair, from, &format!("address = \"{host}:{port}\"\nlisten = \"{listen}\""));
}

/// The first three lines of a group's status on a node, the verdict and why.
fn glance(pair: &Pair, node: &str) -> String {
    pair.helio(node, &["status", "db"]).stdout
}

#[test]
fn a_peer_is_reached_by_name_at_any_of_its_addresses() {
    let (mut pair, paris) = named("localhost");
    pair.start("paris");
    pair.start("lyon");
    promote(&pair, "paris");
    let status = pair.status("lyon");
    let name = format!("localhost:{}", paris.port());
    assert_eq!(status["groups"][0]["peer"]["address"], name.as_str(), "{status:#}");
    let told = verb(&[], "check", "lyon", pair.config(), &pair.state("lyon"));
    assert_eq!(fails(&told), [], "{told}");
    assert_says(&told.stdout, &[&format!("{name} (127.0.0.1:{}) responds in", paris.port())]);
    // The peer is away and comes back: the name is resolved again.
    assert!(pair.daemon("paris").terminate().success());
    pair.start("paris");
    promote(&pair, "paris");
    pair.helio("lyon", &["apply"]).expect_success();
}

#[test]
fn a_name_that_cannot_be_resolved_is_the_reason_shown_and_logged_once() {
    let (mut pair, paris) = named(NOWHERE);
    pair.start("paris");
    pair.start("lyon");
    let why = format!("cannot resolve {NOWHERE}: ");
    eventually(PATIENCE, "the reason", || glance(&pair, "lyon").contains(&why).then_some(()));
    assert_says(&glance(&pair, "lyon"), &[&format!("getent hosts {NOWHERE}")]);
    let status = pair.status("lyon");
    let reason = status["groups"][0]["peer"]["reason"].as_str().expect("a text").to_owned();
    assert!(reason.starts_with(&why), "{status:#}");
    let told = verb(&[], "check", "lyon", pair.config(), &pair.state("lyon"));
    assert_eq!(fails(&told), [], "a name server may come back: {told}");
    assert_says(&told.stdout, &[&why, "getent hosts"]);
    let log = pair.daemon("lyon").log();
    assert_eq!(log.matches(&why).count(), 1, "{log}");

    // With a name that has an address the link comes up.
    let old = format!("address = \"{NOWHERE}:{}\"\nlisten = \"{paris}\"", paris.port());
    set_host(&pair, &old, "localhost", paris);
    pair.start("lyon");
    promote(&pair, "paris");
}
