// SPDX-License-Identifier: Apache-2.0
//! What needs our own answers before it ends, in processes of its own.
//!
//! A flush of a device ends when who serves the device has done it, and no signal ends it before; nor does one end the
//! opening of a FUSE file, once who serves it has heard of that. In the serving process itself it would keep that process
//! from dying where it is killed meanwhile: its sockets and rings would stay open, the kernel would go on waiting for its
//! answers, and no other daemon could take the device over.

use crate::{AttachError, LoopDevice, loopdev, node};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

/// What this program is called when it is started to make a device durable.
const SETTLE: &str = "helio-settle";
/// And to make a loop device.
const LOOP: &str = "helio-loop";

/// This very program, about to make a device durable. What [`settled`] makes of its end is whether that went well.
#[must_use]
pub fn settle(device: &Path) -> Command {
    let mut command = ourselves(SETTLE);
    command.arg(device).stdout(Stdio::null());
    command
}

/// As [`LoopDevice::on`], of a file that this process serves itself.
///
/// # Errors
/// There are no loop devices here, or the kernel refuses.
pub fn loop_device(backing: &Path, block: u32, read_only: bool) -> Result<LoopDevice, AttachError> {
    let mut command = ourselves(LOOP);
    command.arg(backing).arg(block.to_string()).arg(read_only.to_string());
    command.arg(std::process::id().to_string());
    let told = command.output().map_err(AttachError::at(backing))?;
    understand(backing, &String::from_utf8_lossy(&told.stdout)).unwrap_or_else(|| {
        let error = io::Error::other(format!(
            "the process that makes a loop device was ended: {}",
            told.status
        ));
        Err(AttachError::Io { path: backing.to_owned(), error })
    })
}

fn ourselves(name: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    // Who ends the daemon with all of its group need not wait for this one.
    command.arg0(name).process_group(0).stdin(Stdio::null());
    command
}

/// Does it, if this process was started for something of the kind. To be asked before anything else.
#[must_use]
pub fn asked() -> Option<ExitCode> {
    let mut words = std::env::args_os();
    let name = words.next()?;
    if name == SETTLE {
        let done = words.next().map(|device| make_durable(Path::new(&device)));
        let code = match done {
            Some(Ok(())) => 0,
            Some(Err(error)) => code_of(&error),
            None => 22,
        };
        return Some(ExitCode::from(code));
    }
    if name != LOOP {
        return None;
    }
    let Some(made) = make_loop(words) else { return Some(ExitCode::from(22)) };
    let heard = io::Write::write_all(&mut io::stdout(), tell(&made).as_bytes());
    Some(if heard.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn code_of(error: &io::Error) -> u8 {
    error.raw_os_error().and_then(|code| u8::try_from(code).ok()).unwrap_or(5)
}

/// How making it durable ended.
///
/// # Errors
/// `EBUSY`: somebody has claimed the device for himself alone: a mounted file system, a mapping, swap, in whatever
/// namespace. Or what is cached could not be written.
pub fn settled(status: ExitStatus) -> io::Result<()> {
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code)),
        None => Err(io::Error::other(format!("the process that flushed it was ended: {status}"))),
    }
}

/// A loop device is given free as well: in between nobody can write to it.
fn make_durable(device: &Path) -> io::Result<()> {
    let file = node::claim(device)?;
    file.sync_all()?;
    if loopdev::backing_file(device).is_some() { loopdev::clear(&file) } else { Ok(()) }
}

/// None where the words are not those of [`loop_device`], or who said them is gone.
fn make_loop(mut words: impl Iterator<Item = OsString>) -> Option<Result<LoopDevice, AttachError>> {
    let backing = PathBuf::from(words.next()?);
    let mut rest = words.filter_map(|word| word.into_string().ok());
    let block = rest.next()?.parse().ok()?;
    let read_only = rest.next()?.parse().ok()?;
    let asker = rest.next()?.parse().ok()?;
    // Nobody wants a device of a daemon that died meanwhile, and the next one has looked for them by then.
    set_parent_process_death_signal(Some(Signal::KILL)).ok()?;
    let parent = getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    (parent == asker).then(|| LoopDevice::on(&backing, block, read_only))
}

/// What was made or stands in the way, a fact a line.
fn tell(made: &Result<LoopDevice, AttachError>) -> String {
    let (kind, on, error) = match made {
        Ok(device) => {
            let path = device.path().display();
            return match device.identity() {
                Some([number, inode]) => format!("made\n{path}\n{number} {inode}\n"),
                None => format!("made\n{path}\n"),
            };
        }
        Err(AttachError::NoLoop { culprit, error }) => ("none", culprit.clone(), Some(error)),
        Err(AttachError::Io { path, error }) => ("failed", path.display().to_string(), Some(error)),
        Err(other) => return format!("failed\n\n\n{other}\n"),
    };
    let mut text = format!("{kind}\n{on}\n");
    if let Some(error) = error {
        let code = error.raw_os_error().map_or_else(String::new, |code| code.to_string());
        let _never_fails = write!(text, "{code}\n{error}\n");
    }
    text
}

/// What [`tell`] said of a device on a file; none where it said nothing.
fn understand(backing: &Path, told: &str) -> Option<Result<LoopDevice, AttachError>> {
    let mut lines = told.lines();
    let (kind, on) = (lines.next()?, lines.next()?);
    if kind == "made" {
        let identity = lines.next().and_then(|numbers| {
            let (device, inode) = numbers.split_once(' ')?;
            Some([device.parse().ok()?, inode.parse().ok()?])
        });
        return Some(Ok(LoopDevice::at(PathBuf::from(on), backing).with_identity(identity)));
    }
    let (code, text) = (lines.next()?, lines.next()?);
    let error = code.parse().map_or_else(|_| io::Error::other(text), io::Error::from_raw_os_error);
    let on = on.to_owned();
    Some(Err(if kind == "none" {
        AttachError::NoLoop { culprit: on, error }
    } else {
        AttachError::Io { path: PathBuf::from(on), error }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_loop_device_is_understood() {
        let backing = Path::new("/state/attach/db/data");
        let made = LoopDevice::at(PathBuf::from("/dev/loop7"), backing);
        for made in [made.clone().with_identity(Some([45, 1])), made] {
            let heard = understand(backing, &tell(&Ok(made.clone())));
            assert_eq!(heard.expect("it was told").expect("it was made"), made);
        }
        let busy = || io::Error::from_raw_os_error(libc::EBUSY);
        let other = || io::Error::other("no direct I/O");
        for error in [
            AttachError::NoLoop { culprit: String::from("/dev/loop-control"), error: busy() },
            AttachError::Io { path: PathBuf::from("/dev/loop7"), error: busy() },
            AttachError::Io { path: PathBuf::from("/dev/loop7"), error: other() },
        ] {
            let text = error.to_string();
            let heard = understand(backing, &tell(&Err(error))).expect("it was told");
            assert_eq!(heard.expect_err("it failed").to_string(), text);
        }
        assert!(understand(backing, "").is_none());
        assert!(understand(backing, "made\n").is_none());
    }
}
