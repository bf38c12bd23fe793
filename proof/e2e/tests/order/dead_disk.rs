// SPDX-License-Identifier: Apache-2.0
//! The disk of the primary failed, and its peer has everything: each way out of that node says so, and loses nothing.

use helio_e2e::{
    Book, Load, PATIENCE, Promise, assert_members_equal, begin, connect, group, image, number,
    wait, wait_level,
};
use helio_testkit::{Dice, Pair, Plan, eventually};
use helio_units::{Bytes, Mode};
use std::fs::OpenOptions;
use std::sync::Arc;

const SOME: Load = Load { count: Some(200), ..Load::PLAIN };
const BOTH: [&str; 2] = ["paris", "lyon"];
const SIZE: Bytes = Bytes::mib(32);

/// A pair whose primary, paris, took a load, and lost its disk then.
struct Story {
    pair: Pair,
    book: Arc<Book>,
}

impl Story {
    #[track_caller]
    fn new(test: &'static str) -> Self {
        let dice = Dice::of_test(test);
        let pair = Plan::new("db")
            .mode(Mode::Async)
            .group_line("on-error = \"serve-from-peer\"")
            .group_line("peer-timeout = \"2s\"")
            .volume("data", SIZE)
            .start();
        let book = Arc::new(Book::new(dice.seed()));
        begin(&pair, "paris");
        SOME.run(&pair, "paris", &dice.fork(1), &book);
        wait_level(&pair, "paris");
        let story = Self { pair, book };
        story.cut(Bytes::ZERO);
        let mut client = connect(&story.pair, "paris");
        client.read(0, &mut [0; 4096]).expect("the peer's copy is read");
        client.disconnect().expect("it may go");
        SOME.run(&story.pair, "paris", &dice.fork(2), &story.book);
        let fault = group(&story.pair, "paris")["fault"].to_string();
        assert!(fault.contains("served from lyon"), "{fault}");
        wait(&story.pair, "paris", "everything at lyon", |status| {
            status["cursors"]["accepted"] == status["cursors"]["peer_durable"]
        });
        story
    }

    /// The member of paris has that size from now on.
    fn cut(&self, size: Bytes) {
        let file = OpenOptions::new().write(true).open(self.pair.member("paris", "data"));
        file.and_then(|file| file.set_len(size.0)).expect("it can be cut");
    }

    /// What both nodes show, and whether any of it takes a copy for better than that of lyon.
    #[track_caller]
    fn nothing_is_only_on_paris(&self, nodes: &[&str]) {
        for node in nodes {
            let shown = group(&self.pair, node);
            let told = format!("{} {}", shown["next"], shown["verdict"]);
            for wrong in
                ["neither copy", "--discard", "only paris", "do not promote lyon", "member accept"]
            {
                assert!(!told.contains(wrong), "{node} says {wrong}: {told}");
            }
            // The lag is what a secondary lacks: lyon has everything, and paris lacks what was on its disk.
            let of_lyon = (*node == "lyon") == (shown["role"] == "secondary");
            assert!(!of_lyon || number(&shown, "/lag/bytes") == 0, "{node}: {shown}");
        }
    }

    /// A disk is there again, and the two become equal.
    #[track_caller]
    fn repaired(mut self) {
        self.pair.daemon("paris").kill9();
        self.cut(SIZE);
        self.pair.start("paris");
        wait_level(&self.pair, "lyon");
        assert_members_equal(&self.pair, "data");
        self.nothing_is_lost();
    }

    #[track_caller]
    fn nothing_is_lost(&self) {
        let run = self.book.run();
        self.book.assert_holds("lyon", &image(&self.pair, "lyon", run), Promise::Everything);
    }
}

#[test]
fn a_primary_served_from_its_peer_is_demoted_and_the_peer_has_everything() {
    let story = Story::new("a_primary_served_from_its_peer_is_demoted_and_the_peer_has_everything");
    let pair = &story.pair;
    story.nothing_is_only_on_paris(&BOTH);
    let told = eventually(PATIENCE, "the clients are gone", || {
        let told = pair.helio("paris", &["demote", "db"]);
        told.status.success().then_some(told)
    });
    assert!(told.stdout.contains("secondary now; lyon has everything"), "{told}");
    assert_eq!(told.stderr, "", "there is nothing to warn of");
    wait(pair, "lyon", "the peer", |status| status["peer"]["connection"] == "connected");
    story.nothing_is_only_on_paris(&BOTH);
    // The advice leads out.
    for (node, next) in
        [("lyon", "`helio promote db` on lyon"), ("paris", "`helio promote db` on lyon")]
    {
        let shown = group(pair, node);
        let says = shown["next"].as_str().unwrap_or_default();
        assert!(says.contains(next), "{node}: {says}");
    }
    pair.helio("lyon", &["promote", "db"]).expect_success();
    story.repaired();
}

#[test]
fn a_switch_leads_out_of_a_node_with_a_dead_disk() {
    for asked in ["paris", "lyon"] {
        let story = Story::new("a_switch_leads_out_of_a_node_with_a_dead_disk");
        let switched = || story.pair.helio(asked, &["switch", "db"]).status.success().then_some(());
        eventually(PATIENCE, "the switch", switched);
        assert_eq!(group(&story.pair, "lyon")["role"], "primary");
        story.nothing_is_only_on_paris(&BOTH);
        story.repaired();
    }
}

#[test]
fn a_primary_served_from_its_peer_is_killed_and_the_peer_warns_of_nothing() {
    let mut story =
        Story::new("a_primary_served_from_its_peer_is_killed_and_the_peer_warns_of_nothing");
    story.pair.daemon("paris").kill9();
    wait(&story.pair, "lyon", "the end of the connection", |status| {
        status["peer"]["connection"] != "connected"
    });
    story.nothing_is_only_on_paris(&["lyon"]);
    let told = story.pair.helio("lyon", &["promote", "db", "--force"]).expect_failure();
    assert!(told.contains("nothing was missing here"), "{told}");
    // Once paris is back without its copy it agrees: nothing is forced.
    story.cut(SIZE);
    story.pair.start("paris");
    let pair = &story.pair;
    wait(pair, "lyon", "the peer", |status| status["peer"]["connection"] == "connected");
    story.nothing_is_only_on_paris(&BOTH);
    pair.helio("lyon", &["promote", "db"]).expect_success();
    wait_level(pair, "lyon");
    assert_members_equal(pair, "data");
    story.nothing_is_lost();
}
