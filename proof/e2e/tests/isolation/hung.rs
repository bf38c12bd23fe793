// SPDX-License-Identifier: Apache-2.0
//! The file system of one group's member answers nothing any more. The other group of the daemon is served as before, and the daemon
//! answers, and ends.

use crate::groups::{begin_web, served, web, with_web};
use helio_e2e::{PATIENCE, begin, connect};
use helio_testkit::{
    FaultyStore, Pair, Plan, StorePlan, eventually, faulty_stores_possible, in_time,
};
use helio_units::{Bytes, Mode};
use std::thread;
use std::time::{Duration, Instant};

const SIZE: Bytes = Bytes::mib(64);
/// No write of the other group takes longer. The peer would count a node as lost behind 5 s.
const LONGEST_WRITE: Duration = Duration::from_secs(2);

/// Paris is primary of two groups. The member of `db` there is on a file system that can hang.
fn two_groups(driver: &str) -> (Pair, FaultyStore) {
    let store = StorePlan::new(SIZE).mount();
    let plan = Plan::new("db").mode(Mode::Sync).volume("data", SIZE);
    let mut pair = with_web(
        plan.volume_line("sparse = true")
            .group_line("member-timeout = \"1s\"")
            .group_line("on-error = \"pass\"")
            .node_line("paris", &format!("driver = \"{driver}\""))
            .member("paris", "data", store.path()),
    );
    pair.start("lyon");
    pair.start("paris");
    begin(&pair, "paris");
    begin_web(&pair, "paris");
    (pair, store)
}

#[test]
fn a_member_whose_file_system_hangs_stops_no_other_group() {
    if !faulty_stores_possible() {
        return;
    }
    for driver in ["ring", "poll"] {
        let (mut pair, store) = two_groups(driver);
        let connected = |pair: &Pair| {
            served(&pair.status("lyon"), "web")["peer"]["connection_since_ms"].clone()
        };
        let since = connected(&pair);

        store.hang();
        let mut doomed = connect(&pair, "paris");
        let waits = thread::spawn(move || doomed.write(0, &[1; 4096], true));
        let (mut client, mut longest, mut writes) = (web(&pair, "paris"), Duration::ZERO, 0);
        eventually(PATIENCE, "the silence of the member", || {
            for _ in 0..20 {
                let began = Instant::now();
                client
                    .write((writes % 1024) << 12, &[7; 4096], writes % 4 == 0)
                    .expect("web goes on");
                (writes, longest) = (writes + 1, longest.max(began.elapsed()));
            }
            let db = served(&pair.status("paris"), "db");
            assert_eq!(db["volumes"][0]["service"], "aside", "{driver}: {db}");
            (db["volumes"][0]["member_state"] == "silent").then_some(())
        });
        in_time(longest, LONGEST_WRITE, "the longest write of the other group");
        assert_eq!(connected(&pair), since, "{driver}: web lost its peer");
        let shown = served(&pair.status("paris"), "web");
        assert_eq!(shown["state"], "replicating", "{driver}: {shown}");

        // It cannot end cleanly while an operation is under way, but it does end.
        assert!(!pair.daemon("paris").terminate().success(), "{driver}: db did not stop cleanly");
        waits.join().expect("it ends").expect_err("nothing was acknowledged");
        store.respond();
    }
}

#[test]
fn a_start_and_a_check_name_the_member_whose_file_system_hangs_and_wait_no_longer() {
    if !faulty_stores_possible() {
        return;
    }
    let (mut pair, store) = two_groups("auto");
    assert!(pair.daemon("paris").terminate().success());
    store.hang();
    let member = store.path().display().to_string();
    let checked = pair.check("paris");
    assert_eq!(checked.status.code(), Some(1), "{checked}");
    let row = checked.stdout.lines().find(|row| row.contains(&member)).unwrap_or_default();
    assert!(row.starts_with("FAIL") && row.contains("does not respond"), "{checked}");
    let ok =
        |what: &str| checked.stdout.lines().any(|row| row.starts_with("ok") && row.contains(what));
    assert!(ok("member of web/data") && ok("I/O driver"), "{checked}");

    pair.start("paris");
    let told = pair.helio("paris", &["status", "db"]);
    assert_eq!(told.status.code(), Some(7), "{told}");
    assert!(told.stdout.contains(&member) && told.stdout.contains("does not respond"), "{told}");
    begin_web(&pair, "paris");
    web(&pair, "paris").write(0, &[3; 4096], true).expect("web is served");

    store.respond();
    let applied = pair.helio("paris", &["apply"]).expect_success();
    assert!(applied.contains("group db: served again"), "{applied}");
    begin(&pair, "paris");
}
