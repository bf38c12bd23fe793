// SPDX-License-Identifier: Apache-2.0
//! NBD clients, and programs that use attached volumes, as state machines: they own no socket, no device and no clock. A story steps
//! each of them with its stream or device, the virtual time, dice, and the model that judges what it is answered.

mod due;
mod handshake;
mod mischief;
mod program;
mod reply;
mod request;
mod wire;
mod workload;

pub use mischief::Mischief;
pub use program::{DeviceTurn, Program};
pub(crate) use workload::{BREAK_OFF, LABELS};
pub use workload::{Dice, Habits, Leaving, Pace};

use crate::model::{ConnectionId, Model, Violation};
use due::Due;
use handshake::{Handshake, Progress};
use helio_engine::Operation;
use helio_units::Moment;
use helio_world::Stream;
use mischief::Rogue;
use request::Conversation;
use std::time::Duration;
use wire::Wire;
use workload::{DISCONNECT, Plan};

/// Bytes that wait for a stream which takes nothing before a client stops to make requests.
const BACKLOG: usize = 256 << 10;

/// Most bytes that a client receives in one step.
const GULP: usize = 1 << 20;

/// What a client is stepped with.
pub struct Turn<'a> {
    /// Its end of the connection.
    pub stream: &'a mut dyn Stream,
    /// The virtual time.
    pub now: Moment,
    /// Its dice.
    pub dice: Dice<'a>,
    /// The judge of its answers.
    pub model: &'a mut Model,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client took leave, and the server closed.
    Left,
    /// The client broke off in the middle of a request, or had enough of its mischief.
    BrokeOff,
    /// The server ended the connection.
    Lost,
    /// The server refused the export with this reply to GO.
    Refused(u32),
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// Step again when the stream has bytes or room, and at this moment at the latest ([`Moment::NEVER`]: only then).
    Waits(Moment),
    /// The connection is over. The client may be connected again.
    Ended(Ending),
}

#[derive(Debug)]
enum Phase {
    Haggles(Handshake),
    Serves {
        conversation: Conversation,
        left: u32,
        next: Moment,
        leaving: bool,
    },
    /// It waits until the front of its last request is sent.
    BreaksOff(Conversation),
    Misbehaves {
        rogue: Rogue,
        until: Moment,
    },
    Over(Ending),
}

/// A client, which may connect again and again.
#[derive(Debug)]
pub struct Client {
    habits: Habits,
    connection: ConnectionId,
    wire: Wire,
    phase: Phase,
    /// When it receives again.
    receives: Moment,
    /// What it asks before it draws a request.
    due: Due,
    /// What it has begun to ask since [`Client::begun`] was called last.
    begun: Vec<&'static str>,
}

impl Client {
    /// A client that has just opened a connection.
    #[must_use]
    pub fn new(habits: Habits, model: &mut Model) -> Self {
        let mut client = Self {
            habits,
            connection: ConnectionId(0),
            wire: Wire::default(),
            phase: Phase::Over(Ending::Lost),
            receives: Moment::ZERO,
            due: Due::default(),
            begun: Vec::new(),
        };
        client.connected(model);
        client
    }

    /// From here on it makes the requests of a script at their moments, on however many connections, and no others. What a script does not
    /// say of them is drawn.
    pub(crate) fn follow(
        &mut self,
        script: impl IntoIterator<Item = (Moment, Operation)>,
        dice: Dice<'_>,
    ) {
        let plans = script.into_iter().map(|(at, operation)| (at, Plan::of(operation, dice)));
        self.due = Due::of_script(plans.collect());
    }

    /// How many requests of its script are left; none without a script.
    pub(crate) fn left(&self) -> Option<usize> {
        self.due.left()
    }

    /// Whether it is like that.
    pub(crate) fn has(&self, habits: &Habits) -> bool {
        self.habits == *habits
    }

    /// It has opened another connection, on which it makes the requests that were not answered again.
    pub fn connected(&mut self, model: &mut Model) {
        self.connection = model.connected();
        self.wire = Wire::default();
        self.receives = Moment::ZERO;
        let Habits { export, form, contexts, mischief, .. } = &self.habits;
        self.phase = match mischief {
            Some(mischief) if !mischief.after_handshake() => {
                Phase::Misbehaves { rogue: Rogue::new(*mischief, None), until: Moment::ZERO }
            }
            _ => Phase::Haggles(Handshake::new(export, *form, *contexts)),
        };
    }

    /// It makes so many more requests on this connection.
    pub fn request(&mut self, count: u32) {
        if let Phase::Serves { left, next, .. } = &mut self.phase {
            *left += count;
            *next = Moment::ZERO;
        }
    }

    /// It makes no further request, receives without delay, and leaves once everything is answered.
    pub fn retire(&mut self) {
        (self.habits.requests, self.habits.pace) = (0, None);
        self.habits.leaving = Leaving::Politely;
        self.receives = Moment::ZERO;
        self.due.clear();
        if let Phase::Serves { left, .. } = &mut self.phase {
            *left = 0;
        }
    }

    /// It gives up what it waits for, and is gone without a word.
    pub fn give_up(&mut self, stream: &mut dyn Stream, model: &mut Model) {
        stream.reset();
        self.lost(model);
    }

    /// What it has begun to ask since the last call, of `LABELS`.
    pub(crate) fn begun(&mut self) -> std::vec::Drain<'_, &'static str> {
        self.begun.drain(..)
    }

    /// What it waits for, of `LABELS`.
    pub(crate) fn waits_for(&self) -> Vec<&'static str> {
        match &self.phase {
            Phase::Serves { conversation, leaving, .. } => {
                let leaves = leaving.then_some(DISCONNECT);
                conversation.labels().chain(leaves).collect()
            }
            Phase::BreaksOff(conversation) => conversation.labels().chain([BREAK_OFF]).collect(),
            _ => Vec::new(),
        }
    }

    /// The name of its connection in the model.
    #[must_use]
    pub const fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// Does what can be done now.
    ///
    /// # Errors
    /// The promise that the server broke.
    pub fn step(&mut self, turn: &mut Turn<'_>) -> Result<Stepped, Violation> {
        turn.model.set_time(turn.now);
        self.wire.push(turn.stream);
        let more = self.receive(turn);
        self.advance(turn)?;
        self.wire.push(turn.stream);
        self.break_off(turn);
        if let Phase::Over(ending) = self.phase {
            return Ok(Stepped::Ended(ending));
        }
        if self.wire.ended() {
            turn.stream.close();
            return Ok(Stepped::Ended(self.lost(turn.model)));
        }
        let (receives, acts) = (self.receives, self.acts());
        let receives = if more && receives > turn.now { receives } else { Moment::NEVER };
        Ok(Stepped::Waits(receives.min(acts)))
    }

    /// Receives what its pace allows; whether there may be more.
    fn receive(&mut self, turn: &mut Turn<'_>) -> bool {
        if self.habits.mischief == Some(Mischief::NeverReceives)
            && matches!(self.phase, Phase::Misbehaves { .. })
        {
            return false;
        }
        if turn.now < self.receives {
            return true;
        }
        let Some(Pace { bytes, every }) = self.habits.pace else {
            return self.wire.pull(turn.stream, GULP);
        };
        let more = self.wire.pull(turn.stream, bytes);
        self.receives = turn.now + every;
        more
    }

    /// When it does something by itself.
    const fn acts(&self) -> Moment {
        match self.phase {
            Phase::Serves { next, leaving: false, .. } => next,
            Phase::Misbehaves { until, .. } if until.0 > 0 => until,
            _ => Moment::NEVER,
        }
    }

    fn advance(&mut self, turn: &mut Turn<'_>) -> Result<(), Violation> {
        if let Phase::Haggles(handshake) = &mut self.phase {
            match handshake.step(&mut self.wire)? {
                Progress::Waits => {}
                Progress::Refused(reply) => {
                    turn.stream.close();
                    turn.model.connection_lost(self.connection);
                    self.phase = Phase::Over(Ending::Refused(reply));
                }
                Progress::Agreed(agreed) if self.habits.mischief.is_some() => {
                    let mischief = self.habits.mischief.unwrap_or(Mischief::RequestMagic);
                    let rogue = Rogue::new(mischief, Some(agreed));
                    self.phase = Phase::Misbehaves { rogue, until: Moment::ZERO };
                }
                Progress::Agreed(agreed) => {
                    let conversation =
                        Conversation::new(agreed, self.connection, self.habits.volume);
                    let left = self.due.left().map_or(self.habits.requests, |left| left as u32);
                    let next = self.due.next(turn.now);
                    self.phase = Phase::Serves { conversation, left, next, leaving: false };
                }
            }
        }
        match &mut self.phase {
            Phase::Serves { conversation, .. } | Phase::BreaksOff(conversation) => {
                conversation.step(&mut self.wire, turn.model)?;
            }
            Phase::Misbehaves { .. } => return self.misbehave(turn),
            Phase::Haggles(_) | Phase::Over(_) => {}
        }
        self.ask(turn);
        Ok(())
    }

    fn misbehave(&mut self, turn: &mut Turn<'_>) -> Result<(), Violation> {
        let Phase::Misbehaves { rogue, until } = &mut self.phase else { return Ok(()) };
        let about = (self.connection, self.habits.volume);
        let satisfied = rogue.step(&mut self.wire, about, turn.model)?;
        let lasts = self.habits.mischief.is_some_and(Mischief::lasts);
        if lasts && *until == Moment::ZERO {
            *until = turn.now + Duration::from_millis(1 + (turn.dice)(30_000));
        }
        if satisfied || lasts && turn.now >= *until {
            turn.stream.reset();
            turn.model.connection_lost(self.connection);
            self.phase = Phase::Over(Ending::BrokeOff);
        }
        Ok(())
    }

    /// Makes requests, as many as may wait at once, and leaves after the last.
    fn ask(&mut self, turn: &mut Turn<'_>) {
        let Phase::Serves { conversation, left, next, leaving } = &mut self.phase else { return };
        while !*leaving
            && *left > 0
            && turn.now >= *next
            && conversation.waiting() < self.habits.depth
            && self.wire.waiting() < BACKLOG
        {
            let agreed = &conversation.agreed;
            let shape = (agreed.size, agreed.block);
            let contexts = !agreed.contexts.is_empty();
            let draw = || Plan::draw(&self.habits, shape, agreed.flags, contexts, turn.dice);
            let plan = self.due.take().map_or_else(draw, |plan| plan.offered(agreed.flags));
            self.begun.push(plan.label());
            *left -= 1;
            *next = self.due.next(turn.now + self.habits.pause(turn.dice));
            let last = *left == 0;
            if last && matches!(self.habits.leaving, Leaving::InRequest { .. }) {
                let share = (turn.dice)(256);
                conversation.ask(plan, share, &mut self.wire, turn.model);
                self.begun.push(BREAK_OFF);
                let phase = std::mem::replace(&mut self.phase, Phase::Over(Ending::BrokeOff));
                if let Phase::Serves { conversation, .. } = phase {
                    self.phase = Phase::BreaksOff(conversation);
                }
                return;
            }
            conversation.ask(plan, 256, &mut self.wire, turn.model);
        }
        let leaves = match self.habits.leaving {
            Leaving::Early => true,
            Leaving::Retired => false,
            Leaving::Politely | Leaving::InRequest { .. } => conversation.waiting() == 0,
        };
        if *left == 0 && !*leaving && leaves {
            *leaving = true;
            self.begun.push(DISCONNECT);
            conversation.disconnect(&mut self.wire);
        }
        let full = conversation.waiting() >= self.habits.depth || self.wire.waiting() >= BACKLOG;
        if *left == 0 || full {
            *next = Moment::NEVER;
        } else if *next == Moment::NEVER {
            *next = self.due.next(turn.now);
        }
    }

    /// Ends the connection once all that will ever be sent was sent.
    fn break_off(&mut self, turn: &mut Turn<'_>) {
        if !matches!(self.phase, Phase::BreaksOff(_)) || self.wire.waiting() > 0 {
            return;
        }
        match self.habits.leaving {
            Leaving::InRequest { reset: true } => turn.stream.reset(),
            _ => turn.stream.close(),
        }
        self.lost(turn.model);
        self.phase = Phase::Over(Ending::BrokeOff);
    }

    /// The connection is gone.
    fn lost(&mut self, model: &mut Model) -> Ending {
        let phase = std::mem::replace(&mut self.phase, Phase::Over(Ending::Lost));
        let ending = match phase {
            Phase::Serves { mut conversation, leaving, .. } => {
                let unanswered = conversation.lost(&self.wire, model);
                self.due.again(unanswered);
                if leaving { Ending::Left } else { Ending::Lost }
            }
            Phase::BreaksOff(mut conversation) => {
                let unanswered = conversation.lost(&self.wire, model);
                self.due.again(unanswered);
                Ending::Lost
            }
            _ => {
                model.connection_lost(self.connection);
                Ending::Lost
            }
        };
        self.phase = Phase::Over(ending);
        ending
    }
}
