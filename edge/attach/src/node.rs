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

/// Makes everything durable that was written to a device, if nobody has claimed it for himself alone: a mounted file
/// system, a mapping, swap, in whatever namespace.
///
/// # Errors
/// `EBUSY`: it is claimed. Or what is cached could not be written.
pub fn settle(node: &Path) -> io::Result<()> {
    let mut options = File::options();
    let file = options.read(true).custom_flags(libc::O_EXCL).open(node)?;
    file.sync_all()
}
