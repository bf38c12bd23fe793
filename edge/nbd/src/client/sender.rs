// SPDX-License-Identifier: Apache-2.0
//! The half that sends requests.

use super::ClientError;
use super::wire::Wire;
use crate::codec::{Cookie, RequestHeader, TransmissionFlags, command, command_flag};
use helio_units::Extent;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A request on its way: what its answer must look like.
#[derive(Clone, Copy)]
pub(super) struct Expected {
    pub(super) reads: bool,
    pub(super) extent: Extent,
}

/// Requests on their way, known to both halves: a simple reply does not say how much data follows it.
#[derive(Clone, Default)]
pub(super) struct Pending(Arc<Mutex<HashMap<Cookie, Expected>>>);

impl Pending {
    /// A panic in one half leaves the table whole, so it stays usable.
    fn table(&self) -> MutexGuard<'_, HashMap<Cookie, Expected>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, cookie: Cookie) -> Option<Expected> {
        self.table().get(&cookie).copied()
    }

    pub(super) fn remove(&self, cookie: Cookie) {
        self.table().remove(&cookie);
    }

    /// Whether the cookie was free.
    fn insert(&self, cookie: Cookie, expected: Expected) -> bool {
        let mut table = self.table();
        let free = !table.contains_key(&cookie);
        if free {
            table.insert(cookie, expected);
        }
        free
    }
}

/// Sends requests without waiting for their answers. Every method fails if the export does not offer the
/// command, if `cookie` names a request still in flight, or with what became of the connection.
pub struct ClientSender {
    wire: Wire,
    flags: TransmissionFlags,
    pending: Pending,
}

impl ClientSender {
    pub(super) fn new(wire: Wire, flags: TransmissionFlags) -> (Self, Pending) {
        let pending = Pending::default();
        (Self { wire, flags, pending: pending.clone() }, pending)
    }

    /// Asks for `length` bytes from `offset` on; the reply carries them.
    ///
    /// # Errors
    /// See [`ClientSender`].
    pub fn send_read(
        &mut self,
        cookie: Cookie,
        offset: u64,
        length: u32,
    ) -> Result<(), ClientError> {
        self.send(command::READ, 0, cookie, Extent::new(offset, u64::from(length)), &[])
    }

    /// Writes `data` at `offset`; with `fua` it is durable when it is answered.
    ///
    /// # Errors
    /// See [`ClientSender`].
    pub fn send_write(
        &mut self,
        cookie: Cookie,
        offset: u64,
        data: &[u8],
        fua: bool,
    ) -> Result<(), ClientError> {
        let extent = Extent::new(offset, data.len() as u64);
        self.send(command::WRITE, self.fua(fua)?, cookie, extent, data)
    }

    /// Makes `length` bytes from `offset` on read as zero. `no_hole` keeps their space allocated.
    ///
    /// # Errors
    /// See [`ClientSender`].
    pub fn send_write_zeroes(
        &mut self,
        cookie: Cookie,
        offset: u64,
        length: u32,
        fua: bool,
        no_hole: bool,
    ) -> Result<(), ClientError> {
        self.require(TransmissionFlags::SEND_WRITE_ZEROES, "writing zeroes")?;
        let flags = self.fua(fua)? | if no_hole { command_flag::NO_HOLE } else { 0 };
        let extent = Extent::new(offset, u64::from(length));
        self.send(command::WRITE_ZEROES, flags, cookie, extent, &[])
    }

    /// Tells that `length` bytes from `offset` on are no longer needed.
    ///
    /// # Errors
    /// See [`ClientSender`].
    pub fn send_trim(
        &mut self,
        cookie: Cookie,
        offset: u64,
        length: u32,
        fua: bool,
    ) -> Result<(), ClientError> {
        self.require(TransmissionFlags::SEND_TRIM, "trim")?;
        let extent = Extent::new(offset, u64::from(length));
        self.send(command::TRIM, self.fua(fua)?, cookie, extent, &[])
    }

    /// Asks that everything answered so far be made durable.
    ///
    /// # Errors
    /// See [`ClientSender`].
    pub fn send_flush(&mut self, cookie: Cookie) -> Result<(), ClientError> {
        self.require(TransmissionFlags::SEND_FLUSH, "flush")?;
        self.send(command::FLUSH, 0, cookie, Extent::default(), &[])
    }

    /// Takes leave; the server answers what is outstanding and closes.
    ///
    /// # Errors
    /// See [`ClientSender`].
    pub fn send_disconnect(&mut self) -> Result<(), ClientError> {
        let header = RequestHeader {
            flags: 0,
            command: command::DISC,
            cookie: Cookie(0),
            offset: 0,
            length: 0,
        };
        self.wire.send(&header.encode(), &[]).map_err(ClientError::io("taking leave"))
    }

    fn fua(&self, wanted: bool) -> Result<u16, ClientError> {
        if !wanted {
            return Ok(0);
        }
        self.require(TransmissionFlags::SEND_FUA, "FUA")?;
        Ok(command_flag::FUA)
    }

    fn require(&self, flag: TransmissionFlags, what: &'static str) -> Result<(), ClientError> {
        if self.flags.has(flag) { Ok(()) } else { Err(ClientError::NotOffered(what)) }
    }

    fn send(
        &mut self,
        command: u16,
        flags: u16,
        cookie: Cookie,
        extent: Extent,
        data: &[u8],
    ) -> Result<(), ClientError> {
        let length = u32::try_from(extent.length)
            .map_err(|_| ClientError::Unsendable("more than 4 GiB in one request"))?;
        // Before the request, or its answer could be faster than the note of it.
        if !self.pending.insert(cookie, Expected { reads: command == command::READ, extent }) {
            return Err(ClientError::Unsendable("a request under a cookie still in flight"));
        }
        let header = RequestHeader { flags, command, cookie, offset: extent.offset, length };
        self.wire.send(&header.encode(), data).map_err(ClientError::io("sending a request"))
    }
}
