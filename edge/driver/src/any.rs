// SPDX-License-Identifier: Apache-2.0
//! Whichever driver this kernel has.

use crate::op::{Completion, Driver, DriverOptions, Op, Token};
use crate::{Host, PollDriver, RingDriver, Socket, Waker};
use std::io;
use std::time::Duration;

/// Which driver is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverChoice {
    /// The ring where there is one, else threads.
    #[default]
    Auto,
    /// The ring, or an error.
    Ring,
    /// Threads and ppoll.
    Poll,
}

/// A driver chosen at run time.
pub enum AnyDriver {
    /// On io_uring.
    Ring(Box<RingDriver>),
    /// Of threads and ppoll.
    Poll(Box<PollDriver>),
}

impl AnyDriver {
    /// Opens what was chosen; with [`DriverChoice::Auto`] also says why there is no ring, where there is none.
    ///
    /// # Errors
    /// As the driver's own `new`.
    pub fn open(choice: DriverChoice, spin: Duration) -> io::Result<(Self, Option<io::Error>)> {
        let options = DriverOptions { spin, ..DriverOptions::default() };
        let why = match choice {
            DriverChoice::Poll => None,
            DriverChoice::Auto | DriverChoice::Ring => match RingDriver::new(options) {
                Ok(ring) => return Ok((Self::Ring(Box::new(ring)), None)),
                Err(error) if choice == DriverChoice::Ring => return Err(error),
                Err(error) => Some(error),
            },
        };
        let poll = PollDriver::new(options)?;
        Ok((Self::Poll(Box::new(poll)), why))
    }

    /// Its name in configuration and status.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ring(_) => "ring",
            Self::Poll(_) => "poll",
        }
    }

    fn inner(&mut self) -> &mut dyn Driver {
        match self {
            Self::Ring(ring) => &mut **ring,
            Self::Poll(poll) => &mut **poll,
        }
    }
}

impl Driver for AnyDriver {
    fn submit(&mut self, token: Token, op: Op) {
        self.inner().submit(token, op);
    }

    fn cancel(&mut self, socket: &Socket) {
        self.inner().cancel(socket);
    }

    fn wait(&mut self, timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        self.inner().wait(timeout, out)
    }

    fn host(&self) -> &Host {
        match self {
            Self::Ring(ring) => ring.host(),
            Self::Poll(poll) => poll.host(),
        }
    }

    fn waker(&self) -> Waker {
        match self {
            Self::Ring(ring) => ring.waker(),
            Self::Poll(poll) => poll.waker(),
        }
    }
}
