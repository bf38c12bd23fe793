// SPDX-License-Identifier: Apache-2.0
//! The planner tells what its page says, and every number of the sources in both its languages.

use crate::shell;
use helio_testkit::helio;
use serde_json::Value;

#[test]
fn the_planners_page_goes_as_it_is_told() {
    shell::walk("docs/reference/plan.md");
}

#[test]
fn the_sources_numbers_are_the_same_as_text_and_as_json() {
    let text = helio(&["plan", "examples"]).expect_success();
    let json = helio(&["plan", "examples", "--json"]).expect_success();
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    let examples = json["examples"].as_array().expect("it lists examples");
    assert!(examples.len() >= 100, "{} examples", examples.len());
    for example in examples {
        let word = |key: &str| example[key].as_str().unwrap_or_default().to_owned();
        let verdict = word("verdict");
        let line = text.lines().find(|line| {
            let line = line.trim_start();
            line.starts_with(&word("what")) && line.contains(&word("formula"))
        });
        let line = line.unwrap_or_else(|| panic!("the text lacks {example}"));
        assert!(line.ends_with(&verdict) && line.contains(&word("stated_as")), "{line}: {example}");
        assert!(text.contains(&word("note")), "the text lacks the note of {example}");
    }
    let golden = "2097152 bytes in 12.460158 seconds, 0.168309 MBytes/sec";
    let made =
        examples.iter().filter(|one| one["computed"] == golden && one["verdict"] == "agrees");
    assert_eq!(made.count(), 1, "the simulator's line is made to the letter");
}

#[test]
fn the_known_errata_are_what_differs() {
    let json = helio(&["plan", "examples", "--json"]).expect_success();
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    let examples = json["examples"].as_array().expect("it lists examples");
    let computed = |stated: &str, unit: &str| {
        let found = examples.iter().find(|one| {
            one["stated_as"] == stated && one["unit"] == unit && one["verdict"] == "differs"
        });
        found.and_then(|one| one["computed"].as_f64()).map(|number| number.round() as i64)
    };
    assert_eq!(computed("2048", "B"), Some(2), "2 Kbytes a write");
    assert_eq!(computed("625", "KB"), Some(1250), "twice the product");
    assert_eq!(computed("256", "KiB"), Some(257), "263536 bytes");
    assert_eq!(computed("270", "%"), Some(267));
    assert_eq!(computed("395", "%"), Some(396));
    assert_eq!(computed("1119", "KB"), Some(174), "50 gigabytes, not 500");
}

#[test]
fn what_makes_no_sense_is_refused_by_its_option() {
    let told = helio(&["plan", "window", "--rate", "100Mbit/s", "--rtt", "50"]);
    assert_eq!(told.status.code(), Some(2), "{told}");
    assert!(told.stderr.contains("--rtt") && told.stderr.contains("needs a unit"), "{told}");
    let scan = ["--network", "10MB/s", "--rtt", "1ms", "--disk", "1GB/s", "--disk-overhead", "1ms"];
    let told = helio(&[&["plan", "calculator", "--scan", "/no/such/scan"], &scan[..]].concat());
    assert_eq!(told.status.code(), Some(1), "{told}");
    assert!(told.stderr.contains("--scan /no/such/scan"), "{told}");
}
