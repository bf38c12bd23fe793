// SPDX-License-Identifier: Apache-2.0
//! A kernel that has no devices.

use helio_attach::{AttachError, Channel, Kernel, LoopDevice, Mount, User};
use std::io;
use std::path::Path;

/// The kernel of a machine on which nothing can be attached.
#[derive(Debug)]
pub(crate) struct NoDevices;

fn unsupported(culprit: &str) -> AttachError {
    let error = io::ErrorKind::Unsupported.into();
    AttachError::NoFuse { culprit: culprit.to_owned(), error }
}

impl Kernel for NoDevices {
    fn mount(&self, _: &Path, _: &str) -> Result<(Mount, Channel), AttachError> {
        Err(unsupported("the simulated kernel"))
    }

    fn unmount(&self, mount: Mount, _: bool) -> Result<(), (Mount, io::Error)> {
        Err((mount, io::ErrorKind::Unsupported.into()))
    }

    fn mounts_below(&self, _: &Path) -> io::Result<Vec<Mount>> {
        Ok(Vec::new())
    }

    fn loop_device(&self, _: &Path, _: u32, _: bool) -> Result<LoopDevice, AttachError> {
        Err(unsupported("the simulated kernel"))
    }

    fn loops_below(&self, _: &Path) -> Vec<LoopDevice> {
        Vec::new()
    }

    fn users(&self, _: &[&Path], _: Option<&str>) -> Vec<User> {
        Vec::new()
    }

    fn has_ublk(&self) -> Result<(), AttachError> {
        Err(unsupported("the simulated kernel"))
    }
}
