// SPDX-License-Identifier: Apache-2.0
//! What an application on a device sees when the store, the queue or the peer does not do what it should.

use crate::common::{Stage, attachable, edit, via};
use helio_e2e::{PATIENCE, number, wait, wait_level};
use helio_testkit::{Plan, eventually, run};
use helio_units::{Bytes, Mode};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const BLOCK: usize = 64 << 10;
/// As direct I/O needs it.
#[repr(align(4096))]
struct Block([u8; BLOCK]);

fn open(path: impl AsRef<Path>) -> File {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed());
    options.open(path).expect("it can be opened")
}

/// The kernel's NBD client knows one error only.
fn says_no_space(error: &io::Error) -> bool {
    let other = via() == "nbd" && error.raw_os_error() == Some(5);
    error.kind() == io::ErrorKind::StorageFull || other
}

/// Writes blocks one behind the other until one fails.
fn fill(file: &File, bytes: usize) -> io::Result<()> {
    let block = Block([0xB5; BLOCK]);
    (0..bytes / BLOCK).try_for_each(|n| file.write_all_at(&block.0, (n * BLOCK) as u64))
}

#[test]
fn a_full_store_fails_the_write_and_not_the_device() {
    attachable!();
    let plan = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(32));
    let stage = Stage::with(plan, |pair| {
        let small = pair.scratch().join("small/mnt");
        fs::create_dir_all(&small).expect("a folder of our own");
        let mut mount = Command::new("mount");
        run(mount.args(["-t", "tmpfs", "-o", "size=8m", "none"]).arg(&small)).expect_success();
        let member = pair.member("paris", "data");
        let other = small.join("paris-data.img");
        File::create(&other).and_then(|file| file.set_len(32 << 20)).expect("sparse");
        edit(pair, &member.display().to_string(), &other.display().to_string());
        // Not every kernel's tmpfs has direct I/O.
        let table = "[group.db.volume.data]\n";
        edit(pair, table, &format!("{table}io = \"buffered\"\n"));
    });
    let device = open(stage.attach());
    let path = stage.file("paris");
    let file = open(path);
    let refused = fill(&file, 32 << 20).expect_err("there is no room for it");
    assert!(says_no_space(&refused), "{refused}");
    let refused = fill(&device, 32 << 20).expect_err("nor through the device");
    assert!(says_no_space(&refused), "{refused}");
    // What has its place can be written again, and read.
    fill(&device, 1 << 20).expect("the store has room for it");
    let mut block = Block([0; BLOCK]);
    device.read_exact_at(&mut block.0, 0).expect("it is there");
    assert!(block.0 == [0xB5; BLOCK]);
}

#[test]
fn a_full_queue_that_fails_says_no_space_and_one_that_blocks_waits() {
    attachable!();
    for policy in ["fail", "block"] {
        let plan = Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(32));
        let plan =
            plan.group_line(&format!("queue = {{ memory = \"1MiB\", when-full = \"{policy}\" }}"));
        let plan = plan.group_line("peer-timeout = \"60s\"");
        let mut stage = Stage::with(plan, |_| ());
        let device = open(stage.attach());
        stage.pair.daemon("lyon").freeze();
        if policy == "fail" {
            let path = stage.file("paris");
            let refused = fill(&open(path), 16 << 20).expect_err("the queue is full");
            assert!(says_no_space(&refused), "{refused}");
            stage.pair.daemon("lyon").thaw();
        } else {
            let writer = device.try_clone().expect("a handle");
            let writing = thread::spawn(move || fill(&writer, 16 << 20));
            wait(&stage.pair, "paris", "writes that wait", |status| {
                number(status, "/throttle/waiting") > 0
            });
            let mut block = Block([0; BLOCK]);
            device.read_exact_at(&mut block.0, 31 << 20).expect("reads do not wait");
            assert!(!writing.is_finished(), "the writer should wait");
            stage.pair.daemon("lyon").thaw();
            writing.join().expect("no panic").expect("every write was done");
        }
        wait_level(&stage.pair, "paris");
        fill(&device, 512 << 10).expect("there is room again");
        drop(device);
        wait_level(&stage.pair, "paris");
        stage.detach();
        stage.assert_mirrored();
    }
}

#[test]
fn a_peer_that_hangs_holds_a_write_up_until_it_is_given_up() {
    attachable!();
    let plan = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(16));
    let mut stage = Stage::with(plan.group_line("peer-timeout = \"2s\""), |_| ());
    let device = open(stage.attach());
    fill(&device, 1 << 20).expect("the peer answers");
    stage.pair.daemon("lyon").freeze();
    // A daemon just told to stand still may still answer a write or two.
    eventually(PATIENCE, "a write that waits for the peer", || {
        let began = Instant::now();
        fill(&device, BLOCK).expect("it is done without the peer");
        (began.elapsed() > Duration::from_millis(200)).then_some(())
    });
    stage.pair.daemon("lyon").thaw();
    wait_level(&stage.pair, "paris");
    drop(device);
    stage.detach();
    stage.assert_mirrored();
}
