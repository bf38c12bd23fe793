// SPDX-License-Identifier: Apache-2.0
//! The primary takes the secondary's copy over its own: asked about, saved, served at once, and pulled while in use.

use crate::diverged::saved_folder;
use helio_e2e::{
    Book, Image, Load, PATIENCE, Promise, answer, assert_members_equal, begin, group, image,
    wait_level,
};
use helio_testkit::{Dice, Plan, eventually};
use helio_units::{Bytes, Mode};
use std::sync::Arc;

const SOME: Load = Load { count: Some(200), ..Load::PLAIN };

#[test]
fn a_primary_takes_its_secondarys_copy_and_serves_it_at_once() {
    let dice = Dice::of_test("a_primary_takes_its_secondarys_copy_and_serves_it_at_once");
    let pair = Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(16)).start();
    let book = Arc::new(Book::new(dice.seed()));
    begin(&pair, "paris");
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    wait_level(&pair, "paris");
    let good = image(&pair, "lyon", book.run());

    pair.helio("paris", &["pause", "db"]).expect_success();
    SOME.run(&pair, "paris", &dice.fork(2), &book);
    let spoilt = image(&pair, "paris", book.run());
    assert!(spoilt != good, "it was written to");

    let asked = answer(&pair, "paris", &["resync", "db", "--reverse"]);
    assert_eq!(asked.status.code(), Some(4), "nothing is thrown away unasked: {asked}");
    assert!(
        asked.stderr.contains("at stake: paris would overwrite its copy with the copy of lyon"),
        "{asked}"
    );
    let told = pair.helio("lyon", &["resync", "db", "--reverse", "--yes"]).expect_failure();
    assert!(told.contains("on the primary"), "{told}");

    let dir = pair.scratch().join("kept");
    let save = dir.to_string_lossy().into_owned();
    let line = ["resync", "db", "--reverse", "--yes", "--save", &save, "--wait"];
    let told = answer(&pair, "paris", &line).expect_success();
    assert!(told.contains("were saved in") && told.contains("is replicating"), "{told}");
    assert_members_equal(&pair, "data");
    assert_eq!(image(&pair, "paris", book.run()), good, "the secondary's image is on both");

    let saved = Image::read(book.run(), &saved_folder(&dir).join("data.img"));
    let own = saved.beside(&spoilt).filter(|(_, kept, was)| *kept != 0 && kept == was).count();
    assert!(own > 0, "what was thrown away is among what was saved");
    eventually(PATIENCE, "it holds everything again", || {
        group(&pair, "paris")["consistent"].as_bool().filter(|whole| *whole)
    });
    assert_eq!(group(&pair, "paris")["role"], "primary");
}

#[test]
fn the_hook_before_a_resync_has_a_word_in_a_reversal() {
    let dice = Dice::of_test("the_hook_before_a_resync_has_a_word_in_a_reversal");
    let plan = Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(4));
    let pair = plan.group_line("hooks = { before-resync = \"/HOOK\" }").prepare();
    let hook = pair.scratch().join("hook");
    let says = |code: i32| {
        std::fs::write(&hook, format!("#!/bin/sh\nexit {code}\n")).expect("a folder of our own");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&hook, mode).expect("it is ours");
    };
    says(0);
    let text = std::fs::read_to_string(pair.config()).expect("it was written");
    let text = text.replace("/HOOK", &hook.display().to_string());
    std::fs::write(pair.config(), text).expect("a folder of our own");
    let mut pair = pair;
    ["lyon", "paris"].iter().for_each(|node| pair.start(node));
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    wait_level(&pair, "paris");
    let good = image(&pair, "lyon", book.run());
    pair.helio("paris", &["pause", "db"]).expect_success();
    SOME.run(&pair, "paris", &dice.fork(2), &book);

    says(9);
    let line = ["resync", "db", "--reverse", "--yes", "--wait"];
    let told = answer(&pair, "paris", &line).expect_failure();
    assert!(told.contains("before-resync of db refused the reverse resync"), "{told}");
    assert!(!pair.state("paris").join("saved").exists(), "nothing was saved for nothing");
    says(0);
    answer(&pair, "paris", &line).expect_success();
    assert_members_equal(&pair, "data");
    assert_eq!(image(&pair, "paris", book.run()), good, "the secondary's image is on both");
}

#[test]
fn all_of_a_copy_is_taken_while_clients_write() {
    let dice = Dice::of_test("all_of_a_copy_is_taken_while_clients_write");
    let pair = Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(64)).start();
    let book = Arc::new(Book::new(dice.seed()));
    begin(&pair, "paris");
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    wait_level(&pair, "paris");
    let (before, mark) = (image(&pair, "lyon", book.run()), book.mark());
    answer(&pair, "paris", &["resync", "db", "--full", "--reverse", "--yes"]).expect_success();
    SOME.run(&pair, "paris", &dice.fork(2), &book);
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    let after = image(&pair, "paris", book.run());
    let judged = book.judge(mark, &before, &after, Promise::Everything);
    assert!(judged.is_ok(), "{judged:?}");
}
