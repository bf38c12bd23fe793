// SPDX-License-Identifier: Apache-2.0
//! What a process must be that file systems write through: its own memory must not wait for them.
#![allow(unsafe_code)]

use rustix::mm::{MlockAllFlags, mlockall};
use std::io;

/// Of linux/prctl.h.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// Tells the kernel that this thread, and every thread it starts from now on, is on the way of writes to a disk: what it
/// needs of memory is found without writing to disks, and its own writes are not slowed down for those of others.
///
/// # Errors
/// The process has not the right (`CAP_SYS_RESOURCE`), or the kernel is older than 5.6.
pub fn be_flusher() -> io::Result<()> {
    // SAFETY: takes numbers only, and changes nothing but flags of the calling thread.
    let done = unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Keeps everything of this process in memory that ever was there, now and later.
///
/// # Errors
/// The process may not lock that much (`RLIMIT_MEMLOCK`, `CAP_IPC_LOCK`).
pub fn lock_memory() -> io::Result<()> {
    Ok(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)?)
}
