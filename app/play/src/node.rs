// SPDX-License-Identifier: Apache-2.0
//! A node: a simulated machine with one disk, and the daemon on it while one runs.

use crate::simulation::{DiskState, FlushState, SimulatedNode};
use helio_api::{ApiError, GroupStatus, paths};
use helio_daemon::{LogFormat, Options};
use helio_driver::{Errno, File, Machine, Mode, OFlags};
use helio_units::{Bytes, Moment, State};
use helio_world::{
    FileFault, MachineOptions, PausedRuntime, Response, SimDaemon, SimMachine, World,
};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

/// What the calendars show when a pair begins: a day of November 2023.
const CALENDAR: Duration = Duration::from_secs(1_700_000_000);
/// Room of the file system of a node.
const ROOM: Bytes = Bytes::mib(512);
const CONFIG: &str = "/etc/heliograph.toml";
const STATE: &str = "/var/lib/heliograph";
/// The folders that exist before the first start, from the top.
const FOLDERS: [&str; 5] = ["/etc", "/var", "/var/lib", STATE, "/srv"];
/// The disk of the volume.
pub(crate) const MEMBER: &str = "/srv/data.img";
/// Calls on a file that a failed disk refuses.
const FAULTS: [FileFault; 3] = [FileFault::Read, FileFault::Write, FileFault::Flush];

/// The socket on which a node serves NBD.
pub(crate) fn nbd_socket() -> PathBuf {
    Path::new(STATE).join("nbd.sock")
}

/// See the module.
pub(crate) struct Node {
    pub(crate) name: &'static str,
    pub(crate) machine: SimMachine,
    options: Options,
    daemon: Option<SimDaemon>,
    /// Why no daemon runs.
    why: String,
    /// What is on the disk while it works.
    data: DiskState,
    /// Receivers of the daemon's events.
    pub(crate) followers: Vec<mpsc::Sender<Vec<u8>>>,
}

impl Node {
    /// A machine with its configuration file and an empty disk of this size.
    ///
    /// # Errors
    /// The simulated file system refuses.
    pub(crate) fn new(
        world: &World,
        (name, address): (&'static str, IpAddr),
        config: &str,
        size: Bytes,
    ) -> Result<Self, Errno> {
        let machine = world.machine(MachineOptions {
            name: name.to_owned(),
            address,
            disk: ROOM.0,
            calendar: CALENDAR,
        });
        for folder in FOLDERS {
            machine.make_folder(Path::new(folder), Mode::RWXU)?;
        }
        let file = create(&machine, CONFIG)?;
        file.write_all_at(config.as_bytes(), 0).map_err(|_| Errno::IO)?;
        let node = Self {
            name,
            machine,
            options: Options {
                node: name.to_owned(),
                config: PathBuf::from(CONFIG),
                state: PathBuf::from(STATE),
                log_format: LogFormat::Text,
            },
            daemon: None,
            why: "it was not started".to_owned(),
            data: DiskState::Sound,
            followers: Vec::new(),
        };
        node.new_disk(size)?;
        Ok(node)
    }

    /// Makes the file of an empty disk.
    fn new_disk(&self, size: Bytes) -> Result<(), Errno> {
        create(&self.machine, MEMBER)?.body().set_length(size.0)
    }

    /// Starts the daemon.
    ///
    /// # Errors
    /// One runs, or it does not start.
    pub(crate) fn start(&mut self, now: Moment) -> Result<(), ApiError> {
        if self.daemon.is_some() {
            let text = format!("the daemon of {} runs already", self.name);
            return Err(ApiError::new(REFUSED, text, "kill it first"));
        }
        let process = self.machine.process();
        let started = PausedRuntime::new().map_err(|error| error.to_string());
        let started = started.and_then(|it| SimDaemon::start(process, &self.options, it, now));
        match started {
            Ok(daemon) => {
                self.daemon = Some(daemon);
                self.uses_disk();
                let followers = std::mem::take(&mut self.followers);
                followers.into_iter().for_each(|lines| self.follow(lines));
                Ok(())
            }
            Err(why) => {
                let text = format!("the daemon of {} does not start: {why}", self.name);
                self.why = format!("it did not start: {why}");
                Err(ApiError::read(REFUSED, &text))
            }
        }
    }

    /// Sends the events of the daemon, and of each later one, to a receiver.
    pub(crate) fn follow(&mut self, events: mpsc::Sender<Vec<u8>>) {
        self.followers.retain(|it| !it.is_closed());
        if let Some(daemon) = &self.daemon {
            daemon.stream(paths::EVENTS.to_owned(), events.clone());
        }
        self.followers.push(events);
    }

    /// Kills the daemon, as SIGKILL does. Whether one ran.
    pub(crate) fn kill(&mut self, why: &str) -> bool {
        let Some(daemon) = self.daemon.take() else { return false };
        daemon.process().kill();
        why.clone_into(&mut self.why);
        true
    }

    /// Sends a request to the daemon.
    ///
    /// # Errors
    /// None runs.
    pub(crate) fn request(
        &mut self,
        number: u64,
        (method, path, body): (&str, &str, &[u8]),
    ) -> Result<(), ApiError> {
        let Some(daemon) = &mut self.daemon else { return Err(self.no_daemon()) };
        daemon.request(number, method, path.to_owned(), body.to_vec());
        Ok(())
    }

    /// No daemon runs that could respond.
    pub(crate) fn no_daemon(&self) -> ApiError {
        let text = format!("no daemon responds on {}: {}", self.name, self.why);
        let retry = ApiError::new("no-daemon", text, format!("start the daemon of {}", self.name));
        ApiError { retry: true, ..retry }
    }

    /// The daemon goes on as far as it can now; with `control`, its control plane does too, although its time has not come. Whether it did
    /// anything, and the responses that it has.
    pub(crate) fn step(&mut self, now: Moment, control: bool) -> (bool, Vec<Response>) {
        let Some(daemon) = &mut self.daemon else { return (false, Vec::new()) };
        let did = if control { daemon.settle(now) } else { daemon.step(now) };
        let responses = daemon.responses();
        let ended = match (&did, daemon.ended()) {
            (Err(spins), _) => Some(format!("it was ended, because {spins}")),
            (_, Some(Some(error))) => Some(format!("it ended: {error}")),
            (_, Some(None)) => Some("it stopped".to_owned()),
            (Ok(_), None) => None,
        };
        if let Some(why) = ended {
            self.kill(&why);
        }
        (did.unwrap_or(true), responses)
    }

    /// When the daemon goes on by itself.
    pub(crate) fn next(&self) -> Moment {
        self.daemon.as_ref().map_or(Moment::NEVER, SimDaemon::next)
    }

    pub(crate) const fn runs(&self) -> bool {
        self.daemon.is_some()
    }

    pub(crate) fn is_primary(&self, group: &str) -> bool {
        self.daemon.as_ref().is_some_and(|daemon| daemon.is_primary(group))
    }

    /// Whether it is primary and its peer has every write, but for those under way.
    pub(crate) fn replicates(&mut self, group: &str) -> bool {
        let serving = self.daemon.as_mut().and_then(|daemon| daemon.serving(group));
        serving.is_some_and(|it| it.state == State::Replicating)
    }

    fn fails(&self, fault: FileFault) -> bool {
        self.machine.is_failing(Path::new(MEMBER), fault)
    }

    fn set_fault(&self, fault: FileFault, times: u64) {
        // The file exists: nothing removes it but the exchange of the disk, which makes another one.
        let _ = self.machine.fail(Path::new(MEMBER), fault, times);
    }

    fn has_failed_disk(&self) -> bool {
        self.fails(FileFault::Write)
    }

    /// Every operation on the disk fails from now on.
    pub(crate) fn fail_disk(&self) {
        FAULTS.iter().for_each(|fault| self.set_fault(*fault, u64::MAX));
    }

    /// The next flush of the disk fails.
    pub(crate) fn fail_flush(&self) {
        if !self.fails(FileFault::Flush) {
            self.set_fault(FileFault::Flush, 1);
        }
    }

    /// Puts a new, empty disk in the place of a failed one. A daemon that runs has the old one open until it uses the new one.
    ///
    /// # Errors
    /// The disk works, or the simulated file system refuses.
    pub(crate) fn replace_disk(&mut self, size: Bytes) -> Result<(), ApiError> {
        if !self.has_failed_disk() {
            let text = format!("the disk of {} works", self.name);
            return Err(ApiError::new(REFUSED, text, "only a failed disk is replaced"));
        }
        let replaced = self.machine.remove(Path::new(MEMBER)).and_then(|()| self.new_disk(size));
        replaced.map_err(|errno| {
            let text = format!("the disk of {} is not replaced: {errno}", self.name);
            ApiError::new(REFUSED, text, "press New pair")
        })?;
        self.data = DiskState::New;
        Ok(())
    }

    /// The daemon opened the disk, and not one that was in its place before.
    pub(crate) fn uses_disk(&mut self) {
        if self.data == DiskState::New {
            self.data = DiskState::Incomplete;
        }
    }

    /// Whether a status of the daemon is needed to find out whether the copy on a new disk is complete.
    pub(crate) fn fills_disk(&self) -> bool {
        self.runs() && self.disk() == DiskState::Incomplete
    }

    /// The daemon reported that. A copy that is consistent may be an old one as long as no peer is connected.
    pub(crate) fn reported(&mut self, group: &GroupStatus) {
        let follows = matches!(group.state, State::Replicating | State::Periodic);
        if self.fills_disk() && group.consistent && group.fault.is_none() && follows {
            self.data = DiskState::Sound;
        }
    }

    /// Its disk, as far as the data on it is concerned.
    pub(crate) fn disk(&self) -> DiskState {
        if self.has_failed_disk() { DiskState::Failed } else { self.data }
    }

    pub(crate) fn shown(&self, group: &str) -> SimulatedNode {
        SimulatedNode {
            name: self.name,
            running: self.runs(),
            disk: self.disk(),
            flushes: if self.fails(FileFault::Flush) {
                FlushState::Fail
            } else {
                FlushState::Succeed
            },
            serves: self.is_primary(group),
        }
    }
}

/// The code of an error of a button.
pub(crate) const REFUSED: &str = "refused";

fn create(machine: &SimMachine, path: &str) -> Result<File, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    machine.open(Path::new(path), flags, Mode::RUSR | Mode::WUSR)
}
