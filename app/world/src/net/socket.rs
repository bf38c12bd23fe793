// SPDX-License-Identifier: Apache-2.0
//! A socket, and the operations that wait at it.

use super::connection::{ConnectionId, Standing};
use super::listen::Listener;
use super::{End, Net};
use crate::body::SimSocket;
use crate::driver::DriverId;
use crate::world::{Due, Inner, MachineId, ProcessId};
use helio_driver::{
    Accepted, Address, Buffer, Cause, Errno, OpError, Operation, Outcome, Piece, Socket as Handle,
    Token,
};
use helio_units::Moment;
use std::collections::VecDeque;
use std::io::Read;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The number of a socket; none of a world is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SocketId(pub(crate) u64);

/// What a receive finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Bytes(usize),
    Nothing,
    End,
    Gone(Errno),
}

/// What an operation wants of a socket.
#[derive(Debug)]
pub(crate) enum Want {
    Accept,
    Connect { address: Address },
    Recv { buffer: Buffer, range: Range<usize> },
    Send { pieces: Vec<Piece>, piece: usize, within: usize },
    Ready,
}

/// Operations of one socket and direction end in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    In,
    Out,
}

/// An operation that waits.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) driver: DriverId,
    pub(crate) token: Token,
    pub(crate) want: Want,
    /// An operation holds its socket.
    pub(crate) _socket: Handle,
}

#[derive(Debug)]
pub(super) enum State {
    Fresh,
    Connecting { address: Address, since: Moment, half: Option<ConnectionId> },
    Failed(Errno),
    Connected(ConnectionId, End),
    Listening(Listener),
}

#[derive(Debug)]
pub(super) struct Socket {
    pub(super) machine: MachineId,
    pub(super) process: ProcessId,
    /// Whether it is a descriptor of its process, not one that waits in a backlog.
    pub(super) accepted: bool,
    pub(super) state: State,
    pub(super) local: Option<SocketAddr>,
    input: VecDeque<Pending>,
    output: VecDeque<Pending>,
}

impl Want {
    pub(crate) const fn way(&self) -> Way {
        match self {
            Self::Accept | Self::Recv { .. } | Self::Ready => Way::In,
            Self::Connect { .. } | Self::Send { .. } => Way::Out,
        }
    }

    /// How it ends without having done anything.
    pub(crate) fn failed(self, errno: Errno) -> Outcome {
        let error = |operation| OpError { operation, extent: None, cause: Cause::Errno(errno) };
        match self {
            Self::Accept => Outcome::Accept(Err(error(Operation::Accept))),
            Self::Connect { .. } => Outcome::Connect(Err(error(Operation::Connect))),
            Self::Recv { buffer, .. } => {
                Outcome::Recv { buffer, result: Err(error(Operation::Recv)) }
            }
            Self::Send { pieces, .. } => {
                Outcome::Send { pieces, result: Err(error(Operation::Send)) }
            }
            Self::Ready => Outcome::Ready(Err(error(Operation::Ready))),
        }
    }
}

impl Socket {
    fn queue(&mut self, way: Way) -> &mut VecDeque<Pending> {
        match way {
            Way::In => &mut self.input,
            Way::Out => &mut self.output,
        }
    }
}

impl Net {
    pub(super) fn add(&mut self, machine: MachineId, process: ProcessId, state: State) -> SocketId {
        let id = SocketId(self.number());
        let socket = Socket {
            machine,
            process,
            accepted: true,
            state,
            local: None,
            input: VecDeque::new(),
            output: VecDeque::new(),
        };
        self.sockets.insert(id, socket);
        id
    }

    /// A fresh socket.
    pub(crate) fn fresh(&mut self, machine: MachineId, process: ProcessId) -> SocketId {
        self.add(machine, process, State::Fresh)
    }

    pub(crate) fn is_connected(&self, id: SocketId) -> bool {
        self.sockets.get(&id).is_some_and(|it| matches!(it.state, State::Connected(..)))
    }

    pub(crate) fn local(&self, id: SocketId) -> Option<SocketAddr> {
        self.sockets.get(&id)?.local
    }

    fn connection(&self, id: SocketId) -> Result<(ConnectionId, End), Errno> {
        match &self.sockets.get(&id).ok_or(Errno::BADF)?.state {
            State::Connected(connection, end) => Ok((*connection, *end)),
            State::Failed(errno) => Err(*errno),
            State::Connecting { .. } => Err(Errno::AGAIN),
            State::Fresh | State::Listening(_) => Err(Errno::NOTCONN),
        }
    }

    /// How many bytes can be received.
    pub(super) fn arrived(&self, id: SocketId) -> usize {
        let found = self.connection(id).ok();
        let known = found.and_then(|(id, end)| Some((self.connections.get(&id)?, end)));
        known.map_or(0, |(connection, end)| connection.side(end.other()).way.inbox.len())
    }

    /// Whether a receive would find something, if only an error or the end.
    pub(crate) fn is_readable(&self, id: SocketId) -> bool {
        if let Some(State::Listening(listener)) = self.sockets.get(&id).map(|it| &it.state) {
            return !listener.queue.is_empty();
        }
        match self.connection(id) {
            Ok((connection, end)) => self.connections.get(&connection).is_none_or(|it| {
                let way = &it.side(end.other()).way;
                it.side(end).standing != Standing::Open || way.ended || !way.inbox.is_empty()
            }),
            Err(errno) => errno != Errno::AGAIN,
        }
    }
}

impl Inner {
    /// Hands in an operation.
    pub(crate) fn submit_at(&mut self, id: SocketId, pending: Pending) {
        let way = pending.want.way();
        match self.net.sockets.get_mut(&id) {
            Some(socket) => {
                socket.queue(way).push_back(pending);
                self.drive_way(id, way);
            }
            None => self.complete(
                pending.driver,
                Some((id, way)),
                pending.token,
                pending.want.failed(Errno::BADF),
            ),
        }
    }

    /// Ends what a driver has pending at a socket.
    pub(crate) fn cancel_at(&mut self, id: SocketId, driver: DriverId) {
        for way in [Way::In, Way::Out] {
            let Some(socket) = self.net.sockets.get_mut(&id) else { return };
            let all = std::mem::take(socket.queue(way));
            let (ended, kept): (VecDeque<_>, VecDeque<_>) =
                all.into_iter().partition(|pending| pending.driver == driver);
            *socket.queue(way) = kept;
            // The completion of a receive may come when the slot of its connection is used again.
            let late = way == Way::In && self.net.dice.chance(1, 2);
            let span = Duration::from_micros(1 << self.net.dice.below(15));
            for pending in ended {
                let outcome = pending.want.failed(Errno::CANCELED);
                if late {
                    let (lane, token) = (Some((id, way)), pending.token);
                    let outcome = Box::new(outcome);
                    self.push_in(span, Due::Completed { driver, lane, token, outcome });
                } else {
                    self.complete(driver, Some((id, way)), pending.token, outcome);
                }
            }
        }
    }

    /// A driver is gone, and its operations at sockets with it.
    pub(crate) fn forget_driver(&mut self, driver: DriverId) {
        self.drivers.remove(driver);
        for socket in self.net.sockets.values_mut() {
            socket.input.retain(|pending| pending.driver != driver);
            socket.output.retain(|pending| pending.driver != driver);
        }
    }

    /// Lets operations at a socket go on, as far as they can.
    pub(super) fn drive(&mut self, id: SocketId) {
        self.drive_way(id, Way::Out);
        self.drive_way(id, Way::In);
    }

    fn drive_way(&mut self, id: SocketId, way: Way) {
        loop {
            let Some(socket) = self.net.sockets.get_mut(&id) else { return };
            let Some(mut pending) = socket.queue(way).pop_front() else { return };
            match self.go_on(id, &mut pending) {
                Some(outcome) => {
                    self.complete(pending.driver, Some((id, way)), pending.token, outcome);
                }
                None => {
                    if let Some(socket) = self.net.sockets.get_mut(&id) {
                        socket.queue(way).push_front(pending);
                    }
                    return;
                }
            }
        }
    }

    /// Lets one go on; none if it must wait.
    fn go_on(&mut self, id: SocketId, pending: &mut Pending) -> Option<Outcome> {
        let error = |operation, cause| OpError { operation, extent: None, cause };
        match &mut pending.want {
            Want::Accept => {
                let result = self.accept(id).transpose()?;
                Some(Outcome::Accept(result.map_err(|it| error(Operation::Accept, it.into()))))
            }
            Want::Connect { address } => {
                let address = address.clone();
                let result = self.connect_on(id, &address)?;
                Some(Outcome::Connect(result.map_err(|it| error(Operation::Connect, it.into()))))
            }
            Want::Recv { buffer, range } => {
                let target = buffer.get_mut(range.clone()).filter(|target| !target.is_empty());
                let result = match target.map(|target| self.take(id, target)) {
                    None => Err(error(Operation::Recv, Cause::Misfit)),
                    Some(Taken::Nothing) => return None,
                    Some(Taken::Bytes(count)) => Ok(count),
                    Some(Taken::End) => Ok(0),
                    Some(Taken::Gone(errno)) => Err(error(Operation::Recv, errno.into())),
                };
                let buffer = std::mem::replace(buffer, Buffer::zeroed(0));
                Some(Outcome::Recv { buffer, result })
            }
            Want::Send { pieces, piece, within } => {
                let result = self.send_on(id, pieces, piece, within).transpose()?;
                let pieces = std::mem::take(pieces);
                let result = result.map_err(|cause| error(Operation::Send, cause));
                Some(Outcome::Send { pieces, result })
            }
            Want::Ready => self.net.is_readable(id).then_some(Outcome::Ready(Ok(()))),
        }
    }

    fn accept(&mut self, id: SocketId) -> Result<Option<Accepted>, Errno> {
        let Some((accepted, peer)) = self.take_accepted(id)? else { return Ok(None) };
        let (Some(world), Some(socket)) = (self.world(), self.net.sockets.get(&accepted)) else {
            return Ok(None);
        };
        let socket = Handle::of(Arc::new(SimSocket::new(world, accepted, socket.process)));
        Ok(Some(Accepted { socket, peer }))
    }

    /// Takes the next connection from a backlog, with the address of its other end.
    pub(super) fn take_accepted(
        &mut self,
        id: SocketId,
    ) -> Result<Option<(SocketId, Option<SocketAddr>)>, Errno> {
        let (machine, process, next) = match self.net.sockets.get(&id) {
            Some(Socket { machine, process, state: State::Listening(listener), .. }) => {
                (*machine, *process, listener.queue.front().copied())
            }
            _ => return Err(Errno::INVAL),
        };
        let Some((accepted, _)) = next else { return Ok(None) };
        let (files, sockets) = self.held(process);
        self.host(machine).faults.may_accept(files + sockets)?;
        if let Some(State::Listening(listener)) =
            self.net.sockets.get_mut(&id).map(|it| &mut it.state)
        {
            listener.queue.pop_front();
        }
        if let Some(socket) = self.net.sockets.get_mut(&accepted) {
            socket.accepted = true;
        }
        Ok(next)
    }

    fn connect_on(&mut self, id: SocketId, address: &Address) -> Option<Result<(), Errno>> {
        match &self.net.sockets.get(&id)?.state {
            State::Fresh => {
                self.begin_connect(id, address);
                match &self.net.sockets.get(&id)?.state {
                    State::Connecting { .. } => None,
                    _ => self.connect_on(id, address),
                }
            }
            State::Connecting { .. } => None,
            State::Failed(errno) => Some(Err(*errno)),
            State::Connected(..) => Some(Ok(())),
            State::Listening(_) => Some(Err(Errno::ISCONN)),
        }
    }

    fn send_on(
        &mut self,
        id: SocketId,
        pieces: &[Piece],
        piece: &mut usize,
        within: &mut usize,
    ) -> Result<Option<()>, Cause> {
        if pieces.iter().any(|piece| piece.bytes().is_none()) {
            return Err(Cause::Misfit);
        }
        while let Some(bytes) = pieces.get(*piece).and_then(Piece::bytes) {
            let rest = &bytes[*within..];
            if !rest.is_empty() {
                let count = self.give(id, rest)?;
                *within += count;
                if count < rest.len() {
                    return Ok(None);
                }
            }
            (*piece, *within) = (*piece + 1, 0);
        }
        Ok(Some(()))
    }

    /// Gives bytes to a connection, as far as there is room.
    pub(crate) fn give(&mut self, id: SocketId, bytes: &[u8]) -> Result<usize, Errno> {
        let (connection, end) = match self.net.connection(id) {
            Err(Errno::AGAIN) => return Ok(0),
            found => found?,
        };
        let room = self.net.options.send_buffer;
        let Some(known) = self.net.connections.get_mut(&connection) else {
            return Err(Errno::PIPE);
        };
        let side = known.side_mut(end);
        match side.standing {
            Standing::Open => {}
            Standing::Closed => return Err(Errno::PIPE),
            Standing::Broken(errno) => return Err(errno),
            Standing::Unknown => return Err(Errno::NOTCONN),
        }
        let count = side.way.add(bytes, room);
        self.pump(connection, end);
        Ok(count)
    }

    /// Takes what has arrived, or a part of it.
    pub(crate) fn take(&mut self, id: SocketId, into: &mut [u8]) -> Taken {
        let (connection, end) = match self.net.connection(id) {
            Err(Errno::AGAIN) => return Taken::Nothing,
            Err(errno) => return Taken::Gone(errno),
            Ok(found) => found,
        };
        let part = self.net.dice.chance(1, 8).then(|| self.net.dice.next_u64());
        let Some(known) = self.net.connections.get_mut(&connection) else { return Taken::End };
        let standing = known.side(end).standing;
        let way = &mut known.side_mut(end.other()).way;
        let most = way.inbox.len().min(into.len());
        if into.is_empty() && !way.inbox.is_empty() {
            return Taken::Nothing;
        }
        if most > 0 {
            let count = part.map_or(most, |part| 1 + (part % most as u64) as usize);
            // It has that many.
            let _ = way.inbox.read_exact(&mut into[..count]);
            self.refill(connection, end.other());
            return Taken::Bytes(count);
        }
        match standing {
            Standing::Broken(errno) => Taken::Gone(errno),
            Standing::Unknown => Taken::Gone(Errno::NOTCONN),
            Standing::Closed => Taken::End,
            Standing::Open if way.ended => Taken::End,
            Standing::Open => Taken::Nothing,
        }
    }

    /// Ends both directions; the socket stays.
    pub(crate) fn shut_socket(&mut self, id: SocketId) -> Result<(), Errno> {
        let (connection, end) = self.net.connection(id)?;
        self.close_end(connection, end, false, true);
        self.drive(id);
        Ok(())
    }

    /// Ends a connection with a reset.
    pub(crate) fn abort_socket(&mut self, id: SocketId) {
        if let Ok((connection, end)) = self.net.connection(id) {
            self.close_end(connection, end, true, false);
        }
        self.close_socket(id);
    }

    /// The last handle of a socket is gone.
    pub(crate) fn close_socket(&mut self, id: SocketId) {
        let Some(socket) = self.net.sockets.remove(&id) else { return };
        match socket.state {
            State::Connected(connection, end) => self.close_end(connection, end, false, false),
            State::Connecting { half: Some(connection), .. } => {
                self.close_end(connection, End::Connecter, true, false);
            }
            State::Listening(listener) => {
                for (waiting, _) in listener.queue {
                    self.abort_socket(waiting);
                }
            }
            State::Fresh | State::Connecting { half: None, .. } | State::Failed(_) => {}
        }
    }

    /// Closes the sockets of a process that ended. Its operations never end.
    pub(crate) fn close_sockets(&mut self, process: ProcessId) {
        let all = self.net.sockets.iter().filter(|(_, it)| it.process == process);
        for id in all.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.close_socket(id);
        }
    }

    /// The sockets of a machine that lost its power are gone without a word.
    pub(crate) fn lose_sockets(&mut self, machine: MachineId) {
        self.net.sockets.retain(|_, socket| socket.machine != machine);
        self.forget_ends(machine);
        self.lose_flights(|from, to| from == machine || to == machine);
    }
}
