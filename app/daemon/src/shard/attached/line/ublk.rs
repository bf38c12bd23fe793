// SPDX-License-Identifier: Apache-2.0
//! Requests of a device of ublk. Payload stays with the kernel until there is memory for it.

use super::Taken;
use helio_attach::ublk::{Order, Server};
use helio_attach::{Fault, Work};
use helio_driver::{Buffer, Pool, Socket};
use std::io;

pub(in crate::shard::attached) struct Ublk {
    name: String,
    server: Box<Server>,
    /// A write that waits for memory.
    held: Option<Order>,
    /// The payload of the write just taken.
    payload: Option<Buffer>,
    /// The kernel refuses answers: why.
    broken: Option<String>,
}

impl Ublk {
    pub(super) fn begin(mut server: Box<Server>, name: &str) -> io::Result<Self> {
        server.begin()?;
        Ok(Self { name: name.to_owned(), server, held: None, payload: None, broken: None })
    }

    pub(super) fn socket(&self) -> &Socket {
        self.server.socket()
    }

    pub(super) fn take(&mut self, pool: &Pool) -> Taken {
        let next = self.held.take().or_else(|| self.server.take());
        let Some(order) = next else {
            return match (&self.broken, self.server.is_over()) {
                (Some(why), _) => Taken::Over(why.clone()),
                (None, true) => Taken::Over(String::from("the kernel removes the device")),
                (None, false) => Taken::Nothing,
            };
        };
        let Order { unique, work } = order;
        if let Work::Write { extent, .. } = work {
            let Some(mut buffer) = pool.take(extent.length as usize) else {
                self.held = Some(order);
                return Taken::Starved;
            };
            if let Err(error) = self.server.fetch(unique, &mut buffer) {
                tracing::error!(device = %self.name, %error, "the kernel does not provide the payload of a write");
                self.failed(unique, Fault::Io);
                return Taken::Answered;
            }
            self.payload = Some(buffer);
        }
        Taken::Work { unique, work }
    }

    pub(super) fn payload(&mut self) -> Buffer {
        match self.payload.take() {
            Some(payload) => payload,
            None => panic!("a write without the payload it was taken with"),
        }
    }

    pub(super) fn done(&mut self, unique: u64, work: &Work, found: &[u8]) {
        self.server.done(unique, work, found);
    }

    pub(super) fn failed(&mut self, unique: u64, fault: Fault) {
        self.server.failed(unique, fault);
    }

    pub(super) fn hand_over(&mut self) {
        if let Err(error) = self.server.hand_over()
            && self.broken.is_none()
        {
            self.broken = Some(format!("the kernel accepts no more replies: {error}"));
        }
    }
}
