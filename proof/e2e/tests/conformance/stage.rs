// SPDX-License-Identifier: Apache-2.0
//! The stage of the checks: a pair that serves two volumes, one of them thin.

use helio_e2e::begin;
use helio_testkit::{PYTHON, Pair, Plan, Told, eventually, free_port, helio_binary, run};
use helio_units::{Bytes, Mode};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub(crate) const SIZE: Bytes = Bytes::mib(64);
/// Far longer than anything here should take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The checks made in Python.
const CHECKS: &str = include_str!("checks.py");

/// The daemon of paris, whose limits a shell sets first.
pub(crate) fn limited(pair: &Pair, limits: &str) -> Command {
    let script =
        format!("{limits} && exec \"$0\" daemon --node paris --config \"$1\" --state \"$2\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(helio_binary()).arg(pair.config()).arg(pair.state("paris"));
    command
}

/// Volumes `data`, allocated, and `thin`, sparse, of the group `db`; nothing runs yet.
pub(crate) fn prepared() -> Pair {
    let plan = Plan::new("db").mode(Mode::Async).volume("data", SIZE).volume("thin", SIZE);
    let pair = plan.prepare();
    amend(&pair, "volume.thin]\n", "volume.thin]\nsparse = true\n");
    pair
}

/// Changes the configuration's text.
pub(crate) fn amend(pair: &Pair, from: &str, to: &str) {
    let text = std::fs::read_to_string(pair.config()).expect("it was written");
    assert!(text.contains(from), "{from:?} is not in {text}");
    pair.scratch().write("heliograph.toml", &text.replacen(from, to, 1));
}

/// Adds lines to paris' own table, and an address for NBD over TCP.
pub(crate) fn over_tcp(pair: &Pair) -> SocketAddr {
    let address = free_port();
    amend(pair, "[node.paris]\n", &format!("[node.paris]\nnbd = \"{address}\"\n"));
    address
}

/// Both up, paris primary, copies equal.
pub(crate) fn start(mut pair: Pair) -> Pair {
    pair.start("lyon");
    pair.start("paris");
    begin(&pair, "paris");
    pair
}

/// A pair as most checks want it.
pub(crate) fn serving() -> Pair {
    start(prepared())
}

/// A node's NBD socket.
pub(crate) fn socket(pair: &Pair, node: &str) -> PathBuf {
    pair.state(node).join("nbd.sock")
}

/// The command of a check in Python.
pub(crate) fn check_command(pair: &Pair, check: &[&str]) -> Command {
    let script = pair.scratch().write("checks.py", CHECKS);
    let mut command = Command::new(PYTHON);
    command.arg(script).args(check);
    command
}

/// Makes a check in Python.
#[track_caller]
pub(crate) fn check(pair: &Pair, check: &[&str]) {
    run(&mut check_command(pair, check)).expect_success();
}

/// Runs a program.
#[track_caller]
pub(crate) fn tell(program: &str, arguments: &[&str]) -> Told {
    run(Command::new(program).args(arguments))
}

/// A number of a process' status, such as `VmRSS`, in KiB.
pub(crate) fn memory(id: u32) -> u64 {
    let text = std::fs::read_to_string(Path::new("/proc").join(id.to_string()).join("status"));
    let text = text.expect("the daemon lives");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Waits until that many clients use the volume on paris: the daemon has seen the others leave.
#[track_caller]
pub(crate) fn wait_clients(pair: &Pair, count: u64) {
    eventually(PATIENCE, "the clients before to leave", || {
        (pair.status("paris")["groups"][0]["volumes"][0]["clients"] == count).then_some(())
    });
}
