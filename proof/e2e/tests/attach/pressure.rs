// SPDX-License-Identifier: Apache-2.0
//! A writer that dirties more memory than the machine has finishes: what the daemon needs to write does not wait for
//! what is to be written. Only in a small machine made for it: `cargo xtask vm pressure`, `cargo xtask uml pressure`.

use crate::common::{Stage, attachable, on};
use helio_testkit::{eventually, require, say_skipped};
use helio_units::{Bytes, Mode};
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

/// What the machine has.
fn memory_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("the kernel says");
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).expect("its total");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib / 1024
}
