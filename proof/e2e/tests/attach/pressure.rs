// SPDX-License-Identifier: Apache-2.0
//! A writer that dirties more memory than the machine has finishes: what the daemon needs to write does not wait for
//! what is to be written. The writer only in a small machine made for it: `cargo xtask vm pressure`, `cargo xtask uml pressure`.

use crate::common::{Stage, attachable, on};
use helio_testkit::{Plan, eventually, require, say_skipped};
use helio_units::{Bytes, Mode};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// An emulated machine writes a few MB a second; one that waits for its own memory writes none.
const LIMIT: Duration = Duration::from_secs(600);

#[test]
fn under_memory_pressure_a_writer_of_twice_the_memory_finishes() {
    attachable!();
    require!("mke2fs", "fsck.ext4", "dd");
    if std::env::var("HELIO_GUEST").as_deref() != Ok("pressure") {
        say_skipped("a guest of its own (cargo xtask vm pressure)");
        return;
    }
    let wanted = 2 * memory_mib();
    let stage = Stage::new(Mode::Sync, Bytes::mib(wanted + wanted / 4 + 64));
    let device = stage.attach();
    on("mke2fs", &["-q", "-t", "ext4"], &device).expect_success();
    let place = stage.mount(&device);
    let (file, count) = (place.join("file"), wanted.to_string());
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/zero", "bs=1M", "conv=fsync", &format!("count={count}")]);
    let mut dd = dd.arg(format!("of={}", file.display())).spawn().expect("dd is there");
    let ended = eventually(LIMIT, "dd to finish", || dd.try_wait().expect("it is ours"));
    assert!(ended.success(), "dd saw an error");
    stage.unmount();
    on("fsck.ext4", &["-fn"], &device).expect_success();
    stage.detach();
    stage.assert_nothing_left("paris");
}

#[test]
fn the_daemon_of_a_device_keeps_its_memory_and_does_not_wait_for_writes_to_find_some() {
    attachable!();
    let plan = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(16));
    let mut stage = Stage::with(plan.node_line("paris", "lock-memory = true"), |_| ());
    stage.attach();
    let process = Path::new("/proc").join(stage.pair.daemon("paris").id().to_string());
    assert_ne!(said(&process, "VmLck"), "0 kB", "nothing is kept in memory");
    // The right without which the kernel is told nothing.
    const CAP_SYS_RESOURCE: u64 = 1 << 24;
    let rights = said(&process, "CapEff");
    if u64::from_str_radix(&rights, 16).expect("a number") & CAP_SYS_RESOURCE == 0 {
        say_skipped("CAP_SYS_RESOURCE");
    } else {
        let threads = fs::read_dir(process.join("task")).expect("it runs").flatten();
        threads.for_each(|thread| assert_flusher(&thread.path()));
    }
    stage.detach();
    stage.assert_nothing_left("paris");
}

/// What the kernel says of a process.
fn said(process: &Path, what: &str) -> String {
    let status = fs::read_to_string(process.join("status")).expect("it runs");
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find_map(|(key, value)| (key == what).then(|| value.trim().to_owned()));
    found.expect("the kernel says it")
}

/// What a thread of ours needs of memory is found without writing to disks.
#[track_caller]
fn assert_flusher(thread: &Path) {
    /// Of linux/sched.h.
    const PF_MEMALLOC_NOIO: u64 = 0x8_0000;
    // A thread may end while it is looked at.
    let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
    let Some((name, rest)) = stat.rsplit_once(") ") else { return };
    let flags: u64 = rest.split(' ').nth(6).and_then(|flags| flags.parse().ok()).expect("a number");
    assert_ne!(flags & PF_MEMALLOC_NOIO, 0, "thread {name}) waits for disks");
}

/// What the machine has.
fn memory_mib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").expect("the kernel says");
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).expect("its total");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib / 1024
}
