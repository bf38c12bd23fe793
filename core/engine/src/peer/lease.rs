// SPDX-License-Identifier: Apache-2.0
//! The hold lease (rule 5): a secondary that has one may become primary although its peer cannot be asked.
//!
//! ```text
//!   secondary                                   primary
//!       │ ── wanted ──────────────────────────────> │   its record says: a lease of L may be out
//!       │    its time runs: L, by its own clock     │   only while no answer can be given without that peer
//!       │ <─────────────────────────────── granted  │   no answer without that peer for L x 1.01 + 1 s, by its own clock
//!       │ ── returned ────────────────────────────> │   or until this
//! ```
//! The secondary asked before the primary granted, and what it has is shorter: clocks whose speeds differ by no more
//! than 1 % cannot make the lease outlive the wait. Both must count the time in which their machine sleeps.
//!
//! * A secondary that restarts has no lease, and says so when it meets its primary; so does one that meets a primary
//!   which restarted.
//! * A primary that restarts waits from its start on, for as long as its record says a lease may be out.
//! * What is answered though the stream is not level, as at a reconnect, is what the peer has by its own word.
//! * When the wait ends, an attempt to connect must fail that began when the lease could not be used any more
//!   (`pause.rs`): a primary that can reach its heir never goes on, however its clock counted.
//! * A primary that is connected to its heir before it went on answered nothing that the heir lacks: it becomes
//!   secondary by itself. One that cannot reach its heir goes on; then the two have parted.

use crate::config::Config;
use crate::effect::Effect;
use crate::peer::link::Session;
use crate::refusal::Refusal;
use crate::turn::Turn;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use helio_format::lease::Lease as Talk;
use helio_format::message::Message;
use helio_format::superblock::Superblock;
use helio_plant::{Plant, planted};
use helio_units::{Mode, Moment};

/// The longest lease.
pub const HOLD_MAX: Duration = Duration::from_secs(600);
/// The shortest one: the next is asked for at half its time.
pub const HOLD_MIN: Duration = Duration::from_millis(100);
/// A wish that was not granted is repeated after that at the earliest.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// A primary waits that much longer than a lease lasts by the slowest clock.
const SLACK: Duration = Duration::from_secs(1);

/// What this node granted to its peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Granted {
    #[default]
    Nothing,
    /// A lease that may be out: nothing is acknowledged without the peer until then.
    Until(Moment),
    /// The peer used it: nothing is acknowledged without it any more, and this node leaves.
    Used,
}

/// A lease in the hands of this node.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The primary's process that granted it.
    by: u64,
    until: Moment,
}

/// How far this node's promotion by a lease is.
#[derive(Clone, Debug, Default)]
pub(crate) enum Takeover {
    #[default]
    No,
    Begun {
        until: Moment,
        /// The record before it.
        before: Box<Superblock>,
    },
    /// This node is primary by lease.
    Done,
}

/// What its own state lets this node do with a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Nothing,
    /// It may use the one that it holds.
    Keeps,
    /// It may ask for one: as far as is known here, the primary would grant it.
    Asks,
}

/// What this node granted, and what it was granted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease {
    granted: Granted,
    /// What is withheld will never be acknowledged: this node leaves the primary role without its peer.
    gives_up: bool,
    held: Option<Held>,
    /// When the time of the last request began to run, until it is granted or void.
    asked: Option<Moment>,
    /// The number of the last request.
    number: u64,
    ask_at: Moment,
    /// When the last lease ended unused.
    ended: Option<Moment>,
    takeover: Takeover,
}

/// How long the primary waits that granted `hold`.
fn wait_for(hold: Duration) -> Duration {
    hold + hold / 100 + SLACK
}

fn millis(hold: Duration) -> u32 {
    u32::try_from(hold.as_millis()).unwrap_or(u32::MAX)
}

pub(crate) fn say(talk: Talk) -> Effect {
    Effect::Send(Message::Lease(talk))
}

impl Granted {
    fn until(self) -> Option<Moment> {
        match self {
            Self::Nothing => None,
            Self::Until(until) => Some(until),
            Self::Used => Some(Moment::NEVER),
        }
    }
}

/// Of a primary.
impl Lease {
    /// The peer took over by the lease that this node granted.
    pub(crate) fn was_used(&self) -> bool {
        self.granted == Granted::Used
    }

    /// So it did.
    pub(crate) fn use_granted(&mut self, turn: &mut Turn) {
        let peer = &turn.config().peer;
        turn.warn(format!(
            "{peer} was promoted; this node has acknowledged nothing since, and becomes secondary"
        ));
        self.granted = Granted::Used;
    }

    /// Until when this node may take over by the lease that it was granted.
    pub(crate) fn held_until(&self) -> Option<Moment> {
        self.held.map(|held| held.until)
    }

    /// This node takes over by its lease. `before`: the record, should that not succeed in time.
    pub(crate) fn begin_takeover(&mut self, until: Moment, before: &Superblock, turn: &mut Turn) {
        let (peer, left) = (&turn.config().peer, until - turn.now());
        turn.info(format!(
            "{peer} is not connected; it acknowledges nothing without this node: the hold lease ends in {:.1} s",
            left.as_secs_f64()
        ));
        self.takeover = Takeover::Begun { until, before: Box::new(before.clone()) };
    }

    /// It did not succeed: nothing was recorded, or the record was put back. Returns what is told of that.
    pub(crate) fn end_takeover(&mut self, config: &Config) -> Refusal {
        self.takeover = Takeover::No;
        let (peer, group) = (&config.peer, &config.group);
        Refusal::new(
            "needs-force",
            format!(
                "the hold lease ended before this node became primary; {peer} may continue as primary"
            ),
            format!("make sure {peer} is down or fenced, then `helio promote {group} --force`"),
        )
    }

    /// Of a process that starts with that record.
    pub(crate) fn starting(record: &Superblock, now: Moment) -> Self {
        let hold = Duration::from_millis(record.hold.into());
        let granted =
            if hold.is_zero() { Granted::Nothing } else { Granted::Until(now + wait_for(hold)) };
        Self { granted, ..Self::default() }
    }

    /// Until when a primary acknowledges nothing without its peer, if the peer may hold a lease.
    pub(crate) fn granted(&self, now: Moment) -> Option<Moment> {
        self.granted.until().filter(|until| now < *until)
    }

    /// Whether a peer may hold a lease of this node's.
    pub(crate) fn is_out(&self, now: Moment) -> bool {
        self.granted(now).is_some()
    }

    /// Whether an answer without the peer's word must wait.
    pub(crate) fn withholds(&self, now: Moment) -> bool {
        // Until its end was taken note of: there it is checked that the peer did not use it (`pause.rs`).
        let ended = self.granted != Granted::Nothing && !planted(Plant::LeaseEndUnchecked);
        (self.is_out(now) || ended) && !planted(Plant::LeaseIgnored)
    }

    /// Whether what is withheld will never be acknowledged.
    pub(crate) fn gives_up(&self) -> bool {
        self.gives_up
    }

    /// When a peer that may hold a lease must hear of another mode: it gives back what it does not need.
    pub(crate) fn ping_at(&self, now: Moment) -> Moment {
        if self.is_out(now) { now } else { Moment::NEVER }
    }

    /// What a record that is made now says may be out.
    pub(crate) fn on_record(&self, recorded: u32, now: Moment) -> u32 {
        if self.is_out(now) { recorded } else { 0 }
    }

    /// What a primary's clients wait for, if the peer may hold a lease.
    pub(crate) fn text(&self, peer: &str, now: Moment) -> Option<String> {
        let left = (self.granted(now)? - now).as_secs_f64();
        Some(match self.granted {
            Granted::Used => format!("{peer} was promoted by its hold lease"),
            _ => format!(
                "{peer} may have a hold lease: acknowledgements wait for {peer}, at most {left:.1} s"
            ),
        })
    }

    /// The peer's own stream is followed: what it was granted means nothing any more.
    pub(crate) fn follows(&mut self) {
        self.granted = Granted::Nothing;
    }

    /// The peer has no lease. One that it used is not taken back. Returns whether that ends the wait.
    pub(crate) fn peer_returned(&mut self) -> bool {
        let unused = self.granted != Granted::Used;
        if unused {
            self.granted = Granted::Nothing;
        }
        unused
    }

    /// Notes the end of the wait, if it is over. Returns since when the peer cannot use its lease.
    pub(crate) fn end_wait(&mut self, now: Moment) -> Option<Moment> {
        let until = self.granted.until().filter(|until| now >= *until)?;
        self.granted = Granted::Nothing;
        Some(Moment(until.0.saturating_sub(SLACK.as_nanos() as u64)))
    }

    /// The peer was granted a lease of `hold`.
    pub(crate) fn grant(&mut self, hold: Duration, now: Moment) {
        self.granted = self.granted.max(Granted::Until(now + wait_for(hold)));
    }

    /// Returns whether that changed.
    pub(crate) fn set_gives_up(&mut self, gives_up: bool) -> bool {
        mem::replace(&mut self.gives_up, gives_up) != gives_up
    }

    /// This node is primary no more. If the peer used its lease, whoever promotes this node again, by force, means it.
    pub(crate) fn laid_down(&mut self) {
        self.takeover = Takeover::No;
        self.gives_up = false;
        if self.granted == Granted::Used {
            self.granted = Granted::Nothing;
        }
    }
}

/// Of a secondary.
impl Lease {
    /// Does what is due.
    pub(crate) fn step(&mut self, it_may: Use, up: bool, turn: &mut Turn) {
        let (now, hold) = (turn.now(), turn.config().hold);
        if let Some(held) = self.held.take_if(|held| now >= held.until) {
            self.ended = Some(held.until);
        }
        match it_may {
            Use::Asks if now < self.ask_at => {}
            Use::Asks => {
                self.number += 1;
                self.asked = Some(now);
                self.ask_at = now + (hold / 4).max(ASK_AGAIN);
                turn.push(say(Talk::Wanted { number: self.number, millis: millis(hold) }));
            }
            Use::Keeps if !up => {}
            _ if self.is_used() => {}
            _ => self.give_back(up, turn.effects()),
        }
    }

    /// The primary granted `hold`, at most, to a request of this node's.
    pub(crate) fn receive(&mut self, number: u64, by: u64, hold: Duration) {
        let Some(asked) = self.asked.take_if(|_| number == self.number) else { return };
        self.held = Some(Held { by, until: asked + hold });
        self.ask_at = asked + hold / 2;
    }

    /// Gives up what this node holds or asked for, and says so if the peer is connected.
    pub(crate) fn give_back(&mut self, up: bool, out: &mut Vec<Effect>) {
        let had = self.held.take().is_some() | self.asked.take().is_some();
        if had && up {
            out.push(say(Talk::Returned));
        }
    }

    /// The peer is met, and not refused: a lease of another process of it is void. A secondary without one says so.
    pub(crate) fn met(&mut self, session: &Session, secondary: bool, turn: &mut Turn) {
        let Some(by) = session.peer().map(|peer| peer.incarnation) else { return };
        self.asked = None;
        self.ask_at = turn.now();
        self.held.take_if(|held| held.by != by);
        if self.held.is_none() && secondary && !turn.config().hold.is_zero() {
            turn.push(say(Talk::Returned));
        }
    }

    /// This node is about to become primary by other means, or stops.
    pub(crate) fn is_not_needed(&mut self, up: bool, out: &mut Vec<Effect>) {
        if !matches!(self.takeover, Takeover::Begun { .. }) {
            self.takeover = Takeover::No;
            self.give_back(up, out);
        }
    }

    /// Why no lease helps.
    pub(crate) fn absence_text(&self, hold: Duration, now: Moment) -> String {
        match self.ended {
            _ if hold.is_zero() => String::new(),
            Some(ended) => {
                let ago = (now - ended).as_secs_f64();
                format!("; the hold lease ended {ago:.1} s ago")
            }
            None => String::from("; this node has no hold lease"),
        }
    }

    /// Whether this node is, or is about to be, primary by its lease.
    pub(crate) fn is_used(&self) -> bool {
        !matches!(self.takeover, Takeover::No)
    }

    /// A promotion by lease that took longer than the lease is none.
    pub(crate) fn ran_out(&self, now: Moment) -> bool {
        matches!(self.takeover, Takeover::Begun { until, .. } if now >= until)
    }

    /// It was recorded too late: the record is as it was before.
    pub(crate) fn shape_unpromoted(&self, b: &mut Superblock) {
        if let Takeover::Begun { before, .. } = &self.takeover {
            let (remembers, suspect) = (b.remembers, b.suspect);
            b.clone_from(before);
            (b.remembers, b.suspect) = (remembers, suspect);
            // If a flush failed since then, the marks prove nothing.
            b.marks_void |= suspect & !before.suspect != 0;
        }
    }

    /// This node becomes primary: what it held is void. Says by what it is, if that was the lease.
    pub(crate) fn promoted(&mut self, now: Moment) -> String {
        (self.held, self.asked) = (None, None);
        let Takeover::Begun { until, .. } = mem::take(&mut self.takeover) else {
            return String::new();
        };
        self.takeover = Takeover::Done;
        let left = (until - now).as_secs_f64();
        format!(", by the hold lease, which ends in {left:.1} s")
    }

    /// When something is due. A primary holds none, and asks for none.
    pub(crate) fn deadline(&self, it_may: Use) -> Moment {
        let over = self.granted.until().unwrap_or(Moment::NEVER);
        let ends = self.held.map_or(Moment::NEVER, |held| held.until);
        let ask = if it_may == Use::Asks { self.ask_at } else { Moment::NEVER };
        over.min(ends).min(ask)
    }
}

impl Config {
    /// Whether answers in this mode are such that a lease may be out: none is given without the peer.
    pub(crate) fn may_lease(&self) -> bool {
        !self.hold.is_zero() && self.mode != Mode::Async
    }

    /// What a primary's record says may be out.
    pub(crate) fn hold_millis(&self) -> u32 {
        if self.may_lease() { millis(self.hold) } else { 0 }
    }
}
