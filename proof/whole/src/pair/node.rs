// SPDX-License-Identifier: Apache-2.0
//! A node: a machine with its disks, and the daemon on it while one runs.

use super::put_back::Images;
use super::scenario::{GroupShape, NODES, Scenario, VolumeShape};
use crate::cage::with_counter;
use crate::model::{Promise, Violation};
use helio_daemon::adopt::{Store, Wish, adopt};
use helio_daemon::{Creation, KEY_FILE, LogFormat, Options};
use helio_driver::{Errno, FileBody, Host, Machine, Mode, OFlags};
use helio_netmodel::Dice;
use helio_tls::{NodeKey, PublicKey};
use helio_units::Moment;
use helio_world::{MachineOptions, PausedRuntime, Response, SimDaemon, SimMachine, World};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What the calendars show when a story begins: a day of November 2023.
const CALENDAR: Duration = Duration::from_secs(1_700_000_000);

thread_local! {
    static STOCK: RefCell<Vec<PausedRuntime>> = const { RefCell::new(Vec::new()) };
}

/// A runtime for one start of a daemon. Its tasks may read the processor's counter in the cage.
fn runtime() -> io::Result<PausedRuntime> {
    Ok(PausedRuntime::new()?.around(|tasks| with_counter(tasks)))
}

/// Makes the runtimes of so many starts of daemons in this thread now.
///
/// # Errors
/// One cannot be made.
pub fn stock_runtimes(starts: usize) -> io::Result<()> {
    let made = (0..starts).map(|_| runtime()).collect::<io::Result<Vec<_>>>()?;
    STOCK.with_borrow_mut(|stock| stock.extend(made));
    Ok(())
}

/// See the module.
pub(crate) struct Node {
    pub(crate) machine: SimMachine,
    pub(crate) name: &'static str,
    /// The public keys that the configuration file has of it.
    pub(crate) keys: Vec<PublicKey>,
    options: Options,
    /// The daemon, until it ends.
    pub(crate) daemon: Option<SimDaemon>,
    /// How often one was started.
    pub(crate) starts: u64,
    /// Whether its machine has power.
    pub(crate) has_power: bool,
    /// Failed flushes of all files and of each member, as far as the model has them.
    failed_flushes: u64,
    failed_flushes_of: BTreeMap<PathBuf, u64>,
    /// Calls of its machine failed or took long in this story.
    pub(crate) has_faults: bool,
    /// The configuration file was changed, and not applied since.
    pub(crate) unapplied: bool,
    /// Its next start is an upgrade from the build before.
    pub(crate) is_older: bool,
    /// Earlier images of its members.
    pub(crate) images: Images,
    /// Since when operations on its disks end in time; never while they hang or are slow.
    pub(crate) disks_respond_since: Moment,
    /// Why it did not start last.
    pub(crate) why: Option<String>,
}

/// How a daemon went on.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Whether it did anything.
    pub(crate) did: bool,
    pub(crate) responses: Vec<Response>,
    /// How it ended, if it did.
    pub(crate) ended: Option<Gone>,
}

/// How a daemon ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone {
    pub(crate) stopping: bool,
    pub(crate) cleanly: bool,
}

impl Node {
    /// A machine with blank disks, and a key if the nodes have keys.
    ///
    /// # Errors
    /// The simulated disk refuses.
    pub(crate) fn new(world: &World, index: usize, scenario: &Scenario) -> Result<Self, Errno> {
        let address: SocketAddr = scenario.addresses()[index].parse().map_err(|_| Errno::INVAL)?;
        let machine = world.machine(MachineOptions {
            name: NODES[index].to_owned(),
            address: address.ip(),
            disk: scenario.room,
            calendar: CALENDAR + Duration::from_secs(index as u64 * 3),
        });
        for folder in scenario.folders() {
            machine.make_folder(&folder, Mode::RWXU)?;
        }
        let state = PathBuf::from("/state");
        let host: Host = Arc::new(machine.clone());
        let key = || NodeKey::create(&host, &state.join(KEY_FILE)).map_err(|_| Errno::IO);
        let key = scenario.has_keys.then(key).transpose()?;
        Ok(Self {
            machine,
            name: NODES[index],
            keys: key.map(|key| key.public()).into_iter().collect(),
            options: Options {
                node: NODES[index].to_owned(),
                config: PathBuf::from("/etc/heliograph.toml"),
                state,
                log_format: LogFormat::Text,
            },
            daemon: None,
            starts: 0,
            has_power: true,
            failed_flushes: 0,
            failed_flushes_of: BTreeMap::new(),
            has_faults: false,
            unapplied: false,
            is_older: false,
            images: Images::default(),
            disks_respond_since: Moment::ZERO,
            why: None,
        })
    }

    /// Writes the configuration file, and makes the members.
    ///
    /// # Errors
    /// The simulated disk refuses.
    pub(crate) fn set_up(
        &self,
        index: usize,
        scenario: &Scenario,
        file: &str,
        dice: &mut Dice,
    ) -> Result<(), Errno> {
        self.write(&self.options.config, file.as_bytes())?;
        for group in &scenario.groups {
            for volume in &group.volumes {
                for (n, path) in volume.paths(group.name, index).iter().enumerate() {
                    let junk = scenario.has_junk(group, volume, index, n);
                    self.make_member(path, volume.size.0, junk.then_some(&mut *dice))?;
                }
            }
        }
        let folders = ["/", "/etc", "/disks", "/disks/0", "/disks/1", "/disks/2"];
        folders.iter().try_for_each(|folder| self.sync(Path::new(folder)))
    }

    pub(super) fn sync(&self, path: &Path) -> Result<(), Errno> {
        self.machine.open(path, OFlags::RDONLY, Mode::empty())?.body().sync_all()
    }

    pub(super) fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let file = self.machine.open(path, flags, Mode::RUSR | Mode::WUSR)?;
        write_all(file.body(), bytes)?;
        file.body().sync_all()
    }

    /// A file that is to be a member: of zeros, or with dice of something else.
    fn make_member(&self, path: &Path, size: u64, junk: Option<&mut Dice>) -> Result<(), Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = self.machine.open(path, flags, Mode::RUSR | Mode::WUSR)?;
        file.body().set_length(size)?;
        if let Some(dice) = junk {
            let bytes: Vec<u8> = (0..size).map(|_| dice.below(256) as u8).collect();
            write_all(file.body(), &bytes)?;
        }
        file.body().sync_all()
    }

    /// Replaces a file by a copy of another one, as `cp --remove-destination` does.
    ///
    /// # Errors
    /// The simulated disk refuses, or a daemon still has the file locked.
    pub(crate) fn copy_file(&self, from: &Path, to: &Path) -> Result<(), Errno> {
        let content = self.machine.content(from)?;
        match self.machine.open(to, OFlags::RDWR, Mode::empty()) {
            Ok(old) if !old.body().lock()? => return Err(Errno::BUSY),
            Ok(_) => self.machine.remove(to)?,
            // An earlier attempt ended between the removal and the copy.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        self.write(to, &content)?;
        self.sync(to.parent().unwrap_or(Path::new("/")))
    }

    /// Starts the daemon.
    ///
    /// # Errors
    /// Why it does not serve.
    pub(crate) fn start(&mut self, now: Moment) -> Result<(), String> {
        self.starts += 1;
        let process = self.machine.process();
        let stocked = STOCK.with_borrow_mut(Vec::pop);
        let runtime = stocked.map_or_else(runtime, Ok).map_err(|error| error.to_string())?;
        self.daemon = Some(SimDaemon::start(process, &self.options, runtime, now)?);
        Ok(())
    }

    /// Writes new metadata for a group while the daemon is stopped, as `helio metadata create` does.
    ///
    /// # Errors
    /// Why that is refused.
    pub(crate) fn create_metadata(&self, group: &str) -> Result<(), String> {
        let Options { node, config, state, .. } = self.options.clone();
        let host: Host = Arc::new(self.machine.clone());
        let wish = Creation { group: group.to_owned(), node, config, state, restore: None };
        helio_daemon::create(&host, &wish).map(drop).map_err(|error| format!("{error:#}"))
    }

    /// Does what `helio adopt` does for a group that the configuration file has.
    ///
    /// # Errors
    /// Why that is refused.
    pub(crate) fn adopt(&self, index: usize, group: &GroupShape) -> Result<(), String> {
        let store = |volume: &VolumeShape| {
            let path = |node| volume.paths(group.name, node).into_iter().next().unwrap_or_default();
            let volume = volume.name.to_owned();
            Store { volume, path: path(index), peer_path: path(1 - index) }
        };
        let Options { node, config, state, .. } = self.options.clone();
        let wish = Wish {
            group: group.name.to_owned(),
            stores: group.volumes.iter().map(store).collect(),
            node,
            peer: None,
            config,
            state,
            write: false,
        };
        let process = self.machine.process();
        let adopted = adopt(&process.platform(), &wish).map_err(|error| format!("{error:#}"));
        process.kill();
        let adopted = adopted?;
        if adopted.ready { Ok(()) } else { Err("the file has no such group".to_owned()) }
    }

    /// The daemon goes on as far as it can now.
    ///
    /// # Errors
    /// It went on for ever, or ended otherwise than promised.
    pub(crate) fn step(&mut self, now: Moment) -> Result<Progress, Violation> {
        let Some(daemon) = &mut self.daemon else { return Ok(Progress::default()) };
        let name = self.name;
        let did = daemon.step(now).map_err(|why| Violation::new(Promise::Waits, why).at(name))?;
        let responses = daemon.responses();
        let Some(ended) = daemon.ended().cloned() else {
            return Ok(Progress { did, responses, ended: None });
        };
        self.machine.world().tell(format_args!("{name}: the daemon ended: {ended:?}"));
        let stopping = daemon.is_stopping();
        let (held, left) = self.daemon.take().map(SimDaemon::bury).unwrap_or_default();
        // Only a disk that fails may keep it from stopping cleanly, or from going on.
        if !self.has_faults && (!stopping || ended.is_some()) {
            let detail = format!("{name} ended by itself: {ended:?}");
            return Err(Violation::new(Promise::Stays, detail));
        }
        // What began while disks did not respond in time may be late.
        let left = left.iter().filter(|began| **began >= self.disks_respond_since).count();
        if ended.is_none() && left > 0 {
            let detail = format!("{name} stopped cleanly, and left {left} operations");
            return Err(Violation::new(Promise::Closes, detail));
        }
        // Work beside it, and disks that do not respond, may hold files until the process is gone.
        if ended.is_none() && held.sockets > 0 {
            let detail = format!("{name} stopped cleanly, and left open: {held:?}");
            return Err(Violation::new(Promise::Closes, detail));
        }
        let ended = Some(Gone { stopping, cleanly: ended.is_none() });
        Ok(Progress { did, responses, ended })
    }

    /// Whether a flush of any file failed since the last call.
    pub(crate) fn has_new_failed_flushes(&mut self) -> bool {
        let failed = self.machine.failed_flushes();
        std::mem::replace(&mut self.failed_flushes, failed) != failed
    }

    /// Whether a flush of one of these files failed since the last call for it.
    pub(crate) fn has_failed_flushes_of(&mut self, paths: Vec<PathBuf>) -> bool {
        let mut fails = false;
        for path in paths {
            let failed = self.machine.failed_flushes_of(&path);
            let known = self.failed_flushes_of.entry(path).or_default();
            fails |= std::mem::replace(known, failed) != failed;
        }
        fails
    }

    /// Kills the daemon, as SIGKILL does.
    pub(crate) fn kill(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.process().kill();
        }
    }

    /// Cuts the power of its machine.
    pub(crate) fn cut_power(&mut self) {
        self.machine.cut_power();
        self.daemon = None;
        self.has_power = false;
    }

    /// Gives its machine power again. The daemon is started apart.
    pub(crate) fn boot(&mut self) {
        self.machine.boot();
        self.has_power = true;
    }
}

/// Writes all of it from the start of a file: one call may write a part.
pub(super) fn write_all(file: &dyn FileBody, bytes: &[u8]) -> Result<(), Errno> {
    let mut written = 0;
    while written < bytes.len() {
        written += file.write_at(&bytes[written..], written as u64)?;
    }
    Ok(())
}
