// SPDX-License-Identifier: Apache-2.0
//! The simulation uses nothing of this machine but its thread.

use helio_play::{Button, Change, Play};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use tokio::runtime::Builder;

const NOTHING: [&str; 4] = ["rchar: 0", "wchar: 0", "syscr: 0", "syscw: 0"];
/// glibc reads one byte of `/proc/sys/vm/overcommit_memory` when it shrinks a heap of a thread for the first time.
const OF_THE_ALLOCATOR: [&str; 4] = ["rchar: 1", "wchar: 0", "syscr: 1", "syscw: 0"];

/// What the descriptors of this process lead to.
fn open() -> BTreeSet<PathBuf> {
    let all = fs::read_dir("/proc/self/fd").expect("listed").flatten();
    // The descriptor of the list itself is gone by now.
    all.filter_map(|entry| fs::read_link(entry.path()).ok()).collect()
}

/// Bytes and calls of reads and writes that the thread of the simulation made.
fn reads_and_writes() -> Vec<String> {
    for task in fs::read_dir("/proc/self/task").expect("listed").flatten() {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.trim() == "helio-play" {
            let io = fs::read_to_string(task.path().join("io")).expect("read");
            // The other counts include pages of the program that are read from its disk.
            let calls = ["rchar", "wchar", "syscr", "syscw"];
            let calls = |row: &&str| calls.iter().any(|name| row.starts_with(name));
            return io.lines().filter(calls).map(str::to_owned).collect();
        }
    }
    panic!("the thread is there");
}

#[test]
fn a_pair_opens_reads_and_writes_nothing_of_this_machine() {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let before = open();
    runtime.block_on(async {
        let play = Play::start(1).expect("a pair");
        play.change(Change::Speed(60.0)).await.expect("set");
        let presses =
            [Button::Cut, Button::Restore, Button::Kill(1), Button::Start(1), Button::FailDisk(0)];
        for button in presses {
            play.change(Change::Press(button)).await.expect("done");
            let now = play.simulation().await.expect("it responds").time_ms;
            while play.simulation().await.expect("it responds").time_ms < now + 3000 {}
        }
        assert_eq!(open(), before);
        let io = reads_and_writes();
        assert!(io == NOTHING || io == OF_THE_ALLOCATOR, "{io:?}");
    });
}
