// SPDX-License-Identifier: Apache-2.0
//! `helio trace`: what clients sent is what was recorded, request by request, and a recording keeps its bounds.

use crate::common::assert_ended;
use helio_e2e::{begin, group, number, wait};
use helio_nbd::Client;
use helio_testkit::{Dice, Pair, Plan, helio, require, run};
use helio_units::{Bytes, Mode};
use serde_json::Value;
use std::process::Command;
use std::time::Instant;

const SIZE: Bytes = Bytes::mib(4);
const VOLUMES: [&str; 2] = ["data", "log"];

fn pair() -> Pair {
    let plan = Plan::new("db").mode(Mode::Async).volume("data", SIZE).volume("log", SIZE);
    let pair = plan.start();
    begin(&pair, "paris");
    pair
}

fn client(pair: &Pair, volume: &str) -> Client {
    let socket = pair.state("paris").join("nbd.sock");
    Client::connect_unix(socket, &format!("db/{volume}")).expect("the volume is served")
}

/// Begins a recording into the pair's folder.
#[track_caller]
fn start(pair: &Pair, name: &str, more: &[&str]) -> String {
    let path = pair.scratch().join(name).display().to_string();
    let words = [&["trace", "start", "db", "--file", &path][..], more].concat();
    assert_ended(&pair.helio("paris", &words), 0, &["are recorded in", &path]);
    path
}

/// The trace as CSV, remarks and columns apart.
fn lines(pair: &Pair, path: &str) -> Vec<String> {
    let csv = pair.scratch().join("converted.csv").display().to_string();
    helio(&["trace", "convert", path, &csv]).expect_success();
    let text = std::fs::read_to_string(csv).expect("it was written");
    let requests = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    requests.map(str::to_owned).collect()
}

/// Sends one request drawn from the dice, and says how it stands in CSV behind its time.
fn send(client: &mut Client, volume: &str, dice: &mut Dice) -> String {
    let (offset, length) = (dice.below(800) * 4096, (1 + dice.below(16)) * 4096);
    let mut data = vec![7; length as usize];
    let (fua, extent) = (dice.chance(25), format!("{offset},{length}"));
    let durable = u8::from(fua);
    let (sent, line) = match dice.below(8) {
        0 => (client.read(offset, &mut data), format!("read,{extent},0")),
        1 => (client.flush(), "flush,0,0,0".to_owned()),
        2 => (client.trim(offset, Bytes(length), fua), format!("discard,{extent},{durable}")),
        3 => {
            let sent = client.write_zeroes(offset, Bytes(length), fua, false);
            (sent, format!("zero,{extent},{durable}"))
        }
        _ => (client.write(offset, &data, fua), format!("write,{extent},{durable}")),
    };
    sent.expect("it is answered well");
    format!("{volume},{line}")
}

#[test]
fn what_clients_send_is_what_is_recorded_request_by_request() {
    let mut dice = Dice::of_test("what_clients_send_is_recorded");
    let pair = pair();
    let mut clients = VOLUMES.map(|volume| client(&pair, volume));
    send(&mut clients[0], VOLUMES[0], &mut dice);
    let path = start(&pair, "a.trace", &[]);
    let mut sent = Vec::new();
    for _ in 0..600 {
        let at = dice.below(2) as usize;
        sent.push(send(&mut clients[at], VOLUMES[at], &mut dice));
    }
    let status = group(&pair, "paris");
    assert_eq!(number(&status, "/trace/requests"), 600);
    assert_eq!(status["trace"]["ended"], Value::Null);
    let told = pair.helio("paris", &["status", "db", "-v"]).expect_success();
    assert!(told.contains("  trace      recording for "), "{told}");
    let told = pair.helio("paris", &["trace", "stop", "db"]);
    assert_ended(&told, 0, &["600 requests are recorded in", &path]);
    // What comes behind the end is not in it.
    send(&mut clients[0], VOLUMES[0], &mut dice);

    let recorded = lines(&pair, &path);
    let without_time = |line: &String| line.split_once(',').map(|(_, rest)| rest.to_owned());
    assert_eq!(recorded.iter().filter_map(without_time).collect::<Vec<_>>(), sent);
    let shown = helio(&["trace", "show", &path, "--json"]).json();
    assert_eq!((&shown["group"], &shown["format"]), (&"db".into(), &"helio".into()));
    assert_eq!(shown["remarks"], Value::Array(Vec::new()));
    for kind in shown["kinds"].as_array().expect("kinds") {
        let word = format!(",{},", kind["kind"].as_str().expect("a word"));
        let count = sent.iter().filter(|line| line.contains(&word)).count();
        assert_eq!(kind["requests"], count, "{word}");
    }
}

#[test]
fn one_recording_at_a_time_and_each_in_a_file_of_its_own() {
    let pair = pair();
    let trace = |words: &[&str]| pair.helio("paris", &[&["trace"], words].concat());
    assert_ended(
        &trace(&["stop", "db"]),
        1,
        &["no trace of db is being recorded", "hint: start with"],
    );
    let path = start(&pair, "a.trace", &[]);
    assert_ended(
        &trace(&["start", "db"]),
        1,
        &["is already being recorded", "helio trace stop db"],
    );
    assert_ended(&trace(&["stop", "db"]), 0, &["0 requests"]);
    let again = trace(&["start", "db", "--file", &path]);
    assert_ended(&again, 1, &[&path, "File exists", "hint: name a file that does not exist yet"]);
    assert_ended(&trace(&["start", "db", "--limit", "1KiB"]), 1, &["at least 64 KiB"]);
    assert_ended(&trace(&["start", "dbx"]), 1, &["name one of: db"]);
    // Without a name it is below the state directory.
    assert_ended(&trace(&["start", "db"]), 0, &["/paris/traces/db-", "at most 1 GiB"]);
    let lyon = pair.helio("lyon", &["trace", "start", "db"]);
    assert_ended(&lyon, 0, &["this node is secondary"]);
}

#[test]
fn a_recording_ends_at_its_limit_or_time_and_nobody_waits_for_it() {
    let mut dice = Dice::of_test("a_recording_ends");
    let pair = pair();
    let mut client = client(&pair, "data");
    let path = start(&pair, "limit.trace", &["--limit", "64KiB"]);
    let mut sent = 0;
    while group(&pair, "paris")["trace"]["ended"].is_null() {
        for _ in 0..1000 {
            client.read(dice.below(8000) * 512, &mut [0; 512]).expect("it is answered well");
        }
        sent += 1000;
        assert!(sent < 100_000, "64 KiB hold about ten thousand requests");
    }
    let status = group(&pair, "paris");
    assert_eq!(status["trace"]["ended"], "the limit of 64 KiB was reached");
    let length = std::fs::metadata(&path).expect("it is there").len();
    assert!(length <= 64 << 10 && number(&status, "/trace/bytes") == length, "{length}");
    let shown = helio(&["trace", "show", &path, "--json"]).json();
    assert_eq!(shown["remarks"], Value::Array(Vec::new()));
    let kinds = shown["kinds"].as_array().expect("kinds").iter();
    let recorded: u64 = kinds.filter_map(|kind| kind["requests"].as_u64()).sum();
    assert_eq!(number(&status, "/trace/requests"), recorded);
    assert!(recorded > 2000 && recorded <= sent, "{recorded} of {sent}");

    let begun = Instant::now();
    let path = start(&pair, "time.trace", &["--for", "200ms"]);
    send(&mut client, "data", &mut dice);
    let ended = wait(&pair, "paris", "its end", |status| !status["trace"]["ended"].is_null());
    assert_eq!(ended["trace"]["ended"], "its time was over");
    let shown = helio(&["trace", "show", &path, "--json"]).json();
    assert_eq!(shown["kinds"].as_array().map(Vec::len), Some(1));
    let span = shown["span_seconds"].as_f64().expect("a span");
    let most = begun.elapsed().as_secs_f64();
    assert!((0.2..=most).contains(&span), "{span} of {most}");
}

#[test]
fn a_daemon_that_stops_leaves_a_whole_trace_and_a_torn_one_is_told() {
    let mut dice = Dice::of_test("a_daemon_that_stops");
    let mut pair = pair();
    let path = start(&pair, "a.trace", &[]);
    let mut client = client(&pair, "data");
    for _ in 0..50 {
        send(&mut client, "data", &mut dice);
    }
    drop(client);
    assert!(pair.daemon("paris").terminate().success());
    assert_eq!(lines(&pair, &path).len(), 50);
    let bytes = std::fs::read(&path).expect("it is there");
    let torn = pair.scratch().join("torn.trace");
    std::fs::write(&torn, &bytes[..bytes.len() - 60]).expect("there is room");
    let told = helio(&["trace", "show", &torn.display().to_string()]);
    assert_ended(&told, 0, &["remark     it is truncated within a block"]);
    let none = helio(&["trace", "show", &pair.config().display().to_string()]);
    assert_ended(&none, 1, &["unrecognised trace format", "hint: name it with --format"]);
    let csv =
        pair.scratch().write("bad.csv", "time_s,kind,offset_bytes,length_bytes\n0,write,x,1\n");
    let told = helio(&["trace", "show", &csv.display().to_string()]);
    assert_ended(
        &told,
        1,
        &["bad.csv: line 2, field 3 (offset_bytes): \"x\" is not a whole number"],
    );
}

#[test]
fn what_fio_did_is_what_is_recorded() {
    require!("fio");
    let pair = pair();
    let path = start(&pair, "fio.trace", &[]);
    let mut fio = Command::new("fio");
    fio.args(["--name=job", "--ioengine=nbd", "--rw=randrw", "--rwmixread=30", "--bs=8k"]);
    fio.args(["--iodepth=16", "--size=4m", "--norandommap", "--time_based"]);
    fio.args(["--runtime=2", "--output-format=json"]);
    fio.arg(format!("--uri={}", pair.export("paris", "data")));
    // fio tells of its connection in front of the JSON.
    let text = run(&mut fio).expect_success();
    let begins = text.find('{').expect("it tells in JSON");
    let told: Value = serde_json::from_str(&text[begins..]).expect("it tells in JSON");
    pair.helio("paris", &["trace", "stop", "db"]).expect_success();
    let shown = helio(&["trace", "show", &path, "--json"]).json();
    for (kind, ours) in [("read", "read_bytes"), ("write", "write_bytes")] {
        let done = told["jobs"][0][kind]["total_ios"].as_u64().expect("a count");
        assert!(done > 100, "{told:#}");
        let of = &shown[ours];
        assert_eq!((of["count"].as_u64(), of["min"].as_u64()), (Some(done), Some(8192)), "{kind}");
        assert_eq!(of["buckets"].as_array().map(Vec::len), Some(1), "{kind}");
    }
}
