// SPDX-License-Identifier: Apache-2.0
//! One attached volume, whichever way the kernel is reached.

use super::device::{Device, Shown};
use super::ublk::Direct;
use helio_api::Via;
use std::path::Path;

/// An attached volume.
#[derive(Debug)]
pub(super) enum Front {
    /// A file in a FUSE mount, and a loop device on it where that is allowed.
    Fuse(Device),
    /// A device of ublk.
    Ublk(Direct),
}

impl Front {
    /// The best way this machine has.
    pub(super) fn best() -> Via {
        if helio_attach::ublk::available().is_ok() { Via::Ublk } else { Via::Fuse }
    }

    /// What to use.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Fuse(device) => device.path(),
            Self::Ublk(device) => device.path(),
        }
    }

    pub(super) fn clone_for_show(&self) -> Shown {
        match self {
            Self::Fuse(device) => device.clone_for_show(),
            Self::Ublk(device) => device.clone_for_show(),
        }
    }

    /// Takes it away if nobody uses it, everything written durable; says who does otherwise.
    pub(super) fn give_free(self) -> Result<(), (Self, String)> {
        match self {
            Self::Fuse(device) => device.give_free().map_err(|(d, why)| (Self::Fuse(d), why)),
            Self::Ublk(device) => device.give_free().map_err(|(d, why)| (Self::Ublk(d), why)),
        }
    }

    /// Takes it away whoever uses it: his requests fail from now on.
    pub(super) fn abandon(self) {
        match self {
            Self::Fuse(device) => device.abandon(),
            Self::Ublk(device) => device.abandon(),
        }
    }

    /// Whether the kernel keeps it while there is no daemon, and lets its users wait.
    pub(super) const fn outlives_us(&self) -> bool {
        match self {
            Self::Fuse(_) => false,
            Self::Ublk(_) => true,
        }
    }
}
