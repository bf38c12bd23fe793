// SPDX-License-Identifier: Apache-2.0
//! The part of a machine's kernel that makes devices of volumes: FUSE connections, mounts, loop devices, their stable names,
//! and the processes that use them.
//!
//! ```text
//!   program ── /dev/loopN ── the file ── connection: queue, responses ── channel ── daemon
//! ```
//! A connection ends with the last handle of its channel, so also with its daemon; mounts and loop devices stay until the next
//! daemon removes them, or the machine loses its power. Calls of the daemon return at once: a loop device exists before the daemon
//! has responded to the requests that its creation causes.

mod channel;
mod connection;
mod device;
mod jobs;
mod loops;
mod sim;
mod strange;
#[cfg(test)]
mod tests;
mod upset;
mod wire;

pub(crate) use channel::SimChannel;
pub(crate) use connection::FuseId;
pub(crate) use device::OpenId;
pub use device::{DeviceIo, Done, Failure, Manner, OpenDevice, Readiness};
pub(crate) use sim::SimKernel;
pub use upset::Upset;

use crate::machine::SimMachine;
use crate::world::{Inner, MachineId, ProcessId, World};
use connection::Connection;
use device::Open;
use loops::Loop;
use std::collections::BTreeMap;
use std::path::PathBuf;
use upset::Refusals;

/// What all kernels of a world keep of devices.
#[derive(Default)]
pub(crate) struct Kernels {
    connections: BTreeMap<FuseId, Connection>,
    mounts: BTreeMap<(MachineId, PathBuf), FuseId>,
    loops: BTreeMap<(MachineId, u32), Loop>,
    /// Stable names, and the devices they lead to.
    names: BTreeMap<(MachineId, PathBuf), PathBuf>,
    open: BTreeMap<OpenId, Open>,
    refusals: BTreeMap<MachineId, Refusals>,
    /// How often a device on a file was flushed and released.
    settled: BTreeMap<(MachineId, PathBuf), u64>,
    /// The first promise that a daemon broke towards its kernel.
    broken: Option<String>,
}

impl Kernels {
    /// How many channels a process has open.
    pub(crate) fn held(&self, process: ProcessId) -> usize {
        self.connections.values().filter(|it| it.is_of(process)).count()
    }

    /// A machine lost its power: nothing is left of it.
    pub(crate) fn lose(&mut self, machine: MachineId) {
        self.connections.retain(|_, it| it.machine() != machine);
        self.mounts.retain(|(at, _), _| *at != machine);
        self.loops.retain(|(at, _), _| *at != machine);
        self.names.retain(|(at, _), _| *at != machine);
        self.open.retain(|_, it| it.machine != machine);
    }

    /// Notes a broken promise.
    fn breaks(&mut self, why: String) {
        self.broken.get_or_insert(why);
    }
}

impl Inner {
    /// A process ended: so do the connections whose channel it had.
    pub(crate) fn end_channels(&mut self, process: ProcessId) {
        let all = self.kernels.connections.iter().filter(|(_, it)| it.is_of(process));
        for id in all.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.close_channel(id);
        }
    }
}

impl World {
    /// The first promise that a daemon broke towards its kernel.
    #[must_use]
    pub fn device_violation(&self) -> Option<String> {
        self.lock().kernels.broken.clone()
    }

    /// How often the device of a volume was flushed to be detached.
    #[must_use]
    pub fn settled_devices(&self, machine: &SimMachine, group: &str, volume: &str) -> u64 {
        let file = file_of(group, volume);
        self.lock().kernels.settled.get(&(machine.id(), file)).copied().unwrap_or_default()
    }

    /// Requests of kernels that wait for their response, in words.
    #[must_use]
    pub fn unanswered(&self) -> Vec<String> {
        let inner = self.lock();
        inner.kernels.connections.values().flat_map(Connection::waiting).collect()
    }
}

/// The file of an attached volume.
fn file_of(group: &str, volume: &str) -> PathBuf {
    PathBuf::from(format!("/state/attach/{group}/{volume}"))
}
