// SPDX-License-Identifier: Apache-2.0
//! How TLS begins with one who called: its arithmetic is done by a thread of the driver, for one caller after the other.
//!
//! ```text
//!   Settled ──TLS begins──> Due ──what was said in plain is sent──> Here ──bytes arrived──> Away
//!      ^                                                             │ ^                     │
//!      └─────── it is over or failed, and what it says is sent ──────┘ └──── it is done ─────┘
//! ```
//! A handshake with a key of RSA takes milliseconds, one between nodes a third of one, and strangers choose how many there are: while
//! the thread of the shard computed them, no group would be served. Of each port only one runs at a time, so that the other CPUs
//! serve the groups. A connection that this node makes itself begins on the shard's thread: there is one for each group, and its
//! attempts are backed off.

use super::stream::Stream;
use super::token::{Kind, token};
use helio_driver::{Answer, Computation, Driver, Op, Piece};
use helio_tls::Session;
use std::collections::VecDeque;

/// What became of the bytes that arrived.
#[derive(Debug)]
pub(crate) struct Step {
    session: Session,
    used: usize,
}

/// The state of a TLS handshake, until the stream has the session.
#[derive(Debug, Default)]
pub(crate) enum Handshake {
    /// It is not asked for, or the stream has it.
    #[default]
    Settled,
    /// It begins once what was said in plain is sent.
    Due(Session),
    /// It waits for bytes of the caller, or for its turn.
    Here(Session),
    /// A thread works on it.
    Away(Answer<Step>),
}

impl Handshake {
    /// Whether the caller may be read in plain, or by the stream's TLS.
    pub(crate) const fn is_settled(&self) -> bool {
        matches!(self, Self::Settled)
    }

    /// Whether bytes of the caller are to arrive now: while a thread has the session, nothing could open them, and behind the end of the
    /// handshake the session may have plain bytes already.
    pub(crate) fn listens(&self) -> bool {
        match self {
            Self::Settled => true,
            Self::Here(session) => !is_over(session),
            Self::Due(_) | Self::Away(_) => false,
        }
    }

    /// Whether a part of it is done: the rest is quick.
    pub(crate) const fn has_begun(&self) -> bool {
        matches!(self, Self::Here(session) if session.has_begun())
    }

    /// Goes on once everything said so far is with the socket: puts what is to be said next to `out`, or gives the session of a handshake
    /// that is over to the stream. Returns whether it did the latter.
    pub(crate) fn go_on(&mut self, stream: &mut Stream, out: &mut Vec<Piece>) -> bool {
        if self.is_settled() || stream.is_sending() || !out.iter().all(Piece::is_empty) {
            return false;
        }
        match std::mem::take(self) {
            Self::Here(session) if is_over(&session) => {
                stream.secure(session);
                return true;
            }
            Self::Due(mut session) | Self::Here(mut session) => {
                let mut said = Vec::new();
                session.take_output(&mut said);
                if !said.is_empty() {
                    out.push(Piece::Bytes(said));
                }
                *self = Self::Here(session);
            }
            other => *self = other,
        }
        false
    }

    /// Whether it has something to do with bytes that arrived.
    pub(crate) fn wants_turn(&self, stream: &Stream) -> bool {
        matches!(self, Self::Here(session) if !is_over(session)) && !stream.unread().is_empty()
    }

    /// The work to do with them.
    pub(crate) fn begin(&mut self, stream: &Stream) -> Option<Computation> {
        if !self.wants_turn(stream) {
            return None;
        }
        let Self::Here(mut session) = std::mem::take(self) else { return None };
        let wire = stream.unread().to_vec();
        let (computation, answer) = Computation::new(move || {
            let used = session.shake(&wire);
            Step { session, used }
        });
        *self = Self::Away(answer);
        Some(computation)
    }

    /// The work was done. Returns false if it panicked, and the session is lost.
    pub(crate) fn done(&mut self, stream: &mut Stream) -> bool {
        let Self::Away(answer) = self else { return false };
        let Some(Step { session, used }) = answer.take() else { return false };
        *self = Self::Here(session);
        stream.consume(used);
        true
    }
}

fn is_over(session: &Session) -> bool {
    session.has_failed() || !session.is_handshaking()
}

/// Those of one port whose handshake has bytes to work on, and whether a thread works on one.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Those that have begun, whose rest is quick as a rule, and the others. They take turns, since a caller may begin with a single byte.
    begun: VecDeque<(usize, u32)>,
    new: VecDeque<(usize, u32)>,
    last_was_begun: bool,
    busy: bool,
}

impl Turns {
    /// Bytes arrived for a slot's handshake.
    pub(crate) fn wait(&mut self, slot: (usize, u32), begun: bool) {
        if !self.begun.contains(&slot) && !self.new.contains(&slot) {
            if begun { &mut self.begun } else { &mut self.new }.push_back(slot);
        }
    }

    /// Whether anybody waits for a turn.
    pub(crate) fn any_wait(&self) -> bool {
        !self.begun.is_empty() || !self.new.is_empty()
    }

    /// Gives the next piece of work to a thread, unless one is busy. `work` returns that of a slot: none if the caller has left.
    pub(crate) fn hand_out(
        &mut self,
        kind: Kind,
        driver: &mut dyn Driver,
        mut work: impl FnMut((usize, u32)) -> Option<Computation>,
    ) {
        while let Some((slot, epoch)) = self.next() {
            if let Some(computation) = work((slot, epoch)) {
                self.busy = true;
                driver.submit(token(kind, slot, epoch), Op::Compute(computation));
            }
        }
    }

    /// Removes and returns the next one, if no thread works on another one.
    fn next(&mut self) -> Option<(usize, u32)> {
        if self.busy {
            return None;
        }
        self.last_was_begun =
            !self.begun.is_empty() && (!self.last_was_begun || self.new.is_empty());
        if self.last_was_begun { &mut self.begun } else { &mut self.new }.pop_front()
    }

    /// The work that was handed out has ended.
    pub(crate) const fn ended(&mut self) {
        self.busy = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_that_have_begun_take_turns_with_new_ones_and_each_waits_once() {
        let mut turns = Turns::default();
        for slot in [1, 1, 2] {
            turns.wait((slot, 0), false);
            turns.wait((10 * slot, 0), true);
        }
        turns.busy = true;
        assert_eq!(turns.next(), None);
        turns.ended();
        let order: Vec<_> = std::iter::from_fn(|| turns.next()).map(|(slot, _)| slot).collect();
        assert_eq!((order, turns.any_wait()), (vec![10, 1, 20, 2], false));
    }
}
