// SPDX-License-Identifier: Apache-2.0
//! `helio queue`: the bound changes under way, and `helio apply` knows what runs.

use crate::common::{assert_ended, change};
use helio_e2e::{Book, Load, begin, group, number, relayed, wait, wait_level};
use helio_testkit::{Dice, Pair, Plan};
use helio_units::{Bytes, Mode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn pair() -> Pair {
    let line = "queue = { memory = \"1MiB\", items = 1000 }";
    Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(1)).group_line(line).start()
}

fn queue(pair: &Pair, node: &str) -> Value {
    pair.helio(node, &["queue", "show", "db", "--json"]).json()
}

#[test]
fn a_queue_is_changed_while_it_runs_and_apply_goes_back_to_the_file() {
    let pair = pair();
    begin(&pair, "paris");
    let set = ["queue", "set", "db", "--memory", "2MiB", "--when-full", "block/fail"];
    let told = pair.helio("paris", &set);
    let now = "the queue of db is now 2 MiB and 1000 items, block/fail when full";
    assert_ended(&told, 0, &[now, "the file is not changed", "helio apply"]);
    let shown = wait(&pair, "paris", "the new bound", |status| {
        number(status, "/queue/bound_bytes") == 2 << 20
    });
    assert_eq!(shown["queue"]["bound_source"], "operator");
    assert_eq!(shown["queue"]["when_full_disconnected"], "fail");
    let told = queue(&pair, "paris");
    assert_eq!(told["settings"]["memory"], json!({ "bytes": 2 << 20 }));
    assert_eq!(told["file_settings"]["memory"], json!({ "bytes": 1 << 20 }));
    let again = pair.helio("paris", &["queue", "set", "db", "--memory", "2MiB"]);
    assert_ended(&again, 0, &["already has these settings"]);

    // What runs, and not the file as it was applied last, is what the file is held against.
    pair.helio("paris", &["mode", "db", "async"]).expect_success();
    let lines = ["mode async -> sync", "queue 2 MiB and 1000 items, block/fail when full -> 1 MiB"];
    assert_ended(&pair.helio("paris", &["apply", "--dry-run"]), 0, &lines);
    assert_ended(&pair.helio("paris", &["apply"]), 0, &lines);
    let shown = wait(&pair, "paris", "the file's bound", |status| {
        number(status, "/queue/bound_bytes") == 1 << 20
    });
    assert_eq!(
        (&shown["mode"]["requested"], &shown["queue"]["bound_source"]),
        (&json!("sync"), &json!("file"))
    );
    assert_eq!(queue(&pair, "paris")["file_settings"], Value::Null);
    assert_ended(&pair.helio("paris", &["apply"]), 0, &["nothing to change"]);
}

#[test]
fn an_automatic_queue_says_what_it_chose_and_why() {
    let pair = pair();
    begin(&pair, "paris");
    pair.helio("paris", &["queue", "set", "db", "--memory", "auto"]).expect_success();
    wait(&pair, "paris", "an automatic bound", |status| {
        number(status, "/queue/bound_bytes") >= 8 << 20
    });
    let told = pair.helio("paris", &["queue", "show", "db"]).expect_success();
    assert!(told.contains("auto: "), "{told}");
    change(&pair, "memory = \"1MiB\"", "memory = \"auto\"");
    // The operator's queue is the file's now: there is nothing to go back to.
    assert_ended(&pair.helio("paris", &["apply"]), 0, &["nothing to change"]);
}

#[test]
fn high_water_marks_begin_anew_at_what_is_there() {
    let pair = pair();
    begin(&pair, "paris");
    let before = group(&pair, "paris");
    assert!(number(&before, "/queue/bytes_high_water") > 0, "the first copy went through it");
    assert_ended(&pair.helio("paris", &["queue", "reset", "db"]), 0, &["are reset"]);
    let after = queue(&pair, "paris");
    assert_eq!(number(&after, "/queue/bytes_high_water"), number(&after, "/queue/bytes"));
    let since = |status: &Value| number(status, "/queue/high_water_since_ms");
    assert!(since(&after) > since(&before), "{after:#}");
    assert!(number(&after, "/queue/bytes_high_water_at_ms") >= since(&after), "{after:#}");
}

#[test]
fn what_happened_at_the_bound_and_how_long_answers_took_begin_anew_too() {
    let line = "queue = { memory = \"256KiB\" }";
    let plan = Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(4)).group_line(line);
    let (plan, _relay) = relayed(plan, Duration::from_millis(40), 16, 1);
    let pair = plan.start();
    begin(&pair, "paris");
    let (dice, book) = (Dice::new(1), Arc::new(Book::new(1)));
    Load { depth: 64, blocks: (4, 4), count: Some(400), ..Load::PLAIN }
        .run(&pair, "paris", &dice, &book);
    let before = group(&pair, "paris");
    assert!(number(&before, "/throttle/count") > 0, "{before:#}");
    let [writes, p50, p99, most] = ["count", "p50_us", "p99_us", "most_us"]
        .map(|of| number(&before, &format!("/answers/writes/{of}")));
    assert!(writes >= 100 && 0 < p50 && p50 <= p99 && p99 <= most, "{before:#}");
    let shown = pair.helio("paris", &["status", "db", "-v"]).expect_success();
    assert!(shown.contains(&format!("latency    {writes} writes, p50 ")), "{shown}");

    assert_ended(&pair.helio("paris", &["queue", "reset", "db"]), 0, &["counters", "are reset"]);
    let after = group(&pair, "paris");
    for of in ["/throttle/count", "/throttle/total_seconds", "/answers/writes/count"] {
        assert_eq!(after.pointer(of).and_then(Value::as_f64), Some(0.0), "{of} of {after:#}");
    }
    let since = |status: &Value| number(status, "/answers/since_ms");
    assert!(since(&after) > since(&before), "{after:#}");
    assert_eq!(group(&pair, "lyon")["answers"], Value::Null, "a secondary answers no writes");
}

#[test]
fn a_status_says_that_clients_wait_at_a_full_queue_and_what_lets_them_continue() {
    let lines = ["queue = { memory = \"1MiB\", when-full = \"block\" }", "peer-timeout = \"60s\""];
    let plan = Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(8));
    let mut pair = lines.iter().fold(plan, |plan, line| plan.group_line(line)).start();
    begin(&pair, "paris");
    pair.daemon("lyon").freeze();
    let (dice, book) = (Dice::new(1), Arc::new(Book::new(1)));
    let writers = Load { depth: 64, blocks: (16, 16), ..Load::PLAIN };
    let writers = writers.start(&pair, "paris", &dice, &book);
    let advice = "a faster link, or `helio queue set db --memory 2MiB`";
    wait(&pair, "paris", "clients that wait", |status| {
        let why = status["verdict"]["why"].as_str().unwrap_or_default();
        why.starts_with("clients wait: the queue is full, and ")
            && status["next"].as_str().is_some_and(|next| next.ends_with(advice))
    });
    assert_ended(&pair.helio("paris", &["queue", "set", "db", "--memory", "2MiB"]), 0, &[]);
    pair.daemon("lyon").thaw();
    writers.stop();
    wait_level(&pair, "paris");
    assert_eq!(book.failures(), []);
}

#[test]
fn what_makes_no_queue_is_refused_and_a_secondary_has_none() {
    let pair = pair();
    begin(&pair, "paris");
    let set = |word: &str, value: &str| pair.helio("paris", &["queue", "set", "db", word, value]);
    assert_ended(&set("--memory", "100B"), 1, &["smaller than one sector", "hint: ", "512B"]);
    assert_ended(&set("--memory", "100"), 2, &["needs a unit"]);
    assert_ended(&set("--items", "0"), 2, &["0"]);
    assert_ended(&set("--when-full", "spill"), 2, &["block, log or fail"]);
    assert_ended(&pair.helio("paris", &["queue", "set", "db"]), 2, &["--memory"]);
    assert_ended(&pair.helio("paris", &["queue", "show", "dbx"]), 1, &["name one of: db"]);
    assert_eq!(number(&group(&pair, "paris"), "/queue/bound_bytes"), 1 << 20);

    let told = pair.helio("lyon", &["queue", "show", "db"]);
    assert_ended(
        &told,
        0,
        &["queue: none, because this node is secondary", "1 MiB and 1000 items"],
    );
    assert_ended(&pair.helio("lyon", &["queue", "reset", "db"]), 1, &["secondary", "hint: "]);
}
