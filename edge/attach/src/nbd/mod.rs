// SPDX-License-Identifier: Apache-2.0
//! Block devices of the kernel's own NBD client. It is given a connection on which an export was agreed on already, and
//! keeps the device, and who waits on it, for a while where the connection is cut; another one can be given then.

mod netlink;

use crate::{AttachError, Shape};
use netlink::{Answer, Family, attribute, command};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// How long who uses a device waits for the next connection, in seconds: a week.
const PATIENCE_SECONDS: u64 = 7 * 24 * 3600;
/// How often the kernel looks whether what it sent was on a connection that was cut, in milliseconds: as long may pass
/// after the next one before it is sent again.
const LOOKS_EVERY: &str = "10000";
/// Transmission flags the kernel knows: read only, flush, FUA, trim, zeroes, several connections.
const KNOWN_FLAGS: u16 = 0b1_0110_1111;

/// Whether this kernel has an NBD client, for this process.
///
/// # Errors
/// Why not.
pub fn available() -> Result<(), AttachError> {
    Family::open().map(drop).map_err(no_nbd)
}

/// A device. It outlives this, and the process: what it is called by is its name, which the kernel keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    number: u32,
    path: PathBuf,
}

impl Disk {
    /// Makes one of a connection in the transmission phase; `flags` are what its server offers. The kernel has a
    /// handle of its own on the connection afterwards.
    ///
    /// # Errors
    /// There is no NBD client here, or the kernel refuses.
    pub fn connect(
        shape: Shape,
        flags: u16,
        connection: BorrowedFd<'_>,
        name: &str,
    ) -> Result<Self, AttachError> {
        let mut family = Family::open().map_err(no_nbd)?;
        let wish = attribute::u64(attribute::SIZE, shape.size.0)
            .and(attribute::u64(attribute::BLOCK, u64::from(shape.block)))
            .and(attribute::u64(attribute::FLAGS, u64::from(flags & KNOWN_FLAGS)))
            .and(attribute::u64(attribute::DEAD_CONNECTION_TIMEOUT, PATIENCE_SECONDS))
            .and(attribute::text(attribute::BACKEND, name))
            .and(attribute::connection(connection.as_raw_fd().cast_unsigned()));
        let told = family.call(command::CONNECT, wish).map_err(AttachError::at("nbd"))?;
        let number = told.number(attribute::INDEX);
        let number = number.ok_or_else(|| io::Error::other("the kernel does not report which"));
        let disk = Self::of(number.map_err(AttachError::at("nbd"))?);
        let timeout = disk.sys().join("queue/io_timeout");
        fs::write(&timeout, LOOKS_EVERY).map_err(AttachError::at(timeout))?;
        Ok(disk)
    }

    /// Those with names such as these, which their last servers left when they died, and those that only wait for their
    /// last user to go.
    #[must_use]
    pub fn left_behind(is_ours: impl Fn(&str) -> bool) -> Vec<Self> {
        let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let numbers = names.filter_map(|name| name.strip_prefix("nbd")?.parse().ok());
        let disks = numbers.map(Self::of);
        disks.filter(|disk| disk.name().is_some_and(|name| is_ours(&name))).collect()
    }

    /// What it was called when it was made, as long as it is connected or waits to be.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        self.told("backend")
    }

    /// Gives one that was left behind a new connection, if it has the shape it had. The kernel says yes as well where it
    /// did not take it, since it still has the connection of before, whose end it has not seen: so this is repeated
    /// for as long as the connection lasts. One that was taken is not taken twice.
    ///
    /// # Errors
    /// `EINVAL`: it has another shape, or was given up. Or the kernel refuses.
    pub fn reconnect(
        &self,
        shape: Shape,
        connection: BorrowedFd<'_>,
        name: &str,
    ) -> io::Result<()> {
        let has = |what: &str, wanted: u64| {
            self.told(what).and_then(|told| told.parse().ok()) == Some(wanted)
        };
        let same = has("size", shape.size.0 / 512)
            && has("ro", u64::from(shape.read_only))
            && has("queue/logical_block_size", u64::from(shape.block));
        if !same {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let wish = attribute::u32(attribute::INDEX, self.number)
            .and(attribute::text(attribute::BACKEND, name))
            .and(attribute::connection(connection.as_raw_fd().cast_unsigned()));
        Family::open()?.call(command::RECONFIGURE, wish).map(drop)
    }

    /// Takes it away whoever uses it: his requests fail from now on.
    pub fn remove(&self) {
        let wish = attribute::u32(attribute::INDEX, self.number);
        // One that was given up already goes with its last user.
        let _given_up: io::Result<Answer> =
            Family::open().and_then(|mut family| family.call(command::DISCONNECT, wish));
    }

    /// Its node.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn sys(&self) -> PathBuf {
        PathBuf::from(format!("/sys/block/nbd{}", self.number))
    }

    fn told(&self, what: &str) -> Option<String> {
        Some(fs::read_to_string(self.sys().join(what)).ok()?.trim_end().to_owned())
    }

    fn of(number: u32) -> Self {
        Self { number, path: PathBuf::from(format!("/dev/nbd{number}")) }
    }
}

/// Whether a node is one of the NBD client's that is connected, or waits to be.
#[must_use]
pub fn is_there(device: &Path) -> bool {
    let name = device.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("nbd") && Path::new("/sys/block").join(name).join("backend").exists()
}

fn no_nbd(error: io::Error) -> AttachError {
    AttachError::NoNbd { culprit: String::from("netlink's family nbd"), error }
}
