// SPDX-License-Identifier: Apache-2.0
//! `helio lab link`: what simhadr has in our words, and what it lacks.

use crate::common::*;
use helio_netmodel::Profile;
use helio_testkit::{TempDir, Told, eventually, free_port, helio, in_rate, timely};
use helio_wan::{Relay, RelayConfig};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A relay in front of an address, with this round trip.
fn relay(target: SocketAddr, rtt: Duration) -> Relay {
    let profile = Profile { delay: rtt / 2, ..Profile::ideal() };
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let (there, back) = (profile.clone(), profile);
    Relay::start(RelayConfig { listen, target, there, back, seed: 1 }).expect("it listens")
}

/// Runs a primary and standbys with these options besides; what they told as JSON.
fn measure(primary: &str, standbys: &[&str]) -> (Value, Vec<Value>) {
    let at = free_port();
    let first = start(&words(&format!("lab link primary --local {at} --json {primary}")));
    let line = |more: &&str| format!("lab link standby --remote {at} --json {more}");
    let standbys: Vec<_> = standbys.iter().map(|more| start(&words(&line(more)))).collect();
    let join = |end: std::thread::JoinHandle<Told>| end.join().expect("it ran").json();
    (join(first), standbys.into_iter().map(join).collect())
}

#[test]
fn either_end_may_be_first_and_both_tell_the_same_run() {
    for standby_first in [false, true] {
        let at = free_port().to_string();
        let primary = ["lab", "link", "primary", "--local", &at, "--time", "300ms", "--json"];
        let standby = ["lab", "link", "standby", "--remote", &at, "--json"];
        let ends: [Value; 2] = if standby_first {
            let [standby, primary] = both(&standby, &primary);
            [primary.json(), standby.json()]
        } else {
            both(&primary, &standby).map(Told::json)
        };
        let [primary, standby] = ends;
        assert_eq!(
            (primary["mode"].as_str(), standby["mode"].as_str()),
            (Some("nearsync"), Some("nearsync"))
        );
        assert!(primary["bytes"].as_u64() > Some(0));
        assert_eq!(primary["bytes"], standby["bytes"], "all of it arrived");
        assert_eq!(primary["delivered_us"]["count"], primary["flushes"]["count"]);
        let series = primary["series"].as_array().expect("latency over time");
        let shown: u64 = series.iter().filter_map(|point| point["flushes"].as_u64()).sum();
        assert_eq!(Some(shown), primary["flushes"]["count"].as_u64(), "none is missing");
    }
}

#[test]
fn a_flush_takes_the_round_trip_in_the_modes_that_wait_for_it() {
    for (mode, waits) in
        [("sync", true), ("nearsync", true), ("async", false), ("superasync", false)]
    {
        let at = free_port();
        let relay = relay(at, Duration::from_millis(20));
        let primary =
            format!("lab link primary --local {at} --mode {mode} --flushes 20 --flush 8KiB --json");
        let standby = format!("lab link standby --remote {} --json", relay.local_addr());
        let [primary, _] = both(&words(&primary), &words(&standby)).map(Told::json);
        let median = |what: &str| primary[what]["p50"].as_u64().expect("a number");
        assert!(median("delivered_us") >= 19_900, "{mode}: {}", primary["delivered_us"]);
        let (answered, delivered) = (median("answered_us"), median("delivered_us"));
        // A busy machine makes both longer.
        let waited = if waits { answered >= 19_900 } else { answered >= delivered / 2 };
        assert_eq!(waited, waits, "{mode}: {answered} us of {delivered} us");
    }
}

#[test]
fn a_window_is_carried_once_a_round_trip_in_every_mode_that_fills_it() {
    let at = free_port();
    let relay = relay(at, Duration::from_millis(50));
    let primary = format!(
        "lab link primary --local {at} --mode async --flush 2KiB --window 24KiB --time 2s --json"
    );
    let standby = format!("lab link standby --remote {} --json", relay.local_addr());
    let [primary, _] = both(&words(&primary), &words(&standby)).map(Told::json);
    let law = 24_576.0 / 0.050;
    let rate = primary["arrived_rate"].as_f64().expect("the standby told");
    assert!(rate / law < 1.1, "{rate:.0} B/s, and the law says {law:.0}");
    in_rate(rate, law * 0.9, "a window, in B/s,");
}

#[test]
fn several_streams_and_standbys_and_compression_are_measured_at_once() {
    let primary = "--standbys 2 --streams 3 --compress 2.5 --flushes 90 --flush 128KiB";
    let (primary, standbys) = measure(primary, &["", ""]);
    assert_eq!(primary["flushes"]["count"], 90);
    assert_eq!(primary["connections"].as_array().map(Vec::len), Some(6));
    for standby in &standbys {
        assert_eq!(standby["bytes"].as_u64(), Some(90 * 131_072), "each had every flush");
    }
    let of = |what: &str| primary[what].as_f64().expect("a number");
    let ratio = of("bytes") / of("wire_bytes");
    assert!((2.3..2.7).contains(&ratio), "compressed {ratio:.2} times");
}

#[test]
fn a_standby_that_applies_slowly_holds_the_primary_back() {
    let (primary, standbys) =
        measure("--mode async --time 2s --flush 64KiB", &["--apply 4MB/s --room 256KiB"]);
    let rate = primary["arrived_rate"].as_f64().expect("it told");
    assert!(rate / 4e6 < 1.15, "{rate:.0} B/s arrived of 4 MB/s applied");
    in_rate(rate, 4e6 * 0.85, "what a standby applies, in B/s,");
    let blocked = standbys[0]["apply_blocked_us"].as_f64().expect("a number");
    in_rate(blocked, 1e6, "what fills the standby, in us of 2 s that it waited for its disk,");
}

#[test]
fn with_keys_it_speaks_tls_and_strangers_are_sent_away() {
    let folder = TempDir::new();
    let key = |name: &str| {
        let file = folder.path().join(name).to_str().expect("plain letters").to_owned();
        let text = helio(&["key", "new", "--out", &file]).expect_success();
        let public =
            text.split_whitespace().find(|w| w.contains("helio1:")).expect("it is printed");
        (
            file,
            public
                .trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')
                .to_owned(),
        )
    };
    let ((paris, paris_key), (lyon, lyon_key), (nice, _)) =
        (key("paris"), key("lyon"), key("nice"));
    let at = free_port();
    let primary = start(&words(&format!(
        "lab link primary --local {at} --flushes 50 --json --key {paris} --peer-key {lyon_key}"
    )));
    let stranger = format!("lab link standby --remote {at} --key {nice} --peer-key {paris_key}");
    let stranger = start(&words(&stranger)).join().expect("it ran").expect_failure();
    assert!(stranger.contains("TLS with") && stranger.contains("refused"), "{stranger}");
    let standby =
        format!("lab link standby --remote {at} --json --key {lyon} --peer-key {paris_key}");
    let standby = start(&words(&standby)).join().expect("it ran").json();
    let primary = primary.join().expect("it ran");
    assert!(primary.stderr.contains("was refused"), "{primary}");
    assert_eq!(primary.json()["bytes"], standby["bytes"]);
}

#[test]
fn who_speaks_something_else_is_sent_away_and_the_run_goes_on() {
    let at = free_port();
    let primary = start(&words(&format!("lab link primary --local {at} --flushes 5 --json")));
    let mut web =
        eventually(Duration::from_secs(20), "the primary", || TcpStream::connect(at).ok());
    web.write_all(&[b'G'; 64]).expect("it listens");
    let mut answer = Vec::new();
    web.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout is not zero");
    // It may be a reset: what was not read is dropped.
    let _ = timely(web.read_to_end(&mut answer), "the primary to hang up");
    assert!(answer.is_empty(), "nothing is said to strangers");
    let standby = start(&words(&format!("lab link standby --remote {at}")));
    standby.join().expect("it ran").expect_success();
    let primary = primary.join().expect("it ran");
    assert!(primary.stderr.contains("does not use this protocol"), "{primary}");
    assert_eq!(primary.json()["flushes"]["count"], 5);
}

#[test]
fn a_standby_at_something_else_and_one_that_nobody_answers_say_so() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let web = std::thread::spawn(move || {
        let (mut caller, _) = listener.accept().expect("it calls");
        caller.write_all(&[b'x'; 64]).expect("it listens");
        // Until it hangs up, so that what was said is not lost in a reset.
        let _ = caller.read_to_end(&mut Vec::new());
    });
    let wrong = helio(&["lab", "link", "standby", "--remote", &at.to_string()]).expect_failure();
    assert!(wrong.contains("does not use this protocol"), "{wrong}");
    web.join().expect("it ended");
    let nobody = free_port().to_string();
    let wrong = helio(&["lab", "link", "standby", "--remote", &nobody, "--timeout", "200ms"])
        .expect_failure();
    assert!(wrong.contains("no primary responded at") && wrong.contains("refused"), "{wrong}");
    let wrong = helio(&["lab", "link", "primary", "--local", &nobody, "--timeout", "200ms"])
        .expect_failure();
    assert!(wrong.contains("0 of 1 connections arrived"), "{wrong}");
}

#[test]
fn a_primary_that_dies_leaves_a_standby_that_says_so_and_prints() {
    let at = free_port();
    let standby = start(&words(&format!("lab link standby --remote {at}")));
    let mut command = std::process::Command::new(helio_testkit::helio_binary());
    command.args(words(&format!("lab link primary --local {at} --time 600s --target 1MB/s")));
    command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    let mut primary = helio_testkit::Group::spawn(&mut command).expect("helio starts");
    let mut said = primary.take_output().1.expect("it is piped");
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains("connected with") {
        let mut piece = [0; 256];
        let n = said.read(&mut piece).expect("it is piped");
        assert!(n > 0, "{}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&piece[..n]);
    }
    primary.kill();
    let told = standby.join().expect("it ran").expect_failure();
    assert!(told.contains("ended the connection while receiving"), "{told}");
}
