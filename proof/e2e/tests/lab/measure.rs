// SPDX-License-Identifier: Apache-2.0
//! The sources' tables through the emulated line. Ignored by default, since they mean something only in a release build
//! on an idle machine:
//! `cargo test -p helio-e2e --test lab -- --ignored --nocapture --test-threads=1`

use crate::common::words;
use helio_testkit::{Side, Told, Wan, helio_binary, run_within, say_skipped};
use serde_json::Value;
use std::time::Duration;

/// How long both ends may take.
const PATIENCE: Duration = Duration::from_secs(240);

/// Runs a primary on the left and a standby on the right.
fn across(line: &Wan, primary: &str, standby: &str) -> [Told; 2] {
    let at = format!("{}:4000", line.address(Side::Left));
    let end = |side, text: String| {
        let mut command = line.command(side, helio_binary());
        command.args(words(&text));
        command
    };
    let commands = [
        end(Side::Left, format!("lab {primary} --local {at} --json")),
        end(Side::Right, format!("lab link standby --remote {at} {standby}")),
    ];
    let run = |mut command| std::thread::spawn(move || run_within(&mut command, PATIENCE));
    commands.map(run).map(|end| end.join().unwrap_or_else(|why| std::panic::resume_unwind(why)))
}

fn rate(line: &Wan, primary: &str, standby: &str) -> f64 {
    let [primary, standby] = across(line, primary, standby);
    standby.expect_success();
    primary.json()["arrived_rate"].as_f64().expect("the standby told")
}

/// Table B-1 of Sun's guide: what a window carries, Mbit/s = KB x 8 / latency / 1024, at most the line's 100. Exact
/// windows, and socket buffers of that nominal size.
#[test]
#[ignore = "measures; see the head of the file"]
fn table_b1() {
    if let Some(lacking) = Wan::lacking() {
        return say_skipped(lacking);
    }
    let mut line = Wan::start(&["--rate", "100Mbit/s", "--queue", "1MB"]);
    println!(
        "| window | RTT | table | exact | of it | buffers | of it |\n|---|---|---|---|---|---|---|"
    );
    for (kib, flush) in [(24, "1KiB"), (256, "8KiB")] {
        for ms in [10, 20, 50, 100, 200] {
            line.tell(&format!("rtt {ms}ms"));
            let table = (f64::from(kib) * 8.0 / (f64::from(ms) / 1e3) / 1024.0).min(100.0);
            let common =
                format!("link primary --mode async --flush {flush} --time 8s --congestion reno");
            let exact = format!("{common} --window {kib}KiB");
            let exact = rate(&line, &exact, "--congestion reno") * 8.0 / 1e6;
            let sizes = format!("--send-buffer {kib}KiB --receive-buffer {kib}KiB");
            let nominal =
                rate(&line, &format!("{common} {sizes}"), &format!("--congestion reno {sizes}"));
            let nominal = nominal * 8.0 / 1e6;
            println!(
                "| {kib} KiB | {ms} ms | {table:.2} | {exact:.2} | {:.2} | {nominal:.2} | {:.2} |",
                exact / table,
                nominal / table
            );
            // Where the line is the limit, headers take their part of it.
            let ruled = if table < 100.0 { exact / table } else { 1.0 };
            assert!((ruled - 1.0).abs() < 0.10, "{kib} KiB at {ms} ms: {exact:.2} of {table:.2}");
        }
    }
}

/// IBM's experiment between Portland and San Francisco: 4.8 MB/s and 32 ms, level from 256 KiB on.
#[test]
#[ignore = "measures; see the head of the file"]
fn portland() {
    if let Some(lacking) = Wan::lacking() {
        return say_skipped(lacking);
    }
    // 4.8 MB/s of payload are 4.98 of packets, which carry 1448 of 1500 bytes.
    let line = Wan::start(&["--rtt", "32ms", "--rate", "4.98MB/s", "--queue", "256KiB"]);
    for (what, more) in [("exact", "--exact"), ("buffers", "")] {
        let search = format!("search --time 8s --most 1MiB --congestion reno {more}");
        let [primary, standby] = across(&line, &search, "--congestion reno");
        standby.expect_success();
        let advice: Value = primary.json();
        for step in advice["steps"].as_array().expect("the table") {
            let kib = step["asked"].as_u64().unwrap_or(0) >> 10;
            println!("{what}: {kib} KiB {:.3} MB/s", step["rate"].as_f64().unwrap_or(0.0) / 1e6);
        }
        println!(
            "{what}: level from {} on, {} recommended",
            advice["plateau"], advice["recommended"]
        );
        if what == "exact" {
            assert_eq!(advice["plateau"], 256 << 10, "{advice}");
        }
    }
}
