// SPDX-License-Identifier: Apache-2.0
//! The command lines of IBM's HADR simulator, and what it prints.

use crate::common::*;
use helio_testkit::{
    Group, TempDir, Told, eventually, free_port, helio, helio_binary, in_time, received,
};
use rustix::process::Signal;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The blocks of a primary's output in the sample's order, by how their lines begin.
const BLOCKS: [&str; 26] = [
    "Measured sleep overhead: ",
    "SyncMode = NEARSYNC",
    "flushSize = 32 pages",
    "Simulation run time = 1 seconds",
    "Resolving local host localhost via ",
    "hostname=",
    "address_type=2 address_length=4",
    "address: 127.0.0.1",
    "Resolving remote host localhost via ",
    "Socket property upon creation",
    "Calling setsockopt(SO_SNDBUF)",
    "Calling setsockopt(SO_RCVBUF)",
    "Socket property upon buffer resizing",
    "SO_SNDBUF=128000",
    "SO_RCVBUF=128000",
    "Binding socket to local address.",
    "Listening on local host TCP port ",
    "Connected.",
    "Calling fcntl(O_NONBLOCK)",
    "Calling setsockopt(TCP_NODELAY)",
    "Socket property upon connection",
    "Sending handshake message:",
    "syncMode=NEARSYNC",
    "flushSize=32",
    "connTime=",
    "Sending log flushes. Press Ctrl-C to stop.",
];

/// The number behind a word on the first line that has both.
fn number(text: &str, line: &str, before: &str) -> u64 {
    let line =
        text.lines().find(|l| l.contains(line)).unwrap_or_else(|| panic!("no {line}: {text}"));
    let rest = &line[line.find(before).expect("it is on the line") + before.len()..];
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number behind {before} in {line}"))
}

fn ordered(text: &str, blocks: &[&str]) {
    let mut lines = text.lines();
    for block in blocks {
        assert!(
            lines.any(|line| line.starts_with(block)),
            "{block} is missing or too early: {text}"
        );
    }
}

#[test]
fn the_first_sources_sample_runs_and_prints_its_blocks_in_order() {
    let (one, other) = (free_port().port().to_string(), free_port().port().to_string());
    let primary = format!(
        "simhadr -role primary -lhost localhost -lport {one} -rhost localhost -rport {other} \
         -sockSndBuf 64000 -sockRcvBuf 64000 -flushSize 32 -t 1"
    );
    let standby = format!(
        "simhadr -role standby -lhost localhost -lport {other} -rhost localhost -rport {one} \
         -sockSndBuf 64000 -sockRcvBuf 64000"
    );
    let [primary, standby] = both(&words(&primary), &words(&standby)).map(Told::expect_success);
    ordered(&primary, &BLOCKS);
    ordered(
        &primary,
        &[
            "NEARSYNC: Total ",
            "Distribution of log write size (unit is byte):",
            "Exactly     131072",
            "Distribution of log shipping time (unit is microsecond):",
            "Distribution of congestion duration (unit is microsecond):",
            "Distribution of send size (unit is byte):",
            "Distribution of recv size (unit is byte):",
            "Exactly         48",
        ],
    );
    let sent = number(&primary, "NEARSYNC: Total", "Total");
    assert!(sent > 0 && sent.is_multiple_of(131_072), "whole flushes: {sent}");
    assert_eq!(number(&primary, "bytes sent in", "Total"), sent, "nothing but flushes was sent");
    assert_eq!(number(&standby, "NEARSYNC: Total", "Total"), sent, "all of it arrived");
    assert_eq!(number(&standby, "bytes recv in", "Total"), sent);
    let flushes = number(&primary, " flushes, ", "Total");
    assert_eq!(number(&primary, "bytes recv in", "Total"), flushes * 48, "48 bytes for each");
    assert!(
        standby.contains("Received handshake message:\nsyncMode=NEARSYNC\nflushSize=32\n"),
        "{standby}"
    );
}

#[test]
fn the_second_sources_lines_run_and_the_standby_may_be_first() {
    let (one, other) = (free_port().port().to_string(), free_port().port().to_string());
    let primary = format!(
        "simhadr -lhost localhost -lport {one} -rhost localhost -rport {other} -sockSndBuf 65536 \
         -sockRcvBuf 65536 -role primary -syncmode ASYNC -t 1"
    );
    let standby = format!(
        "simhadr -lhost localhost -lport {other} -rhost localhost -rport {one}  -sockSndBuf 65536 \
         -sockRcvBuf 65536 -role standby"
    );
    let [standby, primary] = both(&words(&standby), &words(&primary)).map(Told::expect_success);
    for text in [&primary, &standby] {
        assert!(text.contains("\nASYNC: Total ") && text.contains(" MBytes/sec\n"), "{text}");
    }
    let total = |text| number(text, "ASYNC: Total", "Total");
    assert_eq!(total(&primary), total(&standby));
    assert!(total(&primary) > 0);
}

#[test]
fn sigint_on_the_primary_ends_the_run_and_both_sides_print() {
    let port = free_port().port().to_string();
    let ends = format!("-lhost 127.0.0.1 -lport {port} -rhost 127.0.0.1 -rport {port}");
    let standby = start(&words(&format!("simhadr -role standby {ends}")));
    let line = format!("simhadr -role primary {ends} -t 600 -target 1 -syncmode sync -verbose");
    let mut command = Command::new(helio_binary());
    command.args(words(&line)).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut primary = Group::spawn(&mut command).expect("helio starts");
    let mut output = primary.take_output().0.expect("it is piped");
    let (said, heard) = std::sync::mpsc::sync_channel(1);
    let reader = std::thread::spawn(move || {
        let (mut text, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(n @ 1..) = output.read(&mut piece) {
            text.extend_from_slice(&piece[..n]);
            if String::from_utf8_lossy(&text).contains("recv: 48 bytes") {
                let _ = said.try_send(());
            }
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    received(&heard, Duration::from_secs(30), "an acknowledged flush");
    primary.signal(Signal::INT);
    let status = primary.wait_end(Duration::from_secs(30), "the primary");
    assert!(status.success(), "{status}");
    let primary = reader.join().expect("it was read");
    let standby = standby.join().expect("it ran").expect_success();
    for text in [&primary, &standby] {
        assert!(text.contains("\nSYNC: Total ") && text.contains("recv calls"), "{text}");
    }
}

#[test]
fn what_is_wrong_is_told_and_without_options_all_are_listed() {
    let help = helio(&["simhadr"]).expect_success();
    for word in ["64 bit", "-hadrBufSize", "-testSleep", "-rcu", "-target"] {
        assert!(help.contains(word), "{word}: {help}");
    }
    let wrong = helio(&words("simhadr -role primary -lhost a -lport http")).expect_failure();
    assert!(wrong.contains("-lport needs a port number") && wrong.contains("http"), "{wrong}");
    let slept = helio(&words("simhadr -testSleep 0.002 -spin 0.001")).expect_success();
    let spans = slept.lines().filter_map(|line| {
        line.strip_prefix("Requested 0.002000 second, slept ")?.split(' ').next()?.parse().ok()
    });
    let mut spans: Vec<f64> = spans.collect();
    spans.sort_by(f64::total_cmp);
    assert!(spans.len() == 10 && spans[0] >= 0.002, "{slept}");
    in_time(
        Duration::from_secs_f64(spans[0]),
        Duration::from_millis(3),
        "the shortest of ten sleeps",
    );
}

#[test]
fn a_disk_is_written_and_read_and_one_that_is_thought_up_costs_its_time() {
    let folder = TempDir::new();
    let file = folder.path().join("trial");
    let file = file.to_str().expect("plain letters");
    let written = helio(&["simhadr", "-write", file, "-flushSize", "4", "-n", "10", "-cache"]);
    let written = written.expect_success();
    assert!(
        written.contains("Total 163840 bytes written in ")
            && written.contains("Exactly      16384"),
        "{written}"
    );
    let read = helio(&["simhadr", "-read", file, "-flushSize", "4", "-cache"]).expect_success();
    assert!(read.contains("Total 163840 bytes read in "), "{read}");
    assert!(std::fs::metadata(file).is_ok(), "the file is left for inspection");

    // 10 MB/s and 10 ms: 16.55 ms for a flush of 64 KiB, before and behind the link in SYNC: 33.1 ms.
    let port = free_port().port().to_string();
    let ends =
        format!("-lhost 127.0.0.1 -lport {port} -rhost 127.0.0.1 -rport {port} -disk 10 0.01");
    let primary = format!("simhadr -role primary {ends} -syncmode sync -n 20");
    let [primary, _] = both(&words(&primary), &words(&format!("simhadr -role standby {ends}")));
    let text = primary.expect_success();
    let line = text.lines().find(|line| line.contains(" sec/flush")).expect("it is printed");
    let each: f64 = line.split(' ').nth(3).and_then(|word| word.parse().ok()).expect("a number");
    assert!(each >= 0.0331, "{line}");
    in_time(Duration::from_secs_f64(each), Duration::from_millis(45), "a flush of 33.1 ms");
}

#[test]
fn an_end_that_nobody_calls_ends_on_a_signal() {
    let port = free_port().port().to_string();
    let line =
        format!("simhadr -role primary -lhost 127.0.0.1 -lport {port} -rhost 127.0.0.1 -rport 1");
    let mut command = Command::new(helio_binary());
    command.args(words(&line)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut primary = Group::spawn(&mut command).expect("helio starts");
    let address = format!("127.0.0.1:{port}");
    eventually(Duration::from_secs(20), "the primary to listen", || {
        std::net::TcpStream::connect(&address).ok()
    });
    primary.signal(Signal::INT);
    let status = primary.wait_end(Duration::from_secs(20), "the primary");
    assert_eq!(status.code(), Some(1));
}

#[test]
fn an_option_that_changes_nothing_here_is_told_beside_the_samples_blocks() {
    let told = helio(&["simhadr", "-testSleep", "0.001", "-bind", "-hadrBufSize", "4"]);
    assert_eq!(told.status.code(), Some(0), "{told}");
    for option in ["-bind", "-hadrBufSize"] {
        let line = format!("warning: {option} changes nothing here: ");
        assert!(told.stderr.contains(&line) && !told.stdout.contains(&line), "{told}");
    }
}

#[test]
fn a_value_out_of_bounds_is_told_with_its_option_and_what_to_write() {
    let primary = ["lab", "link", "primary", "--local", "127.0.0.1:1"];
    for (option, value, words) in [
        ("--flush", "0B", "must be from 64 B to 64 MiB"),
        ("--streams", "0", "must be a whole number from 1 to 64"),
        ("--flushes", "0", "must be a whole number of at least 1"),
        ("--compress", "0.5", "must be a number from 1 to 20"),
        ("--target", "0MB/s", "must be greater than zero"),
        ("--remote", "lyon", "expected HOST:PORT"),
    ] {
        let told = helio(&[&primary[..], &[option, value]].concat());
        assert_eq!(told.status.code(), Some(2), "{told}");
        assert!(told.stderr.contains(option) && told.stderr.contains(words), "{told}");
    }
}
