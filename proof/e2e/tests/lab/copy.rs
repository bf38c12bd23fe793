// SPDX-License-Identifier: Apache-2.0
//! The copy experiment, small.

use helio_testkit::{TempDir, helio};

#[test]
fn identical_data_writes_nothing_and_every_kind_of_copy_is_measured() {
    let folder = TempDir::new();
    let path = folder.path().to_string_lossy().into_owned();
    let small = ["--size", "2MiB", "--rounds", "1", "--transfer", "64KiB", "--slow-overhead", "0s"];
    let lab = |more: &[&str]| helio(&[&["lab", "copy", &path][..], &small, more].concat());
    let told = lab(&["--json"]).json();
    let rows = told["rows"].as_array().expect("a list");
    assert_eq!(rows.len(), 12, "{told}");
    for row in rows {
        let written = if row["data"] == "identical" { 0 } else { 2 << 20 };
        assert_eq!(row["written"].as_u64(), Some(written), "{row}");
        assert!(row["auto_bytes_per_second"].as_u64() > Some(0), "{row}");
        assert!(row["fixed"][0]["bytes_per_second"].as_u64() > Some(0), "{row}");
    }
    let text = lab(&[]).expect_success();
    assert!(text.contains("127/128") && text.contains("128, no read-ahead"), "{text}");
    assert_eq!(text.lines().count(), 3 + 12, "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
    for folder in ["none", "/proc"] {
        let why = helio(&["lab", "copy", folder]).expect_failure();
        assert!(why.contains(folder) && why.contains("hint"), "{why}");
    }
    for (option, value) in [("--transfer", "3KiB"), ("--transfer", "2MiB"), ("--rounds", "0")] {
        let why = helio(&["lab", "copy", &path, option, value]).expect_failure();
        assert!(why.contains(option), "{why}");
    }
}
