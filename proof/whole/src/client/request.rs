// SPDX-License-Identifier: Apache-2.0
//! Requests under way on one connection, and their answers.

use super::handshake::Agreed;
use super::reply::{self, Expected, Message, Part, Sort};
use super::wire::Wire;
use super::workload::{Kind, Plan};
use crate::model::stamp::{Place, SECTOR, stamp};
use crate::model::{Answer, ConnectionId, Model, Promise, Request, Ticket, Violation};
use helio_nbd::codec::{RequestHeader, command, command_flag};
use helio_nbd::{Context, Cookie, ErrorCode, Form, status};
use helio_units::Extent;
use std::collections::BTreeMap;

/// A request that waits for its answer.
#[derive(Debug)]
struct Pending {
    ticket: Ticket,
    plan: Plan,
    /// It is sent whole once the wire sent this many bytes in all.
    whole_at: u64,
    data: Vec<u8>,
    /// Parts of the extent that were answered.
    covered: Vec<Extent>,
    /// Contexts that were answered.
    told: Vec<u32>,
    zeros: Vec<Extent>,
    error: Option<ErrorCode>,
}

/// The transmission phase of one connection.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) agreed: Agreed,
    connection: ConnectionId,
    volume: u16,
    cookies: u64,
    pending: BTreeMap<u64, Pending>,
}

impl Conversation {
    pub(super) const fn new(agreed: Agreed, connection: ConnectionId, volume: u16) -> Self {
        Self { agreed, connection, volume, cookies: 0, pending: BTreeMap::new() }
    }

    /// Requests that wait for their answers.
    pub(super) fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// What they are.
    pub(super) fn labels(&self) -> impl Iterator<Item = &'static str> {
        self.pending.values().map(|request| request.plan.label())
    }

    /// Composes a request and queues `share` of its bytes, in parts of 256: all of them, or the front if it is never to
    /// be whole.
    pub(super) fn ask(&mut self, plan: Plan, share: u64, wire: &mut Wire, model: &mut Model) {
        let Self { connection, volume, .. } = *self;
        let ticket = model.begin(Request { connection, volume, action: plan.action() });
        self.cookies += 1;
        // Spread, so that a cookie is no small number that could pass for another field.
        let cookie = Cookie(self.cookies.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut bytes = self.header(plan, cookie);
        if plan.kind == Kind::Write {
            let size = SECTOR as u64;
            let first = Place { volume, sector: plan.extent.offset / size };
            stamp(ticket.0, first, plan.extent.length / size, &mut bytes);
        }
        let whole_at = wire.queued() + bytes.len() as u64;
        let part = bytes.len() as u64 * share / 256;
        wire.queue(&bytes[..part as usize]);
        let (data, covered, told, zeros) = <_>::default();
        let pending = Pending { ticket, plan, whole_at, data, covered, told, zeros, error: None };
        self.pending.insert(cookie.0, pending);
    }

    fn header(&self, plan: Plan, cookie: Cookie) -> Vec<u8> {
        let (command, mut flags) = plan.command();
        let Extent { offset, length } = plan.extent;
        let extended = self.agreed.form == Form::Extended;
        if extended && command == command::WRITE {
            flags |= command_flag::PAYLOAD_LEN;
        }
        let header = RequestHeader { flags, command, cookie, offset, length };
        if extended { header.encode_extended().to_vec() } else { header.encode().to_vec() }
    }

    /// Takes leave.
    pub(super) fn disconnect(&self, wire: &mut Wire) {
        let leave = Plan { kind: Kind::Flush, extent: Extent::default(), fua: false };
        let mut header = self.header(leave, Cookie(0));
        header[6..8].copy_from_slice(&command::DISC.to_be_bytes());
        wire.queue(&header);
    }

    /// Uses up the answers that have arrived whole.
    pub(super) fn step(&mut self, wire: &mut Wire, model: &mut Model) -> Result<(), Violation> {
        let (form, pending) = (self.agreed.form, &mut self.pending);
        let mut at = 0;
        loop {
            let expected = |cookie: Cookie| pending.get(&cookie.0).map(Pending::expected);
            let Some((used, message)) = reply::next(&wire.input[at..], form, &expected)? else {
                break;
            };
            at += used;
            // `reply::next` found it a moment ago.
            let Some(mut found) = pending.remove(&message.cookie.0) else { continue };
            let (cookie, last) = (message.cookie, message.last);
            let sent = found.whole_at <= wire.sent();
            if !sent {
                return Err(broken(&found, "an answer before the request was sent"));
            }
            found.take(message, &self.agreed)?;
            if last {
                found.finish(&self.agreed, model)?;
            } else {
                pending.insert(cookie.0, found);
            }
        }
        wire.input.drain(..at);
        Ok(())
    }

    /// The connection ended: tells the model, and gives back the requests that were not answered.
    pub(super) fn lost(&mut self, wire: &Wire, model: &mut Model) -> Vec<Plan> {
        let pending = std::mem::take(&mut self.pending);
        for request in pending.values().filter(|request| request.whole_at > wire.sent()) {
            model.withdrawn(request.ticket);
        }
        model.connection_lost(self.connection);
        let mut requests: Vec<_> = pending.into_values().collect();
        requests.sort_by_key(|request| request.ticket);
        requests.into_iter().map(|request| request.plan).collect()
    }
}

impl Pending {
    const fn expected(&self) -> Expected {
        let sort = match self.plan.kind {
            Kind::Read => Sort::Data,
            Kind::Status { .. } => Sort::Status,
            _ => Sort::Nothing,
        };
        Expected { sort, extent: self.plan.extent }
    }

    /// Takes in one part of the answer.
    fn take(&mut self, message: Message, agreed: &Agreed) -> Result<(), Violation> {
        match message.part {
            Part::Nothing => {}
            Part::Error(code) => {
                self.error.get_or_insert(code);
            }
            Part::Hole(extent) => self.cover(extent, None)?,
            Part::Data { offset, bytes } => {
                self.cover(Extent::new(offset, bytes.len() as u64), Some(&bytes))?;
            }
            Part::Status { context, stretches } => self.told(context, &stretches, agreed)?,
        }
        Ok(())
    }

    fn cover(&mut self, part: Extent, bytes: Option<&[u8]>) -> Result<(), Violation> {
        let asked = self.plan.extent;
        if part.offset < asked.offset || part.end() > asked.end() {
            return Err(broken(self, "data outside of what was asked for"));
        }
        if self.covered.iter().any(|before| before.overlaps(part)) {
            return Err(broken(self, "the same data twice"));
        }
        self.covered.push(part);
        self.data.resize(asked.length as usize, 0);
        if let Some(bytes) = bytes {
            let at = (part.offset - asked.offset) as usize;
            self.data[at..at + bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }

    fn told(
        &mut self,
        number: u32,
        stretches: &[(u64, u64)],
        agreed: &Agreed,
    ) -> Result<(), Violation> {
        let known = agreed.contexts.iter().find(|(of, _)| *of == number);
        let Some((_, context)) = known else {
            return Err(broken(self, "a context that was not chosen"));
        };
        if self.told.contains(&number) {
            return Err(broken(self, "a context twice"));
        }
        self.told.push(number);
        let one = matches!(self.plan.kind, Kind::Status { one: true });
        let asked = self.plan.extent;
        let mut at = asked.offset;
        for (length, flags) in stretches {
            if at >= asked.end() {
                return Err(broken(self, "a stretch behind what was asked for"));
            }
            let stretch = Extent::new(at, (*length).min(asked.end() - at));
            at = at.saturating_add(*length);
            if *context == Context::Allocation && flags & u64::from(status::ZERO) != 0 {
                self.zeros.push(stretch);
            }
        }
        if at > agreed.size || one && (stretches.len() > 1 || at > asked.end()) {
            return Err(broken(self, "stretches that reach too far"));
        }
        Ok(())
    }

    fn finish(self, agreed: &Agreed, model: &mut Model) -> Result<(), Violation> {
        if let Some(code) = self.error {
            return model.failed(self.ticket, code);
        }
        let covered: u64 = self.covered.iter().map(|part| part.length).sum();
        match self.plan.kind {
            Kind::Read if covered != self.plan.extent.length => {
                Err(broken(&self, "an incomplete answer to a read"))
            }
            Kind::Read => model.acknowledged(self.ticket, Answer::Data(&self.data)),
            Kind::Status { .. } if self.told.len() != agreed.contexts.len() => {
                Err(broken(&self, "a status that lacks a context"))
            }
            Kind::Status { .. } => model.acknowledged(self.ticket, Answer::Zeros(&self.zeros)),
            _ => model.acknowledged(self.ticket, Answer::Done),
        }
    }
}

fn broken(pending: &Pending, what: &str) -> Violation {
    let Pending { ticket, plan, .. } = pending;
    let detail = format!("the server sent {what}, for request {}: {plan:?}", ticket.0);
    Violation::new(Promise::Protocol, detail)
}
