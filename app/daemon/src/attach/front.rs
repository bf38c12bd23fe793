// SPDX-License-Identifier: Apache-2.0
//! One attached volume, whichever way the kernel is reached.

use super::device::{Device, Shown};
use super::kept::Kept;
use super::nbd::Connection;
use std::path::Path;

/// An attached volume.
#[derive(Debug)]
pub(super) enum Front {
    /// A file in a FUSE mount, and a loop device on it if that is permitted.
    Fuse(Device),
    /// A device the kernel keeps, served by the shard.
    Kept(Kept),
    /// A device the kernel keeps, and the connection it has.
    Connected(Kept, Connection),
}

impl Front {
    /// What to use.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Fuse(device) => device.path(),
            Self::Kept(device) | Self::Connected(device, _) => &device.link,
        }
    }

    pub(super) fn clone_for_show(&self) -> Shown {
        match self {
            Self::Fuse(device) => device.clone_for_show(),
            Self::Kept(device) | Self::Connected(device, _) => device.clone_for_show(),
        }
    }

    /// Looks whether it is still served, where nobody says so.
    pub(super) fn look(&mut self) {
        if let Self::Connected(_, connection) = self {
            connection.look();
        }
    }

    /// Why it is not what it was any more, where somebody else saw to that.
    pub(super) fn lost(&self) -> Option<String> {
        match self {
            Self::Fuse(device) => device.lost(),
            Self::Kept(_) | Self::Connected(..) => None,
        }
    }

    /// Takes it away if nobody uses it, once it was settled; says who does otherwise.
    pub(super) fn give_free(self) -> Result<(), (Self, String)> {
        match self {
            Self::Fuse(device) => device.give_free().map_err(|(d, why)| (Self::Fuse(d), why)),
            Self::Kept(device) => device.give_free().map_err(|(d, why)| (Self::Kept(d), why)),
            Self::Connected(device, connection) => {
                device.give_free().map_err(|(d, why)| (Self::Connected(d, connection), why))
            }
        }
    }

    /// Takes it away whoever uses it: his requests fail from now on.
    pub(super) fn abandon(self) {
        match self {
            Self::Fuse(device) => device.abandon(),
            Self::Kept(device) | Self::Connected(device, _) => device.abandon(),
        }
    }

    /// Whether the kernel keeps it while there is no daemon, and lets its users wait.
    pub(super) const fn outlives_us(&self) -> bool {
        match self {
            Self::Fuse(_) => false,
            Self::Kept(_) | Self::Connected(..) => true,
        }
    }
}
