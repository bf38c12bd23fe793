// SPDX-License-Identifier: Apache-2.0
//! What the peer is told of the line and tells of it, and how long it may take.

use crate::lead::Primary;
use crate::local::Local;
use crate::peer::link::Session;
use crate::peer::permit::Permit;
use crate::peer::session::lasts;
use crate::record::Record;
use crate::record::save::Goal;
use crate::stream::line::Entry;
use crate::turn::Turn;
use alloc::string::String;
use core::time::Duration;
use helio_format::message::{Ack, Ping};
use helio_units::{Bytes, Generation, Rate};

/// A link slower than this may lose its peer over one long write; a short one always gets through in time.
const SLOWEST_LINK: Rate = Rate::mbit(1);

impl Primary {
    /// The time that an item on its way to the peer may take, if something sent is unacknowledged. A cursor moves only
    /// when an item has arrived whole: so the next one that has not gets its time on the slowest link. That the socket takes
    /// bytes proves nothing: a hung peer's kernel takes them too.
    pub(crate) fn outstanding(&self) -> Option<Duration> {
        let c = self.target.cursors();
        if !self.target.streams() || c.sent() <= c.durable() {
            return None;
        }
        let next = self.line.get(c.received().next()).map(Entry::item);
        let payload = next.filter(|item| item.sequence <= c.sent()).and_then(|item| item.payload);
        let bytes = match self.target.owed().cut() {
            Some(_) => self.copier.next_behind(c.received()),
            None => Bytes(payload.map_or(0, |payload| payload.length.into())),
        };
        Some(SLOWEST_LINK.time_for(bytes))
    }

    /// The peer acknowledges items.
    ///
    /// # Errors
    /// It cannot have what it says it has: the connection must end.
    pub(crate) fn peer_acknowledges(
        &mut self,
        ack: Ack,
        session: &mut Session,
        record: &mut Record,
        local: &Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> Result<(), String> {
        if self.target.heard(session.peer().map(|h| h.incarnation)) {
            // One that had no history has a record by now: its metadata changed at least once since it sent its hello.
            let began = session.peer().filter(|h| h.lineage.generation == Generation::NONE);
            let recorded = began.map(|h| h.metadata + 1);
            record.keeping_mut().ages_mut().hear(recorded.unwrap_or_default());
        }
        let moved = self.acknowledged(ack, local, permit, turn)?;
        if self.target.is_taken_up() && record.keeping_mut().ages_mut().taken_up() {
            record.want(Goal::Remember);
        }
        if moved && session.progressed(turn.now()) {
            turn.info(lasts(&turn.config().peer));
        }
        Ok(())
    }

    /// What a ping tells of its sender's line.
    pub(crate) fn describe(&self, ping: &mut Ping, local: &Local, turn: &Turn) {
        let lag = self.lag(turn.now(), local);
        ping.mode = Some(turn.config().mode);
        ping.accepted = self.line.head();
        ping.completed = self.covered();
        ping.backlog_bytes = lag.bytes.0;
        ping.backlog_items = lag.writes;
        ping.backlog_age = u64::try_from(lag.oldest.as_millis()).unwrap_or(u64::MAX);
    }
}
