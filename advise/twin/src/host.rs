// SPDX-License-Identifier: Apache-2.0
//! Two nodes in virtual time: what falls due, and doing what the engines ask for.

use crate::content::{Content, Payloads, Step};
use crate::happening::Happening;
use crate::node::{Hook, Node, Side};
use crate::queue::{Next, Queue};
use crate::words;
use helio_engine::{Effect, Event, HookQuestion, Keep, Kept, Leg, ReadAs, StoreOp};
use helio_format::frame::HEADER_BYTES;
use helio_format::message::{Message, Parting, Ping};
use helio_ledger::{self as ledger, Change, MapOwner};
use helio_units::{Bytes, IoId, Moment};

/// An operation under way on a node's disk.
#[derive(Debug)]
pub struct Io {
    pub(crate) io: IoId,
    pub(crate) leg: Leg,
    pub(crate) op: StoreOp,
    pub(crate) read_as: ReadAs,
}

/// What falls due. What names a `life` means nothing to a later one of its node.
#[derive(Debug)]
pub enum Due<C: Content> {
    /// Of a node, in one of its lives.
    Node { side: Side, life: u64, what: NodeDue<C> },
    /// Of what lies between the nodes.
    Other(C::Due),
}

/// What falls due of a node.
#[derive(Debug)]
pub enum NodeDue<C: Content> {
    /// An event reaches its process.
    Event(Box<Event>),
    /// A store operation ends.
    Stored(Io),
    /// A step of its metadata file ends.
    Kept,
    /// A step of its before-image file ends.
    Preserved,
    /// Of its process.
    Process(C::NodeDue),
}

/// Two nodes and what lies between them.
#[derive(Debug)]
pub struct Host<C: Content> {
    /// The nodes, in the order of [`Side::BOTH`].
    pub nodes: [Node<C>; 2],
    /// What lies between them.
    pub wire: C::Wire,
    pub(crate) now: Moment,
    queue: Queue<Due<C>>,
    pub(crate) content: C,
    /// Effects that are being performed, and the bytes of a message: kept for their memory.
    pub(crate) effects: Vec<Effect>,
    body: Vec<u8>,
}

impl<C: Content> Host<C> {
    pub(crate) fn with(nodes: [Node<C>; 2], wire: C::Wire, content: C) -> Self {
        Self {
            nodes,
            wire,
            now: Moment::ZERO,
            queue: Queue::new(C::TIMERS.len()),
            content,
            effects: Vec::new(),
            body: Vec::new(),
        }
    }

    /// The virtual time.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.now
    }

    /// One of the nodes.
    #[must_use]
    pub fn node(&self, side: Side) -> &Node<C> {
        &self.nodes[side.index()]
    }

    /// One of the nodes, to change.
    pub fn node_mut(&mut self, side: Side) -> &mut Node<C> {
        &mut self.nodes[side.index()]
    }

    pub(crate) fn push(&mut self, at: Moment, due: Due<C>) {
        self.queue.push(self.now, at, C::rank(&due), due);
    }

    pub(crate) fn push_node(&mut self, at: Moment, side: Side, what: NodeDue<C>) {
        let life = self.node(side).life;
        self.push(at, Due::Node { side, life, what });
    }

    /// Sets the timer of that number, in the order of [`Content::TIMERS`].
    pub(crate) fn set(&mut self, timer: usize, at: Moment) {
        self.queue.set(timer, self.now, at, C::rank(&Due::Other(C::TIMERS[timer])));
    }

    pub(crate) fn timer(&self, timer: usize) -> Moment {
        self.queue.timer(timer)
    }

    /// When the next event falls due.
    #[must_use]
    pub fn next_at(&self) -> Option<Moment> {
        self.queue.next_at()
    }

    /// Lets time pass to `at`, if nothing falls due before.
    pub fn pass_to(&mut self, at: Moment) {
        self.now = self.now.max(at);
    }

    /// Takes one event. Returns false where none is left.
    pub fn step(&mut self) -> bool {
        let Some((at, next)) = self.queue.take(self.now) else { return false };
        self.now = at;
        match next {
            Next::Timer(timer) => C::due(self, C::TIMERS[timer]),
            Next::Once(Due::Other(due)) => C::due(self, due),
            Next::Once(Due::Node { side, life, what }) => {
                let node = self.node(side);
                if node.life == life && node.is_up() {
                    if node.hangs(at) {
                        let until = node.hung_until;
                        self.push_node(until, side, what);
                    } else {
                        self.node_due(side, what);
                    }
                }
            }
        }
        true
    }

    /// Takes every event up to `until`, and lets time pass to there.
    pub fn run_until(&mut self, until: Moment) {
        while self.next_at().is_some_and(|at| at <= until) {
            self.step();
        }
        self.pass_to(until);
    }

    fn node_due(&mut self, side: Side, what: NodeDue<C>) {
        match what {
            NodeDue::Event(event) => C::event(self, side, *event),
            NodeDue::Stored(asked) => {
                if let Some(at) = C::silent(self, side, &asked) {
                    return self.push_node(at, side, NodeDue::Stored(asked));
                }
                let io = asked.io;
                let outcome = C::stored(self, side, asked);
                C::event(self, side, Event::StoreDone { io, outcome });
            }
            NodeDue::Kept => self.kept(side),
            NodeDue::Preserved => {
                let step = C::preserved(self, side);
                self.preserve_step(side, step);
            }
            NodeDue::Process(due) => C::node_due(self, side, due),
        }
    }

    /// Performs at `at` what the engine of a node asks for.
    pub(crate) fn perform(&mut self, side: Side, effects: &mut Vec<Effect>, at: Moment) {
        for effect in effects.drain(..) {
            // Behind `Stopped` the process is gone: its layers and disks get nothing more of what they asked for.
            if is_of_stores(&effect) && !self.node(side).is_up() {
                continue;
            }
            if self.content.is_story()
                && let Some(words) = words::of_effect(&effect)
            {
                self.content.happened(|| Happening::Told { side, words });
            }
            match effect {
                Effect::Reply { request, answer } => C::reply(self, side, request, answer),
                Effect::Store { io, leg, op, read_as } => {
                    let asked = Io { io, leg, op, read_as };
                    let ends = C::store(self, side, &asked, at);
                    self.push_node(ends, side, NodeDue::Stored(asked));
                }
                Effect::Look { io, volume, extent, payload, read_as } => {
                    let (leg, op) = (Leg::whole(volume), StoreOp::Read { extent });
                    let outcome = C::look(self, side, Io { io, leg, op, read_as }, payload);
                    C::event(self, side, Event::StoreDone { io, outcome });
                }
                Effect::Send(message) => self.send(side, message),
                Effect::Hangup { refused, .. } => C::hang_up(self, side, refused, at),
                Effect::SaveSuperblock(superblock) => {
                    self.keep(side, Change::Superblock(Box::new(superblock)), at);
                }
                Effect::Keep(Keep::Hot { ticket, add, remove }) => {
                    self.keep(side, Change::Hot { ticket, add, remove }, at);
                }
                Effect::Keep(Keep::Marks { page, bits }) => {
                    let owner = MapOwner::Peer(0);
                    self.keep(side, Change::Marks { owner, page, bits }, at);
                }
                Effect::Pool(op) => {
                    let step = C::preserve(self.node_mut(side), op, at);
                    self.preserve_step(side, step);
                }
                Effect::Record(record) => {
                    let change = C::record(self.node(side), record);
                    self.keep(side, change, at);
                }
                Effect::Compare { name, pair } => {
                    let equal = C::compare(self.node(side), pair);
                    C::event(self, side, Event::Compared { name, equal });
                }
                Effect::Release(id) => self.node_mut(side).pool.release(id),
                Effect::PauseReceiving(pause) => C::pause(self, side, pause, at),
                Effect::CommandDone { id, result } => {
                    let result = result.map(|done| done.text);
                    self.content.happened(|| Happening::Commanded { side, id, result });
                }
                Effect::Note(note) => {
                    self.content.happened(|| Happening::Noted { side, words: note.text });
                }
                Effect::DismissClients => {}
                Effect::Stopped => C::stopped(self, side),
                Effect::AskHook(question) => self.ask_hook(side, question, at),
            }
        }
    }

    /// The operator's hook is asked; how it behaves is the node's [`Hook`].
    fn ask_hook(&mut self, side: Side, question: HookQuestion, at: Moment) {
        let Hook { takes, refuses } = self.node(side).hook;
        self.content.happened(|| Happening::HookAsked { slow: !takes.is_zero(), refuses });
        let refused = refuses.then(|| String::from("not now"));
        let answered = Event::HookAnswered { question, refused };
        self.push_node(at + takes, side, NodeDue::Event(Box::new(answered)));
    }

    /// Sends a message to the peer.
    pub(crate) fn send(&mut self, side: Side, message: Message) {
        if let Message::Goodbye { parting: Parting::Protocol, text } = &message {
            self.content.happened(|| Happening::Accused { side, words: text.clone() });
        }
        if let Message::Ping(Ping { token, .. }) = message {
            self.content.happened(|| Happening::Pinged { side, token });
        }
        let mut body = core::mem::take(&mut self.body);
        body.clear();
        message.encode(&mut body);
        let payload = u64::from(message.payload_length());
        let size = Bytes((HEADER_BYTES + body.len()) as u64 + payload);
        C::send(self, side, message, &body, size);
        self.body = body;
    }

    /// A message reaches the process of a node, with what comes with it.
    pub(crate) fn receive(
        &mut self,
        side: Side,
        mut message: Message,
        data: <C::Pool as Payloads>::Data,
    ) {
        if message.payload().is_some() {
            let id = self.node_mut(side).pool.receive(&message, data);
            message.name_payload(id);
        }
        C::event(self, side, Event::Message(message));
    }

    fn keep(&mut self, side: Side, change: Change, at: Moment) {
        if let Some(ends) = C::keep(self.node_mut(side), change, at) {
            self.push_node(ends, side, NodeDue::Kept);
        }
    }

    /// A step of the metadata file ends.
    fn kept(&mut self, side: Side) {
        let now = self.now;
        let (kept, next) = C::kept(self.node_mut(side), now);
        if let Some(at) = next {
            self.push_node(at, side, NodeDue::Kept);
        }
        for kept in kept {
            let sequence = C::sequence(self.node(side));
            let event = match kept {
                ledger::Kept::Superblock { ok } => {
                    C::saved(self, side, ok);
                    Event::SuperblockSaved { ok, sequence }
                }
                ledger::Kept::Hot { ticket, ok } => {
                    Event::Kept { kept: Kept::Hot { ticket }, ok, sequence }
                }
                ledger::Kept::Members { ok }
                | ledger::Kept::Marks { owner: MapOwner::Member { .. }, ok, .. } => {
                    Event::Recorded { ok, sequence }
                }
                ledger::Kept::Marks { page, ok, .. } => {
                    Event::Kept { kept: Kept::Marks { page }, ok, sequence }
                }
                // Nothing waits for a map: a page of it is written behind it. Disks of this host have no stamps.
                ledger::Kept::Map { .. } | ledger::Kept::Epochs { .. } => continue,
            };
            C::event(self, side, event);
        }
    }

    fn preserve_step(&mut self, side: Side, step: Step) {
        match step {
            Step::Ends(at) => self.push_node(at, side, NodeDue::Preserved),
            Step::Over(outcome) => C::event(self, side, Event::PoolDone(outcome)),
        }
    }
}

/// Whether the layers or disks of a process ask for an effect, which means nothing to anyone else.
const fn is_of_stores(effect: &Effect) -> bool {
    use Effect::{Compare, Look, Pool, Record, Release, Store};
    matches!(effect, Store { .. } | Look { .. } | Pool(_) | Record(_) | Compare { .. } | Release(_))
}
