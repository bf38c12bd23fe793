// SPDX-License-Identifier: Apache-2.0
//! The verbs' exit codes: 0 done, 1 refused, 2 not understood, 3 no daemon, 4 needs confirmation.

use crate::common::{PATIENCE, assert_says, promote};
use helio_e2e::wait;
use helio_testkit::{Pair, Plan, Told, helio, timely};
use helio_units::{Bytes, Mode};
use std::io::Read;
use std::os::unix::net::UnixStream;

fn pair() -> Pair {
    Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(1)).start()
}

#[track_caller]
fn assert_ended(told: &Told, code: i32, phrases: &[&str]) {
    assert_eq!(told.status.code(), Some(code), "{told}");
    assert_says(&format!("{}{}", told.stdout, told.stderr), phrases);
}

#[test]
fn an_unknown_group_is_refused_with_those_there_are() {
    let pair = pair();
    let verbs: [&[&str]; 7] = [
        &["status", "dbx"],
        &["pause", "dbx"],
        &["resync", "dbx"],
        &["mode", "dbx", "sync"],
        &["promote", "dbx"],
        &["demote", "dbx"],
        &["debug", "events", "dbx"],
    ];
    for verb in verbs {
        let phrases = ["group dbx is not configured", "hint: name one of: db"];
        assert_ended(&pair.helio("paris", verb), 1, &phrases);
    }
}

#[test]
fn a_command_line_that_is_not_understood_ends_with_two() {
    for line in [&["staus"][..], &["status", "--jsn"], &["mode", "db", "fast"], &["mode"]] {
        let told = helio(line);
        assert_ended(&told, 2, &["helio: ", "\n  hint: "]);
    }
    assert_ended(&helio(&["mode", "db", "fast"]), 2, &["sync, nearsync, async"]);
}

#[test]
fn without_a_daemon_verbs_end_with_three() {
    let pair = Plan::new("db").volume("data", Bytes::mib(1)).prepare();
    for verb in [&["status"][..], &["apply"], &["promote", "db", "--force"], &["pause", "db"]] {
        let phrases =
            ["no daemon responds on", "control.sock", "hint: start `helio daemon --node NAME"];
        assert_ended(&pair.helio("paris", verb), 3, &phrases);
    }
}

#[test]
fn a_forced_promotion_needs_confirmation_and_says_what_is_at_stake() {
    let mut pair = pair();
    promote(&pair, "paris");
    pair.daemon("paris").kill9();
    wait(&pair, "lyon", "the loss", |status| status["peer"]["connection"] != "connected");
    let told = pair.helio("lyon", &["promote", "db"]);
    assert_ended(&told, 1, &["at stake: paris may have continued since", "--force"]);
    let told = pair.helio("lyon", &["promote", "db", "--force"]);
    assert_ended(&told, 4, &["at stake: paris may have continued since", "--yes"]);
    let status = pair.status("lyon");
    assert_eq!(status["groups"][0]["role"], "secondary", "nothing may have changed: {status}");
    let told = pair.helio("lyon", &["promote", "db", "--force", "--yes"]);
    assert_ended(&told, 0, &["warning: paris may have continued", "primary in generation"]);
    assert_eq!(pair.status("lyon")["groups"][0]["role"], "primary");
}

#[test]
fn a_forced_promotion_that_is_refused_all_the_same_asks_nothing() {
    let pair = pair();
    promote(&pair, "paris");
    wait(&pair, "lyon", "a stream", |group| group["state"] == "replicating");
    let told = pair.helio("lyon", &["promote", "db", "--force"]);
    assert_ended(&told, 1, &["paris is primary for db and connected", "`helio switch db`"]);
    assert!(!told.stderr.contains("at stake") && !told.stderr.contains("--yes"), "{told}");
}

#[test]
fn a_group_with_an_open_client_is_not_demoted() {
    let pair = pair();
    promote(&pair, "paris");
    let client = attached(&pair);
    let told = pair.helio("paris", &["demote", "db"]);
    assert_ended(
        &told,
        1,
        &[
            "hint: unmount and disconnect them, or `helio client close --all db`; then `helio demote db`",
        ],
    );
    assert!(!told.stderr.contains("retry: "), "waiting does not end it: {told}");
    assert_eq!(pair.status("paris")["groups"][0]["role"], "primary");
    drop(client);
    helio_testkit::eventually(PATIENCE, "a demotion", || {
        pair.helio("paris", &["demote", "db"]).status.success().then_some(())
    });
    assert_eq!(pair.status("paris")["groups"][0]["role"], "secondary");
}

#[test]
fn a_demotion_that_leaves_the_peer_behind_says_so_and_has_a_code() {
    let pair = pair();
    promote(&pair, "paris");
    wait(&pair, "lyon", "a stream", |group| group["state"] == "replicating");
    pair.helio("paris", &["pause", "db"]).expect_success();
    let socket = pair.state("paris").join("nbd.sock");
    let mut client = helio_nbd::Client::connect_unix(socket, "db/data").expect("connects");
    client.write(0, &[7; 4096], true).expect("writes");
    client.disconnect().expect("leaves");
    let told = pair.helio("paris", &["demote", "db"]);
    assert_ended(&told, 8, &["lyon does not have everything", "do not promote lyon", "hint: "]);
    assert!(told.stderr.contains("would be lost"), "{told}");
    assert_eq!(pair.status("paris")["groups"][0]["role"], "secondary");
    // Both nodes name the node to promote, also to who would force the other one.
    for node in ["paris", "lyon"] {
        wait(&pair, node, "the node that has the last writes", |group| {
            let next = group["next"].as_str().unwrap_or_default();
            group["verdict"]["why"] == "only paris has the last writes"
                && next == "`helio promote db` on paris; do not promote lyon"
        });
    }
    let told = pair.helio("lyon", &["promote", "db", "--force"]);
    assert_ended(&told, 4, &["the missing data was unknown"]);
    // As the hint says: nothing is lost, and the second demotion leaves nothing behind.
    promote(&pair, "paris");
    wait(&pair, "lyon", "a stream", |group| group["state"] == "replicating");
    assert_ended(&pair.helio("paris", &["demote", "db"]), 0, &["lyon has everything"]);
}

#[test]
fn the_mode_of_a_group_is_changed_on_its_primary() {
    let pair = pair();
    let told = pair.helio("lyon", &["mode", "db", "nearsync"]);
    assert_ended(&told, 0, &["the mode of db is nearsync if this node is promoted next"]);
    promote(&pair, "paris");
    wait(&pair, "lyon", "a stream", |group| group["state"] == "replicating");
    let told = pair.helio("lyon", &["mode", "db", "async"]);
    assert_ended(&told, 1, &["paris is primary of db", "hint: `helio mode db async` on paris"]);
    assert_eq!(pair.status("paris")["groups"][0]["mode"]["requested"], "sync");
    assert_ended(&pair.helio("paris", &["mode", "db", "async"]), 0, &["the mode of db is async"]);
}

/// A paused primary: its secondary must not be the node to promote.
#[test]
fn a_secondary_whose_primary_is_connected_names_the_command_of_the_primary() {
    let pair = pair();
    promote(&pair, "paris");
    wait(&pair, "lyon", "a stream", |group| group["state"] == "replicating");
    assert_ended(&pair.helio("paris", &["pause", "db"]), 0, &[]);
    wait(&pair, "lyon", "the pause", |group| {
        let next = group["next"].as_str().unwrap_or_default();
        group["state"] == "logging" && next.contains("`helio resume db` on paris")
    });
}

#[test]
fn a_secondary_is_not_promoted_beside_a_primary() {
    let pair = pair();
    promote(&pair, "paris");
    let told = pair.helio("lyon", &["promote", "db"]);
    assert_ended(&told, 1, &["paris", "hint: "]);
    assert_eq!(pair.status("lyon")["groups"][0]["role"], "secondary");
    assert_eq!(pair.status("paris")["groups"][0]["state"], "replicating");
}

/// A client with the export open: the shortest NBD negotiation there is.
fn attached(pair: &Pair) -> UnixStream {
    use std::io::Write;
    const NAME: &[u8] = b"db/data";
    let socket = pair.state("paris").join("nbd.sock");
    let mut stream = UnixStream::connect(socket).expect("the daemon listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a limit");
    let mut greeting = [0; 18];
    timely(stream.read_exact(&mut greeting), "a greeting").expect("a greeting");
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    // Fixed newstyle without zeroes, then NBD_OPT_EXPORT_NAME.
    let mut words = 3u32.to_be_bytes().to_vec();
    words.extend(b"IHAVEOPT");
    words.extend(1u32.to_be_bytes());
    words.extend((NAME.len() as u32).to_be_bytes());
    words.extend(NAME);
    stream.write_all(&words).expect("the daemon listens");
    // Size and flags: the export is open.
    timely(stream.read_exact(&mut [0; 10]), "the export").expect("the export");
    stream
}
