// SPDX-License-Identifier: Apache-2.0
//! The driver of a simulated process.

mod files;

use crate::body::{SimFile, SimSocket};
use crate::disk::HandleId;
use crate::kernel::SimChannel;
use crate::net::{Pending, SocketId, Want, Way};
use crate::world::{Inner, MachineId, ProcessId, Released, World};
use files::FileOperation;
use helio_driver::{Completion, Driver, Host, Op, Outcome, Socket, Token, Wake, Waker};
use helio_units::Moment;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// The number of a driver; none of a world is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DriverId(u64);

/// Operations that must end in order: of one socket and direction.
pub(crate) type Lane = Option<(SocketId, Way)>;

/// What the kernel keeps of a driver.
#[derive(Debug)]
struct Kernel {
    process: ProcessId,
    done: Vec<(Lane, Completion)>,
    /// Wait operations.
    waits: Vec<Token>,
    /// Where the buffers begin that operations hold.
    buffers: BTreeSet<usize>,
    /// How many operations are under way.
    under_way: usize,
}

/// All drivers, and the operations on files.
#[derive(Debug, Default)]
pub(crate) struct Drivers {
    all: BTreeMap<DriverId, Kernel>,
    files: BTreeMap<u64, FileOperation>,
    numbers: u64,
}

impl Drivers {
    /// A number that nothing else has.
    pub(crate) const fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(crate) fn remove(&mut self, driver: DriverId) {
        self.all.remove(&driver);
    }

    /// Whether an operation is under way on an open file.
    pub(crate) fn works_on(&self, handle: HandleId) -> bool {
        self.files.values().any(|operation| operation.handle() == handle)
    }
}

/// What a driver sleeps beside.
#[derive(Debug, Default)]
struct Bell {
    rung: AtomicBool,
}

impl Wake for Bell {
    fn wake(&self) {
        self.rung.store(true, SeqCst);
    }
}

/// A driver whose operations are performed by the simulated machine. It never sleeps: [`Driver::wait`] hands out what has ended by now, or
/// a part of it, in any order that is legal.
///
/// It panics if two operations hold one buffer.
pub struct SimDriver {
    world: World,
    machine: MachineId,
    host: Host,
    id: DriverId,
    bell: Arc<Bell>,
    /// A waker was called, and no wait operation has reported it.
    woken: bool,
}

impl fmt::Debug for SimDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimDriver({})", self.id.0)
    }
}

impl SimDriver {
    pub(crate) fn new(world: &World, machine: MachineId, process: ProcessId, host: Host) -> Self {
        let mut inner = world.lock();
        let id = DriverId(inner.drivers.number());
        let kernel = Kernel {
            process,
            done: Vec::new(),
            waits: Vec::new(),
            buffers: BTreeSet::new(),
            under_way: 0,
        };
        inner.drivers.all.insert(id, kernel);
        drop(inner);
        let (world, bell) = (world.clone(), Arc::default());
        Self { world, machine, host, id, bell, woken: false }
    }

    /// Whether [`Driver::wait`] would return at once: something has ended, or a waker was called.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let inner = self.world.lock();
        let waits = inner
            .drivers
            .all
            .get(&self.id)
            .is_some_and(|it| !it.done.is_empty() || self.woken && !it.waits.is_empty());
        waits || self.bell.rung.load(SeqCst)
    }

    /// How many operations have not ended; wait operations are not counted.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.world.lock().drivers.all.get(&self.id).map_or(0, |it| it.under_way)
    }

    /// When the operations on files began that have not ended.
    #[must_use]
    pub fn files_under_way(&self) -> Vec<Moment> {
        let inner = self.world.lock();
        let ours = inner.drivers.files.values().filter(|operation| operation.driver() == self.id);
        ours.map(FileOperation::began).collect()
    }

    fn submit_file(&self, inner: &mut Inner, token: Token, op: Op) {
        let operation = FileOperation::new(self.id, token, op, inner);
        assert_eq!(operation.machine(), self.machine, "a file of another machine");
        inner.begin(operation);
    }
}

/// The body of a socket of this world.
fn body_of(socket: &Socket) -> &SimSocket {
    let body: &dyn Any = socket.body();
    body.downcast_ref().expect("a socket of another machine reached the simulator")
}

/// The body of a channel of this world, if it is one.
fn channel_of(socket: &Socket) -> Option<&SimChannel> {
    let body: &dyn Any = socket.body();
    body.downcast_ref()
}

/// The body of a file of this world.
fn file_of(file: &helio_driver::File) -> &SimFile {
    let body: &dyn Any = file.body();
    body.downcast_ref().expect("a file of another machine reached the simulator")
}

/// Where the buffer begins that an operation writes to, if it holds any memory.
fn buffer_of(op: &Op) -> Option<usize> {
    match op {
        Op::Read { buffer, .. } | Op::Recv { buffer, .. } if buffer.capacity() > 0 => {
            Some(buffer.as_ptr() as usize)
        }
        _ => None,
    }
}

fn buffer_back(outcome: &Outcome) -> Option<usize> {
    match outcome {
        Outcome::Read { buffer, .. } | Outcome::Recv { buffer, .. } if buffer.capacity() > 0 => {
            Some(buffer.as_ptr() as usize)
        }
        _ => None,
    }
}

impl Inner {
    /// An operation has ended. One of a driver that is gone ends unheard.
    pub(crate) fn complete(
        &mut self,
        driver: DriverId,
        lane: Lane,
        token: Token,
        outcome: Outcome,
    ) {
        let Some(kernel) = self.drivers.all.get_mut(&driver) else { return };
        if let Some(buffer) = buffer_back(&outcome) {
            kernel.buffers.remove(&buffer);
        }
        let process = kernel.process;
        match outcome.error() {
            Some(error) => self.tell(format_args!("process {}: {:x}: {error}", process.0, token.0)),
            None => {
                let what = Named(&outcome);
                self.tell(format_args!("process {}: {:x}: {what}", process.0, token.0));
            }
        }
        if let Some(kernel) = self.drivers.all.get_mut(&driver) {
            kernel.done.push((lane, Completion { token, outcome }));
        }
    }

    /// Operations of a process that ends: those at sockets never end, those on files may happen later.
    pub(crate) fn drop_operations(&mut self, process: ProcessId, power: bool) {
        let all = self.drivers.all.iter().filter(|(_, kernel)| kernel.process == process);
        for driver in all.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.drivers.all.remove(&driver);
            self.drop_files(driver, power);
        }
    }
}

/// An outcome as the event log names it, with the size that matters.
struct Named<'a>(&'a Outcome);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Outcome::Recv { result, .. } => {
                return write!(f, "received {}", result.as_ref().copied().unwrap_or_default());
            }
            Outcome::Read { .. } => "read",
            Outcome::Write { .. } => "written",
            Outcome::SyncData(_) => "flushed",
            Outcome::SetAttribute(_) => "attribute set",
            Outcome::Punch(_) => "punched",
            Outcome::Zero(_) => "zeroed",
            Outcome::Map(_) => "mapped",
            Outcome::Reserve(_) => "reserved",
            Outcome::SetLength(_) => "its length set",
            Outcome::Compute => "computed",
            Outcome::Accept(_) => "accepted",
            Outcome::Connect(_) => "connected",
            Outcome::Send { .. } => "sent",
            Outcome::Ready(_) => "ready",
            Outcome::Wait => "woken",
        })
    }
}

impl Driver for SimDriver {
    fn submit(&mut self, token: Token, op: Op) {
        let mut inner = self.world.lock();
        let Some(kernel) = inner.drivers.all.get_mut(&self.id) else { return };
        if let Some(buffer) = buffer_of(&op) {
            assert!(
                kernel.buffers.insert(buffer),
                "two operations hold one buffer: {token:?} {op:?}"
            );
        }
        let (handle, want) = match op {
            Op::Wait => return kernel.waits.push(token),
            Op::Accept { listener } => (listener, Want::Accept),
            Op::Connect { socket, address } => (socket, Want::Connect { address }),
            Op::Recv { socket, buffer, range } => (socket, Want::Recv { buffer, range }),
            Op::Send { socket, pieces } => (socket, Want::Send { pieces, piece: 0, within: 0 }),
            Op::Ready { socket } => match channel_of(&socket).map(|channel| channel.id) {
                Some(channel) => {
                    kernel.under_way += 1;
                    return inner.wait_at_channel(channel, (self.id, token), socket);
                }
                None => (socket, Want::Ready),
            },
            Op::Compute(computation) => {
                kernel.under_way += 1;
                // It may look at the calendar of its machine.
                drop(inner);
                computation.perform();
                return self.world.lock().complete(self.id, None, token, Outcome::Compute);
            }
            file => {
                kernel.under_way += 1;
                return self.submit_file(&mut inner, token, file);
            }
        };
        kernel.under_way += 1;
        let socket = body_of(&handle).id;
        inner.submit_at(socket, Pending { driver: self.id, token, want, _socket: handle });
    }

    fn cancel(&mut self, socket: &Socket) {
        let mut inner = self.world.lock();
        match channel_of(socket) {
            Some(channel) => inner.cancel_at_channel(channel.id, self.id),
            None => inner.cancel_at(body_of(socket).id, self.id),
        }
    }

    fn wait(&mut self, _timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        let mut inner = self.world.lock();
        let Inner { drivers, dice, .. } = &mut *inner;
        let Some(kernel) = drivers.all.get_mut(&self.id) else { return Ok(()) };
        self.woken |= self.bell.rung.swap(false, SeqCst);
        if self.woken && !kernel.waits.is_empty() {
            self.woken = false;
            let ended = kernel.waits.drain(..);
            out.extend(ended.map(|token| Completion { token, outcome: Outcome::Wait }));
        }
        // Now and then only a part of it is seen.
        let part = dice.chance(1, 8).then(|| 1 + dice.below(kernel.done.len() as u64) as usize);
        for _ in 0..part.unwrap_or(kernel.done.len()).min(kernel.done.len()) {
            let drawn = dice.below(kernel.done.len() as u64) as usize;
            let lane = kernel.done[drawn].0;
            let first = kernel.done.iter().position(|(other, _)| lane.is_some() && *other == lane);
            let (_, completion) = kernel.done.remove(first.unwrap_or(drawn));
            kernel.under_way -= 1;
            out.push(completion);
        }
        Ok(())
    }

    fn host(&self) -> &Host {
        &self.host
    }

    fn waker(&self) -> Waker {
        Waker::new(Arc::<Bell>::clone(&self.bell))
    }
}

impl Drop for SimDriver {
    /// Operations on files happen all the same; nobody is told.
    fn drop(&mut self) {
        self.world.release(Released::Driver(self.id));
    }
}
