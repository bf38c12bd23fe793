// SPDX-License-Identifier: Apache-2.0
//! Where the kernel keeps a device without its daemon, who uses it waits while there is none, and goes on with the next.
//! Needs a kernel that does: `HELIO_VIA` says which way, and `cargo xtask vm ublk` has one.

use crate::common::{Stage, VOLUME, attachable, holding, on, queue, via};
use helio_e2e::{PATIENCE, wait, wait_level, wait_state};
use helio_testkit::{Group, eventually, helio_binary, require, say_skipped};
use helio_units::{Bytes, Mode};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Ends a test where nobody waits.
macro_rules! waiting {
    () => {
        attachable!();
        if via() == "fuse" {
            say_skipped("a device that outlives its daemon (HELIO_VIA)");
            return;
        }
    };
}

#[test]
fn what_is_written_while_the_daemon_is_killed_again_and_again_waits_and_arrives() {
    waiting!();
    require!("fio", "mke2fs", "fsck.ext4");
    let mut stage = Stage::new(Mode::Sync, Bytes::mib(96));
    let device = stage.attach();
    on("mke2fs", &["-q", "-t", "ext4"], &device).expect_success();
    let place = stage.mount(&device);
    for round in 0..3 {
        let mut fio = load(&place.join(format!("file{round}")));
        let before = writes(&stage);
        wait(&stage.pair, "paris", "writes", |status| {
            status["counters"]["writes"].as_u64() > Some(before + 100)
        });
        stage.pair.daemon("paris").kill9();
        stage.pair.start("paris");
        wait(&stage.pair, "paris", "the primary", |status| status["role"] == "primary");
        assert_eq!(stage.attached("paris"), device);
        let ended = eventually(Duration::from_secs(300), "fio to go on", || {
            fio.try_wait().expect("it is ours")
        });
        assert!(ended.success(), "fio saw an error, or not what it wrote");
    }
    assert_eq!(stage.shown("paris")["via"], via());
    stage.unmount();
    on("fsck.ext4", &["-fn"], &device).expect_success();
    stage.detach();
    stage.assert_nothing_left("paris");
    stage.assert_mirrored();
}

#[test]
fn a_daemon_that_is_stopped_leaves_a_used_device_to_the_next() {
    waiting!();
    let mut stage = Stage::new(Mode::Async, Bytes::mib(16));
    let device = stage.attach();
    let open = File::options().read(true).write(true).open(&device).expect("it can be opened");
    let mut user = holding(open.try_clone().expect("a handle"));
    open.write_all_at(&[7; 4096], 0).expect("it goes to memory");
    assert!(stage.pair.daemon("paris").terminate().success());
    let late = open.try_clone().expect("a handle");
    let writer = std::thread::spawn(move || {
        late.write_all_at(&[8; 4096], 8192).and_then(|()| late.sync_all())
    });
    stage.pair.start("paris");
    wait(&stage.pair, "paris", "the primary", |status| status["role"] == "primary");
    assert_eq!(stage.attached("paris"), device);
    writer.join().expect("it ends").expect("it waited, and was served");
    drop(open);
    drop(user.stdin.take());
    user.wait().expect("it ends with its input");
    stage.detach();
    stage.assert_nothing_left("paris");
    stage.assert_mirrored();
}

#[test]
fn who_waits_for_a_volume_that_was_taken_over_meanwhile_has_errors() {
    waiting!();
    let mut stage = Stage::new(Mode::Sync, Bytes::mib(16));
    let device = stage.attach();
    let open = File::options().read(true).write(true).open(&device).expect("it can be opened");
    open.write_all_at(&[7; 4096], 0).and_then(|()| open.sync_all()).expect("it is served");
    stage.pair.daemon("paris").kill9();
    let late = open.try_clone().expect("a handle");
    let writer = std::thread::spawn(move || {
        late.write_all_at(&[8; 4096], 8192).and_then(|()| late.sync_all())
    });
    wait_state(&stage.pair, "lyon", "logging");
    stage.pair.helio("lyon", &["promote", "db", "--force", "--yes"]).expect_success();
    stage.pair.start("paris");
    assert!(writer.join().expect("it ends").is_err(), "an old write went into a new history");
    drop(open);
    stage.pair.helio("paris", &["detach", VOLUME]).expect_success();
    stage.assert_nothing_left("paris");
}

#[test]
fn a_device_of_an_earlier_tenure_is_not_gone_on_with() {
    waiting!();
    let mut stage = Stage::new(Mode::Sync, Bytes::mib(16));
    let device = stage.attach();
    let open = File::options().read(true).write(true).open(&device).expect("it can be opened");
    let mut user = holding(open.try_clone().expect("a handle"));
    stage.pair.daemon("paris").kill9();
    let late = open.try_clone().expect("a handle");
    let writer = std::thread::spawn(move || {
        late.write_all_at(&[8; 4096], 8192).and_then(|()| late.sync_all())
    });
    // A daemon that is secondary and primary again before it looks after its devices: this one knows of none.
    let (book, aside) =
        (stage.pair.state("paris").join("attach.json"), stage.pair.scratch().join("book"));
    fs::rename(&book, &aside).expect("a folder of our own");
    wait_state(&stage.pair, "lyon", "logging");
    stage.pair.helio("lyon", &["promote", "db", "--force", "--yes"]).expect_success();
    stage.pair.start("paris");
    wait_level(&stage.pair, "lyon");
    stage.pair.helio("paris", &["switch", "db"]).expect_success();
    wait_level(&stage.pair, "paris");
    assert!(!writer.is_finished(), "nobody looks after it");
    stage.pair.daemon("paris").kill9();
    fs::rename(&aside, &book).expect("a folder of our own");
    stage.pair.start("paris");
    wait(&stage.pair, "paris", "the primary", |status| status["role"] == "primary");
    assert!(writer.join().expect("it ends").is_err(), "an old write went into a new history");
    drop(open);
    drop(user.stdin.take());
    user.wait().expect("it ends with its input");
    assert_eq!(stage.attached("paris"), device);
    let mut block = [1; 4096];
    let new = File::open(&device).expect("a new one");
    new.read_exact_at(&mut block, 8192).expect("it is served");
    assert_eq!(block, [0; 4096]);
    drop(new);
    stage.detach();
    stage.assert_nothing_left("paris");
    stage.assert_mirrored();
}

#[test]
fn a_device_is_what_its_volume_is() {
    waiting!();
    let stage = Stage::new(Mode::Sync, Bytes::mib(16));
    let device = stage.attach();
    assert_eq!(queue(&device, "write_cache"), "write back");
    assert_eq!(queue(&device, "rotational"), "0");
    assert_eq!(
        queue(&device, "logical_block_size"),
        stage.shown("paris")["block_bytes"].to_string()
    );
    assert_ne!(queue(&device, "discard_max_bytes"), "0");
    let told = stage.pair.helio("paris", &["attach", "--list"]).expect_success();
    assert!(told.contains(&format!("via: {}", via())) || told.contains(&via()), "{told}");
    let other = stage.pair.helio("paris", &["attach", VOLUME, "--via", "fuse"]).expect_failure();
    assert!(other.contains("already attached"), "{other}");
    stage.detach();
    stage.assert_nothing_left("paris");
    let read = stage.pair.helio("paris", &["attach", VOLUME, "--read-only", "--via", &via()]);
    read.expect_success();
    let open = File::options().write(true).open(&device);
    let refused =
        open.and_then(|file| file.write_all_at(&[1; 512], 0).and_then(|()| file.sync_all()));
    assert!(refused.is_err(), "what is only to be read was written");
    stage.detach();
    stage.assert_nothing_left("paris");
}

#[test]
fn a_device_in_use_is_kept_and_a_lost_role_ends_it() {
    waiting!();
    let stage = Stage::new(Mode::Sync, Bytes::mib(16));
    let device = stage.attach();
    let open = File::options().read(true).write(true).open(&device).expect("it can be opened");
    let mut user = holding(open.try_clone().expect("a handle"));
    drop(open);
    let why = stage.pair.helio("paris", &["detach", VOLUME]).expect_failure();
    assert!(why.contains("open in cat"), "{why}");
    stage.pair.helio("lyon", &["switch", "db"]).expect_failure();
    stage.pair.helio("paris", &["switch", "db", "--force", "--yes"]).expect_success();
    eventually(PATIENCE, "the device to end", || {
        (stage.shown("paris")["state"] == "waiting").then_some(())
    });
    drop(user.stdin.take());
    user.wait().expect("it ends with its input");
    stage.pair.helio("paris", &["switch", "db"]).expect_success();
    assert_eq!(stage.attached("paris"), device);
    stage.detach();
    stage.assert_nothing_left("paris");
}

#[test]
fn a_daemon_that_stops_with_its_machine_waits_for_who_uses_a_device_the_kernel_keeps() {
    waiting!();
    let mut stage = Stage::new(Mode::Async, Bytes::mib(16));
    let device = stage.attach();
    assert!(stage.pair.daemon("paris").terminate().success());
    let programs = stage.pair.scratch().join("bin");
    fs::create_dir(&programs).expect("a folder of our own");
    let systemctl = programs.join("systemctl");
    fs::write(&systemctl, "#!/bin/sh\necho stopping\n").expect("a folder of our own");
    fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let path = std::env::var("PATH").unwrap_or_default();
    let log = stage.pair.scratch().join("stopping.log");
    let mut daemon = Command::new(helio_binary());
    daemon.args(["daemon", "--node", "paris", "--config"]).arg(stage.pair.config());
    daemon.arg("--state").arg(stage.pair.state("paris"));
    daemon.env("PATH", format!("{}:{path}", programs.display())).stdin(Stdio::null());
    daemon.stderr(File::create(&log).expect("a folder of our own")).stdout(Stdio::null());
    let mut daemon = Group::spawn(&mut daemon).expect("it starts");
    eventually(PATIENCE, "its control socket", || {
        stage.pair.helio("paris", &["status"]).status.success().then_some(())
    });
    wait(&stage.pair, "paris", "the primary", |status| status["role"] == "primary");
    assert_eq!(stage.attached("paris"), device);
    let open = File::options().read(true).write(true).open(&device);
    let mut user = holding(open.expect("it can be opened"));
    daemon.signal(rustix::process::Signal::TERM);
    eventually(PATIENCE, "the daemon to say whom it waits for", || {
        let said = fs::read_to_string(&log).unwrap_or_default();
        said.contains("waiting for devices in use").then_some(())
    });
    drop(user.stdin.take());
    user.wait().expect("it ends with its input");
    assert!(daemon.wait_end(PATIENCE, "the daemon").success());
    stage.assert_nothing_left("paris");
}

/// fio writing a file slowly enough to be met in the middle, and checking it at the end.
fn load(file: &Path) -> Child {
    let mut fio = Command::new("fio");
    fio.args(["--name=job", "--ioengine=libaio", "--direct=1", "--rw=randwrite", "--bs=4k"]);
    fio.args(["--iodepth=8", "--size=8m", "--rate_iops=200", "--fsync=32", "--verify=crc32c"]);
    fio.args(["--do_verify=1", "--verify_fatal=1", "--verify_state_save=0"]);
    fio.arg(format!("--filename={}", file.display()));
    fio.stdout(Stdio::null()).spawn().expect("fio is there")
}

fn writes(stage: &Stage) -> u64 {
    let status = helio_e2e::group(&stage.pair, "paris");
    helio_e2e::number(&status, "/counters/writes")
}
