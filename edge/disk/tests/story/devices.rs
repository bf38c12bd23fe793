// SPDX-License-Identifier: Apache-2.0
//! Block devices as members: loop devices, where the user may make them.

use crate::common::{Desk, Loop, file_of, folder, open, options, refused, say_skipped};
use helio_disk::{MemberIdentity, OpenOptions, Refusal, StoreKind};
use helio_driver::Linux;
use helio_units::{Bytes, Extent};
use std::path::Path;
use std::process::Command;
use std::thread;

const SIZE: Bytes = Bytes::mib(16);

#[test]
fn a_device_is_a_member_and_claimed_as_one() {
    let (folder, mut desk) = (folder(), Desk::open());
    let path = file_of(folder.path(), "disk.img", SIZE);
    let Some(device) = Loop::on(&path, &[]) else { return };
    // A larger device is used in part.
    let size = Bytes::mib(8);
    let member = open(&device.0, &options(size)).expect("it opens");
    assert_eq!((member.kind(), member.size()), (StoreKind::Device, size));
    assert_eq!(refused(&device.0, &options(size)).refusal, Refusal::Held);

    desk.fill(&member, Extent::new(0, 1 << 20), 7);
    desk.done(member.discard(Extent::new(4096, 8192)).expect("it fits"));
    desk.done(member.zero(Extent::new(65536, 4096), false).expect("it fits"));
    desk.done(member.flush());
    let all = desk.read(&member, Extent::new(0, 1 << 20));
    let zero = |offset: usize| (4096..12288).contains(&offset) || (65536..69632).contains(&offset);
    assert!(all.iter().enumerate().all(|(offset, &byte)| byte == if zero(offset) { 0 } else { 7 }));
    assert!(member.discard(Extent::new(1, 4096)).is_err(), "devices zero whole blocks only");
    assert!(member.discard(Extent::new(size.0, 4096)).is_err(), "behind the volume");
    drop(member);

    // A program that another test starts just now may hold the device until it is what it runs.
    let error = loop {
        let error = refused(&device.0, &options(Bytes::mib(32)));
        if error.refusal != Refusal::Held {
            break error;
        }
        thread::yield_now();
    };
    assert_eq!(error.refusal, Refusal::TooSmall { found: SIZE, configured: Bytes::mib(32) });
    let backing = refused(&path, &options(SIZE));
    assert_eq!(backing.refusal, Refusal::BacksLoop { device: device.0.clone() });
}

#[test]
fn a_read_only_device_is_refused() {
    let folder = folder();
    let path = file_of(folder.path(), "disk.img", SIZE);
    let Some(device) = Loop::on(&path, &["--read-only"]) else { return };
    assert_eq!(refused(&device.0, &options(SIZE)).refusal, Refusal::ReadOnly);
}

#[test]
fn a_mounted_device_is_refused_with_the_place_it_is_mounted_at() {
    let folder = folder();
    let path = file_of(folder.path(), "disk.img", SIZE);
    let Some(device) = Loop::on(&path, &[]) else { return };
    let point = folder.path().join("mount point");
    std::fs::create_dir(&point).expect("a mount point");
    let run = |program: &str, arguments: &[&Path]| {
        let done = Command::new(program).args(arguments).output();
        done.is_ok_and(|out| out.status.success())
    };
    if !run("mkfs.ext4", &[Path::new("-q"), &device.0]) || !run("mount", &[&device.0, &point]) {
        return say_skipped("a file system that can be made and mounted");
    }
    let error = refused(&device.0, &options(SIZE));
    assert!(run("umount", &[&point]), "the mount is ours to undo");
    let at = point.canonicalize().expect("its real name");
    assert_eq!(error.refusal, Refusal::Mounted { at });
}

#[test]
fn a_device_claimed_by_something_else_is_in_use() {
    let folder = folder();
    let path = file_of(folder.path(), "disk.img", SIZE);
    let Some(device) = Loop::on(&path, &[]) else { return };
    let flags = rustix::fs::OFlags::EXCL | rustix::fs::OFlags::CLOEXEC;
    let claim = rustix::fs::OFlags::RDONLY | flags;
    let claim = rustix::fs::open(&device.0, claim, rustix::fs::Mode::empty()).expect("claimed");
    let refusal = refused(&device.0, &options(SIZE)).refusal;
    assert_eq!(refusal, Refusal::InUse { holders: Vec::new() });
    drop(claim);
    // A process that another test begins has the claim, too, until it runs its program.
    while open(&device.0, &options(SIZE)).is_err() {
        thread::yield_now();
    }
}

#[test]
fn loop_devices_on_one_file_are_one_disk_only_if_their_bytes_overlap() {
    let folder = folder();
    let path = file_of(folder.path(), "disk.img", SIZE);
    let on = |offset: u64, size: u64| {
        let (offset, size) = (format!("--offset={offset}"), format!("--sizelimit={size}"));
        Loop::on(&path, &[&offset, &size])
    };
    let half = SIZE.0 / 2;
    let (Some(first), Some(second)) = (on(0, half), on(half, half)) else { return };
    let Some(both) = on(half / 2, half) else { return };
    let identity =
        |path: &Path| MemberIdentity::of_path(&Linux::host(), path).expect("an identity");
    let [one, two, over] = [&first, &second, &both].map(|device| identity(&device.0));
    assert!(!one.overlaps(&two) && one.overlaps(&over) && over.overlaps(&two));
    let name = |device: &Loop| {
        let member = open(&device.0, &options(Bytes(half))).expect("it opens");
        member.nameplate().expect("it has an identity").to_owned()
    };
    let names = [name(&first), name(&second), name(&both)];
    assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2], "{names:?}");
    assert!(!names[0].contains("byte"), "as it was recorded before offsets counted: {names:?}");
}

#[test]
fn a_partition_overlaps_its_disk_and_not_its_neighbour() {
    let folder = folder();
    let path = file_of(folder.path(), "disk.img", SIZE);
    let Some(device) = Loop::on(&path, &[]) else { return };
    let add = |number: &str, start: &str| {
        let out = Command::new("addpart").arg(&device.0).args([number, start, "8192"]).status();
        out.is_ok_and(|status| status.success())
    };
    if !add("1", "2048") || !add("2", "16384") {
        return say_skipped("partitions of loop devices");
    }
    let part = |number: u32| format!("{}p{number}", device.0.display());
    let identity =
        |path: &str| MemberIdentity::of_path(&Linux::host(), Path::new(path)).expect("an identity");
    let (first, second) = (identity(&part(1)), identity(&part(2)));
    let disk = MemberIdentity::of_path(&Linux::host(), &device.0).expect("an identity");
    assert!(disk.overlaps(&first) && disk.overlaps(&second) && !first.overlaps(&second));
    let size = OpenOptions { size: Bytes::mib(4), ..options(SIZE) };
    let member = open(Path::new(&part(1)), &size).expect("a partition opens");
    let refusal = refused(&device.0, &options(SIZE)).refusal;
    assert!(matches!(refusal, Refusal::InUse { .. }), "{refusal}");
    drop(member);
    for number in ["1", "2"] {
        let _ = Command::new("delpart").arg(&device.0).arg(number).status();
    }
}
