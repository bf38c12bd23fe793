// SPDX-License-Identifier: Apache-2.0
//! What a daemon asks of a kernel so that a volume becomes a file and a loop device. [`ThisKernel`] is the one below this process;
//! the simulator has a stand-in.

use crate::{
    AttachError, Behind, Channel, LoopDevice, Mount, Used, User, apart, backing_file, names, nbd,
    node, ublk, users_of,
};
use std::fmt;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;

/// A device is being flushed and, if it is a loop device, released.
pub enum Settling {
    /// A process does it, which is to be started; [`apart::settled`] says how it ended.
    Process(Command),
    /// A kernel that is not the one below this process does it.
    Elsewhere(Pin<Box<dyn Future<Output = io::Result<()>> + Send>>),
}

impl fmt::Debug for Settling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Settling")
    }
}

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

    /// Processes, mounts and devices that use each of these, except this process.
    fn users_of(&self, all: &[Used<'_>]) -> Vec<Vec<User>>;

    /// The same of one. `numbers` are those of the device in the mount table.
    fn users(&self, paths: &[&Path], numbers: Option<&str>) -> Vec<User> {
        let one = Used { paths: paths.to_vec(), numbers };
        self.users_of(&[one]).into_iter().flatten().collect()
    }

    /// Whether a loop device is still on its file.
    fn has_loop(&self, device: &LoopDevice) -> bool;

    /// Releases a loop device as soon as no process has it open, whatever it is used for.
    ///
    /// # Errors
    /// The kernel refuses.
    fn abandon(&self, device: &LoopDevice) -> io::Result<()>;

    /// Flushes a device that no process has claimed, and releases it if it is a loop device. Ends with `EBUSY` if one has.
    fn settle(&self, device: &Path) -> Settling;

    /// The numbers of a device, as the mount table writes them.
    ///
    /// # Errors
    /// It is not there.
    fn numbers(&self, device: &Path) -> io::Result<String>;

    /// Gives a device its stable name. A name that exists is replaced if no device is behind it, or another program's loop
    /// device, which took a number that was free again.
    ///
    /// # Errors
    /// The name belongs to a device that is in use, or is not a link, or cannot be created.
    fn make_name(&self, name: &Path, device: &Path) -> io::Result<()>;

    /// Removes a stable name if it leads to that device, and the folder of its group with the last one.
    fn remove_name(&self, name: &Path, device: &Path);

    /// The device that a stable name leads to.
    fn named(&self, name: &Path) -> Option<PathBuf>;

    /// Whether it has ublk.
    ///
    /// # Errors
    /// Why not.
    fn has_ublk(&self) -> Result<(), AttachError>;

    /// Whether it has an NBD client.
    ///
    /// # Errors
    /// Why not.
    fn has_nbd(&self) -> Result<(), AttachError>;
}

/// What is behind a node.
fn behind(device: &Path) -> Behind {
    match backing_file(device) {
        Some(file) => Behind::File(file),
        None if ublk::is_there(device) || nbd::is_there(device) => Behind::Device,
        None => Behind::Nothing,
    }
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

    fn users_of(&self, all: &[Used<'_>]) -> Vec<Vec<User>> {
        users_of(all)
    }

    fn has_loop(&self, device: &LoopDevice) -> bool {
        device.is_there()
    }

    fn abandon(&self, device: &LoopDevice) -> io::Result<()> {
        device.abandon()
    }

    fn settle(&self, device: &Path) -> Settling {
        Settling::Process(apart::settle(device))
    }

    fn numbers(&self, device: &Path) -> io::Result<String> {
        node::numbers(device)
    }

    fn make_name(&self, name: &Path, device: &Path) -> io::Result<()> {
        names::make(name, device, behind)
    }

    fn remove_name(&self, name: &Path, device: &Path) {
        names::remove(name, device);
    }

    fn named(&self, name: &Path) -> Option<PathBuf> {
        names::target(name)
    }

    fn has_ublk(&self) -> Result<(), AttachError> {
        ublk::available()
    }

    fn has_nbd(&self) -> Result<(), AttachError> {
        nbd::available()
    }
}
