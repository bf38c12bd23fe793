// SPDX-License-Identifier: Apache-2.0
//! Why there is no device.

use std::io;
use std::path::PathBuf;

/// What stands in the way.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// This process cannot use FUSE.
    #[error("FUSE cannot be used: {culprit}: {error}")]
    NoFuse {
        /// What was tried.
        culprit: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// This process cannot make loop devices; the file works all the same.
    #[error("loop devices cannot be used: {culprit}: {error}")]
    NoLoop {
        /// What was tried.
        culprit: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// This process cannot use ublk.
    #[error("ublk cannot be used: {culprit}: {error}")]
    NoUblk {
        /// What was tried.
        culprit: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// This process cannot use the kernel's NBD client.
    #[error("the kernel's NBD client cannot be used: {culprit}: {error}")]
    NoNbd {
        /// What was tried.
        culprit: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// Something else failed.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
}

impl AttachError {
    pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::Io { path, error }
    }
}
