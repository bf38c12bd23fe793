// SPDX-License-Identifier: Apache-2.0
//! What a daemon makes is its owner's alone.

use helio_e2e::begin;
use helio_testkit::Plan;
use helio_units::Bytes;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Everything in a folder and below, with its mode.
fn walk(folder: &Path, found: &mut Vec<(String, u32)>) {
    let metadata = folder.metadata().expect("it is there");
    found.push((folder.display().to_string(), metadata.permissions().mode() & 0o7777));
    if metadata.is_dir() {
        for entry in fs::read_dir(folder).expect("it can be read").flatten() {
            walk(&entry.path(), found);
        }
    }
}

#[test]
fn nothing_in_the_state_directory_is_open_to_others() {
    for plan in [Plan::new("db"), Plan::new("db").keys()] {
        let pair = plan.volume("data", Bytes::mib(4)).start();
        begin(&pair, "paris");
        for node in ["lyon", "paris"] {
            let mut found = Vec::new();
            walk(&pair.state(node), &mut found);
            for name in ["control.sock", "nbd.sock", "lock", "groups/db.meta"] {
                let path = pair.state(node).join(name).display().to_string();
                assert!(found.iter().any(|(found, _)| *found == path), "no {path}: {found:?}");
            }
            for (path, mode) in found {
                let wanted = if Path::new(&path).is_dir() { 0o700 } else { 0o600 };
                assert_eq!(mode, wanted, "{path} has mode {mode:o}");
            }
        }
    }
}
