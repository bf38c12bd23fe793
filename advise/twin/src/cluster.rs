// SPDX-License-Identifier: Apache-2.0
//! Two nodes and the wire between them, one event at a time.

use crate::happening::{Died, Happening};
use crate::host::{Due, Host, NodeDue};
use crate::node::{Node, Pause, Side};
use crate::stamps::Stamps;
use crate::wire::{Breakage, Cargo, Parcel, Wire, retry_after};
use core::time::Duration;
use helio_engine::{Answer, Command, CommandId, Effect, Event, SetOp};
use helio_ledger::LedgerError;
use helio_netmodel::{Dice, Profile};
use helio_units::{Moment, Sequence};

/// A shard takes several events before it settles, but not for longer than this.
const SETTLES_WITHIN: Duration = Duration::from_micros(30);
/// An engine that asks so often in a row for a moment that has passed would keep a processor busy with nothing.
const OVERDUE_MAX: u32 = 10_000;
/// After a refusal.
const DIAL_REFUSED: Duration = Duration::from_secs(4);

/// The commands by which a start adds members: no other command has that number.
const OF_A_START: CommandId = CommandId(u64::MAX - 1);

/// When an attempt to connect began: truly, and as its node's clock showed then, which may have leapt since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Began {
    truly: Moment,
    shown: Moment,
}

/// What falls due between the nodes.
#[derive(Clone, Copy, Debug)]
pub enum WireDue {
    /// A parcel arrives.
    Arrive { from: Side },
    /// The socket of a side took bytes of a connection.
    Took { side: Side, epoch: u64, bytes: u64 },
    /// A side tries to connect.
    Dial { side: Side },
    /// A side learns that it could not connect.
    DialFailed { side: Side, life: u64, began: Began },
    /// A connection stands for a side.
    Establish { side: Side, epoch: u64 },
    /// A side accepts a connection late.
    Accept { side: Side, epoch: u64 },
    /// A side learns that a connection broke.
    Broken { side: Side, epoch: u64 },
}

/// What falls due of a process.
#[derive(Clone, Copy, Debug)]
pub enum ProcessDue {
    /// A moment that its engine asked for.
    Wake,
    /// It settles.
    Settle,
    /// It reads.
    Drain,
    /// It performs what it was about to.
    Undone,
}

/// Two nodes with content.
pub type Cluster = Host<Stamps>;

impl Cluster {
    /// Two nodes that do not run yet, and the wire between them. `telling` makes the journal a story.
    #[must_use]
    pub fn new(nodes: [Node; 2], wire: Wire, dice: &Dice, telling: bool) -> Self {
        Self::with(nodes, wire, Stamps::new(dice.split("cluster"), telling))
    }

    /// Takes what happened since it was taken last.
    pub fn take_journal(&mut self, into: &mut Vec<Happening>) {
        into.append(&mut self.content.journal);
    }

    pub(crate) fn push_wire(&mut self, at: Moment, due: WireDue) {
        self.push(at, Due::Other(due));
    }

    fn push_process(&mut self, at: Moment, side: Side, due: ProcessDue) {
        self.push_node(at, side, NodeDue::Process(due));
    }

    /// Hands an event to the engine of a node that runs, and does what it asks for.
    pub(crate) fn handle(&mut self, side: Side, event: Event) {
        self.tell_event(side, &event);
        let mut effects = core::mem::take(&mut self.effects);
        let Node { engine, clock, process, .. } = &mut self.nodes[side.index()];
        let shown = clock.read(self.now);
        if let Some(engine) = engine {
            match process.pause.take_if(|pause| matches!(pause, Pause::StaleClock(_))) {
                Some(Pause::StaleClock(before)) => {
                    engine.handle(before, event, &mut effects);
                    // A shard settles with a reading of its own before it does anything.
                    engine.settle(shown, &mut effects);
                }
                _ => engine.handle(shown, event, &mut effects),
            }
        }
        if self.stops_here(side, &mut effects) {
            self.effects = effects;
            return;
        }
        self.perform(side, &mut effects, self.now);
        self.effects = effects;
        if self.content.dice.chance(1, 2) {
            self.settle(side);
        } else if !self.node(side).process.settling && self.node(side).is_up() {
            self.node_mut(side).process.settling = true;
            let later =
                Duration::from_nanos(self.content.dice.below(SETTLES_WITHIN.as_nanos() as u64));
            self.push_process(self.now + later, side, ProcessDue::Settle);
        }
    }

    /// Whether the process stops now, between deciding on an acknowledgement and sending it: nothing of what its engine
    /// asked for is done before it goes on.
    fn stops_here(&mut self, side: Side, effects: &mut Vec<Effect>) -> bool {
        let now = self.now;
        let decides = |e: &Effect| matches!(e, Effect::Reply { answer: Answer::Done(_), .. });
        let node = self.node_mut(side);
        let Some(Pause::Unsent(time)) = node.process.pause.filter(|_| effects.iter().any(decides))
        else {
            return false;
        };
        node.process.pause = None;
        node.process.undone.append(effects);
        // Before anything that arrives meanwhile.
        self.push_process(now + time, side, ProcessDue::Undone);
        self.hang(side, now + time);
        true
    }

    /// The process goes on with what it was about to do; it looks at its clock once more before it sends replies.
    pub(crate) fn go_on(&mut self, side: Side) {
        let Node { engine, clock, process, .. } = &mut self.nodes[side.index()];
        let mut effects = core::mem::take(&mut process.undone);
        if let Some(engine) = engine {
            engine.settle(clock.read(self.now), &mut effects);
        }
        self.perform(side, &mut effects, self.now);
        self.settle(side);
    }

    pub(crate) fn settle(&mut self, side: Side) {
        self.node_mut(side).process.settling = false;
        let mut effects = core::mem::take(&mut self.effects);
        let Node { engine, clock, .. } = &mut self.nodes[side.index()];
        if let Some(engine) = engine {
            engine.settle(clock.read(self.now), &mut effects);
            engine.view().check_invariants();
        }
        self.perform(side, &mut effects, self.now);
        self.effects = effects;
        let node = self.node(side);
        let Some(engine) = &node.engine else { return };
        let holds_line = engine.view().holds_line();
        // An engine that asks for the past is woken at once, but time must move.
        let (now, due) = (self.now, node.clock.when(engine.view().deadline()));
        let wake = due.max(now + Duration::from_micros(1));
        let node = self.node_mut(side);
        node.process.overdue = if due <= now { node.process.overdue + 1 } else { 0 };
        if node.process.overdue == OVERDUE_MAX {
            self.content.journal.push(Happening::Spins { side });
        }
        let node = self.node(side);
        if wake < node.process.wake.unwrap_or(Moment::NEVER) {
            self.node_mut(side).process.wake = Some(wake);
            self.push_process(wake, side, ProcessDue::Wake);
        }
        if !holds_line {
            self.node_mut(side).process.sent = Sequence::ZERO;
        }
    }

    /// Reads what has arrived, as far as the process reads.
    pub(crate) fn drain(&mut self, side: Side) {
        loop {
            let node = self.node(side);
            if node.hangs(self.now) || node.process.paused {
                return;
            }
            let Some(parcel) = self.wire.next_in(side) else { return };
            self.wire.was_read(side.other(), &parcel);
            self.pump(side.other());
            if self.wire.ends[side.index()].epoch == Some(parcel.epoch) {
                self.read(side, parcel);
            }
        }
    }

    /// Lets the socket of a side take what it has room for.
    pub(crate) fn pump(&mut self, side: Side) {
        let mut arrivals = Vec::new();
        let took = self.wire.pump(side, self.now, &mut arrivals);
        self.depart(side, arrivals);
        if let Some(epoch) = self.wire.ends[side.index()].epoch
            && took.0 > 0
        {
            let later = Duration::from_nanos(self.content.dice.below(20_000));
            self.push_wire(self.now + later, WireDue::Took { side, epoch, bytes: took.0 });
        }
    }

    fn depart(&mut self, from: Side, arrivals: Vec<Moment>) {
        for at in arrivals {
            self.push_wire(at, WireDue::Arrive { from });
        }
    }

    /// Tries to connect again after a while.
    pub(crate) fn dial_later(&mut self, side: Side, refused: bool) {
        let end = &mut self.wire.ends[side.index()];
        let usual = retry_after(&mut end.failures);
        let pause = if refused { DIAL_REFUSED } else { usual };
        let jitter = Duration::from_nanos(self.content.dice.below(pause.as_nanos() as u64 / 2));
        end.retry_at = self.now + pause + jitter;
        let at = end.retry_at;
        self.push_wire(at, WireDue::Dial { side });
    }

    pub(crate) fn dial(&mut self, side: Side) {
        let now = self.now;
        let end = &self.wire.ends[side.index()];
        let here = self.node(side);
        if !here.is_up() || end.epoch.is_some() || now < end.retry_at {
            return;
        }
        let there = self.node(side.other());
        let cut = Side::BOTH.iter().any(|s| self.wire.is_cut(*s));
        if cut || self.wire.dialling || !there.listens() || there.hangs(now) || here.hangs(now) {
            let (life, began) = (here.life, Began { truly: now, shown: here.clock.read(now) });
            // A machine that is there says at once that nothing listens; silence takes its time, and so does a process
            // whose sockets stand.
            let known = match (cut, there.listens(), there.hangs(now)) {
                _ if self.wire.dialling || here.hangs(now) => None,
                (true, ..) => Some(Duration::from_millis(3000 + self.content.dice.below(2000))),
                (_, false, _) => Some(Duration::ZERO),
                (.., true) => Some(there.config.peer_timeout),
                _ => None,
            };
            if let Some(after) = known {
                self.push_wire(now + after, WireDue::DialFailed { side, life, began });
            }
            self.dial_later(side, false);
            return;
        }
        self.wire.epochs += 1;
        self.wire.dialling = true;
        let (epoch, at) = (self.wire.epochs, now + self.wire.round_trip());
        let late = core::mem::take(&mut self.wire.late);
        if late == Duration::ZERO {
            self.push_wire(at, WireDue::Establish { side: side.other(), epoch });
        } else {
            self.wire.ends[side.other().index()].accepting = epoch;
            self.push_wire(at + late, WireDue::Accept { side: side.other(), epoch });
        }
        self.push_wire(at, WireDue::Establish { side, epoch });
    }

    /// A node learns that its attempt to connect failed, unless it is connected meanwhile.
    pub(crate) fn dial_failed(&mut self, side: Side, life: u64, began: Began) {
        let node = self.node(side);
        if node.life != life || !node.is_up() || self.wire.ends[side.index()].epoch.is_some() {
            return;
        }
        if node.hangs(self.now) {
            let until = node.hung_until;
            self.push_wire(until, WireDue::DialFailed { side, life, began });
            return;
        }
        self.content.journal.push(Happening::DialFailed { side, began: began.truly });
        self.handle(side, Event::DialFailed { began: began.shown });
    }

    /// A connection ends at a node; one of which nothing came was an attempt that failed.
    pub(crate) fn connection_over(&mut self, side: Side) {
        let (began, heard) = self.node(side).process.dialled;
        if self.wire.ends[side.index()].epoch.is_some() && !heard {
            self.content.journal.push(Happening::DialFailed { side, began });
        }
    }

    /// A node accepts what the other believes in for a while already; what it held before ends only now. If it died
    /// meanwhile, or met the other elsewhere, the other is told.
    pub(crate) fn accept(&mut self, side: Side, epoch: u64) {
        let end = &mut self.wire.ends[side.index()];
        let waited = end.accepting == epoch;
        if waited {
            end.accepting = 0;
        }
        let before = end.epoch;
        if waited && before.is_none_or(|before| before < epoch) && self.node(side).listens() {
            self.establish(side, epoch);
            // The other end may still believe in what this one lets go.
            if let Some(epoch) = before {
                self.push_wire(self.now, WireDue::Broken { side: side.other(), epoch });
            }
        } else {
            self.push_wire(self.now, WireDue::Broken { side: side.other(), epoch });
        }
    }

    pub(crate) fn establish(&mut self, side: Side, epoch: u64) {
        self.wire.dialling = false;
        if !self.node(side).listens() {
            return;
        }
        if self.wire.is_broken(epoch) {
            self.dial_later(side, false);
            return;
        }
        let before = self.wire.ends[side.index()].epoch;
        self.wire.establish(side, epoch);
        self.node_mut(side).process.paused = false;
        // Before anything the other end said on it already.
        let inbox = &mut self.wire.ends[side.index()].inbox;
        let size = helio_units::Bytes::ZERO;
        inbox.push_front(Parcel { epoch, size, cargo: Cargo::Opened });
        if before.is_some() {
            let gone = Parcel { epoch, size, cargo: Cargo::Closed("replaced by a new connection") };
            inbox.push_front(gone);
        }
        self.drain(side);
    }

    // What the outside does.

    /// Starts the process of a node.
    ///
    /// # Errors
    /// Its metadata cannot be read.
    pub fn start(&mut self, side: Side) -> Result<(), LedgerError> {
        assert!(!self.node(side).is_up(), "{side} runs already");
        if self.node(side).process.unserved {
            self.wire.close(side, true, "the daemon is restarted");
            self.pump(side);
        }
        let (now, incarnation, seed) =
            (self.now, self.content.dice.next_u64(), self.content.dice.next_u64());
        self.node_mut(side).start(now, incarnation, seed)?;
        self.content.journal.push(Happening::Started { side });
        self.wire.ends[side.index()].failures = 0;
        self.dial_later(side, false);
        for leg in self.node(side).new_members().collect::<Vec<_>>() {
            let command = Command::Set(SetOp::Add { leg, by_bitmap: false });
            self.handle(side, Event::Command { id: OF_A_START, command });
        }
        self.settle(side);
        Ok(())
    }

    /// Kills the process of a node, or cuts its power.
    pub fn kill(&mut self, side: Side, power: bool) {
        self.end(side, if power { Died::Power } else { Died::Killed });
        if power {
            self.wire.vanish(side);
        } else {
            self.wire.close(side, true, "the process is gone");
            self.pump(side);
        }
    }

    /// The engine of a node ends as if its process were killed, and its daemon goes on: until the next start it refuses
    /// every hello of the peer.
    pub fn unserve(&mut self, side: Side) {
        self.end(side, Died::Unserved);
        self.wire.close(side, true, "the group failed");
        self.pump(side);
        let now = self.now;
        let node = self.node_mut(side);
        (node.process.unserved, node.hung_until) = (true, now);
    }

    /// The daemon that runs without the group ends, too.
    pub fn end_daemon(&mut self, side: Side) {
        self.node_mut(side).process.unserved = false;
        self.wire.vanish(side);
    }

    /// The engine of a node ends, however that came.
    pub(crate) fn end(&mut self, side: Side, how: Died) {
        self.content.journal.push(Happening::Died { side, how });
        let mut changes = Vec::new();
        let node = self.node_mut(side);
        node.crash(how == Died::Power, &mut changes);
        node.end();
        self.damaged(side);
        self.changed(side, changes);
    }

    /// The process does nothing until then, though its sockets stand.
    pub fn hang(&mut self, side: Side, until: Moment) {
        let now = self.now;
        let node = self.node_mut(side);
        (node.hung_until, node.hung_since) = (until, now);
        self.push_process(until, side, ProcessDue::Drain);
    }

    /// As [`Cluster::hang`], and the process had read its clock before it acts on the next event.
    pub fn hang_with_stale_clock(&mut self, side: Side, until: Moment) {
        let shown = self.node(side).clock.read(self.now);
        self.node_mut(side).process.pause = Some(Pause::StaleClock(shown));
        self.hang(side, until);
    }

    /// As [`Cluster::hang`], and nothing on the machine counts the time.
    pub fn hang_uncounted(&mut self, side: Side, until: Moment) {
        let now = self.now;
        self.hang(side, until);
        self.node_mut(side).clock.stand_still(now, until);
    }

    /// The process stops for that time when it next decides on an acknowledgement, before it is sent.
    pub fn hang_before_sending(&mut self, side: Side, time: Duration) {
        self.node_mut(side).process.pause = Some(Pause::Unsent(time));
    }

    /// The clock of a node leaps ahead.
    pub fn leap_clock(&mut self, side: Side, by: Duration) {
        let now = self.now;
        let node = self.node_mut(side);
        node.clock.leap(now, by);
        if node.is_up() {
            node.process.wake = Some(now);
            self.push_process(now, side, ProcessDue::Wake);
        }
    }

    /// The next connection is accepted so much later than it stands for the one who dialled: what both held before
    /// ends at one of them long after the new one opened at the other.
    pub fn delay_acceptance(&mut self, by: Duration) {
        self.wire.late = by;
    }

    /// An operator commands. Returns false where no process listens.
    pub fn command(&mut self, side: Side, id: CommandId, command: Command) -> bool {
        let node = self.node(side);
        let listens = node.is_up() && !node.hangs(self.now);
        if listens {
            self.handle(side, Event::Command { id, command });
        }
        listens
    }

    /// A file is applied on a node: what it is started with from now on, and what its engine goes on with. Returns whether it
    /// runs and was told.
    pub fn reconfigure(&mut self, side: Side, config: helio_engine::Config) -> bool {
        let now = self.now;
        let node = self.node_mut(side);
        node.config = config.clone();
        let listens = node.is_up() && !node.hangs(now);
        if listens {
            node.peer_timeout = config.peer_timeout;
            self.handle(side, Event::Reconfigure { config });
        }
        listens
    }

    /// Breaks the link.
    pub fn break_link(&mut self, how: Breakage) {
        match how {
            Breakage::Reset => {
                self.wire.reset();
                for side in Side::BOTH {
                    if let Some(epoch) = self.wire.ends[side.index()].epoch {
                        let later = Duration::from_micros(self.content.dice.below(50_000));
                        self.push_wire(self.now + later, WireDue::Broken { side, epoch });
                    }
                }
            }
            Breakage::HalfOpen(side) => {
                self.wire.reset();
                if let Some(epoch) = self.wire.ends[side.index()].epoch {
                    self.push_wire(self.now, WireDue::Broken { side, epoch });
                }
            }
            Breakage::SilentFrom(side) => self.wire.cut(side),
            Breakage::Silent => Side::BOTH.iter().for_each(|side| self.wire.cut(*side)),
        }
    }

    /// Mends the link, with another profile if one is given.
    pub fn mend_link(&mut self, profile: Option<&Profile>) {
        if let Some(profile) = profile {
            self.wire.set_profile(profile);
        }
        for side in Side::BOTH {
            let arrivals = self.wire.heal(side, self.now);
            self.depart(side, arrivals);
        }
    }
}
