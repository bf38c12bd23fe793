// SPDX-License-Identifier: Apache-2.0
//! The lock that says "this is mine", on the open file description.
//!
//! `flock` would be a safe call, but udev takes it on every block device and qemu does not look at it; the
//! older record locks vanish when any descriptor of the file is closed anywhere in the process. Open file
//! description locks have neither fault, and no safe wrapper.
#![allow(unsafe_code)]

use helio_driver::Errno;
use std::os::fd::{AsFd, AsRawFd};

/// Takes an exclusive lock of a file that is written through this very description, for as long as that is open. A kernel
/// keeps a description open while an operation on it is under way, also behind the end of the process that began it:
/// whoever holds the lock knows that no such operation lands any more.
///
/// `Ok(false)`: somebody else holds a lock that conflicts, in this process or another.
///
/// # Errors
/// The file system keeps no such locks.
pub fn lock_for_writing(fd: impl AsFd) -> std::io::Result<bool> {
    try_lock(fd).map_err(|errno| std::io::Error::from_raw_os_error(errno.raw_os_error()))
}

/// Takes an exclusive lock of the whole file, for as long as the description is open.
///
/// `Ok(false)`: somebody else holds a lock that conflicts, in this process or another.
pub(crate) fn try_lock(fd: impl AsFd) -> Result<bool, Errno> {
    // The constants are small; their types differ between libc's targets and the struct's fields.
    let whole = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open for the length of the borrow, and the kernel only reads the struct, which
    // outlives the call.
    let answer =
        unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &raw const whole) };
    if answer == 0 {
        return Ok(true);
    }
    let error = std::io::Error::last_os_error();
    match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
        Errno::AGAIN | Errno::ACCESS => Ok(false),
        errno => Err(errno),
    }
}
