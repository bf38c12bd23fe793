// SPDX-License-Identifier: Apache-2.0
//! A machine, as the processes on it and the story see it.

use crate::body::{SimFile, SimSocket};
use crate::disk::{Access, Disk, HandleId, Inode};
use crate::driver::SimDriver;
use crate::faults::{Faults, FileFault, Odds};
use crate::kernel::SimKernel;
use crate::world::{Due, Handle, Host, Inner, MachineId, ProcessId, Running, World};
use helio_daemon::Platform;
use helio_driver::{
    Address, Blocking, Errno, Facts, File, FileType, Machine, Mode, OFlags, Room, Socket,
};
use helio_units::{Bytes, Moment};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// What a machine has.
#[derive(Clone, Debug)]
pub struct MachineOptions {
    /// Its name in the event log.
    pub name: String,
    /// Where others reach it.
    pub address: IpAddr,
    /// Room of its file system, in bytes.
    pub disk: u64,
    /// What its calendar shows at the begin of the world, since 1970.
    pub calendar: Duration,
}

/// A machine, as one of its processes has it, or the story. A clone is the same machine.
///
/// Calls on files happen at once: they take no virtual time. [`Machine::pause`] returns at once, too, and time does not go on in it;
/// work given to [`Machine::take_work`] happens soon after, as an event of its own; [`Machine::together`] does its work once.
#[derive(Clone)]
pub struct SimMachine {
    world: World,
    id: MachineId,
    process: ProcessId,
}

impl fmt::Debug for SimMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimMachine({}, {})", self.id.0, self.process.0)
    }
}

/// One boot of a daemon on a machine: what it holds is counted, and it can be killed.
#[derive(Debug)]
pub struct Process {
    host: SimMachine,
}

/// Descriptors of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Open files and folders.
    pub files: usize,
    /// Sockets, and channels of attached volumes.
    pub sockets: usize,
}

impl World {
    /// Adds a machine with power.
    #[must_use]
    pub fn machine(&self, options: MachineOptions) -> SimMachine {
        let mut inner = self.lock();
        let id = MachineId(inner.machines.len());
        let dice = |label: &str| inner.root.split_nth(label, id.0 as u64);
        let host = Host {
            faults: Faults::new(dice("faults")),
            chance: dice("random bytes"),
            name: options.name,
            disk: Disk::new(options.disk),
            up_since: Some(inner.now),
            calendar: options.calendar,
            device: 0x100 + id.0 as u64,
        };
        inner.machines.push(host);
        inner.net.set_address(options.address, id);
        drop(inner);
        SimMachine { world: self.clone(), id, process: ProcessId(0) }
    }
}

impl Host {
    pub(crate) fn facts(&self, inode: Inode) -> Result<Facts, Errno> {
        // No two machines made a file at one moment.
        self.disk.facts(inode, self.device, self.calendar + Duration::from_nanos(self.device))
    }
}

impl Inner {
    /// Ends a flush, and says so if it failed.
    pub(crate) fn end_flush(
        &mut self,
        machine: MachineId,
        inode: Inode,
        upto: crate::disk::Stamp,
        attributes: bool,
        failed: bool,
    ) -> Result<(), Errno> {
        let Self { machines, dice, .. } = self;
        let disk = &mut machines[machine.0].disk;
        let result = disk.end_flush(inode, upto, attributes, failed.then_some(dice));
        if failed {
            self.tell(format_args!("machine {}: a flush of {} fails", machine.0, inode.0));
        }
        result
    }

    /// A process ends at once. What it has asked for may still happen, unless the machine loses its power.
    fn end_process(&mut self, process: ProcessId, power: bool) {
        let Some(running) = self.processes.get_mut(&process).filter(|it| it.alive) else { return };
        running.alive = false;
        self.tell(format_args!("process {} is killed", process.0));
        self.withdraw(|due| matches!(due, Due::Aside(owner, _) if *owner == process));
        self.drop_operations(process, power);
        if !power {
            self.close_sockets(process);
            self.end_channels(process);
        }
        let all = self.handles.iter().filter(|(_, handle)| handle.process == process);
        for id in all.map(|(id, _)| *id).collect::<Vec<_>>() {
            if !self.drivers.works_on(id) {
                self.close_file(id);
            }
        }
    }
}

impl SimMachine {
    pub(crate) const fn id(&self) -> MachineId {
        self.id
    }

    pub(crate) const fn process_id(&self) -> ProcessId {
        self.process
    }

    /// The world that it is in.
    #[must_use]
    pub const fn world(&self) -> &World {
        &self.world
    }

    fn with<R>(&self, act: impl FnOnce(&mut Host) -> R) -> R {
        act(self.world.lock().host(self.id))
    }

    /// The same as `alive`, for calls that may block.
    fn blocks(&self) -> Result<MutexGuard<'_, Inner>, Errno> {
        drop(self.world.lock_to_block());
        self.alive()
    }

    /// For calls of a process: one that ended, or a machine without power, does nothing.
    fn alive(&self) -> Result<MutexGuard<'_, Inner>, Errno> {
        let inner = self.world.lock();
        if inner.is_alive(self.process) && inner.is_up(self.id) {
            Ok(inner)
        } else {
            Err(Errno::IO)
        }
    }

    /// Starts a process.
    #[must_use]
    pub fn process(&self) -> Process {
        let mut inner = self.world.lock();
        let process = ProcessId(inner.processes.len() as u64 + 1);
        inner.processes.insert(process, Running { machine: self.id, alive: true });
        inner.tell(format_args!("process {} starts on machine {}", process.0, self.id.0));
        drop(inner);
        Process { host: Self { process, ..self.clone() } }
    }

    /// Its power is cut. Every process ends; of what was not flushed, each sector is old or new, and of the names some changes are lost.
    pub fn cut_power(&self) {
        let mut inner = self.world.lock();
        if !inner.is_up(self.id) {
            return;
        }
        inner.tell(format_args!("machine {} loses its power", self.id.0));
        let all = inner.processes.iter().filter(|(_, it)| it.machine == self.id);
        for process in all.map(|(id, _)| *id).collect::<Vec<_>>() {
            inner.end_process(process, true);
        }
        // What killed processes left behind does not outlast the machine, either.
        inner.drop_leftovers(self.id);
        let machine = self.id;
        inner.handles.retain(|_, handle| handle.machine != machine);
        inner.host(machine).up_since = None;
        inner.lose_sockets(machine);
        inner.kernels.lose(machine);
        let Inner { machines, dice, .. } = &mut *inner;
        let host = &mut machines[machine.0];
        host.faults.hung.clear();
        let lost = host.disk.cut(dice);
        inner.tell(format_args!("machine {} lost {lost} changes of names", machine.0));
    }

    /// It has power again.
    pub fn boot(&self) {
        let mut inner = self.world.lock();
        let (now, machine) = (inner.now, self.id);
        if inner.is_up(machine) {
            return;
        }
        inner.host(machine).up_since = Some(now);
        inner.tell(format_args!("machine {} has power again", machine.0));
        inner.wake_links(machine);
    }

    /// Sets how often things go wrong by themselves.
    pub fn set_odds(&self, odds: Odds) {
        self.with(|host| host.faults.odds = odds);
    }

    /// Makes the next calls of one kind on a file fail.
    ///
    /// # Errors
    /// There is no such file.
    pub fn fail(&self, path: &Path, fault: FileFault, times: u64) -> Result<(), Errno> {
        self.with(|host| {
            let inode = host.disk.find(path)?;
            host.faults.fail(inode, fault, times);
            Ok(())
        })
    }

    /// What lies in a file, as a process would read it that no misfortune strikes.
    ///
    /// # Errors
    /// There is no such file.
    pub fn content(&self, path: &Path) -> Result<Vec<u8>, Errno> {
        self.with(|host| {
            let inode = host.disk.find(path)?;
            let content = host.disk.content(inode)?;
            let mut bytes = vec![0; content.length() as usize];
            content.read(0, &mut bytes, false);
            Ok(bytes)
        })
    }

    /// How many flushes failed until now.
    #[must_use]
    pub fn failed_flushes(&self) -> u64 {
        self.with(|host| host.faults.failed_flushes.values().sum())
    }

    /// Whether calls of that kind on a file fail because [`SimMachine::fail`] made them.
    #[must_use]
    pub fn is_failing(&self, path: &Path, fault: FileFault) -> bool {
        self.with(|host| {
            let inode = host.disk.find(path).ok();
            inode.is_some_and(|inode| host.faults.is_sure(inode, fault))
        })
    }

    /// How many flushes of a file failed until now.
    #[must_use]
    pub fn failed_flushes_of(&self, path: &Path) -> u64 {
        self.with(|host| {
            let inode = host.disk.find(path).ok();
            inode.and_then(|inode| host.faults.failed_flushes.get(&inode).copied()).unwrap_or(0)
        })
    }

    /// No call fails any more because it was told to.
    pub fn clear_faults(&self) {
        self.with(|host| host.faults.clear());
    }

    /// Operations on a file do not end until [`SimMachine::resume`].
    ///
    /// # Errors
    /// There is no such file.
    pub fn hang(&self, path: &Path) -> Result<(), Errno> {
        self.with(|host| {
            let inode = host.disk.find(path)?;
            host.faults.hung.insert(inode);
            Ok(())
        })
    }

    /// Operations on all files end again, those that hung as well.
    pub fn resume(&self) {
        let mut inner = self.world.lock();
        inner.host(self.id).faults.hung.clear();
        inner.resume_operations(self.id);
    }

    /// Every operation on a file takes so many times as long.
    pub fn slow_down(&self, times: u32) {
        self.with(|host| host.faults.slowness = times);
    }

    /// Changes the size of its file system; it may hold more than that already.
    pub fn set_room(&self, bytes: u64) {
        self.with(|host| host.disk.set_size(bytes));
    }

    /// Changes how many files and sockets a process may have open.
    pub fn set_descriptors(&self, most: usize) {
        self.with(|host| host.faults.descriptors = most);
    }

    /// Sets the calendar.
    pub fn set_calendar(&self, shown: Duration) {
        let mut inner = self.world.lock();
        let passed = inner.now.since(Moment::ZERO);
        inner.host(self.id).calendar = shown.saturating_sub(passed);
    }

    /// The name in the event log.
    #[must_use]
    pub fn name(&self) -> String {
        self.with(|host| host.name.clone())
    }
}

impl Process {
    /// The machine, as the process has it.
    #[must_use]
    pub fn host(&self) -> helio_driver::Host {
        Arc::new(self.host.clone())
    }

    /// What the daemon runs on: the machine and its kernel.
    #[must_use]
    pub fn platform(&self) -> Platform {
        Platform { host: self.host(), kernel: Arc::new(self.kernel()) }
    }

    /// The kernel, as far as attached volumes go.
    pub(crate) fn kernel(&self) -> SimKernel {
        SimKernel::new(self.host.world.clone(), self.host.clone())
    }

    /// Does what the thread of its shard does: a call that may block panics in there, as that thread must never wait.
    pub fn on_shard<T>(&self, turn: impl FnOnce() -> T) -> T {
        self.host.world.on_shard(turn)
    }

    /// A driver of the process.
    #[must_use]
    pub fn driver(&self) -> SimDriver {
        SimDriver::new(&self.host.world, self.host.id, self.host.process, self.host())
    }

    /// It ends at once, as by SIGKILL. The kernel closes its sockets. Of its operations on files some never happen, and some happen
    /// later; until they did, the file stays open, and locked if it was.
    pub fn kill(&self) {
        self.host.world.lock().end_process(self.host.process, false);
    }

    /// Whether it runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.host.world.lock().is_alive(self.host.process)
    }

    /// What it has open now.
    #[must_use]
    pub fn held(&self) -> Held {
        let (files, sockets) = self.host.world.lock().held(self.host.process);
        Held { files, sockets }
    }
}

impl Machine for SimMachine {
    fn since_boot(&self) -> Duration {
        let inner = self.world.lock();
        inner.machines[self.id.0].up_since.map_or(Duration::ZERO, |since| inner.now.since(since))
    }

    fn calendar(&self) -> Duration {
        let inner = self.world.lock();
        inner.machines[self.id.0].calendar + inner.now.since(Moment::ZERO)
    }

    fn memory(&self) -> Bytes {
        Bytes::gib(4)
    }

    fn descriptor_limits(&self) -> [Option<u64>; 2] {
        [None, None]
    }

    fn limit_descriptors(&self, _most: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn random(&self, into: &mut [u8]) -> io::Result<()> {
        self.with(|host| into.iter_mut().for_each(|byte| *byte = host.chance.next_u64() as u8));
        Ok(())
    }

    fn open(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<File, Errno> {
        let mut inner = self.blocks()?;
        let now = inner.now;
        let (files, sockets) = inner.held(self.process);
        let host = inner.host(self.id);
        host.faults.may_open(files + sockets)?;
        let inode = host.disk.open(path, flags, mode, now)?;
        host.disk.opened(inode)?;
        let id = HandleId(inner.drivers.number());
        let (machine, process) = (self.id, self.process);
        inner.handles.insert(id, Handle { machine, process, inode });
        drop(inner);
        let access = Access::of(flags);
        let body = SimFile::new(self.world.clone(), id, (machine, process), inode, access);
        Ok(File::of(body, !access.direct))
    }

    fn facts(&self, path: &Path, _follow: bool) -> Result<Facts, Errno> {
        let mut inner = self.blocks()?;
        let host = inner.host(self.id);
        host.facts(host.disk.find(path)?)
    }

    fn room(&self, path: &Path) -> Result<Room, Errno> {
        let mut inner = self.blocks()?;
        let disk = &inner.host(self.id).disk;
        disk.find(path)?;
        Ok(disk.room())
    }

    fn may_create_in(&self, folder: &Path) -> Result<(), Errno> {
        let facts = self.facts(folder, true)?;
        if facts.kind == FileType::Directory { Ok(()) } else { Err(Errno::NOTDIR) }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let mut inner = self.blocks()?;
        let host = inner.host(self.id);
        let mut names = host.disk.list(folder)?;
        // A file system returns them in an order of its own.
        if !names.is_empty() {
            let first = inner.dice.below(names.len() as u64) as usize;
            names.rotate_left(first);
        }
        Ok(names)
    }

    fn make_folder(&self, path: &Path, mode: Mode) -> Result<(), Errno> {
        let mut inner = self.blocks()?;
        let now = inner.now;
        inner.host(self.id).disk.make_folder(path, mode, now)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Errno> {
        self.blocks()?.host(self.id).disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<(), Errno> {
        self.blocks()?.host(self.id).disk.remove(path, false)
    }

    fn remove_folder(&self, path: &Path) -> Result<(), Errno> {
        self.blocks()?.host(self.id).disk.remove(path, true)
    }

    fn remove_tree(&self, folder: &Path) -> io::Result<()> {
        for name in self.list(folder)? {
            let path = folder.join(name);
            match self.facts(&path, false)?.kind {
                FileType::Directory => self.remove_tree(&path)?,
                _ => self.remove(&path)?,
            }
        }
        Ok(self.remove_folder(folder)?)
    }

    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(self.blocks()?.host(self.id).disk.real_path(path)?)
    }

    fn stream_for(&self, _address: &Address) -> io::Result<Socket> {
        let mut inner = self.alive()?;
        let (files, sockets) = inner.held(self.process);
        inner.host(self.id).faults.may_open(files + sockets)?;
        let id = inner.net.fresh(self.id, self.process);
        drop(inner);
        Ok(Socket::of(Arc::new(SimSocket::new(self.world.clone(), id, self.process))))
    }

    fn listen(&self, address: &Address, backlog: u16) -> io::Result<Socket> {
        let mut inner = self.alive()?;
        let id = inner.listen(self.id, self.process, address, backlog)?;
        drop(inner);
        Ok(Socket::of(Arc::new(SimSocket::new(self.world.clone(), id, self.process))))
    }

    fn take_work(&self, name: &str, work: Blocking) -> Option<Blocking> {
        // A process that ended does nothing any more.
        let Ok(mut inner) = self.alive() else { return None };
        let span = Duration::from_micros(1 + inner.dice.below(200));
        inner.tell(format_args!("process {}: {name} begins beside it", self.process.0));
        inner.push_in(span, Due::Aside(self.process, work));
        None
    }

    fn together(&self, _threads: usize, work: &(dyn Fn() + Sync)) {
        work();
    }

    fn pause(&self, _span: Duration) {}
}
