// SPDX-License-Identifier: Apache-2.0
//! A disk is lost, and another one takes its place while the daemon runs: under clients on the primary, and on a secondary.

use helio_e2e::{
    Book, Load, PATIENCE, Promise, assert_members_equal, begin, group, image, wait, wait_level,
};
use helio_testkit::{Dice, Pair, Plan, eventually, run};
use helio_units::{Bytes, Mode};
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const SOME: Load = Load { count: Some(200), ..Load::PLAIN };
const SIZE: Bytes = Bytes::mib(16);
const REPLACE: [&str; 4] = ["member", "replace", "db/data", "--yes"];

fn serving_from_peer() -> Plan {
    Plan::new("db")
        .mode(Mode::Sync)
        .group_line("on-error = \"serve-from-peer\"")
        .volume("data", SIZE)
}

/// A file out of its box: bytes nobody of the pair ever wrote.
fn boxed(path: &Path, size: Bytes) {
    let _gone = fs::remove_file(path);
    fs::write(path, vec![0xA5; size.0 as usize]).expect("it can be written");
}

/// The disk is there no more; what reads it notices.
fn lose(pair: &Pair, node: &str) {
    let file = OpenOptions::new().write(true).open(pair.member(node, "data"));
    file.and_then(|file| file.set_len(0)).expect("it can be cut");
    let mut client = helio_e2e::connect(pair, node);
    client.read(0, &mut vec![0; 4096]).expect("the peer's copy is read");
    client.disconnect().expect("it may go");
    let lost = || group(pair, node)["fault"].as_str().map(str::to_owned);
    let fault = eventually(PATIENCE, "the disk is given up", lost);
    assert!(fault.contains("served from lyon"), "{fault}");
}

#[track_caller]
fn nothing_is_lost(pair: &Pair, node: &str, book: &Book) {
    book.assert_holds(node, &image(pair, node, book.run()), Promise::Everything);
}

#[test]
fn a_primary_gets_another_disk_under_its_clients_and_a_restart_opens_it() {
    let dice =
        Dice::of_test("a_primary_gets_another_disk_under_its_clients_and_a_restart_opens_it");
    let mut pair = serving_from_peer().start();
    let book = Arc::new(Book::new(dice.seed()));
    begin(&pair, "paris");
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    wait_level(&pair, "paris");
    let said = pair.helio("paris", &REPLACE).expect_failure();
    assert!(said.contains("did not fail"), "{said}");

    // A file that is written to grows again: it is lost before that.
    lose(&pair, "paris");
    let writers = Load::PLAIN.start(&pair, "paris", &dice.fork(2), &book);
    let member = pair.member("paris", "data");
    let said = pair.helio("paris", &REPLACE[..3]).expect_failure();
    assert!(said.contains("--yes") && said.contains(&member.display().to_string()), "{said}");
    boxed(&member, Bytes::mib(8));
    let said = pair.helio("paris", &REPLACE).expect_failure();
    assert!(said.contains("enlarge it"), "{said}");
    boxed(&member, SIZE);
    let said = pair.helio("paris", &REPLACE).expect_success();
    assert!(said.contains("has another disk") && said.contains("copied from lyon"), "{said}");
    wait(&pair, "paris", "all of it here again", |shown| shown["consistent"] == true);
    let said = pair.helio("paris", &REPLACE).expect_failure();
    assert!(said.contains("did not fail"), "{said}");
    writers.stop();
    assert_eq!(book.failures(), [], "the application noticed nothing");
    let shown = group(&pair, "paris");
    assert_eq!((&shown["consistent"], &shown["role"]), (&true.into(), &"primary".into()));
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    nothing_is_lost(&pair, "paris", &book);

    pair.daemon("paris").kill9();
    pair.start("paris");
    wait_level(&pair, "paris");
    SOME.run(&pair, "paris", &dice.fork(3), &book);
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    nothing_is_lost(&pair, "paris", &book);
}

#[test]
fn a_primary_that_dies_while_its_new_disk_is_filled_serves_no_byte_of_it() {
    let dice =
        Dice::of_test("a_primary_that_dies_while_its_new_disk_is_filled_serves_no_byte_of_it");
    let mut pair = serving_from_peer().group_line("resync = { max-rate = \"1MiB\" }").start();
    let book = Arc::new(Book::new(dice.seed()));
    begin(&pair, "paris");
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    wait_level(&pair, "paris");
    lose(&pair, "paris");
    boxed(&pair.member("paris", "data"), SIZE);
    pair.helio("paris", &REPLACE).expect_success();
    pair.daemon("paris").kill9();
    pair.start("paris");
    let refused = pair.helio("paris", &["promote", "db", "--force", "--yes"]).expect_failure();
    assert!(refused.contains("not consistent"), "{refused}");
    pair.helio("lyon", &["promote", "db", "--force", "--yes"]).expect_success();
    nothing_is_lost(&pair, "lyon", &book);
}

/// A file system of 8 MiB, gone with the test.
struct Small(PathBuf);

impl Small {
    /// None where nobody may mount.
    fn at(folder: PathBuf) -> Option<Self> {
        fs::create_dir_all(&folder).expect("a folder of our own");
        let mut mount = Command::new("mount");
        let told = run(mount.args(["-t", "tmpfs", "-o", "size=8m", "none"]).arg(&folder));
        told.status.success().then_some(Self(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        run(Command::new("umount").arg("--lazy").arg(&self.0));
    }
}

fn edit(pair: &Pair, from: &Path, to: &Path) {
    let text = fs::read_to_string(pair.config()).expect("it was written");
    let text = text.replace(&from.display().to_string(), &to.display().to_string());
    fs::write(pair.config(), text).expect("a folder of our own");
}

#[test]
fn a_secondary_gets_the_disk_that_the_file_names_now_and_is_copied_to_in_full() {
    let name = "a_secondary_gets_the_disk_that_the_file_names_now_and_is_copied_to_in_full";
    let dice = Dice::of_test(name);
    let mut pair = Plan::new("db").mode(Mode::Async).volume("data", SIZE).prepare();
    let Some(small) = Small::at(pair.scratch().join("small")) else {
        return helio_testkit::say_skipped("the right to mount");
    };
    let (member, old) = (pair.member("lyon", "data"), small.0.join("lyon.img"));
    File::create(&old).and_then(|file| file.set_len(SIZE.0)).expect("sparse");
    edit(&pair, &member, &old);
    let text = fs::read_to_string(pair.config()).expect("it was written");
    let text = text.replace("[group.db.volume.data]", "[group.db.volume.data]\nsparse = true");
    fs::write(pair.config(), text).expect("a folder of our own");
    pair.start("lyon");
    pair.start("paris");
    begin(&pair, "paris");
    wait_level(&pair, "paris");
    fs::write(small.0.join("filler"), vec![1; 9 << 20]).expect_err("it is full now");
    let book = Arc::new(Book::new(dice.seed()));
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    let failed = || group(&pair, "lyon")["fault"].as_str().map(str::to_owned);
    let fault = eventually(PATIENCE, "the secondary's disk fails", failed);
    assert!(fault.contains("volume data: "), "{fault}");

    boxed(&member, SIZE);
    edit(&pair, &old, &member);
    let applied = pair.helio("lyon", &["apply", "--dry-run"]).expect_success();
    assert!(applied.contains("volume data changed"), "the path waits: {applied}");
    let said = pair.helio("lyon", &REPLACE).expect_success();
    assert!(said.contains("paris copies everything to it"), "{said}");
    let applied = pair.helio("lyon", &["apply", "--dry-run"]).expect_success();
    assert!(!applied.contains("volume data changed"), "the path is the one that runs: {applied}");
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    pair.daemon("lyon").kill9();
    drop(small);
    pair.start("lyon");
    SOME.run(&pair, "paris", &dice.fork(2), &book);
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    nothing_is_lost(&pair, "lyon", &book);
}
