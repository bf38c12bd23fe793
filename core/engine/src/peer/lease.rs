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
use crate::engine::Engine;
use crate::event::CommandId;
use crate::follow::follower::Follower;
use crate::peer::outgoing::Pace;
use crate::record::save::Goal;
use crate::refusal::Refusal;
use crate::role::{Following, Leave};
use crate::stream::unreplicated::Unreplicated;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use helio_format::lease::Lease as Talk;
use helio_format::lineage::Relation;
use helio_format::message::Message;
use helio_format::superblock::Superblock;
use helio_plant::{Plant, planted};
use helio_units::{Mode, Moment, State};

/// The longest lease.
pub const HOLD_MAX: Duration = Duration::from_secs(600);
/// The shortest one: the next is asked for at half its time.
pub const HOLD_MIN: Duration = Duration::from_millis(100);
/// A wish that was not granted is repeated after that at the earliest.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// A primary waits that much longer than a lease lasts by the slowest clock.
const SLACK: Duration = Duration::from_secs(1);

/// A lease in the hands of this node.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The primary's process that granted it.
    by: u64,
    until: Moment,
}

/// A promotion by lease on its way.
#[derive(Clone, Debug)]
struct Using {
    until: Moment,
    /// The record before it.
    before: Box<Superblock>,
}

/// What this node granted, and what it was granted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease {
    /// Nothing is answered without the peer until then.
    out: Option<Moment>,
    /// The peer used it: this node leaves.
    superseded: bool,
    /// What is withheld will never be answered: this node leaves the primary role without its peer.
    pub(crate) gives_up: bool,
    held: Option<Held>,
    /// The last wish and when its time began to run, until it is granted or void.
    asked: Option<(u64, Moment)>,
    numbers: u64,
    ask_at: Moment,
    /// When the last lease ended unused.
    ended: Option<Moment>,
    using: Option<Using>,
    /// This node is primary by lease.
    leads: bool,
}

/// How long the primary waits that granted `hold`.
fn wait_for(hold: Duration) -> Duration {
    hold + hold / 100 + SLACK
}

fn millis(hold: Duration) -> u32 {
    u32::try_from(hold.as_millis()).unwrap_or(u32::MAX)
}

impl Lease {
    /// Of a process that starts with that record.
    pub(crate) fn starting(record: &Superblock, now: Moment) -> Self {
        let hold = Duration::from_millis(record.hold.into());
        Self { out: (!hold.is_zero()).then(|| now + wait_for(hold)), ..Self::default() }
    }

    /// Whether a peer may hold a lease of this node's.
    pub(crate) fn is_out(&self, now: Moment) -> bool {
        self.out.is_some_and(|until| now < until)
    }

    /// Whether an answer without the peer's word must wait.
    pub(crate) fn withholds(&self, now: Moment) -> bool {
        // Until its end was taken note of: there it is checked that the peer did not use it (`pause.rs`).
        let out = self.is_out(now) || self.out.is_some() && !planted(Plant::LeaseEndUnchecked);
        out && !planted(Plant::LeaseIgnored)
    }

    /// What a record that is made now says may be out.
    pub(crate) fn on_record(&self, recorded: u32, now: Moment) -> u32 {
        if self.is_out(now) { recorded } else { 0 }
    }

    /// The peer's own stream is followed: what it was granted means nothing any more.
    pub(crate) fn follows(&mut self) {
        self.out = None;
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

impl Engine {
    /// Whether this node is, or is about to be, primary by its hold lease.
    #[must_use]
    pub fn leads_by_lease(&self) -> bool {
        self.shared.lease.leads || self.shared.lease.using.is_some()
    }

    /// Until when this node may become primary by its hold lease, if it has one.
    #[must_use]
    pub fn lease_held(&self) -> Option<Moment> {
        let until = self.shared.lease.held?.until;
        (self.shared.now < until && self.can_use_lease()).then_some(until)
    }

    /// Until when this primary answers nothing without its peer, if the peer may hold a lease.
    #[must_use]
    pub fn lease_granted(&self) -> Option<Moment> {
        let lease = &self.shared.lease;
        lease.out.filter(|until| self.standing.leads() && self.shared.now < *until)
    }

    /// What that means for clients, while it does.
    pub(crate) fn withheld_text(&self) -> Option<String> {
        let Some(until) = self.lease_granted() else { return self.unchecked_text() };
        let peer = &self.shared.config.peer;
        if self.shared.lease.superseded {
            return Some(format!("{peer} was promoted by its hold lease"));
        }
        let left = (until - self.shared.now).as_secs_f64();
        Some(format!(
            "{peer} may have a hold lease: acknowledgements wait for {peer}, at most {left:.1} s"
        ))
    }

    /// Whether its own state lets this node use a lease, or ask for one.
    fn can_use_lease(&self) -> bool {
        self.shared.config.may_lease()
            && self.standing.is(Following::Secondary)
            && !self.asked.switches()
            && self.is_consistent()
            && self.standing.follower().is_some_and(|f| f.streams() && f.failed().is_none())
            && !self.shared.metadata_failed
    }

    /// Does what is due.
    pub(crate) fn lease_step(&mut self) {
        let now = self.shared.now;
        if let Some(until) = self.shared.lease.out.take_if(|until| now >= *until) {
            self.lease_waited(Moment(until.0.saturating_sub(SLACK.as_nanos() as u64)));
            self.answer_withheld();
        }
        if self.standing.leads() {
            self.give_withheld_up();
            return;
        }
        if let Some(held) = self.shared.lease.held
            && now >= held.until
        {
            self.shared.lease.held = None;
            self.shared.lease.ended = Some(held.until);
        }
        let using = self.shared.lease.using.is_some();
        let up = self.session.peer().is_some();
        if self.wants_lease() {
            if now >= self.shared.lease.ask_at {
                self.ask_lease();
            }
        } else if !using && (up || !self.can_use_lease()) {
            self.return_lease();
        }
    }

    /// Whether a lease would be granted, as far as is known here.
    fn wants_lease(&self) -> bool {
        let told = self.session.told().and_then(|(ping, _)| ping.state);
        self.session.peer().is_some_and(|hello| hello.serving)
            && told == Some(State::Replicating)
            && self.standing.follower().is_some_and(Follower::is_begun)
            && self.can_use_lease()
    }

    /// Answers what waited for a hold to end.
    pub(crate) fn answer_withheld(&mut self) {
        if let Some(primary) = self.standing.primary_mut() {
            primary.consider_all(&mut self.shared);
        }
    }

    /// What nobody will answer any more is told so, and a primary whose peer took over leaves.
    fn give_withheld_up(&mut self) {
        let away = self.standing.primary().is_some_and(|primary| primary.flow.is_none());
        let gives_up = away && self.standing.is_leaving_for_good();
        if gives_up != self.shared.lease.gives_up {
            self.shared.lease.gives_up = gives_up;
            self.answer_withheld();
        }
        if gives_up {
            self.give_held_up();
        }
        if self.shared.lease.superseded && self.standing.serves() {
            let left = self.leave(None, Leave::Secondary);
            assert!(left.is_ok(), "a primary cannot leave: {left:?}");
        }
    }

    fn ask_lease(&mut self) {
        let (now, hold) = (self.shared.now, self.shared.config.hold);
        let lease = &mut self.shared.lease;
        lease.numbers += 1;
        lease.asked = Some((lease.numbers, now));
        lease.ask_at = now + (hold / 4).max(ASK_AGAIN);
        let number = lease.numbers;
        self.shared.send(Message::Lease(Talk::Wanted { number, millis: millis(hold) }));
    }

    /// Gives up what this node holds or asked for, and says so where it can.
    pub(crate) fn return_lease(&mut self) {
        let lease = &mut self.shared.lease;
        let had = lease.held.take().is_some() | lease.asked.take().is_some();
        if had && self.session.peer().is_some() {
            self.shared.send(Message::Lease(Talk::Returned));
        }
    }

    /// The peer is met, and not refused: a lease of another process of it is void.
    pub(crate) fn lease_met(&mut self) {
        let Some(by) = self.session.peer().map(|peer| peer.incarnation) else { return };
        let now = self.shared.now;
        let lease = &mut self.shared.lease;
        lease.asked = None;
        lease.ask_at = now;
        lease.held.take_if(|held| held.by != by);
        let none = lease.held.is_none();
        if none && self.standing.is(Following::Secondary) && !self.shared.config.hold.is_zero() {
            self.shared.send(Message::Lease(Talk::Returned));
        }
    }

    pub(crate) fn peer_talks_lease(&mut self, talk: Talk) {
        match talk {
            Talk::Wanted { number, millis } => self.lease_wanted(number, millis),
            Talk::Granted { number, millis } => self.granted_lease(number, millis),
            Talk::Returned => {
                if !self.shared.lease.superseded {
                    self.shared.lease.out = None;
                    self.answer_withheld();
                }
            }
        }
    }

    /// Grants, where no answer can be given without the peer; says nothing otherwise.
    fn lease_wanted(&mut self, number: u64, wanted: u32) {
        let b = &self.superblock;
        let config = &self.shared.config;
        let Some(p) = self.standing.primary() else { return };
        let level = matches!(p.flow.as_ref().map(|flow| flow.pace), Some(Pace::Level { .. }));
        let together = level
            && self.standing.serves()
            && config.may_lease()
            && p.effective(config.mode) != Mode::Async
            && p.owed.marker().is_none()
            && p.lack.is_none()
            && p.unreplicated == Unreplicated::Together
            && !(b.alone || self.is_saving() || self.shared.metadata_failed);
        let millis = wanted.min(b.hold).min(config.hold_millis());
        if !together || millis == 0 {
            return;
        }
        let until = self.shared.now + wait_for(Duration::from_millis(millis.into()));
        let lease = &mut self.shared.lease;
        lease.out = lease.out.max(Some(until));
        self.shared.send(Message::Lease(Talk::Granted { number, millis }));
    }

    fn granted_lease(&mut self, number: u64, granted: u32) {
        let Some(by) = self.session.peer().map(|peer| peer.incarnation) else { return };
        let hold = self.shared.config.hold.min(Duration::from_millis(granted.into()));
        let lease = &mut self.shared.lease;
        let Some((_, asked)) = lease.asked.take_if(|(asked, _)| *asked == number) else { return };
        lease.held = Some(Held { by, until: asked + hold });
        lease.ask_at = asked + hold / 2;
    }

    /// Becomes primary by the lease, where there is one.
    pub(crate) fn promote_by_lease(&mut self, id: CommandId) -> bool {
        let Some(until) = self.lease_held() else { return false };
        let (peer, left) = (&self.shared.config.peer, until - self.shared.now);
        self.shared.info(format!(
            "{peer} is not connected; it acknowledges nothing without this node: the hold lease ends in {:.1} s",
            left.as_secs_f64()
        ));
        self.shared.lease.using = Some(Using { until, before: Box::new(self.superblock.clone()) });
        self.begin_promotion(Some(id), false);
        true
    }

    /// Why no lease helps.
    pub(crate) fn no_lease_text(&self) -> String {
        match self.shared.lease.ended {
            _ if self.shared.config.hold.is_zero() => String::new(),
            Some(ended) => {
                let ago = (self.shared.now - ended).as_secs_f64();
                format!("; the hold lease ended {ago:.1} s ago")
            }
            None => String::from("; this node has no hold lease"),
        }
    }

    /// A promotion by lease that took longer than the lease is none.
    pub(crate) fn lease_ran_out(&self) -> bool {
        self.shared.lease.using.as_ref().is_some_and(|using| self.shared.now >= using.until)
    }

    /// The promotion ends before anything was recorded, or when the record was put back.
    pub(crate) fn lease_failed(&mut self, command: Option<CommandId>) {
        self.shared.lease.using = None;
        self.standing.stand(Following::resting(self.superblock.role));
        let (peer, group) = (&self.shared.config.peer, &self.shared.config.group);
        let refusal = Refusal::new(
            "needs-force",
            format!(
                "the hold lease ended before this node became primary; {peer} may continue as primary"
            ),
            format!("make sure {peer} is down or fenced, then `helio promote {group} --force`"),
        );
        command.into_iter().for_each(|id| self.done(id, Err(refusal.clone())));
    }

    /// It was recorded too late: the record is put back.
    pub(crate) fn undo_promotion(&mut self) {
        self.save(Goal::Unpromoted);
    }

    pub(crate) fn shape_unpromoted(&mut self, b: &mut Superblock) {
        if let Some(using) = &self.shared.lease.using {
            let (remembers, suspect) = (b.remembers, b.suspect);
            b.clone_from(&using.before);
            (b.remembers, b.suspect) = (remembers, suspect);
            // If a flush failed since then, the marks prove nothing.
            b.marks_void |= suspect & !using.before.suspect != 0;
        }
    }

    /// This node becomes primary: what it held is void. Says by what it is, where that was the lease.
    pub(crate) fn lease_used(&mut self) -> String {
        let lease = &mut self.shared.lease;
        lease.held = None;
        lease.asked = None;
        let used = lease.using.take();
        lease.leads = used.is_some();
        used.map_or_else(String::new, |using| {
            let left = (using.until - self.shared.now).as_secs_f64();
            format!(", by the hold lease, which ends in {left:.1} s")
        })
    }

    /// This node is about to become primary by other means, or stops.
    pub(crate) fn lease_is_not_needed(&mut self) {
        if self.shared.lease.using.is_none() {
            self.return_lease();
        }
        self.shared.lease.leads = false;
    }

    /// The peer introduced itself while this primary waits for its lease to end: as primary, by that lease?
    pub(crate) fn lease_taken(&mut self) {
        let withholds = self.shared.withholds();
        let (Some(p), Some(peer)) = (self.standing.primary(), self.session.peer()) else { return };
        let Relation::Descendant(fork) = self.superblock.lineage.relation_of(&peer.lineage) else {
            return;
        };
        let same = p.peer_incarnation == Some(peer.incarnation) && peer.sure && fork >= p.answered;
        if withholds && same && !self.shared.lease.superseded {
            let name = &self.shared.config.peer;
            self.shared.warn(format!(
                "{name} was promoted; this node has acknowledged nothing since, and becomes secondary"
            ));
            self.shared.lease.superseded = true;
            self.shared.lease.out = Some(Moment::NEVER);
        }
    }

    /// The mode asked for changed: a peer that knows gives back what it does not need.
    pub(crate) fn lease_mode_changed(&mut self) {
        if self.shared.lease.is_out(self.shared.now) {
            self.session.ping_by(self.shared.now);
        }
    }

    pub(crate) fn lease_deadline(&self) -> Moment {
        let lease = &self.shared.lease;
        let over = lease.out.unwrap_or(Moment::NEVER);
        if self.standing.leads() {
            return over;
        }
        let ends = lease.held.map_or(Moment::NEVER, |held| held.until);
        let ask = if self.wants_lease() { lease.ask_at } else { Moment::NEVER };
        over.min(ends).min(ask)
    }

    /// This node is primary no more.
    pub(crate) fn lease_laid_down(&mut self) {
        self.pause_forgotten();
        let lease = &mut self.shared.lease;
        lease.leads = false;
        lease.gives_up = false;
        if core::mem::take(&mut lease.superseded) {
            // What was used up is out no more: whoever promotes this node again, by force, means it.
            lease.out = None;
        }
    }
}
