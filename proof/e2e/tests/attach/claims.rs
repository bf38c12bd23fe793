// SPDX-License-Identifier: Apache-2.0
//! Who has a device in use is named, and nothing is taken from him but by force.

use crate::common::{Stage, VOLUME, attachable, holding, holding_as, on, queue, via};
use helio_e2e::PATIENCE;
use helio_testkit::{Plan, Told, eventually, require, run, say_skipped};
use helio_units::{Bytes, Mode};
use rustix::process::Pid;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

#[test]
fn a_device_has_the_volumes_size_and_says_what_it_can() {
    attachable!();
    let stage = Stage::new(Mode::Async, Bytes::mib(16));
    let device = stage.attach();
    let shown = stage.shown("paris");
    assert_eq!(shown["size_bytes"], 16 << 20);
    let mut all = Vec::new();
    File::open(&device).and_then(|mut file| file.read_to_end(&mut all)).expect("it can be read");
    assert_eq!(all.len(), 16 << 20);
    for (what, value) in [("write_cache", "write back"), ("rotational", "0"), ("dax", "0")] {
        assert_eq!(queue(&device, what), value, "{what}");
    }
    assert_ne!(queue(&device, "discard_max_bytes"), "0");
    assert_eq!(shown["block_bytes"].to_string(), queue(&device, "logical_block_size"));
    assert_eq!(stage.attach(), device, "attaching it again changes nothing");
    stage.detach();
    stage.assert_nothing_left("paris");
    stage.pair.helio("paris", &["detach", VOLUME]).expect_failure();
}

#[test]
fn who_has_it_open_is_named_and_the_group_cannot_be_demoted() {
    attachable!();
    let stage = Stage::new(Mode::Sync, Bytes::mib(16));
    let device = stage.attach();
    for verb in ["demote", "switch"] {
        let said = stage.pair.helio("paris", &[verb, "db"]).expect_failure();
        let text = format!("{VOLUME} is attached as {}\n", device.display());
        assert!(said.contains(&text), "{verb}: {said}");
        assert!(said.contains(&format!("hint: `helio detach {VOLUME}`, then repeat")), "{said}");
        assert!(!said.contains("retry: "), "{said}");
    }
    let mut reader = holding(File::open(&device).expect("it can be opened"));
    let said = stage.pair.helio("paris", &["detach", VOLUME]).expect_failure();
    let id = reader.id();
    drop(reader.stdin.take());
    reader.wait().expect("it ends with its input");
    assert!(said.contains(&format!("open in cat (process {id})")), "{said}");
    stage.detach();
    stage.assert_nothing_left("paris");
    stage.pair.helio("paris", &["demote", "db"]).expect_success();
}

#[test]
fn a_refusal_names_where_the_volume_is_mounted() {
    attachable!();
    require!("mke2fs");
    let stage = Stage::new(Mode::Sync, Bytes::mib(16));
    let device = stage.attach();
    on("mke2fs", &["-q", "-t", "ext4"], &device).expect_success();
    let place = stage.mount(&device);
    let (name, place) = (device.display().to_string(), place.display().to_string());
    for verb in ["demote", "switch"] {
        let said = stage.pair.helio("paris", &[verb, "db"]).expect_failure();
        let text = format!("{VOLUME} is attached as {name} and mounted at {place}\n");
        assert!(said.contains(&text), "{verb}: {said}");
        let hint = format!("hint: `umount {place}`, `helio detach {VOLUME}`, then repeat");
        assert!(said.contains(&hint), "{verb}: {said}");
    }
    let said = stage.pair.helio("paris", &["detach", VOLUME]).expect_failure();
    let text = format!("{VOLUME}, attached as {name}, is in use: mounted at {place}\n");
    assert!(said.contains(&text), "{said}");
    stage.unmount();
    stage.detach();
}

#[test]
fn udev_which_looks_at_a_device_is_no_user_and_a_detach_waits_until_it_has_looked() {
    attachable!();
    let stage = Stage::new(Mode::Sync, Bytes::mib(16));
    let device = stage.attach();
    let program = stage.pair.scratch().join("(udev-worker)");
    symlink("/bin/cat", &program).expect("a folder of our own");
    let mut worker = holding_as(&program, File::open(&device).expect("it can be opened"));
    let (tell, told) = mpsc::sync_channel(2);
    std::thread::scope(|scope| {
        let pair = &stage.pair;
        for tell in [tell.clone(), tell] {
            scope.spawn(move || tell.send(pair.helio("paris", &["detach", VOLUME])));
        }
        // Of two at once the later one is told, which shows that the other one waits.
        let said = told.recv().expect("an answer").expect_failure();
        drop(worker.stdin.take());
        worker.wait().expect("it ends with its input");
        assert!(said.contains("is already being detached"), "{said}");
        told.recv().expect("an answer").expect_success();
    });
    stage.assert_nothing_left("paris");
}

#[test]
fn a_mounted_file_system_holds_it_and_force_takes_it_away() {
    attachable!();
    require!("mke2fs");
    let stage = Stage::new(Mode::Async, Bytes::mib(32));
    let device = stage.attach();
    on("mke2fs", &["-q", "-t", "ext4"], &device).expect_success();
    let place = stage.mount(&device);
    let said = stage.pair.helio("paris", &["detach", VOLUME]).expect_failure();
    assert!(said.contains(&format!("mounted at {}", place.display())), "{said}");
    let used = stage.shown("paris")["used_by"].to_string();
    assert!(used.contains("mounted at"), "{used}");
    stage.pair.helio("paris", &["detach", VOLUME, "--force", "--yes"]).expect_success();
    let wrote = File::create(place.join("file")).and_then(|mut file| {
        file.write_all(b"in vain")?;
        file.sync_all()
    });
    assert!(wrote.is_err(), "the disk under it is gone");
    stage.unmount();
    stage.assert_nothing_left("paris");
}

#[test]
fn the_other_node_does_not_take_the_role_from_an_attached_device() {
    attachable!();
    require!("mke2fs");
    let stage = Stage::new(Mode::Sync, Bytes::mib(32));
    let device = stage.attach();
    on("mke2fs", &["-q", "-t", "ext4"], &device).expect_success();
    let place = stage.mount(&device);
    let said = stage.pair.helio("lyon", &["switch", "db"]).expect_failure();
    let name = device.display().to_string();
    assert!(said.contains(&format!("in use on paris: attached as {name}")), "{said}");
    std::fs::write(place.join("file"), "still served").expect("nothing happened to it");
    stage.unmount();
    stage.detach();
    stage.pair.helio("lyon", &["switch", "db"]).expect_success();
}

/// A detach waits for the peer, whose daemon is halted. `end` ends that wait: it gets the halted process. Returns what the detach says.
fn detach_that_waits(timeout: &str, end: impl FnOnce(&Stage, Pid)) -> Told {
    let plan = Plan::new("db").mode(Mode::Sync).group_line(&format!("peer-timeout = {timeout:?}"));
    let mut stage = Stage::with(plan.volume("data", Bytes::mib(16)), |_| ());
    let device = stage.attach();
    std::fs::write(&device, [7; 4096]).expect("a block");
    let peer = stage.pair.daemon("lyon").id().cast_signed();
    let peer = Pid::from_raw(peer).expect("a process");
    helio_e2e::halt(&mut stage.pair, "lyon");
    let told = std::thread::scope(|scope| {
        let detaching = scope.spawn(|| stage.pair.helio("paris", &["detach", VOLUME]));
        eventually(PATIENCE, "the detach to be under way", || {
            (stage.shown("paris")["reason"] == "it is being detached").then_some(())
        });
        let said = stage.pair.helio("paris", &["detach", VOLUME]).expect_failure();
        assert!(said.contains("is already being detached"), "{said}");
        assert!(said.contains(&format!("`helio detach {VOLUME} --force` ends the wait")), "{said}");
        assert!(!detaching.is_finished(), "it waits for the peer");
        end(&stage, peer);
        detaching.join().expect("no panic")
    });
    stage.assert_nothing_left("paris");
    told
}

#[test]
fn a_detach_that_waits_for_the_peer_keeps_nobody_waiting() {
    attachable!();
    let told = detach_that_waits("20s", |_, peer| {
        rustix::process::kill_process(peer, rustix::process::Signal::CONT).expect("it is there");
    });
    told.expect_success();
}

#[test]
fn a_detach_that_waits_for_the_peer_is_ended_by_one_with_force() {
    attachable!();
    let told = detach_that_waits("60s", |stage, _| {
        stage.pair.helio("paris", &["detach", VOLUME, "--force", "--yes"]).expect_success();
    });
    let said = told.expect_failure();
    assert!(said.contains("was removed before all its writes were durable"), "{said}");
}

#[test]
fn what_cannot_be_served_yet_says_why_and_a_wait_ends_when_it_can() {
    attachable!();
    let stage = Stage::new(Mode::Sync, Bytes::mib(16));
    let device = stage.attach();
    stage.pair.helio("paris", &["switch", "db", "--force", "--yes"]).expect_success();
    eventually(PATIENCE, "the device to end", || {
        let told = stage.pair.helio("paris", &["attach", "--list"]).expect_success();
        (told.contains("db/data: not yet") && told.contains("not primary")).then_some(())
    });
    stage.pair.helio("paris", &["detach", VOLUME]).expect_success();
    stage.assert_nothing_left("paris");
    let attach = ["attach", VOLUME, "--via", &via(), "--wait", "--timeout", "60s"];
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| stage.pair.helio("paris", &attach));
        stage.pair.helio("paris", &attach[..4]).expect_failure();
        assert!(!waiting.is_finished(), "it waits for the role");
        stage.pair.helio("paris", &["switch", "db"]).expect_success();
        let path = waiting.join().expect("no panic").expect_success();
        assert_eq!(Path::new(path.trim_end()), device);
    });
    stage.detach();
    stage.assert_nothing_left("paris");
}

#[test]
fn what_is_mounted_where_others_do_not_see_it_or_is_swap_is_in_use() {
    attachable!();
    require!("mke2fs", "mkswap", "swapon", "unshare");
    let stage = Stage::new(Mode::Async, Bytes::mib(32));
    let device = stage.attach();
    on("mke2fs", &["-q", "-t", "ext4"], &device).expect_success();
    let place = stage.pair.scratch().join("hidden");
    std::fs::create_dir(&place).expect("a folder of our own");
    let mut hidden = Command::new("unshare");
    hidden.args([
        "--mount",
        "--propagation=private",
        "sh",
        "-c",
        "mount $0 $1 && echo && exec cat",
    ]);
    hidden.arg(&device).arg(&place).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut hidden = hidden.spawn().expect("unshare is everywhere");
    let mut told = [0];
    let mounted = hidden.stdout.take().expect("a pipe").read_exact(&mut told);
    let said = stage.pair.helio("paris", &["detach", VOLUME]).expect_failure();
    drop(hidden.stdin.take());
    hidden.wait().expect("it ends with its input");
    mounted.expect("it was mounted");
    assert!(said.contains(&format!("mounted at {}", place.display())), "{said}");
    on("mkswap", &["-q"], &device).expect_success();
    on("swapon", &[], &device).expect_success();
    let said = stage.pair.helio("paris", &["detach", VOLUME]).expect_failure();
    on("swapoff", &[], &device).expect_success();
    assert!(said.contains("used as swap"), "{said}");
    stage.detach();
    stage.assert_nothing_left("paris");
}

#[test]
fn the_file_below_the_device_can_be_used_itself() {
    attachable!();
    let stage = Stage::new(Mode::Sync, Bytes::mib(16));
    stage.attach();
    let shown = stage.shown("paris");
    let path = shown["file"].as_str().expect("a path").to_owned();
    let file = File::options().read(true).write(true).open(&path).expect("root may");
    file.write_all_at(&[7; 4096], 8192).expect("whole blocks");
    assert!(file.write_all_at(&[7; 100], 0).is_err(), "a part of a block is refused");
    file.sync_all().expect("a flush");
    let mut some = [0; 300];
    file.read_exact_at(&mut some, 8192 + 4000).expect("reads need no alignment");
    assert_eq!((&some[..96], &some[96..]), (&[7; 96][..], &[0; 204][..]));
    assert_eq!(file.read_at(&mut some, 16 << 20).expect("the end"), 0);
    drop(file);
    stage.detach();
    stage.assert_mirrored();
}

#[test]
fn a_number_that_somebody_else_has_by_now_does_not_keep_a_device_from_going() {
    attachable!();
    if via() != "fuse" {
        return say_skipped("loop devices, whose numbers go from hand to hand (HELIO_VIA)");
    }
    require!("mke2fs", "mount", "umount");
    let stage = Stage::new(Mode::Sync, Bytes::mib(16));
    let others: Vec<_> = (0..4).map(|number| elsewhere(&stage, number)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (image, place) in &others {
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    // It takes the lowest free number: often the one that was just given back.
                    let mut mount = Command::new("mount");
                    mount.args(["-o", "loop"]).arg(image).arg(place);
                    run(&mut mount).expect_success();
                    run(Command::new("umount").arg(place)).expect_success();
                }
            });
        }
        let rounds = (0..20).map(|_| {
            stage.attach();
            stage.pair.helio("paris", &["detach", VOLUME])
        });
        let refused: Vec<_> = rounds.filter(|told| !told.status.success()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(refused.is_empty(), "{} of 20 were refused: {}", refused.len(), refused[0]);
    });
    stage.assert_nothing_left("paris");
}

/// An image with a file system, and where to mount it.
fn elsewhere(stage: &Stage, number: u8) -> (PathBuf, PathBuf) {
    let image = stage.pair.scratch().join(&format!("image-{number}"));
    File::create(&image).and_then(|file| file.set_len(4 << 20)).expect("a file of our own");
    on("mke2fs", &["-q", "-F", "-t", "ext4"], &image).expect_success();
    let place = stage.pair.scratch().join(&format!("elsewhere-{number}"));
    std::fs::create_dir(&place).expect("a folder of our own");
    (image, place)
}
