// SPDX-License-Identifier: Apache-2.0
//! Settings of volumes with several members: which member is read, how much is copied at once, and what comes first.

use helio_e2e::{PATIENCE, begin, connect, group, number, wait};
use helio_testkit::{Pair, Plan, StorePlan, TempDir, eventually, faulty_stores_possible};
use helio_units::Bytes;
use serde_json::Value;

const SIZE: Bytes = Bytes::mib(16);

/// The reads that each member of the volume completed.
fn reads(shown: &Value) -> [u64; 2] {
    [0, 1].map(|n| number(shown, &format!("/volumes/0/members/{n}/reads")))
}

/// Reads one block after the other. Returns how many of them each member completed.
fn read_some(pair: &Pair, count: u64) -> [u64; 2] {
    let before = reads(&group(pair, "paris"));
    let (mut client, mut block) = (connect(pair, "paris"), [0; 4096]);
    for n in 0..count {
        client.read(n * 4096, &mut block).expect("it can be read");
    }
    let after = reads(&group(pair, "paris"));
    [0, 1].map(|n| after[n] - before[n])
}

#[test]
fn reads_go_to_the_member_whose_cost_is_lower_until_apply_restores_the_measured_costs() {
    let scratch = TempDir::new();
    let mirror = scratch.file("mirror", SIZE);
    let pair = Plan::new("db")
        .volume("data", SIZE)
        .volume_line("sparse = true")
        .mirror("paris", "data", &mirror)
        .start();
    begin(&pair, "paris");
    let all = |key: &'static str, wanted: &'static str| {
        move |shown: &Value| (0..2).all(|n| shown["volumes"][0]["members"][n][key] == wanted)
    };
    wait(&pair, "paris", "two full members", all("state", "full"));
    wait(&pair, "paris", "measured costs", all("read_cost_source", "measured"));
    let paths = [pair.member("paris", "data"), mirror].map(|path| path.display().to_string());
    let set = |costs: [&str; 2]| {
        for (path, cost) in paths.iter().zip(costs) {
            pair.helio("paris", &["member", "set", "db/data", path, "--read-cost", cost])
                .expect_success();
        }
    };
    set(["65535", "1"]);
    let shown = wait(&pair, "paris", "costs that were set", all("read_cost_source", "set"));
    assert_eq!(number(&shown, "/volumes/0/members/0/read_cost"), 65535);
    assert_eq!(read_some(&pair, 20), [0, 20]);
    set(["1", "65535"]);
    assert_eq!(read_some(&pair, 20), [20, 0]);
    let told = pair.helio("paris", &["apply"]).expect_success();
    assert!(told.contains("65535 -> auto"), "{told}");
    wait(&pair, "paris", "measured costs", all("read_cost_source", "measured"));
    let none = pair.helio("paris", &["member", "set", "db/data", "/none", "--read-cost", "auto"]);
    let none = none.expect_failure();
    assert!(none.contains("is no member of db/data"), "{none}");
}

/// What the copies of the two volumes wait for.
fn waits(shown: &Value) -> [&Value; 2] {
    [0, 1].map(|n| &shown["volumes"][n]["copy_waits"])
}

#[test]
fn one_volume_is_merged_after_the_other_in_the_order_of_their_priorities_and_none_delays_a_stop() {
    if !faulty_stores_possible() {
        return;
    }
    let scratch = TempDir::new();
    let (first, store) = (scratch.file("first", SIZE), StorePlan::new(SIZE).mount());
    let mut pair = Plan::new("db")
        .volume("data", SIZE)
        .volume("log", SIZE)
        .volume_line("sparse = true")
        .node_line("paris", "copies-at-once = 0")
        .mirror("paris", "data", &first)
        .mirror("paris", "log", store.path())
        .start();
    begin(&pair, "paris");
    let limited = |shown: &Value| waits(shown).iter().all(|waits| **waits == "limit");
    let unmerged =
        |shown: &Value| [0, 1].map(|n| number(shown, &format!("/volumes/{n}/unmerged_bytes")));
    wait(&pair, "paris", "copies that wait", limited);
    let apply = |pair: &Pair, from: &str, to: &str| {
        let text = std::fs::read_to_string(pair.config()).expect("it is there");
        assert!(text.contains(from), "{text}");
        std::fs::write(pair.config(), text.replace(from, to)).expect("there is room");
        pair.helio("paris", &["apply"]).expect_success();
    };
    apply(&pair, "copies-at-once = 0", "copies-at-once = 1");
    wait(&pair, "paris", "four full members", |shown| {
        let full = |v: usize, n: usize| shown["volumes"][v]["members"][n]["state"] == "full";
        (0..2).all(|v| full(v, 0) && full(v, 1))
    });
    apply(&pair, "copies-at-once = 1", "copies-at-once = 0");
    for volume in ["db/data", "db/log"] {
        pair.helio("paris", &["member", "merge", volume]).expect_success();
    }
    let shown = wait(&pair, "paris", "merges that wait", limited);
    assert_eq!(unmerged(&shown), [SIZE.0; 2]);
    connect(&pair, "paris").read(0, &mut [0; 4096]).expect("what is read is merged first");
    let less = || (unmerged(&group(&pair, "paris"))[0] < SIZE.0).then_some(());
    eventually(PATIENCE, "a region that was merged for a read", less);
    let volume = "[group.db.volume.log]\n";
    apply(&pair, volume, &format!("{volume}copy-priority = 9000\n"));
    store.hang();
    apply(&pair, "copies-at-once = 0", "copies-at-once = 1");
    let shown = wait(&pair, "paris", "one that waits", |shown| waits(shown)[0] == "others");
    assert_eq!(*waits(&shown)[1], Value::Null, "{shown:#}");
    let told = pair.helio("paris", &["status", "db"]).expect_success();
    // Long rows are wrapped.
    let words: Vec<&str> = told.split_whitespace().collect();
    assert!(words.join(" ").contains("waits for another copy"), "{told}");
    store.respond();
    wait(&pair, "paris", "two merged volumes", |shown| unmerged(shown) == [0; 2]);
    apply(&pair, "copies-at-once = 1", "copies-at-once = 0");
    pair.helio("paris", &["member", "merge", "db/data"]).expect_success();
    wait(&pair, "paris", "a merge that waits", |shown| waits(shown)[0] == "limit");
    assert!(pair.daemon("paris").terminate().success(), "paris stops cleanly");
}
