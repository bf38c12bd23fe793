// SPDX-License-Identifier: Apache-2.0
//! Between nodes: what is mirrored under keys, and who is sent away.

use crate::common::{Caller, assert_says, new_key, node_key, rewrite};
use helio_e2e::{
    Book, Load, PATIENCE, Promise, assert_members_equal, begin, group, image, wait_level,
};
use helio_format::lineage::Lineage;
use helio_format::message::{Blocks, Hello, Message};
use helio_format::report::Report;
use helio_link::checksum;
use helio_testkit::{Dice, Pair, Plan, eventually, helio_binary, run_within, timely};
use helio_tls::{Purpose, TlsError};
use helio_units::{Bytes, Mode, Role, Sequence};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;

const SIZE: Bytes = Bytes::mib(16);

fn plan() -> Plan {
    Plan::new("db").mode(Mode::Sync).keys().volume("data", SIZE)
}

/// A pair of which only the dialled node runs, and where it listens.
fn paris_alone() -> (Pair, SocketAddr) {
    let plan = plan();
    let address = plan.dialled();
    let mut pair = plan.prepare();
    pair.start("paris");
    (pair, address)
}

/// Waits until a node's log has this behind `mark`.
#[track_caller]
fn await_log(pair: &mut Pair, node: &str, mark: usize, phrase: &str) {
    eventually(PATIENCE, phrase, || pair.daemon(node).log()[mark..].contains(phrase).then_some(()));
}

#[test]
fn a_pair_with_keys_mirrors_under_load_and_shows_whom_it_talks_to() {
    let dice = Dice::of_test("a_pair_with_keys_mirrors_under_load_and_shows_whom_it_talks_to");
    let pair = plan().start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    let load = Load { connections: 2, blocks: (1, 64), count: Some(300), ..Load::PLAIN };
    load.run(&pair, "paris", &dice, &book);
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    let after = image(&pair, "lyon", book.run());
    book.assert_holds("lyon", &after, Promise::Everything);
    for (node, other) in [("lyon", "paris"), ("paris", "lyon")] {
        let key = node_key(&pair, other).to_string();
        assert_eq!(group(&pair, node)["peer"]["key"], key.as_str());
        assert_says(&pair.helio(node, &["status", "-v"]).expect_success(), &[&key]);
    }
}

#[test]
fn a_peer_with_another_key_is_refused_and_both_logs_say_whose() {
    let (mut pair, _) = paris_alone();
    let before = fs::read(pair.member("paris", "data")).expect("it is there");
    // Lyon has a new key, and a file that names it; paris was not told.
    let own = pair.state("lyon").join("node.key");
    let named = node_key(&pair, "lyon").to_string();
    fs::remove_file(&own).expect("it is there");
    let key = new_key(&own).to_string();
    rewrite(&pair, &named, &key);
    pair.start("lyon");
    let refused = format!("the key {key} is not configured on this node");
    await_log(&mut pair, "paris", 0, &refused);
    await_log(&mut pair, "lyon", 0, "the other end refused");
    assert_ne!(group(&pair, "paris")["peer"]["connection"], "connected");
    assert_eq!(group(&pair, "paris")["peer"]["age_seconds"], serde_json::Value::Null);
    // The accepting node's status says whose key that is, and how to compare.
    let shown = eventually(PATIENCE, "the refused key", || {
        let shown = group(&pair, "paris")["peer"]["wrong_key"].take();
        (!shown.is_null()).then_some(shown)
    });
    assert_eq!(shown["key"], key.as_str());
    assert!(shown["address"].as_str().is_some_and(|from| from.starts_with("127.0.0.1:")));
    let told = pair.helio("paris", &["status", "db"]);
    assert_says(&told.stdout, &[&key, "`helio key show`"]);
    // Paris is told: nothing but the file changes.
    pair.helio("paris", &["apply"]).expect_success();
    begin(&pair, "paris");
    assert_eq!(group(&pair, "paris")["peer"]["wrong_key"], serde_json::Value::Null);
    assert_eq!(fs::read(pair.member("lyon", "data")).expect("it is there"), before);
}

#[test]
fn strangers_on_a_port_with_keys_hear_nothing_and_are_named() {
    let (mut pair, address) = paris_alone();
    let (paris, lyon) = (node_key(&pair, "paris"), pair.state("lyon").join("node.key"));
    let other = pair.scratch().join("stranger.key");
    let stranger = new_key(&other).to_string();

    // One without TLS, as before there were keys.
    let mut plain = TcpStream::connect(address).expect("it listens");
    plain.set_read_timeout(Some(PATIENCE)).expect("takes a limit");
    let mut frame = Vec::new();
    helio_format::frame::encode(&hello(), 0, checksum, &mut frame);
    plain.write_all(&frame).expect("taken");
    let mut said = Vec::new();
    // It may as well be cut off in the middle of what it says.
    let _reset = timely(plain.read_to_end(&mut said), "paris to hang up");
    assert_eq!(said, b"", "nothing is told to one without a key");
    await_log(&mut pair, "paris", 0, "the other end does not use TLS");

    let mut unknown = Caller::call(address, &other, paris, Purpose::Peer);
    unknown.send(&frame);
    let (said, why) = unknown.hear_out();
    assert_eq!(said, b"");
    assert!(matches!(why, Some(TlsError::RefusedByPeer { .. })), "{why:?}");
    await_log(&mut pair, "paris", 0, &format!("the key {stranger} is not configured"));

    // The peer's own key, but to command.
    let mark = pair.daemon("paris").log().len();
    let why = Caller::try_call(address, &lyon, paris, Purpose::Control).err();
    assert!(matches!(why, Some(TlsError::OtherPurpose { .. })), "{why:?}");
    await_log(&mut pair, "paris", mark, "a connection to the peers' port was refused");

    // With key and purpose it is heard.
    let mut peer = Caller::call(address, &lyon, paris, Purpose::Peer);
    peer.send(&frame);
    await_log(&mut pair, "paris", mark, "peer=lyon");
}

fn hello() -> Message {
    Message::Hello(Hello {
        group: String::from("db"),
        node: String::from("lyon"),
        incarnation: 0x5eed,
        role: Role::Secondary,
        serving: false,
        clean: true,
        consistent: true,
        wrote: false,
        lineage: Lineage::default(),
        head: Sequence(0),
        received: Sequence(0),
        durable: Sequence(0),
        alone: false,
        trusted: false,
        sure: true,
        doubts: false,
        discarded: false,
        suspect: false,
        keeps: false,
        granularity: 65536,
        metadata: 1,
        remembers: 0,
        sizes: vec![SIZE.0],
        blocks: vec![Blocks { member: 512, volume: 512 }],
        report: Report::default(),
    })
}

/// What a daemon says that refuses to start.
#[track_caller]
fn refusal(pair: &Pair) -> String {
    let mut command = Command::new(helio_binary());
    command.args(["daemon", "--node", "paris", "--config"]).arg(pair.config());
    let told = run_within(command.arg("--state").arg(pair.state("paris")), PATIENCE);
    assert_eq!(told.status.code(), Some(1), "{told}");
    told.expect_failure()
}

#[test]
fn a_node_whose_key_cannot_serve_does_not_start_and_says_why() {
    let pair = plan().prepare();
    let key = pair.state("paris").join("node.key");
    let path = key.to_string_lossy();
    fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).expect("set");
    assert_says(&refusal(&pair), &[&path, "other users may read it (mode 0644)", "chmod 600"]);
    fs::remove_file(&key).expect("it is there");
    assert_says(&refusal(&pair), &[&path, "the node's private key is missing"]);
    let other = new_key(&key).to_string();
    assert_says(
        &refusal(&pair),
        &[&path, &other, "the configuration has another key for this node"],
    );
}
