// SPDX-License-Identifier: Apache-2.0
//! The kernel's end of a device: requests come out, answers go in, whichever way the kernel has for that.

mod fuse;
mod ublk;

use fuse::Fuse;
use helio_attach::ublk::Server;
use helio_attach::{Channel, Fault, Shape, Work};
use helio_driver::{Buffer, Pool, Socket};
use helio_units::Bytes;
use std::io;
use ublk::Ublk;

/// What the control plane hands over of a device.
#[derive(Debug)]
pub(crate) enum End {
    /// The file in a FUSE mount.
    Fuse(Channel),
    /// The kernel's own user-space device.
    Ublk(Box<Server>),
}

/// What came of looking for a request.
pub(super) enum Taken {
    Work {
        unique: u64,
        work: Work,
    },
    /// One that needed no work.
    Answered,
    Nothing,
    /// There is no memory for one now.
    Starved,
    Over(String),
}

/// One device's requests and answers.
pub(super) enum Line {
    Fuse(Box<Fuse>),
    Ublk(Ublk),
}

impl Line {
    /// On behalf of whoever is called that; begins the conversation.
    pub(super) fn begin(end: End, shape: Shape, name: &str) -> io::Result<Self> {
        Ok(match end {
            End::Fuse(channel) => Self::Fuse(Box::new(Fuse::new(channel, shape, name))),
            End::Ublk(server) => Self::Ublk(Ublk::begin(server, name)?),
        })
    }

    /// What to wait on.
    pub(super) fn socket(&self) -> &Socket {
        match self {
            Self::Fuse(fuse) => fuse.socket(),
            Self::Ublk(ublk) => ublk.socket(),
        }
    }

    /// Memory of the pool that it holds for the next request.
    pub(super) fn held(&self) -> Bytes {
        match self {
            Self::Fuse(fuse) => fuse.held(),
            Self::Ublk(_) => Bytes::ZERO,
        }
    }

    /// Looks for a request.
    pub(super) fn take(&mut self, pool: &Pool) -> Taken {
        match self {
            Self::Fuse(fuse) => fuse.take(pool),
            Self::Ublk(ublk) => ublk.take(pool),
        }
    }

    /// The payload of the write just taken, in a buffer of its own.
    pub(super) fn payload(&mut self, length: usize, pool: &Pool) -> Buffer {
        match self {
            Self::Fuse(fuse) => fuse.payload(length, pool),
            Self::Ublk(ublk) => ublk.payload(),
        }
    }

    /// Answers a request that was done, with what a read found.
    pub(super) fn done(&mut self, unique: u64, work: &Work, found: &[u8]) {
        match self {
            Self::Fuse(fuse) => fuse.done(unique, work, found),
            Self::Ublk(ublk) => ublk.done(unique, work, found),
        }
    }

    /// Answers a request that failed.
    pub(super) fn failed(&mut self, unique: u64, fault: Fault) {
        match self {
            Self::Fuse(fuse) => fuse.failed(unique, fault),
            Self::Ublk(ublk) => ublk.failed(unique, fault),
        }
    }

    /// Whatever was answered since the last call is told the kernel now at the latest.
    pub(super) fn hand_over(&mut self) {
        match self {
            Self::Fuse(_) => {}
            Self::Ublk(ublk) => ublk.hand_over(),
        }
    }
}
