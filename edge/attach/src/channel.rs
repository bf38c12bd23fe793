// SPDX-License-Identifier: Apache-2.0
//! The descriptor the kernel's messages are read from and answers are written to. Neither ever waits: who wants to
//! know when there is a message asks the driver ([`helio_driver::Op::Ready`]).

use helio_driver::{Errno, Socket};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::OpenOptionsExt;

/// The first bytes of a message: everything but a write's payload, which therefore begins behind them.
pub const HEAD_BYTES: usize = 80;

/// The kernel hands nothing out to who has not room for its longest message, behind the head.
pub const MESSAGE_BYTES: usize = crate::MAX_WRITE as usize;

/// What came of looking for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// One of that many bytes, head included.
    Message(usize),
    /// There is none.
    Nothing,
    /// There will never be one again: the file was unmounted, or somebody cut the connection.
    Over,
}

/// One conversation's descriptor. It ends when this and every operation on its socket are gone.
#[derive(Debug)]
pub struct Channel {
    socket: Socket,
}

impl Channel {
    /// An end of FUSE that is not mounted yet.
    pub(crate) fn open() -> std::io::Result<(Self, File)> {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open("/dev/fuse")?;
        let socket = Socket::new(file.try_clone()?);
        Ok((Self { socket }, file))
    }

    /// The kernel's end of a machine that is not this one.
    #[must_use]
    pub const fn of(socket: Socket) -> Self {
        Self { socket }
    }

    /// What to wait on.
    #[must_use]
    pub const fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Takes one message: its head, then what follows into the two places, one behind the other. They must have room
    /// for [`MESSAGE_BYTES`] together.
    ///
    /// # Errors
    /// The kernel refuses, which it has no reason to.
    pub fn receive(
        &self,
        head: &mut [u8; HEAD_BYTES],
        first: &mut [u8],
        rest: &mut [u8],
    ) -> Result<Arrival, Errno> {
        loop {
            let mut places = [IoSliceMut::new(head), IoSliceMut::new(first), IoSliceMut::new(rest)];
            match self.socket.body().receive(&mut places) {
                Ok(count) => return Ok(Arrival::Message(count)),
                Err(Errno::AGAIN) => return Ok(Arrival::Nothing),
                // Unmounted; by force, where a message was just being read.
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(Arrival::Over),
                // The asker was killed while we looked: there may be others.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Gives one answer.
    ///
    /// # Errors
    /// The kernel refuses: after `NODEV` there is nobody to be told any more.
    pub fn answer(&self, head: &[u8], payload: &[u8]) -> Result<(), Errno> {
        loop {
            match self.socket.body().send(&[IoSlice::new(head), IoSlice::new(payload)]) {
                // Who asked is gone.
                Ok(_) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}
