// SPDX-License-Identifier: Apache-2.0
//! A state directory whose file system is full.

use helio_e2e::{begin, connect, group, wait};
use helio_testkit::{Pair, Plan, say_skipped};
use helio_units::{Bytes, Mode};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system of its own in memory, unmounted at the end, also of a test that fails.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path, size: Bytes) -> Option<Self> {
        std::fs::create_dir_all(at).expect("the folder can be made");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={}", size.0), "tmpfs"]).arg(at);
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Self(at.to_owned()));
        }
        say_skipped("the right to mount a file system");
        None
    }

    /// Leaves no room. The file is removed to make room again.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("ballast");
        let mut ballast = File::create(&path).expect("a file can be made");
        std::io::copy(&mut std::io::repeat(1), &mut ballast).expect_err("it takes no more");
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.is_ok(), "umount cannot be run");
    }
}

fn prepared() -> Pair {
    Plan::new("db").mode(Mode::Sync).volume("data", Bytes::gib(2)).prepare()
}

#[test]
fn metadata_is_allocated_in_full_so_a_full_file_system_stops_nothing() {
    let mut pair = prepared();
    let Some(small) = Small::mount(&pair.state("paris"), Bytes::mib(4)) else { return };
    pair.start("lyon");
    pair.start("paris");
    begin(&pair, "paris");
    let metadata =
        std::fs::metadata(pair.state("paris").join("groups/db.meta")).expect("it is there");
    assert!(metadata.blocks() * 512 >= metadata.len(), "{metadata:?}");
    small.fill();
    let mut client = connect(&pair, "paris");
    // Every page of hot extents and marks is touched.
    for at in (0..2 << 30).step_by(4 << 20) {
        client.write(at, &[7; 4096], false).expect("there is room for all pages");
    }
    client.flush().expect("it is durable");
    let status = wait(&pair, "paris", "replicating", |db| db["state"] == "replicating");
    assert!(status["fault"].is_null(), "{status}");
    drop(client);
    pair.daemon("paris").kill9();
}

#[test]
fn a_new_group_without_room_for_its_metadata_is_refused_by_name() {
    let pair = prepared();
    let Some(small) = Small::mount(&pair.state("paris"), Bytes::mib(1)) else { return };
    let ballast = small.fill();
    let (config, state) = (pair.config().to_owned(), pair.state("paris"));
    let mut daemon = helio_testkit::Daemon::start("paris", &config, &state);
    assert_eq!(daemon.wait_exit(helio_e2e::PATIENCE).code(), Some(1));
    let log = daemon.log();
    let name = state.join("groups/db.meta").display().to_string();
    for words in [name.as_str(), "No space left on device", "remedy: "] {
        assert!(log.contains(words), "{words}: {log}");
    }
    std::fs::remove_file(ballast).expect("it is there");
    let mut daemon = helio_testkit::Daemon::start("paris", &config, &state);
    daemon.wait_ready();
    assert!(group(&pair, "paris")["fault"].is_null());
    daemon.kill9();
}
