// SPDX-License-Identifier: Apache-2.0
//! However a line ends, it leaves nothing behind.

use crate::common::*;
use helio_testkit::{Side, Wan, eventually, helio_binary, in_namespace, require, run};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

/// The ends of a line, and a hold on each that outlives its name.
fn holds(wan: &Wan) -> Vec<(PathBuf, File)> {
    let hold = |side| {
        let path = wan.namespace(side);
        let file = File::open(&path).expect("it is there");
        (path, file)
    };
    vec![hold(Side::Left), hold(Side::Right)]
}

/// The devices there, in the words of the kernel.
fn devices(namespace: &File) -> String {
    in_namespace(namespace, || std::fs::read_to_string("/proc/thread-self/net/dev"))
        .expect("the kernel tells")
}

/// By now another test's line may have the name.
fn gone(holds: &[(PathBuf, File)]) {
    for (path, namespace) in holds {
        let number = namespace.metadata().expect("it is open").ino();
        let is_there = path.metadata().is_ok_and(|named| named.ino() == number);
        assert!(!is_there, "{} is still there", path.display());
        let devices = devices(namespace);
        assert!(!devices.contains("wan0"), "{devices}");
    }
}

#[test]
fn a_line_told_to_quit_or_to_terminate_takes_its_namespaces_and_devices_along() {
    for how in ["quit", "SIGTERM"] {
        let Some(mut line) = lay(&[]) else { return };
        let holds = holds(&line.wan);
        assert!(devices(&holds[0].1).contains("wan0"));
        let status = if how == "quit" { line.wan.quit() } else { line.wan.terminate() };
        assert!(status.success(), "{how}: {status}");
        gone(&holds);
    }
}

#[test]
fn what_a_killed_line_leaves_the_next_one_sweeps_away() {
    let Some(mut killed) = lay(&[]) else { return };
    let holds = holds(&killed.wan);
    killed.wan.kill9();
    drop(killed);
    let Some(next) = lay(&[]) else { return };
    drop(next);
    gone(&holds);
}

#[test]
fn two_lines_do_not_meet_and_neither_sweeps_the_other_away() {
    let Some(first) = lay(&[]) else { return };
    let second = Wan::start(&["--rtt", "20ms"]);
    assert_ne!(first.wan.namespace(Side::Left), second.namespace(Side::Left));
    // In turn, so that a busy machine delays both.
    let ends = [datagrams(&first.wan), datagrams(&second)];
    let pairs = (0..5).map(|_| [pings(&ends[0], 1)[0], pings(&ends[1], 1)[0]]);
    let nearer = pairs.filter(|[near, far]| near < far).count();
    assert!(nearer >= 3, "the first one is shorter than the other in {nearer} of 5 pairs of trips");
    drop(second);
    assert!(first.wan.namespace(Side::Left).exists());
    assert_eq!(pings(&datagrams(&first.wan), 3).len(), 3);
}

#[test]
fn a_namespace_that_was_there_stays() {
    let Some(mut own) = lay(&[]) else { return };
    let left = own.wan.namespace(Side::Left);
    let name = left.file_name().and_then(|name| name.to_str()).expect("plain letters").to_owned();
    let right = format!("refused-{}", std::process::id());
    let mut command = Command::new(helio_binary());
    // The device of the first line has that name already.
    let refused = run(command.args(["lab", "wan", "--left", &name, "--right", &right]));
    assert!(refused.expect_failure().contains("cannot make the device wan0 in "));
    assert!(left.exists(), "it was not the refused line's to remove");
    assert!(!left.with_file_name(right).exists(), "what the refused line made is gone");
    own.wan.terminate();
    eventually(DEADLINE, "its own end", || (!left.exists()).then_some(()));
}

#[test]
fn without_privilege_it_says_what_is_lacking_and_what_needs_none() {
    require!("setpriv");
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(helio_binary());
    let Some(_root) = lay(&[]) else { return };
    let said = run(command.args(["lab", "wan"])).expect_failure();
    assert!(said.contains("CAP_NET_ADMIN") && said.contains("CAP_SYS_ADMIN"), "{said}");
    assert!(said.contains("helio lab relay"), "{said}");
}
