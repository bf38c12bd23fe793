// SPDX-License-Identifier: Apache-2.0
//! A group of one node: shadow sets without a peer. A second node comes later.

use helio_e2e::{
    Book, Image, Load, PATIENCE, Promise, Trouble, add_member, connect, group, image, wait,
    wait_level, wait_members,
};
use helio_testkit::{Dice, FaultyStore, Pair, Plan, StorePlan, faulty_stores_possible};
use helio_units::{Bytes, Mode};
use serde_json::Value;
use std::fs;
use std::sync::Arc;

const SIZE: Bytes = Bytes::mib(16);
const SOME: Load = Load { count: Some(200), ..Load::PLAIN };

/// Paris is the only node; `data` has two members there, of which the second can fail, and `log` has one.
struct Stage {
    // Dropped in this order: a daemon ends before what it uses.
    pair: Pair,
    store: FaultyStore,
    dice: Dice,
    book: Arc<Book>,
}

impl Stage {
    #[track_caller]
    fn new(test: &'static str) -> Self {
        let store = StorePlan::new(SIZE).mount();
        let pair = Plan::new("db")
            .only("paris")
            .volume("data", SIZE)
            .volume("log", SIZE)
            .volume_line("sparse = true")
            .group_line("member-timeout = \"1s\"")
            .group_line("member-return = \"off\"")
            .mirror("paris", "data", store.path())
            .start();
        let dice = Dice::of_test(test);
        let book = Arc::new(Book::new(dice.seed()));
        let stage = Self { pair, store, dice, book };
        stage.wait("OK", "ok");
        wait_members(&stage.pair, "paris", ["full", "full"]);
        stage
    }

    /// Waits for a verdict, and reads what is shown with it.
    #[track_caller]
    fn wait(&self, title: &str, word: &str) -> Value {
        let shown = wait(&self.pair, "paris", word, |shown| shown["verdict"]["word"] == word);
        assert!(shown["peer"].is_null(), "{shown:#}");
        for line in
            [&["status", "db"][..], &["status", "db", "-v"], &["status"], &["explain", "db"]]
        {
            let told = self.pair.helio("paris", line);
            assert!(told.shows_status() || line[0] == "explain", "{told}");
            let says_peer =
                ["lyon", "peer", "unreplicated", "secondary", "-x-", "verified", "lag", "mode"];
            let found = says_peer.iter().find(|word| told.stdout.contains(**word));
            assert_eq!(found, None, "{told}");
            assert!(line[0] == "explain" || told.stdout.contains(title), "{told}");
        }
        shown
    }

    #[track_caller]
    fn serves(&mut self) {
        self.pair.start("paris");
        wait(&self.pair, "paris", "a primary", |shown| shown["role"] == "primary");
    }

    /// Both members hold what was acknowledged, and the same. Nothing may be writing there.
    #[track_caller]
    fn judge(&self) {
        let run = self.book.run();
        let first = image(&self.pair, "paris", run);
        let second = Image::read(run, &self.store.content());
        self.book.assert_holds("member 0", &first, Promise::Everything);
        assert!(first == second, "the members differ");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A process cannot be killed while an operation of it on a device is under way.
        self.store.respond();
    }
}

#[test]
fn a_group_of_one_node_serves_after_every_start_and_shows_the_loss_of_a_member() {
    if !faulty_stores_possible() {
        return;
    }
    let mut stage = Stage::new("a_group_of_one_node_serves");
    let generation = stage.wait("OK", "ok")["generation"].clone();
    SOME.run(&stage.pair, "paris", &stage.dice.fork(1), &stage.book);
    assert!(stage.pair.daemon("paris").terminate().success(), "a stop waits for no peer");
    stage.judge();
    stage.serves();
    assert_eq!(group(&stage.pair, "paris")["generation"], generation, "a clean stop is no fork");
    let writers = Load::PLAIN.start(&stage.pair, "paris", &stage.dice.fork(2), &stage.book);
    stage.book.wait_for(100, PATIENCE);
    stage.pair.daemon("paris").kill9();
    writers.broken();
    stage.serves();
    wait_members(&stage.pair, "paris", ["full", "full"]);

    let writers = Load::PLAIN.start(&stage.pair, "paris", &stage.dice.fork(3), &stage.book);
    Trouble::Writes.strike(&stage.store);
    wait_members(&stage.pair, "paris", ["full", "removed"]);
    let shown = stage.wait("AT RISK", "at-risk");
    assert_eq!(shown["verdict"]["why"], "fewer than two full members of volume data");
    let check = stage.pair.helio("paris", &["status", "--check"]);
    assert_eq!(check.status.code(), Some(1), "{check}");
    stage.book.wait_for(50, PATIENCE);
    stage.store.heal();
    add_member(&stage.pair, "paris", stage.store.path());
    wait_members(&stage.pair, "paris", ["full", "full"]);
    stage.wait("OK", "ok");
    writers.stop();
    assert_eq!(stage.book.failures(), []);
    assert!(stage.pair.daemon("paris").terminate().success());
    stage.judge();
}

#[test]
fn every_command_about_a_peer_is_refused_with_a_hint_and_a_demoted_node_waits_for_a_promotion() {
    if !faulty_stores_possible() {
        return;
    }
    let mut stage = Stage::new("every_command_about_a_peer");
    for line in [
        &["switch", "db"][..],
        &["pause", "db"],
        &["resume", "db"],
        &["resync", "db"],
        &["resync", "db", "--full", "--yes"],
        &["resync", "db", "--reverse", "--yes"],
        &["resync", "db", "--give-up-safe-copy", "--yes"],
        &["resolve", "db", "--discard", "paris", "--yes"],
        &["mode", "db", "sync"],
        &["verify", "start", "db"],
        &["verify", "start", "db", "--repair", "--yes"],
        &["verify", "stop", "db"],
        &["seed", "begin", "db"],
        &["seed", "end", "db"],
        &["queue", "show", "db"],
        &["queue", "set", "db", "--memory", "4MiB"],
        &["member", "replace", "db/log", "--yes"],
    ] {
        let told = stage.pair.helio("paris", line);
        assert!(!told.status.success(), "{told}");
        assert!(told.stderr.contains("db has only one node"), "{told}");
        assert!(told.stderr.contains("hint: to add a second node"), "{told}");
    }
    let told = stage.pair.helio("paris", &["pause", "db", "--json"]);
    assert!(told.to_string().contains("\"no-peer\""), "{told}");
    let told = stage.pair.helio("paris", &["advise", "db", "--over", "1s"]);
    assert!(told.to_string().contains("it has only one node"), "{told}");
    let told = stage.pair.helio("paris", &["demote", "db"]).expect_success();
    assert!(told.contains("`helio promote db` serves it again"), "{told}");
    assert!(stage.pair.daemon("paris").terminate().success());
    stage.pair.start("paris");
    let told = stage.pair.helio("paris", &["status", "db"]);
    assert!(told.stdout.contains("NO PRIMARY") && !told.stdout.contains("peer"), "{told}");
    assert!(told.stdout.contains("`helio promote db` serves the volumes again"), "{told}");
    stage.pair.helio("paris", &["promote", "db"]).expect_success();
    SOME.run(&stage.pair, "paris", &stage.dice.fork(1), &stage.book);
}

#[test]
fn a_pause_of_the_process_holds_up_no_write_of_a_group_of_one_node() {
    if !faulty_stores_possible() {
        return;
    }
    let mut stage = Stage::new("a_pause_of_the_process");
    let mut client = connect(&stage.pair, "paris");
    stage.pair.daemon("paris").freeze();
    let begun = std::time::Instant::now();
    let over = |_: &()| begun.elapsed() > std::time::Duration::from_secs(7);
    helio_testkit::eventually(PATIENCE, "the peer timeout to pass", || Some(()).filter(over));
    stage.pair.daemon("paris").thaw();
    client.write(0, &[7; 4096], false).expect("it is acknowledged");
    let log = stage.pair.daemon("paris").log();
    assert!(!log.contains("was suspended") && !log.contains("peer="), "{log}");
}

#[test]
fn a_second_node_that_is_named_later_gets_everything_and_may_go_again() {
    if !faulty_stores_possible() {
        return;
    }
    let mut stage = Stage::new("a_second_node_that_is_named_later");
    SOME.run(&stage.pair, "paris", &stage.dice.fork(1), &stage.book);
    assert!(stage.pair.daemon("paris").terminate().success());
    let files =
        ["data", "log"].map(|name| stage.pair.scratch().file(&format!("lyon-{name}.img"), SIZE));
    let only = fs::read_to_string(stage.pair.config()).expect("it is there");
    let nodes = format!("nodes = [\"lyon\", \"paris\"]\nmode = \"{}\"", Mode::Sync);
    let mut both = only.replace("nodes = [\"paris\"]", &nodes);
    for (name, file) in ["data", "log"].into_iter().zip(&files) {
        let table = format!("[group.db.volume.{name}]\n");
        both = both.replace(&table, &format!("{table}members.lyon = [{file:?}]\n"));
    }
    fs::write(stage.pair.config(), &both).expect("it may be changed");
    stage.pair.start("paris");
    stage.pair.start("lyon");
    wait_level(&stage.pair, "paris");
    SOME.run(&stage.pair, "paris", &stage.dice.fork(2), &stage.book);
    wait_level(&stage.pair, "paris");
    for node in ["paris", "lyon"] {
        assert!(stage.pair.daemon(node).terminate().success(), "{node} stops cleanly");
    }
    stage.judge();
    let run = stage.book.run();
    stage.book.assert_holds("lyon", &image(&stage.pair, "lyon", run), Promise::Everything);

    // Whether the other node was promoted meanwhile is not known: an operator promotes once.
    fs::write(stage.pair.config(), &only).expect("it may be changed");
    stage.pair.start("paris");
    assert_ne!(stage.pair.status("paris")["groups"][0]["role"], "primary");
    stage.pair.helio("paris", &["promote", "db"]).expect_success();
    stage.wait("OK", "ok");
    assert!(stage.pair.daemon("paris").terminate().success());
    stage.serves();
    SOME.run(&stage.pair, "paris", &stage.dice.fork(3), &stage.book);
    // It was a node of the group, and calls the one that is now the only one.
    fs::write(stage.pair.config(), &both).expect("it may be changed");
    stage.pair.start("lyon");
    let refused = "group db has only one node, paris";
    helio_testkit::eventually(PATIENCE, "the refusal of lyon", || {
        stage.pair.daemon("paris").log().contains(refused).then_some(())
    });
    assert!(stage.pair.daemon("paris").terminate().success());
    stage.pair.start("paris");
    wait_level(&stage.pair, "paris");
    for node in ["paris", "lyon"] {
        assert!(stage.pair.daemon(node).terminate().success(), "{node} stops cleanly");
    }
    stage.judge();
    stage.book.assert_holds("lyon", &image(&stage.pair, "lyon", run), Promise::Everything);
}
