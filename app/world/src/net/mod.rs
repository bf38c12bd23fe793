// SPDX-License-Identifier: Apache-2.0
//! Stream sockets over simulated links.
//!
//! A connection has two ways. What a way carries goes through the sender's buffer, in segments over the link, and into the
//! receiver's buffer. Segments arrive in order; a lost one is sent again later and holds up what follows it. While a link is
//! cut, or a machine has no power, nothing arrives and neither end gets an error, until the sender gives up.

mod client;
mod connection;
mod link;
mod listen;
mod socket;

pub use client::{SimListener, SimStream};
pub(crate) use connection::ConnectionId;
pub(crate) use socket::{Pending, SocketId, Taken, Want, Way};

use crate::world::{Due, Inner, MachineId, ProcessId};
use connection::Connection;
use helio_netmodel::{Dice, Direction, Profile};
use helio_units::Moment;
use socket::Socket;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// Sizes and times of all sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Bytes that wait at a sender before a send does.
    pub send_buffer: usize,
    /// Bytes on their way to, or waiting at, a receiver.
    pub receive_buffer: usize,
    /// A sender whose bytes do not arrive gives the connection up after so long (ETIMEDOUT).
    pub give_up: Duration,
    /// An attempt to connect that is not answered ends after so long (ETIMEDOUT).
    pub connect_within: Duration,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            send_buffer: 256 << 10,
            receive_buffer: 256 << 10,
            give_up: Duration::from_secs(15 * 60),
            connect_within: Duration::from_secs(127),
        }
    }
}

/// The first of the two ends of a connection began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Connecter,
    Acceptor,
}

impl End {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Connecter => Self::Acceptor,
            Self::Acceptor => Self::Connecter,
        }
    }
}

/// What falls due on a link.
#[derive(Debug)]
pub(crate) enum NetDue {
    /// The next segment of a way arrives, unless the way has begun again since.
    Arrive(ConnectionId, End, u32),
    /// A sender tries again.
    Again(ConnectionId, End),
    /// A sender gives up if it has been blocked since then.
    GiveUp(ConnectionId, End, Moment),
    /// A reset reaches an end.
    Reset(ConnectionId, End),
    /// An attempt to connect is sent (again).
    Attempt(SocketId, u32),
    /// It reaches the other machine.
    Attempted(SocketId, MachineId),
    /// Its answer comes back: whether there is a connection.
    Answered(SocketId, Option<ConnectionId>),
}

/// Everything on the network.
pub(crate) struct Net {
    pub(crate) dice: Dice,
    pub(crate) options: SocketOptions,
    sockets: BTreeMap<SocketId, Socket>,
    connections: BTreeMap<ConnectionId, Connection>,
    /// From one machine to another, or within one.
    links: BTreeMap<(MachineId, MachineId), Direction>,
    cut: BTreeSet<(MachineId, MachineId)>,
    addresses: BTreeMap<IpAddr, MachineId>,
    numbers: u64,
    ports: u16,
}

impl Net {
    pub(crate) fn new(dice: Dice) -> Self {
        Self {
            dice,
            options: SocketOptions::default(),
            sockets: BTreeMap::new(),
            connections: BTreeMap::new(),
            links: BTreeMap::new(),
            cut: BTreeSet::new(),
            addresses: BTreeMap::new(),
            numbers: 0,
            ports: 32_768,
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// A port that no listener has.
    fn port(&mut self) -> u16 {
        self.ports = if self.ports >= 60_999 { 32_768 } else { self.ports + 1 };
        self.ports
    }

    pub(crate) fn set_address(&mut self, address: IpAddr, machine: MachineId) {
        self.addresses.insert(address, machine);
    }

    /// The link between two machines, or within one.
    fn link(&mut self, from: MachineId, to: MachineId) -> &mut Direction {
        self.links.entry((from, to)).or_insert_with(|| {
            let delay = Duration::from_micros(if from == to { 5 } else { 100 });
            Direction::new(Profile { delay, jitter: delay, ..Profile::ideal() })
        })
    }

    /// How many sockets a process has open.
    pub(crate) fn held(&self, process: ProcessId) -> usize {
        self.sockets.values().filter(|socket| socket.process == process && socket.accepted).count()
    }

    /// How many connections the kernels still know of.
    pub(crate) fn connections(&self) -> usize {
        self.connections.len()
    }
}

impl Inner {
    pub(crate) fn net_in(&mut self, span: Duration, due: NetDue) {
        self.push_in(span, Due::Net(due));
    }

    pub(crate) fn net_at(&mut self, at: Moment, due: NetDue) {
        self.push(at, Due::Net(due));
    }

    pub(crate) fn net_due(&mut self, due: NetDue) {
        match due {
            NetDue::Arrive(connection, from, epoch) => self.arrive(connection, from, epoch),
            NetDue::Again(connection, from) => self.send_again(connection, from),
            NetDue::GiveUp(connection, from, since) => self.give_up(connection, from, since),
            NetDue::Reset(connection, to) => self.reset_arrives(connection, to),
            NetDue::Attempt(socket, tries) => self.attempt(socket, tries),
            NetDue::Attempted(socket, machine) => self.attempted(socket, machine),
            NetDue::Answered(socket, connection) => self.answered(socket, connection),
        }
    }
}
