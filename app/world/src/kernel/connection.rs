// SPDX-License-Identifier: Apache-2.0
//! A FUSE connection: requests go out through its channel, each is answered once, or the connection ends.

use super::device::OpenId;
use super::wire::{self, Expects, FAILURES, HEADER, Version, opcode};
use crate::driver::DriverId;
use crate::kernel::device::Failure;
use crate::world::{Inner, MachineId, ProcessId};
use helio_driver::{Cause, Errno, OpError, Operation, Outcome, Socket, Token};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, IoSliceMut};
use std::path::PathBuf;
use tokio::sync::oneshot;

/// The number of a connection; none of a world is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FuseId(pub(super) u64);

/// The room that a read of the channel must have at least.
const ROOM_LEAST: usize = 8192;
/// Numbers of requests are this far apart; an interrupt has the number of its request and one more.
const STEP: u64 = 2;
/// Requests that the kernel sends before the daemon says how many.
const BACKGROUND: usize = 12;

/// Whose request it is.
#[derive(Debug)]
pub(super) enum Asker {
    /// The kernel's own, as part of opening or closing.
    Kernel,
    /// A part of a job of an open device.
    Part { open: OpenId, job: u64, at: u64 },
    /// A program opens the file.
    Opening(OpenId),
    /// The flush before a device is detached, and the loop device that is released after it.
    Settle { ends: oneshot::Sender<io::Result<()>>, number: u32 },
    /// None that a sound kernel would make.
    Stranger,
}

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) unique: u64,
    pub(super) opcode: u32,
    pub(super) expects: Expects,
    pub(super) asker: Asker,
    /// The message, until it is handed out.
    bytes: Vec<u8>,
}

/// What daemon and kernel agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agreement {
    Waits,
    Refused,
    Made { longest: u32, background: usize },
}

/// What the daemon says of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) size: u64,
    pub(super) block: u32,
    pub(super) read_only: bool,
}

/// Requests in every stage.
#[derive(Debug, Default)]
struct Traffic {
    last: u64,
    /// They wait for the agreement, or until less is under way.
    held: VecDeque<Request>,
    /// They can be read from the channel.
    queue: VecDeque<Request>,
    /// They were read, and wait for their response.
    processing: BTreeMap<u64, Request>,
    answered: BTreeSet<u64>,
    /// The numbers of interrupts that were sent: one for each request.
    interrupts: BTreeSet<u64>,
    /// Operations that wait for a request.
    waits: Vec<(DriverId, Token, Socket)>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Connection {
    machine: MachineId,
    process: ProcessId,
    pub(super) path: PathBuf,
    pub(super) mounted: bool,
    /// Whether the channel has a handle.
    channel: bool,
    /// What a read of the channel finds since the connection ended.
    ended: Option<Errno>,
    agreement: Agreement,
    pub(super) attributes: Option<Attributes>,
    /// Open files: of programs, and of loop devices.
    pub(super) references: u32,
    /// The daemon knows interrupts, as far as the kernel knows.
    interrupts: bool,
    traffic: Traffic,
}

impl Connection {
    /// One that begins: the first request is sent at once.
    pub(super) fn new(
        machine: MachineId,
        process: ProcessId,
        path: PathBuf,
        version: Version,
    ) -> Self {
        let expects = match version {
            Version { major: 7, minor: 28.. } => Expects::Body(64, &[]),
            _ => Expects::Error(libc::EPROTO),
        };
        let mut connection = Self {
            machine,
            process,
            path,
            mounted: true,
            channel: true,
            ended: None,
            agreement: Agreement::Waits,
            attributes: None,
            references: 0,
            interrupts: true,
            traffic: Traffic::default(),
        };
        let unique = connection.number();
        let bytes = wire::message(unique, opcode::INIT, &wire::init(version));
        let (opcode, asker) = (opcode::INIT, Asker::Kernel);
        connection.traffic.queue.push_back(Request { unique, opcode, expects, asker, bytes });
        connection
    }

    pub(super) const fn machine(&self) -> MachineId {
        self.machine
    }

    /// Whether a process has its channel open.
    pub(super) fn is_of(&self, process: ProcessId) -> bool {
        self.channel && self.process == process
    }

    pub(super) const fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether requests can be sent.
    pub(super) const fn serves(&self) -> bool {
        self.ended.is_none() && matches!(self.agreement, Agreement::Made { .. })
    }

    /// Whether the daemon refused the version.
    pub(super) fn is_refused(&self) -> bool {
        self.agreement == Agreement::Refused
    }

    pub(super) const fn knows_interrupts(&self) -> bool {
        self.interrupts
    }

    fn number(&mut self) -> u64 {
        self.traffic.last += STEP;
        self.traffic.last
    }

    /// Requests that wait for a response, in words.
    pub(super) fn waiting(&self) -> impl Iterator<Item = String> {
        let Traffic { held, queue, processing, .. } = &self.traffic;
        let all = held.iter().chain(queue).chain(processing.values());
        let all = all.filter(|it| self.ended.is_none() && it.expects.is_owed());
        all.map(|it| format!("request {} ({}) at {}", it.unique, it.opcode, self.path.display()))
    }

    /// Requests of an open device that were read from the channel.
    pub(super) fn in_process(&self, open: OpenId) -> Vec<u64> {
        let of = |it: &&Request| matches!(it.asker, Asker::Part { open: by, .. } if by == open);
        self.traffic.processing.values().filter(of).map(|it| it.unique).collect()
    }

    /// Takes back what an open device asked and the daemon has not read. Returns the jobs and their parts.
    pub(super) fn take_back(&mut self, open: OpenId) -> Vec<u64> {
        let mut taken = Vec::new();
        let Traffic { held, queue, .. } = &mut self.traffic;
        for requests in [held, queue] {
            requests.retain(|it| match it.asker {
                Asker::Part { open: by, job, .. } if by == open => {
                    taken.push(job);
                    false
                }
                _ => true,
            });
        }
        taken
    }

    fn is_readable(&self) -> bool {
        self.ended.is_some() || !self.traffic.queue.is_empty()
    }

    /// Moves requests on that had to wait, as far as there is room.
    fn release(&mut self) {
        let Agreement::Made { background, .. } = self.agreement else { return };
        let Traffic { held, queue, processing, .. } = &mut self.traffic;
        while queue.len() + processing.len() < background.max(BACKGROUND)
            && let Some(next) = held.pop_front()
        {
            queue.push_back(next);
        }
    }
}

impl Inner {
    /// Sends a request. One of a connection that ended ends at once.
    pub(super) fn ask_daemon(
        &mut self,
        id: FuseId,
        opcode: u32,
        body: &[u8],
        (expects, asker): (Expects, Asker),
    ) {
        let Some(connection) = self.kernels.connections.get_mut(&id) else {
            return self.request_ended(id, opcode, asker, Err(Failure::Lost));
        };
        if connection.is_over() || connection.is_refused() {
            return self.request_ended(id, opcode, asker, Err(Failure::Lost));
        }
        let unique = connection.number();
        let bytes = wire::message(unique, opcode, body);
        connection.traffic.held.push_back(Request { unique, opcode, expects, asker, bytes });
        connection.release();
        self.wake_channel(id);
    }

    /// Sends bytes that a sound kernel would not send, past everything that waits. With `number` they name a request of this
    /// number; otherwise they get one.
    pub(super) fn send_raw(
        &mut self,
        id: FuseId,
        number: Option<u64>,
        (expects, opcode): (Expects, u32),
        compose: impl FnOnce(u64) -> Vec<u8>,
    ) {
        let Some(connection) = self.kernels.connections.get_mut(&id) else { return };
        if connection.is_over() {
            return;
        }
        let unique = number.unwrap_or_else(|| connection.number());
        let (bytes, asker) = (compose(unique), Asker::Stranger);
        connection.traffic.queue.push_back(Request { unique, opcode, expects, asker, bytes });
        self.wake_channel(id);
    }

    /// Tells the daemon that who waits for a request was interrupted.
    pub(super) fn interrupt(&mut self, id: FuseId, request: u64) {
        let found = self.kernels.connections.get_mut(&id);
        if !found.is_some_and(|connection| connection.traffic.interrupts.insert(request | 1)) {
            return;
        }
        let body = request.to_ne_bytes();
        let expects = Expects::Error(libc::ENOSYS);
        self.send_raw(id, Some(request | 1), (expects, opcode::INTERRUPT), |unique| {
            wire::message(unique, opcode::INTERRUPT, &body)
        });
    }

    /// What an operation on a channel waits for may be there.
    fn wake_channel(&mut self, id: FuseId) {
        let Some(connection) = self.kernels.connections.get_mut(&id) else { return };
        if !connection.is_readable() {
            return;
        }
        for (driver, token, _) in std::mem::take(&mut connection.traffic.waits) {
            self.complete(driver, None, token, Outcome::Ready(Ok(())));
        }
    }

    /// Waits for a request.
    pub(crate) fn wait_at_channel(
        &mut self,
        id: FuseId,
        (driver, token): (DriverId, Token),
        socket: Socket,
    ) {
        let found = self.kernels.connections.get_mut(&id);
        match found.filter(|connection| !connection.is_readable()) {
            Some(connection) => connection.traffic.waits.push((driver, token, socket)),
            None => self.complete(driver, None, token, Outcome::Ready(Ok(()))),
        }
    }

    /// Ends what a driver waits for at a channel.
    pub(crate) fn cancel_at_channel(&mut self, id: FuseId, driver: DriverId) {
        let Some(connection) = self.kernels.connections.get_mut(&id) else { return };
        let all = std::mem::take(&mut connection.traffic.waits);
        let (ended, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|(by, ..)| *by == driver);
        connection.traffic.waits = kept;
        for (driver, token, _) in ended {
            let (operation, cause) = (Operation::Ready, Cause::Errno(Errno::CANCELED));
            let error = OpError { operation, extent: None, cause };
            self.complete(driver, None, token, Outcome::Ready(Err(error)));
        }
    }

    /// A driver is gone, and what it waited for.
    pub(crate) fn forget_at_channels(&mut self, driver: DriverId) {
        for connection in self.kernels.connections.values_mut() {
            connection.traffic.waits.retain(|(by, ..)| *by != driver);
        }
    }

    /// The daemon reads its channel.
    pub(super) fn hand_out(
        &mut self,
        id: FuseId,
        into: &mut [IoSliceMut<'_>],
    ) -> Result<usize, Errno> {
        // A signal arrives first, or the process that asked was killed.
        match self.dice.below(64) {
            0 => return Err(Errno::INTR),
            1 => return Err(Errno::NOENT),
            _ => {}
        }
        let connection = self.kernels.connections.get_mut(&id).ok_or(Errno::NODEV)?;
        if let Some(errno) = connection.ended {
            return Err(errno);
        }
        let longest = match connection.agreement {
            Agreement::Made { longest, .. } => longest as usize,
            _ => 0,
        };
        let room: usize = into.iter().map(|slice| slice.len()).sum();
        if room < ROOM_LEAST.max(HEADER + 40 + longest) {
            self.kernels.breaks(format!("the daemon reads requests into {room} bytes"));
            return Err(Errno::INVAL);
        }
        let Some(mut request) = connection.traffic.queue.pop_front() else {
            return Err(Errno::AGAIN);
        };
        let bytes = std::mem::take(&mut request.bytes);
        let (unique, opcode) = (request.unique, request.opcode);
        let mut rest = &bytes[..];
        for slice in into {
            let (front, behind) = rest.split_at(rest.len().min(slice.len()));
            slice[..front.len()].copy_from_slice(front);
            rest = behind;
        }
        if request.expects != Expects::Nothing {
            connection.traffic.processing.insert(unique, request);
        }
        self.tell(format_args!("device {}: request {unique} ({opcode}) is read", id.0));
        Ok(bytes.len())
    }

    /// The daemon writes a response.
    pub(super) fn take_response(&mut self, id: FuseId, bytes: &[u8]) -> Result<usize, Errno> {
        if self.dice.chance(1, 64) {
            return Err(Errno::INTR);
        }
        let gone = if self.dice.chance(1, 4) { Errno::NODEV } else { Errno::NOENT };
        let connection = self.kernels.connections.get_mut(&id).ok_or(gone)?;
        if connection.is_over() {
            return Err(gone);
        }
        let place = connection.path.display().to_string();
        let (unique, result) = match wire::response(bytes) {
            Ok(response) => response,
            Err(why) => {
                self.kernels.breaks(format!("the kernel of {place} refuses {why}"));
                return Err(Errno::INVAL);
            }
        };
        let Some(request) = connection.traffic.processing.remove(&unique) else {
            let again = connection.traffic.answered.contains(&unique);
            let how = if again { "again" } else { "that was not made, or wants none" };
            self.kernels.breaks(format!("{place}: a response to request {unique} {how}"));
            return Err(Errno::NOENT);
        };
        connection.traffic.answered.insert(unique);
        let Request { opcode, expects, asker, .. } = request;
        self.tell(format_args!(
            "device {}: response to {unique}: {:?}",
            id.0,
            result.map(<[u8]>::len)
        ));
        if !expects.admits(result) {
            let shown = result.map(<[u8]>::len);
            self.kernels.breaks(format!(
                "{place}: the response to request {unique} ({opcode}) is {shown:?}, expected {expects:?}"
            ));
        }
        match (opcode, &asker) {
            (opcode::INIT, Asker::Kernel) => self.agree(id, result),
            (opcode::GETATTR, Asker::Kernel) => self.learn(id, result),
            (opcode::INTERRUPT, _) => {
                if let Some(connection) = self.kernels.connections.get_mut(&id) {
                    connection.interrupts = result != Err(libc::ENOSYS);
                }
            }
            _ => {}
        }
        let result = result.map(<[u8]>::to_vec).map_err(Failure::Answered);
        self.request_ended(id, opcode, asker, result);
        if let Some(connection) = self.kernels.connections.get_mut(&id) {
            connection.release();
        }
        self.wake_channel(id);
        Ok(bytes.len())
    }

    /// The response to INIT.
    fn agree(&mut self, id: FuseId, result: Result<&[u8], i32>) {
        let Some(connection) = self.kernels.connections.get_mut(&id) else { return };
        let Ok(body) = result else {
            connection.agreement = Agreement::Refused;
            for Request { opcode, asker, .. } in std::mem::take(&mut connection.traffic.held) {
                self.request_ended(id, opcode, asker, Err(Failure::Lost));
            }
            return;
        };
        let word = |at| wire::number(body, at).unwrap_or_default();
        let (background, longest) = ((word(16) & 0xffff) as usize, word(20));
        connection.agreement = Agreement::Made { longest, background };
        if word(0) != 7 || word(12) & !wire::OFFERED != 0 || longest < 4096 {
            self.kernels.breaks(format!("a response to INIT that no kernel understands: {body:?}"));
        }
    }

    /// The response to GETATTR.
    fn learn(&mut self, id: FuseId, result: Result<&[u8], i32>) {
        let (Some(connection), Ok(body)) = (self.kernels.connections.get_mut(&id), result) else {
            return;
        };
        let size = wire::long(body, 24).unwrap_or_default();
        let word = |at| wire::number(body, at).unwrap_or_default();
        let (mode, block) = (word(76), word(96));
        connection.attributes = Some(Attributes { size, block, read_only: mode & 0o200 == 0 });
    }

    /// Ends a connection: what it has under way fails, and a read of its channel finds that error.
    pub(super) fn end_connection(&mut self, id: FuseId, errno: Errno) {
        let Some(connection) = self.kernels.connections.get_mut(&id) else { return };
        if connection.ended.is_some() {
            return;
        }
        connection.ended = Some(errno);
        let path = connection.path.display().to_string();
        let Traffic { held, queue, processing, .. } = &mut connection.traffic;
        let lost: Vec<Request> = std::mem::take(processing)
            .into_values()
            .chain(queue.drain(..))
            .chain(held.drain(..))
            .collect();
        self.tell(format_args!("device {}: the connection of {path} ends: {errno}", id.0));
        for Request { opcode, asker, .. } in lost {
            self.request_ended(id, opcode, asker, Err(Failure::Lost));
        }
        self.wake_channel(id);
    }

    /// The last handle of a channel is gone.
    pub(crate) fn close_channel(&mut self, id: FuseId) {
        let Some(connection) = self.kernels.connections.get_mut(&id) else { return };
        connection.channel = false;
        self.end_connection(id, Errno::NODEV);
        self.forget_connection(id);
    }

    /// An open file of a connection is closed.
    pub(super) fn drop_reference(&mut self, id: FuseId) {
        let body = [0; 24];
        self.ask_daemon(id, opcode::RELEASE, &body, (Expects::Body(0, &[]), Asker::Kernel));
        let Some(connection) = self.kernels.connections.get_mut(&id) else { return };
        connection.references -= 1;
        if connection.references == 0 && !connection.mounted {
            self.end_connection(id, Errno::NODEV);
            self.forget_connection(id);
        }
    }

    /// Forgets a connection that nothing refers to.
    pub(super) fn forget_connection(&mut self, id: FuseId) {
        let unused =
            |it: &Connection| !it.channel && !it.mounted && it.references == 0 && it.is_over();
        if self.kernels.connections.get(&id).is_some_and(unused) {
            self.kernels.connections.remove(&id);
        }
    }

    /// A request ended: with the body of its response, or not.
    fn request_ended(
        &mut self,
        id: FuseId,
        opcode: u32,
        asker: Asker,
        result: Result<Vec<u8>, Failure>,
    ) {
        match asker {
            Asker::Kernel | Asker::Stranger => {}
            Asker::Part { open, job, at } => self.part_ended(open, job, (opcode, at), result),
            Asker::Opening(open) => self.opened(id, open, result),
            Asker::Settle { ends, number } => self.settled(id, number, ends, result),
        }
    }

    /// Asks what every opening of the file asks first.
    pub(super) fn ask_attributes(&mut self, id: FuseId) {
        let expects = Expects::Body(104, &[]);
        self.ask_daemon(id, opcode::GETATTR, &[0; 16], (expects, Asker::Kernel));
    }

    /// Asks for a flush.
    pub(super) fn ask_flush(&mut self, id: FuseId, asker: Asker) {
        self.ask_daemon(id, opcode::FSYNC, &[0; 16], (Expects::Body(0, FAILURES), asker));
    }
}
