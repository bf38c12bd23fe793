// SPDX-License-Identifier: Apache-2.0
//! Pings and pongs: when the next ping is due, how long an answer takes, and since when the peer makes no progress.

use crate::config::Config;
use core::time::Duration;
use helio_plant::{Plant, planted};
use helio_units::{Moment, State};

/// A follower short of hot extents hears this often how far the primary is.
const TELLS_SHORT_EVERY: Duration = Duration::from_millis(5);

/// What the peer's last pong said of its store, and what a ping asked for since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    Idle,
    /// It flushes, or waits for a disk that does not complete an operation.
    Busy,
    /// A ping asked the peer to flush at once. `busy`: as its last pong said before.
    Asked {
        busy: bool,
    },
}

/// What is measured on a connection, and when it counts as lost (`lost_at`). `began`, `progress_at` and the least round trip begin
/// anew when one begins; the pings that are due or under way end with it.
#[derive(Clone, Debug)]
pub(crate) struct Heartbeat {
    /// When this connection, or the last one, began.
    began: Moment,
    /// When the peer's last message came: nothing else shows that it is there.
    last_heard: Option<Moment>,
    /// When a cursor of the peer moved last, or nothing was outstanding.
    progress_at: Moment,
    store: Store,
    next_ping: Moment,
    /// The number of pings so far: the token of the last one.
    pings: u64,
    /// The oldest ping without an answer.
    ping_sent: Option<(u64, Moment)>,
    /// The state in the last ping, of a primary.
    told_state: Option<State>,
    round_trip: Option<Duration>,
    /// The least of this connection.
    round_trip_least: Option<Duration>,
}

impl Heartbeat {
    pub(crate) const fn new(now: Moment) -> Self {
        Self {
            began: now,
            last_heard: None,
            progress_at: now,
            store: Store::Idle,
            next_ping: Moment::NEVER,
            pings: 0,
            ping_sent: None,
            told_state: None,
            round_trip: None,
            round_trip_least: None,
        }
    }

    pub(crate) fn connected(&mut self, now: Moment) {
        self.round_trip_least = None;
        self.began = now;
        if planted(Plant::ConnectedIsHeard) {
            self.last_heard = Some(now);
        }
        self.progress_at = now;
    }

    /// The conversation begins: a ping is due.
    pub(crate) const fn begin(&mut self, now: Moment) {
        self.progress_at = now;
        self.next_ping = now;
    }

    pub(crate) const fn disconnected(&mut self) {
        self.next_ping = Moment::NEVER;
        self.ping_sent = None;
        self.store = Store::Idle;
    }

    pub(crate) const fn heard(&mut self, now: Moment) {
        self.last_heard = Some(now);
    }

    pub(crate) const fn progressed(&mut self, now: Moment) {
        self.progress_at = now;
    }

    /// A ping is due no later than `at`.
    pub(crate) fn ping_by(&mut self, at: Moment) {
        self.next_ping = self.next_ping.min(at);
    }

    /// A ping is due at `at`, and only the answer to that one or to a later one counts.
    pub(crate) const fn ping_anew(&mut self, at: Moment) {
        self.ping_sent = None;
        self.next_ping = at;
    }

    /// A ping is due: it is time, or a primary's state is not the one in the last ping.
    pub(crate) fn is_due(&self, state: Option<State>, now: Moment) -> bool {
        now >= self.next_ping || state.is_some() && state != self.told_state
    }

    /// No ping asked the peer to flush at once since its last pong.
    pub(crate) const fn may_hurry(&self) -> bool {
        !matches!(self.store, Store::Asked { .. })
    }

    /// A ping is sent. Returns its token.
    pub(crate) fn pinged(
        &mut self,
        hurry: bool,
        state: Option<State>,
        every: Duration,
        now: Moment,
    ) -> u64 {
        self.pings += 1;
        self.ping_sent.get_or_insert((self.pings, now));
        self.next_ping = now + every;
        if hurry {
            self.store = Store::Asked { busy: self.is_busy() };
        }
        self.told_state = state;
        self.pings
    }

    /// A pong came. `busy`: the peer's store flushes or waits. Returns whether it answers the oldest ping without an answer.
    pub(crate) fn pong(&mut self, token: u64, busy: bool, short: bool, now: Moment) -> bool {
        if short {
            self.ping_by(now + TELLS_SHORT_EVERY);
        }
        self.store = if busy { Store::Busy } else { Store::Idle };
        let Some((_, at)) = self.ping_sent.take_if(|(expected, _)| *expected == token) else {
            return false;
        };
        let took = now - at;
        self.round_trip = Some(took);
        self.round_trip_least = Some(self.round_trip_least.map_or(took, |least| least.min(took)));
        true
    }

    pub(crate) const fn began(&self) -> Moment {
        self.began
    }

    pub(crate) const fn last_heard(&self) -> Option<Moment> {
        self.last_heard
    }

    /// The last one, and the least of this connection.
    pub(crate) const fn round_trips(&self) -> (Option<Duration>, Option<Duration>) {
        (self.round_trip, self.round_trip_least)
    }

    pub(crate) const fn next_ping(&self) -> Moment {
        self.next_ping
    }

    const fn is_busy(&self) -> bool {
        matches!(self.store, Store::Busy | Store::Asked { busy: true })
    }

    /// Since when the peer makes no progress. `outstanding`: the time that an item on its way may take, if something sent
    /// is unacknowledged.
    pub(crate) fn quiet_since(&self, outstanding: Option<Duration>) -> Moment {
        if outstanding.is_some() { self.progress_at } else { self.heard_since() }
    }

    /// Whether nothing went on since soon after the hello, for about as long as a peer is waited for. One whose store is busy is not stuck.
    pub(crate) fn is_stuck_since(
        &self,
        hello: Moment,
        peer_timeout: Duration,
        now: Moment,
    ) -> bool {
        let soon = hello + peer_timeout / 4;
        self.progress_at <= soon && now >= hello + peer_timeout * 3 / 4 && !self.is_busy()
    }

    /// When the peer's last message came. A connection is given its time, whatever was silent before it.
    fn heard_since(&self) -> Moment {
        self.last_heard.map_or(self.began, |heard| heard.max(self.began))
    }

    /// When the peer counts as lost.
    pub(crate) fn lost_at(&self, outstanding: Option<Duration>, config: &Config) -> Moment {
        let timeout = config.peer_timeout;
        let quiet = self.quiet_since(outstanding) + timeout;
        let at = if outstanding.is_some() && self.is_busy() {
            // It pings while its store is busy: what it said of that excuses no silence.
            (self.progress_at + config.flush_limit).min(self.heard_since() + timeout).max(quiet)
        } else {
            quiet
        };
        at + outstanding.unwrap_or_default()
    }
}
