// SPDX-License-Identifier: Apache-2.0
//! `helio advise`: what a pair does wrong is told with its number and its hint, and a pair that does well is left alone.

use crate::common::assert_ended;
use helio_e2e::{Book, Load, begin, number, relayed, wait};
use helio_testkit::{Dice, Pair, Plan, Told, helio, in_time};
use helio_units::{Bytes, Mode};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// What `helio advise` ends with where something should be changed.
const TO_CHANGE: i32 = 6;
const SIZE: Bytes = Bytes::mib(4);

/// Looks at the pair's group for as short as may be.
fn advise(pair: &Pair, node: &str, more: &[&str]) -> Told {
    pair.helio(node, &[&["advise", "db", "--over", "500ms"][..], more].concat())
}

/// What a rule says.
#[track_caller]
fn finding(told: &Told, label: &str) -> Value {
    let json: Value =
        serde_json::from_str(&told.stdout).unwrap_or_else(|why| panic!("{why}: {told}"));
    let findings = json["groups"][0]["findings"].as_array().expect("a group has findings");
    let found = findings.iter().find(|finding| finding["label"] == label);
    found.unwrap_or_else(|| panic!("nothing is said of {label}: {told}")).clone()
}

#[track_caller]
fn assert_verdict(told: &Told, label: &str, verdict: &str, words: &str) -> Value {
    let finding = finding(told, label);
    assert_eq!(finding["verdict"], verdict, "{finding:#}");
    assert!(finding.to_string().contains(words), "`{words}` should be in {finding:#}");
    finding
}

/// Writes what `helio plan forecast --json` says of a link that is near and fast.
fn forecast(pair: &Pair) -> String {
    let work = "rate=50,size=4KiB,for=2s,volume=4MiB";
    let link = "rtt=1ms,rate=1Gbit/s";
    let words =
        ["plan", "forecast", "--synthetic", work, "--link", link, "--modes", "async", "--json"];
    let json = helio(&words).expect_success();
    pair.scratch().write("forecast.json", &json).display().to_string()
}

#[test]
fn a_tiny_queue_on_a_slow_link_is_advised_and_a_forecast_of_a_faster_one_is_held_against_it() {
    let line = "queue = { memory = \"256KiB\" }";
    let plan = Plan::new("db").mode(Mode::Async).volume("data", SIZE).group_line(line);
    let (plan, _relay) = relayed(plan, Duration::from_millis(40), 16, 1);
    let pair = plan.start();
    begin(&pair, "paris");
    let planned = forecast(&pair);
    let (dice, book) = (Dice::new(1), Arc::new(Book::new(1)));
    let load =
        Load { depth: 64, blocks: (4, 4), ..Load::PLAIN }.start(&pair, "paris", &dice, &book);

    // From then on the link is full for as long as somebody writes.
    // Fewer answers than a hundred would say nothing.
    wait(&pair, "paris", "a full queue, and answers behind it", |status| {
        number(status, "/throttle/waiting") > 0 && number(status, "/answers/writes/count") >= 200
    });
    let told = advise(&pair, "paris", &["--json", "--forecast", &planned]);
    assert_eq!(told.status.code(), Some(TO_CHANGE), "{told}");
    let high = assert_verdict(&told, "queue-bytes", "change", "helio queue set db --memory 512KiB");
    assert!(high["value"].as_f64().is_some_and(|share| share >= 85.0), "{high:#}");
    assert_eq!((&high["threshold"], &high["unit"]), (&85.0.into(), &"%".into()));
    assert_verdict(&told, "writes-wait", "change", "writes waited for space");
    let rtt = assert_verdict(&told, "link-round-trip", "change", "the forecast has 1 ms");
    let trip = Duration::from_secs_f64(rtt["value"].as_f64().expect("a figure") / 1e3);
    assert!(trip >= Duration::from_millis(40), "{rtt:#}");
    in_time(trip, Duration::from_millis(400), "a round trip of 40 ms");
    let rate = assert_verdict(&told, "link-rate", "change", "helio lab link");
    assert!(
        rate["value"].as_f64().is_some_and(|rate| rate < 2.2e6),
        "16 Mbit/s are 2 MB/s: {rate:#}"
    );
    assert_verdict(&told, "plan-queue", "change", "--memory 8MiB");
    assert_verdict(&told, "plan-mode", "well", "as forecast");
    // All but the first writes wait for room, and are answered when it was made.
    let slow = assert_verdict(&told, "plan-latency", "change", "99 % of ");
    let above = |of: &str| slow[of].as_f64().expect("a figure");
    assert!(slow["unit"] == "ms" && above("value") > above("threshold"), "{slow:#}");
    assert_verdict(&told, "plan-median", "watch", "as the median");
    assert_verdict(&told, "plan-flush-latency", "unknown", "the forecast has no flushes");
    load.stop();

    // Whoever does as advised is told so.
    let text = advise(&pair, "paris", &[]);
    assert_ended(
        &text,
        TO_CHANGE,
        &["change     queue-bytes: at most", "Sun remote mirror 3.1", "do "],
    );
    // What waited is to be known until somebody says that it is.
    let before = advise(&pair, "paris", &["--json"]);
    assert_verdict(&before, "writes-wait", "watch", "helio queue reset db");
    pair.helio("paris", &["queue", "set", "db", "--memory", "512KiB"]).expect_success();
    pair.helio("paris", &["queue", "reset", "db"]).expect_success();
    let after = advise(&pair, "paris", &["--json"]);
    assert_verdict(&after, "queue-bytes", "well", "of 512 KiB");
    assert_verdict(&after, "writes-wait", "well", "0 writes waited");
    assert_eq!(after.status.code(), Some(0), "{after}");
}

#[test]
fn a_pair_that_does_well_is_left_alone_and_what_cannot_be_judged_is_told() {
    let pair = Plan::new("db").mode(Mode::Sync).volume("data", SIZE).start();
    begin(&pair, "paris");
    pair.helio("paris", &["queue", "reset", "db"]).expect_success();
    let (dice, book) = (Dice::new(2), Arc::new(Book::new(2)));
    Load { count: Some(50), ..Load::PLAIN }.run(&pair, "paris", &dice, &book);
    let told = advise(&pair, "paris", &[]);
    let lines = [
        "db  nothing to change, 0 to watch; on paris",
        "well       queue-bytes: ",
        "--forecast FILE",
    ];
    assert_ended(&told, 0, &lines);
    assert!(!told.stdout.contains("\n  change") && !told.stdout.contains("\n  watch"), "{told}");
    assert_ended(
        &advise(&pair, "lyon", &[]),
        0,
        &["db  not judged: lyon is secondary", "run this on paris"],
    );

    // The other end's buffers are known once it said so itself.
    let theirs = pair.helio("lyon", &["status", "db", "--json"]).expect_success();
    let theirs = pair.scratch().write("lyon.json", &theirs).display().to_string();
    let told = advise(&pair, "paris", &["--peer-status", &theirs]);
    assert_ended(&told, 0, &["buffers-capped: all are left to the kernel\n"]);
    let ours = pair.helio("paris", &["status", "db", "--json"]).expect_success();
    let ours = pair.scratch().write("paris.json", &ours).display().to_string();
    let told = advise(&pair, "paris", &["--peer-status", &ours]);
    assert_ended(&told, 1, &["paris.json is the status of paris", "on lyon"]);
}

#[test]
fn buffers_that_are_capped_and_unequal_are_told_with_the_limit_to_raise() {
    let line = "link = { send-buffer = \"512MiB\", receive-buffer = \"64KiB\" }";
    let pair = Plan::new("db").mode(Mode::Sync).volume("data", SIZE).group_line(line).start();
    begin(&pair, "paris");
    let told = advise(&pair, "paris", &["--json"]);
    assert_eq!(told.status.code(), Some(TO_CHANGE), "{told}");
    assert_verdict(
        &told,
        "buffers-capped",
        "change",
        "on paris: `sysctl -w net.core.wmem_max=536870912`",
    );
    assert_verdict(&told, "buffers-unequal", "change", "paris send 512MiB, paris receive 64KiB");
}

#[test]
fn a_forecast_that_is_damaged_or_none_is_refused_by_what_is_wrong_with_it() {
    let pair = Plan::new("db").mode(Mode::Async).volume("data", SIZE).start();
    begin(&pair, "paris");
    let path = forecast(&pair);
    let whole = std::fs::read_to_string(&path).expect("it was written");
    let with = |name: &str, text: &str| {
        let file = pair.scratch().write(name, text).display().to_string();
        advise(&pair, "paris", &["--forecast", &file])
    };
    let half = whole.get(..whole.len() / 2).expect("a forecast is plain text");
    assert_ended(&with("cut.json", half), 1, &["cut.json is not JSON, or is cut short", " line "]);
    assert_ended(&with("status.json", "{\"node\": \"paris\"}"), 1, &["status.json has no `cells`"]);
    let mut json: Value = serde_json::from_str(&whole).expect("it is JSON");
    json["cells"][0]["figures"]["queue_high"] = "much".into();
    let told = with("wrong.json", &json.to_string());
    assert_ended(
        &told,
        1,
        &["wrong.json: cells[0].figures.queue_high: \"much\" is not a whole number"],
    );
    pair.helio("paris", &["mode", "db", "sync"]).expect_success();
    assert_ended(&with("whole.json", &whole), 1, &["no run is in sync", "--cell NUMBER: 0: async"]);
    assert_ended(&pair.helio("paris", &["advise", "--forecast", &path]), 2, &["<GROUP>"]);
    assert_ended(&advise(&pair, "paris", &["--forecast", "/no/such/plan"]), 1, &["/no/such/plan"]);
}
