// SPDX-License-Identifier: Apache-2.0
//! Sets of disks whose disks lie in several groups, or only in part in one. Order holds inside a group: after a failover
//! the disks of such a set may be of different moments, and the whole of it lost.

use crate::config::Config;
use helio_disk::{DiskSet, MemberIdentity, sets};
use helio_driver::{Host, Mode, OFlags, SeekFrom};
use std::collections::BTreeMap;
use std::path::Path;

/// A volume and a set its member on this node belongs to.
type Part<'a> = ((&'a str, &'a str), DiskSet);

/// What there is to be said of the sets on a node's members; of those alone that touch one group, where it is named.
pub(crate) fn warnings(
    host: &Host,
    config: &Config,
    node: &str,
    only: Option<&str>,
) -> Vec<String> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for (group, config) in &config.groups {
        for (volume, config) in &config.volumes {
            // All members of a volume hold the same.
            let member = config.members_on(node).first();
            let found = member.map(|path| of_store(host, path)).unwrap_or_default();
            parts.extend(found.into_iter().map(|set| ((group.as_str(), volume.as_str()), set)));
        }
    }
    told(&parts, only)
}

/// A disk that cannot be read is of no known set; opening it says what is wrong.
fn of_store(host: &Host, path: &Path) -> Vec<DiskSet> {
    // Opening anything else may wait for somebody.
    if MemberIdentity::of_path(host, path).is_err() {
        return Vec::new();
    }
    let Ok(file) = host.open(path, OFlags::RDONLY, Mode::empty()) else { return Vec::new() };
    let Ok(size) = file.body().seek(SeekFrom::End(0)) else { return Vec::new() };
    sets(size, &mut |offset, into| file.read_exact_at(into, offset).is_ok())
}

fn told(parts: &[Part<'_>], only: Option<&str>) -> Vec<String> {
    let mut by_set: BTreeMap<(helio_disk::SetKind, &str), Vec<&Part<'_>>> = BTreeMap::new();
    for part in parts {
        by_set.entry((part.1.kind, &part.1.id)).or_default().push(part);
    }
    let mut lines = Vec::new();
    for found in by_set.values() {
        let mut groups: Vec<&str> = found.iter().map(|((group, _), _)| *group).collect();
        groups.dedup();
        let names: Vec<String> = found.iter().map(|((g, v), _)| format!("{g}/{v}")).collect();
        let (set, names) = (&found[0].1, names.join(", "));
        let touches = only.is_none_or(|only| groups.contains(&only));
        let most = found.iter().map(|(_, set)| set.disks).max().unwrap_or(1);
        let whole = u64::try_from(found.len()).is_ok_and(|count| count >= most);
        let hint = "put all its disks into one group: the write order holds only within a group";
        if touches && groups.len() > 1 {
            lines.push(format!(
                "{set} is spread over several groups, {}: {names}; {hint}",
                groups.join(", ")
            ));
        } else if touches && !whole {
            lines.push(format!(
                "{set} has {most} disks, and only {} mirrored: {names}; {hint}",
                count(found.len())
            ));
        }
    }
    lines
}

fn count(disks: usize) -> String {
    if disks == 1 { String::from("one is") } else { format!("{disks} are") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_disk::SetKind;

    fn part(group: &'static str, id: &str, disks: u64) -> Part<'static> {
        let set = DiskSet { kind: SetKind::Lvm, id: id.to_owned(), name: Some("vg".into()), disks };
        ((group, "data"), set)
    }

    #[test]
    fn a_set_is_told_of_where_it_is_torn_apart_and_nowhere_else() {
        assert!(told(&[part("a", "x", 1), part("b", "y", 1)], None).is_empty());
        assert!(told(&[part("a", "x", 2), part("a", "x", 2)], None).is_empty(), "both are in one");
        let [line] = &told(&[part("a", "x", 2), part("b", "x", 2)], None)[..] else {
            panic!("one")
        };
        assert!(
            line.contains("the LVM volume group vg (x) is spread over several groups, a, b"),
            "{line}"
        );
        let [line] = &told(&[part("a", "x", 3)], Some("a"))[..] else { panic!("one") };
        assert!(line.contains("has 3 disks, and only one is mirrored: a/data"), "{line}");
        assert!(told(&[part("a", "x", 3)], Some("b")).is_empty(), "it is no business of b");
    }
}
