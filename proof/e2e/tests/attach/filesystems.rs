// SPDX-License-Identifier: Apache-2.0
//! File systems on an attached volume: made, filled, checked, and the same on the other node.

use crate::common::{Stage, allocated, attachable, on};
use helio_testkit::{require, run};
use helio_units::{Bytes, Mode};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn ext4_keeps_what_it_is_given_and_fstrim_frees_space_on_both_nodes() {
    attachable!();
    require!("mke2fs", "fsck.ext4", "fstrim");
    for mode in [Mode::Async, Mode::NearSync, Mode::Sync] {
        let stage = Stage::new(mode, Bytes::mib(96));
        let make = ("mke2fs", &["-q", "-t", "ext4"][..]);
        lives(&stage, make, ("fsck.ext4", &["-fn"]));
    }
}

#[test]
fn xfs_keeps_what_it_is_given_and_fstrim_frees_space_on_both_nodes() {
    attachable!();
    require!("mkfs.xfs", "xfs_repair", "fstrim");
    if has("xfs") {
        let stage = Stage::new(Mode::Sync, Bytes::mib(384));
        lives(&stage, ("mkfs.xfs", &["-q"]), ("xfs_repair", &["-n"]));
    }
}

#[test]
fn btrfs_keeps_what_it_is_given_and_fstrim_frees_space_on_both_nodes() {
    attachable!();
    require!("mkfs.btrfs", "btrfs", "fstrim");
    if has("btrfs") {
        let stage = Stage::new(Mode::Async, Bytes::mib(256));
        lives(&stage, ("mkfs.btrfs", &["-q"]), ("btrfs", &["check", "--readonly"]));
    }
}

/// Whether this kernel has a file system.
pub(crate) fn has(name: &str) -> bool {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let there = known.lines().any(|line| line.split_whitespace().last() == Some(name));
    if !there {
        helio_testkit::say_skipped(&format!("{name} in the kernel"));
    }
    there
}

/// A program and its arguments before the device.
type Tool<'a> = (&'a str, &'a [&'a str]);

fn lives(stage: &Stage, make: Tool<'_>, check: Tool<'_>) {
    let device = stage.attach();
    on(make.0, make.1, &device).expect_success();
    let place = stage.mount(&device);
    let before = fill(&place);
    stage.unmount();
    on(check.0, check.1, &device).expect_success();
    // The device anew: nothing of the file system is in a cache.
    stage.detach();
    let device = stage.attach();
    let place = stage.mount(&device);
    assert!(sums(&place) == before, "the files are not what they were");
    trim(stage, &place);
    stage.unmount();
    on(check.0, check.1, &device).expect_success();
    stage.detach();
    stage.assert_nothing_left("paris");
    stage.assert_mirrored();
}

/// Files of many sizes; returns what is to be found again.
fn fill(place: &Path) -> Vec<(String, Vec<u8>)> {
    for n in 0..120_usize {
        let folder = place.join(format!("folder-{}", n % 7));
        fs::create_dir_all(&folder).expect("room");
        let bytes: Vec<u8> = (0..n * n * 17).map(|at| (at * 31 + n) as u8).collect();
        fs::write(folder.join(format!("file-{n}")), bytes).expect("room");
    }
    fs::write(place.join("large"), vec![0xA7; 24 << 20]).expect("room");
    sums(place)
}

/// Every file's name and bytes, in order.
fn sums(place: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![place.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("it can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).expect("it can be read");
                found.push((path.display().to_string(), bytes));
            }
        }
    }
    found.sort();
    found
}

fn trim(stage: &Stage, place: &Path) {
    helio_e2e::wait_level(&stage.pair, "paris");
    let before = [allocated(stage, "paris"), allocated(stage, "lyon")];
    fs::remove_file(place.join("large")).expect("it was there");
    run(Command::new("sync").arg("-f").arg(place)).expect_success();
    on("fstrim", &[], place).expect_success();
    helio_e2e::wait_level(&stage.pair, "paris");
    for (node, before) in ["paris", "lyon"].into_iter().zip(before) {
        let after = allocated(stage, node);
        assert!(after + (20 << 20) < before, "{node} gave back {before} - {after} bytes");
    }
}
