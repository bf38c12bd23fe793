// SPDX-License-Identifier: Apache-2.0
//! What a person sees and does: load, a cut link, a resync, a split brain, a lost disk, a node that does not respond. The pictures in
//! `docs/images` are taken here: `HELIO_REWRITE=1 cargo test -p helio-e2e --test dashboard`.

use crate::stage::Dashboard;
use helio_e2e::{
    Book, Load, assert_members_equal, begin, connect, group, number, relayed, wait, wait_level,
    wait_state,
};
use helio_testkit::{Browser, Dice, Pair, Plan, TempDir, eventually, page_tests, require, run};
use helio_units::{Bytes, Mode};
use helio_wan::{Cut, Relay};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const WIDE: [u32; 2] = [1280, 800];
const SOME: Load = Load { count: Some(200), ..Load::PLAIN };
const PATIENCE: Duration = Duration::from_secs(30);
/// On a busy machine, where they take a minute and more.
const OWN_TESTS_WITHIN: Duration = Duration::from_secs(240);

/// A pair in sync behind a relay, of which paris is primary.
fn pair(test: &'static str, mbit: u64) -> (Pair, Relay, Dice) {
    let dice = Dice::of_test(test);
    let plan = Plan::new("db")
        .mode(Mode::Async)
        .volume("data", Bytes::mib(16))
        .group_line("peer-timeout = \"2s\"");
    let (plan, relay) = relayed(plan, Duration::from_millis(5), mbit, dice.seed());
    let pair = plan.start();
    begin(&pair, "paris");
    (pair, relay, dice)
}

fn opened(dashboard: &Dashboard, scheme: &str) -> Browser {
    let mut page = Browser::start();
    assert_eq!(page.open(&dashboard.url, WIDE, scheme), 200);
    page.see(&["db", "paris", "lyon", "live"]);
    page
}

/// Keeps a picture for the pages of the documentation, if they are to be made again.
fn picture(page: &mut Browser, name: &str) {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    if std::env::var_os("HELIO_REWRITE").is_some() {
        page.run("scrollTo(0, 0)");
        page.shot(&images.join(format!("dashboard-{name}.png")));
    }
}

/// What the plots look like; what is not on the screen is not drawn.
fn plots(page: &mut Browser) -> Value {
    page.run("document.querySelector('.plots').scrollIntoView()");
    page.run("[...document.querySelectorAll('canvas')].map((canvas) => canvas.toDataURL())")
}

/// Presses a button and confirms.
fn does(page: &mut Browser, button: &str, label: &str) {
    page.click(button);
    page.see(&["same as", "at stake"]);
    page.click(&format!("Do it: {label}"));
}

/// Confirms what the daemon reports at stake.
fn nevertheless(page: &mut Browser, label: &str) {
    page.see(&["Data may be lost", "Type the name of the group"]);
    page.fill("Type the name of the group to confirm: db", "db");
    page.click(&format!("Do it nevertheless: {label}"));
}

/// Presses a button, confirms, and confirms again what the daemon reports at stake.
fn does_nevertheless(page: &mut Browser, button: &str, label: &str) {
    does(page, button, label);
    nevertheless(page, label);
}

/// The same in a simulated pair, whose dialogs show no command.
fn does_simulated(page: &mut Browser, button: &str, label: &str) {
    page.click(button);
    page.click(&format!("Do it: {label}"));
    nevertheless(page, label);
}

#[test]
fn a_person_sees_load_a_cut_a_resync_and_acts() {
    require!("node", "chromium", "playwright-core");
    let (pair, relay, dice) = pair("a_person_sees_load_a_cut_a_resync_and_acts", 20);
    let dashboard = Dashboard::start(&pair, ["paris", "lyon"], &[]);
    let mut page = opened(&dashboard, "light");
    page.see(&["replicating", "OK: db"]);
    let book = Arc::new(Book::new(dice.seed()));
    let load = Load::PLAIN.start(&pair, "paris", &dice.fork(1), &book);
    page.see(&["1 client", "clients 0 → 1"]);
    let before = plots(&mut page);
    eventually(PATIENCE, "plots that move", || (plots(&mut page) != before).then_some(()));

    relay.control().cut(Cut::Freeze);
    page.see(&["AT RISK: db", "not connected"]);
    page.see(&["connection connected → connecting"]);
    picture(&mut page, "cut");
    page.click_text("more actions");
    does(&mut page, "pause: db on paris", "pause");
    wait_state(&pair, "paris", "logging");
    page.see(&["resume on paris"]);
    let dirty = |shown: &Value| number(shown, "/volumes/0/dirty_bytes") >= Bytes::mib(12).0;
    wait(&pair, "paris", "dirty regions", dirty);
    load.stop();
    relay.control().heal();
    page.see(&["connected"]);
    does(&mut page, "resume on paris", "resume");
    page.see(&[" copied ("]);
    picture(&mut page, "resync");
    page.see(&["replicating", "OK: db"]);
    wait_level(&pair, "paris");

    page.click("snapshot create: db on paris");
    page.fill("name of the snapshot", "by-page");
    page.click("Do it: snapshot create");
    for node in ["paris", "lyon"] {
        eventually(PATIENCE, "the snapshot", || {
            let list = pair.helio(node, &["snapshot", "list", "db", "--json"]).json();
            (list["snapshots"][0]["name"] == "by-page").then_some(())
        });
    }
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[test]
fn a_split_brain_is_healed_with_the_page_alone() {
    require!("node", "chromium", "playwright-core");
    let (pair, relay, dice) = pair("a_split_brain_is_healed_with_the_page_alone", 100);
    let dashboard = Dashboard::start(&pair, ["paris", "lyon"], &[]);
    let mut page = opened(&dashboard, "dark");
    let book = Arc::new(Book::new(dice.seed()));
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    relay.control().cut(Cut::Reset);
    page.see(&["AT RISK", "promote --force on lyon"]);
    SOME.run(&pair, "paris", &dice.fork(2), &book);
    does_nevertheless(&mut page, "promote --force on lyon", "promote --force");
    wait(&pair, "lyon", "its promotion", |shown| shown["role"] == "primary");
    SOME.run(&pair, "lyon", &dice.fork(3), &book);

    relay.control().heal();
    page.see(&[
        "SPLIT BRAIN",
        "Keep the writes of lyon, discard those of paris",
        "Keep the writes of paris, discard those of lyon",
        "only on paris: at most",
        "only on lyon: at most",
    ]);
    picture(&mut page, "split-brain");
    does(&mut page, "demote on paris", "demote");
    wait(&pair, "paris", "its demotion", |shown| shown["role"] == "secondary");
    page.see(&["resolve --discard paris on paris", "Choose again"]);
    page.see_none(&["discard those of lyon"]);
    does_nevertheless(&mut page, "resolve --discard paris on paris", "resolve --discard paris");
    page.see(&["were saved in"]);
    wait_level(&pair, "lyon");
    page.see(&["OK: db", "replicating"]);
    assert_members_equal(&pair, "data");
    let saved = pair.helio("paris", &["saved", "list", "--json"]).json();
    assert_eq!(saved["saved"].as_array().map(Vec::len), Some(1), "{saved}");
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[test]
fn a_lost_disk_is_replaced_with_the_page_alone() {
    require!("node", "chromium", "playwright-core");
    let dice = Dice::of_test("a_lost_disk_is_replaced_with_the_page_alone");
    let pair = Plan::new("db")
        .mode(Mode::Sync)
        .group_line("on-error = \"serve-from-peer\"")
        .volume("data", Bytes::mib(16))
        .start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    wait_level(&pair, "paris");
    let dashboard = Dashboard::start(&pair, ["paris", "lyon"], &[]);
    let mut page = opened(&dashboard, "light");
    let member = pair.member("paris", "data");
    let file = fs::OpenOptions::new().write(true).open(&member);
    file.and_then(|file| file.set_len(0)).expect("it can be cut");
    let mut client = connect(&pair, "paris");
    client.read(0, &mut vec![0; 4096]).expect("the peer's copy is read");
    client.disconnect().expect("it may go");
    page.see(&["DISK FAILED", "member replace"]);
    picture(&mut page, "disk-failed");

    // Another disk at the path that the configuration file names.
    fs::remove_file(&member).expect("it can be removed");
    fs::write(&member, vec![0xA5; Bytes::mib(16).0 as usize]).expect("it can be written");
    does_nevertheless(&mut page, "member replace on paris", "member replace");
    page.see(&["has another disk"]);
    wait_level(&pair, "paris");
    page.see(&["OK: db", "replicating"]);
    assert_members_equal(&pair, "data");
    assert_eq!(group(&pair, "paris")["role"], "primary");
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[test]
fn a_node_that_does_not_respond_is_shown_as_its_peer_reports_it() {
    require!("node", "chromium", "playwright-core");
    let (mut pair, _relay, _dice) =
        pair("a_node_that_does_not_respond_is_shown_as_its_peer_reports_it", 100);
    let dashboard = Dashboard::start(&pair, ["paris", "lyon"], &[]);
    let mut page = opened(&dashboard, "light");
    pair.daemon("lyon").kill9();
    page.see(&["no daemon responds", "AT RISK"]);
    pair.start("lyon");
    page.see_none(&["no daemon responds"]);
    page.see(&["OK: db", "replicating"]);
}

#[test]
fn a_newcomer_cuts_a_simulated_link_and_fails_over() {
    require!("node", "chromium", "playwright-core");
    let dashboard = Dashboard::simulated(&["--seed", "7"]);
    let mut page = Browser::start();
    assert_eq!(page.open(&dashboard.url, WIDE, "light"), 200);
    page.see(&["OK: db", "Simulation", "First steps: 0 of 5 done", "written by clients"]);
    let before = plots(&mut page);
    eventually(PATIENCE, "plots that move", || (plots(&mut page) != before).then_some(()));
    page.click("5×");
    page.click("Cut the link");
    page.see(&["AT RISK: db", "First steps: 1 of 5 done"]);
    picture(&mut page, "simulation");
    page.click("Restore the link");
    page.see(&["OK: db", "First steps: 2 of 5 done"]);
    page.click("Kill paris");
    page.see(&["paris: down", "AT RISK: db"]);
    page.click("Fail over to lyon");
    page.click("Do it: promote");
    does_simulated(&mut page, "promote --force on lyon", "promote --force");
    page.see(&["lyon: serves the clients"]);
    page.click("Start paris");
    page.see(&["paris: running"]);
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[test]
fn either_choice_of_a_split_brain_can_be_done_to_its_end() {
    require!("node", "chromium", "playwright-core");
    let dashboard = Dashboard::simulated(&["--seed", "3"]);
    let mut page = Browser::start();
    assert_eq!(page.open(&dashboard.url, WIDE, "light"), 200);
    page.see(&["OK: db", "Simulation"]);
    page.click("5×");
    page.click("Cut the link");
    page.see(&["AT RISK: db"]);
    page.click_text("more actions");
    page.click("demote: db on paris");
    page.click("Do it: demote");
    does_simulated(&mut page, "promote --force on lyon", "promote --force");
    page.see(&["lyon: serves the clients"]);
    page.click("Restore the link");
    // lyon, which serves, is the node to discard: its peer becomes primary in a step of its own.
    page.see(&["SPLIT BRAIN: db", "Keep the writes of paris, discard those of lyon"]);
    page.click("demote on lyon");
    page.click("Do it: demote");
    page.see(&["Choose again"]);
    page.see_none(&["do not promote paris"]);
    does_simulated(&mut page, "resolve --discard lyon on lyon", "resolve --discard lyon");
    page.click("promote on paris");
    page.click("Do it: promote");
    page.see(&["OK: db", "paris: serves the clients"]);
    page.see_none(&["Choose again"]);
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[test]
fn a_newcomer_loses_one_disk_and_then_both() {
    require!("node", "chromium", "playwright-core");
    let dashboard = Dashboard::simulated(&["--seed", "4"]);
    let mut page = Browser::start();
    assert_eq!(page.open(&dashboard.url, WIDE, "dark"), 200);
    page.see(&["OK: db", "Simulation"]);
    page.click("5×");
    page.click("Fail the disk of lyon");
    page.see(&["DISK FAILED: db"]);
    page.click("Replace the disk of lyon");
    page.see(&["lyon has a new, empty disk", "copies the data from paris", "disk new and empty"]);
    does_simulated(&mut page, "member replace on lyon", "member replace");
    page.see(&["OK: db"]);
    page.see_none(&["disk new and empty"]);
    for node in ["lyon", "paris"] {
        page.click(&format!("Fail the disk of {node}"));
    }
    page.see(&["No complete copy of the data is left"]);
    page.see_none(&["do on paris", "do on lyon"]);
    page.click("New pair");
    page.see(&["OK: db"]);
    page.see_none(&["No complete copy of the data is left"]);
    assert_eq!(page.faults(), Vec::<String>::new());
}

/// The sources of the page.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../app/web/page")
}

#[test]
fn the_page_passes_its_own_tests() {
    require!("node", "npm", "chromium", "playwright-core");
    page_tests(OWN_TESTS_WITHIN).expect_success();
}

#[test]
fn the_committed_page_is_what_its_sources_make() {
    // `npm ci` installs what builds the page, too.
    require!("node", "npm", "playwright-core");
    let made = TempDir::new();
    let mut build = Command::new("npm");
    build.args(["run", "build"]).current_dir(sources()).env("HELIO_DIST", made.path());
    run(&mut build).expect_success();
    for name in ["index.html", "app.js", "app.css", "NOTICE.txt"] {
        let [committed, made] = [sources().join("../dist").join(name), made.path().join(name)]
            .map(|path| fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display())));
        let how = "`npm run build` in app/web/page";
        assert!(committed == made, "{name} is not what the sources make: {how}");
    }
}
