// SPDX-License-Identifier: Apache-2.0
//! What lies between the two nodes: one connection at a time, reliable and in order as TCP is, over two directions of
//! the link model.
//!
//! ```text
//!   send ─> backlog ─(socket has room: took)─> in the socket ─(link model)─> arrives ─> inbox while paused or hung
//!                                                   └─ direction cut: held up until it heals
//! ```
//! What the link drops, TCP sends again: loss is delay. A cut direction is silence: nothing arrives and nobody is
//! told; when it heals, what was held up goes on. Parcels lie in one queue per direction and each arrival takes the
//! first, so that nothing overtakes. An end that closes tells the other behind what it sent before, if the
//! direction carries it; a power cut tells nobody.

use crate::Stamp;
use crate::node::Side;
use core::time::Duration;
use helio_format::message::Message;
use helio_netmodel::{Dice, Direction, DropReason, Profile, Verdict};
use helio_units::{Bytes, Moment};
use std::collections::VecDeque;

/// How long TCP waits before it sends again, at least.
const RETRANSMIT_AFTER: Duration = Duration::from_millis(200);
/// How often it tries before the model lets the segment through: the loss of a profile is never total.
const RETRANSMITS_MAX: u32 = 12;

/// The first attempt to connect again comes after this; each next one twice as late, up to the longest, as `edge/link` has it.
const DIAL_AFTER: Duration = Duration::from_millis(100);
const DIAL_LONGEST: Duration = Duration::from_secs(2);

/// The pause before the next attempt to connect after so many that failed; counts it.
pub(crate) fn retry_after(failures: &mut u32) -> Duration {
    let pause = (DIAL_AFTER * 2u32.pow((*failures).min(5))).min(DIAL_LONGEST);
    *failures += 1;
    pause
}

/// How a connection breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breakage {
    /// Both ends are told.
    Reset,
    /// Nothing arrives any more from that side.
    SilentFrom(Side),
    /// Nothing arrives any more, either way.
    Silent,
    /// The connection is gone, and only that side is told: the other believes in it still.
    HalfOpen(Side),
}

/// What travels.
#[derive(Clone, Debug)]
pub(crate) enum Cargo {
    /// The connection stands.
    Opened,
    Message(Message, Vec<Stamp>),
    /// The other end closed.
    Closed(&'static str),
}

/// Cargo of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    pub(crate) epoch: u64,
    pub(crate) size: Bytes,
    pub(crate) cargo: Cargo,
}

/// One node's end.
#[derive(Debug)]
pub(crate) struct End {
    /// The connection it believes in.
    pub(crate) epoch: Option<u64>,
    /// When it may try to connect again, and how often it failed.
    pub(crate) retry_at: Moment,
    pub(crate) failures: u32,
    /// Sent by the engine, not taken by the socket.
    backlog: VecDeque<Parcel>,
    in_socket: Bytes,
    /// Taken by the socket, on its way from here.
    flight: VecDeque<Parcel>,
    /// How many of them would have arrived, were the direction not cut.
    held_up: u32,
    /// Arrived here, not read yet.
    pub(crate) inbox: VecDeque<Parcel>,
    /// A connection that the other end believes in already and this one accepts later; 0 for none.
    pub(crate) accepting: u64,
    direction: Direction,
    cut: bool,
    last_arrival: Moment,
    dice: Dice,
}

/// The link between the nodes.
#[derive(Debug)]
pub struct Wire {
    pub(crate) ends: [End; 2],
    /// Connections so far.
    pub(crate) epochs: u64,
    /// Nothing of a connection up to this one arrives any more.
    broken: u64,
    /// A handshake is under way.
    pub(crate) dialling: bool,
    /// What a socket holds unacknowledged.
    socket: Bytes,
    /// The next connection is accepted so much later than it stands for the one who dialled.
    pub(crate) late: Duration,
}

impl Wire {
    /// A link of one profile both ways, whose sockets hold `socket` bytes.
    #[must_use]
    pub fn new(profile: &Profile, socket: Bytes, dice: &Dice) -> Self {
        let end = |side: Side| End {
            epoch: None,
            retry_at: Moment::ZERO,
            failures: 0,
            backlog: VecDeque::new(),
            in_socket: Bytes::ZERO,
            flight: VecDeque::new(),
            held_up: 0,
            inbox: VecDeque::new(),
            accepting: 0,
            direction: Direction::new(profile.clone()),
            cut: false,
            last_arrival: Moment::ZERO,
            dice: dice.split_nth("wire", side.index() as u64),
        };
        Self {
            ends: [end(Side::Paris), end(Side::Lyon)],
            epochs: 0,
            broken: 0,
            dialling: false,
            socket,
            late: Duration::ZERO,
        }
    }

    /// Gives both directions another profile.
    pub fn set_profile(&mut self, profile: &Profile) {
        for end in &mut self.ends {
            end.direction.set_profile(profile.clone());
        }
    }

    /// Whether nothing arrives from that side.
    #[must_use]
    pub fn is_cut(&self, from: Side) -> bool {
        self.ends[from.index()].cut
    }

    /// The next parcel the process of that side can read: of a connection it did not accept yet it reads nothing.
    pub(crate) fn next_in(&mut self, side: Side) -> Option<Parcel> {
        let end = &mut self.ends[side.index()];
        let at = end.inbox.iter().position(|parcel| parcel.epoch != end.accepting)?;
        end.inbox.remove(at)
    }

    /// Whether both ends believe in the same connection, and both directions carry.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let [a, b] = &self.ends;
        a.epoch.is_some() && a.epoch == b.epoch && !a.cut && !b.cut
    }

    /// How long a handshake takes.
    pub(crate) fn round_trip(&self) -> Duration {
        self.ends.iter().map(|end| end.direction.profile().delay).sum()
    }

    pub(crate) fn cut(&mut self, from: Side) {
        self.ends[from.index()].cut = true;
    }

    /// The direction carries again. Returns when what was held up arrives.
    pub(crate) fn heal(&mut self, from: Side, now: Moment) -> Vec<Moment> {
        let end = &mut self.ends[from.index()];
        end.cut = false;
        let held_up = core::mem::take(&mut end.held_up) as usize;
        let sizes: Vec<Bytes> = end.flight.iter().take(held_up).map(|p| p.size).collect();
        sizes.into_iter().map(|size| end.transit(now, size)).collect()
    }

    /// The engine of that side says something. Returns whether there is a connection to say it on.
    pub(crate) fn send(&mut self, from: Side, size: Bytes, cargo: Cargo) -> bool {
        let end = &mut self.ends[from.index()];
        let Some(epoch) = end.epoch else { return false };
        end.backlog.push_back(Parcel { epoch, size, cargo });
        true
    }

    /// The socket takes what it has room for. Returns how many bytes of the connection in force; `arrivals` gets the
    /// moments at which they arrive.
    pub(crate) fn pump(&mut self, from: Side, now: Moment, arrivals: &mut Vec<Moment>) -> Bytes {
        let end = &mut self.ends[from.index()];
        let mut took = Bytes::ZERO;
        while let Some(front) = end.backlog.front() {
            let room = end.in_socket == Bytes::ZERO || end.in_socket + front.size <= self.socket;
            if !room {
                break;
            }
            let Some(parcel) = end.backlog.pop_front() else { break };
            end.in_socket += parcel.size;
            if end.epoch == Some(parcel.epoch) {
                took += parcel.size;
            }
            if end.cut {
                end.held_up += 1;
            } else {
                arrivals.push(end.transit(now, parcel.size));
            }
            end.flight.push_back(parcel);
        }
        took
    }

    /// The first parcel on its way reaches the other side's kernel, if it gets there; a cut holds it up.
    pub(crate) fn arrive(&mut self, from: Side) -> Option<Parcel> {
        let end = &mut self.ends[from.index()];
        if end.cut {
            end.held_up += 1;
            return None;
        }
        let parcel = end.flight.pop_front()?;
        (!self.is_broken(parcel.epoch)).then_some(parcel)
    }

    /// Whether a connection broke and carries nothing any more.
    pub(crate) fn is_broken(&self, epoch: u64) -> bool {
        epoch <= self.broken
    }

    /// The connection in force breaks: nothing of it arrives any more.
    pub(crate) fn reset(&mut self) {
        self.broken = self.epochs;
    }

    /// The receiving process read a parcel: the sender's socket has room again.
    pub(crate) fn was_read(&mut self, from: Side, parcel: &Parcel) {
        let end = &mut self.ends[from.index()];
        if end.epoch.is_none_or(|epoch| epoch == parcel.epoch) {
            end.in_socket = end.in_socket.saturating_sub(parcel.size);
        }
    }

    /// An end closes. What it sent before still travels, unless `abrupt`.
    pub(crate) fn close(&mut self, side: Side, abrupt: bool, why: &'static str) {
        let end = &mut self.ends[side.index()];
        let Some(epoch) = end.epoch.take() else { return };
        if abrupt {
            end.backlog.clear();
        }
        let accepting = end.accepting;
        end.inbox.retain(|parcel| parcel.epoch == accepting);
        end.backlog.push_back(Parcel { epoch, size: Bytes(1), cargo: Cargo::Closed(why) });
    }

    /// An end is gone without a word.
    pub(crate) fn vanish(&mut self, side: Side) {
        let end = &mut self.ends[side.index()];
        end.epoch = None;
        end.accepting = 0;
        end.backlog.clear();
        end.inbox.clear();
        if end.cut {
            // Nobody is left to send it again.
            end.flight.iter_mut().for_each(|parcel| parcel.epoch = 0);
        }
    }

    /// An end takes part in a new connection.
    pub(crate) fn establish(&mut self, side: Side, epoch: u64) {
        let end = &mut self.ends[side.index()];
        end.epoch = Some(epoch);
        end.backlog.clear();
        let accepting = end.accepting;
        end.inbox.retain(|parcel| parcel.epoch == epoch || parcel.epoch == accepting);
        end.in_socket = Bytes::ZERO;
        end.failures = 0;
    }
}

impl End {
    /// When something of that size, sent now, arrives. A lost segment comes again a time-out later and holds up what
    /// follows it; a full queue holds up the sender.
    fn transit(&mut self, now: Moment, size: Bytes) -> Moment {
        let (mut wait, mut tries) = (Duration::ZERO, 0);
        let arrival = loop {
            match self.direction.offer(now, size, &mut self.dice) {
                Verdict::Deliver { at } => break at + wait,
                Verdict::Drop(DropReason::QueueFull) => {
                    break self.direction.room_at(now, size) + self.direction.profile().delay;
                }
                Verdict::Drop(_) => {
                    tries += 1;
                    wait += RETRANSMIT_AFTER.max(self.direction.profile().delay * 2);
                    if tries == RETRANSMITS_MAX {
                        break now + wait;
                    }
                }
            }
        };
        self.last_arrival = self.last_arrival.max(arrival);
        self.last_arrival
    }
}
