// SPDX-License-Identifier: Apache-2.0
//! The world: virtual time, what falls due in it, and the machines and links that it is made of.

use crate::disk::{Disk, HandleId, Inode};
use crate::driver::{DriverId, Drivers, Lane};
use crate::faults::Faults;
use crate::kernel::{FuseId, Kernels, OpenId};
use crate::net::{Net, NetDue, SocketId};
use crate::story::Story;
use helio_driver::{Blocking, Outcome, Token};
use helio_netmodel::Dice;
use helio_units::Moment;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The number of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MachineId(pub(crate) usize);

/// The number of a process; none of a world is used twice. Zero is whatever the story itself does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessId(pub(crate) u64);

/// What falls due.
pub(crate) enum Due {
    /// An operation on a file goes on.
    File(u64),
    /// Work beside a process.
    Aside(ProcessId, Blocking),
    /// Something on a link.
    Net(NetDue),
    /// The completion of an operation is seen.
    Completed { driver: DriverId, lane: Lane, token: Token, outcome: Box<Outcome> },
    /// Nothing but the moment itself.
    Alarm,
}

/// A machine.
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) disk: Disk,
    pub(crate) faults: Faults,
    /// Random bytes for its processes.
    pub(crate) chance: Dice,
    /// Since when it has power; none if it has none.
    pub(crate) up_since: Option<Moment>,
    /// What the calendar showed at the begin of the world.
    pub(crate) calendar: Duration,
    /// Another number for every mount of its disk.
    pub(crate) device: u64,
}

/// An open file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    pub(crate) machine: MachineId,
    pub(crate) process: ProcessId,
    pub(crate) inode: Inode,
}

/// One boot of a daemon.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) machine: MachineId,
    pub(crate) alive: bool,
}

/// Everything there is.
pub(crate) struct Inner {
    me: Weak<Shared>,
    pub(crate) now: Moment,
    queue: BTreeMap<(Moment, u64), Due>,
    ties: u64,
    pub(crate) root: Dice,
    pub(crate) dice: Dice,
    pub(crate) story: Story,
    pub(crate) machines: Vec<Host>,
    pub(crate) processes: BTreeMap<ProcessId, Running>,
    pub(crate) handles: BTreeMap<HandleId, Handle>,
    pub(crate) net: Net,
    pub(crate) drivers: Drivers,
    pub(crate) kernels: Kernels,
    /// A shard's thread runs, and none that may block.
    on_shard: bool,
}

/// A handle whose last clone was dropped.
pub(crate) enum Released {
    File(HandleId),
    Socket(SocketId),
    Driver(DriverId),
    Channel(FuseId),
    Device(OpenId),
}

pub(crate) struct Shared {
    inner: Mutex<Inner>,
    /// Handles are dropped at any place, also where the world is locked: they wait here until it is locked next.
    released: Mutex<Vec<Released>>,
    /// Whether one may wait there.
    has_released: AtomicBool,
}

/// A simulated world. A clone is the same world.
///
/// All that happens in it comes from one seed. It must be used by one thread at a time; nothing in it blocks, reads a clock or has a
/// descriptor. What waits in it for an event may hold handles on it: kill every process before the world is dropped, or its memory stays.
#[derive(Clone)]
pub struct World {
    shared: Arc<Shared>,
}

/// A turn of a shard, until it is dropped.
struct OnShard<'a>(&'a World);

impl Drop for OnShard<'_> {
    fn drop(&mut self) {
        self.0.lock().on_shard = false;
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}

impl World {
    /// An empty world. With `story` it keeps every line of its event log; without, only their digest.
    #[must_use]
    pub fn new(seed: u64, story: bool) -> Self {
        let shared = Arc::new_cyclic(|me| {
            let root = Dice::new(seed);
            let inner = Inner {
                me: me.clone(),
                now: Moment::ZERO,
                queue: BTreeMap::new(),
                ties: 0,
                dice: root.split("world"),
                story: Story::new(story),
                machines: Vec::new(),
                processes: BTreeMap::new(),
                handles: BTreeMap::new(),
                net: Net::new(root.split("net")),
                drivers: Drivers::default(),
                kernels: Kernels::default(),
                on_shard: false,
                root,
            };
            Shared {
                inner: Mutex::new(inner),
                released: Mutex::default(),
                has_released: AtomicBool::new(false),
            }
        });
        Self { shared }
    }

    /// The same world without an event log, which takes time.
    #[must_use]
    pub fn untold(self) -> Self {
        self.lock().story = Story::untold();
        self
    }

    /// Runs a turn of a shard. A call that may block is a mistake of ours there, and panics.
    pub(crate) fn on_shard<T>(&self, turn: impl FnOnce() -> T) -> T {
        self.lock().on_shard = true;
        let _turn = OnShard(self);
        turn()
    }

    /// The same as `lock`, for a call that may block.
    pub(crate) fn lock_to_block(&self) -> MutexGuard<'_, Inner> {
        let inner = self.lock();
        assert!(!inner.on_shard, "a call that may block, on the thread of a shard");
        inner
    }

    /// The world, with every handle closed that was dropped until now. A thread that panicked in it leaves it as it is.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner);
        while self.shared.has_released.swap(false, SeqCst) {
            let released = std::mem::take(&mut *self.released());
            released.into_iter().for_each(|handle| inner.release(handle));
        }
        inner
    }

    fn released(&self) -> MutexGuard<'_, Vec<Released>> {
        self.shared.released.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the last clone of a handle is gone.
    pub(crate) fn release(&self, handle: Released) {
        self.released().push(handle);
        self.shared.has_released.store(true, SeqCst);
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.lock().now
    }

    /// When something falls due next; none if nothing does.
    #[must_use]
    pub fn next(&self) -> Option<Moment> {
        self.lock().queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// Goes on to what falls due next and lets it happen. Returns whether there was anything.
    pub fn advance(&self) -> bool {
        let mut inner = self.lock();
        let Some(((at, _), due)) = inner.queue.pop_first() else { return false };
        inner.now = at;
        match due {
            Due::File(operation) => inner.file_due(operation),
            Due::Net(due) => inner.net_due(due),
            Due::Completed { driver, lane, token, outcome } => {
                inner.complete(driver, lane, token, *outcome);
            }
            Due::Alarm => {}
            Due::Aside(process, work) => {
                if inner.is_alive(process) {
                    // The work may call its machine.
                    drop(inner);
                    work();
                    return true;
                }
            }
        }
        true
    }

    /// Goes on to what falls due next, or to `due` if that is earlier.
    pub fn advance_until(&self, due: Moment) {
        if self.next().is_none_or(|next| due < next) {
            self.alarm(due);
        }
        self.advance();
    }

    /// Something falls due at `at`: the moment alone. For deadlines of whatever lives in the world.
    pub fn alarm(&self, at: Moment) {
        self.lock().push(at, Due::Alarm);
    }

    /// Adds a line to the event log.
    pub fn tell(&self, text: fmt::Arguments<'_>) {
        self.lock().tell(text);
    }

    /// The event log, if it is kept.
    #[must_use]
    pub fn story(&self) -> Vec<String> {
        self.lock().story.lines().to_vec()
    }

    /// A digest of the event log: equal runs have equal ones.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.lock().story.digest()
    }

    /// Dice of their own for one purpose.
    #[must_use]
    pub fn dice(&self, label: &str) -> Dice {
        self.lock().root.split(label)
    }
}

impl Inner {
    /// The world around it, for handles that are made inside.
    pub(crate) fn world(&self) -> Option<World> {
        self.me.upgrade().map(|shared| World { shared })
    }

    pub(crate) fn push(&mut self, at: Moment, due: Due) {
        self.ties += 1;
        self.queue.insert((at.max(self.now), self.ties), due);
    }

    pub(crate) fn push_in(&mut self, span: Duration, due: Due) {
        self.push(self.now + span, due);
    }

    /// Takes what no longer falls due.
    pub(crate) fn withdraw(&mut self, mut is_gone: impl FnMut(&Due) -> bool) {
        self.queue.retain(|_, due| !is_gone(due));
    }

    pub(crate) fn tell(&mut self, text: fmt::Arguments<'_>) {
        self.story.tell(self.now, text);
    }

    pub(crate) fn host(&mut self, machine: MachineId) -> &mut Host {
        &mut self.machines[machine.0]
    }

    pub(crate) fn is_up(&self, machine: MachineId) -> bool {
        self.machines[machine.0].up_since.is_some()
    }

    /// Whether a process runs. The story itself always does.
    pub(crate) fn is_alive(&self, process: ProcessId) -> bool {
        process == ProcessId(0) || self.processes.get(&process).is_some_and(|it| it.alive)
    }

    /// Descriptors of a process: files, and sockets and channels.
    pub(crate) fn held(&self, process: ProcessId) -> (usize, usize) {
        let files = self.handles.values().filter(|handle| handle.process == process).count();
        (files, self.net.held(process) + self.kernels.held(process))
    }

    fn release(&mut self, handle: Released) {
        match handle {
            Released::File(handle) => self.close_file(handle),
            Released::Socket(socket) => self.close_socket(socket),
            Released::Driver(driver) => {
                self.forget_driver(driver);
                self.forget_at_channels(driver);
            }
            Released::Channel(channel) => self.close_channel(channel),
            Released::Device(device) => self.close_device(device),
        }
    }

    pub(crate) fn close_file(&mut self, id: HandleId) {
        if let Some(handle) = self.handles.remove(&id) {
            self.host(handle.machine).disk.closed(handle.inode, id);
        }
    }
}
