// SPDX-License-Identifier: Apache-2.0
//! What is done to any block device by its node.

use rustix::fs::{major, minor};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A device's numbers, as the mount table writes them.
///
/// # Errors
/// It is not there.
pub fn numbers(node: &Path) -> io::Result<String> {
    let device = rustix::fs::stat(node)?.st_rdev;
    Ok(format!("{}:{}", major(device), minor(device)))
}

/// Opens a device that nobody has claimed for himself alone, and claims it so.
pub(crate) fn claim(node: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_EXCL).open(node)
}

/// Has udev look at a device again, once it has the name that its rules look for.
pub fn announce(node: &Path) {
    let Some(name) = node.file_name() else { return };
    // Without it units wait that name the device; the device itself works.
    let _no_udev_here =
        std::fs::write(Path::new("/sys/class/block").join(name).join("uevent"), "change");
}
