// SPDX-License-Identifier: Apache-2.0
//! Machines that do not have everything: what is missing is named, and what works without it does.

use crate::common::{Stage, VOLUME, attachable};
use helio_e2e::PATIENCE;
use helio_testkit::{Group, eventually, helio_binary};
use helio_units::{Bytes, Mode};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn without_loop_devices_the_file_is_the_volume() {
    attachable!();
    let mut stage = Stage::new(Mode::Async, Bytes::mib(16));
    let daemon = without(&mut stage, "/dev/loop-control");
    let told = stage.pair.helio("paris", &["attach", VOLUME, "--via", "fuse"]);
    assert!(told.stderr.contains("no block device: loop devices cannot be used"), "{told}");
    let path = told.expect_success();
    // Mounted where only the daemon sees it.
    let seen = format!("/proc/{}/root{}", daemon.id(), path.trim_end());
    let file = File::options().read(true).write(true).open(&seen).expect("root may");
    file.write_all_at(&[3; 4096], 4096).and_then(|()| file.sync_all()).expect("it is served");
    drop(file);
    stage.detach();
    let left = std::fs::read(&seen);
    assert!(left.is_err(), "the file is still there");
}

#[test]
fn without_fuse_the_refusal_names_the_other_way() {
    attachable!();
    let mut stage = Stage::new(Mode::Async, Bytes::mib(16));
    let _daemon = without(&mut stage, "/dev/fuse");
    let said = stage.pair.helio("paris", &["attach", VOLUME, "--via", "fuse"]).expect_failure();
    assert!(said.contains("FUSE cannot be used") && said.contains("nbd.sock"), "{said}");
    assert_eq!(
        stage.pair.helio("paris", &["attach", "--list"]).expect_success(),
        "nothing is attached\n"
    );
    stage.assert_nothing_left("paris");
}

/// Runs paris's daemon anew where a device node is another thing.
fn without(stage: &mut Stage, node: &str) -> Group {
    assert!(stage.pair.daemon("paris").terminate().success());
    // What tests beside this one have mounted must not stay mounted here.
    let others = "cut -d' ' -f5 /proc/self/mountinfo | grep '/helio-.*/mnt$' | xargs -r umount -l";
    let script = format!("{others}; mount --bind /dev/null {node} && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]).arg(helio_binary());
    command.args(["daemon", "--node", "paris", "--config"]).arg(stage.pair.config());
    command.arg("--state").arg(stage.pair.state("paris"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let daemon = Group::spawn(&mut command).expect("unshare is everywhere");
    eventually(PATIENCE, "paris as primary", || {
        let told = stage.pair.helio("paris", &["status", "--json"]);
        told.stdout.contains("\"role\": \"primary\"").then_some(())
    });
    assert!(Path::new(&format!("/proc/{}", daemon.id())).exists());
    daemon
}
