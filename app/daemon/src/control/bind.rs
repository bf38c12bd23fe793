// SPDX-License-Identifier: Apache-2.0
//! Taking the control socket's place in the file system.

use anyhow::{Context, Result, bail};
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::unix::net::UnixStream;
use std::path::Path;
use tokio::net::UnixListener;

/// Connections the kernel keeps until they are accepted.
const WAITING_MOST: i32 = 64;

/// Takes the control socket: a dead daemon's is removed, a live one's is respected. Only its owner can ever connect.
///
/// # Errors
/// Another daemon answers on it, or it cannot be made.
pub fn bind(path: &Path) -> Result<UnixListener> {
    if UnixStream::connect(path).is_ok() {
        bail!(
            "another helio daemon uses {}\n  hint: stop it, or give this one its own --state",
            path.display()
        );
    }
    if path.exists() {
        std::fs::remove_file(path).with_context(|| path.display().to_string())?;
    }
    private(path).with_context(|| path.display().to_string())
}

/// A listening socket of mode 0600. Linux gives a socket's file the mode that the socket had before, so there is no
/// moment in which another user could connect.
fn private(path: &Path) -> Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, WAITING_MOST)?;
    Ok(UnixListener::from_std(socket.into())?)
}
