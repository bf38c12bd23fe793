// SPDX-License-Identifier: Apache-2.0
//! What is measured of a disk is what a forecast takes.

use helio_testkit::{TempDir, helio};

#[test]
fn a_forecast_takes_what_was_measured() {
    let folder = TempDir::new();
    let path = folder.path().to_string_lossy().into_owned();
    let whole = helio(&["lab", "disk", &path, "--size", "32MiB", "--json"]).json();
    let disk = whole["disk"].as_str().expect("it tells the fields");
    assert!(whole["lanes"].as_u64() >= Some(1) && whole["bytes_per_second"].as_u64() > Some(0));
    let mut plan = vec!["plan", "forecast", "--synthetic", "rate=200,size=4KiB,for=2s"];
    plan.extend(["--link", "rtt=5ms", "--modes", "sync", "--disk", disk, "--peer-disk", disk]);
    helio(&plan).expect_success();
    // People are told the same, of one's share; nothing stays in the folder.
    let text = helio(&["lab", "disk", &path, "--members", "2"]).expect_success();
    let told = text.lines().last().unwrap_or_default();
    assert!(told.contains("forecast") && told.contains("--disk read="), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
    for (folder, word) in [("none", "none"), ("/proc", "/proc")] {
        let why = helio(&["lab", "disk", folder]).expect_failure();
        assert!(why.contains(word) && why.contains("hint"), "{why}");
    }
    assert!(helio(&["lab", "disk", &path, "--members", "0"]).expect_failure().contains("members"));
    let small = helio(&["lab", "disk", &path, "--size", "1MiB"]).expect_failure();
    assert!(small.contains("--size") && small.contains("16 MiB"), "{small}");
}

#[test]
fn a_mirror_is_measured_beside_its_two_disks() {
    let folder = TempDir::new();
    let path = folder.path().to_string_lossy().into_owned();
    let lab = |more: &[&str]| {
        let small = ["--mirror", "--size", "16MiB", "--writes", "20", "--rtt", "5ms"];
        helio(&[&["lab", "disk", &path][..], &small, more].concat())
    };
    let told = lab(&["--json"]).json();
    let rows = told["rows"].as_array().expect("a list");
    assert_eq!(rows.len(), 6, "{told}");
    for row in rows.iter().filter(|row| row["disk"] != "local") {
        assert!(row["mean_us"].as_f64() >= Some(5000.0), "{row}");
    }
    let text = lab(&[]).expect_success();
    assert!(text.contains("mirrored") && text.contains("566 with SRDF"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
    let why = helio(&["lab", "disk", &path, "--writes", "3"]).expect_failure();
    assert!(why.contains("--mirror"), "{why}");
}
