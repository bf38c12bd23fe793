// SPDX-License-Identifier: Apache-2.0
//! Members and metadata that were restored from a backup while the node was stopped: each carries its epoch, so what is old is
//! found, and nothing old is read.

use helio_e2e::{Book, Image, Load, PATIENCE, Promise, connect, group, image, wait, wait_members};
use helio_testkit::{Daemon, Dice, Pair, Plan, TempDir};
use helio_units::Bytes;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const SIZE: Bytes = Bytes::mib(16);
const SOME: Load = Load { count: Some(200), ..Load::PLAIN };

/// Paris is the only node; its volume has two members.
struct Stage {
    pair: Pair,
    members: [PathBuf; 2],
    folder: TempDir,
    dice: Dice,
    book: Arc<Book>,
    /// How long the log was before the last start.
    logged: usize,
}

impl Stage {
    /// None if the file system of the test keeps no extended attributes.
    #[track_caller]
    fn new(test: &'static str) -> Option<Self> {
        let (dice, folder) = (Dice::of_test(test), TempDir::new());
        let mirror = folder.file("mirror", SIZE);
        let pair = Plan::new("db")
            .only("paris")
            .volume("data", SIZE)
            .volume_line("sparse = true")
            .group_line("member-return = \"off\"")
            .mirror("paris", "data", &mirror)
            .start();
        let members = [pair.member("paris", "data"), mirror];
        let book = Arc::new(Book::new(dice.seed()));
        let stage = Self { pair, members, folder, dice, book, logged: 0 };
        wait_members(&stage.pair, "paris", ["full", "full"]);
        stage.write(1);
        if attribute(&stage.members[0], "user.heliograph").is_none() {
            helio_testkit::say_skipped("a file system that keeps extended attributes");
            return None;
        }
        let stamps = stage.members.each_ref().map(|file| attribute(file, "user.heliograph.set"));
        assert!(stamps.iter().all(Option::is_some), "{stamps:?}");
        Some(stage)
    }

    #[track_caller]
    fn write(&self, label: u64) {
        SOME.run(&self.pair, "paris", &self.dice.fork(label), &self.book);
    }

    #[track_caller]
    fn stop(&mut self) {
        assert!(self.pair.daemon("paris").terminate().success(), "paris stops cleanly");
    }

    /// Starts it; clients read what this member held when it was stopped.
    #[track_caller]
    fn start_with(&mut self, newest: usize) {
        let held = bytes(&self.members[newest]);
        self.logged = self.pair.daemon("paris").log().len();
        self.pair.start("paris");
        wait(&self.pair, "paris", "a primary", |shown| shown["role"] == "primary");
        let (mut client, mut read) = (connect(&self.pair, "paris"), vec![0; 1 << 20]);
        for at in (0..SIZE.0).step_by(read.len()) {
            client.read(at, &mut read).expect("it is served");
            let at = at as usize;
            assert!(read == held[at..at + read.len()], "old data at {at}");
        }
    }

    /// The log since the last start has this text.
    fn says(&mut self, text: &str) -> bool {
        self.pair.daemon("paris").log()[self.logged..].contains(text)
    }

    /// Starts it, and returns the log of a daemon that serves nothing.
    #[track_caller]
    fn refuses(&mut self) -> String {
        let from = self.pair.daemon("paris").log().len();
        let mut daemon = Daemon::start("paris", self.pair.config(), &self.pair.state("paris"));
        assert!(!daemon.wait_exit(PATIENCE).success(), "it serves");
        daemon.log()[from..].to_owned()
    }

    /// A copy of a file with its attributes, as a backup is.
    fn copy(&self, file: &Path, name: &str) -> PathBuf {
        let copy = self.folder.join(name);
        put(file, &copy);
        copy
    }

    /// The member got its last stamp.
    #[track_caller]
    fn wait_closed(&self, member: usize) {
        wait(&self.pair, "paris", "a closed member", |shown| {
            shown["volumes"][0]["members"][member]["open"] == false
        });
    }

    /// Both members hold what was acknowledged, and the same.
    #[track_caller]
    fn judge(&mut self) {
        wait_members(&self.pair, "paris", ["full", "full"]);
        self.stop();
        let run = self.book.run();
        let first = image(&self.pair, "paris", run);
        self.book.assert_holds("member 0", &first, Promise::Everything);
        assert!(first == Image::read(run, &self.members[1]), "the members differ");
    }

    fn path(&self, member: usize) -> String {
        self.members[member].display().to_string()
    }
}

fn put(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg("-T").arg(from).arg(to).status();
    assert!(copied.expect("cp is there").success(), "{} -> {}", from.display(), to.display());
}

fn bytes(file: &Path) -> Vec<u8> {
    fs::read(file).expect("it can be read")
}

fn attribute(file: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = [0; 64];
    let length = rustix::fs::getxattr(file, name, &mut value).ok()?;
    Some(value[..length].to_vec())
}

#[test]
fn a_member_that_is_put_back_from_a_copy_gets_a_full_copy_and_nothing_old_is_read() {
    let Some(mut stage) = Stage::new("a_member_that_is_put_back") else { return };
    for (old, newest) in [(1, 0), (0, 1)] {
        stage.stop();
        let copy = stage.copy(&stage.members[old], "copy");
        stage.start_with(newest);
        stage.write(2 + old as u64);
        stage.stop();
        put(&copy, &stage.members[old]);
        stage.start_with(newest);
        let path = stage.path(old);
        assert!(stage.says("the member is older than the metadata"), "{path}");
        assert!(stage.says("hint=\"to keep what this disk holds, stop the daemon"), "{path}");
        wait_members(&stage.pair, "paris", ["full", "full"]);
        stage.write(4 + old as u64);
    }
    // Neither a stop nor a kill makes a member old.
    stage.pair.daemon("paris").kill9();
    stage.start_with(0);
    wait_members(&stage.pair, "paris", ["full", "full"]);
    assert!(!stage.says("older than the metadata"));
    // If all members were restored, none of them is served.
    stage.stop();
    let copies = [0, 1].map(|n| stage.copy(&stage.members[n], &format!("copy-{n}")));
    stage.pair.start("paris");
    wait_members(&stage.pair, "paris", ["full", "full"]);
    stage.write(6);
    stage.stop();
    let newest = stage.copy(&stage.members[1], "newest");
    (0..2).for_each(|n| put(&copies[n], &stage.members[n]));
    let refused = stage.refuses();
    assert!(refused.contains("no full member of db/data is as the metadata has it"), "{refused}");
    assert!(refused.contains("hint: put the newest disk of a member back"), "{refused}");
    put(&newest, &stage.members[1]);
    stage.start_with(1);
    stage.judge();
}

#[test]
fn the_newest_member_stays_if_the_metadata_is_put_back_and_no_other_one_is_written() {
    let Some(mut stage) = Stage::new("the_newest_member_stays") else { return };
    let metadata = stage.pair.state("paris").join("groups/db.meta");
    for (old, newest) in [(1, 0), (0, 1)] {
        stage.stop();
        let copy = stage.copy(&metadata, "metadata");
        stage.pair.start("paris");
        wait_members(&stage.pair, "paris", ["full", "full"]);
        stage.write(2 + old as u64);
        let path = stage.path(old);
        stage.pair.helio("paris", &["member", "remove", "db/data", &path]).expect_success();
        stage.write(4 + old as u64);
        stage.stop();
        put(&copy, &metadata);
        let before = bytes(&stage.members[old]);
        stage.start_with(newest);
        assert!(stage.says("the metadata of this node is older than the members"));
        stage.write(6 + old as u64);
        let shown = group(&stage.pair, "paris");
        let member = |n: usize| &shown["volumes"][0]["members"][n];
        assert!(member(newest)["state"] == "full", "{shown:#}");
        assert!(member(old)["state"] == "removed" && member(old)["open"] == false, "{shown:#}");
        assert!(bytes(&stage.members[old]) == before, "it was written");
        // The state is on record now.
        stage.stop();
        stage.start_with(newest);
        assert!(!stage.says("older than the members"));
        stage.pair.helio("paris", &["member", "add", "db/data", &path]).expect_success();
        wait_members(&stage.pair, "paris", ["full", "full"]);
        stage.write(8 + old as u64);
    }
    stage.judge();
}

#[test]
fn a_removed_member_that_is_put_back_from_a_copy_does_not_return_by_its_bitmap() {
    let Some(mut stage) = Stage::new("a_removed_member_that_is_put_back") else { return };
    stage.stop();
    let copy = stage.copy(&stage.members[1], "copy");
    stage.start_with(0);
    stage.write(2);
    let path = stage.path(1);
    let remove = ["member", "remove", "db/data", &path, "--for-backup"];
    let add = ["member", "add", "db/data", &path, "--require-minicopy"];
    // It is read elsewhere, and returns as it was, also after a restart.
    stage.pair.helio("paris", &remove).expect_success();
    stage.write(3);
    stage.copy(&stage.members[1], "backup");
    stage.stop();
    stage.start_with(0);
    stage.write(4);
    stage.pair.helio("paris", &add).expect_success();
    wait_members(&stage.pair, "paris", ["full", "full"]);
    stage.pair.helio("paris", &remove).expect_success();
    stage.write(5);
    put(&copy, &stage.members[1]);
    let said = stage.pair.helio("paris", &add).expect_failure();
    assert!(said.contains("is not proven to be what was removed from db/data"), "{said}");
    stage.pair.helio("paris", &add[..4]).expect_success();
    wait_members(&stage.pair, "paris", ["full", "full"]);
    stage.judge();
}

/// It was copied while it was served, after the last change of the members: nothing but its last stamp tells it from the member.
#[test]
fn an_older_copy_of_a_member_that_was_served_does_not_return_by_its_bitmap() {
    let Some(mut stage) = Stage::new("an_older_copy_of_a_member_that_was_served") else { return };
    let path = stage.path(1);
    let remove = ["member", "remove", "db/data", &path, "--for-backup"];
    let add = ["member", "add", "db/data", &path, "--require-minicopy"];
    for (round, remove) in [&remove[..], &remove[..4]].into_iter().enumerate() {
        let label = 2 + 4 * round as u64;
        let copy = stage.copy(&stage.members[1], "copy");
        stage.write(label);
        stage.pair.helio("paris", remove).expect_success();
        stage.wait_closed(1);
        stage.write(label + 1);
        let member = stage.copy(&stage.members[1], "member");
        put(&copy, &stage.members[1]);
        let said = stage.pair.helio("paris", &add).expect_failure();
        assert!(said.contains("is not proven to be what was removed from db/data"), "{said}");
        // The member itself is.
        put(&member, &stage.members[1]);
        stage.pair.helio("paris", &add).expect_success();
        wait_members(&stage.pair, "paris", ["full", "full"]);
        // Its copy from before it returned is not, any more.
        stage.write(label + 2);
        stage.pair.helio("paris", &remove[..4]).expect_success();
        stage.wait_closed(1);
        stage.write(label + 3);
        put(&member, &stage.members[1]);
        stage.pair.helio("paris", &add[..4]).expect_success();
        wait_members(&stage.pair, "paris", ["full", "full"]);
        assert!(bytes(&stage.members[0]) == bytes(&stage.members[1]), "old data is full");
    }
    stage.judge();
}

#[test]
fn a_release_names_a_removed_member_and_the_group_does_not_start_with_it_as_if_it_were_complete() {
    let Some(mut stage) = Stage::new(
        "a_release_names_a_removed_member_and_the_group_does_not_start_with_it_as_if_it_were_complete",
    ) else {
        return;
    };
    let path = stage.members[0].display().to_string();
    stage.pair.helio("paris", &["member", "remove", "db/data", &path]).expect_success();
    stage.write(2);
    let told = stage.pair.helio("paris", &["release", "db", "--yes"]);
    let warning = format!("{path} of db/data is not a complete copy");
    assert!(told.stderr.contains(&warning), "{}", told.stderr);
    let said = told.expect_success();
    assert!(said.contains(&format!("db/data is {}", stage.members[1].display())), "{said}");
    assert!(!said.contains(&format!("db/data is {path}")), "{said}");
    let named = stage.members.each_ref().map(|file| attribute(file, "user.heliograph").is_some());
    assert_eq!(named, [true, false], "only the removed member keeps its identity");
    stage.stop();
    let mark = stage.pair.state("paris").join("groups/db.released");
    fs::remove_file(mark).expect("the group was released");
    let log = stage.refuses();
    assert!(log.contains(&format!("{path} has an identity of Heliograph")), "{log}");
}
