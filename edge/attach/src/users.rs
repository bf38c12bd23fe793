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

/// A file or a device, and what is made of it.
#[derive(Clone, Debug)]
pub struct Used<'a> {
    /// All its paths.
    pub paths: Vec<&'a Path>,
    /// Those of a device, as the mount table has them.
    pub numbers: Option<&'a str>,
}

/// What a process is called; `None` once it has ended.
#[must_use]
pub fn program(process: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// Who uses each of them, other than this process. All processes are looked at once.
#[must_use]
pub fn users_of(all: &[Used<'_>]) -> Vec<Vec<User>> {
    if all.is_empty() {
        return Vec::new();
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let mut found: Vec<Vec<User>> = all.iter().map(|used| below(used, &swaps)).collect();
    let mut namespaces = HashSet::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = process.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let folder = process.path();
        let namespace = fs::read_link(folder.join("ns/mnt")).unwrap_or_default();
        if namespaces.insert(namespace) {
            mounts(&folder, all, &mut found);
        }
        if id == std::process::id() {
            continue;
        }
        let open = open_files(&folder);
        for (used, found) in all.iter().zip(&mut found) {
            if open.iter().any(|path| used.paths.contains(&path.as_path())) {
                found.push(User::Process { id, name: program(id).unwrap_or_default() });
            }
        }
    }
    found
}

/// Devices on top, and swap.
fn below(Used { paths, .. }: &Used<'_>, swaps: &str) -> Vec<User> {
    let mut found = Vec::new();
    for device in paths.iter().filter_map(|path| path.file_name()) {
        let holders = Path::new("/sys/block").join(device).join("holders");
        for holder in fs::read_dir(holders).into_iter().flatten().flatten() {
            found.push(User::Holder(holder.file_name().to_string_lossy().into_owned()));
        }
    }
    let swap = swaps.lines().filter_map(|line| line.split_whitespace().next());
    if swap.into_iter().any(|swap| paths.contains(&Path::new(swap))) {
        found.push(User::Swap);
    }
    found
}

/// What of a mount table is made of these devices. Some file systems have numbers of their own, so that only the
/// source tells.
fn mounts(process: &Path, all: &[Used<'_>], found: &mut [Vec<User>]) {
    let table = fs::read(process.join("mountinfo")).unwrap_or_default();
    let table = String::from_utf8_lossy(&table);
    for line in table.lines().filter_map(Line::read) {
        for (Used { paths, numbers }, found) in all.iter().zip(&mut *found) {
            let ours = *numbers == Some(line.device) || paths.contains(&line.source.as_path());
            let user = User::Mounted(line.place.clone());
            if ours && !found.contains(&user) {
                found.push(user);
            }
        }
    }
}

fn open_files(process: &Path) -> Vec<PathBuf> {
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_that_has_a_file_open_is_named_and_no_user_of_another_file() {
        let [file, other] = [(); 2].map(|()| tempfile::NamedTempFile::new().expect("a file"));
        let used =
            [file.path(), other.path()].map(|path| Used { paths: vec![path], numbers: None });
        assert_eq!(users_of(&used), [[], []]);
        let mut cat = Command::new("cat");
        let open = file.reopen().expect("the same file");
        let mut cat = cat.stdin(Stdio::piped()).stderr(open).spawn().expect("cat is everywhere");
        let found = users_of(&used);
        drop(cat.stdin.take());
        cat.wait().expect("it ends with its input");
        let [first, second] = &found[..] else { panic!("{found:?}") };
        assert!(
            matches!(&first[..], [User::Process { id, .. }] if *id == cat.id()),
            "{first:?} are not just process {}",
            cat.id()
        );
        assert_eq!(second[..], []);
    }
}
