// SPDX-License-Identifier: Apache-2.0
//! A volume that is created with several members at once, and a merge that a restart does not end.

use helio_e2e::{connect, group, number, wait, wait_members};
use helio_testkit::{Pair, Plan, TempDir};
use helio_units::Bytes;
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const SIZE: Bytes = Bytes::mib(16);
const REGION: u64 = 64 << 10;
const MIB: u64 = 1 << 20;

/// Paris is the only node, and its volume has two members, which hold something else each.
struct Stage {
    // Dropped in this order: a daemon ends before what it uses.
    pair: Pair,
    files: [PathBuf; 2],
    _scratch: TempDir,
}

impl Stage {
    #[track_caller]
    fn new(line: &str) -> Self {
        let scratch = TempDir::new();
        let files = [("first", 0x11), ("second", 0x22)].map(|(name, byte)| {
            let file = scratch.file(name, SIZE);
            fs::write(&file, vec![byte; SIZE.0 as usize]).expect("there is room");
            file
        });
        let pair = Plan::new("db")
            .only("paris")
            .volume("data", SIZE)
            .volume_line("sparse = true")
            .volume_line(line)
            .node_line("paris", "copies-at-once = 4")
            .member("paris", "data", &files[0])
            .mirror("paris", "data", &files[1])
            .start();
        let stage = Self { pair, files, _scratch: scratch };
        stage.wait_primary();
        stage
    }

    #[track_caller]
    fn wait_primary(&self) -> Value {
        wait(&self.pair, "paris", "a primary", |shown| shown["role"] == "primary")
    }

    #[track_caller]
    fn wait_full(&self) -> Value {
        wait_members(&self.pair, "paris", ["full", "full"])
    }

    #[track_caller]
    fn kill(&mut self) {
        self.pair.daemon("paris").kill9();
        self.pair.start("paris");
        self.wait_primary();
    }

    #[track_caller]
    fn stop(&mut self) {
        assert!(self.pair.daemon("paris").terminate().success(), "paris stops cleanly");
    }

    /// How many volumes may be copied and merged in the background.
    #[track_caller]
    fn permit(&self, from: u32, to: u32) {
        let line = |most: u32| format!("copies-at-once = {most}");
        let text = fs::read_to_string(self.pair.config()).expect("it is there");
        assert!(text.contains(&line(from)), "{text}");
        let text = text.replace(&line(from), &line(to));
        fs::write(self.pair.config(), text).expect("there is room");
        self.pair.helio("paris", &["apply"]).expect_success();
    }

    /// What a client reads there; all bytes are the same.
    #[track_caller]
    fn read(&self, offset: u64, length: u64) -> u8 {
        let mut bytes = vec![0; length as usize];
        connect(&self.pair, "paris").read(offset, &mut bytes).expect("it can be read");
        uniform(&bytes)
    }

    #[track_caller]
    fn write(&self, offset: u64, length: u64, byte: u8) {
        let mut client = connect(&self.pair, "paris");
        client.write(offset, &vec![byte; length as usize], true).expect("it can be written");
    }

    /// What each member holds there; all bytes of one are the same. The daemon has stopped.
    #[track_caller]
    fn held(&self, offset: u64, length: u64) -> [u8; 2] {
        [&self.files[0], &self.files[1]].map(|file| {
            let mut bytes = vec![0; length as usize];
            let file = File::open(file).expect("it is there");
            file.read_exact_at(&mut bytes, offset).expect("it can be read");
            uniform(&bytes)
        })
    }
}

#[track_caller]
fn uniform(bytes: &[u8]) -> u8 {
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "bytes of several writes");
    bytes[0]
}

fn blank(shown: &Value) -> u64 {
    number(shown, "/volumes/0/blank_bytes")
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn a_volume_without_data_has_two_full_members_at_once_and_they_differ_only_where_nothing_was_touched()
 {
    let mut stage = Stage::new("blank = true");
    assert_eq!(blank(&stage.wait_full()), SIZE.0);
    let told = stage.pair.helio("paris", &["status", "db"]).expect_success();
    assert!(told.contains("16 MiB never written"), "{told}");

    stage.write(0, 2 * REGION, 0x33);
    stage.write(MIB, 4096, 0x44);
    assert_eq!(stage.read(2 * MIB, 4096), 0x11, "the content of the first member counts");
    let left = SIZE.0 - 4 * REGION;
    wait(&stage.pair, "paris", "a merge of what was touched", |shown| {
        blank(shown) == left && shown["volumes"][0]["unmerged_bytes"] == 0
    });
    stage.kill();
    // Only what was being written is compared as a whole: 4 MiB.
    let shown_again = stage.wait_full();
    assert!(blank(&shown_again) >= SIZE.0 - 4 * MIB, "{shown_again:#}");
    assert_eq!([0, 2 * MIB].map(|at| stage.read(at, 4096)), [0x33, 0x11]);

    let first = shown(&stage.files[0]);
    stage.pair.helio("paris", &["member", "remove", "db/data", &first]).expect_success();
    assert_eq!(stage.read(8 * MIB, 4096), 0x22, "the other member counts now");
    stage.write(12 * MIB, REGION, 0x55);
    let add = ["member", "add", "db/data", &first, "--require-minicopy"];
    stage.pair.helio("paris", &add).expect_success();
    let returned = stage.wait_full();
    assert!(blank(&returned) >= SIZE.0 - 5 * MIB, "nothing else is copied: {returned:#}");
    assert_eq!([8 * MIB, 12 * MIB].map(|at| stage.read(at, 4096)), [0x22, 0x55]);
    stage.kill();
    stage.wait_full();
    assert_eq!([8 * MIB, 12 * MIB].map(|at| stage.read(at, 4096)), [0x22, 0x55]);
    stage.stop();
    assert_eq!(stage.held(0, 2 * REGION), [0x33; 2]);
    assert_eq!(stage.held(MIB, 4096), [0x44; 2]);
    assert_eq!(
        stage.held(MIB + 4096, REGION - 4096),
        [0x11; 2],
        "the rest of the region is merged"
    );
    assert_eq!(stage.held(8 * MIB, REGION), [0x22; 2]);
    assert_eq!(stage.held(12 * MIB, REGION), [0x55; 2]);
    assert_eq!(stage.held(5 * MIB, MIB), [0x11, 0x22], "nothing was copied");
}

#[test]
fn a_merge_that_a_command_began_continues_after_a_restart() {
    let mut stage = Stage::new("io = \"buffered\"");
    stage.wait_full();
    stage.stop();
    assert_eq!(stage.held(0, SIZE.0), [0x11; 2], "the content of the first member was copied");
    let second = File::options().write(true).open(&stage.files[1]).expect("it is there");
    second.write_all_at(&[0x66; 4096], 5 * MIB).expect("it can be written");
    // A member that another process writes is not used.
    drop(second);
    stage.pair.start("paris");
    stage.wait_primary();
    stage.permit(4, 0);
    stage.pair.helio("paris", &["member", "merge", "db/data"]).expect_success();
    stage.kill();
    let shown = group(&stage.pair, "paris");
    assert_eq!(number(&shown, "/volumes/0/unmerged_bytes"), SIZE.0);
    stage.permit(0, 4);
    stage.wait_full();
    stage.kill();
    assert_eq!(blank(&stage.wait_full()), 0);
    stage.stop();
    assert_eq!(stage.held(0, SIZE.0), [0x11; 2]);
}
