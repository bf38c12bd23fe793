// SPDX-License-Identifier: Apache-2.0
//! Exported snapshots: images that depend on nothing, are brought up to date by what changed on either side, and are written back.

use crate::snapshot::names;
use helio_e2e::{
    Book, Load, PATIENCE, assert_members_equal, begin, connect, connect_to, exported, number,
    wait_level,
};
use helio_format::exported::ExportRecord;
use helio_format::slow_crc32c;
use helio_nbd::Client;
use helio_testkit::{
    Dice, Group, LoopDevice, Pair, Plan, StorePlan, eventually, faulty_stores_possible,
    helio_binary, require, run,
};
use helio_units::Bytes;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const VOLUMES: [&str; 2] = ["data", "log"];
const SIZE: Bytes = Bytes::mib(16);
const CHUNK: u64 = 64 << 10;

/// A pair with two volumes, some of which is written.
fn written(dice: &Dice) -> (Pair, Arc<Book>) {
    let pair = VOLUMES.iter().fold(Plan::new("db"), |plan, it| plan.volume(it, SIZE)).start();
    begin(&pair, "paris");
    let book = Arc::new(Book::new(dice.seed()));
    write(&pair, &dice.fork(1), &book);
    (pair, book)
}

fn write(pair: &Pair, dice: &Dice, book: &Arc<Book>) {
    Load { count: Some(300), ..Load::PLAIN }.run(pair, "paris", dice, book);
    wait_level(pair, "paris");
}

/// Creates a snapshot on both nodes.
fn snapshot(pair: &Pair, name: &str) {
    pair.helio("paris", &["snapshot", "create", &format!("db@{name}")]).expect_success();
    let has = || names(pair, "lyon").iter().any(|it| it == name).then_some(());
    eventually(PATIENCE, "lyon's snapshot", has);
}

fn delete(pair: &Pair, name: &str) {
    pair.helio("paris", &["snapshot", "delete", &format!("db@{name}"), "--yes"]).expect_success();
}

/// Exports a snapshot. Returns how much was read and how much was written, as it says.
fn export(pair: &Pair, node: &str, name: &str, dir: &Path) -> (String, String) {
    let dir = dir.display().to_string();
    let told = pair.helio(node, &["snapshot", "export", &format!("db@{name}"), &dir]);
    let told = told.expect_success();
    assert!(!told.contains("warning"), "{told}");
    let (head, tail) = told.trim_end().split_once(": ").expect("what was done: how much");
    assert_eq!(head, format!("db@{name} is exported to {dir}"));
    let (read, written) = tail.split_once(" read, ").expect("what was read");
    (read.to_owned(), written.strip_suffix(" written").expect("what was written").to_owned())
}

fn image(dir: &Path, volume: &str) -> Vec<u8> {
    std::fs::read(dir.join(format!("{volume}.img"))).expect("the image is read")
}

fn assert_holds(pair: &Pair, node: &str, name: &str, dir: &Path) {
    for volume in VOLUMES {
        let snapshot = exported(pair, node, &format!("{volume}@{name}"));
        assert!(image(dir, volume) == snapshot, "the image of {volume} is not that of {name}");
    }
}

/// A server of images, once it serves.
fn import(dir: &Path) -> (Group, PathBuf) {
    let mut command = Command::new(helio_binary());
    command.args(["snapshot", "import"]).arg(dir).stdout(Stdio::null());
    let server = Group::spawn(&mut command).expect("it starts");
    let socket = dir.join("nbd.sock");
    eventually(PATIENCE, "the server", || Client::connect_unix(&socket, "db/data").ok());
    (server, socket)
}

/// Ends a server as a service manager does.
fn stop(mut server: Group) {
    server.signal(Signal::TERM);
    assert!(server.wait_end(PATIENCE, "the export").success());
}

#[test]
fn an_exported_snapshot_outlives_it_and_is_brought_up_to_date_by_what_changed() {
    require!("qemu-img");
    let dice =
        Dice::of_test("an_exported_snapshot_outlives_it_and_is_brought_up_to_date_by_what_changed");
    let (pair, book) = written(&dice);
    snapshot(&pair, "one");
    let dir = pair.scratch().join("backup");
    // On the secondary, while the primary is written.
    let mut writers = Load::PLAIN.start(&pair, "paris", &dice.fork(2), &book);
    writers.write_for(Duration::from_millis(100));
    let (read, _) = export(&pair, "lyon", "one", &dir);
    writers.stop();
    wait_level(&pair, "paris");
    assert_eq!(read, "32 MiB");
    assert_holds(&pair, "lyon", "one", &dir);
    assert_eq!(export(&pair, "lyon", "one", &dir), ("0 B".to_owned(), "0 B".to_owned()));
    // A chunk of each volume differs: it alone is read, with those that changed before the export.
    snapshot(&pair, "two");
    delete(&pair, "one");
    export(&pair, "lyon", "two", &dir);
    for (at, volume) in VOLUMES.into_iter().enumerate() {
        let mut client = connect_to(&pair, "paris", volume);
        client.write(3 * CHUNK + 512, &[at as u8 + 1; 512], true).expect("it is written");
    }
    snapshot(&pair, "three");
    let both = "128 KiB".to_owned();
    assert_eq!(export(&pair, "lyon", "three", &dir), (both.clone(), both.clone()));
    assert_holds(&pair, "lyon", "three", &dir);
    // And back: the older one is the base in this direction, too.
    assert_eq!(export(&pair, "paris", "two", &dir), (both.clone(), both));
    assert_holds(&pair, "paris", "two", &dir);
    // Without the base everything is compared, on either node.
    for name in ["two", "three"] {
        delete(&pair, name);
    }
    let kept = VOLUMES.map(|volume| image(&dir, volume));
    write(&pair, &dice.fork(3), &book);
    assert!(VOLUMES.map(|volume| image(&dir, volume)) == kept, "it depends on nothing");
    snapshot(&pair, "four");
    assert_eq!(export(&pair, "paris", "four", &dir).0, "32 MiB");
    assert_holds(&pair, "paris", "four", &dir);
}

#[test]
fn what_another_host_wrote_is_joined_and_overwritten_by_the_next_export() {
    require!("qemu-img");
    let dice =
        Dice::of_test("what_another_host_wrote_is_joined_and_overwritten_by_the_next_export");
    let (pair, _) = written(&dice);
    snapshot(&pair, "one");
    let (ours, theirs) = (pair.scratch().join("ours"), pair.scratch().join("theirs"));
    export(&pair, "paris", "one", &ours);
    // The other host has the same disks, and a copy of the record.
    std::fs::create_dir(&theirs).expect("it is created");
    std::fs::copy(ours.join("snapshot.helio"), theirs.join("snapshot.helio")).expect("copied");
    for volume in VOLUMES {
        let name = format!("{volume}.img");
        std::os::unix::fs::symlink(ours.join(&name), theirs.join(&name)).expect("a link");
    }
    let (mut server, socket) = import(&theirs);
    let mut client = Client::connect_unix(&socket, "db/data").expect("it is served");
    client.write(5 * CHUNK, &[0xee; 4096], true).expect("it is written");
    // Nothing is lost with the process.
    server.kill();
    let (dir, record) = (ours.display().to_string(), theirs.join("snapshot.helio"));
    let record = record.display().to_string();
    let refused = pair.helio("paris", &["snapshot", "join", &dir, &record]).expect_failure();
    assert!(refused.contains(" is of a host that serves the images, "), "{refused}");
    let (server, socket) = import(&theirs);
    let mut client = Client::connect_unix(&socket, "db/log").expect("it is served");
    client.write(SIZE.0 - 512, &[0xee; 512], false).expect("it is written");
    stop(server);
    let told = pair.helio("paris", &["snapshot", "join", &dir, &record]).expect_success();
    assert!(told.starts_with(&format!("joined: up to 2 MiB of the images in {dir} ")), "{told}");
    // What changed in the volumes adds to it.
    let mut client = connect(&pair, "paris");
    client.write(200 * CHUNK, &[1; 512], true).expect("it is written");
    snapshot(&pair, "two");
    let refused = pair.helio("paris", &["snapshot", "export", "db@two", &dir]).expect_failure();
    assert!(refused.contains("what was written to the images in "), "{refused}");
    let line = ["snapshot", "export", "db@two", &dir, "--yes"];
    let told = pair.helio("paris", &line).expect_success();
    assert!(told.ends_with(": 2.06 MiB read, 192 KiB written\n"), "{told}");
    assert_holds(&pair, "paris", "two", &ours);
    let refused = pair.helio("paris", &["snapshot", "join", &dir, &record]).expect_failure();
    assert!(refused.contains("is not of the export in "), "{refused}");
}

#[test]
fn an_image_that_was_written_unrecorded_is_compared_whole() {
    require!("qemu-img");
    let dice = Dice::of_test("an_image_that_was_written_unrecorded_is_compared_whole");
    let (pair, _) = written(&dice);
    snapshot(&pair, "one");
    let dir = pair.scratch().join("backup");
    export(&pair, "paris", "one", &dir);
    let mut bytes = image(&dir, "log");
    bytes[9 * CHUNK as usize] ^= 1;
    std::fs::write(dir.join("log.img"), bytes).expect("it is written");
    let shown = dir.display().to_string();
    // The join of a record without this change does not hide it.
    let record = pair.scratch().join("record");
    std::fs::copy(dir.join("snapshot.helio"), &record).expect("it is copied");
    let line = ["snapshot", "join", &shown, &record.display().to_string()];
    let told = pair.helio("paris", &line);
    assert!(told.stderr.contains("the image of log was written"), "{told}");
    assert!(told.expect_success().contains("up to 16 MiB of the images"));
    std::fs::copy(&record, dir.join("snapshot.helio")).expect("it is copied");
    let line = ["snapshot", "export", "db@one", &shown];
    let refused = pair.helio("paris", &line).expect_failure();
    assert!(refused.contains("at stake: the image of log was written"), "{refused}");
    let told = pair.helio("paris", &[&line[..], &["--yes"]].concat()).expect_success();
    assert!(told.ends_with(": 16 MiB read, 64 KiB written\n"), "{told}");
    assert_holds(&pair, "paris", "one", &dir);
}

/// An export in a process of its own, at that rate.
fn export_slowly(pair: &Pair, dir: &Path, limit: &str) -> Group {
    let mut command = Command::new(helio_binary());
    command.args(["snapshot", "export", "db@one", "--limit", limit, "--state"]);
    let said = std::fs::File::create(pair.scratch().join("said")).expect("it is created");
    command.arg(pair.state("paris")).arg(dir).stderr(said).stdout(Stdio::null());
    Group::spawn(&mut command).expect("it starts")
}

/// Waits until some of an export is durable.
fn wait_for_some(dir: &Path) {
    eventually(PATIENCE, "some of it", || {
        let record = std::fs::read(dir.join("snapshot.helio")).ok()?;
        let record = ExportRecord::decode(&record, slow_crc32c).ok()?;
        (record.differing() < SIZE.0 * 2 / CHUNK).then_some(())
    });
}

#[test]
fn an_export_that_was_killed_continues() {
    require!("qemu-img");
    let dice = Dice::of_test("an_export_that_was_killed_continues");
    let (pair, _) = written(&dice);
    snapshot(&pair, "one");
    let dir = pair.scratch().join("backup");
    let mut process = export_slowly(&pair, &dir, "1MiB/s");
    wait_for_some(&dir);
    process.kill();
    let refused = pair.helio("paris", &["snapshot", "import", &dir.display().to_string()]);
    assert!(refused.expect_failure().contains(" is not complete\n  hint: "));
    // However little is left, it takes longer than a loaded machine may take to interrupt it.
    let mut process = export_slowly(&pair, &dir, "64KiB/s");
    eventually(PATIENCE, "its handler", || process.handles(Signal::INT).then_some(()));
    process.signal(Signal::INT);
    assert!(!process.wait_end(PATIENCE, "the export").success(), "it is not complete");
    assert_ne!(export(&pair, "paris", "one", &dir).0, "32 MiB", "what was durable stays");
    assert_holds(&pair, "paris", "one", &dir);
}

#[test]
fn an_export_never_mixes_two_snapshots_of_one_name() {
    require!("qemu-img");
    let dice = Dice::of_test("an_export_never_mixes_two_snapshots_of_one_name");
    let (pair, book) = written(&dice);
    snapshot(&pair, "one");
    let dir = pair.scratch().join("backup");
    let mut process = export_slowly(&pair, &dir, "1MiB/s");
    wait_for_some(&dir);
    write(&pair, &dice.fork(2), &book);
    pair.helio("paris", &["snapshot", "refresh", "db@one", "--yes"]).expect_success();
    assert!(!process.wait_end(PATIENCE, "the export").success(), "the old one is gone");
    let said = std::fs::read_to_string(pair.scratch().join("said")).expect("it said why");
    assert!(
        said.contains("snapshot one of db was deleted or replaced during the export"),
        "{said}"
    );
    export(&pair, "paris", "one", &dir);
    assert_holds(&pair, "paris", "one", &dir);
}

#[test]
fn without_a_peer_what_was_restored_is_told_from_what_was_there_before() {
    require!("qemu-img");
    let plan = VOLUMES.iter().fold(Plan::new("db").only("paris"), |plan, it| plan.volume(it, SIZE));
    let pair = plan.start();
    pair.helio("paris", &["promote", "db"]).expect_success();
    let write = |byte| {
        let mut client = connect(&pair, "paris");
        client.write(5 * CHUNK, &[byte; 512], true).expect("it is written");
        client.disconnect().expect("it leaves");
    };
    let create = |name| pair.helio("paris", &["snapshot", "create", name]).expect_success();
    let dir = pair.scratch().join("backup");
    create("db@one");
    write(1);
    create("db@two");
    export(&pair, "paris", "two", &dir);
    let line = ["snapshot", "restore", "db@one", "--yes", "--wait"];
    pair.helio("paris", &line).expect_success();
    create("db@three");
    export(&pair, "paris", "three", &dir);
    assert_holds(&pair, "paris", "three", &dir);
    export(&pair, "paris", "two", &dir);
    assert_holds(&pair, "paris", "two", &dir);
    delete(&pair, "two");
    let line = ["snapshot", "restore", "db@two", "--yes", "--from", &dir.display().to_string()];
    pair.helio("paris", &line).expect_success();
    assert!(exported(&pair, "paris", "data") == image(&dir, "data"));
}

/// A client among the writes of the restore would leave parts of both, and the command would say that the group holds the snapshot.
#[test]
fn nobody_uses_a_group_while_it_is_restored_from_images() {
    require!("nbdinfo", "qemu-io");
    if !faulty_stores_possible() {
        return;
    }
    let store = StorePlan::new(SIZE).mount();
    let plan = Plan::new("db").only("paris").volume("data", SIZE);
    let pair = plan.member("paris", "data", store.path()).start();
    pair.helio("paris", &["promote", "db"]).expect_success();
    connect(&pair, "paris").write(0, &[0xaa; 4096], true).expect("it is written");
    pair.helio("paris", &["snapshot", "create", "db@one"]).expect_success();
    let dir = pair.scratch().join("backup");
    export(&pair, "paris", "one", &dir);
    connect(&pair, "paris").write(0, &[0xbb; 4096], true).expect("it is written");
    let export = |name: &str| pair.export("paris", name);
    let io = |name: &str| {
        let (export, write) = (export(name), "write -P 0xcc 0 4k");
        run(Command::new("qemu-io").args(["-f", "raw", "-c", write, &export]))
    };
    // A client uses it: it cannot be used alone.
    let client = connect(&pair, "paris");
    let told = io("data:alone");
    assert!(!told.status.success() && told.stderr.contains("db is in use"), "{told}");
    client.disconnect().expect("it leaves");
    let is_used = || number(&pair.status("paris"), "/groups/0/volumes/0/clients") > 0;
    eventually(PATIENCE, "the end of the client", || (!is_used()).then_some(()));
    let line = ["snapshot", "restore", "db@one", "--yes", "--from", &dir.display().to_string()];
    store.hold_flushes();
    let mut restore = pair.helio_begun("paris", &line);
    let alone = "a client uses group db alone, as a restore from images does";
    eventually(PATIENCE, "the restore", || is_used().then_some(()));
    for name in ["data", "data:ro"] {
        let told = io(name);
        assert!(!told.status.success() && told.stderr.contains(alone), "{name}: {told}");
    }
    let told = pair.helio("paris", &["attach", "db/data", "--via", "fuse"]).expect_failure();
    assert!(told.contains(alone), "{told}");
    run(Command::new("nbdinfo").arg(export("data@one"))).expect_success();
    store.release();
    assert!(restore.wait_end(PATIENCE, "the restore").success());
    assert!(exported(&pair, "paris", "data") == image(&dir, "data"));
    io("data").expect_success();
}

#[test]
fn a_group_is_restored_from_images_when_no_snapshot_is_left() {
    require!("qemu-img");
    let dice = Dice::of_test("a_group_is_restored_from_images_when_no_snapshot_is_left");
    let (pair, book) = written(&dice);
    snapshot(&pair, "one");
    let dir = pair.scratch().join("backup");
    export(&pair, "lyon", "one", &dir);
    delete(&pair, "one");
    write(&pair, &dice.fork(2), &book);
    let shown = dir.display().to_string();
    let line = ["snapshot", "restore", "db@one", "--from", &shown];
    let refused = pair.helio("paris", &line).expect_failure();
    assert!(refused.contains("everything that was written to db since snapshot one "), "{refused}");
    let refused = pair.helio("lyon", &[&line[..], &["--yes"]].concat()).expect_failure();
    assert!(refused.contains("db is not primary on lyon"), "{refused}");
    let client = connect_to(&pair, "paris", "log");
    let refused = pair.helio("paris", &[&line[..], &["--yes"]].concat()).expect_failure();
    assert!(refused.contains("1 NBD connection(s)"), "{refused}");
    client.disconnect().expect("it leaves");
    eventually(PATIENCE, "no client", || {
        let told = pair.helio("paris", &line).expect_failure();
        (!told.contains("NBD connection(s)")).then_some(())
    });
    let told = pair.helio("paris", &[&line[..], &["--yes"]].concat()).expect_success();
    assert!(told.starts_with("db holds snapshot one again: 32 MiB read, "), "{told}");
    wait_level(&pair, "paris");
    for volume in VOLUMES {
        assert_members_equal(&pair, volume);
        assert!(exported(&pair, "lyon", &format!("{volume}:ro")) == image(&dir, volume));
    }
    // What another host changed is restored, too, and said.
    let (server, socket) = import(&dir);
    let mut client = Client::connect_unix(&socket, "db/data").expect("it is served");
    client.write(5 * CHUNK, &[0xee; 512], true).expect("it is written");
    stop(server);
    let refused = pair.helio("paris", &line).expect_failure();
    assert!(refused.contains("were changed since the export (up to 1 MiB)"), "{refused}");
    let told = pair.helio("paris", &[&line[..], &["--yes"]].concat()).expect_success();
    assert!(told.starts_with("db holds the changed images of snapshot one again: "), "{told}");
    // An image that is missing is not to be made up.
    std::fs::remove_file(dir.join("log.img")).expect("it is removed");
    let refused = pair.helio("paris", &[&line[..], &["--yes"]].concat()).expect_failure();
    assert!(refused.contains("the image of log is missing: "), "{refused}");
}

#[test]
fn an_image_lies_on_a_block_device() {
    require!("qemu-img");
    let dice = Dice::of_test("an_image_lies_on_a_block_device");
    let file = helio_testkit::TempDir::new();
    let Some(device) = LoopDevice::on(&file.file("disk", Bytes(SIZE.0 + (1 << 20))), &[]) else {
        return;
    };
    let (pair, _) = written(&dice);
    snapshot(&pair, "one");
    let (dir, at) = (pair.scratch().join("backup"), format!("log={}", device.path().display()));
    let dir = dir.display().to_string();
    let line = ["snapshot", "export", "db@one", &dir, "--image", &at];
    let refused = pair.helio("paris", &line).expect_failure();
    let all = format!("everything in {} will be lost", device.path().display());
    assert!(refused.contains(&all), "{refused}");
    assert!(!Path::new(&dir).join("log.img").exists(), "nothing was changed");
    pair.helio("paris", &[&line[..], &["--yes"]].concat()).expect_success();
    let found = std::fs::read(device.path()).expect("the device is read");
    assert!(found[..SIZE.0 as usize] == exported(&pair, "paris", "log@one"));
    // Another disk has its name.
    let disk = helio_testkit::TempDir::new();
    let Some(another) = LoopDevice::on(&disk.file("disk", SIZE), &[]) else { return };
    let link = Path::new(&dir).join("log.img");
    std::fs::remove_file(&link).expect("it is removed");
    std::os::unix::fs::symlink(another.path(), &link).expect("a link");
    let line = ["snapshot", "restore", "db@one", "--from", &dir, "--yes"];
    let refused = pair.helio("paris", &line).expect_failure();
    assert!(refused.contains("the image of log is on another device than "), "{refused}");
    // Below a device lies what the daemon serves.
    std::fs::remove_file(&link).expect("it is removed");
    let Some(member) = LoopDevice::on(&pair.member("lyon", "log"), &[]) else { return };
    let at = format!("log={}", member.path().display());
    let line = ["snapshot", "export", "db@one", &dir, "--image", &at, "--yes"];
    let refused = pair.helio("paris", &line).expect_failure();
    assert!(refused.contains(" has it open for writing\n"), "{refused}");
    std::os::unix::fs::symlink(device.path(), &link).expect("a link");
    let other = pair.scratch().file("other", SIZE);
    let at = format!("log={}", other.display());
    let line = ["snapshot", "export", "db@one", &dir, "--image", &at, "--yes"];
    let refused = pair.helio("paris", &line).expect_failure();
    assert!(refused.contains("log.img already exists and is not a link to "), "{refused}");
    // The disk is detached: no file takes its place, in /dev or in the directory where a file system was mounted.
    let gone = pair.scratch().join("gone");
    std::fs::remove_file(&link).expect("it is removed");
    std::os::unix::fs::symlink(&gone, &link).expect("a link");
    let named = format!("log={}", gone.display());
    let plain = ["snapshot", "export", "db@one", &dir, "--yes"];
    for line in [&plain[..], &[&plain[..], &["--image", &named]].concat()] {
        let refused = pair.helio("paris", line).expect_failure();
        assert!(refused.contains("the image of log is missing: "), "{refused}");
        assert!(!gone.exists());
    }
    let (other, device) = (format!("{dir}-2"), "/dev/helio-no-such-device");
    let at = format!("log={device}");
    let line = ["snapshot", "export", "db@one", &other, "--image", &at, "--yes"];
    let refused = pair.helio("paris", &line).expect_failure();
    assert!(
        refused.contains("this device does not exist") && !Path::new(device).exists(),
        "{refused}"
    );
}

#[test]
fn directories_that_hold_something_else_are_refused_and_left_as_they_are() {
    let dice =
        Dice::of_test("directories_that_hold_something_else_are_refused_and_left_as_they_are");
    let (pair, _) = written(&dice);
    snapshot(&pair, "one");
    let dir = pair.scratch().join("backup");
    let shown = dir.display().to_string();
    let refused = |line: &[&str]| pair.helio("paris", line).expect_failure();
    let told = refused(&["snapshot", "export", "db@two", &shown]);
    assert!(told.contains("group db has no snapshot two on paris\n  hint: "), "{told}");
    assert!(!dir.exists(), "nothing was begun");
    let told = refused(&["snapshot", "import", &shown]);
    assert!(told.contains("hint: name a directory that exists"), "{told}");
    // A file of another program has the name of an image.
    std::fs::create_dir(&dir).expect("it is created");
    std::fs::write(dir.join("data.img"), b"precious").expect("it is written");
    let told = refused(&["snapshot", "import", &shown]);
    assert!(told.contains(" has no exported snapshot\n  hint: "), "{told}");
    let told = refused(&["snapshot", "export", "db@one", &shown, "--yes"]);
    assert!(told.contains("the image of data has 8 B, "), "another size: {told}");
    assert_eq!(std::fs::read(dir.join("data.img")).expect("it is there"), b"precious");
    std::fs::write(dir.join("data.img"), vec![7; SIZE.0 as usize]).expect("it is written");
    let told = refused(&["snapshot", "export", "db@one", &shown]);
    assert!(told.contains("everything in ") && told.contains("data.img will be lost"), "{told}");
    assert!(!dir.join("log.img").exists(), "and nothing was begun");
    // The record is not written through a link of another user.
    let (log, victim) = (dir.join("log.img"), pair.scratch().join("victim"));
    std::os::unix::fs::symlink(&victim, dir.join("snapshot.helio.new")).expect("a link");
    std::fs::remove_file(dir.join("data.img")).expect("it is removed");
    export(&pair, "paris", "one", &dir);
    assert!(log.exists() && !victim.exists());
    std::fs::write(dir.join("data.img"), vec![7; SIZE.0 as usize]).expect("it is written");
    std::fs::write(dir.join("snapshot.helio"), b"what is this").expect("it is written");
    let told = refused(&["snapshot", "export", "db@one", &shown, "--yes"]);
    assert!(told.contains("it is not the record of an exported snapshot"), "{told}");
    let left = std::fs::read(dir.join("data.img")).expect("it is there");
    assert!(left.iter().all(|byte| *byte == 7), "and is as it was");
}
