// SPDX-License-Identifier: Apache-2.0
//! A disk completes nothing any more, and reports no error either. It is shown, given up where the peer can serve, and keeps no
//! daemon from its end.

use helio_e2e::{Book, Image, Load, PATIENCE, Promise, begin, connect, image, wait, wait_level};
use helio_testkit::{Dice, FaultyStore, Pair, Plan, StorePlan, eventually, faulty_stores_possible};
use helio_units::{Bytes, Mode};
use serde_json::Value;
use std::fs;
use std::sync::Arc;

const SIZE: Bytes = Bytes::mib(64);
const SOME: Load = Load { count: Some(200), ..Load::PLAIN };

/// A pair with paris as its primary, a load that it took, and a disk of one node that can hang.
struct Stage {
    // Dropped in this order: a daemon ends before the store it uses.
    pair: Pair,
    store: FaultyStore,
    /// On it lies the member of this node.
    node: &'static str,
    dice: Dice,
    book: Arc<Book>,
}

impl Stage {
    #[track_caller]
    fn new(test: &'static str, node: &'static str, driver: &str, on_error: &str) -> Self {
        let dice = Dice::of_test(test);
        let store = StorePlan::new(SIZE).mount();
        let pair = Plan::new("db")
            .mode(Mode::Sync)
            .volume("data", SIZE)
            .volume_line("sparse = true")
            .group_line("member-timeout = \"1s\"")
            .group_line(&format!("on-error = \"{on_error}\""))
            .node_line(node, &format!("driver = \"{driver}\""))
            .member(node, "data", store.path())
            .start();
        begin(&pair, "paris");
        let book = Arc::new(Book::new(dice.seed()));
        SOME.run(&pair, "paris", &dice.fork(1), &book);
        wait_level(&pair, "paris");
        Self { pair, store, node, dice, book }
    }

    /// Waits until a node shows its disk in a state.
    #[track_caller]
    fn wait_disk(&self, node: &str, state: &str) -> Value {
        wait(&self.pair, node, state, |shown| shown["volumes"][0]["member_state"] == state)
    }

    /// Everything that was acknowledged is in a node's copy.
    #[track_caller]
    fn judge(&self, node: &str) {
        let run = self.book.run();
        let shown = match node == self.node {
            true => Image::read(run, &self.store.content()),
            false => image(&self.pair, node, run),
        };
        self.book.assert_holds(node, &shown, Promise::Everything);
    }
}

#[test]
fn a_disk_that_hangs_is_given_up_and_clients_and_the_end_of_the_daemon_do_without_it() {
    if !faulty_stores_possible() {
        return;
    }
    for driver in ["ring", "poll"] {
        let name = "a_disk_that_hangs_is_given_up";
        let mut stage = Stage::new(name, "paris", driver, "serve-from-peer");
        let writers = Load::PLAIN.start(&stage.pair, "paris", &stage.dice.fork(2), &stage.book);
        stage.book.wait_for(50, PATIENCE);
        stage.store.hang();
        let shown = stage.wait_disk("paris", "given-up");
        assert!(shown["fault"].to_string().contains("served from lyon"), "{shown:#}");
        stage.book.wait_for(200, PATIENCE);
        writers.stop();
        assert_eq!(stage.book.failures(), []);
        assert!(stage.pair.daemon("paris").terminate().success(), "it has given the disk up");
        let log = stage.pair.daemon("paris").log();
        assert!(log.contains("operations on the disk of db/data that have not completed"), "{log}");
        stage.judge("lyon");

        stage.store.respond();
        stage.pair.start("paris");
        let returned = |shown: &Value| shown["peer"]["connection"] == "connected";
        wait(&stage.pair, "paris", "the peer", returned);
        stage.pair.helio("lyon", &["promote", "db"]).expect_success();
        wait_level(&stage.pair, "lyon");
        stage.judge("lyon");
        stage.judge("paris");
    }
}

#[test]
fn a_silent_disk_that_is_in_use_keeps_no_daemon_from_its_end() {
    if !faulty_stores_possible() {
        return;
    }
    for (node, driver) in [("paris", "ring"), ("lyon", "poll")] {
        let mut stage = Stage::new("a_silent_disk_that_is_in_use", node, driver, "pass");
        let writers = Load::PLAIN.start(&stage.pair, "paris", &stage.dice.fork(2), &stage.book);
        stage.book.wait_for(50, PATIENCE);
        stage.store.hang();
        let shown = stage.wait_disk(node, "silent");
        let fault = shown["fault"].to_string();
        assert!(fault.contains("the disk of volume data is silent"), "{shown:#}");
        assert!(!stage.pair.daemon(node).terminate().success(), "it did not stop cleanly");
        let log = stage.pair.daemon(node).log();
        assert!(
            log.contains("group db did not stop cleanly: the disk of db/data is silent"),
            "{log}"
        );
        if node == "paris" {
            writers.broken();
        } else {
            writers.stop();
        }

        stage.store.respond();
        stage.pair.start(node);
        begin(&stage.pair, "paris");
        wait_level(&stage.pair, "paris");
        stage.judge("paris");
        stage.judge("lyon");
    }
}

/// It was given up, so nothing waits for it; what it was asked for ends once the group is no more.
#[test]
fn what_a_silent_disk_completes_behind_the_release_of_its_group_ends_nothing_else() {
    if !faulty_stores_possible() {
        return;
    }
    let mut stage = Stage::new("behind_the_release", "paris", "ring", "serve-from-peer");
    stage.store.hang();
    let mut client = connect(&stage.pair, "paris");
    client.write_zeroes(0, Bytes::kib(64), true, true).expect("lyon has it");
    stage.wait_disk("paris", "given-up");
    client.disconnect().expect("it leaves");
    let told = stage.pair.helio("paris", &["release", "db", "--force", "--yes"]);
    assert!(told.stderr.contains("have not completed, and may still change it"), "{told}");
    told.expect_success();
    let fds = format!("/proc/{}/fd", stage.pair.daemon("paris").id());
    let is_open = || {
        let mut fds = fs::read_dir(&fds).expect("it runs").flatten();
        fds.any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == stage.store.path()))
    };
    assert!(is_open(), "it stays locked");
    stage.store.respond();
    eventually(PATIENCE, "the end of its operations", || (!is_open()).then_some(()));
    assert!(stage.pair.daemon("paris").terminate().success());
    let log = stage.pair.daemon("paris").log();
    assert!(!log.contains("panicked"), "{log}");
}
