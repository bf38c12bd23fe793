// SPDX-License-Identifier: Apache-2.0
//! `helio events`: everything that happens is told once, in order, and can be picked up again.

use helio_e2e::{PATIENCE, begin, connect};
use helio_testkit::{Group, Pair, Plan, eventually, helio_binary};
use helio_units::{Bytes, Mode};
use serde_json::Value;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

fn pair() -> Pair {
    Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(1)).start()
}

/// A follower of a node's events, as a program would be.
pub(crate) struct Follower {
    process: Group,
    file: PathBuf,
}

impl Follower {
    #[track_caller]
    pub(crate) fn start(pair: &Pair, node: &str, name: &str, arguments: &[&str]) -> Self {
        let file = pair.scratch().join(name);
        let mut command = Command::new(helio_binary());
        command.args(["events", "--json"]).args(arguments).arg("--state").arg(pair.state(node));
        command.stdout(File::create(&file).expect("a file"));
        Self { process: Group::spawn(&mut command).expect("helio starts"), file }
    }

    /// What it heard until now.
    fn heard(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.file).expect("it writes");
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits for an event, and returns its number.
    #[track_caller]
    fn wait(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> u64 {
        eventually(PATIENCE, what, || {
            let event = self.heard().into_iter().find(|event| wanted(event))?;
            event["sequence"].as_u64()
        })
    }

    /// Waits for a field of an object to become so.
    #[track_caller]
    pub(crate) fn wait_change(&self, object: &str, field: &str, new: &Value) -> u64 {
        self.wait(&format!("{object} {field} {new}"), |event| {
            event["event"] == "change"
                && event["object"] == object
                && event["changed"][field]["new"] == *new
        })
    }

    #[track_caller]
    pub(crate) fn wait_end(mut self) -> Vec<Value> {
        let status = self.process.wait_end(PATIENCE, "the stream of a daemon that ended");
        assert!(status.success(), "a clean stop is no failure: {status}");
        self.heard()
    }
}

fn ends_dump(event: &Value) -> bool {
    event["event"] == "exists" && event["object"].is_null()
}

#[test]
fn a_follower_hears_the_life_of_a_group_from_what_is_there_to_its_clean_stop() {
    let mut pair = pair();
    let follower = Follower::start(&pair, "paris", "events", &["db"]);
    follower.wait("what is there", ends_dump);
    begin(&pair, "paris");
    follower.wait_change("group", "role", &"primary".into());
    follower.wait_change("group", "verdict", &"ok".into());
    let client = connect(&pair, "paris");
    follower.wait_change("volume", "clients", &1.into());
    drop(client);
    follower.wait_change("volume", "clients", &0.into());
    pair.daemon("lyon").kill9();
    follower.wait_change("peer", "connection", &"connecting".into());
    follower.wait_change("group", "verdict", &"at-risk".into());
    assert!(pair.daemon("paris").terminate().success());

    let events = follower.wait_end();
    let objects = |what: &str| -> Vec<&str> {
        let of = events.iter().filter(|e| e["event"] == what);
        of.map(|event| event["object"].as_str().unwrap_or("-")).collect()
    };
    assert_eq!(objects("exists"), ["group", "peer", "volume", "-"]);
    assert_eq!(objects("destroy"), ["volume", "peer", "group", "-"], "the last says: all of it");
    let numbers: Vec<u64> =
        events[4..].iter().filter_map(|event| event["sequence"].as_u64()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "every number once, in order: {numbers:?}");
    let all_say_why =
        events.iter().filter(|e| e["event"] == "change").all(|e| e["why"].is_string());
    assert!(all_say_why, "{events:#?}");
}

#[test]
fn a_follower_who_comes_back_hears_exactly_what_it_missed() {
    let pair = pair();
    let first = Follower::start(&pair, "paris", "first", &[]);
    let seen = first.wait("what is there", ends_dump);
    drop(first);
    begin(&pair, "paris");
    let whole = Follower::start(&pair, "paris", "whole", &["--since", &seen.to_string()]);
    let role = whole.wait_change("group", "role", &"primary".into());
    assert!(!whole.heard().iter().any(|event| event["event"] == "exists"));
    let rest = Follower::start(&pair, "paris", "rest", &["--since", &role.to_string()]);
    rest.wait_change("group", "verdict", &"ok".into());
    assert!(rest.heard().iter().all(|event| event["sequence"].as_u64() > Some(role)));

    // A number that is not remembered is no failure: everything that is there is told instead.
    let told = pair.helio("paris", &["events", "--now", "--since", "7"]).expect_success();
    let words: Vec<Vec<&str>> =
        told.lines().map(|line| line.split(' ').skip(1).take(3).collect()).collect();
    assert_eq!(words[0], ["exists", "group", "name:db"], "{told}");
    assert_eq!(words[1], ["exists", "peer", "group:db"], "{told}");
    assert_eq!(words[2], ["exists", "volume", "group:db"], "{told}");
    assert_eq!(words[3][..2], ["exists", "-"], "{told}");
    assert!(told.contains(" role:primary ") && told.contains(" verdict:ok"), "{told}");
}
