// SPDX-License-Identifier: Apache-2.0
//! Who uses the volumes, as operators see it, and how they disconnect who does not go by itself.

use crate::common::{PATIENCE, serving};
use helio_e2e::connect;
use helio_nbd::Client;
use helio_testkit::{Pair, Plan, eventually, free_port};
use helio_units::{Bytes, Mode};
use serde_json::Value;
use std::net::TcpStream;
use std::thread;

fn listed(pair: &Pair) -> Value {
    pair.helio("paris", &["client", "list", "db", "--json"]).json()
}

fn reads(client: &mut Client) -> bool {
    let mut block = [0; 4096];
    client.read(0, &mut block).is_ok()
}

#[test]
fn clients_are_named_listed_and_disconnected() {
    let address = free_port();
    let plan = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(8));
    let pair = serving(plan.node_line("paris", &format!("nbd = \"{address}\"")));
    let mut local = connect(&pair, "paris");
    let mut remote = Client::connect_tcp(address, "db/data").expect("it is served");
    let _stranger = TcpStream::connect(address).expect("it listens");

    let told = eventually(PATIENCE, "the stranger is counted", || {
        Some(listed(&pair)).filter(|told| told["guests"] == 1)
    });
    let clients = told["clients"].as_array().expect("a list");
    let [one, other] = &clients[..] else { panic!("{told}") };
    let (here, there) = if one["process"].is_null() { (other, one) } else { (one, other) };
    assert_eq!(here["process"], std::process::id(), "{told}");
    assert!(here["program"].is_string() && here["address"].is_null(), "{told}");
    let from = there["address"].as_str().expect("an address");
    assert!(from.starts_with("127.0.0.1:") && from != address.to_string(), "{told}");
    for client in [here, there] {
        assert_eq!(client["export"], "db/data");
        assert_eq!((&client["attached"], &client["read_only"]), (&false.into(), &false.into()));
    }

    // What they prevent names them, and its hint leads on.
    let refused = pair.helio("paris", &["demote", "db"]).expect_failure();
    assert!(refused.contains("2 NBD connection(s) use db ("), "{refused}");
    let named = format!("process {}", std::process::id());
    assert!(refused.contains(&named) && refused.contains(from), "{refused}");
    assert!(refused.contains("`helio client close --all db`"), "{refused}");

    let number = there["number"].to_string();
    let unsure = pair.helio("paris", &["client", "close", &number]).expect_failure();
    assert!(unsure.contains("repeat the command with --yes"), "{unsure}");
    assert!(reads(&mut local) && reads(&mut remote));
    let close =
        |which: &[&str]| pair.helio("paris", &[&["client", "close", "--yes"], which].concat());
    let said = close(&[&number]).expect_success();
    assert!(said.contains(from), "{said}");
    assert!(!reads(&mut remote), "its connection is closed");
    assert!(reads(&mut local), "another one is not");
    let unknown = close(&["4294967295"]).expect_failure();
    assert!(unknown.contains("no NBD client with the number 4294967295"), "{unknown}");
    let unknown = close(&["--all", "db/date"]).expect_failure();
    assert!(unknown.contains("no volume db/date"), "{unknown}");

    close(&["--all", "db"]).expect_success();
    assert!(!reads(&mut local), "its connection is closed");
    assert_eq!(
        close(&["--all", "db/data"]).expect_success(),
        "there was no NBD client to disconnect\n"
    );
    pair.helio("paris", &["demote", "db"]).expect_success();
}

/// What it asked before is done first: here a write waits for the peer.
#[test]
fn a_client_that_is_disconnected_gets_the_reply_to_its_write() {
    let plan = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(8));
    let mut pair = serving(plan.group_line("peer-timeout = \"60s\""));
    let mut client = connect(&pair, "paris");
    pair.daemon("lyon").freeze();
    thread::scope(|scope| {
        let writes = scope.spawn(|| client.write(0, &[7; 4096], false));
        eventually(PATIENCE, "a write in progress", || {
            (listed(&pair)["clients"][0]["requests"] == 1).then_some(())
        });
        pair.helio("paris", &["client", "close", "--yes", "--all", "db"]).expect_success();
        let told = listed(&pair);
        assert_eq!(told["clients"][0]["closing"], true, "{told}");
        pair.daemon("lyon").thaw();
        writes.join().expect("it ended").expect("the write is acknowledged");
    });
    assert!(!reads(&mut client), "its connection is closed");
}
