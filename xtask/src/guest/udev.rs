// SPDX-License-Identifier: Apache-2.0
//! Debian's udev, for a guest with systemd on a machine that has none: unpacked, not installed.

use super::told_by;
use std::fs;
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::process::Command;

/// Where it is, by releases of Debian.
const PROGRAM: [&str; 2] = ["usr/bin/udevadm", "bin/udevadm"];

/// Puts it into `udev` of the folder, where neither this machine has it nor it is there yet.
pub(super) fn get(folder: &Path) -> Result<(), String> {
    let (root, new, place) =
        (folder.join("udev"), folder.join("udev.new"), folder.join("packages"));
    if is_in(Path::new("/")) || is_in(&root) {
        return Ok(());
    }
    // What an interrupted run left may be half of it.
    for rest in [&root, &new, &place] {
        remove(rest)?;
    }
    fs::create_dir_all(&place).map_err(|why| failed(&place, &why))?;
    println!("fetching Debian's udev");
    let mut fetch = Command::new("apt-get");
    fetch.current_dir(&place).args(["-q", "-oAPT::Sandbox::User=", "download", "udev"]);
    told_by(&mut fetch).map_err(|why| format!("{why}; `apt-get update` may help"))?;
    let archives = fs::read_dir(&place).map_err(|why| failed(&place, &why))?;
    let archive = archives.flatten().map(|entry| entry.path()).last();
    let archive = archive.ok_or("apt-get said it downloaded udev, and it is not there")?;
    told_by(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&new))?;
    if !is_in(&new) {
        return Err(format!("{} has no udevadm", archive.display()));
    }
    fs::rename(&new, &root).map_err(|why| failed(&root, &why))?;
    remove(&place)
}

fn is_in(root: &Path) -> bool {
    PROGRAM.iter().any(|program| root.join(program).is_file())
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(why) if why.kind() != ErrorKind::NotFound => Err(failed(folder, &why)),
        _ => Ok(()),
    }
}

fn failed(place: &Path, why: &Error) -> String {
    format!("{}: {why}", place.display())
}
