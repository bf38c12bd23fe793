// SPDX-License-Identifier: Apache-2.0
//! Taking the control socket's place in the file system.

use anyhow::{Context, Result, bail};
use helio_driver::listen_for_owner;
use std::os::unix::net::UnixStream;
use std::path::Path;
use tokio::net::UnixListener;

/// Connections the kernel keeps until they are accepted.
const WAITING_MOST: u16 = 64;

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

fn private(path: &Path) -> Result<UnixListener> {
    let listener = listen_for_owner(path, WAITING_MOST)?;
    listener.set_nonblocking(true)?;
    Ok(UnixListener::from_std(listener)?)
}
