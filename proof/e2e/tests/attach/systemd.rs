// SPDX-License-Identifier: Apache-2.0
//! What systemd is told: the units that are shipped, and what a daemon says to a service manager.

use crate::common::{Stage, VOLUME, attachable};
use helio_testkit::{Group, Pair, Plan, have, helio_binary, run, say_skipped, timely};
use helio_units::{Bytes, Mode};
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd")
}

fn shipped(unit: &str) -> String {
    fs::read_to_string(packaging().join(unit)).expect("it is shipped")
}

#[test]
fn systemd_accepts_the_units() {
    if !have("systemd-analyze") {
        return say_skipped("systemd-analyze");
    }
    let folder = helio_testkit::TempDir::new();
    for unit in ["helio.service", "helio-attach@.service"] {
        let text = shipped(unit);
        // The programs must be there to be accepted.
        let text = text.replace("/usr/bin/helio", &helio_binary().display().to_string());
        fs::write(folder.join(unit), text).expect("a folder of our own");
    }
    let service = "[Service]\nExecStart=/bin/true\n";
    fs::write(folder.join("postgresql@.service"), service).expect("a folder of our own");
    let drop_in = "postgresql@.service.d";
    fs::create_dir(folder.join(drop_in)).expect("a folder of our own");
    let (from, to) = (packaging().join(drop_in), folder.join(drop_in));
    fs::copy(from.join("heliograph.conf"), to.join("heliograph.conf")).expect("it is shipped");
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]);
    for unit in ["helio.service", "helio-attach@db-data.service", "postgresql@15-main.service"] {
        verify.arg(folder.join(unit));
    }
    let told = run(&mut verify);
    let said = told.to_string();
    told.expect_success();
    assert!(!said.contains("Unknown") && !said.contains("ignoring"), "{said}");
}

/// systemd stops what is bound to a daemon before it starts a dead one again; who waits for that daemon cannot be stopped.
/// `cargo xtask uml units` shows it.
#[test]
fn a_device_is_not_taken_down_where_its_daemon_is_started_again() {
    for line in shipped("helio-attach@.service").lines() {
        let binds = ["Requires=", "Requisite=", "BindsTo=", "PartOf="];
        assert!(!binds.iter().any(|bond| line.starts_with(bond)), "{line}");
    }
}

/// The word the service manager hears next.
fn heard(socket: &UnixDatagram) -> String {
    let mut word = [0; 256];
    let length = timely(socket.recv(&mut word), "a word of the daemon").expect("a word");
    String::from_utf8_lossy(&word[..length]).trim().to_owned()
}

/// A daemon that a service manager started.
fn serviced(pair: &Pair, node: &str, socket: &Path) -> Group {
    let mut daemon = Command::new(helio_binary());
    daemon.args(["daemon", "--node", node, "--config"]).arg(pair.config());
    daemon.arg("--state").arg(pair.state(node)).env("NOTIFY_SOCKET", socket);
    daemon.env("WATCHDOG_USEC", "400000");
    daemon.stdin(Stdio::null()).stderr(Stdio::null());
    Group::spawn(&mut daemon).expect("it starts")
}

#[test]
fn a_daemon_says_that_it_is_ready_alive_and_stopping() {
    let pair = Plan::new("db").volume("data", Bytes::mib(4)).prepare();
    let path = pair.scratch().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket of our own");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("it can be set");
    let mut daemon = serviced(&pair, "paris", &path);
    let first = heard(&socket);
    // It answers by then.
    let answered = pair.helio("paris", &["status"]);
    let alive = heard(&socket);
    daemon.signal(rustix::process::Signal::TERM);
    let last = loop {
        let word = heard(&socket);
        if word != "WATCHDOG=1" {
            break word;
        }
    };
    let ended = daemon.wait_end(Duration::from_secs(30), "the daemon");
    assert_eq!(
        (first.as_str(), alive.as_str(), last.as_str()),
        ("READY=1", "WATCHDOG=1", "STOPPING=1")
    );
    answered.expect_success();
    assert!(ended.success());
}

#[test]
fn an_attach_that_waits_has_its_device_once_the_node_is_primary() {
    attachable!();
    let stage = Stage::new(Mode::Sync, Bytes::mib(16));
    stage.pair.helio("paris", &["demote", "db"]).expect_success();
    stage.pair.helio("paris", &["attach", VOLUME]).expect_failure();
    stage.pair.helio("paris", &["attach", VOLUME, "--wait", "--timeout", "300ms"]).expect_failure();
    std::thread::scope(|scope| {
        let waiting = scope
            .spawn(|| stage.pair.helio("paris", &["attach", VOLUME, "--wait", "--timeout", "30s"]));
        stage.pair.helio("paris", &["promote", "db"]).expect_success();
        let path = waiting.join().expect("no panic").expect_success();
        assert_eq!(path.trim_end(), stage.link("paris").display().to_string());
    });
    stage.detach();
    stage.assert_nothing_left("paris");
}
