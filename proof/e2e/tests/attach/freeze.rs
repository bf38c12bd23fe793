// SPDX-License-Identifier: Apache-2.0
//! A frozen file system is a moment of which every copy mounts clean: nothing is left to be recovered.

use crate::common::{Stage, attachable, on};
use helio_e2e::{halt, wait_level};
use helio_testkit::{require, run};
use helio_units::{Bytes, Mode};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Thaws however the test ends: nobody can unmount, or even write, before.
struct Frozen<'a>(&'a Path);

impl<'a> Frozen<'a> {
    #[track_caller]
    fn new(place: &'a Path) -> Self {
        on("fsfreeze", &["-f"], place).expect_success();
        Self(place)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let _thawed_already = Command::new("fsfreeze").arg("-u").arg(self.0).status();
    }
}

/// Fills a file system, freezes it, and copies the other node's image as it is then.
#[track_caller]
fn frozen_copy(stage: &mut Stage, make: &[&str]) -> PathBuf {
    let device = stage.attach();
    on(make[0], &make[1..], &device).expect_success();
    let place = stage.mount(&device);
    for n in 0..40 {
        fs::write(place.join(format!("file{n}")), vec![n; 20_000]).expect("room");
    }
    fs::remove_file(place.join("file7")).expect("it is there");
    let copy = stage.pair.scratch().join("copy.img");
    {
        let _frozen = Frozen::new(&place);
        wait_level(&stage.pair, "paris");
        // Nothing moves there while it is copied.
        halt(&mut stage.pair, "lyon");
        fs::copy(stage.pair.member("lyon", "data"), &copy).expect("room");
        stage.pair.daemon("lyon").thaw();
    }
    stage.unmount();
    stage.detach();
    copy
}

#[test]
fn a_frozen_ext4_leaves_a_copy_on_the_other_node_that_needs_no_recovery() {
    attachable!();
    require!("mke2fs", "e2fsck", "debugfs", "fsfreeze");
    for mode in [Mode::Sync, Mode::Async] {
        let mut stage = Stage::new(mode, Bytes::mib(32));
        let copy = frozen_copy(&mut stage, &["mke2fs", "-q", "-t", "ext4"]);
        let superblock = on("dumpe2fs", &["-h"], &copy).expect_success();
        assert!(!superblock.contains("needs_recovery"), "{superblock}");
        on("e2fsck", &["-fn"], &copy).expect_success();
        let mut list = Command::new("debugfs");
        let names = run(list.args(["-R", "ls -p /"]).arg(&copy)).expect_success();
        assert!(names.contains("/file39/") && !names.contains("/file7/"), "{names}");
        stage.assert_mirrored();
    }
}

#[test]
fn a_frozen_xfs_leaves_a_copy_with_everything_in_it_whatever_its_log_says() {
    attachable!();
    require!("mkfs.xfs", "xfs_repair", "fsfreeze");
    let mut stage = Stage::new(Mode::Sync, Bytes::mib(320));
    let copy = frozen_copy(&mut stage, &["mkfs.xfs", "-q"]);
    // Without a look at its log everything is there. (A freeze leaves a note in it, which a mount goes by to look for
    // removed files that were open.)
    let place = stage.pair.scratch().join("mnt");
    let mut mount = Command::new("mount");
    mount.args(["-o", "loop,ro,norecovery,nouuid"]).arg(&copy).arg(&place);
    run(&mut mount).expect_success();
    let last = fs::read(place.join("file39"));
    stage.unmount();
    assert_eq!(last.expect("it is there"), vec![39; 20_000]);
    let mut mount = Command::new("mount");
    run(mount.args(["-o", "loop,nouuid"]).arg(&copy).arg(&place)).expect_success();
    stage.unmount();
    on("xfs_repair", &["-n"], &copy).expect_success();
    stage.assert_mirrored();
}
