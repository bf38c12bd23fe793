// SPDX-License-Identifier: Apache-2.0
//! Files that complete nothing. Time is counted in looks: a pause of this process is one look, however long it takes.

#[cfg(test)]
use crate::shard::token::{Kind, unpack};
#[cfg(test)]
use helio_driver::{Completion, Driver, Host, Op, Socket, Token, Waker};
use helio_units::Moment;
use std::time::Duration;

/// So many looks fit into the member timeout.
const LOOKS: u32 = 8;

/// When to look next at files that have operations under way.
#[derive(Debug)]
pub(crate) struct Timetable {
    look_at: Moment,
    timeout: Duration,
}

impl Timetable {
    /// A file may complete nothing for that long.
    pub(crate) const fn new(timeout: Duration) -> Self {
        Self { look_at: Moment::NEVER, timeout }
    }

    /// From now on a file may complete nothing for that long.
    pub(crate) fn set_timeout(&mut self, now: Moment, timeout: Duration) {
        self.timeout = timeout;
        if self.look_at != Moment::NEVER {
            self.look_at = self.look_at.min(now + timeout / LOOKS);
        }
    }

    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) const fn next(&self) -> Moment {
        self.look_at
    }

    /// An operation is under way from now on.
    pub(crate) fn submitted(&mut self, now: Moment) {
        if self.look_at == Moment::NEVER {
            self.look_at = now + self.timeout / LOOKS;
        }
    }

    /// Whether it is time to look. `works`: operations are under way.
    pub(crate) fn is_due(&mut self, now: Moment, works: bool) -> bool {
        let due = now >= self.look_at;
        if due {
            self.look_at = if works { now + self.timeout / LOOKS } else { Moment::NEVER };
        }
        due
    }
}

/// What is under way on one file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    operations: u32,
    /// How many looks found operations under way since the last one ended.
    looks: u32,
    /// The last so many of them found nothing under way on the other file.
    alone: u32,
}

impl Watched {
    pub(crate) const fn works(&self) -> bool {
        self.operations > 0
    }

    pub(crate) const fn submitted(&mut self) {
        self.operations += 1;
    }

    pub(crate) const fn ended(&mut self) {
        *self = Self { operations: self.operations - 1, looks: 0, alone: 0 };
    }

    /// `alone`: nothing is under way on the other file, if there is one.
    pub(crate) const fn look(&mut self, alone: bool) {
        self.looks = if self.works() { self.looks + 1 } else { 0 };
        self.alone = if self.works() && alone { self.alone + 1 } else { 0 };
    }

    /// It has completed nothing for the whole timeout.
    pub(crate) const fn is_silent(&self) -> bool {
        self.looks > LOOKS
    }

    /// It has completed nothing for the whole timeout, in which nothing was under way on the other file.
    pub(crate) const fn is_silent_alone(&self) -> bool {
        self.alone > LOOKS
    }
}

/// A driver that completes what a test says, and nothing else: the details of what was submitted, and the operations.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Held(pub(crate) Vec<u32>, pub(crate) Vec<(Kind, Op)>);

#[cfg(test)]
impl Driver for Held {
    fn submit(&mut self, token: Token, op: Op) {
        let (kind, _, detail) = unpack(token);
        self.0.push(detail);
        self.1.push((kind, op));
    }

    fn cancel(&mut self, _: &Socket) {}

    fn wait(&mut self, _: Option<Duration>, _: &mut Vec<Completion>) -> std::io::Result<()> {
        Ok(())
    }

    fn host(&self) -> &Host {
        static HOST: std::sync::LazyLock<Host> =
            std::sync::LazyLock::new(helio_driver::Linux::host);
        &HOST
    }

    fn waker(&self) -> Waker {
        unreachable!("nothing sleeps")
    }
}
