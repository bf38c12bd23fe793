// SPDX-License-Identifier: Apache-2.0
//! What goes wrong between a kernel and a daemon, apart from the end of either.

use super::connection::FuseId;
use super::loops::node;
use super::wire::Version;
use crate::machine::SimMachine;
use crate::world::{Inner, MachineId};
use helio_driver::Errno;
use helio_netmodel::Dice;
use std::path::PathBuf;

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Upset {
    /// `/dev/fuse` cannot be opened.
    NoFuse,
    /// There are no loop devices.
    NoLoop,
    /// The next loop device cannot be made.
    LoopFails,
    /// Connections begin with another version.
    Version,
    /// Requests that no sound kernel makes, and such that the daemon does not serve.
    Strange,
    /// An administrator aborts a connection.
    Abort,
    /// Another program unmounts a file, lazily.
    Unmount,
    /// The same by force: its connection is aborted.
    UnmountByForce,
    /// Another program releases a loop device, and may make another one with its number.
    Detach,
}

impl Upset {
    /// Every third is a number of strange requests, of which there are many kinds.
    #[must_use]
    pub fn draw(dice: &mut Dice) -> Self {
        if dice.chance(1, 3) {
            return Self::Strange;
        }
        Self::ALL[dice.below(Self::ALL.len() as u64) as usize]
    }

    /// Every kind.
    const ALL: [Self; 9] = [
        Self::NoFuse,
        Self::NoLoop,
        Self::LoopFails,
        Self::Version,
        Self::Strange,
        Self::Abort,
        Self::Unmount,
        Self::UnmountByForce,
        Self::Detach,
    ];
}

/// What a kernel refuses for a while.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusals {
    fuse: u64,
    /// How many loop devices are refused, and whether it has none at all.
    loops: (u64, bool),
    /// The version that so many connections begin with.
    version: Option<(Version, u64)>,
}

const USUAL: Version = Version { major: 7, minor: 36 };
/// The oldest version, the one before it, newer ones, and one that never was.
const VERSIONS: [Version; 6] = [
    Version { major: 7, minor: 28 },
    Version { major: 7, minor: 27 },
    Version { major: 7, minor: 31 },
    Version { major: 7, minor: 45 },
    Version { major: 8, minor: 0 },
    Version { major: 6, minor: 36 },
];
const STRANGE_MOST: u64 = 24;

impl Inner {
    /// Why the next mount is refused, if it is.
    pub(super) fn refuses_mount(&mut self, machine: MachineId) -> Option<Errno> {
        let refusals = self.kernels.refusals.get_mut(&machine).filter(|it| it.fuse > 0)?;
        refusals.fuse -= 1;
        Some(Errno::ACCESS)
    }

    /// Why the next loop device is refused, if it is: `NOENT` if there are none.
    pub(super) fn refuses_loop(&mut self, machine: MachineId) -> Option<Errno> {
        let refusals = self.kernels.refusals.get_mut(&machine).filter(|it| it.loops.0 > 0)?;
        refusals.loops.0 -= 1;
        Some(if refusals.loops.1 { Errno::NOENT } else { Errno::BUSY })
    }

    /// The version that the next connection begins with.
    pub(super) fn fuse_version(&mut self, machine: MachineId) -> Version {
        let refusals = self.kernels.refusals.get_mut(&machine);
        match refusals.and_then(|it| it.version.as_mut()).filter(|(_, left)| *left > 0) {
            Some((version, left)) => {
                *left -= 1;
                *version
            }
            None => USUAL,
        }
    }

    fn live_connections(&self, machine: MachineId) -> Vec<FuseId> {
        let all = self.kernels.connections.iter();
        all.filter(|(_, it)| it.machine() == machine && it.serves()).map(|(id, _)| *id).collect()
    }
}

impl SimMachine {
    /// Something goes wrong between the kernel and the daemon. Whether it met something: a refusal does if a device is attached, since it waits
    /// for the next one.
    #[must_use]
    pub fn upset(&self, what: Upset, dice: &mut Dice) -> bool {
        let (mut inner, machine) = (self.world().lock(), self.id());
        let live = inner.live_connections(machine);
        let refusals = inner.kernels.refusals.entry(machine).or_default();
        let count = 1 + dice.below(4);
        match what {
            Upset::NoFuse => refusals.fuse = count,
            Upset::NoLoop => refusals.loops = (count, true),
            Upset::LoopFails => refusals.loops = (count, false),
            Upset::Version => {
                let drawn = dice.below(VERSIONS.len() as u64) as usize;
                refusals.version = Some((VERSIONS[drawn], count));
            }
            Upset::Detach => return inner.detach_one(machine, dice),
            Upset::Strange | Upset::Abort | Upset::Unmount | Upset::UnmountByForce => {
                if live.is_empty() {
                    return false;
                }
                let id = live[dice.below(live.len() as u64) as usize];
                match what {
                    Upset::Strange => {
                        (0..1 + dice.below(STRANGE_MOST))
                            .for_each(|_| inner.send_strange(id, dice));
                    }
                    Upset::Abort => inner.end_connection(id, Errno::CONNABORTED),
                    _ => inner.unmount_one(id, what == Upset::UnmountByForce),
                }
            }
        }
        !live.is_empty()
    }

    /// A mount or loop device that a daemon made, but for those of these files.
    #[must_use]
    pub fn left_over(&self, files: &[PathBuf]) -> Option<PathBuf> {
        let inner = self.world().lock();
        let mounts = inner.kernels.mounts.keys().filter(|(at, _)| *at == self.id());
        let loops =
            inner.kernels.loops.iter().filter(|((at, _), it)| *at == self.id() && it.on.is_some());
        let mounts = mounts.map(|(_, path)| (path.clone(), path));
        let loops = loops.map(|((_, number), it)| (node(*number), &it.backing));
        let mut left = mounts.chain(loops).filter(|(_, file)| !files.contains(file));
        left.next().map(|(path, _)| path)
    }

    /// The kernel refuses nothing any more.
    pub fn refuse_nothing(&self) {
        self.world().lock().kernels.refusals.remove(&self.id());
    }
}

impl Inner {
    fn unmount_one(&mut self, id: FuseId, force: bool) {
        let Some(connection) = self.kernels.connections.get(&id).filter(|it| it.mounted) else {
            return;
        };
        let (machine, path) = (connection.machine(), connection.path.clone());
        if force {
            self.end_connection(id, Errno::CONNABORTED);
        }
        // One by force fails after that if the file is open.
        let _in_use = self.unmount(machine, &path, !force);
    }

    /// Another program detaches a loop device, if there is one.
    fn detach_one(&mut self, machine: MachineId, dice: &mut Dice) -> bool {
        let all =
            self.kernels.loops.iter().filter(|((at, _), it)| *at == machine && it.on.is_some());
        let all: Vec<u32> = all.map(|((_, number), _)| *number).collect();
        if all.is_empty() {
            return false;
        }
        let number = all[dice.below(all.len() as u64) as usize];
        self.release_loop(machine, number);
        if dice.chance(1, 2) {
            self.add_strange_loop(machine, number);
        }
        true
    }
}
