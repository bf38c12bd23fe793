// SPDX-License-Identifier: Apache-2.0
//! File descriptors: enough are provided, or the start is refused; and what happens where none is left all the same.

use crate::stage::{PATIENCE, SIZE, amend, limited, prepared, socket, start};
use helio_nbd::Client;
use helio_testkit::{eventually, require, run};
use std::os::unix::net::UnixStream;
use std::process::Command;

#[test]
fn a_daemon_that_may_run_out_of_descriptors_does_not_start() {
    let pair = prepared();
    let said = run(&mut limited(&pair, "ulimit -n 400")).expect_failure();
    for part in [
        "1024 clients, 1024 connections without an export, 2 members",
        "the hard limit is 400",
        "LimitNOFILE=",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    // The number of clients it names does.
    let most = said.split("`clients = ").nth(1).and_then(|rest| rest.split('`').next());
    let most: u32 = most.expect("a hint").parse().expect("a number");
    amend(&pair, "[node.paris]\n", &format!("[node.paris]\nclients = {}\n", most + 1));
    run(&mut limited(&pair, "ulimit -n 400")).expect_failure();
    amend(&pair, "clients =", "clients = 1 #");
    let mut daemon = helio_testkit::Group::spawn(&mut limited(&pair, "ulimit -n 400")).expect("sh");
    eventually(PATIENCE, "its control socket", || {
        assert!(daemon.ended().is_none(), "it refused");
        pair.state("paris").join("control.sock").exists().then_some(())
    });
}

#[test]
fn the_soft_limit_rises_by_itself() {
    let pair = prepared();
    let mut daemon =
        helio_testkit::Group::spawn(&mut limited(&pair, "ulimit -Sn 128")).expect("sh");
    eventually(PATIENCE, "its control socket", || {
        assert!(daemon.ended().is_none(), "it refused");
        pair.state("paris").join("control.sock").exists().then_some(())
    });
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.id())).expect("reads");
    let soft =
        limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("a limit");
    let soft: u64 = soft.split_whitespace().next().expect("two").parse().expect("a number");
    assert!(soft >= 1024 + 128, "{limits}");
}

#[test]
fn a_listener_without_descriptors_waits_and_continues() {
    require!("prlimit");
    let mut pair = start(prepared());
    let id = pair.daemon("paris").id();
    let path = socket(&pair, "paris");
    let mut client = Client::connect_unix(&path, "db/data").expect("connects");
    let open = || std::fs::read_dir(format!("/proc/{id}/fd")).expect("lives").count();
    let limit = |count: usize| {
        let limit = format!("--nofile={count}:");
        run(Command::new("prlimit").args(["--pid", &id.to_string(), &limit])).expect_success();
    };
    // Somebody takes what was provided at the start away.
    let wide = run(Command::new("prlimit").args([
        "--pid",
        &id.to_string(),
        "--nofile",
        "--output=SOFT",
        "--noheadings",
    ]));
    let wide: usize = wide.expect_success().trim().parse().expect("a number");
    limit(open() + 1);
    let waiting: Vec<UnixStream> =
        (0..20).map(|_| UnixStream::connect(&path).expect("the kernel holds it")).collect();
    eventually(PATIENCE, "the listener's rest", || {
        pair.daemon("paris").log().contains("a connection could not be accepted").then_some(())
    });
    client.write(SIZE.0 - 4096, &[3; 4096], true).expect("those who are in go on");
    limit(wide);
    drop(waiting);
    let mut late = Client::connect_unix(&path, "db/data").expect("it accepts again");
    let mut bytes = [0; 4096];
    late.read(SIZE.0 - 4096, &mut bytes).expect("reads");
    assert_eq!(bytes, [3; 4096]);
}
