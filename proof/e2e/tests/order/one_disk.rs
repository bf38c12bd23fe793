// SPDX-License-Identifier: Apache-2.0
//! A disk that both nodes reach, whatever path leads to it: it belongs to one of them.

use helio_e2e::{PATIENCE, begin, wait_level};
use helio_testkit::{LoopDevice, Pair, Plan, TempDir, eventually};
use helio_units::{Bytes, Mode};
use std::fs;
use std::path::Path;

const SIZE: Bytes = Bytes::mib(16);

/// What a node refuses, on both sides: the volumes and one of the paths are named.
fn wait_refused(pair: &Pair, [one, other]: [(&str, &Path); 2]) {
    let names = |(node, path): (&str, &Path), peer: &str| {
        format!("{} of volume data on {node} is a disk of volume data on {peer}", path.display())
    };
    let ways = [names(one, other.0), names(other, one.0)];
    for node in [one.0, other.0] {
        eventually(PATIENCE, "both owners in the status", || {
            let status = pair.status(node).to_string();
            ways.iter().any(|way| status.contains(way)).then_some(())
        });
        // A connection is being tried again now and then.
        eventually(PATIENCE, "both owners in a check", || {
            let told = pair.check(node);
            let found = told.stdout.contains("FAIL  connection of db with ")
                && ways.iter().any(|way| told.stdout.contains(way));
            assert!(!found || !told.status.success(), "{told}");
            found.then_some(())
        });
    }
}

/// The second device shows the same bytes, or a part of them.
#[test]
fn a_disk_that_both_nodes_use_is_refused_whatever_path_leads_to_it() {
    for offset in ["0", "1048576"] {
        let files = TempDir::new();
        let file = files.file("shared", Bytes::mib(32));
        let options = ["--offset", offset];
        let all = LoopDevice::on(&file, &[]).zip(LoopDevice::on(&file, &options));
        let Some((all, part)) = all else { return };
        let plan = Plan::new("db").mode(Mode::Sync).volume("data", SIZE);
        let plan = plan.member("paris", "data", all.path()).member("lyon", "data", part.path());
        let mut pair = plan.start();
        wait_refused(&pair, [("paris", all.path()), ("lyon", part.path())]);
        // Two disks that report one identity: the operator knows better.
        for node in ["paris", "lyon"] {
            pair.daemon(node).terminate();
        }
        let text = fs::read_to_string(pair.config()).expect("it is there");
        let path = format!("\"{}\"", part.path().display());
        let own = text.replace(&path, &format!("{{ path = {path}, own-disk = true }}"));
        assert_ne!(own, text);
        fs::write(pair.config(), own).expect("there is room");
        pair.start("lyon");
        pair.start("paris");
        begin(&pair, "paris");
    }
}

#[test]
fn a_disk_of_the_peer_does_not_become_a_member_while_the_group_is_served() {
    let files = TempDir::new();
    let file = files.file("shared", SIZE);
    let devices = LoopDevice::on(&file, &[]).zip(LoopDevice::on(&file, &[]));
    let Some((first, second)) = devices else { return };
    let plan = Plan::new("db").mode(Mode::Sync).volume("data", SIZE);
    let pair = plan.member("lyon", "data", first.path()).start();
    begin(&pair, "paris");
    wait_level(&pair, "paris");
    let before = fs::read(&file).expect("it is there");
    let add = |path: &Path| {
        let path = path.display().to_string();
        let text = fs::read_to_string(pair.config()).expect("it is there");
        let own = format!("{:?}]", pair.member("paris", "data"));
        let both = own.replace(']', &format!(", {path:?}]"));
        fs::write(pair.config(), text.replace(&own, &both)).expect("there is room");
        let told = pair.helio("paris", &["member", "add", "db/data", &path]).expect_failure();
        fs::write(pair.config(), text).expect("there is room");
        told
    };
    let path = second.path().display();
    let named = format!("{path} of volume data on paris is a disk of volume data on lyon");
    let told = add(second.path());
    assert!(told.contains(&named), "{told}");
    assert!(fs::read(&file).expect("it is there") == before, "it was written");
    // Its file is what the device of lyon shows, which this host sees by itself.
    let told = add(&file);
    assert!(told.contains("it is the backing file of"), "{told}");
    wait_level(&pair, "paris");
}
