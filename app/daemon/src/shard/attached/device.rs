// SPDX-License-Identifier: Apache-2.0
//! One attached volume: the kernel's end, the conversation on it, the memory messages arrive in.

use super::Plug;
use crate::shard::clients::Place;
use helio_attach::{Arrival, Channel, HEAD_BYTES, MESSAGE_BYTES, Session, Step};
use helio_driver::{Buffer, Errno, Pool};
use helio_units::Extent;
use tokio::sync::oneshot;

/// Requests one device may have under way; a loop device has 128.
const REQUESTS_MAX: u32 = 256;
/// Bytes one device may have under way: more would only hold memory that a machine short of it needs.
const BYTES_MAX: u64 = 16 << 20;
/// Payload up to that arrives where it will be written from.
const PAGE: usize = 4096;
/// Payload beyond that stays where it arrived, in a buffer for the longest; what is shorter is copied to a buffer of its
/// own size, so that memory is not held for nothing.
const LONG: usize = MESSAGE_BYTES / 4;

/// What came of looking for a message.
pub(super) enum Taken {
    Message(usize),
    Nothing,
    /// There is no memory for one now.
    Starved,
    Over(String),
}

/// One attached volume.
pub(super) struct Device {
    pub(super) epoch: u32,
    pub(super) group: String,
    pub(super) volume: String,
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) channel: Channel,
    session: Session,
    head: [u8; HEAD_BYTES],
    /// A message's first page behind its head, and the rest of it. The rest leaves room for the page before it, so that
    /// a long payload comes to lie in one piece.
    page: Option<Buffer>,
    rest: Option<Buffer>,
    pub(super) requests: u32,
    pub(super) bytes: u64,
    /// The driver tells when there is a message.
    pub(super) waiting: bool,
    pub(super) ended: bool,
    pub(super) gone: Option<oneshot::Sender<String>>,
    /// Long zeroes to go on with: the request, where, whether space goes back.
    pub(super) unfinished: Vec<(u64, Extent, bool)>,
}

impl Device {
    pub(super) fn new(epoch: u32, plug: Plug, session: Session, place: Place) -> Self {
        let Plug { group, volume, name, channel, gone, .. } = plug;
        Self {
            epoch,
            group,
            volume,
            name,
            place,
            channel,
            session,
            head: [0; HEAD_BYTES],
            page: None,
            rest: None,
            requests: 0,
            bytes: 0,
            waiting: false,
            ended: false,
            gone: Some(gone),
            unfinished: Vec::new(),
        }
    }

    /// Whether some of what it has under way must be answered first.
    pub(super) fn is_full(&self) -> bool {
        self.requests >= REQUESTS_MAX || self.bytes >= BYTES_MAX
    }

    /// Looks for a message.
    pub(super) fn take(&mut self, pool: &Pool) -> Taken {
        self.page = self.page.take().or_else(|| pool.take(PAGE));
        self.rest = self.rest.take().or_else(|| pool.take(MESSAGE_BYTES));
        let (Some(page), Some(rest)) = (&mut self.page, &mut self.rest) else {
            return Taken::Starved;
        };
        match self.channel.receive(&mut self.head, page, &mut rest[PAGE..]) {
            Ok(Arrival::Message(length)) => Taken::Message(length),
            Ok(Arrival::Nothing) => Taken::Nothing,
            Ok(Arrival::Over) => Taken::Over(String::from("its file was unmounted, or cut off")),
            Err(errno) => Taken::Over(format!("the kernel hands out no more requests: {errno}")),
        }
    }

    /// What the message just taken asks for.
    pub(super) fn step(&self, length: usize) -> Step {
        self.session.consume(&self.head[..length.min(HEAD_BYTES)], length)
    }

    /// The payload of the message just taken, in a buffer of its own.
    pub(super) fn payload(&mut self, length: usize, pool: &Pool) -> Buffer {
        let (Some(mut page), Some(mut rest)) = (self.page.take(), self.rest.take()) else {
            panic!("a message without the memory it arrived in")
        };
        if length <= PAGE {
            page.resize(length);
            self.rest = Some(rest);
            return page;
        }
        rest[..PAGE].copy_from_slice(&page);
        self.page = Some(page);
        if length < LONG
            && let Some(mut own) = pool.take(length)
        {
            own.copy_from_slice(&rest[..length]);
            self.rest = Some(rest);
            return own;
        }
        rest.resize(length);
        rest
    }

    /// Answers the kernel. Where it is gone, the next look for a message says so.
    pub(super) fn answer(&self, head: &[u8], payload: &[u8]) {
        match self.channel.answer(head, payload) {
            Ok(()) | Err(Errno::NODEV) => {}
            Err(error) => {
                tracing::error!(device = %self.name, %error, "the kernel refuses an answer");
            }
        }
    }
}
