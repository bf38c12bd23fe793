// SPDX-License-Identifier: Apache-2.0
//! How TLS begins with a client: its arithmetic is done by a thread of the driver, for one client after the other.
//!
//! ```text
//!   Settled ──STARTTLS──> Due ──what was said in plain is sent──> Here ──bytes arrived──> Away
//!      ^                                                           │ ^                     │
//!      └──── it is over or failed, and what it says is sent ───────┘ └──── it is done ─────┘
//! ```
//! A handshake with a key of RSA takes milliseconds, and strangers choose how many there are: the thread of the shard would serve nothing
//! else meanwhile. One at a time leaves the other CPUs to those who use volumes.

use helio_driver::{Answer, Computation};
use helio_tls::{NbdTls, Session};
use std::collections::VecDeque;

/// What became of the bytes that arrived.
#[derive(Debug)]
pub(super) struct Step {
    session: Session,
    used: usize,
}

/// Where the TLS of a connection stands that does not have it yet.
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
    waiting: VecDeque<(usize, u32)>,
    busy: bool,
}

impl Turns {
    /// Bytes arrived for a slot's handshake. One that was worked on goes first: what is left of it is quick.
    pub(super) fn wait(&mut self, (slot, epoch): (usize, u32), shaken: bool) {
        if self.waiting.contains(&(slot, epoch)) {
            return;
        }
        if shaken {
            self.waiting.push_front((slot, epoch));
        } else {
            self.waiting.push_back((slot, epoch));
        }
    }

    /// Whether anybody waits for a turn.
    pub(super) fn any_wait(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whose turn it is, if the thread is free. [`Turns::began`] takes it.
    pub(super) fn next(&mut self) -> Option<(usize, u32)> {
        if self.busy { None } else { self.waiting.pop_front() }
    }

    /// The thread works.
    pub(super) const fn began(&mut self) {
        self.busy = true;
    }

    /// It has ended.
    pub(super) const fn ended(&mut self) {
        self.busy = false;
    }
}
