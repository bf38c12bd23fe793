// SPDX-License-Identifier: Apache-2.0
//! What the stories do to a pair again and again, and what they wait for.

use crate::image::Image;
use helio_netmodel::Profile;
use helio_testkit::{Pair, Plan, Told, eventually, eventually_from, free_port, run};
use helio_units::Rate;
use helio_wan::{Relay, RelayConfig};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a state may take to come; far longer than it should.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The other node of the pair.
#[must_use]
pub fn other(node: &str) -> &'static str {
    if node == "lyon" { "paris" } else { "lyon" }
}

/// What a node says of the pair's group.
///
/// # Panics
/// Where it says nothing.
#[track_caller]
#[must_use]
pub fn group(pair: &Pair, node: &str) -> Value {
    let mut status = pair.status(node);
    let groups = status["groups"].as_array_mut();
    let ours = groups.and_then(|all| all.iter_mut().find(|shown| shown["name"] == pair.group()));
    ours.map(Value::take).unwrap_or_default()
}

/// A number of a node's status, by its path: `/cursors/accepted`.
///
/// # Panics
/// Where there is none.
#[track_caller]
#[must_use]
pub fn number(status: &Value, path: &str) -> u64 {
    match status.pointer(path).and_then(Value::as_u64) {
        Some(number) => number,
        None => panic!("no number at {path} in {status}"),
    }
}

/// Waits until what a node says of its group is as the test wants it, and returns it.
///
/// # Panics
/// Where that does not come; with what it said last.
#[track_caller]
pub fn wait(pair: &Pair, node: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually_from(PATIENCE, &format!("{what} on {node}"), || {
        let status = group(pair, node);
        if wanted(&status) { Ok(status) } else { Err(status) }
    })
}

/// Waits for a state.
///
/// # Panics
/// As `wait`.
#[track_caller]
pub fn wait_state(pair: &Pair, node: &str, state: &str) -> Value {
    wait(pair, node, state, |status| status["state"] == state)
}

/// Waits until the primary is `replicating` and its peer has all of it durable.
///
/// # Panics
/// As `wait`.
#[track_caller]
pub fn wait_level(pair: &Pair, primary: &str) -> Value {
    wait(pair, primary, "replicating, with everything durable at the peer", |status| {
        status["state"] == "replicating"
            && status["cursors"]["accepted"] == status["cursors"]["peer_durable"]
    })
}

/// Runs a verb of `helio`, again while the disk of the metadata is behind: a change that is still being recorded is in its way, as its
/// refusal says.
///
/// # Panics
/// Where the change is never recorded.
#[track_caller]
pub fn answer(pair: &Pair, node: &str, line: &[&str]) -> Told {
    eventually(PATIENCE, "nothing is being recorded", || {
        let told = pair.helio(node, line);
        (!told.stderr.contains("still being recorded")).then_some(told)
    })
}

/// Makes a node of a new pair its primary and waits until the other has its copy.
///
/// # Panics
/// Where that is refused or does not come.
#[track_caller]
pub fn begin(pair: &Pair, primary: &str) {
    wait(pair, primary, "the peer", |status| status["peer"]["connection"] == "connected");
    pair.helio(primary, &["promote", pair.group()]).expect_success();
    wait_level(pair, primary);
}

/// Makes a node of a new pair in mode periodic its primary.
///
/// # Panics
/// Where that is refused or does not come.
#[track_caller]
pub fn begin_periodic(pair: &Pair, primary: &str) {
    wait(pair, primary, "the peer", |status| status["peer"]["connection"] == "connected");
    pair.helio(primary, &["promote", pair.group()]).expect_success();
    wait_state(pair, primary, "periodic");
}

/// Promotes a node whose peer is gone, with the copy that its status offers. Returns whether that is the safe copy.
///
/// # Panics
/// Where the connection does not end, or nothing can be promoted.
#[track_caller]
pub fn take_over(pair: &Pair, node: &str) -> bool {
    let status = wait(pair, node, "the end of the connection", |status| {
        status["peer"]["connection"] != "connected"
    });
    let mut line = vec!["promote", pair.group(), "--force", "--yes"];
    let safe_copy = status["consistent"] != true;
    if safe_copy {
        assert_eq!(status["safe_copy"]["sound"], true, "nothing can be promoted: {status:#}");
        line.push("--restore");
    }
    pair.helio(node, &line).expect_success();
    safe_copy
}

/// What the member of volume `data` holds. Nothing may be writing there.
///
/// # Panics
/// Where it cannot be read.
#[track_caller]
#[must_use]
pub fn member_bytes(pair: &Pair, node: &str) -> Vec<u8> {
    let member = pair.member(node, "data");
    std::fs::read(&member).unwrap_or_else(|why| panic!("{}: {why}", member.display()))
}

/// Returns that long after `begun`.
pub fn pass(begun: Instant, span: Duration) {
    while let Some(rest) = span.checked_sub(begun.elapsed()).filter(|rest| !rest.is_zero()) {
        std::thread::park_timeout(rest);
    }
}

/// Discards a node's copy and history, so that it joins as new: the peer has all data. Its daemon must be down.
///
/// # Panics
/// Where there is none.
#[track_caller]
pub fn forget(pair: &Pair, node: &str) {
    let groups = pair.state(node).join("groups");
    let file = groups.join(format!("{}.meta", pair.group()));
    if let Err(why) = std::fs::remove_file(&file) {
        panic!("cannot remove {}: {why}", file.display());
    }
    // With the rest of a restore the command is refused, and its hint is to move the file away if the peer has all data.
    let _none = std::fs::remove_file(groups.join(format!("{}.before", pair.group())));
    let config = pair.config().display().to_string();
    let line = ["metadata", "create", pair.group(), "--node", node, "--config", &config, "--yes"];
    pair.helio(node, &line).expect_success();
}

/// The image under volume `data` on a node. Nothing may be writing there.
///
/// # Panics
/// Where it cannot be read, or a block comes from no write.
#[track_caller]
#[must_use]
pub fn image(pair: &Pair, node: &str, run: u64) -> Image {
    Image::read(run, &pair.member(node, "data"))
}

/// All bytes of an export of a node, as QEMU reads them.
///
/// # Panics
/// Where it cannot read them.
#[track_caller]
#[must_use]
pub fn exported(pair: &Pair, node: &str, export: &str) -> Vec<u8> {
    let (uri, file) = (pair.export(node, export), pair.scratch().join("exported.raw"));
    let arguments = ["convert", "-f", "raw", "-O", "raw", &uri, &file.display().to_string()];
    run(Command::new("qemu-img").args(arguments)).expect_success();
    std::fs::read(&file).unwrap_or_else(|why| panic!("{}: {why}", file.display()))
}

/// Puts a relay before the pair's one connection: so long a round trip, so many Mbit/s each way.
///
/// # Panics
/// Where it cannot listen.
#[track_caller]
#[must_use]
pub fn relayed(plan: Plan, rtt: Duration, mbit: u64, seed: u64) -> (Plan, Relay) {
    let profile = Profile::wan(rtt, Rate::mbit(mbit));
    let config = RelayConfig {
        listen: free_port(),
        target: plan.dialled(),
        there: profile.clone(),
        back: profile,
        seed,
    };
    let relay = Relay::start(config).unwrap_or_else(|why| panic!("cannot start a relay: {why}"));
    (plan.relay(relay.local_addr()), relay)
}

/// Halts a node's daemon, and returns when none of its threads runs any more: its member is at rest.
///
/// # Panics
/// Where it goes on running.
#[track_caller]
pub fn halt(pair: &mut Pair, node: &str) {
    let daemon = pair.daemon(node);
    daemon.freeze();
    let threads = format!("/proc/{}/task", daemon.id());
    eventually(PATIENCE, "every thread to be halted", || {
        let mut folders = std::fs::read_dir(&threads).ok()?.flatten();
        let halted = |folder: std::fs::DirEntry| {
            std::fs::read_to_string(folder.path().join("stat"))
                .is_ok_and(|stat| stat.contains(") T"))
        };
        folders.all(halted).then_some(())
    });
}

/// How many copies of marked regions a node ever began, as its log tells.
///
/// # Panics
/// Where it was never started.
#[track_caller]
#[must_use]
pub fn copies_begun(pair: &mut Pair, node: &str) -> usize {
    pair.daemon(node).log().matches("resync starts").count()
}
