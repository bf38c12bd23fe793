// SPDX-License-Identifier: Apache-2.0
//! What a daemon asks of a kernel so that a volume becomes a file and a loop device. [`ThisKernel`] is the one below this process;
//! the simulator has a stand-in.

use crate::{AttachError, Channel, LoopDevice, Mount, User, apart, ublk, users};
use std::fmt;
use std::io;
use std::path::Path;

/// A kernel, as far as files in FUSE mounts and loop devices go. All calls may block.
pub trait Kernel: fmt::Debug + Send + Sync {
    /// Mounts a file at `path`, whose folder must exist; `name` is shown as what is mounted. Nothing is answered before
    /// the channel is read.
    ///
    /// # Errors
    /// FUSE cannot be used, or nothing can be mounted there.
    fn mount(&self, path: &Path, name: &str) -> Result<(Mount, Channel), AttachError>;

    /// Unmounts a file. Processes that have it open keep it if it is done `lazily`, and are in the way otherwise.
    ///
    /// # Errors
    /// A process has it open, or the kernel refuses.
    fn unmount(&self, mount: Mount, lazily: bool) -> Result<(), (Mount, io::Error)>;

    /// Mounts of ours below a folder, which a daemon may have left behind when it died.
    ///
    /// # Errors
    /// The list of mounts cannot be read.
    fn mounts_below(&self, folder: &Path) -> io::Result<Vec<Mount>>;

    /// Makes a loop device on a file that this process serves itself.
    ///
    /// # Errors
    /// There are no loop devices, or the kernel refuses.
    fn loop_device(
        &self,
        backing: &Path,
        block: u32,
        read_only: bool,
    ) -> Result<LoopDevice, AttachError>;

    /// Loop devices on files below a folder, which a daemon may have left behind when it died.
    fn loops_below(&self, folder: &Path) -> Vec<LoopDevice>;

    /// Processes, mounts and devices that use a file or a device on it, except this process. `numbers` are those of the device in the
    /// mount table.
    fn users(&self, paths: &[&Path], numbers: Option<&str>) -> Vec<User>;

    /// Whether it has ublk.
    ///
    /// # Errors
    /// Why not.
    fn has_ublk(&self) -> Result<(), AttachError>;
}

/// The kernel below this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisKernel;

impl Kernel for ThisKernel {
    fn mount(&self, path: &Path, name: &str) -> Result<(Mount, Channel), AttachError> {
        Mount::new(path, name)
    }

    fn unmount(&self, mount: Mount, lazily: bool) -> Result<(), (Mount, io::Error)> {
        mount.remove(lazily)
    }

    fn mounts_below(&self, folder: &Path) -> io::Result<Vec<Mount>> {
        Mount::below(folder)
    }

    fn loop_device(
        &self,
        backing: &Path,
        block: u32,
        read_only: bool,
    ) -> Result<LoopDevice, AttachError> {
        apart::loop_device(backing, block, read_only)
    }

    fn loops_below(&self, folder: &Path) -> Vec<LoopDevice> {
        LoopDevice::below(folder)
    }

    fn users(&self, paths: &[&Path], numbers: Option<&str>) -> Vec<User> {
        users(paths, numbers)
    }

    fn has_ublk(&self) -> Result<(), AttachError> {
        ublk::available()
    }
}
