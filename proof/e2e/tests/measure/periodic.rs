// SPDX-License-Identifier: Apache-2.0
//! What mode periodic sends over a link that is thinner than the write rate, and what `rsync` needs for the same change.
//!
//! `HELIO_PERIOD=30 cargo test -p helio-e2e --test measure periodic -- --nocapture` measures with a hot set of 16 MiB, or 16 MiB of
//! scattered blocks, and a period of 30 s; an ordinary run takes a share of each.

use crate::alone;
use helio_e2e::{
    BLOCK, assert_members_equal, begin_periodic, connect, group, number, relayed, wait,
};
use helio_nbd::Client;
use helio_netmodel::Profile;
use helio_testkit::{Dice, Pair, Plan, TempDir, eventually, free_port, have, run_within, times};
use helio_units::{Bytes, Mode, Rate};
use helio_wan::{Relay, RelayConfig};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

const RTT: Duration = Duration::from_millis(100);
const MBIT: u64 = 10;
/// Writes are made at five times the rate of the link.
const WRITES_A_SECOND: u64 = 5 * MBIT * 1_000_000 / 8 / BLOCK as u64;
const TICKS_A_SECOND: u64 = 50;
const PERIODS: u64 = 3;
const VOLUME: Bytes = Bytes::mib(64);
/// The unit in which the bitmap records what changed.
const REGION: u64 = 64 << 10;

/// The period, and the hot set that fits: 16 MiB for 30 s.
fn setting() -> (Duration, Bytes) {
    let seconds = times("HELIO_PERIOD", 6);
    (Duration::from_secs(seconds), Bytes::mib(16 * seconds / 30))
}

/// Writes blocks of the hot set until `stop` is closed. Returns the number of blocks written.
fn write(mut client: Client, hot: Bytes, mut dice: Dice, stop: &Receiver<()>) -> u64 {
    let (mut data, mut wrote) = (vec![0; BLOCK], 0);
    let tick = Duration::from_millis(1000 / TICKS_A_SECOND);
    while stop.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
        for _ in 0..WRITES_A_SECOND / TICKS_A_SECOND {
            dice.fill(&mut data);
            let at = dice.below(hot.0 / BLOCK as u64) * BLOCK as u64;
            client.write(at, &data, false).unwrap_or_else(|why| panic!("{why}"));
            wrote += 1;
        }
    }
    wrote
}

/// Waits for the next commit, which lowers the lag. Returns the lag before it, in seconds.
fn next_commit(pair: &Pair, period: Duration) -> f64 {
    let mut before = 0.0;
    eventually(period * 4 + Duration::from_secs(20), "a commit", || {
        let age = group(pair, "paris")["lag"]["seconds"].as_f64()?;
        let oldest = std::mem::replace(&mut before, age);
        (age < oldest).then_some(oldest)
    })
}

/// A pair in mode periodic, of which the peer has everything.
#[track_caller]
fn periodic(size: Bytes, period: Duration, seed: u64) -> (Pair, Relay) {
    let plan = Plan::new("db")
        .mode(Mode::Periodic)
        .group_line(&format!("period = \"{}s\"", period.as_secs()))
        .volume("data", size);
    let (plan, relay) = relayed(plan, RTT, MBIT, seed);
    let pair = plan.start();
    begin_periodic(&pair, "paris");
    (pair, relay)
}

#[test]
fn periodic_sends_what_changed_once_and_converges_over_a_thin_link() {
    let _alone = alone();
    let dice = Dice::of_test("periodic_sends_what_changed_once_and_converges_over_a_thin_link");
    let (period, hot) = setting();
    let (pair, relay) = periodic(VOLUME, period, dice.seed());
    let (stop, stopped) = sync_channel(0);
    let client = connect(&pair, "paris");
    let writer = thread::spawn(move || write(client, hot, dice, &stopped));
    next_commit(&pair, period);
    let (begun, sent) = (Instant::now(), relay.control().stats().back.delivered);
    let ages: Vec<f64> = (0..PERIODS).map(|_| next_commit(&pair, period)).collect();
    let (took, sent) = (begun.elapsed(), relay.control().stats().back.delivered - sent);
    drop(stop);
    let wrote = writer.join().expect("the writer ends");
    wait(&pair, "paris", "the last cut", |status| number(status, "/lag/bytes") == 0);
    assert_members_equal(&pair, "data");
    // Every block of the hot set is written many times in a period.
    let distinct = hot.0 * PERIODS;
    let ratio = sent.0 as f64 / distinct as f64;
    println!(
        "periodic: {PERIODS} periods of {period:?} in {took:.1?}; hot set {hot}, {} written, {sent} sent, {ratio:.3} of what \
         differed; the secondary was {ages:.1?} s behind before each commit",
        Bytes(wrote * BLOCK as u64)
    );
    assert!(ratio < 1.1, "{ratio} of what differed was sent");
}

/// Offsets of blocks, of which each is another one: `count` of them.
fn scattered(count: u64, mut next: impl FnMut(u64) -> u64) -> BTreeSet<u64> {
    let mut blocks = BTreeSet::new();
    for n in 0.. {
        if blocks.len() as u64 == count {
            break;
        }
        blocks.insert(next(n));
    }
    blocks
}

/// Writes these blocks once, and waits until the peer has them. Prints what was sent, and returns its ratio to what was written.
fn ship(
    pair: &Pair,
    relay: &Relay,
    dice: &mut Dice,
    (what, blocks): (&str, &BTreeSet<u64>),
) -> f64 {
    let mut client = connect(pair, "paris");
    let before = relay.control().stats();
    let mut data = vec![0; BLOCK];
    for at in blocks {
        dice.fill(&mut data);
        client.write(*at, &data, false).unwrap_or_else(|why| panic!("{why}"));
    }
    wait(pair, "paris", "the last cut", |status| number(status, "/lag/bytes") == 0);
    assert_members_equal(pair, "data");
    let after = relay.control().stats();
    let sent = after.back.delivered - before.back.delivered;
    let digests = after.there.delivered - before.there.delivered;
    let written = Bytes((blocks.len() * BLOCK) as u64);
    let ratio = sent.0 as f64 / written.0 as f64;
    println!("{what}: {written} written, {sent} sent ({ratio:.3}), {digests} sent back");
    ratio
}

#[test]
fn periodic_sends_scattered_blocks_and_not_their_regions() {
    let _alone = alone();
    let mut dice = Dice::of_test("periodic_sends_scattered_blocks_and_not_their_regions");
    let (_, hot) = setting();
    // A block for each region.
    let wide = Bytes(hot.0 * REGION / BLOCK as u64);
    let (pair, relay) = periodic(wide, Duration::from_secs(1), dice.seed());
    let (block, count) = (BLOCK as u64, hot.0 / BLOCK as u64);
    let mut places = dice.fork(1);
    let mut in_region = || places.below(REGION / block) * block;
    let each = scattered(count, |n| n * 5 % (wide.0 / REGION) * REGION + in_region());
    let mut places = dice.fork(2);
    let random = scattered(count, |_| places.below(wide.0 / block) * block);
    let dense = scattered(count, |n| n * block);
    let loads = [
        ("one in each region", &each),
        ("random", &random),
        ("dense", &dense),
        ("one in each region, after dense ones", &each),
    ];
    let ratios = loads.map(|load| ship(&pair, &relay, &mut dice, load));
    assert!(ratios.iter().all(|ratio| *ratio < 1.1), "{ratios:?}");
}

/// A server of `rsync`, until it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = (self.0.kill(), self.0.wait());
    }
}

fn serve(scratch: &TempDir, folder: &Path) -> (Server, std::net::SocketAddr) {
    let address = free_port();
    let config = scratch.write(
        "rsyncd.conf",
        // If root starts it, it writes as another user otherwise.
        &format!(
            "use chroot = no\nuid = {}\n[copy]\npath = {}\nread only = no\n",
            fs::metadata(folder).expect("it was made").uid(),
            folder.display()
        ),
    );
    let port = address.port().to_string();
    let mut command = Command::new("rsync");
    command.args(["--daemon", "--no-detach", "--address=127.0.0.1", "--port", &port]);
    let child = command.arg("--config").arg(config).spawn().expect("rsync starts");
    eventually(Duration::from_secs(10), "rsync", || {
        std::net::TcpStream::connect(address).ok().map(|_| ())
    });
    (Server(child), address)
}

#[test]
fn periodic_beside_rsync() {
    let _alone = alone();
    if !have("rsync") {
        return helio_testkit::say_skipped("rsync");
    }
    let mut dice = Dice::of_test("periodic_beside_rsync");
    let (_, hot) = setting();
    let scratch = TempDir::new();
    let (from, to) = (scratch.join("from"), scratch.join("to"));
    let mut bytes = vec![0; VOLUME.0 as usize];
    dice.fill(&mut bytes);
    for (folder, changed) in [(&to, 0), (&from, hot.0 as usize)] {
        dice.fill(&mut bytes[..changed]);
        fs::create_dir(folder).and_then(|()| fs::write(folder.join("data"), &bytes)).expect("room");
    }
    let (_server, target) = serve(&scratch, &to);
    let profile = Profile::wan(RTT, Rate::mbit(MBIT));
    let (there, back) = (profile.clone(), profile);
    let config = RelayConfig { listen: free_port(), target, there, back, seed: dice.seed() };
    let relay = Relay::start(config).unwrap_or_else(|why| panic!("cannot start a relay: {why}"));
    let mut command = Command::new("rsync");
    command.args(["--inplace", "--no-whole-file", "--ignore-times"]).arg(from.join("data"));
    command.arg(format!("rsync://127.0.0.1:{}/copy/data", relay.local_addr().port()));
    let begun = Instant::now();
    run_within(&mut command, Duration::from_secs(300)).expect_success();
    let sent = relay.control().stats().there.delivered;
    println!(
        "rsync: {sent} sent for {hot} that differed ({:.3}), in {:.1?}",
        sent.0 as f64 / hot.0 as f64,
        begun.elapsed()
    );
    let equal = fs::read(to.join("data")).is_ok_and(|there| there == bytes);
    assert!(equal, "rsync made the copy equal");
}
