// SPDX-License-Identifier: Apache-2.0
//! Debian's udev, for a guest with systemd on a machine that has none: unpacked, not installed.

use super::told_by;
use std::path::Path;
use std::process::Command;

/// Puts it into `udev` of the folder, where it is not there yet.
pub(super) fn get(folder: &Path) -> Result<(), String> {
    let root = folder.join("udev");
    if root.join("bin/udevadm").is_file() {
        return Ok(());
    }
    let place = folder.join("packages");
    let failed = |why: std::io::Error| format!("{}: {why}", place.display());
    std::fs::create_dir_all(&place).map_err(failed)?;
    println!("fetching Debian's udev");
    let mut fetch = Command::new("apt-get");
    fetch.current_dir(&place).args(["-q", "-oAPT::Sandbox::User=", "download", "udev"]);
    told_by(&mut fetch).map_err(|why| format!("{why}; `apt-get update` may help"))?;
    let archives = std::fs::read_dir(&place).map_err(failed)?.flatten().map(|entry| entry.path());
    let archive = archives.last().ok_or("apt-get said it downloaded udev, and it is not there")?;
    told_by(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&root))?;
    std::fs::remove_dir_all(&place).map_err(failed)
}
