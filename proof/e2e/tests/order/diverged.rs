// SPDX-License-Identifier: Apache-2.0
//! Two nodes that both took writes of their own: told on both, resolved on one, and nothing thrown away unsaved.

use helio_e2e::{
    Book, Image, Load, PATIENCE, assert_members_equal, begin, group, image, wait_level,
};
use helio_testkit::{Dice, Pair, Plan, eventually};
use helio_units::{Bytes, Mode};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SOME: Load = Load { count: Some(200), ..Load::PLAIN };

/// Both serve by force, each with writes of its own. Returns what the book had when paris began to write alone.
pub(crate) fn split(pair: &mut Pair, dice: &Dice, book: &Arc<Book>) -> u64 {
    begin(pair, "paris");
    SOME.run(pair, "paris", &dice.fork(1), book);
    wait_level(pair, "paris");
    pair.daemon("lyon").kill9();
    pair.daemon("paris").kill9();
    pair.start("lyon");
    pair.helio("lyon", &["promote", "db", "--force", "--yes"]).expect_success();
    SOME.run(pair, "lyon", &dice.fork(2), book);
    // Each must not hear of the other before it is forced.
    pair.daemon("lyon").kill9();
    pair.start("paris");
    pair.helio("paris", &["promote", "db", "--force", "--yes"]).expect_success();
    let alone = book.mark();
    SOME.run(pair, "paris", &dice.fork(3), book);
    pair.start("lyon");
    pair.helio("lyon", &["promote", "db", "--force", "--yes"]).expect_success();
    alone
}

/// Waits until a node explains by a row that is as wanted.
pub(crate) fn wait_row(pair: &Pair, node: &str, wanted: impl Fn(&str) -> bool) -> Value {
    eventually(PATIENCE, "the row", || {
        let told = pair.helio(node, &["explain", "db", "--json"]).json();
        told["row"]["label"].as_str().is_some_and(&wanted).then_some(told)
    })
}

/// The only saved copy below that folder.
#[track_caller]
pub(crate) fn saved_folder(dir: &Path) -> PathBuf {
    let folders = std::fs::read_dir(dir.join("saved")).expect("it was saved");
    let mut folders: Vec<PathBuf> = folders.map(|f| f.expect("a folder").path()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders.remove(0)
}

/// What a node held alone is shown, asked about and saved before it is given up.
fn resolve(pair: &Pair, book: &Book, alone: u64) {
    let left = image(pair, "paris", book.run());
    let asked = pair.helio("paris", &["resolve", "db", "--discard", "paris"]);
    assert_eq!(asked.status.code(), Some(4), "nothing is given up unasked: {asked}");
    assert!(
        asked.stderr.contains("at stake: writes that exist only on paris: at most "),
        "{asked}"
    );
    let dir = pair.scratch().join("kept");
    let save = dir.to_string_lossy().into_owned();
    let line = ["resolve", "db", "--discard", "paris", "--yes", "--save", &save];
    let told = pair.helio("paris", &line).expect_success();
    assert!(told.contains("were saved in"), "{told}");

    let folder = saved_folder(&dir);
    let saved = Image::read(book.run(), &folder.join("data.img"));
    let wrong: Vec<_> =
        saved.beside(&left).filter(|(_, kept, was)| *kept != 0 && kept != was).collect();
    assert_eq!(wrong, [], "what was saved is what it held");
    let own = |image: &Image| image.beside(&left).filter(|(_, number, _)| *number > alone).count();
    assert!(own(&left) > 100, "it wrote alone");
    assert_eq!(own(&saved), own(&left), "its own writes are among what was saved");
    assert!(folder.join("regions.json").exists());
}

#[test]
fn a_split_brain_is_told_on_both_nodes_and_resolved_without_throwing_away() {
    let dice =
        Dice::of_test("a_split_brain_is_told_on_both_nodes_and_resolved_without_throwing_away");
    let mut pair = Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(16)).start();
    let book = Arc::new(Book::new(dice.seed()));
    let alone = split(&mut pair, &dice, &book);
    for node in ["paris", "lyon"] {
        wait_row(&pair, node, |label| label == "two-primaries");
    }
    // A primary gives nothing up, and nobody gives up another's side.
    let line = ["resolve", "db", "--discard", "paris", "--yes"];
    let told = pair.helio("paris", &line).expect_failure();
    assert!(told.contains("helio demote db"), "it must be demoted first: {told}");
    pair.helio("paris", &["demote", "db"]).expect_success();
    let told = pair.helio("lyon", &line).expect_failure();
    assert!(told.contains("on paris"), "it says where to run it: {told}");

    let rows = ["paris", "lyon"]
        .map(|node| wait_row(&pair, node, |label| label != "two-primaries")["row"].clone());
    assert_eq!(rows[0]["label"], "split-brain");
    assert_eq!(rows[0]["label"], rows[1]["label"], "both name one row");
    assert!(rows[0]["hint"].as_str().is_some_and(|hint| hint.contains("helio resolve")));

    let survivor = image(&pair, "lyon", book.run());
    resolve(&pair, &book, alone);
    wait_level(&pair, "lyon");
    let row = wait_row(&pair, "paris", |label| label != "split-brain")["row"].clone();
    assert_eq!(row["label"], "update-marks", "only what may differ is copied");
    assert_members_equal(&pair, "data");
    assert_eq!(image(&pair, "paris", book.run()), survivor, "the other's image is on both");
    SOME.run(&pair, "lyon", &dice.fork(4), &book);
    wait_level(&pair, "lyon");
    assert_members_equal(&pair, "data");
    assert_eq!(group(&pair, "paris")["role"], "secondary");
}
