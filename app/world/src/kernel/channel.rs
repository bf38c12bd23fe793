// SPDX-License-Identifier: Apache-2.0
//! The daemon's end of a connection: `/dev/fuse`, opened once.

use super::connection::FuseId;
use crate::world::{ProcessId, Released, World};
use helio_driver::{Errno, SocketBody};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// A channel. Its connection ends when it is dropped.
#[derive(Debug)]
pub(crate) struct SimChannel {
    world: World,
    pub(crate) id: FuseId,
    process: ProcessId,
}

impl SimChannel {
    pub(super) const fn new(world: World, id: FuseId, process: ProcessId) -> Self {
        Self { world, id, process }
    }
}

impl SocketBody for SimChannel {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn local_address(&self) -> io::Result<Option<SocketAddr>> {
        Err(Errno::NOTSOCK.into())
    }

    fn shutdown(&self) -> io::Result<()> {
        Err(Errno::NOTSOCK.into())
    }

    fn receive(&self, into: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        let mut inner = self.world.lock();
        if !inner.is_alive(self.process) {
            return Err(Errno::IO);
        }
        inner.hand_out(self.id, into)
    }

    fn send(&self, message: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let mut inner = self.world.lock();
        if !inner.is_alive(self.process) {
            return Err(Errno::IO);
        }
        let parts: Vec<&[u8]> = message.iter().map(|slice| &**slice).collect();
        inner.take_response(self.id, &parts.concat())
    }
}

impl Drop for SimChannel {
    fn drop(&mut self) {
        self.world.release(Released::Channel(self.id));
    }
}
