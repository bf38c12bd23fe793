// SPDX-License-Identifier: Apache-2.0
//! A stream as a client without I/O of its own uses it.

use crate::net::{SocketId, Taken};
use crate::world::{Released, World};

/// What a receive found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// At least one byte.
    Bytes,
    /// Nothing yet.
    Nothing,
    /// The end of the stream.
    End,
    /// The connection is gone.
    Reset,
}

/// One end of a connection. No call blocks.
pub trait Stream {
    /// Sends as much as there is room for, which may be nothing. Returns how many bytes.
    ///
    /// # Errors
    /// The connection is gone.
    #[expect(clippy::result_unit_err, reason = "a client learns no more than that it is gone")]
    fn send(&mut self, bytes: &[u8]) -> Result<usize, ()>;

    /// Appends at most `most` bytes of what has arrived.
    fn receive(&mut self, into: &mut Vec<u8>, most: usize) -> Received;

    /// Ends the connection after what was sent.
    fn close(&mut self);

    /// Ends the connection at once.
    fn reset(&mut self);
}

/// A client's end of a connection. It is closed when it is dropped.
#[derive(Debug)]
pub struct SimStream {
    world: World,
    socket: SocketId,
}

impl SimStream {
    pub(crate) const fn new(world: World, socket: SocketId) -> Self {
        Self { world, socket }
    }

    /// Whether the connection is made. It can be gone again.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.world.lock().net.is_connected(self.socket)
    }
}

impl Stream for SimStream {
    fn send(&mut self, bytes: &[u8]) -> Result<usize, ()> {
        self.world.lock().give(self.socket, bytes).map_err(drop)
    }

    fn receive(&mut self, into: &mut Vec<u8>, most: usize) -> Received {
        let mut buffer = vec![0; most];
        match self.world.lock().take(self.socket, &mut buffer) {
            Taken::Bytes(count) => {
                into.extend_from_slice(&buffer[..count]);
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
