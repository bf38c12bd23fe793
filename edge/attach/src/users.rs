// SPDX-License-Identifier: Apache-2.0
//! Who uses a device or a file: mounts in any namespace, swap, mappings on top, processes that have it open. As far as
//! this process may look.

use crate::mount::Line;
use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Programs that open devices for a moment, to see what is on them or whether they are free: udev's, by its version; and
/// those that look through all loop devices, as `mount` does that makes one. What a `mount` leaves is a mount, and told as such.
const LOOKERS: [&str; 7] =
    ["(udev-worker)", "systemd-udevd", "udevd", "blkid", "losetup", "lsblk", "mount"];

/// Somebody who uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// A file system is mounted there.
    Mounted(PathBuf),
    /// It is swap.
    Swap,
    /// A device of that name lies on top.
    Holder(String),
    /// A process has it open.
    Process {
        /// Its number.
        id: u32,
        /// What it is called.
        name: String,
    },
}

impl User {
    /// Whether it only looks: udev, say, opens every device that changed for a moment, to see what is on it.
    #[must_use]
    pub fn only_looks(&self) -> bool {
        matches!(self, Self::Process { name, .. } if LOOKERS.contains(&name.as_str()))
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted(place) => write!(f, "mounted at {}", place.display()),
            Self::Swap => f.write_str("used as swap"),
            Self::Holder(name) => write!(f, "under the device {name}"),
            Self::Process { id, name } => write!(f, "open in {name} (process {id})"),
        }
    }
}

/// Who uses a file or what is made of it, other than this process. `numbers` are a device's, as the mount table has
/// them.
#[must_use]
pub fn users(paths: &[&Path], numbers: Option<&str>) -> Vec<User> {
    let mut found = Vec::new();
    for device in paths.iter().filter_map(|path| path.file_name()) {
        let holders = Path::new("/sys/block").join(device).join("holders");
        for holder in fs::read_dir(holders).into_iter().flatten().flatten() {
            found.push(User::Holder(holder.file_name().to_string_lossy().into_owned()));
        }
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let swap = swaps.lines().filter_map(|line| line.split_whitespace().next());
    if swap.into_iter().any(|swap| paths.contains(&Path::new(swap))) {
        found.push(User::Swap);
    }
    let mut namespaces = HashSet::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = process.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let folder = process.path();
        let namespace = fs::read_link(folder.join("ns/mnt")).unwrap_or_default();
        if namespaces.insert(namespace) {
            mounts(&folder, paths, numbers, &mut found);
        }
        if id != std::process::id() && has_open(&folder, paths) {
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            found.push(User::Process { id, name: name.trim_end().to_owned() });
        }
    }
    found
}

/// What of a mount table is made of these devices. Some file systems have numbers of their own, so that only the
/// source tells.
fn mounts(process: &Path, paths: &[&Path], numbers: Option<&str>, found: &mut Vec<User>) {
    let table = fs::read(process.join("mountinfo")).unwrap_or_default();
    let table = String::from_utf8_lossy(&table);
    for line in table.lines().filter_map(Line::read) {
        let ours = numbers == Some(line.device) || paths.contains(&line.source.as_path());
        let user = User::Mounted(line.place);
        if ours && !found.contains(&user) {
            found.push(user);
        }
    }
}

fn has_open(process: &Path, paths: &[&Path]) -> bool {
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|target| paths.contains(&target.as_path()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_that_has_a_file_open_is_named() {
        let file = tempfile::NamedTempFile::new().expect("a scratch file");
        assert_eq!(users(&[file.path()], None), []);
        let mut cat = Command::new("cat");
        let open = file.reopen().expect("the same file");
        let mut cat = cat.stdin(Stdio::piped()).stderr(open).spawn().expect("cat is everywhere");
        let found = users(&[file.path()], None);
        drop(cat.stdin.take());
        cat.wait().expect("it ends with its input");
        assert!(
            matches!(&found[..], [User::Process { id, .. }] if *id == cat.id()),
            "{found:?} are not just process {}",
            cat.id()
        );
    }
}
