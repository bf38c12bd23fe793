// SPDX-License-Identifier: Apache-2.0
//! Which control connections were refused, for the daemon's log.

use crate::shard::{Port, RefusalLog};
use helio_units::Moment;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A log that tasks share.
#[derive(Debug)]
pub(super) struct Refusals {
    begun: Instant,
    log: Mutex<RefusalLog>,
}

impl Refusals {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), log: Mutex::new(RefusalLog::new(Port::Control)) }
    }

    /// A connection was refused.
    pub(super) fn refused(&self, from: Option<SocketAddr>, why: &str) {
        self.with(|log, now| log.refused(from, why, now));
    }

    /// A connection could not be accepted.
    pub(super) fn not_accepted(&self, why: &str) {
        self.with(|log, now| log.not_accepted(why, now));
    }

    fn with(&self, act: impl FnOnce(&mut RefusalLog, Moment)) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut log, Moment::ZERO + self.begun.elapsed());
    }
}
