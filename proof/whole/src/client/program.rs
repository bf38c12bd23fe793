// SPDX-License-Identifier: Apache-2.0
//! A program that uses an attached volume as a disk. It makes the requests that an NBD client makes, and the same model judges it.

use super::workload::{Kind, Plan};
use super::{Dice, Ending, Habits, Leaving, Stepped};
use crate::model::stamp::{self, Place, SECTOR};
use crate::model::{Action, Answer, ConnectionId, Model, Promise, Request, Ticket, Violation};
use helio_nbd::{ErrorCode, TransmissionFlags};
use helio_units::{Extent, Moment};
use helio_world::{DeviceIo, Done, Failure, OpenDevice, Readiness};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often a device is looked at that is being opened.
const LOOKS: Duration = Duration::from_millis(5);
/// One of so many steps interrupts a request.
const INTERRUPTS: u64 = 64;

/// What a program is stepped with.
pub struct DeviceTurn<'a> {
    /// The device.
    pub device: &'a mut OpenDevice,
    /// The virtual time.
    pub now: Moment,
    /// Its dice.
    pub dice: Dice<'a>,
    /// The judge of its responses; none if all that is known is that every sector is one that was written.
    pub model: Option<&'a mut Model>,
}

/// A program that has a device open.
#[derive(Debug)]
pub struct Program {
    habits: Habits,
    connection: ConnectionId,
    left: u32,
    next: Moment,
    pending: BTreeMap<u64, (Option<Ticket>, Plan)>,
}

impl Program {
    /// One that has just opened a device. With a model, its requests are those of another connection.
    pub fn new(habits: Habits, model: Option<&mut Model>) -> Self {
        let connection = model.map_or(ConnectionId(0), Model::connected);
        let left = habits.requests;
        Self { habits, connection, left, next: Moment::ZERO, pending: BTreeMap::new() }
    }

    /// It makes so many more requests.
    pub const fn request(&mut self, count: u32) {
        self.left += count;
        self.next = Moment::ZERO;
    }

    /// It asks for nothing more, and closes the device once everything has ended.
    pub fn retire(&mut self) {
        self.left = 0;
        self.habits.leaving = Leaving::Politely;
    }

    /// Does what can be done now.
    ///
    /// # Errors
    /// The promise that was broken.
    pub fn step(&mut self, turn: &mut DeviceTurn<'_>) -> Result<Stepped, Violation> {
        if let Some(model) = &mut turn.model {
            model.set_time(turn.now);
        }
        let mut lost = false;
        for Done { number, result } in turn.device.reap() {
            lost |= matches!(result, Err(Failure::Lost));
            self.ended(number, result, turn)?;
        }
        let (size, block, read_only) = match turn.device.readiness() {
            Readiness::Opening if self.left == 0 => return Ok(self.leave(turn, Ending::Left)),
            Readiness::Opening => return Ok(Stepped::Waits(turn.now + LOOKS)),
            Readiness::Gone => return Ok(self.leave(turn, Ending::Lost)),
            Readiness::Ready { size, block, read_only } => (size, block, read_only),
        };
        if lost {
            return Ok(self.leave(turn, Ending::Lost));
        }
        self.ask((size, u64::from(block)), read_only, turn);
        if !self.pending.is_empty() && (turn.dice)(INTERRUPTS) == 0 {
            turn.device.interrupt();
        }
        let leaves = match self.habits.leaving {
            Leaving::Politely => self.pending.is_empty(),
            Leaving::Early | Leaving::InRequest { .. } => true,
            Leaving::Retired => false,
        };
        if self.left > 0 || !leaves {
            return Ok(Stepped::Waits(self.next));
        }
        if matches!(self.habits.leaving, Leaving::InRequest { .. }) {
            self.give_up(turn.device, turn.model.as_deref_mut());
            return Ok(Stepped::Ended(Ending::BrokeOff));
        }
        Ok(self.leave(turn, Ending::Left))
    }

    /// It is killed.
    pub fn give_up(&mut self, device: &mut OpenDevice, model: Option<&mut Model>) {
        let never = device.kill();
        let Some(model) = model else { return };
        for number in never {
            if let Some((Some(ticket), _)) = self.pending.remove(&number) {
                model.withdrawn(ticket);
            }
        }
        model.connection_lost(self.connection);
    }

    fn leave(&mut self, turn: &mut DeviceTurn<'_>, ending: Ending) -> Stepped {
        if let Some(model) = &mut turn.model {
            model.connection_lost(self.connection);
        }
        Stepped::Ended(ending)
    }

    /// Makes requests, as many as may wait at once.
    fn ask(&mut self, shape: (u64, u64), read_only: bool, turn: &mut DeviceTurn<'_>) {
        let mut flags = TransmissionFlags::SEND_FUA.0 | TransmissionFlags::SEND_TRIM.0;
        if read_only || turn.model.is_none() {
            flags |= TransmissionFlags::READ_ONLY.0;
        }
        let depth = self.habits.depth;
        while self.left > 0 && turn.now >= self.next && self.pending.len() < depth {
            let plan = Plan::draw(&self.habits, shape, TransmissionFlags(flags), false, turn.dice);
            self.left -= 1;
            self.next = turn.now + self.habits.pause(turn.dice);
            let (connection, volume) = (self.connection, self.habits.volume);
            let action = match plan.kind {
                // Nothing was written to the device, so that the daemon has nothing to flush.
                Kind::Flush if read_only => Action::Hint,
                _ => plan.action(),
            };
            let request = Request { connection, volume, action };
            let ticket = turn.model.as_mut().map(|model| model.begin(request));
            let number = turn.device.submit(self.io(plan, ticket));
            self.pending.insert(number, (ticket, plan));
        }
        if self.left == 0 || self.pending.len() >= depth {
            self.next = Moment::NEVER;
        } else if self.next == Moment::NEVER {
            self.next = turn.now;
        }
    }

    fn io(&self, Plan { kind, extent, fua }: Plan, ticket: Option<Ticket>) -> DeviceIo {
        match kind {
            Kind::Write => {
                let size = SECTOR as u64;
                let first = Place { volume: self.habits.volume, sector: extent.offset / size };
                let (mut bytes, name) = (Vec::new(), ticket.map_or(0, |ticket| ticket.0));
                stamp::stamp(name, first, extent.length / size, &mut bytes);
                DeviceIo::Write { extent, bytes, fua }
            }
            Kind::WriteZeroes { no_hole } => DeviceIo::Zero { extent, punch: !no_hole, fua },
            Kind::Trim => DeviceIo::Zero { extent, punch: true, fua },
            Kind::Flush => DeviceIo::Flush,
            Kind::Read | Kind::Status { .. } | Kind::Cache => DeviceIo::Read(extent),
        }
    }

    /// A request ended. One that was lost may still take effect.
    fn ended(
        &mut self,
        number: u64,
        result: Result<Vec<u8>, Failure>,
        turn: &mut DeviceTurn<'_>,
    ) -> Result<(), Violation> {
        let Some((ticket, plan)) = self.pending.remove(&number) else {
            let detail = format!("request {number} of a device ended twice");
            return Err(Violation::new(Promise::AnsweredOnce, detail));
        };
        if self.pending.len() < self.habits.depth && self.left > 0 {
            self.next = self.next.min(turn.now);
        }
        let data = match (ticket, &mut turn.model, result) {
            (_, _, Err(Failure::Lost)) => return Ok(()),
            (Some(ticket), Some(model), Err(Failure::Answered(errno))) => {
                return model.failed(ticket, ErrorCode::from_wire(errno.cast_unsigned()));
            }
            (_, _, Err(Failure::Answered(_))) => return Ok(()),
            (Some(ticket), Some(model), Ok(data)) => {
                let answer =
                    if plan.kind == Kind::Read { Answer::Data(&data) } else { Answer::Done };
                return model.acknowledged(ticket, answer);
            }
            (_, _, Ok(data)) => data,
        };
        self.known(plan.extent, &data)
    }

    /// Without a model, every sector must at least be one that was written.
    fn known(&self, extent: Extent, data: &[u8]) -> Result<(), Violation> {
        let first = extent.offset / SECTOR as u64;
        for (sector, bytes) in (first..).zip(data.chunks(SECTOR)) {
            let place = Place { volume: self.habits.volume, sector };
            stamp::read(bytes, place).map_err(|flaw| {
                let detail = format!("the device of a copy returned for {place} {flaw}");
                Violation::new(Promise::KnownBytes, detail)
            })?;
        }
        Ok(())
    }
}
