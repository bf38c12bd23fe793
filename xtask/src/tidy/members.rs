// SPDX-License-Identifier: Apache-2.0
//! Rule `raw-member`: a member is not the volume while a restore is written, members are merged or a copy runs. Only the files below reach
//! a member of the daemon; whatever hands out its bytes, or its path, asks `Group::settled` or `Group::readable`, which refuse it then.

use super::Finding;
use super::source::Source;
use std::path::Path;

const DAEMON: &str = "app/daemon/src";

/// What reaches a member: its store, or a new one.
const REACHES: [&str; 5] =
    [".store()", "MemberPlan::store", ".stores()", "MemberStore::Open(", "helio_disk::open("];

/// Who may, each with its reason. A test fails for one that no longer does.
const MAY_REACH: [(&str, &str); 17] = [
    ("open.rs", "opens members for the layers"),
    ("open/another.rs", "opens one for the layers while the daemon runs"),
    ("open/members.rs", "judges which disk is which member, before anything is served"),
    ("open/members/record.rs", "asks which members are open, for their stamps"),
    ("open/epochs.rs", "reads and writes stamps, before anything is served"),
    ("adopt/mod.rs", "opens disks that are members of no group yet"),
    ("shard/plan.rs", "says what members are: alignment, disk, path"),
    (
        "shard/group/store.rs",
        "does the operations of the layers, and has the functions that refuse",
    ),
    ("shard/group/epochs.rs", "reads and writes stamps, for the layers"),
    ("shard/group/disks.rs", "asks which disks the members lie on, for the peer"),
    ("shard/group/set.rs", "asks which members are open, for the layers"),
    ("shard/group/costs.rs", "asks which members are open, for the read cost"),
    ("shard/set.rs", "asks which members are open, before another one is opened for the layers"),
    ("shard/replace.rs", "gives the layers another disk"),
    ("shard/clients/catalogue.rs", "asks whether members can give space back"),
    ("shard/show/set.rs", "shows which members are open"),
    ("shard/requests/mod.rs", "reads the copy of a secondary by `Group::readable`"),
];

/// The lines of a file that reach a member, tests apart.
fn reaches(source: &Source) -> impl Iterator<Item = usize> + '_ {
    let found = |line: &str| REACHES.iter().any(|way| line.contains(way));
    source.lines().filter(move |(_, line, test)| !test && found(line)).map(|(at, ..)| at)
}

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let Ok(file) = source.path.strip_prefix(DAEMON) else { return Vec::new() };
    if MAY_REACH.iter().any(|(known, _)| file == Path::new(known)) {
        return Vec::new();
    }
    let hint = "a member is not always the volume: ask `Group::settled` or `Group::readable` for one that is";
    reaches(source).map(|at| Finding::new(&source.path, at, "raw-member", hint)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    fn found(path: &str, text: &str) -> usize {
        check(&Source::read(&Path::new(DAEMON).join(path), text)).len()
    }

    #[test]
    fn a_member_that_is_reached_elsewhere_is_found() {
        for line in ["let it = member.store()?;", "all.filter_map(MemberPlan::store);"] {
            let text = format!("fn f() {{\n    {line}\n}}\n");
            assert_eq!(found("shard/release.rs", &text), 1, "{line}");
            assert_eq!(found("shard/group/store.rs", &text), 0, "{line}");
            let tests = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
            assert_eq!(found("shard/release.rs", &tests), 0, "{line}");
        }
        assert_eq!(found("shard/release.rs", "fn f() { group.settled(volume) }\n"), 0);
    }

    #[test]
    fn every_file_of_the_list_reaches_a_member() {
        let spare = MAY_REACH.iter().filter(|(file, _)| {
            let path = Path::new(DAEMON).join(file);
            let text = std::fs::read_to_string(repo::root().join(&path)).expect("it is there");
            reaches(&Source::read(&path, &text)).next().is_none()
        });
        let spare: Vec<_> = spare.collect();
        assert!(spare.is_empty(), "remove from the list: {spare:?}");
    }
}
