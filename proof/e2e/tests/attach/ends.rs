// SPDX-License-Identifier: Apache-2.0
//! The daemon under an attached volume ends: in order, by force, and comes back.

use crate::common::{Stage, VOLUME, attachable, holding, loops_below, on, via};
use helio_e2e::{PATIENCE, connect, halt, wait, wait_level};
use helio_testkit::{Daemon, Plan, Traced, eventually, helio_binary, require, say_skipped};
use helio_units::{Bytes, Mode};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Ends a test where devices outlive their daemon: `waits` tells of those.
macro_rules! fused {
    () => {
        if via() != "fuse" {
            say_skipped("devices that end with their daemon (HELIO_VIA)");
            return;
        }
    };
}

#[test]
fn an_unused_device_goes_with_the_daemon_and_comes_back_with_it() {
    attachable!();
    require!("mke2fs");
    let mut stage = Stage::new(Mode::Sync, Bytes::mib(32));
    let device = stage.attach();
    on("mke2fs", &["-q", "-t", "ext4"], &device).expect_success();
    fs::write(stage.mount(&device).join("file"), "kept").expect("room");
    stage.unmount();
    assert!(stage.pair.daemon("paris").terminate().success());
    stage.assert_nothing_left("paris");
    stage.pair.start("paris");
    // A node that was primary goes on as one only when its peer agrees.
    wait(&stage.pair, "paris", "the primary", |status| status["role"] == "primary");
    let again = stage.attached("paris");
    assert_eq!(again, device);
    let place = stage.mount(&again);
    assert_eq!(fs::read_to_string(place.join("file")).expect("it is there"), "kept");
    stage.unmount();
    stage.detach();
    stage.assert_nothing_left("paris");
}

#[test]
fn a_daemon_that_is_to_stop_waits_for_who_uses_its_device() {
    attachable!();
    fused!();
    let mut stage = Stage::new(Mode::Async, Bytes::mib(16));
    let device = stage.attach();
    let open = File::options().read(true).write(true).open(&device).expect("it can be opened");
    let mut user = holding(open.try_clone().expect("a handle"));
    signal(&mut stage, "paris", Signal::TERM);
    eventually(PATIENCE, "the daemon to say whom it waits for", || {
        stage.pair.daemon("paris").log().contains("waiting for devices in use").then_some(())
    });
    use std::os::unix::fs::FileExt;
    open.write_all_at(&[7; 4096], 0).and_then(|()| open.sync_all()).expect("it is still served");
    drop(open);
    drop(user.stdin.take());
    user.wait().expect("it ends with its input");
    assert!(stage.pair.daemon("paris").wait_exit(PATIENCE).success());
    stage.assert_nothing_left("paris");
}

#[test]
fn a_killed_daemon_means_errors_and_its_next_life_clears_away_and_attaches_anew() {
    attachable!();
    fused!();
    require!("mke2fs", "fsck.ext4");
    let mut stage = Stage::new(Mode::Sync, Bytes::mib(32));
    let device = stage.attach();
    on("mke2fs", &["-q", "-t", "ext4"], &device).expect_success();
    let place = stage.mount(&device);
    durable(&place.join("kept"), "before").expect("room");
    stage.pair.daemon("paris").kill9();
    assert!(durable(&place.join("lost"), "after").is_err(), "nobody serves it");
    stage.pair.start("paris");
    wait(&stage.pair, "paris", "the primary", |status| status["role"] == "primary");
    let again = stage.attached("paris");
    stage.unmount();
    let place = stage.mount(&again);
    assert_eq!(fs::read_to_string(place.join("kept")).expect("it is there"), "before");
    stage.unmount();
    on("fsck.ext4", &["-fn"], &again).expect_success();
    stage.detach();
    stage.assert_nothing_left("paris");
    stage.assert_mirrored();
}

#[test]
fn a_daemon_killed_among_writes_again_and_again_leaves_nothing_behind() {
    attachable!();
    fused!();
    require!("fio");
    let mut stage = Stage::new(Mode::Async, Bytes::mib(64));
    let mut device = stage.attach();
    for _ in 0..3 {
        let mut fio = std::process::Command::new("fio");
        fio.args(["--name=job", "--ioengine=libaio", "--direct=1", "--rw=randwrite", "--bs=4k"]);
        fio.args(["--iodepth=16", "--time_based", "--runtime=60", "--size=32m"]);
        fio.arg(format!("--filename={}", device.display()));
        fio.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut fio = fio.spawn().expect("fio is there");
        wait(&stage.pair, "paris", "writes", |status| {
            status["counters"]["writes"].as_u64() > Some(200)
        });
        stage.pair.daemon("paris").kill9();
        let ended = eventually(Duration::from_secs(60), "fio to see errors", || {
            fio.try_wait().expect("it is ours")
        });
        assert!(!ended.success(), "writes nobody answered did not fail");
        stage.pair.start("paris");
        wait(&stage.pair, "paris", "the primary", |status| status["role"] == "primary");
        device = stage.attached("paris");
        wait_level(&stage.pair, "paris");
    }
    stage.detach();
    stage.assert_nothing_left("paris");
    stage.assert_mirrored();
}

#[test]
fn a_daemon_killed_while_it_flushes_a_device_dies_and_the_next_one_has_it() {
    attachable!();
    let plan = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(16));
    let mut stage = Stage::with(plan.group_line("peer-timeout = \"60s\""), |_| ());
    let device = stage.attach();
    halt(&mut stage.pair, "lyon");
    let open = File::options().write(true).open(&device).expect("it can be opened");
    std::os::unix::fs::FileExt::write_all_at(&open, &[7; 4096], 0).expect("it goes to memory");
    let node = fs::canonicalize(&device).expect("a device");
    // Who closes it writes what is in memory, and waits for the peer; so does the daemon's flush then.
    let closing = std::thread::spawn(move || drop(open));
    // A process that is started before has it open as well, and waits in its place.
    eventually(PATIENCE, "its user to be closing it", || (!have_open(&node)).then_some(()));
    let mut detaching = eventually(PATIENCE, "a process that flushes it", || {
        let mut detach = Command::new(helio_binary());
        detach.args(["detach", VOLUME, "--state"]).arg(stage.pair.state("paris"));
        let mut detach = detach.stderr(Stdio::null()).spawn().expect("it is there");
        let flushed = eventually(PATIENCE, "a flush", || {
            is_flushed(&node).or_else(|| detach.try_wait().expect("it is ours").map(|_| false))
        });
        flushed.then_some(detach)
    });
    // Not collected before it has died: who waits for ever would keep it from that.
    signal(&mut stage, "paris", Signal::KILL);
    assert!(!stage.pair.daemon("paris").wait_exit(PATIENCE).success());
    if via() == "fuse" {
        // Nobody will serve it any more: who waits has errors, with no daemon there to say so.
        eventually(PATIENCE, "its flush to fail", || is_flushed(&node).is_none().then_some(()));
        eventually(PATIENCE, "its user to go", || closing.is_finished().then_some(()));
    }
    stage.pair.daemon("lyon").thaw();
    assert!(!detaching.wait().expect("it is ours").success(), "nobody is left to say it is done");
    stage.pair.start("paris");
    closing.join().expect("it ends");
    eventually(PATIENCE, "its flush to end", || is_flushed(&node).is_none().then_some(()));
    wait(&stage.pair, "paris", "the primary", |status| status["role"] == "primary");
    assert_eq!(stage.attached("paris"), device);
    if via() == "fuse" {
        let new = fs::canonicalize(&device).expect("a device");
        assert_eq!(loops_below(&stage.pair.state("paris")), [new], "the old one went");
    }
    stage.detach();
    stage.assert_nothing_left("paris");
    stage.assert_mirrored();
}

#[test]
fn a_daemon_killed_while_it_makes_a_device_dies_and_the_next_one_has_it() {
    attachable!();
    fused!();
    require!("strace");
    let mut stage = Stage::new(Mode::Sync, Bytes::mib(16));
    let device = stage.attach();
    stage.detach();
    let Some(traced) = slow_answers(&mut stage) else { return };
    let mut attach = Command::new(helio_binary());
    attach.args(["attach", VOLUME, "--via", "fuse", "--state"]).arg(stage.pair.state("paris"));
    let mut attach =
        attach.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it is there");
    eventually(PATIENCE, "an answer that is late", || {
        // The first one is to the greeting, the second to who opens the file.
        (traced.told().matches("writev(").count() == 2).then_some(())
    });
    signal(&mut stage, "paris", Signal::KILL);
    // Who is looked at has not ended before who looks has seen that, or is gone himself.
    let _answers = traced.end();
    assert!(!stage.pair.daemon("paris").wait_exit(PATIENCE).success());
    assert!(!attach.wait().expect("it is ours").success(), "nobody is left to say it is done");
    stage.pair.start("paris");
    wait(&stage.pair, "paris", "the primary", |status| status["role"] == "primary");
    stage.assert_nothing_left("paris");
    assert_eq!(stage.attach(), device);
    stage.detach();
    stage.assert_nothing_left("paris");
}

#[test]
fn a_lost_role_ends_the_device_and_the_next_promotion_brings_it_back() {
    attachable!();
    let stage = Stage::new(Mode::Sync, Bytes::mib(16));
    let device = stage.attach();
    stage.pair.helio("lyon", &["switch", "db"]).expect_failure();
    stage.pair.helio("paris", &["switch", "db", "--force", "--yes"]).expect_success();
    eventually(PATIENCE, "the device to end", || {
        (stage.shown("paris")["state"] == "waiting").then_some(())
    });
    assert!(!device.exists(), "its name is gone");
    stage.pair.helio("paris", &["switch", "db"]).expect_success();
    assert_eq!(stage.attached("paris"), device);
    stage.pair.helio("paris", &["detach", VOLUME]).expect_success();
    stage.assert_nothing_left("paris");
}

#[test]
fn a_loop_device_that_others_give_free_is_made_anew_and_its_number_is_not_touched() {
    attachable!();
    fused!();
    require!("losetup");
    let stage = Stage::new(Mode::Sync, Bytes::mib(16));
    let device = stage.attach();
    let taken = fs::canonicalize(&device).expect("a device");
    on("losetup", &["-d"], &taken).expect_success();
    // Somebody else's now, if nobody was quicker.
    let foreign = stage.pair.scratch().join("foreign");
    File::create(&foreign).and_then(|file| file.set_len(1 << 20)).expect("room");
    let mut losetup = Command::new("losetup");
    let _quicker = losetup.arg(&taken).arg(&foreign).stderr(Stdio::null()).status();
    eventually(PATIENCE, "a new device", || {
        let now = fs::canonicalize(&device).ok()?;
        (loops_below(&stage.pair.state("paris")) == [now]).then_some(())
    });
    let file = File::options().read(true).write(true).open(stage.attached("paris"));
    let file = file.expect("it can be opened");
    std::os::unix::fs::FileExt::write_all_at(&file, &[5; 4096], 0).expect("it is served");
    drop(file);
    stage.detach();
    stage.assert_nothing_left("paris");
    for left in loops_below(&foreign) {
        assert_eq!(left, taken, "the foreign one is where it was");
        on("losetup", &["-d"], &left).expect_success();
    }
    stage.assert_mirrored();
}

/// Has every answer to the kernel be late on paris, but the first; none where that may not be done.
fn slow_answers(stage: &mut Stage) -> Option<Traced> {
    let told = stage.pair.scratch().join("answers");
    let late = ["-e", "trace=writev", "-e", "inject=writev:delay_enter=60000000:when=2+"];
    Traced::shard(stage.pair.daemon("paris"), &late, &told)
}

fn signal(stage: &mut Stage, node: &str, signal: Signal) {
    let id = Pid::from_raw(stage.pair.daemon(node).id().cast_signed()).expect("a process");
    kill_process(id, signal).expect("it runs");
}

/// Whether this process has a file open.
fn have_open(path: &Path) -> bool {
    let open = fs::read_dir("/proc/self/fd").expect("proc is mounted").flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|target| target == path)
}

/// Whether a daemon's process flushes a device.
fn is_flushed(node: &Path) -> Option<bool> {
    let wanted = format!("helio-settle\0{}\0", node.display());
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut words = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    words.any(|words| words == wanted.as_bytes()).then_some(true)
}

fn durable(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    File::open(path.parent().unwrap_or(path))?.sync_all()
}

#[test]
fn users_of_a_device_whose_group_panics_get_errors_and_the_daemon_detaches_it() {
    attachable!();
    fused!();
    let mut stage = Stage::new(Mode::Sync, Bytes::mib(32));
    assert!(stage.pair.daemon("paris").terminate().success());
    let planted = Path::new(env!("CARGO_BIN_EXE_helio-planted"));
    let state = stage.pair.state("paris");
    let mut paris = Daemon::start_program(planted, "paris", stage.pair.config(), &state);
    paris.wait_ready();
    wait_level(&stage.pair, "paris");
    let device = stage.attach();
    let file = fs::File::options().read(true).write(true).open(&device).expect("a device");
    file.write_all_at(&[1; 4096], 0).and_then(|()| file.sync_all()).expect("it is served");
    let mut doomed = connect(&stage.pair, "paris");
    doomed.trim(1 << 20, Bytes(4096), false).expect_err("its engine panics");
    let told = stage.pair.helio("paris", &["status"]);
    assert_eq!(told.status.code(), Some(7), "{told}");
    let written = file.write_all_at(&[2; 4096], 0).and_then(|()| file.sync_all());
    assert!(written.is_err(), "a group that failed made a write durable");
    drop(file);
    stage.pair.helio("paris", &["detach", VOLUME, "--force", "--yes"]).expect_success();
    stage.assert_nothing_left("paris");
    assert!(paris.terminate().success(), "a failed group does not keep the daemon from stopping");
    drop(paris);
    stage.pair.start("paris");
    stage.assert_mirrored();
}
