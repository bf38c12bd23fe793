// SPDX-License-Identifier: Apache-2.0
//! A device as a program of its machine has it open: through its loop device, or the file itself.

use super::connection::{Asker, FuseId};
use super::wire::{Expects, opcode, open};
use crate::machine::SimMachine;
use crate::world::{Inner, MachineId, Released, World};
use helio_driver::Errno;
use helio_units::Extent;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The number of an open device; none of a world is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpenId(pub(super) u64);

/// How a program has a device open.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// To write as well.
    pub writes: bool,
    /// It is a file system that is mounted there, and has claimed the device.
    pub mounted: Option<PathBuf>,
    /// It is in a namespace that the daemon does not see.
    pub hidden: bool,
}

/// What is asked of an open device. Extents are whole blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceIo {
    /// Reads.
    Read(Extent),
    /// Writes the bytes.
    Write {
        /// Where.
        extent: Extent,
        /// As many bytes.
        bytes: Vec<u8>,
        /// Durable before it ends.
        fua: bool,
    },
    /// Makes the extent read as zeros.
    Zero {
        /// Where.
        extent: Extent,
        /// Its space may be freed.
        punch: bool,
        /// Durable before it ends.
        fua: bool,
    },
    /// Makes everything durable that has ended.
    Flush,
}

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The daemon responded with this error.
    Answered(i32),
    /// The connection ended without a response.
    Lost,
}

/// How something ended, with what a read returned.
#[derive(Clone, Debug)]
pub struct Done {
    /// The number that [`OpenDevice::submit`] returned.
    pub number: u64,
    /// How it ended.
    pub result: Result<Vec<u8>, Failure>,
}

/// How far a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is being opened.
    Opening,
    /// It can be used.
    Ready {
        /// Its size in bytes.
        size: u64,
        /// The unit of requests in bytes.
        block: u32,
        /// It refuses changes.
        read_only: bool,
    },
    /// It could not be opened, or its machine lost its power.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Opening,
    Open,
    /// It is closed once everything has ended.
    Closing,
    Failed,
}

/// An open device, as the kernel has it.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) machine: MachineId,
    pub(super) on: FuseId,
    /// The loop device; none if it is the file.
    pub(super) through: Option<u32>,
    pub(super) manner: Manner,
    standing: Standing,
    pub(super) jobs: BTreeMap<u64, super::jobs::Job>,
    pub(super) done: Vec<Done>,
}

impl Open {
    pub(super) fn is_on_loop(&self, machine: MachineId, number: u32) -> bool {
        self.machine == machine && self.through == Some(number)
    }
}

/// A program's handle of a device. It is closed when it is dropped.
#[derive(Debug)]
pub struct OpenDevice {
    world: World,
    id: OpenId,
}

impl World {
    /// Where a volume can be used as a device: its loop device first if it has a name, then its file.
    #[must_use]
    pub fn device_paths(&self, machine: &SimMachine, group: &str, volume: &str) -> Vec<PathBuf> {
        let inner = self.lock();
        let name = PathBuf::from(format!("/dev/heliograph/{group}/{volume}"));
        let file = super::file_of(group, volume);
        let node = inner.kernels.names.get(&(machine.id(), name)).cloned();
        let node = node.filter(|node| inner.loop_at(machine.id(), node).is_some());
        let file = Some(file)
            .filter(|file| inner.kernels.mounts.contains_key(&(machine.id(), file.clone())));
        node.into_iter().chain(file).collect()
    }

    /// Whether a device refuses changes, if that is known.
    #[must_use]
    pub fn is_read_only(&self, machine: &SimMachine, path: &Path) -> Option<bool> {
        let inner = self.lock();
        if let Some(number) = inner.loop_at(machine.id(), path) {
            return inner.kernels.loops.get(&(machine.id(), number)).map(|it| it.read_only);
        }
        let on = inner.kernels.mounts.get(&(machine.id(), path.to_owned()))?;
        inner.kernels.connections.get(on)?.attributes.map(|it| it.read_only)
    }

    /// Opens a loop device or a mounted file.
    ///
    /// # Errors
    /// There is none, or it is claimed.
    pub fn open_device(
        &self,
        machine: &SimMachine,
        path: &Path,
        manner: Manner,
    ) -> Result<OpenDevice, Errno> {
        let mut inner = self.lock();
        let id = OpenId(inner.drivers.number());
        inner.open_device(id, machine.id(), path, manner)?;
        drop(inner);
        Ok(OpenDevice { world: self.clone(), id })
    }
}

impl Inner {
    fn open_device(
        &mut self,
        id: OpenId,
        machine: MachineId,
        path: &Path,
        manner: Manner,
    ) -> Result<(), Errno> {
        let through = self.loop_at(machine, path);
        let on = match through {
            Some(number) => {
                let device = &self.kernels.loops[&(machine, number)];
                if device.read_only && manner.writes {
                    return Err(Errno::ACCESS);
                }
                device.on.ok_or(Errno::NXIO)?
            }
            None => *self.kernels.mounts.get(&(machine, path.to_owned())).ok_or(Errno::NOENT)?,
        };
        if manner.mounted.is_some() && through.is_some_and(|it| self.is_claimed(machine, it)) {
            return Err(Errno::BUSY);
        }
        let connection = self.kernels.connections.get_mut(&on).ok_or(Errno::NOTCONN)?;
        if through.is_none() {
            connection.references += 1;
        }
        let standing = if through.is_some() { Standing::Open } else { Standing::Opening };
        let writes = manner.writes;
        let (jobs, done) = <_>::default();
        let open_file = Open { machine, on, through, manner, standing, jobs, done };
        self.kernels.open.insert(id, open_file);
        self.tell(format_args!("machine {}: {} is opened", machine.0, path.display()));
        if through.is_none() {
            let errors: &[i32] = if writes { &[libc::EROFS] } else { &[] };
            self.ask_attributes(on);
            let expects = Expects::Body(16, errors);
            self.ask_daemon(on, opcode::OPEN, &open(writes), (expects, Asker::Opening(id)));
        }
        Ok(())
    }

    /// The daemon responded to OPEN.
    pub(super) fn opened(&mut self, on: FuseId, id: OpenId, result: Result<Vec<u8>, Failure>) {
        let Some(open) = self.kernels.open.get_mut(&id) else { return };
        match (result, open.standing) {
            (Ok(_), Standing::Opening) => open.standing = Standing::Open,
            (Ok(_), _) => self.close_device(id),
            (Err(_), standing) => {
                // Nothing was opened, so that there is nothing to release.
                open.standing = Standing::Failed;
                if standing == Standing::Closing {
                    self.kernels.open.remove(&id);
                }
                if let Some(connection) = self.kernels.connections.get_mut(&on) {
                    connection.references -= 1;
                }
                self.forget_connection(on);
            }
        }
    }

    /// How far an open device is.
    fn readiness(&self, id: OpenId) -> Readiness {
        let Some(open) = self.kernels.open.get(&id) else { return Readiness::Gone };
        let connection = self.kernels.connections.get(&open.on);
        match (open.standing, connection.and_then(|it| it.attributes)) {
            (Standing::Failed, _) => Readiness::Gone,
            (Standing::Opening, _) => Readiness::Opening,
            // A loop device cannot be used before the kernel knows its size.
            (_, None) if connection.is_none_or(|it| it.is_over()) => Readiness::Gone,
            (_, None) => Readiness::Opening,
            (_, Some(known)) => {
                let through =
                    open.through.and_then(|it| self.kernels.loops.get(&(open.machine, it)));
                let block = through.map_or(known.block, |device| device.block);
                Readiness::Ready { size: known.size, block, read_only: known.read_only }
            }
        }
    }

    /// Closes a device, at once or when everything has ended.
    pub(crate) fn close_device(&mut self, id: OpenId) {
        let Some(open) = self.kernels.open.get_mut(&id) else { return };
        let was = std::mem::replace(&mut open.standing, Standing::Closing);
        if was == Standing::Opening || !open.jobs.is_empty() {
            return;
        }
        let (machine, on, through) = (open.machine, open.on, open.through);
        self.kernels.open.remove(&id);
        match through {
            _ if was == Standing::Failed => {}
            Some(number) => self.end_released_loop(machine, number),
            None => self.drop_reference(on),
        }
    }

    /// Everything that was asked of a device has ended.
    pub(super) fn device_idle(&mut self, id: OpenId) {
        let open = self.kernels.open.get(&id);
        if open.is_some_and(|it| it.standing == Standing::Closing && it.jobs.is_empty()) {
            self.close_device(id);
        }
    }
}

impl OpenDevice {
    /// How far it is.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        self.world.lock().readiness(self.id)
    }

    /// Asks for something. Returns its number.
    pub fn submit(&mut self, io: DeviceIo) -> u64 {
        self.world.lock().begin_job(self.id, io)
    }

    /// What has ended since the last call.
    pub fn reap(&mut self) -> Vec<Done> {
        let mut inner = self.world.lock();
        inner
            .kernels
            .open
            .get_mut(&self.id)
            .map(|it| std::mem::take(&mut it.done))
            .unwrap_or_default()
    }

    /// A signal interrupts who waits for one of the requests.
    pub fn interrupt(&mut self) {
        self.world.lock().interrupt_one(self.id);
    }

    /// The program is killed: nothing that it asked ends for it. Returns what the daemon never received.
    pub fn kill(&mut self) -> Vec<u64> {
        let mut inner = self.world.lock();
        let never = inner.kill_jobs(self.id);
        inner.close_device(self.id);
        never
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        self.world.release(Released::Device(self.id));
    }
}
