// SPDX-License-Identifier: Apache-2.0
//! How much memory this process may have: the least of what the host has and what its limits and its control groups allow.
//!
//! The limits of the groups above its own one apply, too. In a container the group of the process may lie above the part of the hierarchy
//! that is mounted there; then the limits of the mount apply.

use helio_units::Bytes;
use rustix::process::{Resource, getrlimit};
use std::path::{Path, PathBuf};

/// Version 1 reports at least this for a group without a limit.
const ENDLESS: u64 = i64::MAX as u64 - (1 << 20);

/// The least of all limits.
pub(crate) fn memory(host: Bytes) -> Bytes {
    let of_process = [Resource::As, Resource::Data].map(|it| getrlimit(it).current);
    let [groups, mounts] = ["/proc/self/cgroup", "/proc/self/mountinfo"]
        .map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let of_groups = of_control_groups(&groups, &mounts, &read);
    let limits = of_process.into_iter().flatten().chain(of_groups.map(|limit| limit.0));
    Bytes(limits.chain([host.0]).min().unwrap_or(host.0))
}

/// A hierarchy of control groups that limits memory.
struct Hierarchy {
    /// The group of this process, from the root of the hierarchy.
    group: PathBuf,
    /// Which part of it is mounted, and where.
    root: PathBuf,
    mounted: PathBuf,
    files: &'static [&'static str],
}

/// The least limit of the groups that a process is in, by the text of `/proc/self/cgroup` and of `/proc/self/mountinfo` (proc(5)). The
/// files are those of version 1 and 2 of the kernel's interface (`admin-guide/cgroup-v1/memory`, `admin-guide/cgroup-v2`).
fn of_control_groups(
    groups: &str,
    mounts: &str,
    read: &dyn Fn(&Path) -> Option<String>,
) -> Option<Bytes> {
    let limits = mounts.lines().filter_map(|line| hierarchy(groups, line));
    limits.filter_map(|found| found.limit(read)).min()
}

/// The hierarchy of a mount, if it limits memory.
fn hierarchy(groups: &str, mount: &str) -> Option<Hierarchy> {
    let (place, kind) = mount.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, mounted) = (place.next()?, place.next()?);
    let mut kind = kind.split(' ');
    let (files, controller): (&'static [&str], _) = match kind.next()? {
        "cgroup2" => (&["memory.max", "memory.high"], ""),
        "cgroup" if kind.nth(1)?.split(',').any(|it| it == "memory") => {
            (&["memory.limit_in_bytes"], "memory")
        }
        _ => return None,
    };
    let group = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let ours = parts.next()?.split(',').any(|it| it == controller);
        parts.next().filter(|_| ours)
    });
    let [group, root, mounted] = [group?, &unescaped(root), &unescaped(mounted)].map(PathBuf::from);
    Some(Hierarchy { group, root, mounted, files })
}

/// A path of `mountinfo`, in which blanks and backslashes are octal numbers.
fn unescaped(path: &str) -> String {
    let mut parts = path.split('\\');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut path, part| {
        let code = part.get(..3).and_then(|code| u8::from_str_radix(code, 8).ok());
        match code {
            Some(code) => path.extend([char::from(code)].into_iter().chain(part[3..].chars())),
            None => path.extend(['\\'].into_iter().chain(part.chars())),
        }
        path
    })
}

impl Hierarchy {
    fn limit(&self, read: &dyn Fn(&Path) -> Option<String>) -> Option<Bytes> {
        let below = match self.group.strip_prefix(&self.root) {
            Ok(below) => below,
            // Of a container whose own names for the groups begin elsewhere: the mount is what it sees of them.
            Err(_) if [&self.group, &self.root].iter().any(|it| it.starts_with("/..")) => {
                Path::new("")
            }
            // A part of the hierarchy that this process is not in.
            Err(_) => return None,
        };
        let leaf = self.mounted.join(below);
        let folders = leaf.ancestors().take_while(|folder| folder.starts_with(&self.mounted));
        let paths = folders.flat_map(|folder| self.files.iter().map(|file| folder.join(file)));
        // The one at the root has no such file, and `max` is no limit.
        let limits = paths.filter_map(|path| read(&path)?.trim().parse().ok());
        limits.filter(|limit| *limit < ENDLESS).min().map(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "35 32 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                         36 32 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
    const SECOND: &str =
        "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n";

    /// The limit under these files.
    fn limit(groups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<u64> {
        let read = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| format!("{text}\n"))
        };
        of_control_groups(groups, mounts, &read).map(|limit| limit.0)
    }

    #[test]
    fn the_least_limit_of_a_group_and_those_above_it_counts() {
        let unit = "0::/system.slice/heliograph.service\n";
        let files = [
            ("/sys/fs/cgroup/system.slice/heliograph.service/memory.max", "max"),
            ("/sys/fs/cgroup/system.slice/heliograph.service/memory.high", "300000000"),
            ("/sys/fs/cgroup/system.slice/memory.max", "200000000"),
            ("/sys/fs/cgroup/another.slice/memory.max", "1000"),
        ];
        assert_eq!(limit(unit, SECOND, &files), Some(200_000_000));
        assert_eq!(limit(unit, SECOND, &files[..2]), Some(300_000_000));
        assert_eq!(limit(unit, SECOND, &files[..1]), None);
        assert_eq!(limit(unit, "", &files), None);
    }

    #[test]
    fn the_first_version_has_a_hierarchy_for_memory_and_a_number_for_no_limit() {
        let groups = "4:memory:/docker/abc\n3:cpuset,cpu:/docker/abc\n0::/\n";
        let leaf = "/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes";
        let files = [(leaf, "134217728"), ("/sys/fs/cgroup/cpu/docker/abc/memory.max", "1")];
        assert_eq!(limit(groups, FIRST, &files), Some(134_217_728));
        assert_eq!(limit(groups, FIRST, &[(leaf, "9223372036854771712")]), None);
    }

    #[test]
    fn in_a_container_the_mount_is_the_group() {
        let mount = FIRST.replace("0:32 / ", "0:32 /docker/abc ");
        let files = [("/sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728")];
        assert_eq!(limit("4:memory:/docker/abc\n", &mount, &files), Some(134_217_728));
        // Its own names for the groups begin elsewhere.
        assert_eq!(limit("4:memory:/../other\n", &mount, &files), Some(134_217_728));
        assert_eq!(limit("4:memory:/docker/other\n", &mount, &files), None, "of another one");
    }

    #[test]
    fn paths_of_mounts_are_unescaped() {
        assert_eq!(unescaped(r"/a\040b/dev\134x2d"), r"/a b/dev\x2d");
        assert_eq!(unescaped(r"/a\9"), r"/a\9");
    }

    #[test]
    fn this_process_has_some_memory_and_no_more_than_its_host() {
        let host = Bytes::gib(1 << 20);
        assert!(memory(host) > Bytes::mib(1) && memory(host) <= host);
    }
}
