// SPDX-License-Identifier: Apache-2.0
//! Two groups in one daemon, of which one panics or cannot be opened.

use helio_e2e::{PATIENCE, begin, connect, wait};
use helio_nbd::Client;
use helio_testkit::{Daemon, Pair, Plan, eventually};
use helio_units::{Bytes, Mode};
use serde_json::Value;
use std::path::Path;
use std::sync::mpsc::{TryRecvError, sync_channel};
use std::thread;

const SIZE: Bytes = Bytes::mib(4);

fn two_groups() -> Pair {
    with_web(Plan::new("db").mode(Mode::Sync).volume("data", SIZE))
}

/// A pair with a second group, `web`.
pub(crate) fn with_web(plan: Plan) -> Pair {
    let pair = plan.prepare();
    let mut text = std::fs::read_to_string(pair.config()).expect("it was written");
    text += "\n[group.web]\nnodes = [\"lyon\", \"paris\"]\nmode = \"sync\"\n";
    text += &format!("\n[group.web.volume.data]\nsize = \"{}B\"\n", SIZE.0);
    for node in ["lyon", "paris"] {
        let member = pair.scratch().file(&format!("{node}-web.img"), SIZE);
        text += &format!("members.{node} = [{member:?}]\n");
    }
    pair.scratch().write("heliograph.toml", &text);
    pair
}

pub(crate) fn web(pair: &Pair, node: &str) -> Client {
    Client::connect_unix(pair.state(node).join("nbd.sock"), "web/data").expect("web is served")
}

pub(crate) fn served(status: &Value, group: &str) -> Value {
    let groups = status["groups"].as_array().cloned().unwrap_or_default();
    groups.into_iter().find(|shown| shown["name"] == group).unwrap_or_default()
}

/// `web` becomes primary there, with its peer.
#[track_caller]
pub(crate) fn begin_web(pair: &Pair, node: &str) {
    let reaches = |what: &str, wanted: &dyn Fn(&Value) -> bool| {
        eventually(PATIENCE, what, || wanted(&served(&pair.status(node), "web")).then_some(()));
    };
    reaches("the peer of web", &|web| web["peer"]["connection"] == "connected");
    pair.helio(node, &["promote", "web"]).expect_success();
    reaches("web to replicate", &|web| web["state"] == "replicating");
}

#[test]
fn a_panic_in_one_group_ends_no_other() {
    let mut pair = two_groups();
    pair.start("lyon");
    let planted = Path::new(env!("CARGO_BIN_EXE_helio-planted"));
    let mut paris = Daemon::start_program(planted, "paris", pair.config(), &pair.state("paris"));
    paris.wait_ready();
    begin(&pair, "paris");
    begin_web(&pair, "paris");

    let mut other = web(&pair, "paris");
    other.write(0, &[1; 4096], false).expect("web takes writes");
    // Another client of web never stops meanwhile.
    let mut busy = web(&pair, "paris");
    let (stop, stopped) = sync_channel::<()>(0);
    let writer = thread::spawn(move || {
        let mut writes = 0;
        while writes < 64 || stopped.try_recv() == Err(TryRecvError::Empty) {
            writes += 1;
            let at = 1 << 20 | (writes % 64) << 12;
            busy.write(at, &[writes as u8; 4096], writes % 16 == 0).expect("web goes on");
        }
        let last: Vec<u64> = (writes.saturating_sub(63).max(1)..=writes).collect();
        for write in last {
            let mut block = [0; 4096];
            busy.read(1 << 20 | (write % 64) << 12, &mut block).expect("web goes on");
            assert!(block == [write as u8; 4096], "write {write} is lost");
        }
    });
    let mut doomed = connect(&pair, "paris");
    doomed.write(0, &[1; 4096], false).expect("db takes writes");
    doomed.trim(0, Bytes(4096), false).expect_err("nothing is acknowledged by a group that failed");

    let told = pair.helio("paris", &["status", "db"]);
    assert_eq!(told.status.code(), Some(7), "{told}");
    let said = told.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.starts_with("db NOT SERVED since "), "{told}");
    assert!(said.contains("why an internal error at core/engine/src/"), "{told}");
    assert!(said.contains("planted: a client discards"), "{told}");
    let explained = pair.helio("paris", &["explain", "db"]).expect_failure();
    assert!(explained.contains("not served") && explained.contains("restart"), "{explained}");
    let status = pair.status("paris");
    assert_eq!(status["failed"][0]["name"], "db", "{status}");
    assert_eq!(status["failed"][0]["needs_restart"], true, "{status}");
    assert!(served(&status, "db").is_null(), "{status}");
    Client::connect_unix(pair.state("paris").join("nbd.sock"), "db/data")
        .err()
        .expect("no client finds a group that failed");
    wait(&pair, "lyon", "the loss of paris", |db| db["peer"]["connection"] != "connected");

    other.write(4096, &[2; 4096], false).expect("the client of web notices nothing");
    other.flush().expect("web makes it durable");
    drop(stop);
    writer.join().expect("its writes are acknowledged, and there");
    let web_status = served(&pair.status("paris"), "web");
    assert_eq!(web_status["state"], "replicating", "{web_status}");
    assert_eq!(web_status["verdict"]["word"], "ok", "{web_status}");

    assert!(paris.terminate().success(), "a failed group does not keep the daemon from stopping");
    drop(paris);
    pair.start("paris");
    wait(&pair, "paris", "db to go on", |db| db["state"] == "replicating");
}

#[test]
fn a_missing_member_leaves_the_other_groups_served_until_apply_finds_it() {
    let mut pair = two_groups();
    let (member, away) = (pair.member("paris", "data"), pair.scratch().join("away.img"));
    std::fs::rename(&member, &away).expect("it is there");
    pair.start("lyon");
    pair.start("paris");
    begin_web(&pair, "paris");
    web(&pair, "paris").write(0, &[3; 4096], true).expect("web is served");

    let shown = member.display().to_string();
    let told = pair.helio("paris", &["status", "db"]);
    assert_eq!(told.status.code(), Some(7), "{told}");
    assert!(told.stdout.contains(&shown) && told.stdout.contains("helio apply"), "{told}");
    let refused = pair.helio("paris", &["promote", "db"]).expect_failure();
    assert!(refused.contains("group db is not served on this node"), "{refused}");
    wait(&pair, "lyon", "why paris is away", |db| {
        db["peer"]["reason"].as_str().is_some_and(|why| why.contains("not served"))
    });
    let refused = pair.helio("paris", &["apply"]).expect_failure();
    assert!(refused.contains(&shown), "{refused}");

    std::fs::rename(&away, &member).expect("the name is free");
    let applied = pair.helio("paris", &["apply"]).expect_success();
    assert!(applied.contains("group db: served again"), "{applied}");
    assert_eq!(pair.helio("paris", &["status"]).status.code(), Some(0));
    eventually(PATIENCE, "db to become primary", || {
        pair.helio("paris", &["promote", "db"]).status.success().then_some(())
    });
    wait(&pair, "paris", "replicating", |db| db["state"] == "replicating");
}

#[test]
fn damaged_metadata_of_one_group_leaves_the_others_served() {
    let mut pair = two_groups();
    pair.start("lyon");
    pair.start("paris");
    begin(&pair, "paris");
    begin_web(&pair, "paris");
    assert!(pair.daemon("paris").terminate().success());
    let metadata = pair.state("paris").join("groups/db.meta");
    let mut bytes = std::fs::read(&metadata).expect("it was written");
    bytes[..8192].fill(0xA5);
    std::fs::write(&metadata, bytes).expect("it can be written");

    pair.start("paris");
    let status = pair.status("paris");
    let reason = status["failed"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("db.meta"), "{status}");
    eventually(PATIENCE, "web to go on as primary", || {
        let web = served(&pair.status("paris"), "web");
        (web["state"] == "replicating" && web["role"] == "primary").then_some(())
    });
}
