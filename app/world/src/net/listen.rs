// SPDX-License-Identifier: Apache-2.0
//! Listening, and how connections begin.

use super::connection::Connection;
use super::socket::State;
use super::{ConnectionId, End, NetDue, SocketId};
use crate::disk::Inode;
use crate::world::{Inner, MachineId, ProcessId};
use helio_driver::{Address, Errno};
use helio_netmodel::Verdict;
use helio_units::Bytes;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Bytes of a segment that begins a connection.
const OPENING: Bytes = Bytes(60);
/// After so long an attempt is sent again, the first time.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often the pause between attempts doubles.
const DOUBLINGS: u32 = 6;
/// So often a Unix socket looks whether the backlog has room.
const BACKLOG_AGAIN: Duration = Duration::from_millis(1);

/// Where a socket listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Inet(SocketAddr),
    Unix(Inode),
}

#[derive(Debug)]
pub(super) struct Listener {
    place: Place,
    backlog: usize,
    /// Connections not yet accepted, with the address of their other end.
    pub(super) queue: VecDeque<(SocketId, Option<SocketAddr>)>,
}

impl Inner {
    /// Listens at an address.
    pub(crate) fn listen(
        &mut self,
        machine: MachineId,
        process: ProcessId,
        address: &Address,
        backlog: u16,
    ) -> Result<SocketId, Errno> {
        let now = self.now;
        let place = match address {
            Address::Unix(path) => Place::Unix(self.host(machine).disk.make_socket(path, now)?),
            Address::Inet(address) => {
                let ip = address.ip();
                let is_here = self.net.addresses.get(&ip) == Some(&machine);
                if !is_here && !ip.is_unspecified() && !ip.is_loopback() {
                    return Err(Errno::ADDRNOTAVAIL);
                }
                let port = if address.port() == 0 { self.net.port() } else { address.port() };
                let place = SocketAddr::new(ip, port);
                if self.listener_at(machine, place).is_some() {
                    return Err(Errno::ADDRINUSE);
                }
                Place::Inet(place)
            }
        };
        let backlog = usize::from(backlog.max(1));
        let listener = Listener { place, backlog, queue: VecDeque::new() };
        let id = self.net.add(machine, process, State::Listening(listener));
        if let (Place::Inet(address), Some(socket)) = (place, self.net.sockets.get_mut(&id)) {
            socket.local = Some(address);
        }
        Ok(id)
    }

    fn listener(&self, machine: MachineId, is_there: impl Fn(Place) -> bool) -> Option<SocketId> {
        let mut all = self.net.sockets.iter().filter(|(_, socket)| socket.machine == machine);
        all.find_map(|(id, socket)| match &socket.state {
            State::Listening(listener) if is_there(listener.place) => Some(*id),
            _ => None,
        })
    }

    /// Who listens at a TCP address of a machine.
    fn listener_at(&self, machine: MachineId, address: SocketAddr) -> Option<SocketId> {
        self.listener(machine, |place| match place {
            Place::Inet(other) => {
                let (ip, other_ip) = (address.ip(), other.ip());
                other.port() == address.port()
                    && (ip == other_ip || ip.is_unspecified() || other_ip.is_unspecified())
            }
            Place::Unix(_) => false,
        })
    }

    /// Begins to connect a fresh socket.
    pub(crate) fn begin_connect(&mut self, id: SocketId, address: &Address) {
        let since = self.now;
        let Some(socket) = self.net.sockets.get_mut(&id) else { return };
        socket.state = State::Connecting { address: address.clone(), since, half: None };
        match address {
            Address::Unix(_) => self.attempt(id, 0),
            Address::Inet(_) => self.net_at(since, NetDue::Attempt(id, 0)),
        }
    }

    pub(super) fn attempt(&mut self, id: SocketId, tries: u32) {
        let now = self.now;
        let Some(socket) = self.net.sockets.get(&id) else { return };
        let State::Connecting { address, since, .. } = &socket.state else { return };
        let (machine, since, address) = (socket.machine, *since, address.clone());
        let address = match address {
            Address::Unix(path) => {
                let inode = self.machines[machine.0].disk.find(&path);
                let place = inode.map(Place::Unix);
                match place.map(|place| self.listener(machine, |other| other == place)) {
                    Err(errno) => self.fail_connect(id, errno),
                    Ok(None) => self.fail_connect(id, Errno::CONNREFUSED),
                    Ok(Some(listener)) => match self.begin_connection(id, listener) {
                        Some(connection) => self.answered(id, Some(connection)),
                        None => self.net_in(BACKLOG_AGAIN, NetDue::Attempt(id, tries)),
                    },
                }
                return;
            }
            Address::Inet(address) => address,
        };
        let within = self.net.options.connect_within;
        if now.since(since) >= within {
            return self.fail_connect(id, Errno::TIMEDOUT);
        }
        let pause = AGAIN_AFTER * (1 << tries.min(DOUBLINGS));
        self.net_at((now + pause).min(since + within), NetDue::Attempt(id, tries + 1));
        let there =
            self.machine_of(address.ip(), machine).filter(|there| !self.is_cut(machine, *there));
        if let Some(there) = there
            && let Verdict::Deliver { at } = self.offer(machine, there, OPENING)
        {
            self.net_at(at, NetDue::Attempted(id, there));
        }
    }

    fn machine_of(&self, ip: IpAddr, from: MachineId) -> Option<MachineId> {
        // A loopback address may be that of another machine: nodes without keys have no others.
        let own = (ip.is_loopback() || ip.is_unspecified()).then_some(from);
        self.net.addresses.get(&ip).copied().or(own)
    }

    fn fail_connect(&mut self, id: SocketId, errno: Errno) {
        if let Some(socket) = self.net.sockets.get_mut(&id) {
            socket.state = State::Failed(errno);
            self.drive(id);
        }
    }

    pub(super) fn attempted(&mut self, id: SocketId, machine: MachineId) {
        let Some(socket) = self.net.sockets.get(&id) else { return };
        let State::Connecting { address: Address::Inet(address), half, .. } = &socket.state else {
            return;
        };
        let (from, address, half) = (socket.machine, *address, *half);
        if self.is_cut(from, machine) {
            return;
        }
        let answer = match (half, self.listener_at(machine, address)) {
            (Some(half), _) => Some(half),
            (None, None) => None,
            (None, Some(listener)) => match self.begin_connection(id, listener) {
                Some(connection) => Some(connection),
                // The backlog is full: no answer.
                None => return,
            },
        };
        if !self.is_cut(machine, from)
            && let Verdict::Deliver { at } = self.offer(machine, from, OPENING)
        {
            self.net_at(at, NetDue::Answered(id, answer));
        }
    }

    /// The acceptor's end of a connection, if the backlog has room.
    fn begin_connection(&mut self, id: SocketId, at: SocketId) -> Option<ConnectionId> {
        let listener = self.net.sockets.get(&at)?;
        let State::Listening(Listener { place, backlog, queue }) = &listener.state else {
            return None;
        };
        if queue.len() >= *backlog {
            return None;
        }
        let (there, process, place) = (listener.machine, listener.process, *place);
        let here = self.net.sockets.get(&id)?.machine;
        let connection = ConnectionId(self.net.number());
        let accepted = self.net.add(there, process, State::Connected(connection, End::Acceptor));
        let (mut local, mut peer) = (None, None);
        if let (Place::Inet(place), State::Connecting { address: Address::Inet(address), .. }) =
            (place, &self.net.sockets.get(&id)?.state)
        {
            let (ip, port) = (address.ip(), self.net.port());
            local = Some(SocketAddr::new(ip, place.port()));
            peer = Some(SocketAddr::new(self.address_towards(here, ip), port));
        }
        let socket = self.net.sockets.get_mut(&accepted)?;
        (socket.accepted, socket.local) = (false, local);
        let socket = self.net.sockets.get_mut(&id)?;
        socket.local = peer;
        if let State::Connecting { half, .. } = &mut socket.state {
            *half = Some(connection);
        }
        let ends = Connection::new((here, id), (there, accepted));
        self.net.connections.insert(connection, ends);
        if let State::Listening(listener) = &mut self.net.sockets.get_mut(&at)?.state {
            listener.queue.push_back((accepted, peer));
        }
        self.tell(format_args!("connection {} begins", connection.0));
        self.drive(at);
        Some(connection)
    }

    /// The address of a machine that a connection to `ip` comes from.
    fn address_towards(&self, machine: MachineId, ip: IpAddr) -> IpAddr {
        if ip.is_loopback() && !self.net.addresses.contains_key(&ip) {
            return ip;
        }
        let mut all = self.net.addresses.iter().filter(|(_, owner)| **owner == machine);
        all.find(|(own, _)| own.is_ipv4() == ip.is_ipv4()).map_or(ip, |(own, _)| *own)
    }

    pub(super) fn answered(&mut self, id: SocketId, connection: Option<ConnectionId>) {
        let Some(socket) = self.net.sockets.get_mut(&id) else { return };
        if !matches!(socket.state, State::Connecting { .. }) {
            return;
        }
        match connection {
            Some(connection) => {
                socket.state = State::Connected(connection, End::Connecter);
                self.drive(id);
            }
            None => self.fail_connect(id, Errno::CONNREFUSED),
        }
    }
}
