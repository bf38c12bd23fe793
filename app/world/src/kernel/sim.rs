// SPDX-License-Identifier: Apache-2.0
//! The kernel as a daemon asks it.

use super::channel::SimChannel;
use super::connection::{Connection, FuseId};
use super::loops::{Loop, node};
use crate::machine::SimMachine;
use crate::world::{Inner, MachineId, ProcessId, World};
use helio_attach::{
    AttachError, Behind, Channel, Kernel, LoopDevice, Mount, Settling, Used, User, refusal,
};
use helio_driver::{Errno, Machine, Mode, OFlags, Socket};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::oneshot;

/// The kernel below a process.
#[derive(Debug)]
pub(crate) struct SimKernel {
    world: World,
    /// The machine, as the process has it.
    machine: SimMachine,
}

impl SimKernel {
    pub(crate) const fn new(world: World, machine: SimMachine) -> Self {
        Self { world, machine }
    }

    const fn place(&self) -> (MachineId, ProcessId) {
        (self.machine.id(), self.machine.process_id())
    }

    fn open_channel(&self, path: &Path) -> Result<FuseId, AttachError> {
        let (machine, process) = self.place();
        let mut inner = self.world.lock();
        if !inner.is_alive(process) {
            return Err(no_fuse("/dev/fuse", Errno::IO));
        }
        if let Some(errno) = inner.refuses_mount(machine) {
            return Err(no_fuse("/dev/fuse", errno));
        }
        let (files, sockets) = inner.held(process);
        let opens = inner.host(machine).faults.may_open(files + sockets);
        opens.map_err(|errno| no_fuse("/dev/fuse", errno))?;
        let id = FuseId(inner.drivers.number());
        let version = inner.fuse_version(machine);
        let connection = Connection::new(machine, process, path.to_owned(), version);
        inner.kernels.connections.insert(id, connection);
        if inner.kernels.mounts.insert((machine, path.to_owned()), id).is_some() {
            inner.kernels.breaks(format!("two mounts at {}", path.display()));
        }
        inner.tell(format_args!(
            "machine {}: device {} is mounted at {}, version {version:?}",
            machine.0,
            id.0,
            path.display()
        ));
        Ok(id)
    }

    /// Who uses one of those that [`Kernel::users_of`] gets.
    fn users_of_one(&self, Used { paths, numbers }: &Used<'_>) -> Vec<User> {
        let inner = self.world.lock();
        let mut found = Vec::new();
        let ours = |it: &&super::device::Open| it.machine == self.machine.id() && !it.manner.hidden;
        for (id, open) in inner.kernels.open.iter().filter(|(_, it)| ours(it)) {
            let connection = inner.kernels.connections.get(&open.on);
            let path = match open.through {
                Some(number) => Some(node(number)),
                None => connection.filter(|it| it.mounted).map(|it| it.path.clone()),
            };
            let by_number = open.through.is_some_and(|it| *numbers == Some(&*format!("7:{it}")));
            if !by_number && path.is_none_or(|path| !paths.contains(&&*path)) {
                continue;
            }
            found.push(match &open.manner.mounted {
                Some(place) => User::Mounted(place.clone()),
                None => User::Process { id: id.0 as u32, name: "program".to_owned() },
            });
        }
        found
    }
}

fn no_fuse(culprit: &str, errno: Errno) -> AttachError {
    AttachError::NoFuse { culprit: culprit.to_owned(), error: errno.into() }
}

impl Inner {
    /// Unmounts a file.
    pub(super) fn unmount(
        &mut self,
        machine: MachineId,
        path: &Path,
        lazily: bool,
    ) -> Result<(), Errno> {
        let key = (machine, path.to_owned());
        let id = *self.kernels.mounts.get(&key).ok_or(Errno::INVAL)?;
        let connection = self.kernels.connections.get_mut(&id).ok_or(Errno::INVAL)?;
        if connection.references > 0 && !lazily {
            return Err(Errno::BUSY);
        }
        connection.mounted = false;
        let unused = connection.references == 0;
        self.kernels.mounts.remove(&key);
        self.tell(format_args!("machine {}: device {} is unmounted", machine.0, id.0));
        self.hide_backing(id);
        if unused {
            self.end_connection(id, Errno::NODEV);
            self.forget_connection(id);
        }
        Ok(())
    }
}

impl Kernel for SimKernel {
    fn mount(&self, path: &Path, _name: &str) -> Result<(Mount, Channel), AttachError> {
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let placed = self.machine.open(path, flags, Mode::RUSR | Mode::WUSR);
        placed.map_err(|errno| AttachError::Io { path: path.to_owned(), error: errno.into() })?;
        match self.open_channel(path) {
            Ok(id) => {
                let body = SimChannel::new(self.world.clone(), id, self.place().1);
                let channel = Channel::of(Socket::of(Arc::new(body)));
                Ok((Mount::at(path.to_owned()), channel))
            }
            Err(error) => {
                // Only the empty file that was to be mounted over; the error is what matters.
                let _left = self.machine.remove(path);
                Err(error)
            }
        }
    }

    fn unmount(&self, mount: Mount, lazily: bool) -> Result<(), (Mount, io::Error)> {
        let (machine, process) = self.place();
        let mut inner = self.world.lock();
        let alive = if inner.is_alive(process) { Ok(()) } else { Err(Errno::IO) };
        let done = alive.and_then(|()| inner.unmount(machine, mount.path(), lazily));
        drop(inner);
        if let Err(errno) = done {
            return Err((mount, errno.into()));
        }
        // It is empty, and of no more use.
        let _gone = self.machine.remove(mount.path());
        Ok(())
    }

    fn mounts_below(&self, folder: &Path) -> io::Result<Vec<Mount>> {
        let inner = self.world.lock();
        let all = inner.kernels.mounts.keys().filter(|(at, _)| *at == self.machine.id());
        let below = all.filter(|(_, path)| path.starts_with(folder));
        Ok(below.map(|(_, path)| Mount::at(path.clone())).collect())
    }

    fn loop_device(
        &self,
        backing: &Path,
        block: u32,
        read_only: bool,
    ) -> Result<LoopDevice, AttachError> {
        let (machine, _) = self.place();
        let io = |errno: Errno| AttachError::Io { path: backing.to_owned(), error: errno.into() };
        let mut inner = self.world.lock();
        match inner.refuses_loop(machine) {
            Some(Errno::NOENT) => {
                let (culprit, error) = ("/dev/loop-control".to_owned(), Errno::NOENT.into());
                return Err(AttachError::NoLoop { culprit, error });
            }
            Some(errno) => return Err(io(errno)),
            None => {}
        }
        let id = inner.kernels.mounts.get(&(machine, backing.to_owned())).copied();
        let id = id.ok_or_else(|| io(Errno::NOENT))?;
        let path = inner.add_loop(machine, id, (block, read_only)).map_err(io)?;
        Ok(LoopDevice::at(path, backing))
    }

    fn loops_below(&self, folder: &Path) -> Vec<LoopDevice> {
        let inner = self.world.lock();
        let all = inner.kernels.loops.iter().filter(|((at, _), _)| *at == self.machine.id());
        // What the device was told of its file stays once that is unmounted.
        let told = |it: &Loop| inner.kernels.connections.get(&it.on?).map(|on| on.path.clone());
        let below = all.filter(|(_, device)| {
            device.backing.starts_with(folder)
                || told(device).is_some_and(|it| it.starts_with(folder))
        });
        below.map(|((_, number), it)| LoopDevice::at(node(*number), &it.backing)).collect()
    }

    fn users_of(&self, all: &[Used<'_>]) -> Vec<Vec<User>> {
        all.iter().map(|used| self.users_of_one(used)).collect()
    }
    fn has_loop(&self, device: &LoopDevice) -> bool {
        let (inner, machine) = (self.world.lock(), self.machine.id());
        let number = inner.loop_at(machine, device.path());
        let found = number.and_then(|number| inner.kernels.loops.get(&(machine, number)));
        found.is_some_and(|it| it.backing == device.backing())
    }

    fn abandon(&self, device: &LoopDevice) -> io::Result<()> {
        let (mut inner, machine) = (self.world.lock(), self.machine.id());
        let Some(number) = inner.loop_at(machine, device.path()) else { return Ok(()) };
        let found = inner.kernels.loops.get(&(machine, number));
        let named = found.is_some_and(|it| it.backing == device.backing());
        let on = found.and_then(|it| inner.kernels.connections.get(&it.on?));
        // Also once it is unmounted: the daemon knows the file by its numbers.
        if named || on.is_some_and(|connection| connection.path == device.backing()) {
            inner.release_loop(machine, number);
        }
        Ok(())
    }

    fn settle(&self, device: &Path) -> Settling {
        let (ends, ended) = oneshot::channel();
        self.world.lock().begin_settling(self.machine.id(), device, ends);
        let gone = || io::Error::from(Errno::IO);
        Settling::Elsewhere(Box::pin(async move { ended.await.unwrap_or_else(|_| Err(gone())) }))
    }

    fn numbers(&self, device: &Path) -> io::Result<String> {
        let number = self.world.lock().loop_at(self.machine.id(), device);
        number.map(|number| format!("7:{number}")).ok_or_else(|| Errno::NOENT.into())
    }

    fn make_name(&self, name: &Path, device: &Path) -> io::Result<()> {
        let (mut inner, machine) = (self.world.lock(), self.machine.id());
        let key = (machine, name.to_owned());
        if let Some(other) = inner.kernels.names.get(&key).filter(|other| *other != device) {
            let number = inner.loop_at(machine, other);
            let device = number.and_then(|number| inner.kernels.loops.get(&(machine, number)));
            let behind = device.map_or(Behind::Nothing, |it| Behind::File(it.backing.clone()));
            if let Some(error) = refusal(name, other, &behind) {
                return Err(error);
            }
        }
        inner.kernels.names.insert(key, device.to_owned());
        Ok(())
    }

    fn remove_name(&self, name: &Path, device: &Path) {
        if self.named(name).as_deref() == Some(device) {
            self.world.lock().kernels.names.remove(&(self.machine.id(), name.to_owned()));
        }
    }

    fn named(&self, name: &Path) -> Option<PathBuf> {
        self.world.lock().kernels.names.get(&(self.machine.id(), name.to_owned())).cloned()
    }

    fn has_ublk(&self) -> Result<(), AttachError> {
        let (culprit, error) = ("/dev/ublk-control".to_owned(), Errno::NOENT.into());
        Err(AttachError::NoUblk { culprit, error })
    }

    fn has_nbd(&self) -> Result<(), AttachError> {
        let (culprit, error) = ("netlink's family nbd".to_owned(), Errno::NOENT.into());
        Err(AttachError::NoNbd { culprit, error })
    }
}
