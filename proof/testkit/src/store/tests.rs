// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::{Group, eventually};
use helio_driver::Buffer;
use rustix::fs::{Mode, OFlags, SeekFrom, XattrFlags, fdatasync, fgetxattr, fsetxattr, open, seek};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2};
use rustix::process::Signal;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

const LONG: Duration = Duration::from_secs(30);

fn opened(store: &FaultyStore) -> OwnedFd {
    open(store.path(), OFlags::RDWR | OFlags::DIRECT, Mode::empty()).expect("FUSE opens it")
}

fn block(byte: u8) -> Buffer {
    let mut block = Buffer::zeroed(4096);
    block.fill(byte);
    block
}

fn byte(file: &OwnedFd, at: u64) -> u8 {
    let mut read = Buffer::zeroed(4096);
    pread(file, &mut read[..], at).expect("it can be read");
    read[0]
}

fn durably(file: &OwnedFd, byte: u8, at: u64) -> Result<usize, Errno> {
    pwritev2(file, &[IoSlice::new(&block(byte))], at, ReadWriteFlags::DSYNC)
}

#[test]
fn a_flush_that_fails_drops_what_was_not_durable_and_the_next_one_succeeds() {
    if !faulty_stores_possible() {
        return;
    }
    let store = StorePlan::new(Bytes::mib(4)).mount();
    let file = opened(&store);
    pwrite(&file, &block(1), 0).expect("room");
    fdatasync(&file).expect("it is durable");
    pwrite(&file, &block(2), 0).expect("room");
    pwrite(&file, &block(2), 65536).expect("room");
    store.fail(Failing::FLUSH);
    assert_eq!(fdatasync(&file), Err(Errno::IO));
    assert_eq!([0, 65536].map(|at| byte(&file, at)), [1, 0]);
    fdatasync(&file).expect("only one fails");
    let Counts { writes, flushes, failed, dropped, .. } = store.counts();
    assert_eq!((writes, flushes, failed, dropped), (3, 3, 1, 2));
}

#[test]
fn a_loss_can_show_when_the_file_is_opened_again() {
    if !faulty_stores_possible() {
        return;
    }
    let store = StorePlan::new(Bytes::mib(4)).mount();
    let file = opened(&store);
    pwrite(&file, &block(1), 0).expect("room");
    store.fail(Failing::Flush { after: 1, loss: Loss::All, shows: Shows::Later });
    fdatasync(&file).expect("the first one succeeds");
    pwrite(&file, &block(2), 0).expect("room");
    assert_eq!(fdatasync(&file), Err(Errno::IO));
    fdatasync(&file).expect("only one fails");
    assert_eq!(byte(&file, 0), 2);
    let again = opened(&store);
    assert_eq!(byte(&again, 0), 1);
}

#[test]
fn a_durable_write_that_fails_loses_earlier_writes_unless_the_store_knows_fua() {
    if !faulty_stores_possible() {
        return;
    }
    for (fua, left) in [(Fua::WriteAndFlush, 0), (Fua::Native, 1)] {
        let store = StorePlan::new(Bytes::mib(4)).fua(fua).mount();
        let file = opened(&store);
        pwrite(&file, &block(1), 0).expect("room");
        store.fail(Failing::FUA);
        assert_eq!(durably(&file, 2, 65536), Err(Errno::IO));
        assert_eq!(byte(&file, 0), left, "{fua:?}");
        assert_eq!(durably(&file, 3, 131_072), Ok(4096));
        drop(file);
        store.cut_power(Loss::All);
        let file = opened(&store);
        assert_eq!([0, 131_072].map(|at| byte(&file, at)), [0, 3], "{fua:?}");
        let counts = store.counts();
        assert_eq!((counts.fuas, counts.failed), (2, 1));
    }
}

#[test]
fn extents_fail_flushes_wait_and_the_file_grows_where_it_lies_over_another() {
    if !faulty_stores_possible() {
        return;
    }
    let scratch = TempDir::new();
    let place = scratch.file("record", Bytes::kib(64));
    let store = StorePlan::new(Bytes::ZERO).over(&place).mount();
    let file = opened(&store);
    store.fail_extent(Extent::new(4096, 1), false);
    let mut read = block(0);
    assert_eq!(pread(&file, &mut read[..], 4096), Err(Errno::IO));
    assert_eq!(pread(&file, &mut read[..], 8192), Ok(4096));
    store.heal();
    assert_eq!(pread(&file, &mut read[..], 4096), Ok(4096));

    pwrite(&file, &block(7), 1 << 20).expect("it grows");
    let length = std::fs::metadata(&place).expect("it is there").len();
    assert_eq!(length, (1 << 20) + 4096);
    assert_eq!(seek(&file, SeekFrom::Data(65536)), Ok(1 << 20));
    rustix::fs::ftruncate(&file, 2 << 20).expect("it may");
    assert_eq!(seek(&file, SeekFrom::End(0)), Ok(2 << 20));

    store.hold_flushes();
    let waits = std::thread::spawn(move || fdatasync(&file));
    eventually(LONG, "the flush", || (store.counts().waiting == 1).then_some(()));
    assert!(!waits.is_finished());
    store.release();
    assert_eq!(waits.join().expect("it returns"), Ok(()));
}

#[test]
fn a_store_keeps_extended_attributes() {
    if !faulty_stores_possible() {
        return;
    }
    let store = StorePlan::new(Bytes::mib(4)).recorded().mount();
    let file = opened(&store);
    let mut value = [0; 16];
    assert_eq!(fgetxattr(&file, "user.name", &mut value), Err(Errno::NODATA));
    fsetxattr(&file, "user.name", &[7; 16], XattrFlags::empty()).expect("it keeps them");
    assert_eq!(fgetxattr(&file, "user.name", &mut value), Ok(16));
    assert_eq!(value, [7; 16]);
    let folder = TempDir::new();
    let image = folder.join("image");
    let moment = std::time::Instant::now();
    Images::new(store.recording(), folder.join("durable")).make(moment, Torn::All, &image);
    let image = File::open(image).expect("just made");
    assert_eq!(fgetxattr(&image, "user.name", &mut value), Ok(16));
}

#[test]
fn a_store_is_unmounted_when_its_test_fails() {
    if !faulty_stores_possible() {
        return;
    }
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    let failed = std::thread::spawn(move || {
        let store = StorePlan::new(Bytes::mib(4)).mount();
        tell.send(store.path().to_owned()).expect("the test receives it");
        panic!("the test fails here, as it should");
    });
    assert!(failed.join().is_err());
    let path = told.recv().expect("the path was sent");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("it can be read");
    assert!(!mounts.contains(&path.display().to_string()), "{mounts}");
}

#[test]
fn a_store_is_unmounted_when_its_test_and_all_of_its_process_group_are_killed() {
    const STAGE: &str = "HELIO_TESTKIT_MOUNTED";
    if !faulty_stores_possible() {
        return;
    }
    if let Some(place) = std::env::var_os(STAGE) {
        // In a process of its own, which waits to be killed.
        let store = StorePlan::new(Bytes::ZERO).over(Path::new(&place)).mount();
        println!("mounted");
        loop {
            std::thread::park();
            assert_eq!(store.counts().failed, 0);
        }
    }
    let scratch = TempDir::new();
    let place = scratch.file("content", Bytes::kib(4));
    let shown = place.display().to_string();
    let is_mounted = || {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("it can be read");
        mounts.contains(&shown)
    };
    let name =
        "store::tests::a_store_is_unmounted_when_its_test_and_all_of_its_process_group_are_killed";
    for signal in [Signal::TERM, Signal::KILL] {
        let mut command = Command::new(std::env::current_exe().expect("a test has a program"));
        // What the killed test leaves behind goes with this one.
        command.env("TMPDIR", scratch.path());
        command.args(["--exact", name]).env(STAGE, &place).stdout(Stdio::null());
        let mut test = Group::spawn(&mut command).expect("it can be started");
        eventually(LONG, "the mount", || is_mounted().then_some(()));
        test.signal(signal);
        test.wait_end(LONG, "a test that was killed");
        eventually(LONG, "the end of the mount", || (!is_mounted()).then_some(()));
    }
}
