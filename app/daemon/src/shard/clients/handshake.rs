// SPDX-License-Identifier: Apache-2.0
//! How TLS begins with a client: its arithmetic is done by a thread of the driver, for one client after the other.
//!
//! ```text
//!   Settled ──STARTTLS──> Due ──what was said in plain is sent──> Here ──bytes arrived──> Away
//!      ^                                                           │ ^                     │
//!      └──── it is over or failed, and what it says is sent ───────┘ └──── it is done ─────┘
//! ```
//! A handshake with a key of RSA takes milliseconds, and strangers choose how many there are: while the thread of the shard
//! computed them, no group would be served. Only one runs at a time, so that the other CPUs serve the groups.

use helio_driver::{Answer, Computation};
use helio_tls::{NbdTls, Session};
use std::collections::VecDeque;

/// What became of the bytes that arrived.
#[derive(Debug)]
pub(super) struct Step {
    session: Session,
    used: usize,
}

/// The state of a TLS handshake, until the stream has the session.
#[derive(Debug, Default)]
pub(super) enum Handshake {
    /// It is not asked for, or the stream has it.
    #[default]
    Settled,
    /// It begins once what was said in plain is sent.
    Due,
    /// It waits for bytes of the client, or for its turn.
    Here(Session),
    /// A thread works on it.
    Away(Answer<Step>),
}

impl Handshake {
    /// Whether the client may be read in plain, or by the stream's TLS.
    pub(super) const fn is_settled(&self) -> bool {
        matches!(self, Self::Settled)
    }

    /// Whether bytes of the client may arrive now.
    pub(super) const fn listens(&self) -> bool {
        matches!(self, Self::Settled | Self::Here(_))
    }

    /// Whether a part of it is done: the rest is quick.
    pub(super) const fn has_begun(&self) -> bool {
        matches!(self, Self::Here(session) if session.has_begun())
    }

    /// Whether it has something to do with bytes that arrived.
    pub(super) fn wants_bytes(&self) -> bool {
        matches!(self, Self::Here(session) if !is_over(session))
    }

    /// Everything said so far is sent. Returns the session of a handshake that is over, for the stream.
    pub(super) fn quiet(&mut self, tls: Option<&NbdTls>, out: &mut Vec<u8>) -> Option<Session> {
        if let (Self::Due, Some(tls)) = (&self, tls) {
            *self = Self::Here(tls.accept());
        }
        match std::mem::take(self) {
            Self::Here(session) if is_over(&session) => return Some(session),
            Self::Here(mut session) => {
                session.take_output(out);
                *self = Self::Here(session);
            }
            other => *self = other,
        }
        None
    }

    /// Bytes arrived: the work to do with them.
    pub(super) fn begin(&mut self, wire: &[u8]) -> Option<Computation> {
        if !self.wants_bytes() {
            return None;
        }
        let Self::Here(mut session) = std::mem::take(self) else { return None };
        let wire = wire.to_vec();
        let (computation, answer) = Computation::new(move || {
            let used = session.shake(&wire);
            Step { session, used }
        });
        *self = Self::Away(answer);
        Some(computation)
    }

    /// The work was done: how many of the bytes were used. `None`: it panicked, and the session is lost.
    pub(super) fn done(&mut self) -> Option<usize> {
        let Self::Away(answer) = self else { return None };
        let Step { session, used } = answer.take()?;
        *self = Self::Here(session);
        Some(used)
    }
}

fn is_over(session: &Session) -> bool {
    session.has_failed() || !session.is_handshaking()
}

/// Those whose handshake has bytes to work on, and whether a thread works on one.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Those that have begun, whose rest is quick as a rule, and the others. They take turns, since a client may begin with a single byte.
    begun: VecDeque<(usize, u32)>,
    new: VecDeque<(usize, u32)>,
    last_was_begun: bool,
    busy: bool,
}

impl Turns {
    /// Bytes arrived for a slot's handshake.
    pub(super) fn wait(&mut self, slot: (usize, u32), begun: bool) {
        if !self.begun.contains(&slot) && !self.new.contains(&slot) {
            if begun { &mut self.begun } else { &mut self.new }.push_back(slot);
        }
    }

    /// Whether anybody waits for a turn.
    pub(super) fn any_wait(&self) -> bool {
        !self.begun.is_empty() || !self.new.is_empty()
    }

    /// Removes and returns the next one, if no thread works on another one.
    pub(super) fn next(&mut self) -> Option<(usize, u32)> {
        if self.busy {
            return None;
        }
        self.last_was_begun =
            !self.begun.is_empty() && (!self.last_was_begun || self.new.is_empty());
        if self.last_was_begun { &mut self.begun } else { &mut self.new }.pop_front()
    }

    /// A thread works on one.
    pub(super) const fn began(&mut self) {
        self.busy = true;
    }

    /// That has ended.
    pub(super) const fn ended(&mut self) {
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
        turns.began();
        assert_eq!(turns.next(), None);
        turns.ended();
        let order: Vec<_> = std::iter::from_fn(|| turns.next()).map(|(slot, _)| slot).collect();
        assert_eq!((order, turns.any_wait()), (vec![10, 1, 20, 2], false));
    }
}
