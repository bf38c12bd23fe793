// SPDX-License-Identifier: Apache-2.0
//! Loop devices. Each has a file of a connection open, or a file of another program.

use super::connection::{Asker, FuseId};
use super::device::Failure;
use super::wire::{Expects, opcode, open};
use crate::world::{Inner, MachineId};
use helio_driver::Errno;
use std::io;
use std::path::{Path, PathBuf};
use tokio::sync::oneshot;

/// A loop device.
#[derive(Debug)]
pub(super) struct Loop {
    /// None if it is another program's.
    pub(super) on: Option<FuseId>,
    /// The file, as the kernel names it.
    pub(super) backing: PathBuf,
    /// The unit of its requests, in bytes.
    pub(super) block: u32,
    pub(super) read_only: bool,
    /// It goes with its last user.
    released: bool,
    /// A process that flushes it has claimed it.
    claimed: bool,
}

/// The node of a loop device.
pub(super) fn node(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

impl Inner {
    /// The number of the loop device with that node, if there is one.
    pub(super) fn loop_at(&self, machine: MachineId, path: &Path) -> Option<u32> {
        let number = path.to_str()?.strip_prefix("/dev/loop")?.parse().ok()?;
        self.kernels.loops.contains_key(&(machine, number)).then_some(number)
    }

    /// Makes one on a mounted file. Its requests follow those that this causes.
    pub(super) fn add_loop(
        &mut self,
        machine: MachineId,
        id: FuseId,
        (block, read_only): (u32, bool),
    ) -> Result<PathBuf, Errno> {
        let connection = self.kernels.connections.get_mut(&id).ok_or(Errno::NOENT)?;
        if connection.is_refused() {
            return Err(Errno::CONNREFUSED);
        }
        if connection.is_over() {
            return Err(Errno::NOTCONN);
        }
        connection.references += 1;
        let backing = connection.path.clone();
        let number = self.free_loop(machine);
        let (released, claimed, on) = (false, false, Some(id));
        let device = Loop { on, backing, block, read_only, released, claimed };
        self.kernels.loops.insert((machine, number), device);
        self.ask_attributes(id);
        let body = open(!read_only);
        self.ask_daemon(id, opcode::OPEN, &body, (Expects::Body(16, &[]), Asker::Kernel));
        self.ask_daemon(id, opcode::STATFS, &[], (Expects::Body(80, &[]), Asker::Kernel));
        self.tell(format_args!("machine {}: loop device {number} on device {}", machine.0, id.0));
        Ok(node(number))
    }

    /// Whether a program has a loop device for itself alone.
    pub(super) fn is_claimed(&self, machine: MachineId, number: u32) -> bool {
        let mounted = |it: &super::device::Open| it.manner.mounted.is_some();
        let mut open = self.kernels.open.values();
        let device = self.kernels.loops.get(&(machine, number));
        device.is_some_and(|device| device.claimed)
            || open.any(|it| it.is_on_loop(machine, number) && mounted(it))
    }

    fn free_loop(&self, machine: MachineId) -> u32 {
        let is_free = |number: &u32| !self.kernels.loops.contains_key(&(machine, *number));
        (0..).find(is_free).unwrap_or(u32::MAX)
    }

    /// Another program makes a loop device with that number, if it is free.
    pub(crate) fn add_strange_loop(&mut self, machine: MachineId, number: u32) {
        let backing = PathBuf::from("/images/other.img");
        let (on, block, read_only, released, claimed) = (None, 512, false, false, false);
        let device = Loop { on, backing, block, read_only, released, claimed };
        self.kernels.loops.entry((machine, number)).or_insert(device);
    }

    /// Releases a loop device: at once, or with its last user.
    pub(crate) fn release_loop(&mut self, machine: MachineId, number: u32) {
        let Some(device) = self.kernels.loops.get_mut(&(machine, number)) else { return };
        device.released = true;
        self.end_released_loop(machine, number);
    }

    /// Removes a loop device that was released, if nothing uses it.
    pub(super) fn end_released_loop(&mut self, machine: MachineId, number: u32) {
        let key = (machine, number);
        let Some(device) = self.kernels.loops.get(&key) else { return };
        let used = self.kernels.open.values().any(|it| it.is_on_loop(machine, number));
        if !device.released || used {
            return;
        }
        let on = device.on;
        self.kernels.loops.remove(&key);
        self.tell(format_args!("machine {}: loop device {number} is gone", machine.0));
        if let Some(on) = on {
            self.drop_reference(on);
        }
    }

    /// The kernel names the files of loop devices otherwise, once their mount is gone.
    pub(super) fn hide_backing(&mut self, id: FuseId) {
        for device in self.kernels.loops.values_mut().filter(|it| it.on == Some(id)) {
            device.backing = PathBuf::from("/");
        }
    }

    /// A process flushes a device, and releases it then.
    pub(super) fn begin_settling(
        &mut self,
        machine: MachineId,
        path: &Path,
        ends: oneshot::Sender<io::Result<()>>,
    ) {
        let number = self.loop_at(machine, path);
        let refused = match number {
            None => Some(Errno::NXIO),
            Some(number) => self.is_claimed(machine, number).then_some(Errno::BUSY),
        };
        if let Some(errno) = refused {
            // Who asked may have gone.
            let _ = ends.send(Err(errno.into()));
            return;
        }
        let number = number.unwrap_or_default();
        let device = self.kernels.loops.get_mut(&(machine, number));
        let on = device.and_then(|device| {
            device.claimed = true;
            device.on
        });
        match on {
            Some(on) => self.ask_flush(on, Asker::Settle { ends, number }),
            None => self.end_settling(machine, number, ends, Ok(())),
        }
    }

    /// The flush of [`Inner::begin_settling`] ended.
    pub(super) fn settled(
        &mut self,
        id: FuseId,
        number: u32,
        ends: oneshot::Sender<io::Result<()>>,
        result: Result<Vec<u8>, Failure>,
    ) {
        let Some(connection) = self.kernels.connections.get(&id) else { return };
        let machine = connection.machine();
        // Nothing was written to one that is read-only, so that its flush flushes nothing.
        let device = self.kernels.loops.get(&(machine, number));
        if result.is_ok() && device.is_some_and(|device| !device.read_only) {
            let file = connection.path.clone();
            *self.kernels.settled.entry((machine, file)).or_default() += 1;
        }
        let result = result.map(drop).map_err(|_| Errno::IO);
        self.end_settling(machine, number, ends, result);
    }

    fn end_settling(
        &mut self,
        machine: MachineId,
        number: u32,
        ends: oneshot::Sender<io::Result<()>>,
        result: Result<(), Errno>,
    ) {
        if let Some(device) = self.kernels.loops.get_mut(&(machine, number)) {
            device.claimed = false;
        }
        // A killed process releases nothing.
        if result.is_ok() && !ends.is_closed() {
            self.release_loop(machine, number);
        }
        let _ = ends.send(result.map_err(io::Error::from));
    }
}
