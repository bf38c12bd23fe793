// SPDX-License-Identifier: Apache-2.0
//! A link on which connections begin and none lasts: what both nodes say of it, how often they try, and how much they log.

use crate::reports::{SOME, level};
use helio_e2e::{Book, PATIENCE, Promise, group, image, pass, wait, wait_level};
use helio_testkit::{Dice, Pair, eventually, rounds};
use helio_units::Bytes;
use helio_wan::{Cut, Relay};
use serde_json::Value;
use std::time::{Duration, Instant};

const NODES: [&str; 2] = ["lyon", "paris"];
/// A silence ends a connection after this time.
const TIMEOUT: &str = "peer-timeout = \"3s\"";
/// The messages of a handshake and some heartbeats pass, and no write does.
const SMALL: Bytes = Bytes(3000);

/// Lines of a daemon's log.
fn lines(pair: &mut Pair, node: &str) -> usize {
    pair.daemon(node).log().lines().count()
}

/// What a status says while no connection lasts, whatever the connection does at that moment.
fn says_so(status: &Value) {
    assert_eq!(status["verdict"]["word"], "at-risk", "{status}");
    let (why, next) = (&status["verdict"]["why"], &status["next"]);
    let has = |text: &Value, words: &str| text.as_str().is_some_and(|text| text.contains(words));
    assert!(has(why, " connections to ") && has(why, " ended since "), "{status}");
    assert!(has(next, "check the ") && has(next, "the network between"), "{status}");
    assert!(!has(next, "--force"), "{status}");
}

/// What is counted for some seconds, while what is wrong goes on.
struct Window {
    began: Instant,
    accepted: u64,
    logged: [usize; 2],
}

impl Window {
    fn open(pair: &mut Pair, relay: &Relay) -> Self {
        let logged = NODES.map(|node| lines(pair, node));
        Self { began: Instant::now(), accepted: relay.control().stats().accepted.0, logged }
    }

    fn is_open(&self) -> bool {
        self.began.elapsed() < Duration::from_secs(6 * rounds(1))
    }

    /// At most one connection a second, and one line for two of them.
    fn close(self, pair: &mut Pair, relay: &Relay) {
        let passed = self.began.elapsed();
        let most = passed.as_secs() + 2;
        let connections = relay.control().stats().accepted.0 - self.accepted;
        println!("{connections} connections in {passed:?}");
        assert!(connections <= most, "{connections} connections in {passed:?}");
        for (node, before) in NODES.iter().zip(self.logged) {
            let logged = (lines(pair, node) - before) as u64;
            println!("{logged} lines of {node}");
            assert!(logged <= most / 2 + 3, "{node} logged {logged} lines in {passed:?}");
        }
    }
}

/// The link is sound again: that is said once a connection has lasted, and nothing is missing.
fn ends_well(pair: &Pair, relay: &Relay, book: &Book) {
    relay.control().heal();
    wait_level(pair, "paris");
    for node in NODES {
        eventually(PATIENCE, "a connection that lasts", || {
            let status = group(pair, node);
            (status["peer"]["attempts"].is_null() && status["verdict"]["word"] == "ok")
                .then_some(())
        });
    }
    let after = image(pair, "lyon", book.run());
    book.assert_holds("lyon", &after, Promise::Everything);
}

/// Waits until both nodes call the link unsteady for that reason.
fn await_unsteady(pair: &Pair, kind: &str) {
    for node in NODES {
        wait(pair, node, "the attempts", |status| status["peer"]["attempts"]["unsteady"] == kind);
    }
}

#[test]
fn a_link_that_carries_small_packets_alone_is_named_on_both_nodes_and_tried_seldom() {
    let dice = Dice::of_test("a_link_that_carries_small_packets_alone_is_named");
    let (mut pair, relay, book) = level(&dice, 1000, &[TIMEOUT]);
    relay.control().cut(Cut::After(SMALL));
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    await_unsteady(&pair, "silent");
    // From now on nothing changes: neither what is said, nor the logs, and attempts are made in peace.
    let window = Window::open(&mut pair, &relay);
    while window.is_open() {
        NODES.iter().for_each(|node| says_so(&group(&pair, node)));
        pass(Instant::now(), Duration::from_millis(50));
    }
    window.close(&mut pair, &relay);
    let told = pair.helio("paris", &["status", "db"]);
    assert!(told.stdout.contains("small packets"), "{told}");
    ends_well(&pair, &relay, &book);
}

#[test]
fn a_link_that_breaks_again_and_again_is_at_risk_until_a_connection_lasts() {
    let dice = Dice::of_test("a_link_that_breaks_again_and_again");
    let (mut pair, relay, book) = level(&dice, 1000, &[TIMEOUT]);
    let broken = |pair: &Pair, ends: u64| {
        for _ in 0..ends {
            wait(pair, "paris", "the peer", |status| status["peer"]["connection"] == "connected");
            relay.control().cut(Cut::Reset);
            wait(pair, "paris", "the end", |status| status["peer"]["connection"] != "connected");
            relay.control().heal();
        }
    };
    broken(&pair, 3);
    await_unsteady(&pair, "ends");
    let window = Window::open(&mut pair, &relay);
    while window.is_open() {
        broken(&pair, 1);
        for node in NODES {
            let status = group(&pair, node);
            says_so(&status);
        }
    }
    window.close(&mut pair, &relay);
    ends_well(&pair, &relay, &book);
}
