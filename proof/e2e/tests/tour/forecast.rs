// SPDX-License-Identifier: Apache-2.0
//! `helio plan forecast` from a file to a configuration that a daemon takes: as text, JSON, a page and a fragment; and what
//! it says of files and options that are wrong.

use helio_testkit::{Pair, Plan, Told, helio};
use helio_units::{Bytes, Mode};
use serde_json::{Value, json};
use std::fmt::Write;

const LINK: [&str; 2] = ["--link", "rtt=20ms,rate=50Mbit/s"];
const QUEUES: [&str; 2] = ["--queues", "1MiB,8MiB"];

/// Two hundred writes in two seconds, and a flush behind each tenth.
fn workload() -> String {
    let mut csv =
        String::from("#volume,data,1048576\ntime_ms,volume,kind,offset_bytes,length_bytes,fua\n");
    for n in 0..200_u64 {
        let _infallible = writeln!(csv, "{},data,write,{},4096,0", n * 10, n * 37 % 256 * 4096);
        if n % 10 == 9 {
            let _infallible = writeln!(csv, "{},data,flush,0,0,0", n * 10 + 1);
        }
    }
    csv
}

fn pair() -> Pair {
    Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(1)).prepare()
}

fn written(pair: &Pair, name: &str, text: &str) -> String {
    pair.scratch().write(name, text).display().to_string()
}

fn forecast(file: &str, more: &[&str]) -> Told {
    helio(&[&["plan", "forecast", file], &LINK[..], more].concat())
}

/// Ended with that code, and said all of this.
#[track_caller]
fn assert_refused(told: &Told, code: i32, phrases: &[&str]) {
    assert_eq!(told.status.code(), Some(code), "{told}");
    for phrase in phrases {
        assert!(told.stderr.contains(phrase), "it should say `{phrase}`: {told}");
    }
}

#[test]
fn a_recorded_workload_becomes_a_table_json_and_a_page() {
    let pair = pair();
    let file = written(&pair, "work.csv", &workload());
    let page = pair.scratch().join("forecast.html");
    let html = page.display().to_string();
    let text = forecast(&file, &[&QUEUES[..], &["--html", &html]].concat()).expect_success();
    assert!(text.contains("220 requests, 200 of them writes"), "{text}");
    let rows = text.lines().filter(|line| line.trim_start().starts_with(LINK[1]));
    assert_eq!(rows.count(), 6, "three modes with two queues: {text}");

    let json = forecast(&file, &[&QUEUES[..], &["--json"]].concat()).json();
    let cells = json["cells"].as_array().expect("it lists runs");
    assert_eq!(cells.len(), 6);
    for cell in cells {
        let number = |path: &str| {
            let found = cell.pointer(path).and_then(Value::as_f64);
            found.unwrap_or_else(|| panic!("no number at {path}: {cell:#}"))
        };
        assert_eq!((number("/round_trip_us"), number("/rate")), (20_000.0, 6_250_000.0));
        assert_eq!(
            (number("/figures/writes/count"), number("/figures/flushes/count")),
            (200.0, 20.0)
        );
        assert!(number("/figures/writes/p50") <= number("/figures/writes/p99"));
        // A megabyte of writes went over; a write that waits for the peer takes a round trip.
        assert!(number("/figures/sent") >= f64::from(200 * 4096), "{cell:#}");
        let waits = cell["mode"] != "async";
        assert_eq!(number("/figures/writes/p50") >= 20_000.0, waits, "{cell:#}");
        let bound = if cell["queue"] == "1 MiB" { 1 << 20 } else { 8 << 20 };
        assert_eq!(cell["figures"]["queue_bound"], bound);
        assert!(number("/figures/queue_high") <= f64::from(bound));
        assert_eq!(cell["figures"]["ended"], "level");
    }
    // The same seed says the same.
    assert_eq!(
        forecast(&file, &[&QUEUES[..], &["--json"]].concat()).json()["cells"],
        json["cells"]
    );

    let page = std::fs::read_to_string(page).expect("it was written");
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("nearsync") && page.matches("<tr").count() == 7, "six runs below a head");
    for outside in ["http:", "https:", "src=", "href=", "@import", "url("] {
        // The name of SVG is no address that anybody fetches.
        let found = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(outside), "{outside} is fetched from elsewhere");
    }
}

#[test]
fn the_answer_is_a_configuration_that_a_daemon_takes() {
    let mut pair = pair();
    let file = written(&pair, "work.csv", &workload());
    let goal = ["--goal", "latency-p99=10ms,rpo=5s"];
    let words = [&QUEUES[..], &goal, &["--buffers", "256KiB"]].concat();
    let (config, out) = (pair.config().display().to_string(), pair.scratch().join("new.toml"));
    let new = out.display().to_string();
    let change = ["--config", &config, "--group", "db", "--out", &new];
    let told = forecast(&file, &[&words[..], &change, &["--json"]].concat());
    let answer = told.json()["answer"].take();
    assert_eq!(
        (&answer["mode"], &answer["queue"]),
        (&json!("async"), &json!("1 MiB")),
        "{answer:#}"
    );
    let fragment = answer["config"].as_str().expect("it is text").to_owned();
    assert!(fragment.contains("[group.GROUP.queue]\nmemory = \"1048576B\""), "{fragment}");
    assert!(answer["reasons"].to_string().contains("not sync: "), "{answer:#}");

    // The file a daemon runs by, with the fragment pasted behind it, says what the rewritten one does.
    let old = std::fs::read_to_string(pair.config()).expect("it was written");
    let tables = fragment.replace("GROUP", "db").replace("[group.db]\nmode = \"async\"\n", "");
    let pasted = old.replace("mode = \"sync\"", "mode = \"async\"") + "\n" + &tables;
    pair.start("paris");
    for changed in [std::fs::read_to_string(&out).expect("it was written"), pasted] {
        pair.scratch().write("heliograph.toml", &changed);
        let said = pair.helio("paris", &["apply", "--dry-run"]).expect_success();
        assert!(said.contains("mode sync -> async") && said.contains("-> 1 MiB and"), "{said}");
        assert!(said.contains("link"), "socket buffers wait for a restart: {said}");
    }
    pair.start("paris");
    let shown = pair.status("paris")["groups"][0].take();
    assert_eq!(shown["mode"]["requested"], "async", "{shown:#}");

    let most = ["--goal", "latency-p99=1us"];
    assert_eq!(
        forecast(&file, &[&QUEUES[..], &most].concat()).status.code(),
        Some(1),
        "nothing meets it"
    );
}

#[test]
fn files_of_others_are_left_alone_before_anything_runs_and_an_own_page_is_replaced() {
    let pair = pair();
    let file = written(&pair, "work.csv", &workload());
    let theirs = written(&pair, "notes.html", "<!-- somebody's notes -->\n");
    let (empty, toml) = (written(&pair, "empty", ""), written(&pair, "old.toml", "# by hand\n"));
    let config = pair.config().display().to_string();
    let to = |out: &str| {
        let words = ["--goal", "rpo=5s", "--config", &config, "--group", "db", "--out", out];
        forecast(&file, &words)
    };
    let of = |path: &str| std::fs::read_to_string(path).expect("it is there");
    for kept in [&theirs, &empty, &config] {
        let (before, told) = (of(kept), forecast(&file, &["--html", kept]));
        assert_refused(&told, 1, &[kept, "exists and is not replaced", "another file for --html"]);
        assert_eq!((of(kept), told.stdout.as_str()), (before, ""), "nothing ran");
    }
    for kept in [&toml, &config] {
        let (before, told) = (of(kept), to(kept));
        assert_refused(&told, 1, &[kept, "exists and is not replaced", "another file for --out"]);
        assert_eq!((of(kept), told.stdout.as_str()), (before, ""), "nothing ran");
    }
    let nowhere = pair.scratch().join("none/page").display().to_string();
    let told = forecast(&file, &["--html", &nowhere]);
    assert_refused(&told, 1, &["does not exist", "another file for --html"]);
    assert_refused(&forecast(&file, &["--html", "/proc/self"]), 1, &["/proc/self", "--html"]);

    // A page of an earlier forecast is replaced; a configuration never is, whoever wrote it.
    let html = pair.scratch().join("page.html").display().to_string();
    forecast(&file, &["--modes", "sync", "--html", &html]).expect_success();
    let first = of(&html);
    forecast(&file, &["--modes", "async", "--html", &html]).expect_success();
    let second = of(&html);
    assert!(first.contains(">sync<") && !second.contains(">sync<"), "another page");
    assert!(second.starts_with("<!doctype html>") && second.trim_end().ends_with("</html>"));
    let new = pair.scratch().join("new.toml").display().to_string();
    to(&new).expect_success();
    assert_refused(&to(&new), 1, &["new.toml exists and is not replaced"]);
}

#[test]
fn recorded_weather_is_the_link_of_a_forecast_row_by_row() {
    let pair = pair();
    let file = written(&pair, "work.csv", &workload());
    let head = "#helio-weather,1\nat_s,rtt_ms,there_jitter_ms,there_loss_percent,there_rate_kbit,\
                back_jitter_ms,back_loss_percent,back_rate_kbit\n";
    // The later half of the two seconds of writes is twice as far.
    let rows = "0,20,0,0,50000,0,0,50000\n1,40,0,0,50000,0,0,50000\n";
    let weather = written(&pair, "link.csv", &format!("{head}{rows}#end,2,2\n"));
    let of = |link: &str| {
        let words = ["plan", "forecast", &file, "--modes", "sync", "--json", "--link", link];
        helio(&words).json()["cells"][0].take()
    };
    let micros = |cell: &Value, of: &str| {
        let found = cell["figures"]["writes"][of].as_f64();
        found.unwrap_or_else(|| panic!("no {of} in {cell:#}"))
    };
    let told = of(&format!("recording={weather}"));
    assert_eq!((&told["round_trip_us"], &told["rate"]), (&json!(20_000), &json!(6_250_000)));
    let (near, far) = (of("rtt=20ms,rate=50Mbit/s"), of("rtt=40ms,rate=50Mbit/s"));
    assert!(micros(&near, "p99") < 30_000.0 && micros(&far, "p50") > 40_000.0);
    assert!((20_000.0..40_000.0).contains(&micros(&told, "p50")), "half of it is near: {told:#}");
    assert!(micros(&told, "p99") > 40_000.0, "and half of it far: {told:#}");

    // Nothing passes for half of each second: what is written meanwhile waits.
    let rows = "0,20,0,0,50000,0,0,50000\n0.5,20,0,100,50000,0,0,50000\n";
    let storm = written(&pair, "storm.csv", &format!("{head}{rows}#end,2,1\n"));
    let told = of(&format!("recording={storm},relay,repeat"));
    assert!(micros(&told, "p50") < 510_000.0 && micros(&told, "p99") > 400_000.0, "{told:#}");
    assert_eq!(told["figures"]["ended"], "level", "{told:#}");

    // A moment of little rate is no worse than one of nothing: what waited then goes on at the rate of now.
    let rows = rows.replace("0.5,20,0,100,50000", "0.5,20,0,0,50");
    let slow = written(&pair, "slow.csv", &format!("{head}{rows}#end,2,1\n"));
    let told = of(&format!("recording={slow},relay,repeat"));
    assert!(micros(&told, "p99") < 600_000.0, "{told:#}");

    let asked = |link: &str| helio(&["plan", "forecast", &file, "--link", link]);
    assert_refused(&asked("recording=/no/such/file"), 2, &["--link", "cannot read /no/such/file"]);
    assert_refused(
        &asked(&format!("recording={file}")),
        2,
        &["work.csv, line 1", "is not a recording"],
    );
    let brief =
        written(&pair, "brief.csv", &format!("{head}0,20,0,0,50000,0,0,50000\n#end,1,0.05\n"));
    let again = format!("recording={brief},repeat");
    assert_refused(&asked(&again), 2, &["--link", "less than 100 ms", "omit repeat"]);
    let two = format!("recording={weather},recording={brief}");
    assert_refused(&asked(&two), 2, &["brief.csv", "one recording"]);
    let more = format!("recording={weather},rtt=5ms");
    assert_refused(&asked(&more), 2, &["rtt=5ms", "the recording defines the link"]);
}

#[test]
fn a_wrong_line_is_named_with_its_field() {
    let pair = pair();
    let head = "time_ms,kind,offset_bytes,length_bytes\n0,write,0,4096\n";
    let cases = [
        ("unit", head.replace("length_bytes", "length") + "1,write,0,4096\n", "length"),
        ("huge", format!("{head}1,write,0,4294967296\n"), "line 3, field 4 (length_bytes)"),
        ("word", format!("{head}1,wrote,0,4096\n"), "line 3, field 2 (kind)"),
        ("text", format!("{head}soon,write,0,4096\n"), "line 3, field 1 (time_ms)"),
        ("year", format!("{head}99999999999,write,0,4096\n"), "line 3, field 1 (time_ms)"),
        (
            "far",
            format!("{head}1,write,18446744073709551000,4096\n"),
            "line 3, field 3 (offset_bytes)",
        ),
        ("cut", format!("{head}1,write,40"), "line 3"),
    ];
    for (name, text, place) in cases {
        let file = written(&pair, &format!("{name}.csv"), &text);
        assert_refused(&forecast(&file, &[]), 1, &[&format!("{name}.csv: "), place]);
    }
    let empty = written(&pair, "empty.csv", "time_ms,kind,offset_bytes,length_bytes\n");
    assert_refused(&forecast(&empty, &[]), 1, &["empty.csv: it has no requests"]);
    let none = written(&pair, "note.txt", "hello\n");
    assert_refused(&forecast(&none, &[]), 1, &["note.txt", "blkparse"]);
    assert_refused(&forecast("/no/such/trace", &[]), 1, &["/no/such/trace"]);
}

#[test]
fn a_recording_that_was_cut_off_is_read_as_far_as_it_goes_and_says_so() {
    let pair = pair();
    let csv = written(&pair, "work.csv", &workload());
    let whole = pair.scratch().join("work.trace").display().to_string();
    helio(&["trace", "convert", &csv, &whole]).expect_success();
    assert!(
        forecast(&whole, &["--modes", "async"]).expect_success().contains("200 of them writes")
    );
    let bytes = std::fs::read(&whole).expect("it was written");
    let cut = pair.scratch().join("cut.trace");
    std::fs::write(&cut, &bytes[..bytes.len() - 7]).expect("it can be written");
    let told = forecast(&cut.display().to_string(), &["--modes", "async"]).expect_success();
    assert!(
        told.contains("it is truncated within a block") && told.contains("200 of them"),
        "{told}"
    );
    // Its only block of requests is gone.
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).expect("it can be written");
    let told = forecast(&cut.display().to_string(), &["--modes", "async"]);
    assert_refused(&told, 1, &["cut.trace; it is truncated within a block", "has no requests"]);
}

#[test]
fn options_that_make_no_sense_are_refused_by_name() {
    let work = ["plan", "forecast", "--synthetic", "rate=10,size=4KiB,for=1s"];
    let asked = |more: &[&str]| helio(&[&work[..], more].concat());
    for (options, words) in [
        (&["--link", "rtt=20"][..], &["--link", "rtt=20"][..]),
        (&["--link", "rtt=20ms,rate=5"], &["--link", "rate=5"]),
        (&["--link", "rtt=2h"], &["--link", "rtt=2h"]),
        (&["--link", "rtt=1ms", "--queues", "64"], &["--queues", "unit"]),
        (&["--link", "rtt=1ms", "--buffers", "1KiB"], &["--buffers", "at least 4 KiB"]),
        (&["--link", "rtt=1ms", "--modes", "fast"], &["--modes", "sync, nearsync, async"]),
        (&["--link", "rtt=1ms", "--outage", "1s"], &["--outage", "START+DURATION"]),
        (&["--link", "rtt=1ms", "--goal", "latency=5ms"], &["--goal", "latency-p99="]),
        (&["--link", "rtt=1ms", "--disk", "tape"], &["--disk", "tape"]),
        (&[], &["--link"]),
    ] {
        assert_refused(&asked(options), 2, words);
    }
    let drawn = ["plan", "forecast", "--synthetic", "rate=10,size=4,for=1s", "--link", "rtt=1ms"];
    assert_refused(&helio(&drawn), 2, &["--synthetic", "size=4"]);
}
