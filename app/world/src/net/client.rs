// SPDX-License-Identifier: Apache-2.0
//! A client's end of a connection in the world.

use super::{SocketId, Taken};
use crate::machine::SimMachine;
use crate::stream::{Received, Stream};
use crate::world::{ProcessId, Released, World};
use helio_driver::{Address, Errno};

/// Connections that wait at a listener without a process.
const BACKLOG: u16 = 16;

/// A client's end of a connection. It is closed when it is dropped.
#[derive(Debug)]
pub struct SimStream {
    world: World,
    socket: SocketId,
}

impl World {
    /// Connects a client on a machine that is no process of it. To a Unix socket it is connected at once if the backlog has room.
    #[must_use]
    pub fn connect(&self, machine: &SimMachine, address: &Address) -> SimStream {
        let mut inner = self.lock();
        let socket = inner.net.fresh(machine.id(), ProcessId(0));
        inner.begin_connect(socket, address);
        drop(inner);
        SimStream { world: self.clone(), socket }
    }
}

impl SimStream {
    /// Whether the connection is made. It can be gone again.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.world.lock().net.is_connected(self.socket)
    }
}

/// A socket that no process has, and that accepts connections. It is closed when it is dropped.
#[derive(Debug)]
pub struct SimListener {
    world: World,
    socket: SocketId,
}

impl World {
    /// Listens on a machine, without a process.
    ///
    /// # Errors
    /// The address is in use, or not one of the machine.
    pub fn listen(&self, machine: &SimMachine, address: &Address) -> Result<SimListener, Errno> {
        let socket = self.lock().listen(machine.id(), ProcessId(0), address, BACKLOG)?;
        Ok(SimListener { world: self.clone(), socket })
    }
}

impl SimListener {
    /// The next connection, if one waits.
    #[must_use]
    pub fn accept(&self) -> Option<SimStream> {
        let accepted = self.world.lock().take_accepted(self.socket).ok().flatten();
        accepted.map(|(socket, _)| SimStream { world: self.world.clone(), socket })
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        self.world.release(Released::Socket(self.socket));
    }
}

impl Stream for SimStream {
    fn send(&mut self, bytes: &[u8]) -> Result<usize, ()> {
        self.world.lock().give(self.socket, bytes).map_err(drop)
    }

    fn receive(&mut self, into: &mut Vec<u8>, most: usize) -> Received {
        let mut inner = self.world.lock();
        let from = into.len();
        into.resize(from + inner.net.arrived(self.socket).min(most), 0);
        match inner.take(self.socket, &mut into[from..]) {
            Taken::Bytes(count) => {
                into.truncate(from + count);
                Received::Bytes
            }
            Taken::Nothing => Received::Nothing,
            Taken::End => Received::End,
            Taken::Gone(_) => Received::Reset,
        }
    }

    fn close(&mut self) {
        self.world.lock().close_socket(self.socket);
    }

    fn reset(&mut self) {
        self.world.lock().abort_socket(self.socket);
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.world.release(Released::Socket(self.socket));
    }
}
