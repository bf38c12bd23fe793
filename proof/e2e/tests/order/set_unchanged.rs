// SPDX-License-Identifier: Apache-2.0
//! A volume with two members on a node: what is refused changes nothing, and a disk that is none of its members is not written.

use helio_e2e::{Book, Load, assert_same_bytes, begin, group, wait, wait_level};
use helio_testkit::{Dice, Pair, Plan, TempDir};
use helio_units::{Bytes, Mode};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SIZE: Bytes = Bytes::mib(16);
const SOME: Load = Load { count: Some(200), ..Load::PLAIN };
const SLOW: &str = "resync = { max-rate = \"1MiB\" }";
const FAST: &str = "resync = { max-rate = \"1GiB\" }";

/// A pair with paris as its primary; a node has two full members, the second one on this file.
struct Stage {
    pair: Pair,
    mirror: PathBuf,
    dice: Dice,
    book: Arc<Book>,
    _folder: TempDir,
}

impl Stage {
    #[track_caller]
    fn new(test: &'static str, node: &str, resync: &str) -> Self {
        let (dice, folder) = (Dice::of_test(test), TempDir::new());
        let mirror = folder.file("mirror", SIZE);
        let pair = Plan::new("db")
            .mode(Mode::Sync)
            .group_line(resync)
            .volume("data", SIZE)
            .volume_line("sparse = true")
            .mirror(node, "data", &mirror)
            .start();
        begin(&pair, "paris");
        wait(&pair, node, "two full members", is_full);
        let book = Arc::new(Book::new(dice.seed()));
        Self { pair, mirror, dice, book, _folder: folder }
    }

    #[track_caller]
    fn write(&self, label: u64) {
        SOME.run(&self.pair, "paris", &self.dice.fork(label), &self.book);
    }

    /// Both nodes stop, and all three copies are equal.
    #[track_caller]
    fn end(&mut self) {
        wait_level(&self.pair, "paris");
        for node in ["paris", "lyon"] {
            assert!(self.pair.daemon(node).terminate().success(), "{node} stops cleanly");
        }
        for node in ["paris", "lyon"] {
            assert_same_bytes(&self.pair.member(node, "data"), &self.mirror);
        }
    }
}

fn bytes(file: &Path) -> Vec<u8> {
    fs::read(file).expect("it can be read")
}

fn is_full(shown: &Value) -> bool {
    let members = shown["volumes"][0]["members"].as_array();
    members.is_some_and(|members| members.iter().all(|member| member["state"] == "full"))
}

#[test]
fn a_secondary_that_is_inconsistent_gives_no_member_for_a_backup() {
    let mut stage = Stage::new("a_secondary_that_is_inconsistent_gives_no_member", "lyon", SLOW);
    assert!(stage.pair.daemon("lyon").terminate().success());
    stage.write(1);
    // Its queue is lost with it: only dirty regions are left.
    stage.pair.daemon("paris").kill9();
    stage.pair.start("lyon");
    stage.pair.start("paris");
    wait(&stage.pair, "lyon", "a resync", |shown| shown["consistent"] == false);
    stage.pair.daemon("paris").kill9();
    let shown = wait(&stage.pair, "lyon", "the end of the connection", |shown| {
        shown["peer"]["connection"] != "connected"
    });
    assert!(shown["consistent"] == false && is_full(&shown), "{shown:#}");

    let mirror = stage.mirror.display().to_string();
    let before = (bytes(&stage.mirror), bytes(&stage.pair.member("lyon", "data")));
    let remove = ["member", "remove", "db/data", &mirror, "--for-backup"];
    let said = stage.pair.helio("lyon", &remove).expect_failure();
    assert!(said.contains("the copy of db on lyon is inconsistent"), "{said}");
    assert!(said.contains("hint: wait until `helio status db` shows it as consistent"), "{said}");
    let now = group(&stage.pair, "lyon");
    assert!(is_full(&now) && now["volumes"][0]["members"][1]["open"] == true, "{now:#}");
    let is_same = before == (bytes(&stage.mirror), bytes(&stage.pair.member("lyon", "data")));
    assert!(is_same, "a member was written");

    // It is still a member: the resync goes on, to both.
    let config = fs::read_to_string(stage.pair.config()).expect("it was written");
    stage.pair.scratch().write("heliograph.toml", &config.replace(SLOW, FAST));
    stage.pair.start("paris");
    wait_level(&stage.pair, "paris");
    stage.pair.helio("lyon", &remove).expect_success();
    stage.end();
}

#[test]
fn another_disk_at_the_path_of_a_member_is_not_overwritten_at_a_start_and_the_status_shows_it() {
    let mut stage = Stage::new("another_disk_at_the_path_of_a_member", "paris", FAST);
    stage.write(1);
    let foreign = vec![0xA5; SIZE.0 as usize];
    for label in 2..4 {
        stage.pair.daemon("paris").kill9();
        if label == 2 {
            let aside = stage.pair.scratch().join("aside");
            fs::rename(&stage.mirror, aside).expect("it can be moved");
            fs::write(&stage.mirror, &foreign).expect("there is room");
        }
        stage.pair.start("paris");
        let shown = wait(&stage.pair, "paris", "a primary", |shown| shown["role"] == "primary");
        let member = &shown["volumes"][0]["members"][1];
        assert_eq!(member["state"], "removed", "{shown:#}");
        assert_eq!(member["path"], stage.mirror.display().to_string(), "{shown:#}");
        let why = member["why"].as_str().unwrap_or_default();
        assert!(why.contains("the disk of this member is missing"), "{shown:#}");
        let log = stage.pair.daemon("paris").log();
        let add = format!("run `helio member add db/data {}`", stage.mirror.display());
        assert!(log.contains(&add), "{log}");
        stage.write(label);
        assert!(bytes(&stage.mirror) == foreign, "the disk is as it was");
    }

    let mirror = stage.mirror.display().to_string();
    let add = ["member", "add", "db/data", &mirror, "--require-minicopy"];
    stage.pair.helio("paris", &add).expect_failure();
    assert!(bytes(&stage.mirror) == foreign, "the disk is as it was");
    stage.pair.helio("paris", &add[..4]).expect_success();
    let shown = wait(&stage.pair, "paris", "the new member", |shown| {
        shown["volumes"][0]["members"][1]["state"] == "full"
    });
    let members = shown["volumes"][0]["members"].as_array().expect("a list");
    let numbers: Vec<&Value> = members.iter().map(|member| &member["number"]).collect();
    assert_eq!(numbers, [0, 2], "its path is shown once: {shown:#}");
    // The disk that was missing is forgotten at the next start.
    stage.pair.daemon("paris").kill9();
    stage.pair.start("paris");
    wait_level(&stage.pair, "paris");
    let shown = wait(&stage.pair, "paris", "full members", is_full);
    assert_eq!(shown["volumes"][0]["members"].as_array().map(Vec::len), Some(2), "{shown:#}");
    stage.end();
}
