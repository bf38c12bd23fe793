// SPDX-License-Identifier: Apache-2.0
//! A relay that changes by itself, and recordings without a line below TCP.

use helio_testkit::{Group, TempDir, free_port, helio, helio_binary, in_time, timely};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// A relay with these options, in front of whoever listens; it reads no orders.
fn relay(options: &[&str]) -> (Group, BufReader<ChildStdout>, TcpStream, TcpStream) {
    let target = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = target.local_addr().expect("an address").to_string();
    let mut command = Command::new(helio_binary());
    command.args(["lab", "relay", "--listen", "127.0.0.1:0", "--to", &to]).args(options);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut group = Group::spawn(&mut command).expect("it starts");
    let mut said = BufReader::new(group.take_output().0.expect("it is piped"));
    let first = line(&mut said);
    let at = first.split([' ', ',']).nth(2).expect("an address").to_owned();
    while !line(&mut said).starts_with("commands: ") {}
    let caller = TcpStream::connect(at).expect("it listens");
    let called = target.accept().expect("it calls").0;
    for stream in [&caller, &called] {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout is not zero");
        stream.set_nodelay(true).expect("TCP knows nodelay");
    }
    (group, said, caller, called)
}

fn line(said: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    said.read_line(&mut line).expect("it is text");
    assert!(!line.is_empty(), "it has ended");
    line.trim_end().to_owned()
}

/// Waits for a byte.
#[track_caller]
fn come(to: &mut TcpStream) {
    timely(to.read_exact(&mut [0]), "a byte through the relay").expect("it comes");
}

/// A byte there and back.
fn round(caller: &mut TcpStream, called: &mut TcpStream) {
    caller.write_all(b"x").expect("it is open");
    come(called);
    called.write_all(b"x").expect("it is open");
    come(caller);
}

/// Whether nothing comes for a time much longer than the line is.
fn nothing_comes(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout is not zero");
    let heard = stream.read(&mut [0]);
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout is not zero");
    heard.is_err_and(|why| matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

#[test]
fn a_schedule_freezes_a_relay_again_and_again_and_ends_it() {
    let folder = TempDir::new();
    let file = folder.path().join("storm");
    std::fs::write(&file, "# now and then\n700ms heal\n200ms cut\nrepeat every 1s\n")
        .expect("a scratch folder");
    let path = file.to_str().expect("a plain path");
    let begun = Instant::now();
    let (mut group, mut said, mut caller, mut called) =
        relay(&["--schedule", path, "--at", "1.9s quit"]);
    for (cut, heal, healed) in [("0.2s", "0.7s", 700), ("1.2s", "1.7s", 1700)] {
        let frozen =
            format!("at {cut}, cut: the link is cut: nothing passes, and no connection ends");
        assert_eq!(line(&mut said), frozen);
        caller.write_all(b"y").expect("it is open");
        let nothing = nothing_comes(&mut called);
        in_time(begun.elapsed(), Duration::from_millis(healed), "a look before the link heals");
        assert!(nothing, "it is cut");
        assert_eq!(line(&mut said), format!("at {heal}, heal: the link is up"));
        come(&mut called);
        round(&mut caller, &mut called);
    }
    assert_eq!(line(&mut said), "at 1.9s, quit");
    assert!(group.wait_end(PATIENCE, "the relay").success());
}

#[test]
fn a_relay_replays_weather_and_stands_still_where_nothing_passed() {
    let folder = TempDir::new();
    let file = folder.path().join("link.csv");
    let rows = "0,40,0,3,,0,0,\n0.5,40,0,100,,0,0,\n1,1,0,0,8000,0,0,\n#end,3,1.5\n";
    let names = "at_s,rtt_ms,there_jitter_ms,there_loss_percent,there_rate_kbit,\
                 back_jitter_ms,back_loss_percent,back_rate_kbit";
    std::fs::write(&file, format!("#helio-weather,1\n{names}\n{rows}")).expect("a scratch folder");
    let path = file.to_str().expect("a plain path");
    let laid = Instant::now();
    let (mut group, mut said, mut caller, mut called) = relay(&["--recording", path]);
    let begun = Instant::now();
    round(&mut caller, &mut called);
    assert!(begun.elapsed() >= Duration::from_millis(40), "the first row is there at once");
    let still = "at 0.5s, recording: round trip 40 ms, there no rate limit, nothing passes; back no rate limit";
    assert_eq!(line(&mut said), still);
    caller.write_all(b"z").expect("it is open");
    let nothing = nothing_comes(&mut called);
    in_time(laid.elapsed(), Duration::from_secs(1), "a look while nothing passes");
    assert!(nothing, "nothing passes");
    let last =
        "at 1s, recording: round trip 1 ms, there 8 Mbit/s, queue of 256 KiB; back no rate limit";
    assert_eq!(line(&mut said), last);
    come(&mut called);
    group.signal(Signal::TERM);
    group.wait_end(PATIENCE, "the relay");
}

#[test]
fn a_recording_is_whole_when_it_is_interrupted_and_never_replaces_a_file() {
    let folder = TempDir::new();
    let file = folder.path().join("link.csv");
    let (path, at) = (file.to_str().expect("a plain path"), free_port().to_string());
    let start = |arguments: &[&str]| {
        let mut command = Command::new(helio_binary());
        command.arg("lab").args(arguments).stdout(Stdio::piped()).stderr(Stdio::null());
        Group::spawn(&mut command).expect("it starts")
    };
    // Either may be first.
    let mut recording =
        start(&["record", path, "--remote", &at, "--time", "1h", "--every", "100ms"]);
    let mut answering = start(&["answer", "--local", &at]);
    let mut said = BufReader::new(recording.take_output().0.expect("it is piped"));
    assert!(line(&mut said).starts_with("at 0s: round trip "));
    recording.signal(Signal::INT);
    assert!(recording.wait_end(PATIENCE, "the recording").success());
    answering.signal(Signal::TERM);
    assert!(answering.wait_end(PATIENCE, "helio lab answer").success());
    let text = std::fs::read(&file).expect("it was written");
    helio_netmodel::Weather::read(&text, helio_link::checksum).expect("it is whole");
    let why = helio(&["lab", "record", path, "--remote", &at]).expect_failure();
    assert!(why.contains("exists and is not replaced"), "{why}");
    let why = helio(&["lab", "answer", "--local", "0.0.0.0:0"]).expect_failure();
    assert!(why.contains("--remote"), "{why}");
}

#[test]
fn what_only_a_line_below_tcp_obeys_is_refused_before_a_relay_listens() {
    let relay = ["lab", "relay", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:1"];
    for (order, said) in [
        ("1s loss 1%", "--at number 1, command: `loss 1%`: a relay ends TCP on both sides"),
        ("soon cut", "--at number 1, time: `soon` does not begin with a number"),
        ("1s link t2", "--at number 1, command: `t2` is not a named link; the names are t1, "),
    ] {
        let why = helio(&[&relay[..], &["--at", order]].concat()).expect_failure();
        assert!(why.contains(said), "{why}");
    }
    let why = helio(&[&relay[..], &["--link", "t2"]].concat()).expect_failure();
    assert!(why.contains("possible values: t1, portland, t3, 100baset, atm622, gigabit"), "{why}");
}
