// SPDX-License-Identifier: Apache-2.0
//! Alerts: a figure beyond its bound is an event and a hook, once when it begins and once when it ends.

use crate::common::{assert_ended, change};
use crate::events::Follower;
use helio_e2e::{Book, Load, PATIENCE, begin, connect, number, relayed, wait, wait_level};
use helio_testkit::{Daemon, Dice, Plan, TempDir, eventually};
use helio_units::{Bytes, Mode};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const OFF: &str =
    "alerts = { lag-above = \"off\", queue-full-within = \"off\", protection-lost = \"off\" }";
const ALERTS: [&str; 4] =
    ["lag_above", "protection_lost", "queue_full_within", "resync_not_converging"];

/// A hook that writes its facts into a file beside it, and ends with that code.
fn hook(folder: &TempDir, name: &str, code: u8) -> PathBuf {
    let script = format!(
        "#!/bin/sh\ncd {}\n\
         echo \"$HELIO_EVENT $HELIO_CHANGE $HELIO_GROUP $HELIO_NODE $HELIO_PEER: $HELIO_WHY\" >> told\nexit {code}\n",
        folder.path().display()
    );
    let file = folder.write(name, &script);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700)).expect("it may be run");
    file
}

/// The lines that hooks wrote, once there are so many.
fn told(folder: &TempDir, count: usize) -> Vec<String> {
    eventually(PATIENCE, "the hooks", || {
        let text = std::fs::read_to_string(folder.join("told")).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
        (lines.len() >= count).then_some(lines)
    })
}

/// The alerts that began or ended, in order.
fn edges(events: &[Value]) -> Vec<(&'static str, Value)> {
    let of = |event: &Value| {
        let changed = event["changed"].clone();
        ALERTS.into_iter().filter_map(move |alert| {
            let new = changed[alert].get("new")?.clone();
            Some((alert, new))
        })
    };
    events.iter().flat_map(of).collect()
}

#[test]
fn a_figure_beyond_its_bound_is_an_event_and_a_hook_once_each_way() {
    let dice = Dice::of_test("a_figure_beyond_its_bound_is_an_event_and_a_hook_once_each_way");
    let line = format!("queue = {{ memory = \"64MiB\" }}\n{OFF}");
    let plan = Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(16)).group_line(&line);
    // One MB/s.
    let (plan, _relay) = relayed(plan, Duration::from_millis(10), 8, dice.seed());
    let (mut pair, folder) = (plan.start(), TempDir::new());
    begin(&pair, "paris");

    // Bounds and hooks come while the daemon runs.
    let hooks = [("lag-above", 0), ("protection-lost", 3)]
        .map(|(name, code)| format!("{name} = \"{}\"", hook(&folder, name, code).display()));
    let alerts =
        "alerts = { lag-above = \"2s\", queue-full-within = \"off\", protection-lost = \"1s\" }";
    change(&pair, OFF, &format!("{alerts}\nhooks = {{ {} }}", hooks.join(", ")));
    let phrases = ["group db: lag-above off -> 2s", "group db: hook lag-above none -> "];
    assert_ended(&pair.helio("paris", &["apply"]), 0, &phrases);
    let follower = Follower::start(&pair, "paris", "events", &["db"]);

    // A swing beyond the bound for less than a second causes nothing: the list below would have it.
    let mut client = connect(&pair, "paris");
    let mut write = |mib: u64, half: usize| {
        let data = vec![7; half << 19];
        client.write(mib << 20, &data, false).expect("the queue has room");
    };
    (0..2).for_each(|mib| write(mib, 2));
    write(2, 1);
    wait_level(&pair, "paris");

    (0..12).for_each(|mib| write(mib, 2));
    follower.wait_change("group", "lag_above", &true.into());
    wait_level(&pair, "paris");
    follower.wait_change("group", "lag_above", &false.into());

    pair.daemon("lyon").kill9();
    follower.wait_change("group", "protection_lost", &true.into());
    pair.start("lyon");
    follower.wait_change("group", "protection_lost", &false.into());

    follower.wait_change("group", "hook_failed", &"protection-lost".into());
    let lines = told(&folder, 4);
    let [lag, level, lost, regained] = lines.as_slice() else { panic!("{lines:#?}") };
    let facts = "db paris lyon: ";
    let is = |line: &str, begin: &str| line.starts_with(&format!("{begin} {facts}"));
    assert!(is(lag, "lag-above begin") && lag.contains("the oldest write that lyon"), "{lag}");
    assert!(is(level, "lag-above end") && level.ends_with("lyon has every write"), "{level}");
    assert!(is(lost, "protection-lost begin") && lost.contains("no message from lyon"), "{lost}");
    assert!(is(regained, "protection-lost end"), "{regained}");
    let log = pair.daemon("paris").log();
    for phrase in ["an alert began", "an alert ended", "the hook failed", "exit code 3"] {
        assert!(log.contains(phrase), "no `{phrase}` in:\n{log}");
    }

    drop(client);
    assert!(pair.daemon("paris").terminate().success());
    let events = follower.wait_end();
    let expected =
        ["lag_above", "protection_lost"].map(|it| [(it, json!(true)), (it, json!(false))]);
    assert_eq!(edges(&events), expected.concat(), "{events:#?}");
}

#[test]
fn a_queue_that_fills_and_a_resync_that_does_not_converge_are_alerts() {
    let dice = Dice::of_test("a_queue_that_fills_and_a_resync_that_does_not_converge_are_alerts");
    let alerts = "queue = { memory = \"8MiB\" }\n\
        alerts = { lag-above = \"off\", queue-full-within = \"30s\", resync-not-converging = \"2s\", protection-lost = \"off\" }";
    let plan = Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(16)).group_line(alerts);
    // One MB/s.
    let (plan, _relay) = relayed(plan, Duration::from_millis(10), 8, dice.seed());
    let mut pair = plan.start();
    begin(&pair, "paris");
    let follower = Follower::start(&pair, "paris", "events", &["db"]);
    let book = Arc::new(Book::new(dice.seed()));

    let load = Load::PLAIN.start(&pair, "paris", &dice.fork(1), &book);
    follower.wait_change("group", "queue_full_within", &true.into());
    load.stop();
    follower.wait_change("group", "queue_full_within", &false.into());
    wait_level(&pair, "paris");

    pair.helio("paris", &["pause", "db"]).expect_success();
    let load = Load::PLAIN.start(&pair, "paris", &dice.fork(2), &book);
    wait(&pair, "paris", "dirty regions", |shown| {
        number(shown, "/volumes/0/dirty_bytes") >= Bytes::mib(15).0
    });
    pair.helio("paris", &["resume", "db"]).expect_success();
    follower.wait_change("group", "resync_not_converging", &true.into());
    load.stop();
    follower.wait_change("group", "resync_not_converging", &false.into());

    // Which group, which peer, and why.
    let log = pair.daemon("paris").log();
    for alert in ["queue-full-within", "resync-not-converging"] {
        let row = log.lines().find(|row| row.contains("an alert began") && row.contains(alert));
        let row = row.unwrap_or_else(|| panic!("no {alert} in:\n{log}"));
        for field in ["group=\"db\"", "peer=\"lyon\"", "why=\""] {
            assert!(row.contains(field), "no {field} in {row}");
        }
    }
    assert!(pair.daemon("paris").terminate().success());
    // The queue may fill again during the resync; each alert begins and ends in turn.
    let edges = edges(&follower.wait_end());
    for alert in ["queue_full_within", "resync_not_converging"] {
        let own: Vec<bool> =
            edges.iter().filter(|edge| edge.0 == alert).map(|edge| edge.1 == true).collect();
        let turns: Vec<bool> = (0..own.len()).map(|n| n.is_multiple_of(2)).collect();
        assert!(own.len() >= 2 && own == turns, "{alert}: {edges:?}");
    }
}

#[test]
fn an_error_that_stops_a_group_ends_the_alert_of_its_lag_and_not_that_protection_is_lost() {
    let folder = TempDir::new();
    let alerts = "alerts = { lag-above = \"2s\", protection-lost = \"1s\" }";
    let hooks = ["lag-above", "protection-lost"]
        .map(|name| format!("{name} = \"{}\"", hook(&folder, name, 0).display()));
    let lines = format!("{alerts}\nhooks = {{ {} }}", hooks.join(", "));
    let plan = Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(16)).group_line(&lines);
    let mut pair = plan.prepare();
    pair.start("lyon");
    // Its engine panics when a client discards.
    let planted = Path::new(env!("CARGO_BIN_EXE_helio-planted"));
    let mut paris = Daemon::start_program(planted, "paris", pair.config(), &pair.state("paris"));
    paris.wait_ready();
    begin(&pair, "paris");
    wait_level(&pair, "paris");
    pair.daemon("lyon").kill9();
    let mut client = connect(&pair, "paris");
    client.write(0, &[7; 4096], false).expect("the queue has room");
    told(&folder, 2);
    client.trim(0, Bytes(4096), false).expect_err("the group failed");
    let mut lines = told(&folder, 3);
    assert!(paris.terminate().success());
    let end = lines.pop().expect("three lines");
    assert!(
        end.starts_with("lag-above end db paris lyon: the group is not served"),
        "{lines:#?} {end}"
    );
    assert!(lines.iter().all(|line| line.contains(" begin db paris lyon: ")), "{lines:#?}");
    assert_eq!(told(&folder, 3).len(), 3, "the data is not protected again");
}
