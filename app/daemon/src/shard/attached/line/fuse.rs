// SPDX-License-Identifier: Apache-2.0
//! Requests for a file in a FUSE mount: the conversation, and the memory its messages arrive in.

use super::Taken;
use helio_attach::{
    Arrival, Channel, Fault, HEAD_BYTES, MESSAGE_BYTES, Session, Shape, Step, Work,
};
use helio_driver::{Buffer, Errno, Pool, Socket};
use helio_units::Bytes;

/// Payload up to that arrives where it will be written from.
const PAGE: usize = 4096;
/// Payload beyond that stays where it arrived, in a buffer for the longest; what is shorter is copied to a buffer of its
/// own size, so that memory is not held for nothing.
const LONG: usize = MESSAGE_BYTES / 4;

pub(in crate::shard::attached) struct Fuse {
    name: String,
    channel: Channel,
    session: Session,
    head: [u8; HEAD_BYTES],
    /// A message's first page behind its head, and the rest of it. The rest leaves room for the page before it, so that
    /// a long payload comes to lie in one piece.
    page: Option<Buffer>,
    rest: Option<Buffer>,
}

impl Fuse {
    pub(super) fn new(channel: Channel, shape: Shape, name: &str) -> Self {
        let (name, session) = (name.to_owned(), Session::new(shape));
        Self { name, channel, session, head: [0; HEAD_BYTES], page: None, rest: None }
    }

    pub(super) const fn socket(&self) -> &Socket {
        self.channel.socket()
    }

    /// Memory that it holds for the next message.
    pub(super) fn held(&self) -> Bytes {
        let held = self.page.iter().chain(&self.rest).map(|buffer| buffer.len() as u64);
        Bytes(held.sum())
    }

    /// Looks for a message.
    pub(super) fn take(&mut self, pool: &Pool) -> Taken {
        self.page = self.page.take().or_else(|| pool.take(PAGE));
        self.rest = self.rest.take().or_else(|| pool.take(MESSAGE_BYTES));
        let (Some(page), Some(rest)) = (&mut self.page, &mut self.rest) else {
            return Taken::Starved;
        };
        match self.channel.receive(&mut self.head, page, &mut rest[PAGE..]) {
            Ok(Arrival::Message(length)) => self.message(length),
            Ok(Arrival::Nothing) => Taken::Nothing,
            Ok(Arrival::Over) => {
                Taken::Over(String::from("its file was unmounted, or its connection was aborted"))
            }
            Err(errno) => Taken::Over(format!("the kernel sends no more requests: {errno}")),
        }
    }

    fn message(&self, length: usize) -> Taken {
        match self.session.consume(&self.head[..length.min(HEAD_BYTES)], length) {
            Step::Work { unique, work } => return Taken::Work { unique, work },
            Step::Answer(answer) => self.answer(&answer, &[]),
            Step::Silent => {}
        }
        Taken::Answered
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

    pub(super) fn done(&self, unique: u64, work: &Work, found: &[u8]) {
        self.answer(&Session::done(unique, work), found);
    }

    pub(super) fn failed(&self, unique: u64, fault: Fault) {
        self.answer(&Session::failed(unique, fault), &[]);
    }

    /// Answers the kernel. Where it is gone, the next look for a message says so.
    fn answer(&self, head: &[u8], payload: &[u8]) {
        match self.channel.answer(head, payload) {
            Ok(()) | Err(Errno::NODEV) => {}
            Err(error) => {
                tracing::error!(device = %self.name, %error, "the kernel refuses a reply");
            }
        }
    }
}
