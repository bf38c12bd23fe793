// SPDX-License-Identifier: Apache-2.0
//! The process of a node: what came lies in an inbox until the next turn, and a turn takes its time.

use super::pair::Processor;
use core::time::Duration;
use helio_engine::Event;
use helio_format::message::Message;
use helio_units::Moment;
use std::collections::VecDeque;

/// The process of one node.
#[derive(Debug, Default)]
pub struct Shard {
    /// What came since the last turn.
    pub(super) inbox: Vec<Event>,
    /// Bytes that came with it and are looked at: payload in and out.
    pub(super) moved: u64,
    /// The turn under way ends then.
    pub(super) busy: Moment,
    /// What the socket took and the engine was not told yet.
    pub(super) took: u64,
    /// The engine has stopped reading from its peer.
    pub(super) paused: bool,
    /// Messages that arrive while it does, each with its size in bytes.
    pub(super) unread: VecDeque<(Option<Message>, u64)>,
    /// It believes in the connection.
    pub(super) connected: bool,
}

impl Shard {
    /// How long a turn takes that handles so many events and moves so many bytes.
    pub(super) fn turn_time(&mut self, work: Processor, events: u64) -> Duration {
        let bytes = core::mem::take(&mut self.moved);
        let nanos =
            work.event.as_nanos() as u64 * events + work.kib.as_nanos() as u64 * bytes / 1024;
        work.turn + Duration::from_nanos(nanos)
    }

    /// The connection is gone, and what came on it.
    pub(super) fn disconnect(&mut self) -> bool {
        self.paused = false;
        self.unread.clear();
        core::mem::take(&mut self.connected)
    }
}
