// SPDX-License-Identifier: Apache-2.0
//! A device, as who makes it and takes it away sees it.

use super::control::{Desk, Told};
use super::server::Server;
use super::wire::{Info, LIVE, Parameters, QUIESCED, command, feature};
use crate::{AttachError, Shape};
use std::io;
use std::path::{Path, PathBuf};

/// Requests of one queue under way.
const DEPTH: u16 = 128;
/// Queues one server answers at most: beyond that they only wait for its thread.
const QUEUES_MOST: usize = 4;

/// Whether this kernel has ublk, for this process.
///
/// # Errors
/// Why not.
pub fn available() -> Result<(), AttachError> {
    Desk::open().map(drop)
}

/// A device. It outlives this, and the process: what it is called by is its mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    number: u32,
    mark: u64,
    path: PathBuf,
}

impl Disk {
    /// Makes one, and what serves it. It has no node before it is started.
    ///
    /// # Errors
    /// There is no ublk here, or the kernel refuses.
    pub fn add(shape: Shape, mark: u64) -> Result<(Self, Server), AttachError> {
        let mut desk = Desk::open()?;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let wish = Info {
            queues: cpus.min(QUEUES_MOST) as u16,
            depth: DEPTH,
            state: 0,
            longest: crate::MAX_WRITE,
            device: u32::MAX,
            features: feature::WANTED,
            mark,
        };
        let mut bytes = wish.bytes();
        let control = AttachError::at("/dev/ublk-control");
        desk.call(command::ADD, u32::MAX, 0, Told::Asked(&mut bytes)).map_err(control)?;
        let Some(info) = Info::read(&bytes) else {
            let error = io::Error::other("the reply of the kernel is truncated");
            return Err(AttachError::Io { path: "/dev/ublk-control".into(), error });
        };
        let disk = Self::of(info.device, mark);
        let parameters = Parameters(shape).bytes();
        let told = desk.call(command::SET_PARAMETERS, info.device, 0, Told::Given(&parameters));
        match told.and_then(|()| Server::open(&info, shape)) {
            Ok(server) => Ok((disk, server)),
            Err(error) => {
                disk.remove();
                Err(AttachError::Io { path: disk.path, error })
            }
        }
    }

    /// The devices with marks such as these, which their last servers left when they died.
    ///
    /// # Errors
    /// The kernel does not say; there may be some.
    pub fn left_behind(is_ours: impl Fn(u64) -> bool) -> Result<Vec<Self>, AttachError> {
        let (numbers, mut found) = (numbers(), Vec::new());
        if numbers.is_empty() {
            return Ok(found);
        }
        let mut desk = Desk::open()?;
        for number in numbers {
            // It may have gone while we looked.
            let Ok(info) = desk.info(number) else { continue };
            if is_ours(info.mark) {
                found.push(Self::of(number, info.mark));
            }
        }
        Ok(found)
    }

    /// What it was called by when it was made.
    #[must_use]
    pub const fn mark(&self) -> u64 {
        self.mark
    }

    /// Begins to serve one again that was left behind, if it has the shape it had.
    ///
    /// # Errors
    /// `EBUSY`: its last server still dies. `EINVAL`: it was never started, or has another shape. Or the kernel refuses.
    pub fn retake(&self, shape: Shape) -> io::Result<Server> {
        let mut desk = Desk::open().map_err(io::Error::other)?;
        let unfit = || io::Error::from_raw_os_error(libc::EINVAL);
        if !matches!(desk.info(self.number)?.state, LIVE | QUIESCED) {
            return Err(unfit());
        }
        let mut bytes = vec![0; Parameters::BYTES];
        // The kernel wants to know first how much room there is.
        bytes[..4].copy_from_slice(&(Parameters::BYTES as u32).to_ne_bytes());
        desk.call(command::GET_PARAMETERS, self.number, 0, Told::Asked(&mut bytes))?;
        let wanted = Parameters(shape).bytes();
        // Behind the length and what is there, which the kernel may have more of.
        if bytes[8..] != wanted[8..] {
            return Err(unfit());
        }
        match desk.call(command::START_RECOVERY, self.number, 0, Told::Nothing) {
            // Somebody began to, and died: it is as ready as one that was just begun with.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            told => told?,
        }
        let info = desk.info(self.number)?;
        Server::open(&info, shape)
    }

    /// Makes its node. Its server must have begun: the kernel looks for partitions.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn start(&self) -> io::Result<()> {
        self.told(command::START)
    }

    /// Lets those go on who waited for a server. It must have begun.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn resume(&self) -> io::Result<()> {
        self.told(command::END_RECOVERY)
    }

    fn told(&self, command: u32) -> io::Result<()> {
        let mut desk = Desk::open().map_err(io::Error::other)?;
        desk.call(command, self.number, u64::from(std::process::id()), Told::Nothing)
    }

    /// Its node.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes it away whoever uses it: his requests fail from now on.
    pub fn remove(&self) {
        let Ok(mut desk) = Desk::open() else { return };
        // One that never was started cannot be stopped; what matters is that it goes.
        let _never_started = desk.call(command::STOP, self.number, 0, Told::Nothing);
        let later = desk.call(command::DELETE_LATER, self.number, 0, Told::Nothing);
        if later.is_err_and(|error| error.raw_os_error() != Some(libc::ENODEV)) {
            // A kernel before 6.9 waits until its server let go, which may wait for who called us.
            let number = self.number;
            std::thread::spawn(move || desk.call(command::DELETE, number, 0, Told::Nothing));
        }
    }

    fn of(number: u32, mark: u64) -> Self {
        Self { number, mark, path: PathBuf::from(format!("/dev/ublkb{number}")) }
    }
}

/// Whether a node is one of ublk's that somebody could use.
#[must_use]
pub fn is_there(device: &Path) -> bool {
    let name = device.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("ublkb") && Path::new("/sys/block").join(name).exists()
}

/// All devices of ublk, whoever's.
fn numbers() -> Vec<u32> {
    let entries = std::fs::read_dir("/sys/class/ublk-char").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("ublkc")?.parse().ok()).collect()
}
