// SPDX-License-Identifier: Apache-2.0
//! File systems on an attached volume: made, filled, checked, and the same on the other node; frozen, a point in time.
//!
//! An ordinary run has ext4 in every mode, and the others each in one that the seed chooses. `HELIO_ROUNDS=200` and more has
//! all in every mode: `HELIO_ROUNDS=200 cargo test -p helio-e2e --test attach filesystems`.

use crate::common::{MODES, Stage, allocated, attachable, is_full, on};
use helio_e2e::PATIENCE;
use helio_testkit::{Dice, eventually, require, run};
use helio_units::{Bytes, Mode};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn ext4_keeps_what_it_is_given_and_fstrim_frees_space_on_both_nodes() {
    attachable!();
    require!("mke2fs", "fsck.ext4", "fstrim");
    for mode in MODES {
        lives(&Stage::new(mode, Bytes::mib(96)), EXT4, ("fsck.ext4", &["-fn"]));
    }
}

#[test]
fn xfs_keeps_what_it_is_given_and_fstrim_frees_space_on_both_nodes() {
    attachable!();
    require!("mkfs.xfs", "xfs_repair", "fstrim");
    for mode in modes("xfs_keeps_what_it_is_given_and_fstrim_frees_space_on_both_nodes", "xfs") {
        lives(&Stage::new(mode, Bytes::mib(384)), XFS, ("xfs_repair", &["-n"]));
    }
}

#[test]
fn btrfs_keeps_what_it_is_given_and_fstrim_frees_space_on_both_nodes() {
    attachable!();
    require!("mkfs.btrfs", "btrfs", "fstrim");
    let test = "btrfs_keeps_what_it_is_given_and_fstrim_frees_space_on_both_nodes";
    for mode in modes(test, "btrfs") {
        lives(&Stage::new(mode, Bytes::mib(256)), BTRFS, ("btrfs", &["check", "--readonly"]));
    }
}

#[test]
fn a_frozen_ext4_is_clean_on_both_nodes_without_recovery() {
    attachable!();
    require!("mke2fs", "fsck.ext4", "dumpe2fs", "fsfreeze");
    let dice = Dice::of_test("a_frozen_ext4_is_clean_on_both_nodes_without_recovery");
    frozen(dice, Bytes::mib(96), EXT4, "ro,loop,noload", |image| {
        on("fsck.ext4", &["-fn"], image).expect_success();
        let said = on("dumpe2fs", &["-h"], image).expect_success();
        assert!(!said.contains("needs_recovery"), "{said}");
    });
}

#[test]
fn a_frozen_xfs_is_whole_on_both_nodes_without_recovery() {
    attachable!();
    require!("mkfs.xfs", "xfs_repair", "fsfreeze");
    let dice = Dice::of_test("a_frozen_xfs_is_whole_on_both_nodes_without_recovery");
    if has("xfs") {
        frozen(dice, Bytes::mib(384), XFS, "ro,loop,norecovery", |image| {
            // A freeze leaves a note in its log, which an ordinary mount goes by; what that leaves is whole too.
            let (again, place) = (image.with_extension("again"), image.with_extension("mount"));
            fs::copy(image, &again).expect("room");
            fs::create_dir(&place).expect("a folder of our own");
            let mut mount = Command::new("mount");
            run(mount.args(["-o", "loop,nouuid"]).arg(&again).arg(&place)).expect_success();
            on("umount", &[], &place).expect_success();
            on("xfs_repair", &["-n"], &again).expect_success();
        });
    }
}

/// The modes of this run for a file system: one that the seed chooses, or all; none where the kernel does not have it.
fn modes(test: &'static str, kind: &str) -> Vec<Mode> {
    match has(kind) {
        false => Vec::new(),
        true if is_full() => MODES.to_vec(),
        true => vec![*Dice::of_test(test).pick(&MODES)],
    }
}

/// Freezes a file system among writes, and looks at what lies on either node's store meanwhile.
fn frozen(mut dice: Dice, size: Bytes, make: Tool<'_>, how: &str, check: impl Fn(&Path)) {
    let stage = Stage::new(*dice.pick(&MODES), size);
    let device = stage.attach();
    on(make.0, make.1, &device).expect_success();
    let place = stage.mount(&device);
    let before = fill(&place);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in (0..40).cycle().take_while(|_| !over.load(Ordering::Acquire)) {
                fs::write(place.join(format!("noise-{n}")), [n; 9000]).expect("room");
            }
        });
        eventually(PATIENCE, "noise", || place.join("noise-9").exists().then_some(()));
        on("fsfreeze", &["-f"], &place).expect_success();
        let copied = std::panic::catch_unwind(|| {
            helio_e2e::wait_level(&stage.pair, "paris");
            for node in ["paris", "lyon"] {
                let member = stage.pair.member(node, "data");
                fs::copy(member, stage.pair.scratch().join(node).join("copy")).expect("room");
            }
        });
        // Who writes there, and the test, would wait for ever.
        on("fsfreeze", &["-u"], &place).expect_success();
        over.store(true, Ordering::Release);
        copied.expect("both stores were copied");
    });
    stage.unmount();
    for node in ["paris", "lyon"] {
        let copy = stage.pair.scratch().join(node).join("copy");
        check(&copy);
        let mut mount = Command::new("mount");
        run(mount.args(["-o", how]).arg(&copy).arg(&place)).expect_success();
        let found = sums(&place);
        assert!(before.iter().all(|file| found.contains(file)), "{node} lacks a file");
        stage.unmount();
    }
    stage.detach();
    stage.assert_mirrored();
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

/// Whole from the beginning: what the kernel would write later, in its own time, takes up space while others count it.
const EXT4: Tool<'static> =
    ("mke2fs", &["-q", "-t", "ext4", "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
const XFS: Tool<'static> = ("mkfs.xfs", &["-q"]);
const BTRFS: Tool<'static> = ("mkfs.btrfs", &["-q"]);

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
    // xfs frees what a removed file had in the background, and trims nothing that its log may still need.
    eventually(PATIENCE, "both nodes to give space back", || {
        run(Command::new("sync").arg("-f").arg(place)).expect_success();
        on("fstrim", &[], place).expect_success();
        helio_e2e::wait_level(&stage.pair, "paris");
        let after = [allocated(stage, "paris"), allocated(stage, "lyon")];
        let freed = before.iter().zip(after).all(|(before, after)| after + (20 << 20) < *before);
        freed.then_some(())
    });
}
