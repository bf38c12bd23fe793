// SPDX-License-Identifier: Apache-2.0
//! A member is another one than it was: it is noticed at the start, and never led from.

use helio_e2e::{
    Book, Load, Promise, assert_members_equal, begin, image, wait, wait_level, wait_state,
};
use helio_testkit::{Dice, Pair, Plan};
use helio_units::{Bytes, Mode};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const SOME: Load = Load { count: Some(300), ..Load::PLAIN };
const SIZE: Bytes = Bytes::mib(16);
const REPLACE: [&str; 4] = ["member", "replace", "db/data", "--yes"];
const PROMOTE: &str = "`helio promote db` on lyon";

/// A pair in sync that replicates from paris, written to.
#[track_caller]
fn written(dice: &Dice) -> (Pair, Arc<Book>) {
    let pair = Plan::new("db").mode(Mode::Sync).volume("data", SIZE).start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    SOME.run(&pair, "paris", dice, &book);
    wait_level(&pair, "paris");
    (pair, book)
}

/// Another file of the same size, with bytes nobody of the pair ever wrote.
fn swap(member: &Path) {
    fs::remove_file(member).expect("it is there");
    fs::write(member, vec![0xA5; SIZE.0 as usize]).expect("it can be written");
}

fn is_foreign(status: &Value) -> bool {
    status["fault"].as_str().is_some_and(|fault| fault.contains("a volume is on another disk"))
}

#[track_caller]
fn all_is_there(pair: &Pair, primary: &str, book: &Book) {
    wait_level(pair, primary);
    assert_members_equal(pair, "data");
    book.assert_holds(primary, &image(pair, primary, book.run()), Promise::Everything);
}

#[test]
fn a_secondary_with_another_disk_is_compared_whole_and_brought_level() {
    let dice = Dice::of_test("a_secondary_with_another_disk_is_compared_whole_and_brought_level");
    let (mut pair, book) = written(&dice);
    pair.daemon("lyon").terminate();
    swap(&pair.member("lyon", "data"));
    pair.start("lyon");
    all_is_there(&pair, "paris", &book);
    let member = pair.member("lyon", "data").display().to_string();
    let log = pair.daemon("lyon").log();
    assert!(log.contains("a volume is on another disk") && log.contains(&member), "{log}");
    let log = pair.daemon("paris").log();
    assert!(log.contains("lyon connected as unproven"), "{log}");

    // From now on that disk is the one it was.
    pair.daemon("lyon").terminate();
    pair.start("lyon");
    wait_level(&pair, "paris");
    let log = pair.daemon("paris").log();
    assert_eq!(log.matches("lyon connected as unproven").count(), 1, "{log}");
}

#[test]
fn a_primary_with_another_disk_serves_nobody_until_its_peer_has_brought_it_level() {
    let dice = Dice::of_test("a_primary_with_another_disk_serves_nobody");
    let (mut pair, book) = written(&dice);
    pair.daemon("paris").terminate();
    let (member, aside) = (pair.member("paris", "data"), pair.scratch().path().join("aside"));
    fs::rename(&member, &aside).expect("both are in one folder");
    fs::write(&member, vec![0xA5; SIZE.0 as usize]).expect("it can be written");
    pair.start("paris");
    wait(&pair, "paris", "the fault and the peer", |status| {
        is_foreign(status) && status["peer"]["connection"] == "connected"
    });
    let said = pair.helio("paris", &["promote", "db", "--force", "--yes"]).expect_failure();
    for word in ["a volume is on another disk", &member.display().to_string(), "metadata accept"] {
        assert!(said.contains(word), "{word}: {said}");
    }

    let said = pair.helio("paris", &REPLACE).expect_failure();
    for word in ["a volume is on another disk", &member.display().to_string(), PROMOTE] {
        assert!(said.contains(word), "{word}: {said}");
    }

    // The right disk is the right one again, and nothing was recorded meanwhile.
    pair.daemon("paris").terminate();
    fs::rename(&aside, &member).expect("both are in one folder");
    pair.start("paris");
    all_is_there(&pair, "paris", &book);

    pair.daemon("paris").terminate();
    swap(&member);
    pair.start("paris");
    wait(&pair, "lyon", "the peer", |status| status["peer"]["connection"] == "connected");
    let said = pair.helio("paris", &REPLACE).expect_failure();
    assert!(said.contains(PROMOTE), "{said}");
    pair.helio("lyon", &["promote", "db"]).expect_success();
    all_is_there(&pair, "lyon", &book);
    let said = pair.helio("paris", &REPLACE).expect_failure();
    assert!(said.contains("did not fail"), "the promotion was all that was needed: {said}");
}

#[test]
fn a_secondary_with_another_disk_needs_no_command_and_a_replacement_says_so() {
    let dice =
        Dice::of_test("a_secondary_with_another_disk_needs_no_command_and_a_replacement_says_so");
    let (mut pair, book) = written(&dice);
    pair.daemon("lyon").terminate();
    pair.daemon("paris").terminate();
    swap(&pair.member("lyon", "data"));
    pair.start("lyon");
    wait(&pair, "lyon", "the fault", is_foreign);
    let said = pair.helio("lyon", &REPLACE).expect_failure();
    assert!(said.contains("nothing; paris copies everything to this disk"), "{said}");
    pair.start("paris");
    all_is_there(&pair, "paris", &book);
}

#[test]
fn a_copy_in_place_of_a_primarys_disk_serves_once_the_operator_says_so() {
    let dice = Dice::of_test("a_copy_in_place_of_a_primarys_disk");
    let (mut pair, book) = written(&dice);
    pair.daemon("paris").terminate();
    let (member, aside) = (pair.member("paris", "data"), pair.scratch().path().join("aside"));
    fs::rename(&member, &aside).expect("both are in one folder");
    fs::write(&member, fs::read(&aside).expect("it is there")).expect("it can be written");
    pair.start("paris");
    wait(&pair, "paris", "the fault", is_foreign);
    pair.daemon("paris").terminate();
    let said = pair.helio("paris", &["metadata", "accept", "db", "--yes"]).expect_success();
    assert!(said.contains("uses the members of db as they are"), "{said}");
    pair.start("paris");
    wait(&pair, "paris", "the peer", |status| {
        status["role"] == "secondary"
            && status["peer"]["connection"] == "connected"
            && status["next"].as_str().is_some_and(|next| next.contains(PROMOTE))
    });
    // Only the operator knows whether it is a true copy.
    let said = pair.helio("paris", &["promote", "db"]).expect_failure();
    for word in
        ["nothing proves what the copy of paris holds", PROMOTE, "`helio promote db --force`"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
    pair.helio("paris", &["promote", "db", "--force", "--yes"]).expect_success();
    wait_state(&pair, "paris", "replicating");
    all_is_there(&pair, "paris", &book);
}

#[test]
fn an_older_disk_that_was_accepted_does_not_overwrite_the_copy_of_the_peer() {
    let dice = Dice::of_test("an_older_disk_that_was_accepted_does_not_overwrite_the_copy");
    let (mut pair, book) = written(&dice);
    pair.daemon("paris").terminate();
    let member = pair.member("paris", "data");
    let older = fs::read(&member).expect("it is there");
    pair.start("paris");
    wait_level(&pair, "paris");
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    wait_level(&pair, "paris");
    pair.daemon("paris").terminate();
    fs::remove_file(&member).expect("it is there");
    fs::write(&member, older).expect("it can be written");
    pair.helio("paris", &["metadata", "accept", "db", "--yes"]).expect_success();
    pair.start("paris");
    wait(&pair, "lyon", "the peer", |status| status["peer"]["connection"] == "connected");
    pair.helio("paris", &["promote", "db"]).expect_failure();
    pair.helio("lyon", &["promote", "db"]).expect_success();
    all_is_there(&pair, "lyon", &book);
}
