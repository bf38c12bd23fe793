// SPDX-License-Identifier: Apache-2.0
//! `helio top` on a terminal, as a person sees it.

use crate::common::assert_ended;
use helio_e2e::{Book, Load, begin, number, relayed, wait_level, wait_state};
use helio_testkit::{Dice, Pair, Plan, Terminal, helio_binary, run};
use helio_units::{Bytes, Mode};
use helio_wan::{Cut, Relay};
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// A pair in sync behind a relay, of which paris is primary.
fn pair(test: &'static str, mbit: u64) -> (Pair, Relay, Dice) {
    let dice = Dice::of_test(test);
    let plan = Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(16));
    let (plan, relay) = relayed(plan, Duration::from_millis(5), mbit, dice.seed());
    let pair = plan.start();
    begin(&pair, "paris");
    (pair, relay, dice)
}

fn top_of(program: &Path, pair: &Pair, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(["top", "--interval", "200ms"]).args(arguments);
    command.env("HELIO_STATE_DIR", pair.state("paris")).env_remove("NO_COLOR");
    command
}

fn top(pair: &Pair, arguments: &[&str]) -> Terminal {
    Terminal::start(&mut top_of(&helio_binary(), pair, arguments), 80, 24)
}

/// Whether the selected group shows a rate of writes that is not zero.
fn writes(screen: &str) -> bool {
    screen.lines().any(|row| row.starts_with("written ") && !row.contains(" 0 B/s"))
}

#[test]
fn a_person_sees_load_a_cut_a_resync_and_acts_by_key() {
    let (pair, relay, dice) = pair("a_person_sees_load_a_cut_a_resync_and_acts_by_key", 20);
    let mut top = top(&pair, &[]);
    top.wait_for(&["helio top: paris", "db         OK          primary   replicating async"]);
    assert!(top.is_coloured());
    let book = Arc::new(Book::new(dice.seed()));
    let load = Load::PLAIN.start(&pair, "paris", &dice.fork(1), &book);
    top.wait("the rate of the load", writes);

    relay.control().cut(Cut::Freeze);
    // Queuing, until the queue is full.
    top.wait_for(&["AT RISK", "lyon at ", "connecting"]);
    // By hand, so that a resync follows and not the queue.
    top.press("p");
    let asked = top.wait_for(&["pause db? [y/N]"]);
    assert!(asked.contains("same as: helio pause db") && asked.contains("at stake: "), "{asked}");
    top.press("y");
    top.wait_for(&["db is paused: dirty regions are recorded", "logging"]);
    wait_state(&pair, "paris", "logging");
    load.stop();
    let count = Load { count: Some(1500), blocks: (1, 4), ..Load::PLAIN };
    count.run(&pair, "paris", &dice.fork(2), &book);

    relay.control().heal();
    top.wait_for(&[", connected: "]);
    top.press("c");
    top.wait_for(&["resync db? [y/N]"]);
    top.press("y");
    top.wait_for(&["resync    [#", " copied ("]);
    top.wait_for(&["1 group, 0 not OK", "replicating"]);
    wait_level(&pair, "paris");
    top.press("q");
    assert_eq!(top.wait_end().code(), Some(0));
}

#[test]
fn a_split_brain_is_seen_with_what_to_do() {
    let (pair, relay, dice) = pair("a_split_brain_is_seen_with_what_to_do", 100);
    let top = top(&pair, &["db"]);
    let book = Arc::new(Book::new(dice.seed()));
    let some = Load { count: Some(100), ..Load::PLAIN };
    relay.control().cut(Cut::Reset);
    top.wait_for(&["AT RISK"]);
    some.run(&pair, "paris", &dice.fork(1), &book);
    pair.helio("lyon", &["promote", "db", "--force", "--yes"]).expect_success();
    some.run(&pair, "lyon", &dice.fork(2), &book);
    relay.control().heal();
    top.wait_for(&["SPLIT BRAIN", "choose the node to discard", "helio demote db"]);
    // It warns that lyon may lack writes.
    let _warned = pair.helio("paris", &["demote", "db"]);
    pair.helio("paris", &["resolve", "db", "--discard", "paris", "--yes"]).expect_success();
    top.wait_for(&["OK", "secondary"]);
    wait_level(&pair, "lyon");
}

#[test]
fn a_snapshot_by_key_is_the_one_of_the_command_line() {
    let (pair, _relay, _dice) = pair("a_snapshot_by_key_is_the_one_of_the_command_line", 100);
    let mut top = top(&pair, &["db"]);
    top.wait_for(&["snapshots 0, 0 B preserved"]);
    top.press("n");
    top.wait_for(&["name of the snapshot of db: top-"]);
    top.press(&"\x7f".repeat(30));
    top.press("by-key\r");
    let asked = top.wait_for(&["snapshot create db@by-key? [y/N]"]);
    assert!(asked.contains("same as: helio snapshot create db@by-key"), "{asked}");
    let list = || pair.helio("paris", &["snapshot", "list", "db", "--json"]).json();
    assert_eq!(list()["snapshots"].as_array().map(Vec::len), Some(0), "it is not confirmed yet");
    top.press("y");
    top.wait_for(&["snapshots 1, ", "Z by-key"]);
    assert_eq!(list()["snapshots"][0]["name"], "by-key");
    // A refusal is that of the command line.
    top.press("n");
    top.wait_for(&["name of the snapshot of db: top-"]);
    top.press(&"\x7f".repeat(30));
    top.press("by-key\r");
    top.wait_for(&["snapshot create db@by-key? [y/N]"]);
    top.press("y");
    top.wait_for(&["hint: "]);
    top.press("\x03");
    assert_eq!(top.wait_end().code(), Some(0));
}

#[test]
fn a_daemon_that_stops_is_said_and_its_return_is_seen() {
    let (mut pair, _relay, _dice) = pair("a_daemon_that_stops_is_said_and_its_return_is_seen", 100);
    let mut command = top_of(&helio_binary(), &pair, &[]);
    let mut top = Terminal::start(command.env("NO_COLOR", "1"), 80, 24);
    top.wait_for(&["replicating"]);
    pair.daemon("paris").terminate();
    top.wait_for(&["no response for ", "the last status is shown", "no daemon responds"]);
    assert!(!top.is_coloured());
    pair.start("paris");
    top.wait("the daemon", |seen| seen.contains("db  ") && !seen.contains("no response"));
    top.signal(Signal::TERM);
    assert_eq!(top.wait_end().code(), Some(128 + 15));
}

#[test]
fn a_panic_gives_the_terminal_back_with_its_message() {
    let (pair, _relay, _dice) = pair("a_panic_gives_the_terminal_back_with_its_message", 100);
    let fifo = pair.scratch().join("panic");
    run(Command::new("mkfifo").arg(&fifo)).expect_success();
    let program = Path::new(env!("CARGO_BIN_EXE_helio-panics"));
    let mut command = top_of(program, &pair, &[]);
    command.env("HELIO_PANIC_AT", &fifo).env_remove("RUST_BACKTRACE");
    let mut top = Terminal::start(&mut command, 80, 24);
    top.wait_for(&["replicating"]);
    assert!(!top.is_restored());
    drop(std::fs::File::options().write(true).open(&fifo).expect("its reader is there"));
    assert_eq!(top.wait_end().code(), Some(1));
    top.wait_for(&["planted: ", "helio top failed: a thread panicked"]);
}

#[test]
fn without_a_terminal_it_names_what_can_be_used() {
    let (pair, _relay, _dice) = pair("without_a_terminal_it_names_what_can_be_used", 100);
    let told = pair.helio("paris", &["top"]);
    assert_ended(&told, 1, &["needs a terminal", "\n  hint: `helio status --watch"]);
    assert!(told.stdout.is_empty(), "{told}");
    let told = pair.helio("paris", &["top", "none"]);
    assert_ended(&told, 1, &["none", "hint: "]);
    let status = &pair.status("paris")["groups"][0];
    assert_eq!(number(status, "/counters/writes"), 0);
}
