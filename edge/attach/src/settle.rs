// SPDX-License-Identifier: Apache-2.0
//! Making a device durable, in a process of its own.
//!
//! A flush ends when who serves the device has done it, and no signal ends it before. In the serving process itself it
//! would keep that process from dying where it is killed meanwhile: its sockets and rings would stay open, the kernel
//! would go on waiting for its answers, and no other daemon could take the device over.

use crate::{loopdev, node};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

/// What this program is called when it is started to do so.
const NAME: &str = "helio-settle";

/// This very program, about to do it to a device. What [`told`] makes of its end is whether that went well.
#[must_use]
pub fn command(device: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    // Who ends the daemon with all of its group need not wait for this one.
    command.arg0(NAME).arg(device).process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Does it, if this process was started for that. To be asked before anything else.
#[must_use]
pub fn asked() -> Option<ExitCode> {
    let mut words = std::env::args_os();
    if words.next()? != NAME {
        return None;
    }
    let done = words.next().map(|device| settle(Path::new(&device)));
    let code = match done {
        Some(Ok(())) => 0,
        Some(Err(error)) => {
            error.raw_os_error().and_then(|code| u8::try_from(code).ok()).unwrap_or(5)
        }
        None => 22,
    };
    Some(ExitCode::from(code))
}

/// How it ended.
///
/// # Errors
/// `EBUSY`: somebody has claimed the device for himself alone: a mounted file system, a mapping, swap, in whatever
/// namespace. Or what is cached could not be written.
pub fn told(status: ExitStatus) -> io::Result<()> {
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code)),
        None => Err(io::Error::other(format!("who flushed it was ended: {status}"))),
    }
}

/// A loop device is given free as well: in between nobody can write to it.
fn settle(device: &Path) -> io::Result<()> {
    let file = node::claim(device)?;
    file.sync_all()?;
    if loopdev::backing_file(device).is_some() { loopdev::clear(&file) } else { Ok(()) }
}
