// SPDX-License-Identifier: Apache-2.0
//! A daemon on a simulated machine, whose turns are measured once that is wanted.

use crate::boundary;
use helio_daemon::stepped::{Next, Stepped};
use helio_daemon::{LogFormat, Options};
use helio_driver::{
    Address, Completion, Driver, Host, Machine, Mode, OFlags, Op, Socket, Token, Waker,
};
use helio_units::{Bytes, Moment, State};
use helio_world::{MachineOptions, Process, SimDriver, SimMachine, World};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// What the calendars show when the world begins: a day of November 2023.
const CALENDAR: Duration = Duration::from_secs(1_700_000_000);
/// Room of the file system of a machine.
const ROOM: Bytes = Bytes::mib(512);
const CONFIG: &str = "/etc/heliograph.toml";
const STATE: &str = "/state";
/// The file that holds the volume.
pub(crate) const MEMBER: &str = "/disks/data.img";
/// The time between two looks at the control plane, and how often its tasks may wake each other in one.
const LOOKS: Duration = Duration::from_millis(50);
const ROUNDS: usize = 24;

/// The simulated driver, with the operations counted that the daemon gives to it.
pub(crate) struct Counted {
    simulated: SimDriver,
    operations: u64,
    /// Whether turns are measured.
    measured: bool,
}

impl Driver for Counted {
    fn submit(&mut self, token: Token, op: Op) {
        self.operations += 1;
        match self.measured {
            true => boundary::simulate(&mut self.simulated, token, op),
            // Callgrind does not count yet, and would begin to.
            false => self.simulated.submit(token, op),
        }
    }

    fn cancel(&mut self, socket: &Socket) {
        self.simulated.cancel(socket);
    }

    fn wait(&mut self, timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        self.simulated.wait(timeout, out)
    }

    fn host(&self) -> &Host {
        self.simulated.host()
    }

    fn waker(&self) -> Waker {
        self.simulated.waker()
    }
}

/// See the module.
pub(crate) struct Node {
    pub(crate) machine: SimMachine,
    process: Process,
    // Dropped before the runtime, which its tasks live in.
    daemon: Stepped<Counted>,
    runtime: Runtime,
    completions: Vec<Completion>,
    /// When the shard goes on if nothing completes, and when the control plane does.
    due: Moment,
    looks: Moment,
}

impl Node {
    /// A machine with an empty disk, and the daemon on it.
    ///
    /// # Errors
    /// The simulated machine refuses something, or the daemon does not start.
    pub(crate) fn start(
        world: &World,
        (name, address): (&str, IpAddr),
        config: &str,
        size: Bytes,
    ) -> Result<Self, String> {
        let (name, disk, calendar) = (name.to_owned(), ROOM.0, CALENDAR);
        let machine = world.machine(MachineOptions { name: name.clone(), address, disk, calendar });
        set_up(&machine, config, size).map_err(|error| format!("the disk of {name}: {error}"))?;
        let options = Options {
            node: name,
            config: PathBuf::from(CONFIG),
            state: PathBuf::from(STATE),
            log_format: LogFormat::Text,
        };
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
        let process = machine.process();
        let entered = runtime.enter();
        let driver = Counted { simulated: process.driver(), operations: 0, measured: false };
        let started = Stepped::start(&options, &process.platform(), driver);
        drop(entered);
        Ok(Self {
            daemon: started.map_err(|error| format!("{error:#}"))?,
            machine,
            process,
            runtime,
            completions: Vec::new(),
            due: world.now(),
            looks: world.now() + LOOKS,
        })
    }

    /// Sends a request to the control plane. A group that goes on shows that it was not refused.
    pub(crate) fn post(&self, path: String, body: &serde_json::Value) {
        let (control, body) = (self.daemon.control(), body.to_string().into_bytes());
        self.runtime.spawn(async move { control.request("POST", &path, body).await });
    }

    /// Goes on as far as it can now. Returns whether it did anything.
    ///
    /// # Errors
    /// The daemon ended.
    pub(crate) fn step(&mut self, now: Moment) -> Result<bool, String> {
        let mut did = false;
        while self.daemon.driver().simulated.is_ready() || now >= self.due {
            did = true;
            let waited = self.daemon.driver().wait(Some(Duration::ZERO), &mut self.completions);
            waited.map_err(|error| error.to_string())?;
            let next = match self.daemon.driver().measured {
                true => boundary::turn(&mut self.daemon, &mut self.completions),
                false => self.daemon.turn(&mut self.completions),
            };
            match next {
                Next::Waits(timeout) => self.due = timeout.map_or(Moment::NEVER, |it| now + it),
                Next::Ended(result) => return Err(format!("a daemon ended: {result:?}")),
            }
        }
        if now >= self.looks {
            did = true;
            self.looks = now + LOOKS;
            self.runtime.block_on(async {
                tokio::time::advance(LOOKS).await;
                for _ in 0..ROUNDS {
                    tokio::task::yield_now().await;
                }
            });
        }
        Ok(did)
    }

    /// When it goes on by itself.
    pub(crate) fn next(&self) -> Moment {
        self.due.min(self.looks)
    }

    /// Its turns are measured from now on.
    pub(crate) fn measure(&mut self) {
        self.daemon.driver().measured = true;
    }

    /// How many operations the daemon gave to its driver.
    pub(crate) fn operations(&mut self) -> u64 {
        self.daemon.driver().operations
    }

    /// The state of a group that it serves as primary.
    pub(crate) fn state(&self, group: &str) -> Option<State> {
        self.daemon.serving(group).map(|serving| serving.state)
    }

    /// Where clients connect.
    pub(crate) fn door(&self) -> Address {
        Address::Unix(Path::new(STATE).join("nbd.sock"))
    }
}

impl Drop for Node {
    /// What waits in a world holds it: the process ends first.
    fn drop(&mut self) {
        self.process.kill();
    }
}

fn set_up(machine: &SimMachine, config: &str, size: Bytes) -> io::Result<()> {
    for folder in ["/etc", STATE, "/disks"] {
        machine.make_folder(Path::new(folder), Mode::RWXU)?;
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let create = |path| machine.open(Path::new(path), flags, Mode::RUSR | Mode::WUSR);
    create(CONFIG)?.write_all_at(config.as_bytes(), 0)?;
    Ok(create(MEMBER)?.body().set_length(size.0)?)
}
