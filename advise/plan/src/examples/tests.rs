// SPDX-License-Identifier: Apache-2.0
//! Every number of the sources, and which of them are not what the sources say.

use super::*;

/// What differs, with what the source says and what it comes to.
const ERRATA: [(&str, &str, f64); 11] = [
    ("ATM622", "75", 77.75),
    ("TABLE 4, 32 KB: improvement", "270", 266.666_7),
    ("TABLE 4, 64 KB: improvement", "395", 396.0),
    ("room for each of 4194304 writes", "2048", 2.0),
    ("buffer for 100 Mbit/s and 50 ms", "625", 1250.0),
    ("socket buffer 263536", "256", 257.359_375),
    ("distance, 2 KB: I/O time", "below 10", 10.656_9),
    ("SRDF, 2 KB: I/O time doubled", "about 2", 2.678_4),
    ("SRDF, 5 KB: I/O time doubled", "about 2", 2.402_1),
    ("memory for 10 sets of 50 GB, as written", "1119", 174.0),
    ("Crucible: 505 writes/s of 16 KiB", "2.07", 8.273_92),
];

fn one(what: &str) -> Example {
    let found: Vec<Example> = examples().into_iter().filter(|one| one.what == what).collect();
    assert_eq!(found.len(), 1, "{what}");
    found.into_iter().next().expect("there is one")
}

#[test]
fn what_differs_is_what_is_known_to_be_wrong_and_says_why() {
    let differing: Vec<Example> =
        examples().into_iter().filter(|one| one.verdict() == Verdict::Differs).collect();
    let names: Vec<&str> = differing.iter().map(|one| one.what).collect();
    assert_eq!(names, ERRATA.map(|(what, ..)| what));
    for (example, (what, stated, computed)) in differing.iter().zip(ERRATA) {
        assert_eq!(example.stated.to_string(), stated, "{what}");
        let Value::Number(number) = example.computed else { panic!("{what} is a number") };
        assert!((number - computed).abs() < 1e-3, "{what}: {number}");
        assert!(!example.note.is_empty(), "{what} needs a reason");
    }
}

#[test]
fn every_cell_of_table_b1_comes_out() {
    let stated = [18.75, 100.0, 9.38, 100.0, 3.75, 40.0, 1.88, 20.0, 0.94, 10.0];
    let cells: Vec<Example> =
        examples().into_iter().filter(|one| one.what.starts_with("TABLE B-1")).collect();
    let told: Vec<Option<f64>> = cells.iter().map(|one| one.stated.figure()).collect();
    assert_eq!(told, stated.map(Some));
    assert!(cells.iter().all(|one| one.verdict() == Verdict::Agrees));
}

#[test]
fn the_golden_line_is_made_to_the_letter() {
    let line = "2097152 bytes in 12.460158 seconds, 0.168309 MBytes/sec";
    assert_eq!(one("the line to look for").computed, Value::Words(line.to_owned()));
}

#[test]
fn approximations_and_measurements_are_told_from_agreement() {
    assert_eq!(one("example 2: time to full").verdict(), Verdict::About);
    assert_eq!(one("Portland, 64k buffer").verdict(), Verdict::Within);
    assert_eq!(one("NEARSYNC: shipping a flush").verdict(), Verdict::Within);
    assert_eq!(one("example 1: time to full").verdict(), Verdict::Agrees);
}

#[test]
fn every_source_has_numbers_and_none_is_told_twice() {
    let all = examples();
    for source in Source::ALL {
        assert!(all.iter().any(|one| one.source == source), "{}", source.name());
    }
    let mut names: Vec<_> = all.iter().map(|one| (one.source.word(), one.what)).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len());
}
