// SPDX-License-Identifier: Apache-2.0
//! The half that sends requests.

use super::ClientError;
use super::wire::Wire;
use crate::client::Chosen;
use crate::codec::{
    Contexts, Cookie, Form, RequestHeader, TransmissionFlags, command, command_flag,
};
use helio_units::Extent;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A request on its way: what its answer must look like.
#[derive(Clone, Copy)]
pub(super) struct Expected {
    pub(super) sort: Sort,
    pub(super) extent: Extent,
}

/// What an answer brings besides success.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Nothing,
    Data,
    /// What these contexts say.
    Status(Contexts),
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
    form: Form,
    chosen: Chosen,
    pending: Pending,
}

impl ClientSender {
    pub(super) fn new(
        wire: Wire,
        flags: TransmissionFlags,
        form: Form,
        chosen: Chosen,
    ) -> (Self, Pending) {
        let pending = Pending::default();
        (Self { wire, flags, form, chosen, pending: pending.clone() }, pending)
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

    /// As [`ClientSender::send_read`], but the server must answer in one piece or fail.
    ///
    /// # Errors
    /// See [`ClientSender`].
    pub fn send_read_whole(
        &mut self,
        cookie: Cookie,
        offset: u64,
        length: u32,
    ) -> Result<(), ClientError> {
        self.require(TransmissionFlags::SEND_DF, "reads in one piece")?;
        let extent = Extent::new(offset, u64::from(length));
        self.send(command::READ, command_flag::DF, cookie, extent, &[])
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
        length: impl Into<u64>,
        fua: bool,
        no_hole: bool,
    ) -> Result<(), ClientError> {
        self.require(TransmissionFlags::SEND_WRITE_ZEROES, "writing zeroes")?;
        let flags = self.fua(fua)? | if no_hole { command_flag::NO_HOLE } else { 0 };
        let extent = Extent::new(offset, length.into());
        self.send(command::WRITE_ZEROES, flags, cookie, extent, &[])
    }

    /// As [`ClientSender::send_write_zeroes`], but the server must fail at once where zeroes are no faster
    /// than data.
    ///
    /// # Errors
    /// See [`ClientSender`].
    pub fn send_fast_zeroes(
        &mut self,
        cookie: Cookie,
        offset: u64,
        length: impl Into<u64>,
    ) -> Result<(), ClientError> {
        self.require(TransmissionFlags::SEND_FAST_ZERO, "fast zeroes")?;
        let extent = Extent::new(offset, length.into());
        self.send(command::WRITE_ZEROES, command_flag::FAST_ZERO, cookie, extent, &[])
    }

    /// Tells that `length` bytes from `offset` on will be wanted soon.
    ///
    /// # Errors
    /// See [`ClientSender`].
    pub fn send_cache(
        &mut self,
        cookie: Cookie,
        offset: u64,
        length: impl Into<u64>,
    ) -> Result<(), ClientError> {
        self.require(TransmissionFlags::SEND_CACHE, "caching")?;
        self.send(command::CACHE, 0, cookie, Extent::new(offset, length.into()), &[])
    }

    /// Asks what every context chosen says of `length` bytes from `offset` on; with `one` of the first
    /// stretch only.
    ///
    /// # Errors
    /// See [`ClientSender`].
    pub fn send_block_status(
        &mut self,
        cookie: Cookie,
        offset: u64,
        length: impl Into<u64>,
        one: bool,
    ) -> Result<(), ClientError> {
        let contexts = self.chosen.contexts();
        if contexts.is_empty() {
            return Err(ClientError::NotOffered("the metadata contexts wanted"));
        }
        let flags = if one { command_flag::REQ_ONE } else { 0 };
        let extent = Extent::new(offset, length.into());
        self.note(cookie, Expected { sort: Sort::Status(contexts), extent })?;
        self.put(command::BLOCK_STATUS, flags, cookie, extent, &[])
    }

    /// As [`ClientSender::send_block_status`], but of these contexts only. Needs extended headers.
    ///
    /// # Errors
    /// See [`ClientSender`].
    pub fn send_filtered_block_status(
        &mut self,
        cookie: Cookie,
        offset: u64,
        length: impl Into<u64>,
        contexts: Contexts,
    ) -> Result<(), ClientError> {
        self.require(TransmissionFlags::BLOCK_STATUS_PAYLOAD, "a status of some contexts only")?;
        if contexts.is_empty() || !contexts.within(self.chosen.contexts()) {
            return Err(ClientError::Unsendable("a status of contexts that were not chosen"));
        }
        let extent = Extent::new(offset, length.into());
        let mut payload = extent.length.to_be_bytes().to_vec();
        for context in contexts.iter() {
            payload.extend(self.chosen.number(context).into_iter().flat_map(u32::to_be_bytes));
        }
        self.note(cookie, Expected { sort: Sort::Status(contexts), extent })?;
        self.put(command::BLOCK_STATUS, 0, cookie, extent, &payload)
    }

    /// Tells that `length` bytes from `offset` on are no longer needed.
    ///
    /// # Errors
    /// See [`ClientSender`].
    pub fn send_trim(
        &mut self,
        cookie: Cookie,
        offset: u64,
        length: impl Into<u64>,
        fua: bool,
    ) -> Result<(), ClientError> {
        self.require(TransmissionFlags::SEND_TRIM, "trim")?;
        let extent = Extent::new(offset, length.into());
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
        self.put(command::DISC, 0, Cookie(0), Extent::default(), &[])
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
        let sort = if command == command::READ { Sort::Data } else { Sort::Nothing };
        self.note(cookie, Expected { sort, extent })?;
        self.put(command, flags, cookie, extent, data)
    }

    /// Before the request, or its answer could be faster than the note of it.
    fn note(&self, cookie: Cookie, expected: Expected) -> Result<(), ClientError> {
        if self.form != Form::Extended && u32::try_from(expected.extent.length).is_err() {
            return Err(ClientError::Unsendable("4 GiB or more in one compact request"));
        }
        if self.pending.insert(cookie, expected) {
            return Ok(());
        }
        Err(ClientError::Unsendable("a request under a cookie still in flight"))
    }

    fn put(
        &mut self,
        command: u16,
        flags: u16,
        cookie: Cookie,
        extent: Extent,
        data: &[u8],
    ) -> Result<(), ClientError> {
        let Extent { offset, length } = extent;
        let mut header = RequestHeader { flags, command, cookie, offset, length };
        let sent = if self.form == Form::Extended {
            if command == command::WRITE || !data.is_empty() {
                header.flags |= command_flag::PAYLOAD_LEN;
                header.length = data.len() as u64;
            }
            self.wire.send(&header.encode_extended(), data)
        } else {
            self.wire.send(&header.encode(), data)
        };
        sent.map_err(ClientError::io("sending a request"))
    }
}
