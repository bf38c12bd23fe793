// SPDX-License-Identifier: Apache-2.0
//! A file system that was there before comes under mirroring as it is, and is given back as it is.

use crate::common::{Clear, attachable, clear, mount, on, unmount_of};
use helio_e2e::{PATIENCE, assert_members_equal, wait, wait_level};
use helio_testkit::{Pair, Plan, TempDir, Told, eventually, helio, require, run};
use helio_units::{Bytes, Mode};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SIZE: Bytes = Bytes::mib(48);

/// Two nodes whose configuration names no group yet, and an ext4 image with a file in it where paris' member is to be.
struct Story {
    _clear: Clear,
    pair: Pair,
    _devices: [TempDir; 2],
}

impl Story {
    fn new() -> Self {
        let devices = [TempDir::new(), TempDir::new()];
        let line = |at: &TempDir| format!("devices = {:?}", at.join("dev"));
        let plan = Plan::new("db").mode(Mode::Sync).volume("data", SIZE);
        let plan = plan.node_line("lyon", &line(&devices[0]));
        let pair = plan.node_line("paris", &line(&devices[1])).prepare();
        let text = fs::read_to_string(pair.config()).expect("it was written");
        let nodes = text.split("[group").next().expect("a part before");
        fs::write(pair.config(), nodes).expect("a folder of our own");
        let story = Self { _clear: clear(&pair), pair, _devices: devices };
        let seed = story.pair.scratch().join("seed");
        fs::create_dir_all(&seed).expect("a folder of our own");
        fs::write(seed.join("old"), "from before").expect("room");
        let mut mke2fs = Command::new("mke2fs");
        mke2fs.args(["-q", "-t", "ext4", "-F", "-d"]).arg(&seed).arg(story.member("paris"));
        run(&mut mke2fs).expect_success();
        story
    }

    fn member(&self, node: &str) -> PathBuf {
        self.pair.member(node, "data")
    }

    fn sum(&self, node: &str) -> String {
        let told = on("sha256sum", &[], &self.member(node)).expect_success();
        told.split(' ').next().expect("a sum").to_owned()
    }

    fn adopt(&self, more: &[&str]) -> Told {
        let text = |path: &Path| path.display().to_string();
        let (path, peer_path) = (text(&self.member("paris")), text(&self.member("lyon")));
        let (config, state) = (text(self.pair.config()), text(&self.pair.state("paris")));
        let mut line = vec!["adopt", &path, "--group", "db", "--volume", "data", "--node", "paris"];
        line.extend(["--peer-path", &peer_path, "--config", &config, "--state", &state]);
        line.extend(more);
        helio(&line)
    }

    /// Adopts, and waits until the other node has its copy.
    fn begin(&mut self) {
        self.adopt(&["--write"]).expect_success();
        self.pair.start("lyon");
        self.pair.start("paris");
        wait_level(&self.pair, "paris");
    }

    fn has_name(&self, node: &str) -> bool {
        let mut buffer = [0; 64];
        rustix::fs::getxattr(self.member(node), "user.heliograph", &mut buffer).is_ok()
    }

    fn metadata(&self, node: &str) -> Vec<String> {
        let entries =
            fs::read_dir(self.pair.state(node).join("groups")).expect("a state directory");
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

#[test]
fn an_image_is_adopted_mirrored_and_given_back_without_a_byte_changed() {
    require!("mke2fs", "sha256sum");
    let mut story = Story::new();
    let before = story.sum("paris");
    let said = story.adopt(&[]).expect_success();
    assert!(
        said.contains("nothing was changed") && said.contains("[group.db.volume.data]"),
        "{said}"
    );
    assert!(!story.has_name("paris"), "only looking leaves no trace");
    story.begin();
    assert_eq!(story.sum("lyon"), before, "the copy went from here to there");
    let said = story.pair.helio("paris", &["release", "db/data", "--yes"]).expect_success();
    assert!(said.contains("everything that was acknowledged, durable"), "{said}");
    assert_eq!(story.sum("paris"), before);
    assert!(!story.has_name("paris"));
    assert_eq!(story.metadata("paris"), ["db.released"]);
    let said = story.pair.helio("paris", &["release", "db", "--yes"]).expect_failure();
    assert!(said.contains("group db is not configured"), "{said}");
    // Its own again: it may be written by others now.
    on("e2fsck", &["-fn"], &story.member("paris")).expect_success();
    // The other node knows that it stands alone, and a new start of this one passes the group over.
    wait(&story.pair, "lyon", "no peer", |status| status["peer"]["connection"] != "connected");
    let said =
        story.pair.helio("lyon", &["release", "db", "--keep-metadata", "--yes"]).expect_success();
    assert!(
        said.contains("a consistent copy, durable") && said.contains("metadata is kept"),
        "{said}"
    );
    assert_eq!(story.metadata("lyon"), ["db.meta.released-1", "db.released"]);
    assert_eq!(story.sum("lyon"), before);
}

#[test]
fn what_was_written_while_it_was_mirrored_is_there_on_both_nodes_after_release() {
    attachable!();
    require!("mke2fs", "e2fsck");
    let mut story = Story::new();
    story.begin();
    let device = story.pair.helio("paris", &["attach", "db/data"]).expect_success();
    let place = mount(&story.pair, Path::new(device.trim_end()));
    assert_eq!(fs::read_to_string(place.join("old")).expect("it is there"), "from before");
    fs::write(place.join("new"), "written since").expect("room");
    let said = story.pair.helio("paris", &["release", "db", "--yes"]).expect_failure();
    let text = format!("db/data is attached as {} and mounted at", device.trim_end());
    assert!(said.contains(&text), "{said}");
    unmount_of(&story.pair);
    story.pair.helio("paris", &["detach", "db/data"]).expect_success();
    story.pair.helio("paris", &["release", "db", "--yes"]).expect_success();
    story.pair.helio("lyon", &["release", "db", "--yes"]).expect_success();
    assert_members_equal(&story.pair, "data");
    for node in ["paris", "lyon"] {
        on("e2fsck", &["-fn"], &story.member(node)).expect_success();
        let mut cat = Command::new("debugfs");
        let told = run(cat.args(["-R", "cat /new"]).arg(story.member(node))).expect_success();
        assert!(told.contains("written since"), "{node}: {told}");
    }
}

#[test]
fn what_is_in_use_or_mirrored_already_is_not_adopted_and_nothing_is_left_of_the_attempt() {
    require!("mke2fs");
    let mut story = Story::new();
    let before = story.sum("paris");
    let mut user = crate::common::holding(fs::File::open(story.member("paris")).expect("it opens"));
    let said = story.adopt(&["--write"]).expect_failure();
    assert!(said.contains(&format!("open in cat (process {})", user.id())), "{said}");
    drop(user.stdin.take());
    user.wait().expect("it ends with its input");
    assert!(!story.pair.state("paris").join("groups").exists(), "{said}");
    story.begin();
    let said = story.adopt(&["--write"]).expect_failure();
    assert!(said.contains("open in helio"), "{said}");
    assert_eq!(story.sum("paris"), before);
}

#[test]
fn one_disk_of_two_of_an_array_is_adopted_with_a_warning_and_the_daemon_warns_again() {
    require!("mke2fs");
    let mut story = Story::new();
    // A superblock of version 1.2, where ext4 has its second block; nobody mounts this one.
    let mut superblock = [0; 256];
    superblock[..4].copy_from_slice(&0xa92b_4efc_u32.to_le_bytes());
    (superblock[4], superblock[92]) = (1, 2);
    superblock[16..32].fill(0x5a);
    superblock[32..36].copy_from_slice(b"md:0");
    let image = fs::File::options().write(true).open(story.member("paris")).expect("it is there");
    std::os::unix::fs::FileExt::write_all_at(&image, &superblock, 4096).expect("room");
    drop(image);
    let told = story.adopt(&["--write"]);
    let warned = "the md array md:0 (5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a5a) has 2 disks, and only one is \
        mirrored: db/data";
    assert!(told.status.success() && told.stderr.contains(warned), "{told}");
    story.pair.start("paris");
    assert!(story.pair.daemon("paris").log().contains(warned));
}

#[test]
fn the_copy_of_an_adopted_disk_never_goes_the_other_way() {
    require!("mke2fs", "sha256sum");
    let mut story = Story::new();
    let before = story.sum("paris");
    story.adopt(&["--write"]).expect_success();
    story.pair.start("lyon");
    // The empty side is made primary by mistake, before the other is there.
    story.pair.helio("lyon", &["promote", "db", "--force", "--yes"]).expect_success();
    story.pair.start("paris");
    let refused = |status: &serde_json::Value| status["peer"]["connection"] == "refused";
    eventually(PATIENCE, "a refusal", || {
        ["paris", "lyon"]
            .iter()
            .any(|node| refused(&helio_e2e::group(&story.pair, node)))
            .then_some(())
    });
    assert_eq!(story.sum("paris"), before);
}

#[test]
fn a_released_group_is_passed_over_at_the_next_start_and_can_be_adopted_again() {
    require!("mke2fs", "sha256sum");
    let mut story = Story::new();
    let before = story.sum("paris");
    story.begin();
    story.pair.helio("paris", &["release", "db", "--yes"]).expect_success();
    assert!(story.pair.daemon("paris").terminate().success());
    story.pair.helio("lyon", &["release", "db", "--yes"]).expect_success();
    assert!(story.pair.daemon("lyon").terminate().success());
    story.adopt(&[]).expect_success();
    fs::remove_file(story.pair.state("lyon").join("groups/db.released")).expect("it is there");
    story.pair.start("lyon");
    story.pair.start("paris");
    wait_level(&story.pair, "paris");
    assert_eq!((story.sum("paris"), story.sum("lyon")), (before.clone(), before));
}

#[test]
fn a_running_daemon_serves_what_is_adopted_and_lets_go_of_what_is_released_beside_other_groups() {
    require!("sha256sum");
    let plan = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(4));
    let mut pair = plan.prepare();
    pair.start("lyon");
    pair.start("paris");
    helio_e2e::begin(&pair, "paris");
    let (image, copy) = (pair.scratch().join("image"), pair.scratch().join("copy"));
    let bytes: Vec<u8> =
        (0..1 << 20).map(|n: u32| (n.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
    fs::write(&image, &bytes).expect("room");
    fs::File::create(&copy).and_then(|file| file.set_len(bytes.len() as u64)).expect("room");
    let text = |path: &Path| path.display().to_string();
    let (path, peer_path, config) = (text(&image), text(&copy), text(pair.config()));
    let line =
        ["adopt", &path, "--group", "more", "--node", "paris", "--config", &config, "--write"];
    for _ in 0..2 {
        let said = pair.helio("paris", &[&line[..], &["--peer-path", &peer_path]].concat());
        let said = said.expect_success();
        assert!(said.contains("the daemon on paris serves it"), "{said}");
        let said = pair.helio("lyon", &["apply"]).expect_success();
        assert!(said.contains("group more: added"), "{said}");
        eventually(PATIENCE, "the copy", || {
            let groups = pair.status("paris")["groups"].take();
            let more = groups.as_array()?.iter().find(|group| group["name"] == "more")?;
            (more["state"] == "replicating" && more["role"] == "primary").then_some(())
        });
        for node in ["paris", "lyon"] {
            pair.helio(node, &["release", "more", "--yes"]).expect_success();
        }
        assert_eq!(fs::read(&image).expect("it is there"), bytes);
        assert_eq!(fs::read(&copy).expect("it is there"), bytes);
        fs::write(&copy, vec![0; bytes.len()]).expect("it is nobody's now");
        let file = fs::read_to_string(pair.config()).expect("it is there");
        let without = file.split("[group.more]").next().expect("a part before");
        fs::write(pair.config(), without).expect("a folder of our own");
        for node in ["paris", "lyon"] {
            pair.helio(node, &["apply"]).expect_success();
        }
    }
    wait_level(&pair, "paris");
    let said = pair.helio("paris", &["status"]).expect_success();
    assert!(said.contains("db") && !said.contains("more"), "{said}");
}
